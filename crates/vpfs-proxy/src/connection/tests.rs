//! One connection before a server that only receives requests.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use tokio::io::{AsyncReadExt, AsyncWriteExt, Interest};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use vpfs_config::{AppTable, Config};
use vpfs_session::nfs::Nfs;
use vpfs_session::orangefs::{AddressMap, OrangeFs};
use vpfs_session::{Interposer, Requester};
use vpfs_wire::bmi::{Tag, reply_message, request_message};
use vpfs_wire::pvfs2::{Handle, Op, Reply, Request, RequestBody, request};

use super::*;
use crate::clock::Clock;
use crate::log_limit::LogLimit;
use crate::names::Names;
use crate::pipes;
use crate::shared::Rules;

/// One slot in front of a server that only receives requests.
struct Place {
    server: TcpListener,
    clients: TcpListener,
    shared: Arc<Shared>,
    listener: Arc<Listener>,
}

impl Place {
    async fn new() -> Self {
        let [server, clients] = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0"));
        let (server, clients) = (server.await.unwrap(), clients.await.unwrap());
        let text = "[[server]]\nname = \"s\"\naddress = \"tcp://127.0.0.1:3334\"\n[[listener]]\nport = 5334\n\
                    [scheduler]\npolicy = \"sfq-d\"\ndepth = 1\n[trust]\nservers = [\"127.0.0.1\"]\n";
        let config = Config::parse("test", text).unwrap();
        let (apps, clock) = (AppTable::new(&config), Clock::start());
        let gate = Arc::new(Gate::alone(clock.clone(), &config, &apps));
        let listener = Listener {
            server: "s".to_owned(),
            address: clients.local_addr().unwrap(),
            upstream: ("127.0.0.1".to_owned(), server.local_addr().unwrap().port()),
            names: Names::unknown(&clock),
            index: 0,
            interposer: Arc::new(OrangeFs::new(AddressMap::default())),
            gate: Arc::clone(&gate),
            down: false.into(),
            log: LogLimit::default(),
        };
        let rules = Rules::resolved(&config);
        let shared = Arc::new(Shared::new(clock, vec![gate], rules, apps));
        Self { server, clients, shared, listener: Arc::new(listener) }
    }

    /// A served client, and the connection that was opened for it.
    async fn client(&self) -> (TcpStream, TcpStream, JoinHandle<Result<End, Failure>>) {
        let client = TcpStream::connect(self.clients.local_addr().unwrap()).await.unwrap();
        let (accepted, peer) = self.clients.accept().await.unwrap();
        let newcomer = Newcomer::Accepted(accepted);
        let served = serve(Arc::clone(&self.shared), Arc::clone(&self.listener), newcomer, peer, Arc::default());
        let task = tokio::spawn(async { served.await.0 });
        (client, self.server.accept().await.unwrap().0, task)
    }

    /// A client, its server, and what is between them, which nothing runs.
    async fn connection(&self) -> (TcpStream, TcpStream, Connection) {
        let client = TcpStream::connect(self.clients.local_addr().unwrap()).await.unwrap();
        let (accepted, peer) = self.clients.accept().await.unwrap();
        let upstream = TcpStream::connect(self.server.local_addr().unwrap()).await.unwrap();
        let halves = [accepted, upstream].map(|stream| Half::new(Stream::Tcp(stream)));
        let (listener, peer) = (Arc::clone(&self.listener), (peer, Arc::default()));
        let connection = Connection::new(Arc::clone(&self.shared), listener, halves, peer, None);
        (client, self.server.accept().await.unwrap().0, connection)
    }
}

fn requests(tags: impl IntoIterator<Item = u64>) -> Vec<u8> {
    let body = request::Flush { handle: Handle(1), fs: 1, flags: 0 };
    let payload = Request::bare(RequestBody::Flush(body)).encode();
    tags.into_iter().flat_map(|tag| request_message(Tag(tag), &payload).unwrap()).collect()
}

