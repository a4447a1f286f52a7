//! Servers that stop and start, clients that misbehave.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use crate::common::{client, cluster, options, pattern};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use vpfs_testbed::client::{ClientError, Errno};
use vpfs_testbed::fsconfig::FsConfig;
use vpfs_testbed::{Client, ClientOptions, ClusterConfig, CreateOptions, EmbeddedCluster};
use vpfs_wire::bmi::{self, Header, Tag};
use vpfs_wire::pvfs2::{Capability, Handle, Op, Reply, ReplyBody, Request, RequestBody, reply, request};

#[tokio::test(flavor = "multi_thread")]
async fn clients_survive_a_restart() {
    let cluster = cluster(4).await;
    let client = client(&cluster).await;
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
    let file = client.create("/f", &CreateOptions::basic().on_servers([1])).await.unwrap();
    client.write_at(&file, 0, pattern(1, 10)).await.unwrap();
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
    let (mut stream, _) = listener.accept().await.unwrap();
    let mut asked = Vec::new();
    while asked.len() < 2 {
        let mut header = [0; Header::LEN];
        stream.read_exact(&mut header).await.unwrap();
        let header = Header::decode(&header).unwrap();
        let mut payload = vec![0; header.size as usize];
        stream.read_exact(&mut payload).await.unwrap();
        match Request::decode(&payload).unwrap().body {
            RequestBody::GetConfig => {
                let reply = Reply::from(reply::GetConfig { text: config.to_text().into() });
                stream.write_all(&bmi::reply_message(header.tag, &reply.encode()).unwrap()).await.unwrap();
            }
            _ => asked.push(header.tag),
        }
    }
    for (tag, bytes_total) in asked.iter().zip([1, 2]) {
        let reply = Reply::from(reply::StatFs { bytes_total, ..EMPTY_STATFS });
        stream.write_all(&bmi::reply_message(*tag, &reply.encode()).unwrap()).await.unwrap();
    }
    // The client closes first.
    let _ = stream.read(&mut [0]).await;
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
    let file = client.create("/f", &CreateOptions::default()).await.unwrap();
    client.write_at(&file, 0, pattern(1, 50_000)).await.unwrap();

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
    let cluster = cluster(1).await;
    let client = client(&cluster).await;
    let file = client.create("/f", &CreateOptions::basic()).await.unwrap();
    client.write_at(&file, 0, pattern(1, 10)).await.unwrap();
    let datafile = Handle(cluster.fs_config().servers[0].data_handles[0].start().to_owned());
    let capability = Capability { op_mask: u32::MAX, ..Capability::default() };
    let fs = cluster.fs_config().fs_id;
    let body = request::Io::contiguous(datafile, fs, vpfs_wire::pvfs2::IoType::Write, 0, 100_000).into();
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
