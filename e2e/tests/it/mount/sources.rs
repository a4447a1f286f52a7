//! Overlays over file systems that are not like a local one.

use std::fs::{self, File};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use vpfs_e2e::{output, requirements, run, vpfs};

use super::{Overlay, overlay};

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

/// Runs a line of a shell as a user without groups.
fn as_user(directory: &Path, line: &str) -> Output {
    let mut command = Command::new("setpriv");
    command.args(["--reuid=2002", "--regid=2002", "--clear-groups", "sh", "-c", line]);
    output(command.current_dir(directory))
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
    fs::write(branches[0].join("a"), "of a").expect("a file");
    fs::write(branches[1].join("b"), "of b").expect("a file");
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
    let regions = super::REGIONS.replace("directory = \"", "directory = \"src/");
    fs::write(overlay.path("regions.toml"), regions).expect("a file");
    ["src/disk", "src/flash"].iter().for_each(|name| fs::create_dir(overlay.path(name)).expect("a directory"));
    let fill = |directory: &str, line: &str| {
        let directory = overlay.path(directory);
        let filled = as_user(&directory, line);
        assert!(!filled.status.success(), "{filled:?}");
        let blocks = fs::metadata(directory.join("new")).expect("it exists").blocks();
        fs::remove_file(directory.join("new")).expect("it is removed");
        blocks * 512
    };
    let write = "exec head -c 60M /dev/zero > new";
    let most = fill("src/out", write);
    assert!(most < 40 << 20, "{most} bytes: the source is what this test needs");
    // The kernel writes by itself, we write, and there are regions.
    for args in [&[][..], &["--trace", "traces"], &["--regions", "regions.toml"]] {
        overlay.mount(args);
        let fill = |line: &str| {
            let directory = overlay.path("mnt/out");
            let filled = as_user(&directory, line);
            let blocks = fs::metadata(directory.join("new")).map_or(0, |file| file.blocks());
            let _ = fs::remove_file(directory.join("new"));
            (filled.status.success(), blocks * 512)
        };
        let (is_full, got) = fill(write);
        assert!(!is_full && got <= most + (1 << 20), "{args:?}: {got} bytes instead of {most}");
        for line in ["exec fallocate -l 40M new", "exec dd if=/dev/zero of=new bs=1M count=60 oflag=direct"] {
            let (has_all, got) = fill(line);
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
    assert!(String::from_utf8_lossy(&done.stdout).ends_with("a\nb\n"), "{done:?}");
    let others = output(
        Command::new("setpriv")
            .args(["--reuid=2003", "--regid=2003", "--clear-groups", "ls", "own"])
            .current_dir(overlay.path("mnt/out")),
    );
    assert!(!others.status.success(), "{others:?}");
    overlay.unmount();
}

/// Writes through a daemon with CAP_SYS_RESOURCE know no quota.
#[test]
fn a_mount_has_only_the_capabilities_that_it_needs() {
    let Some(mut overlay) = overlay() else { return };
    overlay.mount(&[]);
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
    fs::write(overlay.path("change.py"), program).expect("a file");
    for args in [&[][..], &["--trace", "traces"], &["--regions", "regions.toml"]] {
        overlay.mount(args);
        for directory in ["mnt/plain", "mnt/out"] {
            let line = "python3 ../../change.py && rm f g";
            let changed = as_user(&overlay.path(directory), line);
            assert_eq!(String::from_utf8_lossy(&changed.stdout), "0o777\n".repeat(5), "{args:?}: {changed:?}");
        }
        overlay.unmount();
    }
}

/// Symptom: with `--regions`, no file could be created whose path has more than 4,096 bytes. Cause: the kernel does not
/// tell such a path, for which rules were asked.
#[test]
fn paths_are_as_long_as_without_regions() {
    let Some(mut overlay) = overlay() else { return };
    overlay.mount(&["--regions", "regions.toml"]);
    let name = "d".repeat(250);
    let line = format!("for i in $(seq 20); do mkdir {name}; cd -P {name}; done; echo text > new; cat new");
    let made = output(Command::new("sh").args(["-ec", &line]).current_dir(overlay.path("mnt/out")));
    assert_eq!(String::from_utf8_lossy(&made.stdout), "text\n", "{made:?}");
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
    let text = String::from_utf8_lossy(&refused.stderr);
    assert!(text.contains("/proc does not show the open files of this process"), "{refused:?}");
    assert_eq!(refused.status.code(), Some(1));
}