/// Symptom: fewer slots than configured after a session's task had panicked. Cause: only the orderly end of a task
/// freed the slots of its requests. A cancelled task ends in the same way.
#[tokio::test]
async fn an_aborted_task_frees_its_slots() {
    let place = Place::new().await;
    let (mut first, mut first_server, task) = place.client().await;
    let (mut second, mut second_server, _task) = place.client().await;
    let expected = requests([1]);
    let mut arrived = vec![0; expected.len()];
    // The first connection has the slot, and more of its requests are queued.
    first.write_all(&requests(1..=5)).await.unwrap();
    first_server.read_exact(&mut arrived).await.unwrap();
    second.write_all(&expected).await.unwrap();
    task.abort();
    assert!(task.await.unwrap_err().is_cancelled());
    second_server.read_exact(&mut arrived).await.unwrap();
    assert_eq!(arrived, expected);
    assert_eq!(first_server.read(&mut arrived).await.unwrap(), 0);
}

/// The first step reads the start of a long write, the second leaves the rest in the socket.
#[tokio::test]
async fn bytes_that_are_not_read_are_not_awaited() {
    let place = Place::new().await;
    let (mut client, _server, mut connection) = place.connection().await;
    let requester = Requester::Client { may_manage: true };
    connection.session = Nfs.session(connection.limits.session, requester, None);
    let words = [1, 0, 2, 100_003, 3, 7, 0, 0, 0, 0, 4, 9, 0, 0, 100_000, 2, 100_000_u32];
    let mark = 100_068 | (1 << 31);
    let start = std::iter::once(&mark).chain(&words).flat_map(|word| word.to_be_bytes());
    client.write_all(&start.chain([7; 1000]).collect::<Vec<u8>>()).await.unwrap();
    connection.step().await.unwrap();
    client.write_all(&[7; 1000]).await.unwrap();
    connection.step().await.unwrap();
    assert!(connection.client.awaits_until().is_some());
    connection.session.drain();
    assert!(pin!(connection.step()).poll(&mut Context::from_waker(Waker::noop())).is_pending());
    assert_eq!(connection.client.awaits_until(), None, "otherwise it would spin from then on");
}

/// Symptom: once in hundreds of upgrades under load, an idle connection was cut off after `limits.drain_timeout`.
/// Cause: the stage was looked at twice in a turn, and a hand-over that began in between was taken for seen.
#[tokio::test]
async fn a_hand_over_that_begins_in_the_middle_of_a_turn_is_noticed() {
    let place = Place::new().await;
    let (_client, _server, mut connection) = place.connection().await;
    let stage = *connection.stage.borrow_and_update();
    connection.suspend(stage);
    place.shared.enter(Stage::HandingOver);
    assert_eq!(connection.end(stage), None);
    assert!(connection.stage.has_changed().unwrap(), "otherwise nothing ends its next wait");
    let stage = *connection.stage.borrow_and_update();
    connection.suspend(stage);
    assert_eq!(connection.end(stage), Some(End::HandedOver));
}

/// Symptom: under load, one upgrade in a few hundred cut a connection off after `limits.drain_timeout`. Cause: whether
/// it can continue elsewhere was looked at before the last answer was sent to its client, and nothing happened then.
#[tokio::test]
async fn a_connection_is_handed_over_in_the_turn_that_sends_the_last_answer() {
    let place = Place::new().await;
    let (_client, _server, mut connection) = place.connection().await;
    connection.client.ready(Some(Interest::WRITABLE)).await.unwrap();
    connection.server.ready(Some(Interest::WRITABLE)).await.unwrap();
    connection.client.buf.extend_from_slice(&requests([1]));
    connection.catch_up();
    connection.settle().unwrap();
    connection.server.buf.extend_from_slice(&reply_message(Tag(1), &Reply::done(Op::Flush).encode()).unwrap());
    connection.catch_up();
    place.shared.enter(Stage::HandingOver);
    let ended = std::future::poll_fn(|context| Poll::Ready(pin!(connection.run()).poll(context))).await;
    assert!(matches!(ended, Poll::Ready(Ok(End::HandedOver))), "{ended:?}");
}

