//! Who may connect to the port of peers: nobody without the key, or a certificate of the authority for the host.

use std::fs;
use std::future::poll_fn;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::time::Duration;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use vpfs_config::PeerSecurity;
use vpfs_core::ServerId;
use vpfs_peer::wire::{Frame, Hello};
use vpfs_proxy::{Askers, Daemon, StartError, connect_to_ask};
use vpfs_testbed::ClusterConfig;

use crate::common::cluster::{Cluster, KEY, write_key};
use crate::common::log::Log;

const SHARED: &str = "[scheduler]\npolicy = \"sfq-d\"\nsharing = \"threshold\"\n";

/// Two servers whose daemons do not run yet.
async fn two(files: TempDir, security: &str) -> Cluster {
    Cluster::prepare(ClusterConfig::new(2), &[None], SHARED, files, security).await
}

/// A daemon for server 1 with other settings than that of server 0; after a while they are not connected.
async fn stays_alone(mut cluster: Cluster, from: &str, to: &str) {
    let settings = cluster.settings().replace(from, to);
    assert_ne!(settings, cluster.settings());
    let log = Log::of(tracing::Level::WARN);
    cluster.start_one(0).await;
    let other = cluster.try_start(1, &settings).await.unwrap();
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert!(cluster.reached(0).await.is_empty(), "the stranger is a peer");
    assert!(other.observer().status().await.peers_report().peers.iter().all(|peer| !peer.connected));
    let refused = log.with("was refused");
    assert!((1..=4).contains(&refused.len()), "{refused:?}");
}

#[tokio::test(start_paused = true)]
async fn another_key() {
    let files = TempDir::new().unwrap();
    write_key(&files, "other.key", &KEY.replace('0', "1"));
    stays_alone(two(files, "shared_key = \"{}/peers.key\"\n").await, "peers.key", "other.key").await;
}

const CERTIFICATES: &str = "security = \"certificates\"\nauthority = \"{}/ca.pem\"\ncertificate = \"{}/good.pem\"\n\
                            private_key = \"{}/good.key\"\n";

/// Writes an authority, and a certificate for `hosts` with its key.
fn issue(files: &TempDir, authority: &str, name: &str, hosts: Vec<String>) {
    issue_all(files, authority, vec![(name, hosts)]);
}

/// The same with several certificates.
fn issue_all(files: &TempDir, authority: &str, certificates: Vec<(&str, Vec<String>)>) {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    let write = |name: &str, text: String| fs::write(files.path().join(name), text).unwrap();
    write(&format!("{authority}.pem"), issuer.pem());
    for (name, hosts) in certificates {
        let key = KeyPair::generate().unwrap();
        let certificate = CertificateParams::new(hosts).unwrap().signed_by(&key, &issuer).unwrap();
        write(&format!("{name}.pem"), certificate.pem());
        write(&format!("{name}.key"), key.serialize_pem());
    }
}

fn host(address: SocketAddr) -> String {
    address.ip().to_string()
}

async fn two_with_certificates() -> Cluster {
    let cluster = two(TempDir::new().unwrap(), CERTIFICATES).await;
    issue(&cluster.files, "ca", "good", vec![host(cluster.peers[0])]);
    cluster
}

#[tokio::test(start_paused = true)]
async fn certificates_of_one_authority_are_enough() {
    let cluster = two_with_certificates().await.running().await;
    assert_eq!(cluster.reached(0).await, ["s1"]);
}

#[tokio::test(start_paused = true)]
async fn a_certificate_of_another_authority() {
    let cluster = two_with_certificates().await;
    issue(&cluster.files, "other", "bad", vec![host(cluster.peers[0])]);
    stays_alone(cluster, "good", "bad").await;
}

/// It would do in one direction: the daemon that connects is not asked for its host by TLS.
#[tokio::test(start_paused = true)]
async fn a_certificate_for_another_host() {
    let cluster = two(TempDir::new().unwrap(), CERTIFICATES).await;
    issue(&cluster.files, "ca", "good", vec!["127.0.0.99".into()]);
    let log = Log::of(tracing::Level::WARN);
    let cluster = {
        let mut cluster = cluster;
        cluster.start_one(0).await;
        cluster.start_one(1).await;
        cluster
    };
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert!(cluster.reached(0).await.is_empty() && cluster.reached(1).await.is_empty());
    assert!(!log.with("certificate").is_empty());
}

