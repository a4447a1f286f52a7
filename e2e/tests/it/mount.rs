//! The built command as an overlay, where FUSE can be used: as root, with /dev/fuse.

use std::fs;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use vpfs_e2e::{await_some, command, ours, output, requirements, run, stderr, stdout, vpfs, write_file};

const PATIENCE: Duration = Duration::from_secs(30);

/// Two classes, and advice for files of two regions; the second one is in both classes.
const REGIONS: &str = r#"
[[class]]
name = "disk"
directory = "disk"
servers = 2
[[class]]
name = "flash"
directory = "flash"
[[rule]]
files = "out/*"
advice = "advice.json"
"#;

const ADVICE: &str = r#"[{ "file": "a", "regions": [
    { "begin": 0, "end": 100000, "stripes": { "disk": 0, "flash": 65536 } },
    { "begin": 100000, "end": 200000, "stripes": { "disk": 4096, "flash": 4096 } } ]}]"#;

/// Directories for a mount, and the mount, if it runs.
struct Overlay {
    folder: tempfile::TempDir,
    child: Option<Child>,
}

/// Nothing, and a word about it, where no mount is possible.
fn overlay() -> Option<Overlay> {
    let is_root = fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0);
    if !is_root || OpenOptions::new().read(true).write(true).open("/dev/fuse").is_err() {
        requirements::missing("fuse", "these tests mount, which needs root and /dev/fuse");
        return None;
    }
    let folder = tempfile::tempdir().expect("a directory");
    let path = folder.path();
    // Other users must reach it.
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("it is ours");
    for name in ["src", "src/out", "mnt", "disk", "flash", "traces"] {
        fs::create_dir(path.join(name)).expect("a directory");
    }
    write_file(path.join("regions.toml"), REGIONS);
    write_file(path.join("advice.json"), ADVICE);
    let mut overlay = Overlay { folder, child: None };
    match overlay.try_mount(&["--regions", "regions.toml"]) {
        Ok(()) => overlay.unmount(),
        // A container may have the device and no right to mount; a file system may have no attributes of root.
        Err(log) if log.contains("not permitted") || log.contains("not supported") => {
            requirements::missing("fuse", &format!("nothing can be mounted here: {log}"));
            return None;
        }
        Err(log) => panic!("{log}"),
    }
    Some(overlay)
}

/// The same with a mount.
fn mounted(args: &[&str]) -> Option<Overlay> {
    let mut overlay = overlay()?;
    overlay.mount(args);
    Some(overlay)
}

impl Overlay {
    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn command(&self, args: &[&str]) -> Command {
        command(self.folder.path(), args)
    }

    fn mount(&mut self, args: &[&str]) {
        self.try_mount(args).unwrap_or_else(|log| panic!("{log}"));
    }

    /// What it says if it ends instead.
    fn try_mount(&mut self, args: &[&str]) -> Result<(), String> {
        let command = self.command(&[&["mount", "src", "mnt"], args].concat());
        self.try_start(command)
    }

    /// As [`Overlay::try_mount`], with a command that executes it.
    fn try_start(&mut self, mut command: Command) -> Result<(), String> {
        let log = OpenOptions::new().create(true).append(true).open(self.path("log")).expect("a file");
        let mut child = command.stdin(Stdio::null()).stderr(log).spawn().expect("it starts");
        let mountpoint = self.path("mnt");
        let line = format!(" {} fuse", mountpoint.display());
        let mounted = await_some(PATIENCE, || {
            let log = fs::read_to_string(self.path("log")).expect("a log");
            let is_mounted = fs::read_to_string("/proc/mounts").expect("mounts").contains(&line);
            match child.try_wait().expect("it runs") {
                Some(_) => Ok(Err(log)),
                // Attributes of a dead mount may be believed for a second.
                None if is_mounted => fs::read_dir(&mountpoint).map(|_| Ok(())).map_err(|error| error.to_string()),
                None => Err(log),
            }
        });
        self.child = Some(child);
        mounted
    }

    fn signal(&self, signal: &str) {
        let pid = self.child.as_ref().expect("it runs").id().to_string();
        run(Command::new("kill").args([signal, &pid]));
    }

    fn unmount(&mut self) {
        self.signal("-TERM");
        self.end();
    }

    fn end(&mut self) {
        let status = self.child.take().expect("it runs").wait().expect("it ends");
        assert!(status.success(), "{status}: {}", fs::read_to_string(self.path("log")).expect("a log"));
    }

    fn kill(&mut self) {
        self.signal("-KILL");
        self.child.take().expect("it runs").wait().expect("it ends");
    }

    fn check(&self, args: &[&str]) -> std::process::Output {
        output(self.command(&[&["layout", "check", "src", "--regions", "regions.toml"], args].concat()))
    }

    /// What applications did, as `vpfs peers` shows it.
    fn applications(&self) -> String {
        stdout(&output(self.command(&["peers", "--config", "vpfs.toml"])))
    }
}

impl Drop for Overlay {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
        let _ = Command::new("umount").arg("-l").arg(self.path("mnt")).stderr(Stdio::null()).status();
    }
}

fn count(directory: &Path) -> usize {
    let files = fs::read_dir(directory).expect("a directory");
    files.filter(|file| file.as_ref().is_ok_and(|file| file.file_name() != "vpfs-source")).count()
}

