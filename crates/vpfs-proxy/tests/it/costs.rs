//! What a read is charged: the bytes that it moves, as soon as they are known; and metadata: each object.
//!
//! One slot, two applications of equal weight: the order in which their requests reach the server reveals their costs.

use vpfs_wire::bmi::Tag;

use crate::common::raw::{self, Peer};
use crate::common::{Front, pattern};

const SMALL: usize = 64 << 10;
/// The size that copying tools request, however small the file is.
const MUCH: usize = 10 << 20;

/// Two clients with their server connections; the first one gets the slot.
struct Race {
    clients: [Peer; 2],
    servers: [Peer; 2],
}

impl Race {
    async fn start(front: &Front) -> Self {
        let (one, server_1) = front.pair_from([127, 0, 0, 2]).await;
        let (other, server_2) = front.pair_from([127, 0, 0, 3]).await;
        Self { clients: [one, other], servers: [server_1, server_2] }
    }

    /// Returns once the proxy has classified everything that a client has sent; nothing may be dispatched.
    async fn judged(&mut self, who: usize) {
        self.clients[who].send(raw::noop(FENCE)).await;
        assert_eq!(self.servers[who].tag().await, Tag(FENCE));
        self.servers[who].send(raw::done(Tag(FENCE))).await;
        assert_eq!(self.clients[who].tag().await, Tag(FENCE));
    }

    /// The next request that reaches the server, with its client.
    async fn next(&mut self) -> (usize, u64) {
        let [one, other] = &mut self.servers;
        // With only one slot, only one of the connections can receive a request.
        tokio::select! {
            Tag(tag) = one.tag() => (0, tag),
            Tag(tag) = other.tag() => (1, tag),
        }
    }

    /// Serves a read of a file of `size` bytes, which ends it.
    async fn serve(&mut self, who: usize, tag: u64, size: usize) {
        self.servers[who].send([raw::ack(Tag(tag), size), raw::data(Tag(tag), &pattern(1, size))].concat()).await;
        assert_eq!([self.clients[who].tag().await, self.clients[who].tag().await], [Tag(tag); 2]);
    }
}

const FENCE: u64 = 1000;

#[tokio::test]
async fn a_read_that_finds_less_than_it_asked_for_is_charged_less() {
    let front = Front::start("[scheduler]\npolicy = \"sfq-d\"\ndepth = 1\n").await;
    let mut race = Race::start(&front).await;
    // The first application has the slot, and is charged 10 MiB; the other one's requests arrive in the meantime.
    for tag in 1..=3 {
        race.clients[0].send(raw::read(tag, 10 + tag, MUCH)).await;
    }
    assert_eq!(race.next().await, (0, 1));
    for tag in 1..=3 {
        race.clients[1].send(raw::read(tag, 20 + tag, SMALL)).await;
    }
    race.judged(1).await;
    race.serve(0, 1, SMALL).await;
    // With 64 KiB charged instead, its next request has the same tag as the other one's second, and arrived before it.
    for expected in [(1, 1), (0, 2), (1, 2), (0, 3), (1, 3)] {
        let (who, tag) = race.next().await;
        assert_eq!((who, tag), expected);
        race.serve(who, tag, SMALL).await;
    }
}

#[tokio::test]
async fn the_size_of_a_file_that_was_read_before_is_known() {
    let front = Front::start("[scheduler]\npolicy = \"sfq-d-plus\"\ndepth = 5\n").await;
    let (mut client, mut server) = front.pair().await;
    client.send(raw::read(1, 7, MUCH)).await;
    assert_eq!(server.tag().await, Tag(1));
    server.send([raw::ack(Tag(1), SMALL), raw::data(Tag(1), &pattern(1, SMALL))].concat()).await;
    assert_eq!([client.tag().await, client.tag().await], [Tag(1); 2]);
    // 10 MiB would take all five slots.
    for tag in 2..=6 {
        client.send(raw::read(tag, 7, MUCH)).await;
        assert_eq!(server.tag().await, Tag(tag));
    }
}
