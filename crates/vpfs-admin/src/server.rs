//! Serves HTTP: one request for each connection, within a few seconds.
//!
//! A connection takes a place, and only making an answer takes a permit. So an idle or slow connection blocks no other:
//! permits are few, but each is free again within milliseconds, and a new connection gets the place of the oldest one
//! of the host that holds most.

use std::convert::Infallible;
use std::future::poll_fn;
use std::io;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{ACCEPT, ALLOW, AUTHORIZATION, CONTENT_TYPE, WWW_AUTHENTICATE};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::sync::{Semaphore, mpsc};
use vpfs_proxy::{Askers, Holder, Observer, Place, Places, Room};

use crate::access::{Caller, is_token};
use crate::answer::Answer;
use crate::routes::{self, Kept, METRICS, Question, ROUTES, SETS};
use crate::sets;

/// Answers that are made at a time.
const MAKING: usize = 4;
/// Connections that have not sent their request.
const WAITING: Room = Room { all: 256, each: 64 };
/// Answers that are being sent. It bounds their memory: one has up to 100 KiB for each server, and 20 KiB for each
/// application there.
const SENDING: Room = Room { all: 32, each: 16 };
/// The time for the head of a request.
const HEAD: Duration = Duration::from_secs(5);
/// The time for the rest of a request and its answer, however slowly the other end sends and takes it.
const PATIENCE: Duration = Duration::from_secs(10);
/// The longest line and headers of a request; the shortest that hyper permits.
const LONGEST_HEAD: usize = 8 << 10;
/// After a failure to accept, the time to the next attempt.
const RETRY: Duration = Duration::from_secs(1);

/// Who may read metrics.
#[derive(Clone, Debug)]
pub enum MetricsAccess {
    /// Everyone who connects.
    Everybody,
    /// Who sends the text of this file, without white space around it, as `Authorization: Bearer`. It is read for each
    /// request, so that it can be replaced.
    Token(PathBuf),
}

/// What answers requests at one place.
pub(crate) trait Respond: Send + Sync + 'static {
    fn respond(&self, caller: Caller, request: Request<Incoming>)
    -> impl Future<Output = Response<Full<Bytes>>> + Send;
}

/// A place at which a daemon tells what it knows.
struct Server {
    observer: Observer,
    kept: Kept,
    routes: &'static [&'static str],
    access: MetricsAccess,
    /// To make an answer.
    permits: Semaphore,
}

impl Server {
    fn new(observer: Observer, kept: Kept, routes: &'static [&'static str], access: MetricsAccess) -> Self {
        Self { observer, kept, routes, access, permits: Semaphore::new(MAKING) }
    }
}

/// Serves all routes at a [socket](crate::socket), for ever.
pub async fn serve_socket(listener: UnixListener, observer: Observer, kept: Kept) {
    let door = Door::new("socket", &observer);
    let server = Server::new(observer, kept, &ROUTES, MetricsAccess::Everybody);
    let uid = |stream: &UnixStream| stream.peer_cred().ok().map(|user| user.uid());
    let with_caller = move |(stream, _)| {
        let uid = uid(&stream);
        (uid.map_or(Caller::Unknown, Caller::User), Holder::User(uid.unwrap_or(u32::MAX)), stream)
    };
    accept(move |cx| listener.poll_accept(cx).map_ok(with_caller), server, door).await;
}

/// Serves all routes to those who have the key or a certificate of `[peers]`, for ever.
pub async fn serve_askers(mut askers: Askers, observer: Observer, kept: Kept) {
    let door = Door::new("api", &observer);
    let server = Server::new(observer, kept, &ROUTES, MetricsAccess::Everybody);
    let next = move |cx: &mut Context<'_>| {
        askers.poll_next(cx).map(|(ip, stream)| Ok((Caller::Unknown, Holder::from(ip), stream)))
    };
    accept(next, server, door).await;
}

/// Serves nothing but metrics to the network, for ever.
pub async fn serve_metrics(listener: TcpListener, access: MetricsAccess, observer: Observer) {
    let door = Door::new("metrics", &observer);
    let server = Server::new(observer, Kept::default(), &[METRICS], access);
    accept(by_tcp(listener), server, door).await;
}

/// The next connections to a port.
pub(crate) fn by_tcp(
    listener: TcpListener,
) -> impl FnMut(&mut Context<'_>) -> Poll<io::Result<(Caller, Holder, TcpStream)>> {
    move |cx| listener.poll_accept(cx).map_ok(|(stream, from)| (Caller::Unknown, Holder::from(from.ip()), stream))
}

/// The places at a port.
#[derive(Clone)]
pub(crate) struct Door {
    waiting: Places,
    sending: Places,
}

impl Door {
    /// Which `observer` counts as connections of `port`.
    pub(crate) fn new(port: &'static str, observer: &Observer) -> Self {
        let door = Self::unseen();
        observer.count(port, &door.waiting);
        door
    }