#[test]
fn a_file_of_regions_looks_like_any_file() {
    let Some(mut overlay) = mounted(&["--regions", "regions.toml"]) else { return };
    let (file, renamed) = (overlay.path("mnt/out/a"), overlay.path("mnt/b"));
    let bytes: Vec<u8> = (0..300_000_u32).map(|number| (number / 7 % 251).to_le_bytes()[0]).collect();
    fs::write(&file, &bytes).expect("it is written");
    assert_eq!(fs::read(&file).expect("it is read"), bytes);
    let map = fs::read_to_string(overlay.path("src/out/a")).expect("a map");
    assert!(map.contains("region 100000 200000 disk=8192 flash=4096\nend\n"), "{map}");
    assert_eq!((count(&overlay.path("disk")), count(&overlay.path("flash"))), (1, 2));
    fs::rename(&file, &renamed).expect("it is renamed");
    let open = OpenOptions::new().read(true).write(true).open(&renamed).expect("it opens");
    open.set_len(150_000).expect("it is cut");
    open.set_len(160_000).expect("it grows");
    open.write_all_at(b"border", 99_997).expect("it is written");
    open.sync_all().expect("it is synced");
    let mut expected = [&bytes[..150_000], &[0; 10_000]].concat();
    expected[99_997..100_003].copy_from_slice(b"border");
    assert_eq!(fs::read(&renamed).expect("it is read"), expected);
    assert_eq!(open.metadata().expect("it exists").len(), 160_000);
    // Deleted while open, it is still there.
    fs::remove_file(&renamed).expect("it is deleted");
    let mut part = [0; 6];
    open.read_exact_at(&mut part, 99_997).expect("it is read");
    assert_eq!(&part, b"border");
    drop(open);
    await_some(PATIENCE, || match count(&overlay.path("disk")) + count(&overlay.path("flash")) {
        0 => Ok(()),
        left => Err(format!("{left} region files are left")),
    });
    overlay.unmount();
    assert!(overlay.check(&[]).status.success());
}

#[test]
fn files_become_plain_and_get_regions_again() {
    let Some(mut overlay) = overlay() else { return };
    let bytes = vec![7; 250_000];
    write_file(overlay.path("src/out/old"), &bytes);
    overlay.mount(&["--regions", "regions.toml"]);
    let old = overlay.path("mnt/out/old");
    run(overlay.command(&["layout", "copy", "mnt/out/old", "mnt/out/new", "--replace"]));
    assert_eq!(fs::read(&old).expect("it is read"), bytes);
    assert_eq!(count(&overlay.path("flash")), 2, "the copy has regions");
    overlay.unmount();
    let join = ["layout", "join", "src/out/old", "--regions", "regions.toml"];
    run(overlay.command(&join));
    assert_eq!(fs::read(overlay.path("src/out/old")).expect("it is plain"), bytes);
    assert_eq!(count(&overlay.path("flash")), 0);
    let again = output(overlay.command(&join));
    assert!(stderr(&again).contains("it has no regions"));
}

/// Symptom it guards against: a class's file system was not mounted, and files had zeros where their regions should be.
#[test]
fn directories_that_are_not_those_of_the_classes_are_refused() {
    let Some(mut overlay) = mounted(&["--regions", "regions.toml"]) else { return };
    let bytes = vec![7; 250_000];
    fs::write(overlay.path("mnt/out/a"), &bytes).expect("it is written");
    overlay.unmount();
    let (disk, flash, away) = (overlay.path("disk"), overlay.path("flash"), overlay.path("away"));
    let mut are_refused = |why: &str| {
        let join = ["layout", "join", "src/out/a", "--regions", "regions.toml"];
        for refused in [overlay.check(&["--fix"]), output(overlay.command(&join))] {
            assert!(stderr(&refused).contains(why), "{refused:?}");
        }
        let refused = overlay.try_mount(&["--regions", "regions.toml"]).expect_err("it is refused");
        assert!(refused.contains(why), "{refused}");
    };
    fs::rename(&flash, &away).expect("it is ours");
    fs::create_dir(&flash).expect("a directory");
    are_refused("is its file system mounted?");
    fs::remove_dir(&flash).expect("nothing was put into it");
    fs::rename(&disk, &flash).expect("it is ours");
    fs::rename(&away, &disk).expect("it is ours");
    are_refused("has the region files of class");
    fs::rename(&disk, &away).expect("it is ours");
    fs::rename(&flash, &disk).expect("it is ours");
    fs::rename(&away, &flash).expect("it is ours");
    overlay.mount(&["--regions", "regions.toml"]);
    assert_eq!(fs::read(overlay.path("mnt/out/a")).expect("it is read"), bytes);
    overlay.unmount();
}

/// The directory of a file may be its user's, who knows what a copy is called until it is complete.
#[test]
fn joining_follows_no_link() {
    let Some(mut overlay) = mounted(&["--regions", "regions.toml"]) else { return };
    fs::write(overlay.path("mnt/out/a"), "bytes").expect("it is written");
    overlay.unmount();
    let map = fs::read_to_string(overlay.path("src/out/a")).expect("a map");
    let id = map.lines().find_map(|line| line.strip_prefix("id ")).expect("an id");
    write_file(overlay.path("victim"), "of somebody else");
    symlink(overlay.path("victim"), overlay.path("src/out").join(format!(".vpfs-new-{id}"))).expect("a link");
    let join = output(overlay.command(&["layout", "join", "src/out/a", "--regions", "regions.toml"]));
    assert!(stderr(&join).contains("File exists"), "{join:?}");
    assert_eq!(fs::read_to_string(overlay.path("victim")).expect("it is there"), "of somebody else");
}

