//! Copies that end after each of their steps, and then go on; and what is refused.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use tempfile::TempDir;
use vpfs_testbed::relayout::{Options, Relayout, RelayoutError, ResumeError, Step, Summary};

const PIECE: u64 = 1 << 20;
const REPLACE: Options =
    Options { replace: true, fill: false, restart: false, fill_holes: false, allow_loss: false, piece: PIECE };
const FILL: Options = Options { replace: false, fill: true, ..REPLACE };
const PLAIN: Options = Options { replace: false, ..REPLACE };

/// A sparse source of more than two pieces, with a mode and a time of its own, and a directory for the target.
struct Place {
    directory: TempDir,
    content: Vec<u8>,
}

impl Place {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir(directory.path().join("new")).unwrap();
        let this = Self { directory, content: Vec::new() };
        let size = 2 * PIECE + 12_345;
        let file = File::create(this.source()).unwrap();
        for (at, byte) in [(100, 1), (PIECE - 3, 2), (2 * PIECE + 5, 3)] {
            file.write_all_at(&[byte; 5000], at).unwrap();
        }
        file.set_len(size).unwrap();
        file.set_permissions(fs::Permissions::from_mode(0o640)).unwrap();
        file.set_modified(UNIX_EPOCH + Duration::new(1_000_000_000, 123_456_789)).unwrap();
        let content = fs::read(this.source()).unwrap();
        Self { content, ..this }
    }

    fn source(&self) -> PathBuf {
        self.directory.path().join("data")
    }

    fn target(&self) -> PathBuf {
        self.directory.path().join("new/data")
    }

    fn open(&self, options: Options) -> Result<Relayout, RelayoutError> {
        Relayout::open(&self.source(), &self.target(), options)
    }

    fn finish(&self, options: Options) -> Result<Summary, RelayoutError> {
        self.open(options)?.run(|_| {})
    }

    fn has_content(&self, path: &Path) -> bool {
        fs::read(path).unwrap() == self.content
    }

    fn check_finished(&self, path: &Path) {
        assert!(self.has_content(path));
        let data = fs::metadata(path).unwrap();
        assert_eq!((data.mode() & 0o7777, data.mtime(), data.mtime_nsec()), (0o640, 1_000_000_000, 123_456_789));
        assert!(data.blocks() * 512 < PIECE, "it is sparse still: {} blocks", data.blocks());
        let left: Vec<_> = fs::read_dir(self.directory.path().join("new")).unwrap().flatten().collect();
        let hidden = left.iter().filter(|entry| entry.file_name().to_string_lossy().starts_with('.'));
        assert_eq!(hidden.count(), 0, "{left:?}");
    }
}

/// Ends a copy after each number of steps, also several times in a row, and looks at what is there.
fn killed_everywhere(options: Options) {
    for steps in 0.. {
        let place = Place::new();
        let (source, target) = (place.source(), place.target());
        if options.fill {
            File::create(&target).unwrap();
        }
        let inode = fs::metadata(&source).unwrap().ino();
        let mut copy = place.open(options).unwrap();
        for _ in 0..steps {
            copy.advance(&mut |_| {}).unwrap();
        }
        let (next, ended) = (copy.step().cloned(), copy.step().is_none());
        drop(copy);
        assert!(place.has_content(&source), "the source's name has the content at {next:?}");
        if !options.replace && fs::metadata(&target).is_ok_and(|target| target.len() > 0) {
            assert!(place.has_content(&target), "the new name has nothing or all at {next:?}");
        }
        if !ended {
            let summary = place.finish(options).unwrap_or_else(|error| panic!("going on at {next:?}: {error}"));
            assert_eq!((summary.size, summary.sha256.len()), (place.content.len() as u64, 64));
        }
        let replaced = fs::metadata(&source).unwrap().ino() != inode;
        assert_eq!(replaced, options.replace, "{next:?}");
        place.check_finished(if options.replace { &source } else { &target });
        if ended {
            return;
        }
    }
}

#[test]
fn a_copy_a_replacement_and_a_prepared_file_go_on_after_any_step() {
    for options in [PLAIN, REPLACE, FILL] {
        eprintln!("{options:?}");
        killed_everywhere(options);
    }
}

/// Advances until the next step is `wanted`.
fn advance_to(copy: &mut Relayout, wanted: impl Fn(&Step) -> bool) {
    while !wanted(copy.step().unwrap()) {
        copy.advance(&mut |_| {}).unwrap();
    }
}

