//! Copies that end after each of their steps or at any moment, and then go on; and what is refused.

/// On a mounted file system.
mod mounted {
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
        let partial =
            OpenOptions::new().write(true).open(place.directory.path().join("new/.data.vpfs-partial")).unwrap();
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
}

/// On OrangeFS without a mount.
mod orangefs {
    use std::future::{Future, poll_fn};
    use std::pin::pin;
    use std::task::Poll;

    use bytes::Bytes;
    use vpfs_testbed::relayout::{Options, OrangefsRelayout, RelayoutError, Step, Summary};
    use vpfs_testbed::{Client, ClientOptions, ClusterConfig, CreateOptions, EmbeddedCluster};

    const PIECE: u64 = 64 << 10;
    const SIZE: usize = (128 << 10) + 12_345;
    const MTIME: u64 = 1_000_000_000;
    const STRIPS: &str = "0:36K;1:36K;2:148K;3:150001";

    /// A source of more than two pieces, with a mode, an owner and a time of its own, and a directory for the target.
    struct Place {
        cluster: EmbeddedCluster,
        content: Bytes,
    }

    impl Place {
        async fn new() -> Self {
            let cluster = EmbeddedCluster::start(ClusterConfig::new(4)).await.unwrap();
            let content: Vec<u8> = (0..=250).cycle().take(SIZE).collect();
            let this = Self { cluster, content: content.into() };
            let client = this.client().await;
            client.mkdir("/new", 0o755).await.unwrap();
            let file = client.create("/data", &CreateOptions::default()).await.unwrap();
            client.write_at(&file, 0, this.content.clone()).await.unwrap();
            client.set_owner("/data", 1000, 100, 0o640).await.unwrap();
            client.set_times("/data", MTIME, MTIME).await.unwrap();
            this
        }

        async fn client(&self) -> Client {
            Client::connect(ClientOptions::new(self.cluster.url())).await.unwrap()
        }

        async fn open(&self, options: Options) -> Result<OrangefsRelayout, RelayoutError> {
            let layout = CreateOptions::variable_strips(STRIPS).on_servers(vec![3, 2, 1, 0]);
            OrangefsRelayout::open(self.client().await, "/data", "/new", layout, options).await
        }

        async fn finish(&self, options: Options) -> Result<Summary, RelayoutError> {
            self.open(options).await?.run(|_| {}).await
        }

        /// Whether the name has all content.
        async fn is_whole(&self, path: &str) -> bool {
            let client = self.client().await;
            let Ok(file) = client.open(path).await else { return false };
            client.read_at(&file, 0, SIZE + 1).await.unwrap() == self.content
        }

        /// One file with the new layout at `path`, and nothing beside.
        async fn check_finished(&self, path: &str) {
            assert!(self.is_whole(path).await, "{path}");
            let client = self.client().await;
            let stat = client.stat(path).await.unwrap();
            let mtime = stat.modified.duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
            assert_eq!((stat.uid, stat.gid, stat.mode, mtime), (1000, 100, 0o640, MTIME));
            assert_eq!(client.open(path).await.unwrap().servers(), [3, 2, 1, 0]);
            let names = client.readdir("/new").await.unwrap();
            assert!(names.iter().all(|entry| !entry.name.starts_with('.')), "{names:?}");
        }
    }

    const PLAIN: Options =
        Options { replace: false, fill: false, restart: false, fill_holes: false, allow_loss: false, piece: PIECE };
    const REPLACE: Options = Options { replace: true, ..PLAIN };

    /// Runs a future for so many polls, then drops it as the end of the process would.
    async fn polled<T>(mut polls: u32, future: impl Future<Output = T>) -> Option<T> {
        let mut future = pin!(future);
        poll_fn(|cx| match polls.checked_sub(1) {
            None => Poll::Ready(None),
            Some(left) => {
                polls = left;
                future.as_mut().poll(cx).map(Some)
            }
        })
        .await
    }

    /// Ends a copy after each number of polls, and once more soon after; then it goes on, or begins again.
    async fn killed_everywhere(options: Options, restart: bool) {
        let then = Options { restart, ..options };
        let mut polls = 0;
        loop {
            let place = Place::new().await;
            let ended = polled(polls, place.finish(options)).await;
            assert!(place.is_whole("/data").await, "the source's name has the content after {polls} polls");
            let begun = place.client().await.stat("/new/data").await.is_ok();
            assert!(!begun || place.is_whole("/new/data").await, "the new name has all after {polls} polls");
            if ended.is_none() {
                let again = polled(polls % 40, place.finish(then)).await;
                if again.is_none_or(|again| again.is_err()) {
                    let mut finished = place.finish(then).await;
                    if matches!(finished, Err(RelayoutError::Exists(_))) && restart {
                        // The new file has its name: this copy is to be finished, not begun again.
                        finished = place.finish(options).await;
                    }
                    // All may be done but the removal of the old file, of which nothing is known any more.
                    let is_done = matches!(finished, Err(RelayoutError::Exists(_)));
                    assert!(is_done || finished.is_ok(), "going on after {polls} polls: {finished:?}");
                }
            }
            place.check_finished(if options.replace { "/data" } else { "/new/data" }).await;
            if let Some(summary) = ended {
                let summary = summary.unwrap();
                assert_eq!((summary.size, summary.sha256.len()), (SIZE as u64, 64));
                return;
            }
            polls += 1;
        }
    }