#[test]
fn another_user_has_no_more_rights_than_without_the_mount() {
    let Some(mut overlay) = mounted(&["--regions", "regions.toml"]) else { return };
    let as_nobody = |script: &str| {
        let mut command = Command::new("setpriv");
        command.args(["--reuid=65534", "--regid=65534", "--groups=65534,4242", "sh", "-c", script]);
        output(command.current_dir(overlay.path("mnt")))
    };
    write_file(overlay.path("mnt/secret"), "s");
    fs::set_permissions(overlay.path("mnt/secret"), fs::Permissions::from_mode(0o600)).expect("ours");
    fs::set_permissions(overlay.path("mnt/out"), fs::Permissions::from_mode(0o777)).expect("ours");
    fs::create_dir(overlay.path("src/group")).expect("a directory");
    std::os::unix::fs::chown(overlay.path("src/group"), None, Some(4242)).expect("root");
    fs::set_permissions(overlay.path("src/group"), fs::Permissions::from_mode(0o770)).expect("ours");
    for refused in ["cat secret", "echo x > new", "rm secret", "chmod 777 secret", "mv secret out/x", "ln secret out/x"]
    {
        assert!(!as_nobody(refused).status.success(), "{refused}");
    }
    let written = as_nobody("echo x > out/new && echo x > group/new && cat out/new group/new");
    // Its mode counts for those who come later, not for who creates it.
    let closed = as_nobody("umask 777; echo x > out/closed && ! cat out/closed");
    assert!(closed.status.success(), "{closed:?}");
    assert!(written.status.success(), "{written:?}");
    for name in ["src/out/new", "src/group/new"] {
        assert_eq!(fs::metadata(overlay.path(name)).expect("it exists").uid(), 65534, "{name}");
    }
    // The region file counts for the owner's quota, and a map cannot be forged.
    let regions: Vec<_> = fs::read_dir(overlay.path("flash")).expect("a directory").flatten().collect();
    assert!(
        regions
            .iter()
            .any(|file| file.metadata().is_ok_and(|file| (file.uid(), file.mode() & 0o777) == (65534, 0o600)))
    );
    let map = fs::read_to_string(overlay.path("src/out/new")).expect("a map");
    write_file(overlay.path("src/forged"), map);
    assert!(fs::read_to_string(overlay.path("mnt/forged")).expect("text").starts_with("vpfs region map"));
    overlay.unmount();
}

#[test]
fn check_tells_what_is_wrong_and_mends_what_can_be() {
    let Some(mut overlay) = mounted(&["--regions", "regions.toml"]) else { return };
    for name in ["kept", "gone", "broken", "foreign"] {
        fs::write(overlay.path("mnt/out").join(name), vec![1; 150_000]).expect("it is written");
    }
    assert!(stderr(&overlay.check(&["--fix"])).contains("is in use; unmount it first"));
    overlay.unmount();
    let source = overlay.path("src/out");
    run(Command::new("cp").arg("-a").arg(source.join("kept")).arg(source.join("copy")));
    fs::hard_link(source.join("kept"), source.join("link")).expect("a link");
    fs::remove_file(source.join("gone")).expect("it is deleted");
    fs::write(source.join("broken"), "vpfs region map 1\nid 0\n").expect("it is damaged");
    std::os::unix::fs::chown(source.join("foreign"), Some(65534), None).expect("root");
    write_file(source.join(".vpfs-new-0"), "vpfs reg");
    let found = overlay.check(&[]);
    let text = stdout(&found);
    // Both files of regions of "gone" and of "broken" lie in two directories: three region files each.
    for (part, times) in [
        ("have the same regions", 1),
        ("broken\" cannot be used: line 2 of the region map: ", 1),
        ("is a region of a file that was deleted", 6),
        ("foreign\" belong to another user", 1),
        ("is a map that was not completed", 1),
    ] {
        assert_eq!(text.matches(part).count(), times, "{part}: {text}");
    }
    assert_eq!(found.status.code(), Some(1));
    // What is left of "gone" could be that of "broken": nothing is removed while a map cannot be read.
    let fixed = overlay.check(&["--fix"]);
    assert!(stderr(&fixed).contains("8 findings must be fixed by hand"), "{fixed:?}");
    assert_eq!(count(&overlay.path("disk")), 4);
    overlay.mount(&["--regions", "regions.toml"]);
    assert_eq!(fs::read(overlay.path("mnt/out/link")).expect("it is read"), vec![1; 150_000]);
    assert!(fs::read(overlay.path("mnt/out/broken")).is_err());
    overlay.unmount();
    ["broken", "copy"].iter().for_each(|name| fs::remove_file(source.join(name)).expect("it is removed"));
    assert!(overlay.check(&["--fix"]).status.success());
    assert_eq!(count(&overlay.path("disk")), 2);
}

#[test]
fn a_mount_ends_when_the_last_file_is_closed() {
    let Some(mut overlay) = mounted(&["--regions", "regions.toml"]) else { return };
    let file = File::create(overlay.path("mnt/out/open")).expect("a file");
    overlay.signal("-TERM");
    let mounted = overlay.path("mnt/out");
    await_some(PATIENCE, || if mounted.exists() { Err("it is mounted still".to_owned()) } else { Ok(()) });
    file.write_all_at(&[5; 150_000], 0).expect("open files work");
    file.sync_all().expect("it is synced");
    assert!(matches!(overlay.child.as_mut().expect("it runs").try_wait(), Ok(None)));
    drop(file);
    overlay.end();
    assert!(overlay.check(&[]).status.success());
    let twice = ours(&["mount", "src", "src/out"]).current_dir(overlay.folder.path()).output();
    assert_eq!(twice.expect("it ends").status.code(), Some(2), "not in itself");
}

