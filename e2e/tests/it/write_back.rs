//! What is written and not stored is limited for the disks of servers, and no others; the kernel's settings come back.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use vpfs_e2e::requirements::{are_present, missing};
use vpfs_e2e::{Daemon, Disk, await_some, command, free_ports};

const PATIENCE: Duration = Duration::from_secs(20);

/// `None`, which is reported, if this machine or user cannot.
fn disk(dir: &Path, name: &str) -> Option<Disk> {
    if !are_present("loop", &["losetup", "mkfs.ext4", "mount"]) {
        return None;
    }
    let disk = Disk::new(dir, name, 64 << 20, &[]).map_err(|error| missing("loop", &error)).ok()?;
    if !setting(&disk, "max_bytes").exists() {
        missing("loop", "this kernel has no limit for each disk, Linux 6.2 and later have");
        return None;
    }
    Some(disk)
}

fn setting(disk: &Disk, name: &str) -> PathBuf {
    Path::new("/sys/class/bdi").join(&disk.number).join(name)
}

/// The bytes to which it is limited.
fn limit(disk: &Disk) -> Option<u64> {
    let read = |name| fs::read_to_string(setting(disk, name)).expect("a setting").trim().parse::<u64>();
    (read("strict_limit") == Ok(1)).then(|| read("max_bytes").expect("a number"))
}

fn await_limit(disk: &Disk, is_right: impl Fn(Option<u64>) -> bool) {
    await_some(PATIENCE, || match limit(disk) {
        limit if is_right(limit) => Ok(()),
        limit => Err(format!("{limit:?}")),
    });
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
    let Some((disk, other)) = disk(dir.path(), "data").zip(disk(dir.path(), "other")) else { return };
    let (before, others) = (settings(), setting(&other, "strict_limit"));

    let mut first = proxy(dir.path(), "first", &disk, "");
    await_limit(&disk, |limit| limit.is_some());
    assert!(fs::read_to_string(others).is_ok_and(|text| text.trim() == "0"), "another disk");
    let own = setting(&disk, "strict_limit");
    let of_others = |path: &&Path| path.parent() != own.parent();
    assert_eq!(changed(&before).into_iter().filter(of_others).collect::<Vec<_>>(), [""; 0].map(Path::new));
    assert!(limit(&disk) < Some(2 << 20), "the least, as nobody has written");

    let mut second = proxy(dir.path(), "second", &disk, "[limits]\nwrite_back = \"2MiB\"\n");
    second.await_log("this is its disk");
    first.signal("TERM");
    first.wait();
    await_limit(&disk, |limit| limit.is_some_and(|limit| limit.abs_diff(2 << 20) < 1 << 18));
    second.kill();
    await_limit(&disk, |limit| limit.is_none());
    await_some(PATIENCE, || if changed(&before).is_empty() { Ok(()) } else { Err(format!("{:?}", changed(&before))) });

    let first_text = fs::read_to_string(dir.path().join("first")).expect("ours");
    fs::write(dir.path().join("elsewhere"), first_text.replacen("127.0.0.1", "192.0.2.1", 1)).expect("a file");
    let mut limiting = command(dir.path(), &["write-back", "--config", "elsewhere", "--server", "s1"]);
    Daemon::start(dir.path(), "elsewhere-limit", &mut limiting).await_log("no server is on this host");
    assert_eq!(limit(&disk), None);

    fs::write(dir.path().join("observing"), format!("{first_text}[scheduler]\nmode = \"observe\"\n")).expect("a file");
    let mut limiting = command(dir.path(), &["write-back", "--config", "observing"]);
    Daemon::start(dir.path(), "observing-limit", &mut limiting).await_log("nothing to do");
    assert!(changed(&before).is_empty());
}