/// A daemon, and those whom it lets ask.
async fn asked(cluster: &Cluster) -> (Daemon, Askers) {
    let mut daemon = cluster.try_start(0, &cluster.settings()).await.unwrap();
    let askers = daemon.take_askers().unwrap();
    (daemon, askers)
}

/// Whether a daemon lets somebody ask who has this instead of its own.
async fn may_ask((daemon, askers): &mut (Daemon, Askers), security: Option<PeerSecurity>) -> bool {
    let mut peers = daemon.config().peers.clone().unwrap();
    peers.security = security.unwrap_or(peers.security);
    let asker = connect_to_ask(&peers, ServerId(0)).await;
    let admitted = tokio::time::timeout(Duration::from_secs(10), poll_fn(|cx| askers.poll_next(cx))).await;
    let (Ok(mut asker), Ok((_, mut admitted))) = (asker, admitted) else { return false };
    admitted.write_all(b"answer").await.unwrap();
    admitted.flush().await.unwrap();
    let mut answer = [0; 6];
    asker.read_exact(&mut answer).await.unwrap();
    &answer == b"answer"
}

#[tokio::test(start_paused = true)]
async fn who_asks_needs_the_key() {
    let files = TempDir::new().unwrap();
    write_key(&files, "other.key", &KEY.replace('0', "1"));
    let other = files.path().join("other.key");
    let cluster = two(files, "shared_key = \"{}/peers.key\"\n").await;
    let mut asked = asked(&cluster).await;
    assert!(may_ask(&mut asked, None).await);
    assert!(!may_ask(&mut asked, Some(PeerSecurity::SharedKey(other))).await);
}

#[tokio::test(start_paused = true)]
async fn without_keys_nobody_may_ask() {
    let mut asked = asked(&two(TempDir::new().unwrap(), "security = \"none\"\n").await).await;
    assert!(!may_ask(&mut asked, None).await);
}

#[tokio::test(start_paused = true)]
async fn who_asks_needs_a_certificate_for_the_host_of_a_server() {
    let cluster = two(TempDir::new().unwrap(), CERTIFICATES).await;
    let good = vec![host(cluster.peers[0])];
    issue_all(&cluster.files, "ca", vec![("good", good), ("guest", vec!["127.0.0.99".into()])]);
    let mut asked = asked(&cluster).await;
    assert!(may_ask(&mut asked, None).await);
    let [authority, certificate, private_key] =
        ["ca.pem", "guest.pem", "guest.key"].map(|name| cluster.files.path().join(name));
    assert!(!may_ask(&mut asked, Some(PeerSecurity::Certificates { authority, certificate, private_key })).await);
}

#[tokio::test(start_paused = true)]
async fn a_key_that_others_can_read_is_refused() {
    use std::os::unix::fs::PermissionsExt;
    let cluster = two(TempDir::new().unwrap(), "shared_key = \"{}/peers.key\"\n").await;
    let key = cluster.files.path().join("peers.key");
    for (mode, text, expected) in [(0o644, KEY, "chmod 640"), (0o600, "abc", "64 hexadecimal digits")] {
        fs::write(&key, text).unwrap();
        fs::set_permissions(&key, fs::Permissions::from_mode(mode)).unwrap();
        let refused = cluster.try_start(0, &cluster.settings()).await.map(drop).unwrap_err();
        assert!(matches!(refused, StartError::Peers(_)) && refused.to_string().contains(expected), "{refused}");
    }
}

/// Connects and sends `bytes`; what comes back until the end.
async fn send(address: SocketAddr, bytes: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(address).await.unwrap();
    // The daemon may close the connection before it has read everything.
    let _ = stream.write_all(bytes).await;
    let mut answer = Vec::new();
    match stream.read_to_end(&mut answer).await {
        Ok(_) => {}
        Err(error) => assert!(matches!(error.kind(), ErrorKind::ConnectionReset), "{error}"),
    }
    answer
}