#[test]
fn hostile_trees_stay_where_they_are() {
    let Some(mut overlay) = overlay() else { return };
    let source = overlay.path("src");
    symlink("/etc/passwd", source.join("out/link")).expect("a link");
    symlink("../../..", source.join("up")).expect("a link");
    write_file(source.join("a\n\x1b[2Jb"), "text");
    run(Command::new("mkfifo").arg(source.join("fifo")));
    overlay.mount(&["--regions", "regions.toml"]);
    let mounted = overlay.path("mnt");
    assert_eq!(fs::read_link(mounted.join("out/link")).expect("a link"), Path::new("/etc/passwd"));
    assert_eq!(fs::read(mounted.join("a\n\x1b[2Jb")).expect("a file"), b"text");
    assert!(fs::symlink_metadata(mounted.join("fifo")).is_ok());
    let forbidden = File::create(mounted.join(".vpfs-new-0")).expect_err("this name is ours");
    assert_eq!(forbidden.kind(), std::io::ErrorKind::PermissionDenied);
    // The name is replaced, not what the link points to.
    write_file(mounted.join("out/new"), "x");
    fs::rename(mounted.join("out/new"), mounted.join("out/link")).expect("it is renamed");
    assert!(fs::symlink_metadata(source.join("out/link")).expect("a file").is_file());
    overlay.unmount();
}

#[test]
fn what_is_recorded_can_be_advised_on_and_simulated() {
    let Some(mut overlay) = mounted(&["--trace", "traces"]) else { return };
    let file = File::create(overlay.path("mnt/data")).expect("a file");
    for number in 0..8 {
        file.write_all_at(&vec![1; 512 << 10], number * (512 << 10)).expect("it is written");
    }
    drop(file);
    assert_eq!(fs::read(overlay.path("mnt/data")).expect("it is read").len(), 4 << 20);
    overlay.unmount();
    let trace = fs::read_dir(overlay.path("traces")).expect("a directory").next().expect("a trace").expect("a file");
    let text = fs::read_to_string(trace.path()).expect("a trace");
    assert_eq!(text.matches(",w,").count(), 8, "as the program asked: {text}");
    write_file(overlay.path("classes.toml"), CLASSES);
    let trace = trace.path().display().to_string();
    let advice = run(overlay.command(&["layout", "advise", &trace, "--servers", "classes.toml"]));
    assert!(advice.contains("mnt/data"), "{advice}");
    // The same program in the simulator.
    let replay = format!("[[app]]\nname = \"recorded\"\nreplay = {{ log = \"{trace}\" }}\n");
    let cluster =
        "servers = [{ count = 4, device = \"hdd\" }]\n[[policy]]\nname = \"fifo\"\nscheduler = { policy = \"fifo\" }\n";
    write_file(overlay.path("replay.toml"), cluster.to_owned() + &replay);
    let results = run(overlay.command(&["sim", "replay.toml", "-q", "--json", "-"]));
    let results: serde_json::Value = serde_json::from_str(&results).expect("valid JSON");
    let bytes = |key: &str| results["results"][0]["apps"][0][key].as_u64();
    assert_eq!((bytes("written_bytes"), bytes("read_bytes")), (Some(4 << 20), Some(4 << 20)), "{text}");
}

const CLASSES: &str = r#"
network = "1GB/s"
[[class]]
name = "disk"
servers = 2
read = { startup_min = "1ms", startup_max = "14ms", rate = "100MB/s" }
write = { startup_min = "1ms", startup_max = "14ms", rate = "100MB/s" }
[[class]]
name = "flash"
servers = 1
read = { startup_min = "80us", startup_max = "200us", rate = "2GB/s" }
write = { startup_min = "80us", startup_max = "200us", rate = "2GB/s" }
"#;

/// Symptom it guards against: data that fsync promised is gone after the daemon was killed, or maps and region files
/// disagree. A program writes, syncs and notes what it synced, until its mount dies; then all that it noted must be
/// there. `VPFS_KILLS` is the number of kills.
#[test]
fn killed_daemons_lose_nothing_that_was_synced() {
    let Some(mut overlay) = overlay() else { return };
    let kills = std::env::var("VPFS_KILLS").ok().and_then(|text| text.parse().ok()).unwrap_or(8);
    for round in 0..kills {
        overlay.mount(&["--regions", "regions.toml"]);
        let (writers, directory) = (3, overlay.path("mnt/out"));
        let threads: Vec<_> = (0..writers)
            .map(|writer| {
                let directory = directory.clone();
                std::thread::spawn(move || write_until_it_dies(&directory, round, writer))
            })
            .collect();
        // Sooner or later, not after a fixed time: when so many files have a name.
        let enough = 1 + usize::try_from(round * 7 % 23).expect("small");
        await_some(PATIENCE, || match count(&overlay.path("src/out")) {
            found if found >= enough => Ok(()),
            found => Err(format!("{found} files")),
        });
        overlay.kill();
        let synced: Vec<_> = threads.into_iter().flat_map(|thread| thread.join().expect("no panic")).collect();
        // The dead mount is taken away by the next one.
        overlay.mount(&["--regions", "regions.toml"]);
        for (name, bytes) in &synced {
            let read = fs::read(directory.join(name)).unwrap_or_else(|error| panic!("round {round}: {name}: {error}"));
            assert!(read.len() >= bytes.len() && read[..bytes.len()] == bytes[..], "round {round}: {name} lost data");
        }
        overlay.unmount();
        let checked = overlay.check(&["--fix"]);
        assert!(checked.status.success(), "round {round}: {checked:?}");
        let clean = overlay.check(&[]);
        assert!(stdout(&clean).contains(" 0 findings"), "round {round}: {clean:?}");
        for entry in fs::read_dir(overlay.path("src/out")).expect("a directory").flatten() {
            fs::remove_file(entry.path()).expect("it is removed");
        }
        assert!(overlay.check(&["--fix"]).status.success());
    }
}

