//! Client and servers together: file contents, servers that stop and start, clients that misbehave.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use vpfs_protocol::wire::bmi::{self, Header, Mode, Tag};
use vpfs_protocol::wire::pvfs2::attr::mask;
use vpfs_protocol::wire::pvfs2::reply::{self, SmallIoResult};
use vpfs_protocol::wire::pvfs2::transfer::Node;
use vpfs_protocol::wire::pvfs2::{
    Attr, Capability, Columns, Credential, Handle, HandleRanges, IoType, KeyVal, ObjType, Op, Preq, Reply, ReplyBody,
    Request, RequestBody, request,
};
use vpfs_testbed::client::{ClientError, Errno, FileKind, Stat};
use vpfs_testbed::fsconfig::FsConfig;
use vpfs_testbed::{Client, ClientOptions, ClusterConfig, CreateOptions, EmbeddedCluster, File};

fn distributions() -> Vec<(&'static str, CreateOptions)> {
    vec![
        ("simple", CreateOptions::default()),
        ("odd", CreateOptions::simple_stripe(10_007)),
        ("basic", CreateOptions::basic()),
        ("variable", CreateOptions::variable_strips("0:10K;1:1M;2:30000;3:7;1:500")),
        ("twod", CreateOptions::two_dimensional(2, 5_000, 3)),
        ("three", CreateOptions::simple_stripe(65_536).datafiles(3)),
        ("listed", CreateOptions::simple_stripe(4_096).on_servers([2, 0])),
    ]
}

async fn check(client: &Client, file: &File, expected: &[u8], what: &str) {
    let read = client.read_at(file, 0, expected.len() + 1000).await.unwrap();
    assert!(read == expected, "{what}: {} bytes read, {} expected", read.len(), expected.len());
    assert_eq!(client.size(file).await.unwrap(), expected.len() as u64, "{what}");
}

#[tokio::test]
async fn contents_survive_every_distribution_and_size() {
    let (_cluster, client) = start(4).await;
    for (name, options) in distributions() {
        for len in [0, 1, 100, 6_768, 6_769, 16_345, 65_536, 65_537, 300_001, 1_500_000] {
            let what = format!("{name}, {len} bytes");
            let path = format!("/{name}-{len}");
            let data = pattern(len as u64, len);
            let file = client.create(&path, &options).await.unwrap();
            client.write_at(&file, 0, data.clone()).await.unwrap();
            check(&client, &file, &data, &what).await;
            let again = client.open(&path).await.unwrap();
            check(&client, &again, &data, &what).await;
            assert_eq!(client.stat(&path).await.unwrap().size, len as u64, "{what}");
        }
    }
}

#[tokio::test]
async fn random_accesses_equal_a_vector() {
    let (_cluster, client) = start(3).await;
    for (round, (name, options)) in distributions().into_iter().enumerate().filter(|(_, (name, _))| *name != "variable")
    {
        let options = if name == "listed" { CreateOptions::simple_stripe(999).on_servers([1, 2]) } else { options };
        let file = client.create(&format!("/r{name}"), &options).await.unwrap();
        let mut expected = Vec::new();
        for step in 0..40_u64 {
            let dice = u64::from_le_bytes(*pattern(step * 31 + round as u64, 8).first_chunk().unwrap());
            let (offset, len) = ((dice % 400_000) as usize, (dice >> 32) as usize % 90_000);
            match dice >> 60 {
                0..8 => {
                    let data = pattern(dice, len);
                    client.write_at(&file, offset as u64, data.clone()).await.unwrap();
                    if len > 0 && expected.len() < offset + len {
                        expected.resize(offset + len, 0);
                    }
                    if len > 0 {
                        expected[offset..offset + len].copy_from_slice(&data);
                    }
                }
                8..11 => {
                    client.truncate(&file, offset as u64).await.unwrap();
                    expected.resize(offset, 0);
                }
                _ => {
                    let read = client.read_at(&file, offset as u64, len).await.unwrap();
                    let end = (offset + len).min(expected.len());
                    assert!(read == expected[offset.min(end)..end], "{name}, step {step}");
                }
            }
        }
        check(&client, &file, &expected, name).await;
    }
}

#[tokio::test]
async fn a_small_file_stays_stuffed_until_it_outgrows_its_first_strip() {
    let (cluster, client) = start(4).await;
    let file = written(&client, "/f", &CreateOptions::default(), pattern(1, 65_536)).await;
    assert_eq!(file.servers().len(), 1);
    let other = self::client(&cluster).await;
    let opened = other.open("/f").await.unwrap();
    client.write_at(&file, 65_536, pattern(2, 1)).await.unwrap();
    assert_eq!(file.servers().len(), 4);
    // A client that opened it before finds the new datafiles when it reads beyond the strip.
    assert_eq!(opened.servers().len(), 1);
    assert_eq!(other.read_at(&opened, 65_530, 100).await.unwrap().len(), 7);
    assert_eq!(other.size(&opened).await.unwrap(), 65_537);
}