/// The first frame of a daemon says which servers there are: strangers do not get even that.
#[tokio::test(start_paused = true)]
async fn garbage_silence_and_plain_text_get_nothing() {
    let mut cluster = two(TempDir::new().unwrap(), "shared_key = \"{}/peers.key\"\n").await;
    cluster.start_one(0).await;
    let mut hello = Vec::new();
    Frame::Hello(Hello::new("vpfs".into(), 1, vec!["s1".into()]).unwrap()).encode(&mut hello);
    for bytes in [&hello[..], b"GET / HTTP/1.1\r\n\r\n", &[0xff; 70_000], &[0; 100], b"\x16\x03\x01\x40\x00", b""] {
        let begin = tokio::time::Instant::now();
        let answer = send(cluster.peers[0], bytes).await;
        // An alert of TLS, if anything.
        assert!(answer.len() <= 7 && !answer.windows(4).any(|part| part == b"vpfs"), "{answer:?}");
        assert!(begin.elapsed() <= Duration::from_secs(6), "{:?}", begin.elapsed());
    }
    cluster.start_one(1).await;
    cluster.all_connected().await;
}

/// A hundred connections that say nothing: eight of them are kept, for five seconds; then a peer gets in.
#[tokio::test(start_paused = true)]
async fn strangers_use_up_little() {
    let mut cluster = two(TempDir::new().unwrap(), "shared_key = \"{}/peers.key\"\n").await;
    cluster.start_one(0).await;
    let mut open = Vec::new();
    for _ in 0..100 {
        open.push(TcpStream::connect(cluster.peers[0]).await.unwrap());
    }
    let mut kept = 0;
    for stream in &mut open {
        let mut byte = [0];
        let ended = tokio::time::timeout(Duration::from_millis(1), stream.read(&mut byte)).await;
        kept += usize::from(ended.is_err());
    }
    assert_eq!(kept, 8);
    cluster.start_one(1).await;
    cluster.all_connected().await;
}

/// From addresses of their own, 81 of them had all places, so that an owner's pushes were refused and its set expired.
#[tokio::test(start_paused = true)]
async fn who_has_the_key_gets_in_whatever_strangers_hold() {
    let cluster = two(TempDir::new().unwrap(), "shared_key = \"{}/peers.key\"\n").await;
    let mut asked = asked(&cluster).await;
    let mut open = Vec::new();
    for number in 0..81 {
        let socket = tokio::net::TcpSocket::new_v4().unwrap();
        socket.bind(([127, 9, 9, 1 + number % 9], 0).into()).unwrap();
        open.push(socket.connect(cluster.peers[0]).await.unwrap());
    }
    assert!(may_ask(&mut asked, None).await);
    let told = asked.0.observer().status().await.holders;
    assert!(told.iter().any(|told| told.port == "peers" && told.holder.starts_with("127.9.9.")), "{told:?}");
}

/// Symptom: with one NFS server, or one process for all servers, nothing listened at the port of peers, so that agents
/// and `--remote` were refused. Cause: the table counted only if there were servers in other processes.
#[tokio::test]
async fn the_port_of_peers_is_open_wherever_the_table_is() {
    let cluster = two(TempDir::new().unwrap(), "shared_key = \"{}/peers.key\"\n").await;
    let config = cluster.network().config(&cluster.settings());
    let mut daemon = Daemon::start(config, &[ServerId(0), ServerId(1)]).await.unwrap();
    assert!(daemon.observer().status().await.peers.is_empty(), "there are no other processes");
    let mut asked = (daemon.take_askers().unwrap(), daemon);
    for server in [ServerId(0), ServerId(1)] {
        let peers = asked.1.config().peers.clone().unwrap();
        let (asker, _) = tokio::join!(connect_to_ask(&peers, server), poll_fn(|cx| asked.0.poll_next(cx)));
        asker.unwrap();
    }
    let cluster = two(TempDir::new().unwrap(), "").await;
    let config = cluster.network().config("");
    let _alone = Daemon::start(config, &[ServerId(0)]).await;
    let refused = TcpStream::connect(cluster.peers[0]).await.map(drop).unwrap_err().kind();
    assert_eq!(refused, ErrorKind::ConnectionRefused, "without the table");
}