/// Creates, extends, overwrites, renames and deletes; returns what was synced last of each file that must be there.
fn write_until_it_dies(directory: &Path, round: u64, writer: u64) -> Vec<(String, Vec<u8>)> {
    let mut synced: Vec<(String, Vec<u8>)> = Vec::new();
    let mut seed = round * 1000 + writer + 1;
    for number in 0.. {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let (at, byte) = (seed >> 33, (seed >> 24).to_le_bytes()[0]);
        let (name, new) = (format!("{writer}-{number}"), format!("{writer}-{number}-renamed"));
        let mut bytes = vec![0; usize::try_from(at % 250_000).expect("small") + 1];
        let start = usize::try_from(seed >> 40).expect("small") % bytes.len();
        bytes[start..].fill(byte);
        let done = || -> std::io::Result<()> {
            let file = File::create(directory.join(&name))?;
            file.write_all_at(&bytes[start..], start as u64)?;
            file.sync_all()
        };
        if done().is_err() {
            return synced;
        }
        synced.push((name.clone(), bytes));
        if number % 3 == 1 {
            let renamed = fs::rename(directory.join(&name), directory.join(&new));
            let (_, bytes) = synced.pop().expect("it was added");
            // It may have happened or not if this failed; there is one of them, which is not checked.
            match renamed {
                Ok(()) => synced.push((new, bytes)),
                Err(_) => return synced,
            }
        } else if number % 7 == 4 {
            let (name, _) = synced.remove(0);
            if fs::remove_file(directory.join(name)).is_err() {
                return synced;
            }
        }
    }
    synced
}

/// Directories with something mounted on them, until the test ends.
struct Shown(Vec<PathBuf>);

impl Shown {
    /// Shows the directories `from` at `src`, which an overlay has as its source, through another file system of FUSE.
    /// Nothing, and a word about it, where its program is missing.
    fn at_source(overlay: &Overlay, program: &str, options: &[&str], from: &[PathBuf]) -> Option<Self> {
        if !requirements::are_present(program, &[program]) {
            return None;
        }
        fs::remove_dir(overlay.path("src/out")).expect("it is empty");
        let from: Vec<_> = from.iter().map(|path| path.display().to_string()).collect();
        run(Command::new(program).args(options).arg(from.join(":")).arg(overlay.path("src")));
        Some(Self(vec![overlay.path("src")]))
    }

    /// A file system in memory, whose inode numbers begin anew.
    fn memory(at: &Path) -> Self {
        fs::create_dir_all(at).expect("a directory");
        run(Command::new("mount").args(["-t", "tmpfs", "none"]).arg(at));
        Self(vec![at.to_owned()])
    }

    /// A file system of 64 MiB at `src`, of which two fifths are root's. Nothing, and a word about it, where there is
    /// no device for it.
    fn limited(overlay: &Overlay) -> Option<Self> {
        let (image, source) = (overlay.path("image"), overlay.path("src"));
        File::create(&image).and_then(|image| image.set_len(64 << 20)).expect("a file");
        run(Command::new("mkfs.ext4").args(["-q", "-m", "40"]).arg(&image));
        let mounted = output(Command::new("mount").args(["-o", "loop"]).arg(&image).arg(&source));
        if !mounted.status.success() {
            requirements::missing("fuse", &format!("no file can be mounted here: {mounted:?}"));
            return None;
        }
        Some(Self(vec![source]))
    }
}

/// A program as a user without groups.
fn by_user(id: u32, program: &Path) -> Command {
    let mut command = Command::new("setpriv");
    command.args([format!("--reuid={id}"), format!("--regid={id}"), "--clear-groups".to_owned()]).arg(program);
    command
}

/// Runs a line of a shell as user 2002.
fn as_user(directory: &Path, line: &str) -> Output {
    output(by_user(2002, Path::new("sh")).args(["-c", line]).current_dir(directory))
}

/// A directory that everybody may write to.
fn open_directory(path: &Path) {
    fs::create_dir_all(path).expect("a directory");
    fs::set_permissions(path, fs::Permissions::from_mode(0o777)).expect("ours");
}

impl Drop for Shown {
    fn drop(&mut self) {
        for path in &self.0 {
            let _ = Command::new("umount").arg("-l").arg(path).stderr(Stdio::null()).status();
        }
    }
}