    /// Of a command, which nobody observes.
    pub(crate) fn unseen() -> Self {
        Self { waiting: Places::new(WAITING), sending: Places::new(SENDING) }
    }
}

pub(crate) async fn accept<S>(
    mut next: impl FnMut(&mut Context<'_>) -> Poll<io::Result<(Caller, Holder, S)>>,
    server: impl Respond,
    door: Door,
) where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let server = Arc::new(server);
    loop {
        match poll_fn(&mut next).await {
            // Without a place, it is closed: all of this holder wait for answers that are being made.
            Ok((caller, holder, stream)) => {
                let Some(place) = door.waiting.admit(holder) else { continue };
                let (server, sending) = (Arc::clone(&server), door.sending.clone());
                tokio::spawn(async move { converse(stream, place, (caller, holder), &*server, sending).await });
            }
            // Without descriptors, for example; connections that end will free some.
            Err(_) => tokio::time::sleep(RETRY).await,
        }
    }
}

/// Until an answer is sent, the other end is gone, or the place is lost.
async fn converse<S: AsyncRead + AsyncWrite + Unpin>(
    stream: S,
    mut place: Place,
    (caller, holder): (Caller, Holder),
    server: &impl Respond,
    sending: Places,
) {
    let (head, mut has_head) = mpsc::channel(1);
    let (answer, mut has_answer) = mpsc::channel(1);
    let service = service_fn(|request| {
        let (head, answer, sending) = (head.clone(), answer.clone(), sending.clone());
        async move {
            // There is one request, so there is room.
            let _ = head.try_send(());
            let response = server.respond(caller, request).await;
            let _ = answer.try_send(sending.admit(holder));
            Ok::<_, Infallible>(response)
        }
    });
    let mut builder = http1::Builder::new();
    let connection = builder
        .keep_alive(false)
        // The times below are for the head as well.
        .header_read_timeout(None)
        .max_buf_size(LONGEST_HEAD)
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = pin!(connection);
    let until_head = async {
        tokio::select! {
            biased;
            ended = &mut connection => Some(ended),
            _ = has_head.recv() => None,
        }
    };
    let until_head = place.keep(tokio::time::timeout(HEAD, until_head));
    match until_head.await {
        Some(Ok(None)) => {}
        Some(Ok(Some(ended))) => return tell(ended),
        Some(Err(_)) => return tracing::debug!("a connection to the API sent no request in time"),
        None => return tracing::debug!("a connection to the API left its place to a newer one"),
    }
    place.hold();
    let until_end = async {
        let sent_from = tokio::select! {
            biased;
            ended = &mut connection => return tell(ended),
            place = has_answer.recv() => place.flatten(),
        };
        drop(place);
        let Some(mut place) = sent_from else { return };
        match place.keep(connection).await {
            Some(ended) => tell(ended),
            None => tracing::debug!("a connection to the API took its answer too slowly"),
        }
    };
    if tokio::time::timeout(PATIENCE, until_end).await.is_err() {
        tracing::debug!("a connection to the API took too long");
    }
}

fn tell(ended: hyper::Result<()>) {
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection to the API failed");
    }
}

impl Respond for Server {
    async fn respond(&self, caller: Caller, request: Request<Incoming>) -> Response<Full<Bytes>> {
        if let Some(pushes) = self.kept.pushes.as_ref().filter(|_| self.routes.contains(&SETS))
            && let Some(name) = request.uri().path().strip_prefix(SETS).and_then(|rest| rest.strip_prefix('/'))
        {
            let name = name.to_owned();
            return response(sets::change(pushes, caller, &name, request).await);
        }
        let header = |name| request.headers().get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let path = request.uri().path();
        let checked = match self.access.check(header(AUTHORIZATION)).await {
            Ok(()) => routes::check(request.method(), path, self.routes),
            refused => refused,
        };
        let answer = match checked {
            Ok(()) => {
                let query = request.uri().query().unwrap_or_default().to_owned();
                let question = Question { path: path.to_owned(), query, accept: header(ACCEPT).to_owned() };
                // It is never closed.
                let _permit = self.permits.acquire().await;
                answer(&self.observer, &self.kept, question).await
            }
            Err(refusal) => refusal,
        };
        response(answer)
    }
}

/// What is asked of a process at its socket, asked in the process itself: the body of the answer to GET `route`, as by
/// [`crate::get`].
///
/// # Errors
/// If it has no such thing: the reason.
pub async fn get_here(observer: &Observer, kept: &Kept, route: &str) -> Result<String, String> {
    let (path, query) = route.split_once('?').unwrap_or((route, ""));
    let question = Question { path: path.to_owned(), query: query.to_owned(), accept: String::new() };
    let Answer { status, body, .. } = answer(observer, kept, question).await;
    if status == StatusCode::OK { Ok(body) } else { Err(body) }
}

