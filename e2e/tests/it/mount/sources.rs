//! Overlays over file systems that are not like a local one.

use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use vpfs_e2e::{requirements, run};

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