/// Otherwise thousands of idle connections hold half a MiB each.
#[tokio::test]
async fn an_idle_connection_has_no_buffers() {
    let place = Place::new().await;
    let (mut client, mut server, mut connection) = place.connection().await;
    let payload = Request::bare(RequestBody::MgmtNoop).encode();
    let requests: Vec<u8> = (1..=200).flat_map(|tag| request_message(Tag(tag), &payload).unwrap()).collect();
    let traffic = async {
        client.write_all(&requests).await.unwrap();
        server.read_exact(&mut vec![0; requests.len()]).await.unwrap();
        let reply = Reply::done(Op::MgmtNoop).encode();
        let replies: Vec<u8> = (1..=200).flat_map(|tag| reply_message(Tag(tag), &reply).unwrap()).collect();
        server.write_all(&replies).await.unwrap();
        client.read_exact(&mut vec![0; replies.len()]).await.unwrap();
        // The connection runs once more, to wait.
        tokio::task::yield_now().await;
    };
    tokio::select! {
        biased;
        ended = connection.run() => panic!("{ended:?}"),
        () = traffic => {}
    }
    assert_eq!([connection.client.buf.capacity(), connection.server.buf.capacity()], [0, 0]);
    let tables = [connection.requests.capacity(), connection.dispatched.capacity()];
    assert!(tables.iter().all(|capacity| *capacity <= 16), "{tables:?}");
}

fn socket(half: &Half) -> socket2::SockRef<'_> {
    let Stream::Tcp(stream) = &half.stream else { panic!("a socket of the system") };
    stream.into()
}

/// Symptom: with send buffers of 4 KiB, each call of 65,535 bytes took 40 ms longer than without the proxy. Cause: the
/// peer sent the rest of its message only after the acknowledgement of the first part, which waited for an answer.
#[tokio::test]
async fn the_first_part_of_a_message_is_acknowledged_at_once() {
    let place = Place::new().await;
    let (mut client, mut server, mut connection) = place.connection().await;
    let reply = reply_message(Tag(1), &Reply::done(Op::Flush).encode()).unwrap();
    for (side, message) in [(Side::Client, requests([1])), (Side::Server, reply)] {
        let (first, rest) = message.split_at(30);
        for (part, is_whole) in [(first, false), (rest, true)] {
            let (half, peer) = match side {
                Side::Client => (&connection.client, &mut client),
                Side::Server => (&connection.server, &mut server),
            };
            // As after an answer: acknowledgements wait for something to go with.
            socket(half).set_tcp_quickack(false).unwrap();
            peer.write_all(part).await.unwrap();
            half.ready(Some(Interest::READABLE)).await.unwrap();
            connection.read(connection.shared.clock.now()).unwrap();
            connection.settle().unwrap();
            let half = if side == Side::Client { &connection.client } else { &connection.server };
            assert_eq!(socket(half).tcp_quickack().unwrap(), !is_whole, "{side}, {} bytes", part.len());
        }
    }
}

/// Symptom: CPU of 1.3 times HAProxy's for each byte. Cause: data was copied into the process and out of it.
#[tokio::test]
async fn a_long_message_passes_through_pipes_if_there_are_any() {
    let _turn = pipes::IN_TURN.lock().await;
    let payload: Vec<u8> = (0..4 << 20).map(|at: u32| (at % 251) as u8).collect();
    let message = reply_message(Tag(9), &payload).unwrap();
    for is_piped in [true, false] {
        let taken = (!is_piped).then(pipes::take_all);
        let place = Place::new().await;
        let (mut client, mut server, mut connection) = place.connection().await;
        socket2::SockRef::from(&client).set_recv_buffer_size(64 << 10).unwrap();
        socket(&connection.client).set_send_buffer_size(64 << 10).unwrap();
        let sent = message.clone();
        tokio::spawn(async move { server.write_all(&sent).await });
        // The client reads only when nothing more fits.
        while connection.server_room() > 0 {
            connection.server.ready(Some(Interest::READABLE)).await.unwrap();
            connection.read(connection.shared.clock.now()).unwrap();
            connection.settle().unwrap();
        }
        assert_eq!(connection.session.to_client().piped() > 0, is_piped);
        let mut received = vec![0; message.len()];
        let (ended, read) = tokio::join!(connection.run(), client.read_exact(&mut received));
        assert!(matches!(ended, Ok(End::Closed)) && read.is_ok(), "{ended:?}, {read:?}");
        assert!(received == message);
        drop(taken);
    }
}
