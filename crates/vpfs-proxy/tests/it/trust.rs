//! Requests that claim to be from a server: believed at a server's address only; and who may administer servers.

use tracing::Level;
use vpfs_wire::bmi::Tag;
use vpfs_wire::pvfs2::{Errno, Op, Reply, Status};

use crate::common::Front;
use crate::common::log::Log;
use crate::common::raw;

const SERVER: [u8; 4] = [127, 0, 0, 7];
const CLIENT: [u8; 4] = [127, 0, 0, 8];
const ONE_SLOT: &str = "[scheduler]\npolicy = \"sfq-d\"\ndepth = 1\n";

/// Whether a request with the server hint from `host` passes a full server; a request that is never held follows it.
async fn passes(front: &Front, host: [u8; 4]) -> bool {
    let (mut busy, mut busy_server) = front.pair_from([127, 0, 0, 9]).await;
    busy.send(raw::metadata(1)).await;
    assert_eq!(busy_server.tag().await, Tag(1));
    let (mut claimer, mut claimer_server) = front.pair_from(host).await;
    claimer.send([raw::metadata_with_server_hint(1), raw::noop(2)].concat()).await;
    claimer_server.tag().await == Tag(1)
}

/// Symptom: a client that set the hint of servers took all slots, at no charge. Cause: the hint was believed, no matter
/// who sent it.
#[tokio::test]
async fn a_server_is_believed_at_its_address_only() {
    let log = Log::of(Level::WARN);
    let front = Front::start(&format!("{ONE_SLOT}[trust]\nservers = \"127.0.0.7\"\n")).await;
    assert!(passes(&front, SERVER).await);
    assert_eq!(log.with("trust.servers").len(), 0);
    for _ in 0..2 {
        assert!(!passes(&front, CLIENT).await);
    }
    let lines = log.with("trust.servers");
    assert!(lines.len() == 1 && lines[0].contains("127.0.0.8"), "once for each address: {lines:?}");
}

/// The server of this test listens at 127.0.0.1, as its clients do.
#[tokio::test]
async fn programs_on_the_machine_of_a_loopback_server_are_clients() {
    let front = Front::start(ONE_SLOT).await;
    assert!(!passes(&front, [127, 0, 0, 1]).await);
}

/// A server's name may be found after it has connected, and servers keep their connections.
#[tokio::test]
async fn a_connection_is_believed_as_soon_as_its_address_is() {
    let mut front = Front::start(ONE_SLOT).await;
    let (mut busy, mut busy_server) = front.pair_from(CLIENT).await;
    busy.send(raw::metadata(1)).await;
    assert_eq!(busy_server.tag().await, Tag(1));
    let (mut server, mut passed) = front.pair_from(SERVER).await;
    server.send([raw::metadata_with_server_hint(1), raw::noop(2)].concat()).await;
    assert_eq!(passed.tag().await, Tag(2), "the first one is held");
    front.reload(&format!("{ONE_SLOT}[trust]\nservers = \"127.0.0.7\"\n")).await;
    server.send([raw::metadata_with_server_hint(3), raw::noop(4)].concat()).await;
    assert_eq!(passed.tag().await, Tag(3));
}

#[tokio::test]
async fn administration_by_clients_can_be_refused() {
    let front = Front::start("[trust]\nservers = \"127.0.0.7\"\nmanagement = \"refuse\"\n").await;
    let (mut client, mut client_server) = front.pair_from(CLIENT).await;
    client.send([raw::iterate_handles(1), raw::get_config(2)].concat()).await;
    let (header, payload) = client.receive().await.unwrap();
    let denied = Reply::error(Op::MgmtIterateHandles, Status::error(Errno::EACCES));
    assert_eq!((header.tag, Reply::decode(&payload)), (Tag(1), Ok(denied)));
    assert_eq!(client_server.tag().await, Tag(2));
    let (mut admin, mut admin_server) = front.pair_from(SERVER).await;
    admin.send(raw::iterate_handles(1)).await;
    assert_eq!(admin_server.tag().await, Tag(1));
}