#[tokio::test]
async fn files_lie_on_the_servers_asked_for() {
    let (cluster, client) = start(4).await;
    let options = CreateOptions::simple_stripe(65_536).on_servers([3, 1]);
    let file = client.create("/f", &options).await.unwrap();
    client.write_at(&file, 0, pattern(1, 200_000)).await.unwrap();
    assert_eq!(file.servers(), [3, 1]);
    assert_eq!((cluster.used_bytes(0), cluster.used_bytes(2)), (0, 0));
    assert!(client.create("/g", &CreateOptions::default().on_servers([7])).await.is_err());
}

#[tokio::test]
async fn a_full_server_refuses_and_continues() {
    let mut config = ClusterConfig::new(1);
    config.capacity_bytes = 1 << 20;
    let cluster = EmbeddedCluster::start(config).await.unwrap();
    let client = client(&cluster).await;
    let file = client.create("/f", &CreateOptions::default()).await.unwrap();
    let refused = client.write_at(&file, 0, pattern(1, 3 << 20)).await.unwrap_err();
    assert_eq!(refused.errno(), Some(Errno::ENOSPC), "{refused}");
    client.remove("/f").await.unwrap();
    assert_eq!(cluster.used_bytes(0), 0);
    let file = written(&client, "/g", &CreateOptions::default(), pattern(2, 1 << 20)).await;
    check(&client, &file, &pattern(2, 1 << 20), "after the refusal").await;
}

async fn names(client: &Client, path: &str) -> Vec<String> {
    client.readdir(path).await.unwrap().into_iter().map(|entry| entry.name).collect()
}

#[tokio::test]
async fn directories_come_and_go() {
    let (_cluster, client) = start(3).await;
    for path in ["/a", "/a/b", "/a/b/c", "/a/b/c/d"] {
        client.mkdir(path, 0o755).await.unwrap();
    }
    assert_eq!(client.stat("/a/b/c/d").await.unwrap().kind, FileKind::Directory);
    assert!(client.mkdir("/a/b", 0o755).await.unwrap_err().is_already_exists());
    assert!(client.mkdir("/x/y", 0o755).await.unwrap_err().is_not_found());
    assert_eq!(client.rmdir("/a/b").await.unwrap_err().errno(), Some(Errno::ENOTEMPTY));
    assert_eq!(names(&client, "/a").await, ["b"]);
    client.rmdir("/a/b/c/d").await.unwrap();
    client.rmdir("/a/b/c").await.unwrap();
    assert!(names(&client, "/a/b").await.is_empty());
    assert!(client.stat("/a/b/c").await.unwrap_err().is_not_found());
    let file = client.create("/f", &CreateOptions::default()).await.unwrap();
    assert_eq!(client.rmdir("/f").await.unwrap_err().errno(), Some(Errno::ENOTDIR));
    assert_eq!(client.remove("/a").await.unwrap_err().errno(), Some(Errno::EISDIR));
    assert_eq!(client.open("/a").await.unwrap_err().errno(), Some(Errno::EISDIR));
    assert_eq!(client.stat("/f/g").await.unwrap_err().errno(), Some(Errno::ENOTDIR));
    assert_eq!(client.stat("/f").await.unwrap().handle, file.handle());
    assert!(client.create("/f", &CreateOptions::default()).await.unwrap_err().is_already_exists());
}

#[tokio::test]
async fn removed_files_give_their_bytes_back() {
    let (_cluster, client) = start(4).await;
    let free = client.statfs().await.unwrap();
    let file = written(&client, "/f", &CreateOptions::default(), pattern(1, 1 << 20)).await;
    assert_eq!(free.bytes_available - client.statfs().await.unwrap().bytes_available, 1 << 20);
    client.remove("/f").await.unwrap();
    assert_eq!(client.statfs().await.unwrap(), free);
    assert!(client.open("/f").await.unwrap_err().is_not_found());
    let gone = client.read_at(&file, 0, 10).await.unwrap_err();
    assert!(gone.is_not_found(), "{gone}");
    // A failed creation leaves nothing behind, either.
    client.mkdir("/d", 0o755).await.unwrap();
    let objects = client.statfs().await.unwrap().handles_available;
    client.create("/d", &CreateOptions::default()).await.unwrap_err();
    assert_eq!(client.statfs().await.unwrap().handles_available, objects);
}

