//! Copies on OrangeFS that end at any moment, and then go on; and what is refused.

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
    let missing = OrangefsRelayout::open(place.client().await, "/none", "/x", CreateOptions::default(), PLAIN).await;
    assert!(missing.unwrap_err().to_string().contains("/none"));
}