async fn answer(observer: &Observer, kept: &Kept, question: Question) -> Answer {
    let (status, kept) = (observer.status().await, kept.clone());
    let answering = tokio::task::spawn_blocking(move || routes::answer(&question, status, &kept));
    let failed = |_| Answer::refusal(StatusCode::INTERNAL_SERVER_ERROR, "a bug in vpfs; its log says where");
    answering.await.unwrap_or_else(failed)
}

impl MetricsAccess {
    async fn check(&self, authorization: &str) -> Result<(), Answer> {
        let Self::Token(path) = self else { return Ok(()) };
        // A file that is missing or empty opens nothing.
        if is_token(path, authorization, 1).await {
            return Ok(());
        }
        let reason = "send the text of the file metrics.token as \"Authorization: Bearer\"";
        Err(Answer::refusal(StatusCode::UNAUTHORIZED, reason))
    }
}

pub(crate) fn response(Answer { status, content_type, body, allow }: Answer) -> Response<Full<Bytes>> {
    let mut response = Response::builder().status(status).header(CONTENT_TYPE, content_type);
    response = match status {
        StatusCode::METHOD_NOT_ALLOWED => response.header(ALLOW, allow),
        StatusCode::UNAUTHORIZED => response.header(WWW_AUTHENTICATE, "Bearer"),
        _ => response,
    };
    response.body(Full::from(body)).expect("all parts are valid")
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
    use tokio::time::Instant;

    use super::*;

    /// More than the streams of the test take at once.
    const ANSWER: usize = 100_000;

    /// Makes one answer at a time.
    struct OneAtATime(Semaphore);

    impl Respond for OneAtATime {
        async fn respond(&self, _: Caller, _: Request<Incoming>) -> Response<Full<Bytes>> {
            let _permit = self.0.acquire().await;
            tokio::task::yield_now().await;
            Response::new(Full::from(vec![b'x'; ANSWER]))
        }
    }

    /// A door, and a way to connect to it.
    struct Site {
        door: Door,
        connect: mpsc::UnboundedSender<(Holder, DuplexStream)>,
    }

    impl Site {
        fn start() -> Self {
            let (connect, mut connected) = mpsc::unbounded_channel();
            let door = Door::unseen();
            let next = move |cx: &mut Context<'_>| match connected.poll_recv(cx) {
                Poll::Ready(Some((holder, stream))) => Poll::Ready(Ok((Caller::Unknown, holder, stream))),
                _ => Poll::Pending,
            };
            tokio::spawn(accept(next, OneAtATime(Semaphore::new(1)), door.clone()));
            Self { door, connect }
        }

        /// Connects from this host and sends a part of a request.
        async fn connect(&self, last: u8, sent: &str) -> DuplexStream {
            let (mut ours, theirs) = duplex(4096);
            self.connect.send((IpAddr::from([10, 0, 0, last]).into(), theirs)).unwrap();
            ours.write_all(sent.as_bytes()).await.unwrap();
            ours
        }

        /// The length of the answer to a whole request.
        async fn scrape(&self, last: u8) -> usize {
            let mut stream = self.connect(last, REQUEST).await;
            let mut answer = Vec::new();
            stream.read_to_end(&mut answer).await.unwrap();
            answer.len()
        }
    }

    const REQUEST: &str = "GET /metrics HTTP/1.1\r\nhost: a\r\n\r\n";

    /// Symptom: four idle connections kept everybody else from an answer for ten seconds. Cause: each had one of four
    /// permits while it said nothing.
    #[tokio::test(start_paused = true)]
    async fn who_is_idle_or_slow_keeps_nobody_from_an_answer() {
        let site = Site::start();
        let (begun, mut open) = (Instant::now(), Vec::new());
        for number in 0..1000_u32 {
            open.push(site.connect((number % 7) as u8, "").await);
        }
        for number in 0..200_u32 {
            // Some send slowly, and some do not take what they asked for.
            let sent = if number % 2 == 0 { "GET /metr" } else { REQUEST };
            open.push(site.connect((number % 5) as u8, sent).await);
        }
        assert!(site.scrape(99).await > ANSWER);
        assert!(site.scrape(1).await > ANSWER, "also from the address of such connections");
        assert_eq!(begun.elapsed(), Duration::ZERO);
        let held: usize = site.door.waiting.holders().iter().map(|(_, count)| count).sum();
        assert!((1..=WAITING.all).contains(&held), "{held}");
        tokio::time::sleep(HEAD + PATIENCE + Duration::from_secs(1)).await;
        assert!(site.door.waiting.holders().is_empty() && site.door.sending.holders().is_empty(), "all are gone");
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_answer_is_sent_while_others_leave_it_time() {
        let site = Site::start();
        let mut slow = site.connect(1, REQUEST).await;
        tokio::time::sleep(PATIENCE - Duration::from_secs(1)).await;
        let mut answer = Vec::new();
        slow.read_to_end(&mut answer).await.unwrap();
        assert!(answer.len() > ANSWER);
    }
}