#[tokio::test]
async fn renaming() {
    let (cluster, client) = start(4).await;
    client.mkdir("/d", 0o755).await.unwrap();
    let old = written(&client, "/old", &CreateOptions::default(), pattern(1, 500_000)).await;
    client.rename("/old", "/d/new").await.unwrap();
    assert_eq!(client.stat("/d/new").await.unwrap().handle, old.handle());
    assert_eq!(names(&client, "/").await, ["d"]);

    written(&client, "/target", &CreateOptions::default(), pattern(2, 500_000)).await;
    let used = (0..4).map(|server| cluster.used_bytes(server)).sum::<u64>();
    client.rename("/d/new", "/target").await.unwrap();
    assert_eq!(client.stat("/target").await.unwrap().handle, old.handle());
    assert_eq!((0..4).map(|server| cluster.used_bytes(server)).sum::<u64>() * 2, used);
    assert!(client.read_at(&client.open("/target").await.unwrap(), 0, 500_000).await.unwrap() == pattern(1, 500_000));

    let other = client.create("/other", &CreateOptions::default()).await.unwrap();
    assert!(client.rename_new("/other", "/target").await.unwrap_err().is_already_exists());
    client.rename_new("/other", "/d/other").await.unwrap();
    client.rename_new("/d/other", "/d/other").await.unwrap();
    assert_eq!(client.stat("/d/other").await.unwrap().handle, other.handle());
    assert_eq!(names(&client, "/").await, ["d", "target"]);

    client.rename("/target", "/target").await.unwrap();
    client.mkdir("/d/e", 0o755).await.unwrap();
    client.rename("/d/e", "/e").await.unwrap();
    assert!(client.rename("/target", "/e").await.unwrap_err().is_already_exists());
    client.mkdir("/e/f", 0o755).await.unwrap();
    assert_eq!(client.rename("/e", "/e/f/g").await.unwrap_err().errno(), Some(Errno::EINVAL));
    assert!(client.rename("/nothing", "/x").await.unwrap_err().is_not_found());
}

#[tokio::test]
async fn times_are_what_was_set() {
    let (cluster, client) = start(4).await;
    let at = |seconds| SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
    client.mkdir("/d", 0o755).await.unwrap();
    written(&client, "/d/striped", &CreateOptions::simple_stripe(1_000), pattern(1, 10_000)).await;
    client.create("/d/stuffed", &CreateOptions::default()).await.unwrap();
    client.symlink("striped", "/d/link").await.unwrap();
    for path in ["/d/striped", "/d/stuffed", "/d/link", "/d"] {
        let before = client.stat(path).await.unwrap();
        client.set_times(path, 1_000_000_000, 1_000_000_007).await.unwrap();
        let after = client.stat(path).await.unwrap();
        assert!(after.changed >= before.changed, "{path}");
        let (accessed, modified, changed) = (at(1_000_000_000), at(1_000_000_007), after.changed);
        assert_eq!(after, Stat { accessed, modified, changed, ..before }, "{path}: the rest stays");
    }
    assert!(client.set_times("/d/nothing", 1, 1).await.unwrap_err().is_not_found());
    client.set_owner("/d/striped", 1000, 100, 0o640).await.unwrap();
    let owned = client.stat("/d/striped").await.unwrap();
    assert_eq!((owned.uid, owned.gid, owned.mode, owned.modified), (1000, 100, 0o640, at(1_000_000_007)));
    assert_eq!(client.xattr_names("/d/striped").await.unwrap(), Vec::<Vec<u8>>::new());

    let stranger = Client::connect(ClientOptions { uid: 1000, ..options(&cluster) }).await.unwrap();
    assert_eq!(stranger.set_times("/d/stuffed", 1, 1).await.unwrap_err().errno(), Some(Errno::EACCES));
    assert_eq!(client.stat("/d/stuffed").await.unwrap().accessed, at(1_000_000_000));
}

#[tokio::test]
async fn links_name_their_targets() {
    let (_cluster, client) = start(2).await;
    client.symlink("../somewhere else", "/link").await.unwrap();
    assert_eq!(client.readlink("/link").await.unwrap(), "../somewhere else");
    let stat = client.stat("/link").await.unwrap();
    assert_eq!((stat.kind, stat.size), (FileKind::Symlink, 17));
    client.remove("/link").await.unwrap();
    assert!(client.readlink("/link").await.unwrap_err().is_not_found());
}