/// Symptom: over a source whose inode numbers are not unique, `cat b` shows what is in a, and writing to b overwrites
/// a. Cause: files were identified by device and inode number.
#[test]
fn files_with_one_inode_number_stay_two_files() {
    let Some(mut overlay) = overlay() else { return };
    let branches = ["one", "two"].map(|name| overlay.path(name));
    let _memory = branches.each_ref().map(|branch| Shown::memory(branch));
    write_file(branches[0].join("a"), "of a");
    write_file(branches[1].join("b"), "of b");
    let options = ["-o", "use_ino,inodecalc=passthrough"];
    let Some(_source) = Shown::at_source(&overlay, "mergerfs", &options, &branches) else { return };
    let source = overlay.path("src");
    let ino = |name: &str| fs::metadata(source.join(name)).expect("it exists").ino();
    assert_eq!(ino("a"), ino("b"), "the source is what this test needs");
    overlay.mount(&[]);
    let path = |name: &str| overlay.path("mnt").join(name);
    let read = |name: &str| fs::read_to_string(path(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
    let open = File::open(path("a")).expect("it opens");
    assert_eq!((read("a"), read("b")), ("of a".to_owned(), "of b".to_owned()));
    fs::write(path("b"), "new").expect("it is written");
    assert_eq!((read("a"), read("b")), ("of a".to_owned(), "new".to_owned()));
    fs::rename(path("b"), path("c")).expect("it is renamed");
    fs::remove_file(path("a")).expect("it is removed");
    assert_eq!(read("c"), "new");
    assert_eq!(std::io::read_to_string(open).expect("it is open"), "of a");
    overlay.unmount();
}

/// Symptom: after `ln a b; rm a`, there is no b, so `git commit` fails. Cause: both were one file to the mount, which
/// had a descriptor of a, and descriptors of this source go by name.
#[test]
fn a_link_outlives_the_name_that_it_was_made_from() {
    let Some(mut overlay) = overlay() else { return };
    let real = overlay.path("real");
    fs::create_dir(&real).expect("a directory");
    let Some(_source) = Shown::at_source(&overlay, "bindfs", &[], &[real]) else { return };
    overlay.mount(&[]);
    let path = |name: &str| overlay.path("mnt").join(name);
    fs::write(path("a"), "text").expect("it is written");
    fs::hard_link(path("a"), path("b")).expect("it is linked");
    assert_eq!(fs::read_to_string(path("b")).expect("it is read"), "text");
    fs::remove_file(path("a")).expect("it is removed");
    assert_eq!(fs::read_to_string(path("b")).expect("it is there"), "text");
    fs::write(path("a"), "another").expect("it is written");
    fs::write(path("b"), "longer text").expect("it is written");
    assert_eq!(fs::read_to_string(path("a")).expect("it is read"), "another");
    // Names change while a file is open, and while a program is in a directory.
    fs::create_dir(path("deep")).expect("a directory");
    fs::write(path("deep/c"), "c").expect("it is written");
    let open = File::open(path("deep/c")).expect("it opens");
    let script = "cd deep && mv ../deep ../moved && cat c && echo d > d && mv c ../b && cat d ../b";
    let seen = run(Command::new("sh").args(["-ec", script]).current_dir(path("")));
    assert_eq!(seen, "cd\nc");
    assert_eq!(std::io::read_to_string(open).expect("it is open"), "c");
    overlay.unmount();
}

/// Symptom: through the mount, a user fills what ext4 reserves for root (quotas count as little). Cause: data was
/// written with the daemon's credentials, by us and by the kernel.
#[test]
fn a_user_gets_no_more_space_than_without_the_mount() {
    let Some(mut overlay) = overlay() else { return };
    let Some(_source) = Shown::limited(&overlay) else { return };
    open_directory(&overlay.path("src/out"));
    let regions = REGIONS.replace("directory = \"", "directory = \"src/");
    write_file(overlay.path("regions.toml"), regions);
    ["src/disk", "src/flash"].iter().for_each(|name| fs::create_dir(overlay.path(name)).expect("a directory"));
    let fill = |directory: PathBuf, line: &str| {
        let filled = as_user(&directory, line);
        let blocks = fs::metadata(directory.join("new")).map_or(0, |file| file.blocks());
        let _ = fs::remove_file(directory.join("new"));
        (filled.status.success(), blocks * 512)
    };
    let write = "exec head -c 60M /dev/zero > new";
    let (has_all, most) = fill(overlay.path("src/out"), write);
    assert!(!has_all && (1..40 << 20).contains(&most), "{most} bytes: the source is what this test needs");
    // The kernel writes by itself, we write, and there are regions.
    for args in [&[][..], &["--trace", "traces"], &["--regions", "regions.toml"]] {
        overlay.mount(args);
        for line in [write, "exec fallocate -l 40M new", "exec dd if=/dev/zero of=new bs=1M count=60 oflag=direct"] {
            let (has_all, got) = fill(overlay.path("mnt/out"), line);
            assert!(!has_all && got <= most + (1 << 20), "{args:?}: {line}: {got} bytes instead of {most}");
        }
        overlay.unmount();
    }
}

/// Symptom: `git add` and `tar x` as a user get EIO for new files of mode 0444 over a FUSE source. Cause: the kernel
/// opened the file a second time, to read and write by itself, and the source asked for its mode again.
#[test]
fn a_user_makes_read_only_files_over_fuse() {
    let Some(mut overlay) = overlay() else { return };
    let real = overlay.path("real");
    open_directory(&real);
    let Some(_source) = Shown::at_source(&overlay, "mergerfs", &["-o", "allow_other"], &[real]) else { return };
    overlay.mount(&[]);
    let made = as_user(&overlay.path("mnt"), "umask 333 && echo text > new && cat new && rm -f new");
    assert_eq!((made.status.success(), &*made.stdout), (true, &b"text\n"[..]), "{made:?}");
    overlay.unmount();
}

/// Symptom: over a source that gives root no rights (root_squash), users get EACCES for their own files. Cause: names
/// were looked up as root only. A root without its powers over files is such a root on any file system.
#[test]
fn users_reach_what_root_does_not() {
    let Some(mut overlay) = overlay() else { return };
    open_directory(&overlay.path("src/out"));
    let own = "umask 077 && mkdir -p own/deep && echo a > own/deep/a && ln own/deep/a own/link && ln -s deep own/to && \
               cat own/to/a && mv own/deep/a own/b && echo b >> own/b && chmod 400 own/b && ls -l own && cat own/link";
    let mut command = Command::new("setpriv");
    command.args(["--bounding-set=-dac_override,-dac_read_search"]).arg(vpfs()).args(["mount", "src", "mnt"]);
    command.current_dir(overlay.folder.path());
    overlay.try_start(command).unwrap_or_else(|log| panic!("{log}"));
    let done = as_user(&overlay.path("mnt/out"), own);
    assert!(done.status.success(), "{done:?}");
    assert!(stdout(&done).ends_with("a\nb\n"), "{done:?}");
    let others = output(by_user(2003, Path::new("ls")).arg("own").current_dir(overlay.path("mnt/out")));
    assert!(!others.status.success(), "{others:?}");
    overlay.unmount();
}

/// Writes through a daemon with CAP_SYS_RESOURCE know no quota.
#[test]
fn a_mount_has_only_the_capabilities_that_it_needs() {
    let Some(mut overlay) = mounted(&[]) else { return };
    let tasks = format!("/proc/{}/task", overlay.child.as_ref().expect("it runs").id());
    for task in fs::read_dir(tasks).expect("its threads") {
        let status = fs::read_to_string(task.expect("a thread").path().join("status")).expect("a status");
        for set in ["CapPrm:", "CapEff:"] {
            let mask = status.lines().find_map(|line| line.strip_prefix(set)).expect("a set").trim();
            let has = u64::from_str_radix(mask, 16).expect("a mask");
            // SYS_MODULE, SYS_RAWIO, SYS_BOOT, SYS_RESOURCE, NET_ADMIN, KILL.
            let foreign = [16, 17, 22, 24, 12, 5].map(|number| has >> number & 1);
            assert_eq!(foreign, [0; 6], "{set} {mask}");
        }
    }
    overlay.unmount();
}

/// Symptom: fallocate and copy_file_range left set-user-ID and set-group-ID. Cause: the kernel was told that we clear
/// them, but only writes did.
#[test]
fn a_file_that_a_user_changes_loses_set_ids() {
    let Some(mut overlay) = overlay() else { return };
    if !requirements::are_present("python", &["python3"]) {
        return;
    }
    ["src/out", "src/plain"].iter().for_each(|name| open_directory(&overlay.path(name)));
    // As they are called, and not as other programs do.
    let program = "import os, sys\n\
        f = os.open('f', os.O_RDWR | os.O_CREAT, 0o777)\n\
        g = os.open('g', os.O_RDWR | os.O_CREAT)\n\
        os.write(f, b'x' * 9000)\n\
        os.write(g, b'y' * 9000)\n\
        for change in [lambda: os.posix_fallocate(f, 0, 20000), lambda: os.copy_file_range(g, f, 5000, 0, 0),\n\
                       lambda: os.pwrite(f, b'z', 0), lambda: os.ftruncate(f, 100), lambda: os.truncate('f', 10)]:\n\
        \x20   os.chmod('f', 0o6777)\n\
        \x20   assert os.stat('f').st_mode & 0o6000 == 0o6000\n\
        \x20   change()\n\
        \x20   print(oct(os.stat('f').st_mode & 0o7777))\n";
    write_file(overlay.path("change.py"), program);
    for args in [&[][..], &["--trace", "traces"], &["--regions", "regions.toml"]] {
        overlay.mount(args);
        for directory in ["mnt/plain", "mnt/out"] {
            let line = "python3 ../../change.py && rm f g";
            let changed = as_user(&overlay.path(directory), line);
            assert_eq!(stdout(&changed), "0o777\n".repeat(5), "{args:?}: {changed:?}");
        }
        overlay.unmount();
    }
}

/// Symptom: with `--regions`, no file could be created whose path has more than 4,096 bytes. Cause: the kernel does not
/// tell such a path, for which rules were asked.
#[test]
fn paths_are_as_long_as_without_regions() {
    let Some(mut overlay) = mounted(&["--regions", "regions.toml"]) else { return };
    let name = "d".repeat(250);
    let line = format!("for i in $(seq 20); do mkdir {name}; cd -P {name}; done; echo text > new; cat new");
    let made = output(Command::new("sh").args(["-ec", &line]).current_dir(overlay.path("mnt/out")));
    assert_eq!(stdout(&made), "text\n", "{made:?}");
    overlay.unmount();
}

/// Symptom: without /proc it mounted, and answered to everything that it does not exist.
#[test]
fn a_mount_without_proc_is_refused() {
    let Some(overlay) = overlay() else { return };
    let line = "umount -l /proc && exec \"$0\" mount src mnt";
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", line]).arg(vpfs()).current_dir(overlay.folder.path());
    let refused = output(&mut command);
    let text = stderr(&refused);
    assert!(text.contains("/proc does not show the open files of this process"), "{refused:?}");
    assert_eq!(refused.status.code(), Some(1));
}

/// One application for each kind of rule, and one that gets nearly nothing.
const SHARES: &str = r#"
[[server]]
name = "here"
address = "mount://localhost"
[[app]]
name = "slow"
uids = 2002
server_cap = "1B/s"
burst = "1B"
[[app]]
name = "program"
programs = "**/dd"
[[app]]
name = "file"
files = "out/**"
[peers]
port = 7399
bind = "127.0.0.1"
security = "none"
sockets = "sockets"
"#;

const SLOW: &str = r#"[[app]]
name = "slow"
uids = 2002
server_cap = "1B/s"
burst = "1B"
"#;

/// Symptom it guards against: requests that wait for their turn hold up those of others, in threads or in the kernel.
#[test]
fn waiting_requests_block_no_others() {
    let Some(mut overlay) = overlay() else { return };
    write_file(overlay.path("vpfs.toml"), SHARES);
    let slow = overlay.path("src/slow");
    open_directory(&slow);
    let checked = output(overlay.command(&["proxy", "--config", "vpfs.toml", "--check", "--connect"]));
    assert!(stdout(&checked).contains("valid: 1 mount,"), "{checked:?}");
    assert!(checked.status.success());
    overlay.mount(&["--config", "vpfs.toml"]);
    // More requests than there are threads, or places in the kernel's queue.
    let script = "for i in $(seq 700); do head -c 9000 /dev/zero > slow/$i & done; wait";
    let mut held = by_user(2002, Path::new("sh"));
    let mut held = held.args(["-c", script]).current_dir(overlay.path("mnt")).spawn().expect("setpriv");
    await_some(PATIENCE, || match overlay.applications() {
        text if text.contains("slow") => Ok(()),
        text => Err(text),
    });
    fs::write(overlay.path("mnt/out/a"), vec![1; 300_000]).expect("it is written");
    run(Command::new("dd").args(["if=/dev/zero", "of=b", "bs=1000", "count=1"]).current_dir(overlay.path("mnt")));
    run(by_user(2003, &vpfs()).args(["run", "--weight", "4", "--", "cat", "b"]).current_dir(overlay.path("mnt")));
    assert!(matches!(held.try_wait(), Ok(None)), "it waits");
    let seen = overlay.applications();
    for app in ["file ", "program ", "uid:0 ", "uid:2003/weight:4 "] {
        assert!(seen.lines().any(|line| line.trim_start().starts_with(app)), "{app}: {seen}");
    }
    // Nothing is lost: it goes on when it may, also where its application is gone.
    write_file(overlay.path("vpfs.toml"), SHARES.replace(SLOW, ""));
    overlay.signal("-HUP");
    assert!(held.wait().expect("it ends").success());
    assert_eq!(count(&slow), 700);
    assert!(
        fs::read_dir(&slow).expect("ours").flatten().all(|file| file.metadata().is_ok_and(|file| file.len() == 9000))
    );
    overlay.unmount();
}

/// Nothing of user 2002 goes on, by kind of request.
const HELD: &str = r#"
[[server]]
name = "here"
address = "mount://localhost"
[[app]]
name = "held"
uids = 2002
operations = "OPERATIONS"
server_cap = "1B/s"
burst = "1B"
"#;

/// Symptom: a program whose request waits for its turn stays in state D after SIGKILL, for which Slurm drains a node.
/// Cause: nothing ended what waits. Here it would wait for hours.
#[test]
fn waiting_programs_can_be_killed() {
    let Some(mut overlay) = overlay() else { return };
    let open = overlay.path("src/open");
    open_directory(&open);
    write_file(open.join("old"), vec![1; 100_000]);
    for (operations, script) in [
        // Many at one file, too: the kernel lets one after the other.
        ("write", "exec head -c 900000 /dev/zero > $1"),
        ("write", "exec head -c 900000 /dev/zero >> same"),
        ("write", "exec dd if=/dev/zero of=$1 bs=1M count=1 oflag=direct"),
        ("read", "exec cat old"),
        ("metadata", "exec mkdir $1"),
    ] {
        write_file(overlay.path("vpfs.toml"), HELD.replace("OPERATIONS", operations));
        overlay.mount(&["--config", "vpfs.toml"]);
        let start = |number: i32| {
            let mut command = by_user(2002, Path::new("sh"));
            let name = format!("{operations}{number}");
            let command = command.args(["-c", script, "sh", &name]).current_dir(overlay.path("mnt/open"));
            command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("setpriv")
        };
        let mut programs: Vec<_> = (0..40).map(start).collect();
        // All have made their request, or wait for one that has. The first one may be let through, and end.
        for program in &programs {
            await_some(PATIENCE, || match state(program.id()) {
                (name, 'D' | 'S' | 'Z') if name != "setpriv" => Ok(()),
                state => Err(format!("{script}: {state:?}")),
            });
        }
        programs.iter_mut().for_each(|program| program.kill().expect("it runs"));
        for program in &mut programs {
            await_some(PATIENCE, || match program.try_wait().expect("ours") {
                Some(_) => Ok(()),
                None => Err(format!("{script}: {:?}", state(program.id()))),
            });
        }
        fs::write(overlay.path("mnt/open/others"), "go on").expect("it is written");
        overlay.unmount();
    }
}

/// Which program a process executes, and its state as `ps` shows it: a process that waits for the kernel is in S until
/// its first signal, and then in D.
fn state(process: u32) -> (String, char) {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).expect("it is not waited for");
    let (name, rest) = stat.split_once(" (").and_then(|(_, rest)| rest.rsplit_once(") ")).expect("a name and more");
    (name.to_owned(), rest.chars().next().expect("a state"))
}