#[test]
fn a_source_that_changes_keeps_its_name() {
    type Change = fn(&Path);
    let write: Change = |path| OpenOptions::new().write(true).open(path).unwrap().write_all_at(b"x", 7).unwrap();
    let exchange: Change = |path| {
        fs::copy(path, path.with_extension("other")).unwrap();
        fs::rename(path.with_extension("other"), path).unwrap();
    };
    for change in [write, exchange] {
        for at in [Step::Verify, Step::Check] {
            let place = Place::new();
            let mut copy = place.open(REPLACE).unwrap();
            advance_to(&mut copy, |step| *step == at);
            change(&place.source());
            let (inode, content) = (fs::metadata(place.source()).unwrap().ino(), fs::read(place.source()).unwrap());
            let error = copy.run(|_| {}).unwrap_err();
            assert!(matches!(error, RelayoutError::Changed(_)), "{error}");
            assert_eq!(fs::metadata(place.source()).unwrap().ino(), inode);
            let again = place.finish(REPLACE).unwrap_err();
            assert!(matches!(again, RelayoutError::Resume { why: ResumeError::SourceChanged, .. }), "{again}");
            place.finish(Options { restart: true, ..REPLACE }).unwrap();
            assert!(fs::read(place.source()).unwrap() == content);
        }
    }
}

#[test]
fn damage_of_the_new_file_is_found() {
    let place = Place::new();
    let mut copy = place.open(REPLACE).unwrap();
    advance_to(&mut copy, |step| *step == Step::Verify);
    let partial = OpenOptions::new().write(true).open(place.directory.path().join("new/.data.vpfs-partial")).unwrap();
    partial.write_all_at(b"x", 777).unwrap();
    let error = copy.run(|_| {}).unwrap_err();
    assert!(matches!(error, RelayoutError::Differs { at: 777, .. }), "{error}");
    assert!(place.has_content(&place.source()));
}

#[test]
fn nothing_is_overwritten() {
    let place = Place::new();
    fs::write(place.target(), "precious").unwrap();
    for options in [PLAIN, REPLACE] {
        assert!(matches!(place.finish(options), Err(RelayoutError::Exists(_))));
    }
    assert!(matches!(place.finish(FILL), Err(RelayoutError::NotEmpty(_))));
    fs::remove_file(place.target()).unwrap();
    assert!(matches!(place.finish(FILL), Err(RelayoutError::NotEmpty(_))));
    // It comes into being during the copy.
    let mut copy = place.open(PLAIN).unwrap();
    advance_to(&mut copy, |step| *step == Step::Switch);
    fs::write(place.target(), "precious").unwrap();
    assert!(matches!(copy.run(|_| {}), Err(RelayoutError::Exists(_))));
    assert_eq!(fs::read_to_string(place.target()).unwrap(), "precious");
}

#[test]
fn hard_links_and_writers_are_refused_or_reported() {
    let place = Place::new();
    let writer = OpenOptions::new().append(true).open(place.source()).unwrap();
    assert!(matches!(place.finish(REPLACE), Err(RelayoutError::Writers { .. })));
    drop(writer);
    fs::hard_link(place.source(), place.directory.path().join("other")).unwrap();
    assert!(matches!(place.finish(REPLACE), Err(RelayoutError::HardLinks { links: 2, .. })));
    let summary = place.finish(PLAIN).unwrap();
    assert!(summary.warnings[0].contains("2 names"), "{:?}", summary.warnings);
}

#[test]
fn damaged_and_foreign_states_are_refused() {
    let place = Place::new();
    let state = place.directory.path().join("new/.data.vpfs-copy.json");
    for damaged in ["", "{}", "{\"format\": 1}", "\u{0}\u{1}"] {
        fs::write(&state, damaged).unwrap();
        assert!(matches!(place.finish(PLAIN), Err(RelayoutError::BadState { .. })), "{damaged:?}");
    }
    fs::remove_file(&state).unwrap();
    let mut copy = place.open(PLAIN).unwrap();
    advance_to(&mut copy, |step| *step == Step::Verify);
    assert!(matches!(place.finish(PLAIN), Err(RelayoutError::Locked(_))), "another process is at it");
    drop(copy);
    assert!(matches!(place.finish(REPLACE), Err(RelayoutError::OtherCopy { .. })));
    fs::remove_file(&state).unwrap();
    assert!(matches!(place.finish(PLAIN), Err(RelayoutError::ForeignPartial(_))));
}

#[test]
fn holes_can_be_filled() {
    let place = Place::new();
    place.finish(Options { fill_holes: true, ..PLAIN }).unwrap();
    assert!(place.has_content(&place.target()));
    assert!(fs::metadata(place.target()).unwrap().blocks() * 512 >= 2 * PIECE);
}