#[tokio::test]
async fn permissions_follow_owner_and_mode() {
    let cluster = cluster(2).await;
    let root = client(&cluster).await;
    let user = |uid: u32, gid: u32| Client::connect(ClientOptions { uid, gids: vec![gid], ..options(&cluster) });
    let (alice, bob) = (user(1000, 100).await.unwrap(), user(1001, 100).await.unwrap());
    root.mkdir("/private", 0o700).await.unwrap();
    alice.mkdir("/shared", 0o775).await.unwrap();

    assert_eq!(alice.create("/private/f", &CreateOptions::default()).await.unwrap_err().errno(), Some(Errno::EACCES));
    let file = alice.create("/shared/f", &CreateOptions::default().mode(0o640)).await.unwrap();
    alice.write_at(&file, 0, pattern(1, 10)).await.unwrap();
    let stat = bob.stat("/shared/f").await.unwrap();
    assert_eq!((stat.uid, stat.gid, stat.mode), (1000, 100, 0o640));
    let seen = bob.open("/shared/f").await.unwrap();
    assert!(bob.read_at(&seen, 0, 10).await.unwrap() == pattern(1, 10));
    assert_eq!(bob.write_at(&seen, 0, pattern(2, 10)).await.unwrap_err().errno(), Some(Errno::EACCES));
    bob.remove("/shared/f").await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_survive_a_restart() {
    let (cluster, client) = start(4).await;
    let file = client.create("/f", &CreateOptions::default()).await.unwrap();
    let data = pattern(1, 2_000_000);
    client.write_at(&file, 0, data.clone()).await.unwrap();

    cluster.stop_server(2).await;
    let reading = tokio::spawn({
        let (client, file) = (client.clone(), file.clone());
        async move { client.read_at(&file, 0, 2_000_000).await }
    });
    let writing = tokio::spawn({
        let (client, file) = (client.clone(), file.clone());
        async move { client.write_at(&file, 2_000_000, pattern(2, 1_000_000)).await }
    });
    // An attempt fails.
    let deaf = TcpListener::bind(cluster.addresses()[2]).await.unwrap();
    drop(deaf.accept().await.unwrap());
    drop(deaf);
    assert!(!reading.is_finished() && !writing.is_finished());
    cluster.restart_server(2).await.unwrap();
    assert!(reading.await.unwrap().unwrap() == data);
    writing.await.unwrap().unwrap();
    assert_eq!(client.size(&file).await.unwrap(), 3_000_000);
}

/// The servers run on this thread, too, and accept nothing while it connects. Without a place in the queue of the
/// listening socket, a connect fails after two minutes.
#[tokio::test]
async fn a_burst_of_connects_fits_the_queue() {
    let cluster = cluster(1).await;
    for restart in [false, true] {
        if restart {
            cluster.stop_server(0).await;
            cluster.restart_server(0).await.unwrap();
        }
        let burst = (0..500).map(|_| std::net::TcpStream::connect(cluster.addresses()[0]));
        assert!(burst.collect::<std::io::Result<Vec<_>>>().is_ok());
    }
    assert!(client(&cluster).await.readdir("/").await.unwrap().is_empty());
}

#[tokio::test]
async fn a_dead_server_is_reported_after_the_last_attempt() {
    let cluster = cluster(2).await;
    let client = Client::connect(ClientOptions { retry_limit: Some(1), ..options(&cluster) }).await.unwrap();
    let file = written(&client, "/f", &CreateOptions::basic().on_servers([1]), pattern(1, 10)).await;
    cluster.stop_server(1).await;
    let error = client.read_at(&file, 0, 10).await.unwrap_err();
    assert!(matches!(&error, ClientError::Connection { .. }), "{error}");
    assert!(error.to_string().contains(&cluster.addresses()[1].to_string()), "{error}");
}

#[tokio::test]
async fn different_configurations_are_refused() {
    let real = cluster(1).await;
    // A cluster whose second server belongs to another cluster.
    let mut config = ClusterConfig::new(2);
    let free = |port| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    config.listen = vec![free(0), free(0)];
    let stranger = real.addresses()[0].to_string();
    let probe = TcpListener::bind(free(0)).await.unwrap();
    let own = probe.local_addr().unwrap();
    drop(probe);
    config.listen[0] = own;
    config.advertise = vec![own.to_string(), stranger];
    let odd = EmbeddedCluster::start(config).await.unwrap();
    let error = Client::connect(options(&odd)).await.unwrap_err();
    assert!(matches!(error, ClientError::ConfigsDiffer { .. }), "{error}");
}

/// A server of one connection that answers the first STATFS late, after the second one.
async fn absent_minded(listener: TcpListener) -> Vec<Tag> {
    let config = FsConfig::new("vpfs", &[format!("tcp://{}", listener.local_addr().unwrap())]);
    let mut raw = Raw(listener.accept().await.unwrap().0);
    let mut asked = Vec::new();
    while asked.len() < 2 {
        let (header, payload) = raw.receive().await;
        match Request::decode(&payload).unwrap().body {
            RequestBody::GetConfig => {
                let reply = Reply::from(reply::GetConfig { text: config.to_text().into() });
                raw.0.write_all(&bmi::reply_message(header.tag, &reply.encode()).unwrap()).await.unwrap();
            }
            _ => asked.push(header.tag),
        }
    }
    for (tag, bytes_total) in asked.iter().zip([1, 2]) {
        let reply = Reply::from(reply::StatFs { bytes_total, ..EMPTY_STATFS });
        raw.0.write_all(&bmi::reply_message(*tag, &reply.encode()).unwrap()).await.unwrap();
    }
    // The client closes first.
    let _ = raw.0.read(&mut [0]).await;
    asked
}

const EMPTY_STATFS: reply::StatFs = reply::StatFs {
    fs: 1001,
    bytes_available: 0,
    bytes_total: 0,
    ram_total: 0,
    ram_free: 0,
    load_1: 0,
    load_5: 0,
    load_15: 0,
    uptime_seconds: 0,
    handles_available: 0,
    handles_total: 0,
};

#[tokio::test]
async fn a_silent_server_is_asked_again_with_another_tag() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let url = format!("tcp://{}/vpfs", listener.local_addr().unwrap());
    let server = tokio::spawn(absent_minded(listener));
    let reply_timeout = Some(Duration::from_millis(100));
    let client = Client::connect(ClientOptions { reply_timeout, ..ClientOptions::new(url) }).await.unwrap();
    assert_eq!(client.statfs().await.unwrap().bytes_total, 2, "the late reply is discarded");
    drop(client);
    let tags = server.await.unwrap();
    assert_ne!(tags[0], tags[1]);
}