    #[tokio::test]
    async fn a_replacement_goes_on_after_any_moment() {
        killed_everywhere(REPLACE, false).await;
    }

    #[tokio::test]
    async fn a_copy_begins_again_after_any_moment() {
        killed_everywhere(PLAIN, true).await;
    }

    #[tokio::test]
    #[ignore = "the other two combinations of the same steps"]
    async fn a_copy_goes_on_and_a_replacement_begins_again_after_any_moment() {
        killed_everywhere(PLAIN, false).await;
        killed_everywhere(REPLACE, true).await;
    }

    async fn advance_to(copy: &mut OrangefsRelayout, wanted: impl Fn(&Step) -> bool) {
        while !copy.step().is_some_and(&wanted) {
            copy.advance(&mut |_| {}).await.unwrap();
        }
    }

    #[tokio::test]
    async fn a_source_that_changes_keeps_its_name() {
        let place = Place::new().await;
        let client = place.client().await;
        let mut copy = place.open(REPLACE).await.unwrap();
        advance_to(&mut copy, |step| *step == Step::Check).await;
        let file = client.open("/data").await.unwrap();
        client.write_at(&file, SIZE as u64, "more".into()).await.unwrap();
        assert!(matches!(copy.advance(&mut |_| {}).await, Err(RelayoutError::Changed(_))));
        let refused = place.finish(REPLACE).await.unwrap_err();
        assert!(refused.to_string().contains("--restart"), "{refused}");
        let summary = place.finish(Options { restart: true, ..REPLACE }).await.unwrap();
        assert_eq!(summary.size, SIZE as u64 + 4);
    }

    #[tokio::test]
    async fn damage_of_the_new_file_is_found() {
        let place = Place::new().await;
        let client = place.client().await;
        let mut copy = place.open(PLAIN).await.unwrap();
        advance_to(&mut copy, |step| *step == Step::Verify).await;
        let partial = client.open("/new/.data.vpfs-partial").await.unwrap();
        client.write_at(&partial, PIECE + 77, "!".into()).await.unwrap();
        assert!(matches!(copy.advance(&mut |_| {}).await, Err(RelayoutError::Differs { at, .. }) if at == PIECE + 77));
        assert!(client.stat("/new/data").await.unwrap_err().is_not_found());
        place.finish(Options { restart: true, ..PLAIN }).await.unwrap();
        place.check_finished("/new/data").await;
    }

    #[tokio::test]
    async fn nothing_is_overwritten() {
        let place = Place::new().await;
        let client = place.client().await;
        client.create("/new/data", &CreateOptions::default()).await.unwrap();
        assert!(matches!(place.finish(PLAIN).await, Err(RelayoutError::Exists(_))));
        client.remove("/new/data").await.unwrap();
        client.create("/new/.data.vpfs-partial", &CreateOptions::default()).await.unwrap();
        assert!(matches!(place.finish(PLAIN).await, Err(RelayoutError::ForeignPartial(_))));
        client.remove("/new/.data.vpfs-partial").await.unwrap();
        // Somebody takes the name during the copy.
        let mut copy = place.open(PLAIN).await.unwrap();
        advance_to(&mut copy, |step| *step == Step::Switch).await;
        let other = client.create("/new/data", &CreateOptions::default()).await.unwrap();
        assert!(matches!(copy.advance(&mut |_| {}).await, Err(RelayoutError::Exists(_))));
        assert_eq!(client.stat("/new/data").await.unwrap().handle, other.handle());
        client.remove("/new/data").await.unwrap();
        place.finish(PLAIN).await.unwrap();
        place.check_finished("/new/data").await;
    }

    #[tokio::test]
    async fn a_file_is_replaced_where_it_is() {
        let place = Place::new().await;
        for (options, is_done) in [(PLAIN, false), (REPLACE, true)] {
            let layout = CreateOptions::variable_strips(STRIPS).on_servers(vec![3, 2, 1, 0]);
            let opened = OrangefsRelayout::open(place.client().await, "/data", "//data/", layout, options).await;
            match opened {
                Ok(copy) => assert!(is_done && copy.run(|_| {}).await.is_ok()),
                Err(error) => assert!(!is_done && matches!(error, RelayoutError::Exists(_)), "{error}"),
            }
        }
        place.check_finished("/data").await;
        assert!(matches!(
            OrangefsRelayout::open(place.client().await, "/new", "/x", CreateOptions::default(), PLAIN).await,
            Err(RelayoutError::NotRegular(_))
        ));
        let missing =
            OrangefsRelayout::open(place.client().await, "/none", "/x", CreateOptions::default(), PLAIN).await;
        assert!(missing.unwrap_err().to_string().contains("/none"));
    }
}
