//! What is written and not stored is limited for the disks of servers, and no others; the kernel's settings come back.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use vpfs_e2e::requirements::{are_present, missing};
use vpfs_e2e::{Daemon, await_some, command, free_ports, output, run};

const PATIENCE: Duration = Duration::from_secs(20);

/// A file system on a disk of its own.
struct Disk {
    mount: PathBuf,
    device: String,
}

impl Disk {
    /// `None`, which is reported, if this machine or user cannot.
    fn new(dir: &Path, name: &str) -> Option<Self> {
        if !are_present("loop", &["losetup", "mkfs.ext4", "mount"]) {
            return None;
        }
        let (image, mount) = (dir.join(format!("{name}.img")), dir.join(name));
        fs::create_dir(&mount).expect("a directory");
        fs::File::create(&image).and_then(|file| file.set_len(64 << 20)).expect("a file");
        run(Command::new("mkfs.ext4").args(["-q", "-F"]).arg(&image));
        let device = output(Command::new("losetup").args(["--show", "--find"]).arg(&image));
        let disk = Self { mount, device: String::from_utf8_lossy(&device.stdout).trim().to_owned() };
        let mounted = output(Command::new("mount").arg(&disk.device).arg(&disk.mount));
        if !mounted.status.success() || !disk.setting("strict_limit").exists() {
            missing("loop", "this user may not mount loop devices, or the kernel is older than 6.2");
            return None;
        }
        Some(disk)
    }

    fn setting(&self, name: &str) -> PathBuf {
        let number = fs::read_to_string(format!("/sys/class/block/{}/dev", &self.device[5..])).unwrap_or_default();
        Path::new("/sys/class/bdi").join(number.trim()).join(name)
    }

    /// The bytes to which it is limited.
    fn limit(&self) -> Option<u64> {
        let read = |name| fs::read_to_string(self.setting(name)).expect("a setting").trim().parse::<u64>();
        (read("strict_limit") == Ok(1)).then(|| read("max_bytes").expect("a number"))
    }

    fn await_limit(&self, is_right: impl Fn(Option<u64>) -> bool) {
        await_some(PATIENCE, || match self.limit() {
            limit if is_right(limit) => Ok(()),
            limit => Err(format!("{limit:?}")),
        });
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        output(Command::new("umount").arg(&self.mount));
        output(Command::new("losetup").args(["--detach", &self.device]));
    }
}

/// The settings of all disks.
fn settings() -> BTreeMap<PathBuf, String> {
    let disks = fs::read_dir("/sys/class/bdi").expect("disks").flatten();
    let files = disks.flat_map(|disk| ["strict_limit", "max_ratio_fine"].map(|name| disk.path().join(name)));
    files.map(|path| (path.clone(), fs::read_to_string(path).unwrap_or_default())).collect()
}

/// Those that are not what they were; disks come and go with other tests.
fn changed(before: &BTreeMap<PathBuf, String>) -> Vec<&Path> {
    let is_changed = |(path, value): &(&PathBuf, &String)| fs::read_to_string(path).is_ok_and(|now| now != **value);
    before.iter().filter(is_changed).map(|(path, _)| path.as_path()).collect()
}

/// A proxy in front of a server that never runs, with its data on a disk.
fn proxy(dir: &Path, name: &str, disk: &Disk, rest: &str) -> Daemon {
    let port = free_ports(2);
    let config = format!(
        "[[server]]\nname = \"s1\"\naddress = \"nfs://127.0.0.1:{port}\"\ndata = \"{}\"\n\
         [[listener]]\naddresses = {{ s1 = \"nfs://127.0.0.1:{}\" }}\n{rest}",
        disk.mount.display(),
        port + 1
    );
    fs::write(dir.join(name), config).expect("a file");
    let mut proxy = Daemon::start(dir, &format!("{name}-proxy"), &mut command(dir, &["proxy", "--config", name]));
    proxy.await_log("ready");
    proxy
}

#[test]
fn disks_of_servers_are_limited_while_a_proxy_runs() {
    let dir = tempfile::tempdir().expect("a directory");
    let Some((disk, other)) = Disk::new(dir.path(), "data").zip(Disk::new(dir.path(), "other")) else { return };
    let (before, others) = (settings(), other.setting("strict_limit"));

    let mut first = proxy(dir.path(), "first", &disk, "");
    disk.await_limit(|limit| limit.is_some());
    assert!(fs::read_to_string(others).is_ok_and(|text| text.trim() == "0"), "another disk");
    let own = disk.setting("strict_limit");
    let of_others = |path: &&Path| path.parent() != own.parent();
    assert_eq!(changed(&before).into_iter().filter(of_others).collect::<Vec<_>>(), [""; 0].map(Path::new));
    assert!(disk.limit() < Some(2 << 20), "the least, as nobody has written");

    let mut second = proxy(dir.path(), "second", &disk, "[limits]\nwrite_back = \"2MiB\"\n");
    second.await_log("this is its disk");
    first.signal("TERM");
    first.wait();
    disk.await_limit(|limit| limit.is_some_and(|limit| limit.abs_diff(2 << 20) < 1 << 18));
    second.kill();
    disk.await_limit(|limit| limit.is_none());
    await_some(PATIENCE, || if changed(&before).is_empty() { Ok(()) } else { Err(format!("{:?}", changed(&before))) });

    let text = fs::read_to_string(dir.path().join("first")).expect("ours").replacen("127.0.0.1", "192.0.2.1", 1);
    fs::write(dir.path().join("elsewhere"), text).expect("a file");
    let mut limit = command(dir.path(), &["write-back", "--config", "elsewhere", "--server", "s1"]);
    Daemon::start(dir.path(), "elsewhere-limit", &mut limit).await_log("no server is on this host");

    let mut observing = proxy(dir.path(), "third", &disk, "[scheduler]\nmode = \"observe\"\n");
    observing.signal("TERM");
    observing.wait();
    assert!(changed(&before).is_empty());
}