/// Sends raw bytes and returns what came until the server closed, or until it was quiet for a while.
async fn provoke(address: SocketAddr, bytes: &[u8]) -> (Vec<u8>, bool) {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(bytes).await.unwrap();
    let mut answer = Vec::new();
    let closed = tokio::time::timeout(Duration::from_millis(300), stream.read_to_end(&mut answer)).await.is_ok();
    (answer, closed)
}

fn message(tag: u64, request: &Request) -> Vec<u8> {
    bmi::request_message(Tag(tag), &request.encode()).unwrap()
}

#[tokio::test]
async fn hostile_bytes_close_their_connection_only() {
    let cluster = cluster(1).await;
    let address = cluster.addresses()[0];
    let client = client(&cluster).await;
    let file = written(&client, "/f", &CreateOptions::default(), pattern(1, 50_000)).await;

    let get_config = message(1, &Request::bare(RequestBody::GetConfig));
    let mut wrong_version = get_config.clone();
    wrong_version[25] ^= 0xff;
    let mut too_long = get_config.clone();
    too_long[16..24].copy_from_slice(&(1_u64 << 40).to_le_bytes());
    let trailing = bmi::request_message(Tag(1), &[&Request::bare(RequestBody::GetConfig).encode()[..], b"x"].concat());
    let stray_data = bmi::reply_message(Tag(9), &[0; 100]).unwrap();
    for bytes in [b"GET / HTTP/1.1\r\n\r\n".to_vec(), wrong_version, too_long, trailing.unwrap(), stray_data] {
        let (answer, closed) = provoke(address, &bytes).await;
        assert!(closed && answer.is_empty(), "{:?}", &bytes[..32.min(bytes.len())]);
    }
    let (answer, closed) = provoke(address, &get_config[..40]).await;
    assert!(!closed && answer.is_empty(), "half a message may still become a whole one");
    let (answer, closed) = provoke(address, &get_config).await;
    assert!(!closed && answer.len() > 100);
    assert!(client.read_at(&file, 0, 50_000).await.unwrap() == pattern(1, 50_000));
}

#[tokio::test]
async fn a_chunk_of_the_wrong_length_ends_the_connection() {
    let (cluster, client) = start(1).await;
    let file = written(&client, "/f", &CreateOptions::basic(), pattern(1, 10)).await;
    let datafile = Handle(cluster.fs_config().servers[0].data_handles[0].start().to_owned());
    let capability = Capability { op_mask: u32::MAX, ..Capability::default() };
    let fs = cluster.fs_config().fs_id;
    let body = request::Io::contiguous(datafile, fs, vpfs_protocol::wire::pvfs2::IoType::Write, 0, 100_000).into();
    let write = message(5, &Request { capability, hints: vec![], body });
    let short = bmi::reply_message(Tag(5), &[0; 99_999]).unwrap();
    let (answer, closed) = provoke(cluster.addresses()[0], &[write, short].concat()).await;
    assert!(closed);
    let ack = Reply::decode(&answer[Header::LEN..Header::LEN + 24]).unwrap();
    assert_eq!(ack.op, Op::Io);
    assert_eq!(answer.len(), Header::LEN + 24, "no completion");
    assert_eq!(client.size(&file).await.unwrap(), 10);
}

#[tokio::test]
async fn unknown_operations_are_refused_by_number() {
    let cluster = cluster(1).await;
    let body = RequestBody::MgmtGetUid(request::MgmtGetUid { seconds_back: 1 });
    let (answer, closed) = provoke(cluster.addresses()[0], &message(7, &Request::bare(body))).await;
    assert!(!closed);
    let reply = Reply::decode(&answer[Header::LEN..]).unwrap();
    assert_eq!((reply.op, reply.status.errno(), reply.body), (Op::MgmtGetUid, Some(Errno::ENOSYS), ReplyBody::Empty));
}

#[tokio::test]
async fn more_requests_than_may_run_wait_their_turn() {
    let mut config = ClusterConfig::new(1);
    config.limits.running_requests = 2;
    config.limits.waiting_requests = 4;
    let cluster = EmbeddedCluster::start(config).await.unwrap();
    let requests: Vec<u8> = (1..=200).flat_map(|tag| message(tag, &Request::bare(RequestBody::MgmtNoop))).collect();
    let (answer, closed) = provoke(cluster.addresses()[0], &requests).await;
    assert!(!closed);
    assert_eq!(answer.len(), 200 * (Header::LEN + 16));
}

#[tokio::test]
async fn a_client_that_sends_no_more_still_gets_its_answers() {
    let cluster = cluster(1).await;
    let mut stream = TcpStream::connect(cluster.addresses()[0]).await.unwrap();
    let requests: Vec<u8> = (1..=50).flat_map(|tag| message(tag, &Request::bare(RequestBody::GetConfig))).collect();
    stream.write_all(&requests).await.unwrap();
    stream.shutdown().await.unwrap();
    let mut answers = Vec::new();
    stream.read_to_end(&mut answers).await.unwrap();
    let first = Header::decode(&answers).unwrap();
    assert_eq!(answers.len(), 50 * (Header::LEN + first.size as usize));
}

const FS: i32 = 1001;

/// One connection, one request at a time.
struct Raw(TcpStream);

impl Raw {
    async fn new(cluster: &EmbeddedCluster, server: usize) -> Self {
        Self(TcpStream::connect(cluster.addresses()[server]).await.unwrap())
    }

    async fn send(&mut self, body: impl Into<RequestBody>) {
        let capability = Capability { op_mask: u32::MAX, ..Capability::default() };
        let request = Request { capability, ..Request::bare(body.into()) };
        self.0.write_all(&bmi::request_message(Tag(3), &request.encode()).unwrap()).await.unwrap();
    }

    async fn receive(&mut self) -> (Header, Vec<u8>) {
        let mut header = [0; Header::LEN];
        self.0.read_exact(&mut header).await.unwrap();
        let header = Header::decode(&header).unwrap();
        let mut payload = vec![0; header.size as usize];
        self.0.read_exact(&mut payload).await.unwrap();
        (header, payload)
    }

    async fn ask(&mut self, body: impl Into<RequestBody>) -> Result<ReplyBody, Errno> {
        self.send(body).await;
        let reply = Reply::decode(&self.receive().await.1).unwrap();
        reply.status.errno().map_or(Ok(reply.body), Err)
    }

    /// The reply to a request that succeeds.
    async fn get<R: TryFrom<ReplyBody, Error = ReplyBody>>(&mut self, body: impl Into<RequestBody>) -> R {
        self.ask(body).await.unwrap().try_into().unwrap()
    }

    async fn datafiles(&mut self, file: &File) -> Vec<Handle> {
        self.get_attr(Handle(file.handle())).await.unwrap().datafiles.unwrap().handles.0
    }

    async fn get_attr(&mut self, handle: Handle) -> Result<Attr, Errno> {
        let (mask, credential) =
            (mask::COMMON | mask::DATAFILES | mask::DISTDIR | mask::CAPABILITY, Credential::default());
        let reply = self.ask(request::GetAttr { handle, fs: FS, mask, credential }).await?;
        Ok(reply::GetAttr::try_from(reply).unwrap().attr)
    }
}

#[tokio::test]
async fn servers_serve_their_own_objects_only() {
    let cluster = cluster(2).await;
    let root = Handle(cluster.fs_config().root_handle);
    let attr = Raw::new(&cluster, 0).await.get_attr(root).await.unwrap();
    let capability = attr.capability.unwrap();
    assert_eq!((capability.op_mask, capability.issuer), (u32::MAX, "S:s1".into()));
    assert_eq!(capability.handles, [root, attr.distdir.unwrap().handles[0]]);
    assert_eq!(Raw::new(&cluster, 1).await.get_attr(root).await, Err(Errno::ENOENT));
    assert_eq!(Raw::new(&cluster, 1).await.ask(request::StatFs { fs: 7 }).await, Err(Errno::EINVAL));
}

#[tokio::test]
async fn a_long_listing_is_a_rendezvous_message() {
    let (cluster, client) = start(1).await;
    for n in 0..400 {
        client.mkdir(&format!("/{n:0>60}"), 0o755).await.unwrap();
    }
    let mut raw = Raw::new(&cluster, 0).await;
    let dirdata = Handle(cluster.fs_config().root_handle + 1);
    let token = request::TOKEN_START;
    raw.send(request::ReadDir { dirdata, fs: FS, count: 10_000, token }).await;
    let (header, payload) = raw.receive().await;
    assert_eq!(header.mode, Mode::Rendezvous);
    let page = reply::ReadDir::try_from(Reply::decode(&payload).unwrap().body).unwrap();
    assert_eq!((page.entries.len(), page.token), (400, request::TOKEN_END));
}

#[tokio::test]
async fn extended_attributes() {
    let cluster = cluster(1).await;
    let mut raw = Raw::new(&cluster, 0).await;
    let handle = Handle(cluster.fs_config().root_handle);
    let key = |name: &str| KeyVal::from(format!("user.{name}\0"));
    let set = |name: &str, value: &[u8], flags| {
        let entries = Columns(vec![(key(name), KeyVal::from(value))]);
        request::SetEattr { handle, fs: FS, flags, entries }
    };
    let get = |name: &str, room| request::GetEattr { handle, fs: FS, keys: Columns(vec![(key(name), room)]) };
    assert_eq!(raw.ask(get("a", 100)).await, Err(Errno::ENOENT));
    assert_eq!(raw.ask(set("a", b"one", 2)).await, Err(Errno::ENOENT));
    assert_eq!(raw.ask(set("a", b"one", 1)).await, Ok(ReplyBody::Empty));
    assert_eq!(raw.ask(set("a", b"two", 1)).await, Err(Errno::EEXIST));
    assert_eq!(raw.ask(set("b", &[5, 0, 0, 0], 0)).await, Ok(ReplyBody::Empty));
    assert_eq!(raw.ask(get("a", 2)).await, Err(Errno::EOVERFLOW));
    assert_eq!(raw.get::<reply::GetEattr>(get("a", 3)).await.values.0, [(KeyVal::from("one"), 0)]);
    let list = |count| request::ListEattr { handle, fs: FS, token: request::TOKEN_START, key_sizes: vec![256; count] };
    let listed: reply::ListEattr = raw.get(list(8)).await;
    assert_eq!((listed.keys, listed.token), (vec![key("a"), key("b")], request::TOKEN_END));
    let names = client(&cluster).await.xattr_names("/").await.unwrap();
    assert_eq!(names, [b"user.a", b"user.b"]);
    assert_eq!(raw.ask(list(17)).await, Err(Errno::EINVAL));
    let remove = || request::DelEattr { handle, fs: FS, key: key("a") };
    assert_eq!(raw.ask(remove()).await, Ok(ReplyBody::Empty));
    assert_eq!(raw.ask(remove()).await, Err(Errno::ENOENT));
}

#[tokio::test]
async fn attributes_are_set_as_the_mask_says() {
    let cluster = cluster(1).await;
    let handle = Handle(client(&cluster).await.create("/f", &CreateOptions::basic()).await.unwrap().handle());
    let mut raw = Raw::new(&cluster, 0).await;
    let before = raw.get_attr(handle).await.unwrap();
    let attr = Attr { mtime: 1_000, atime: 9, perms: 0o600, objtype: ObjType::METAFILE, ..Attr::default() };
    let set = |mask: u32, attr: &Attr| {
        let attr = Attr { mask, ..attr.clone() };
        request::SetAttr { handle, fs: FS, attr, credential: Credential::default() }
    };
    let unstuffed = Attr { stuffed_size: None, ..attr.clone() };
    raw.ask(set(mask::MTIME | mask::MTIME_SET | mask::TYPE, &unstuffed)).await.unwrap();
    let after = raw.get_attr(handle).await.unwrap();
    assert_eq!((after.mtime, after.atime, after.perms), (1_000, before.atime, before.perms));
    raw.ask(set(mask::PERMS | mask::ATIME, &unstuffed)).await.unwrap();
    let after = raw.get_attr(handle).await.unwrap();
    assert_eq!((after.mtime, after.perms), (1_000, 0o600));
    assert!(after.atime >= before.atime, "without its `set` bit a time becomes now");
    let wrong_type = Attr { objtype: ObjType::DIRECTORY, ..attr };
    assert_eq!(raw.ask(set(mask::TYPE | mask::PERMS, &wrong_type)).await, Err(Errno::EACCES));
}

#[tokio::test]
async fn many_objects_at_once() {
    let (cluster, client) = start(2).await;
    let file = written(&client, "/f", &CreateOptions::simple_stripe(1000).on_servers([0, 1]), pattern(1, 2_500)).await;
    let owner = cluster.fs_config().owner_of(file.handle()).unwrap();
    let mut raw = Raw::new(&cluster, owner).await;
    let datafiles = raw.datafiles(&file).await;
    let handles = [&datafiles[..], &[Handle(5)]].concat();

    let credential = Credential::default();
    let sizes = request::TreeGetFileSize { fs: FS, caller_index: 4, retry_at_leaf: 0, credential, handles };
    let reply: reply::TreeGetFileSize = raw.get(sizes).await;
    let rows: Vec<(i64, bool)> = reply.sizes.0.into_iter().map(|(size, error)| (size, error == 0)).collect();
    assert_eq!((reply.caller_index, rows), (4, vec![(1_500, true), (1_000, true), (0, false)]));
    let list = request::ListAttr { fs: FS, mask: mask::COMMON, handles: vec![Handle(file.handle()), Handle(5)] };
    let attrs = raw.get::<reply::ListAttr>(list).await.attrs.0;
    let types: Vec<_> = attrs.iter().map(|(error, attr)| (*error == 0, attr.objtype)).collect();
    assert_eq!(types, [(true, ObjType::METAFILE), (false, ObjType::NONE)]);
    let mut position = request::TOKEN_START;
    let mut listed = Vec::new();
    while position != request::TOKEN_END {
        let page = request::MgmtIterateHandles { fs: FS, count: 2, flags: 0, position };
        let page: reply::MgmtIterateHandles = raw.get(page).await;
        position = page.position;
        listed.extend(page.handles);
    }
    assert!(listed.contains(&Handle(file.handle())) && listed.is_sorted());
    assert!(listed.iter().all(|handle| cluster.fs_config().owner_of(handle.0) == Some(owner)));
}

#[tokio::test]
async fn only_links_are_made_in_batches() {
    let cluster = cluster(1).await;
    let mut raw = Raw::new(&cluster, 0).await;
    let batch = |objtype, count| request::BatchCreate { fs: FS, objtype, count, extents: HandleRanges::default() };
    assert_eq!(raw.ask(batch(ObjType::DATAFILE, 1)).await, Err(Errno::EINVAL));
    assert_eq!(raw.ask(batch(ObjType::SYMLINK, 1_000_000)).await, Err(Errno::EINVAL));
    assert_eq!(raw.get::<reply::BatchCreate>(batch(ObjType::SYMLINK, 3)).await.handles.len(), 3);
}

/// 64 blocks of 1000 bytes, 5000 bytes apart.
fn strided() -> Preq {
    let root = Node {
        num_ereqs: 1_000,
        num_blocks: 64,
        stride: 5_000,
        ub: 316_000,
        aggregate_size: 64_000,
        num_contig_chunks: 64,
        depth: 2,
        num_nested_req: 1,
        ereq: 1,
        ..Node::BYTE
    };
    Preq { nodes: vec![root, Node { committed: 0, ..Node::BYTE }] }
}

#[tokio::test]
async fn strided_accesses_move_their_blocks_only() {
    let (cluster, client) = start(1).await;
    let file = client.create("/f", &CreateOptions::basic()).await.unwrap();
    let mut expected = pattern(1, 320_000).to_vec();
    client.write_at(&file, 0, Bytes::from(expected.clone())).await.unwrap();
    let mut raw = Raw::new(&cluster, 0).await;
    let handle = raw.datafiles(&file).await[0];
    let io = |io_type, len| request::Io { preq: strided(), ..request::Io::contiguous(handle, FS, io_type, 0, len) };
    raw.ask(io(IoType::Read, 64_000)).await.unwrap();
    let blocks: Vec<u8> = expected.chunks(5_000).flat_map(|block| &block[..1_000]).copied().collect();
    let (header, data) = raw.receive().await;
    assert_eq!(header.mode, Mode::Rendezvous);
    assert!(data == blocks);

    let new = pattern(2, 64_000);
    raw.ask(io(IoType::Write, 64_000)).await.unwrap();
    raw.0.write_all(&bmi::reply_message(Tag(3), &new).unwrap()).await.unwrap();
    let done = reply::WriteCompletion::try_from(Reply::decode(&raw.receive().await.1).unwrap().body).unwrap();
    assert_eq!(done.total_completed, 64_000);
    for (block, data) in expected.chunks_mut(5_000).zip(new.chunks(1_000)) {
        block[..1_000].copy_from_slice(data);
    }
    assert!(client.read_at(&file, 0, 320_000).await.unwrap() == expected);
}

#[tokio::test]
async fn small_reads_end_with_the_file() {
    let (cluster, client) = start(1).await;
    let file = written(&client, "/f", &CreateOptions::basic(), pattern(1, 100)).await;
    let mut raw = Raw::new(&cluster, 0).await;
    let handle = raw.datafiles(&file).await[0];
    for (offset, expected) in [(0, 100), (90, 10), (100, 0), (5_000, 0)] {
        let small = request::Io::contiguous(handle, FS, IoType::Read, offset, 10_000_000).small(Vec::new());
        let reply: reply::SmallIo = raw.get(small).await;
        let SmallIoResult::Read(data) = reply.result else { panic!("not a read") };
        assert_eq!((data.len(), reply.bstream_size), (expected, 100));
    }
}

/// Servers in memory, without a device model.
async fn cluster(servers: usize) -> EmbeddedCluster {
    EmbeddedCluster::start(ClusterConfig::new(servers)).await.unwrap()
}

/// The same with a client.
async fn start(servers: usize) -> (EmbeddedCluster, Client) {
    let cluster = cluster(servers).await;
    let client = client(&cluster).await;
    (cluster, client)
}

/// A new file with this content.
async fn written(client: &Client, path: &str, options: &CreateOptions, content: Bytes) -> File {
    let file = client.create(path, options).await.unwrap();
    client.write_at(&file, 0, content).await.unwrap();
    file
}

/// A client that retries often and after short pauses.
fn options(cluster: &EmbeddedCluster) -> ClientOptions {
    let (retry_limit, retry_delay) = (Some(100), Some(Duration::from_millis(10)));
    ClientOptions { retry_limit, retry_delay, ..ClientOptions::new(cluster.url()) }
}

async fn client(cluster: &EmbeddedCluster) -> Client {
    Client::connect(options(cluster)).await.unwrap()
}

/// `len` bytes that differ by position and by seed.
fn pattern(seed: u64, len: usize) -> Bytes {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let mut data: Vec<u8> = (0..len.div_ceil(8)).flat_map(|_| next().to_le_bytes()).collect();
    data.truncate(len);
    data.into()
}
