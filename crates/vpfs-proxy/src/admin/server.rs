//! Serves HTTP: one request for each connection, within a few seconds.
//!
//! A connection takes a place, and only making an answer takes a permit. So an idle or slow connection blocks no other:
//! permits are few, but each is free again within milliseconds, and a new connection gets the place of the oldest one
//! of the host that holds most.

use std::convert::Infallible;
use std::fs::{self, DirBuilder, Permissions};
use std::future::poll_fn;
use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::future::{BoxFuture, FutureExt};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{
    ACCEPT, ALLOW, AUTHORIZATION, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderValue, REFERRER_POLICY,
    REFRESH, WWW_AUTHENTICATE,
};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::sync::{Semaphore, mpsc};

use crate::admin::api::{Answer, json};
use crate::admin::events::Events;
use crate::admin::history::{HISTORY, Query};
use crate::admin::sets::{Caller, PushedSets, are_equal, is_token};
use crate::admin::{api, history, metrics, sets};
use crate::{Askers, Holder, Observer, Place, Places, Pushes, Room, Status};

const MAKING: usize = 4;

const WAITING: Room = Room { all: 256, each: 64 };

/// Answers that are being sent. It bounds their memory: one has up to 100 KiB for each server, and 20 KiB for each
/// application there.
const SENDING: Room = Room { all: 32, each: 16 };

const HEAD: Duration = Duration::from_secs(5);

/// The time for the rest of a request and its answer, however slowly the other end sends and takes it.
const PATIENCE: Duration = Duration::from_secs(10);

/// The longest line and headers of a request; the shortest that hyper permits.
const LONGEST_HEAD: usize = 8 << 10;

const RETRY: Duration = Duration::from_secs(1);

/// Who may read metrics.
#[derive(Clone, Debug)]
pub enum MetricsAccess {
    /// Everyone who connects.
    Everybody,
    /// Clients that send the text of this file, without white space around it, as `Authorization: Bearer`. It is read
    /// for each request, so that it can be replaced.
    Token(PathBuf),
}

pub(crate) trait Respond: Send + Sync + 'static {
    fn respond(&self, caller: Caller, request: Request<Incoming>)
    -> impl Future<Output = Response<Full<Bytes>>> + Send;
}

struct Server {
    observer: Observer,
    kept: Kept,
    routes: &'static [&'static str],
    access: MetricsAccess,
    permits: Semaphore,
}

impl Server {
    fn new(observer: Observer, kept: Kept, routes: &'static [&'static str], access: MetricsAccess) -> Self {
        Self { observer, kept, routes, access, permits: Semaphore::new(MAKING) }
    }
}

/// Serves all routes at a socket of [`bind_socket`], for ever.
pub fn serve_socket(listener: UnixListener, observer: Observer, kept: Kept) -> BoxFuture<'static, ()> {
    Box::pin(async move {
        let door = Door::new("socket", &observer);
        let server = Server::new(observer, kept, &ROUTES, MetricsAccess::Everybody);
        let uid = |stream: &UnixStream| stream.peer_cred().ok().map(|user| user.uid());
        let with_caller = move |(stream, _)| {
            let uid = uid(&stream);
            (uid.map_or(Caller::Unknown, Caller::User), Holder::User(uid.unwrap_or(u32::MAX)), stream)
        };
        accept(move |cx| listener.poll_accept(cx).map_ok(with_caller), server, door).await;
    })
}

/// Serves all routes to those who have the key or a certificate of `[peers]`, for ever.
pub fn serve_askers(mut askers: Askers, observer: Observer, kept: Kept) -> BoxFuture<'static, ()> {
    Box::pin(async move {
        let door = Door::new("api", &observer);
        let server = Server::new(observer, kept, &ROUTES, MetricsAccess::Everybody);
        let next = move |cx: &mut Context<'_>| {
            askers.poll_next(cx).map(|(ip, stream)| Ok((Caller::Unknown, Holder::from(ip), stream)))
        };
        accept(next, server, door).await;
    })
}

/// Serves nothing but metrics to the network, for ever.
pub fn serve_metrics(listener: TcpListener, access: MetricsAccess, observer: Observer) -> BoxFuture<'static, ()> {
    Box::pin(async move {
        let door = Door::new("metrics", &observer);
        let server = Server::new(observer, Kept::default(), &[METRICS], access);
        accept(by_tcp(listener), server, door).await;
    })
}

pub(crate) fn by_tcp(
    listener: TcpListener,
) -> impl FnMut(&mut Context<'_>) -> Poll<io::Result<(Caller, Holder, TcpStream)>> {
    move |cx| listener.poll_accept(cx).map_ok(|(stream, from)| (Caller::Unknown, Holder::from(from.ip()), stream))
}

#[derive(Clone)]
pub(crate) struct Door {
    waiting: Places,
    sending: Places,
}

impl Door {
    pub(crate) fn new(port: &'static str, observer: &Observer) -> Self {
        let door = Self::unseen();
        observer.count(port, &door.waiting);
        door
    }

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
                tokio::spawn(async move { converse(stream, place, (caller, holder), &*server, sending).await }.boxed());
            }
            // Without descriptors, for example; connections that end will free some.
            Err(_) => tokio::time::sleep(RETRY).await,
        }
    }
}

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
            Ok(()) => check_route(request.method(), path, self.routes),
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
/// [`crate::admin::get`].
///
/// # Errors
/// If it has no such thing: the reason.
pub fn get_here<'a>(observer: &'a Observer, kept: &'a Kept, route: &'a str) -> BoxFuture<'a, Result<String, String>> {
    Box::pin(async move {
        let (path, query) = route.split_once('?').unwrap_or((route, ""));
        let question = Question { path: path.to_owned(), query: query.to_owned(), accept: String::new() };
        let Answer { status, body, .. } = answer(observer, kept, question).await;
        if status == StatusCode::OK { Ok(body) } else { Err(body) }
    })
}

async fn answer(observer: &Observer, kept: &Kept, question: Question) -> Answer {
    let (status, kept) = (observer.status().await, kept.clone());
    let answering = tokio::task::spawn_blocking(move || answer_route(&question, status, &kept));
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

/// Processes and their peers, and what applications got: `vpfs peers`.
pub const PEERS: &str = "/v1/peers";

/// Servers and applications, by [`api::Status`].
pub const STATUS: &str = "/v1/status";

/// The same for Prometheus.
pub const METRICS: &str = "/metrics";

/// What happened lately: `vpfs events`.
pub const EVENTS: &str = "/v1/events";

/// The applications that owners have pushed: `vpfs app ls`. A set of them is changed at its name below, with PUT and
/// DELETE.
pub const SETS: &str = "/v1/sets";

pub(crate) const NO_HISTORY: &str = "no history is kept";

pub(crate) const ROUTES: [&str; 6] = [PEERS, STATUS, EVENTS, METRICS, HISTORY, SETS];

/// What a process keeps besides its state.
#[derive(Clone, Default)]
pub struct Kept {
    /// The latest lines of its log.
    pub events: Events,
    /// The file of its history.
    pub history: Option<PathBuf>,
    /// Changes its pushed applications, for those who may.
    pub pushes: Option<Pushes>,
}

pub(crate) fn check_route(method: &Method, path: &str, routes: &[&str]) -> Result<(), Answer> {
    if !routes.contains(&path) {
        let reason = format!("there is no {path}; there are {}", routes.join(", "));
        return Err(Answer::refusal(StatusCode::NOT_FOUND, &reason));
    }
    // Of an answer to HEAD, only the head is sent.
    if ![Method::GET, Method::HEAD].contains(method) {
        return Err(Answer::refusal(StatusCode::METHOD_NOT_ALLOWED, "nothing can be changed here; use GET"));
    }
    Ok(())
}

#[derive(Clone, Debug)]
pub(crate) struct Question {
    pub(crate) path: String,
    pub(crate) query: String,
    pub(crate) accept: String,
}

/// The answer. Takes milliseconds for thousands of applications, and a second
/// for a long history. Blocks.
pub(crate) fn answer_route(question: &Question, status: Status, kept: &Kept) -> Answer {
    let Question { path, query, accept } = question;
    match path.as_str() {
        METRICS => {
            let format = metrics::Format::accepted(accept);
            Answer::ok(format.content_type(), metrics::text(status, sets_left(kept.pushes.as_ref()), format))
        }
        PEERS => json(&status.peers_report()),
        EVENTS => json(&kept.events.report(names(&status))),
        SETS => json(&PushedSets::of(names(&status), kept.pushes.as_ref())),
        HISTORY => history(query, &status, kept.history.as_deref()),
        _ => json(&api::Status::from(&status)),
    }
}

fn sets_left(pushes: Option<&Pushes>) -> Vec<(String, Duration)> {
    let sets = pushes.map(Pushes::sets).unwrap_or_default();
    sets.into_iter().map(|(name, _, left)| (name.to_string(), left)).collect()
}

fn history(query: &str, status: &Status, kept: Option<&Path>) -> Answer {
    let Some(path) = kept else {
        let reason = format!("{NO_HISTORY}: history.enabled is off, or there is no state directory (/var/lib/vpfs)");
        return Answer::refusal(StatusCode::NOT_FOUND, &reason);
    };
    let query = match Query::parse(query) {
        Ok(query) => query,
        Err(reason) => return Answer::refusal(StatusCode::BAD_REQUEST, &reason),
    };
    let servers = names(status);
    // Nothing has been written yet, or nothing can be, which the log says.
    let found = history::read_rows(path, &query, history::now()).unwrap_or_default();
    json(&api::History { servers, ..found })
}

fn names(status: &Status) -> Vec<String> {
    status.servers.iter().map(|server| server.name.clone()).collect()
}

/// Nothing but the page itself: it has styles and pictures, no scripts, and asks nobody else.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'";

/// The secret in the path of a page; who does not know it gets nothing.
#[derive(Clone, Debug)]
pub enum PageKey {
    /// This text.
    Text(String),
    /// The text of this file, without white space around it. It is read for each request, so that it can be replaced;
    /// one shorter than 16 bytes opens nothing.
    File(PathBuf),
}

impl PageKey {
    const SHORTEST: usize = 16;

    /// What stands after `/KEY/` in `path`; `None` for those who do not know the key.
    async fn rest<'a>(&self, path: &'a str) -> Option<&'a str> {
        let (presented, rest) = path.strip_prefix('/')?.split_once('/')?;
        let key = match self {
            Self::Text(key) => key.clone(),
            Self::File(path) => tokio::fs::read_to_string(path).await.unwrap_or_default(),
        };
        let key = key.trim();
        (key.len() >= Self::SHORTEST && are_equal(presented, key)).then_some(rest)
    }
}

struct Page<F> {
    key: PageKey,
    every: Duration,
    html: Arc<F>,
    permits: Semaphore,
}

/// Serves the page that `html` makes at `/KEY/`, to be loaded again by the browser after `every`, and at `/KEY/still`,
/// which stays; for ever. Without the key, requests get nothing. `html` is called for each request, in a thread
/// for blocking work.
///
/// `observer` counts its connections, if it is that of a proxy.
pub async fn serve_page<F>(listener: TcpListener, key: PageKey, every: Duration, observer: Option<&Observer>, html: F)
where
    F: Fn() -> String + Send + Sync + 'static,
{
    let door = observer.map_or_else(Door::unseen, |observer| Door::new("page", observer));
    let page = Page { key, every, html: Arc::new(html), permits: Semaphore::new(1) };
    accept(by_tcp(listener), page, door).await;
}

impl<F: Fn() -> String + Send + Sync + 'static> Respond for Page<F> {
    async fn respond(&self, _: Caller, request: Request<Incoming>) -> Response<Full<Bytes>> {
        let rest = self.key.rest(request.uri().path()).await;
        // Of an answer to HEAD, only the head is sent.
        let (Some(rest @ ("" | "still")), &Method::GET | &Method::HEAD) = (rest, request.method()) else {
            return response(Answer::refusal(
                StatusCode::NOT_FOUND,
                "the address is the one that vpfs web has printed, or has the text of the file web.key between its last slashes",
            ));
        };
        // It is never closed.
        let _permit = self.permits.acquire().await;
        let html = Arc::clone(&self.html);
        let Ok(html) = tokio::task::spawn_blocking(move || html()).await else {
            return response(Answer::refusal(StatusCode::INTERNAL_SERVER_ERROR, "a bug in vpfs; its log says where"));
        };
        let mut page = Response::new(Full::from(html));
        let headers = page.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
        headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
        headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        if rest.is_empty() {
            headers.insert(REFRESH, HeaderValue::from(self.every.as_secs()));
        }
        page
    }
}

/// Of the socket, at which its owner and their group may ask: a program that connects to a socket writes to it. The
/// directory says who can reach it.
const SOCKET_MODE: u32 = 0o660;

/// The socket of the daemon whose first server is `server`.
pub fn socket_path(directory: &Path, server: &str) -> PathBuf {
    directory.join(format!("{server}.sock"))
}

/// Listens at `path`. Replaces a socket at which nobody answers, and with `take_over` that of a predecessor, which goes
/// on answering those who have connected. Call within a tokio runtime.
///
/// # Errors
/// If another process answers there, or it cannot be created.
pub fn bind_socket(path: &Path, take_over: bool) -> io::Result<UnixListener> {
    if !take_over && std::os::unix::net::UnixStream::connect(path).is_ok() {
        return Err(io::Error::new(io::ErrorKind::AddrInUse, "another proxy of this server answers there"));
    }
    if let Some(directory) = path.parent().filter(|directory| !directory.exists()) {
        DirBuilder::new().mode(0o755).create(directory)?;
    }
    // Nobody else can connect before it has its permissions.
    let unfinished = path.with_extension("new");
    match fs::remove_file(&unfinished) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let listener = UnixListener::bind(&unfinished)?;
    fs::set_permissions(&unfinished, Permissions::from_mode(SOCKET_MODE))?;
    fs::rename(&unfinished, path)?;
    Ok(listener)
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use serde_json::Value;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
    use tokio::time::Instant;

    use super::*;
    use crate::admin::testing;

    /// More than the streams of the test take at once.
    const ANSWER: usize = 100_000;

    struct OneAtATime(Semaphore);

    impl Respond for OneAtATime {
        async fn respond(&self, _: Caller, _: Request<Incoming>) -> Response<Full<Bytes>> {
            let _permit = self.0.acquire().await;
            tokio::task::yield_now().await;
            Response::new(Full::from(vec![b'x'; ANSWER]))
        }
    }

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

        async fn connect(&self, last: u8, sent: &str) -> DuplexStream {
            let (mut ours, theirs) = duplex(4096);
            self.connect.send((IpAddr::from([10, 0, 0, last]).into(), theirs)).unwrap();
            ours.write_all(sent.as_bytes()).await.unwrap();
            ours
        }

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

    fn openapi() -> Value {
        serde_json::from_str(include_str!("../../openapi.json")).unwrap()
    }

    /// The file of a history of ten seconds until now of *climate* at both servers.
    fn kept(folder: &tempfile::TempDir) -> PathBuf {
        let path = folder.path().join("history.sqlite");
        let servers = api::Status::from(&testing::status(&["climate"])).servers.into_iter();
        let server = |server: api::Server| api::AtServer {
            name: server.server,
            policy: server.policy,
            tried_rates: Vec::new(),
            seconds: 10.0,
            apps: server.apps,
        };
        let span = api::Span { seconds: 10.0, servers: servers.map(server).collect(), unstored_bytes: 0 };
        history::write(&path, history::now(), &span).unwrap();
        path
    }

    fn question(path: &str, accept: &str) -> Question {
        Question { path: path.to_owned(), query: String::new(), accept: accept.to_owned() }
    }

    #[test]
    fn history_is_told_or_why_there_is_none() {
        let folder = tempfile::tempdir().unwrap();
        let kept = kept(&folder);
        let told = |query: &str, history: Option<&Path>| {
            let kept = Kept { history: history.map(Path::to_path_buf), ..Kept::default() };
            let question = Question { query: query.to_owned(), ..question(HISTORY, "") };
            let answer = answer_route(&question, testing::status(&["climate"]), &kept);
            (answer.status.as_u16(), serde_json::from_str::<api::History>(&answer.body).unwrap_or_default())
        };
        let (status, history) = told("app=climate&since=60", Some(&kept));
        assert_eq!((status, history.samples.len(), history.servers), (200, 2, vec!["s1".to_owned(), "s2".to_owned()]));
        assert_eq!(told("app=climate", None).0, 404);
        assert_eq!(told("since=2h", Some(&kept)).0, 400);
        assert_eq!(told("", Some(&folder.path().join("not yet"))).1.samples, []);
    }

    #[test]
    fn the_description_has_all_routes_and_no_others() {
        let openapi = openapi();
        let paths = openapi["paths"].as_object().unwrap();
        let mut described: Vec<&str> = paths.keys().map(String::as_str).collect();
        let mut routes = [&ROUTES[..], &["/v1/sets/{set}"]].concat();
        described.sort_unstable();
        routes.sort_unstable();
        assert_eq!(described, routes);
        let folder = tempfile::tempdir().unwrap();
        let kept = Kept { events: testing::events(), history: Some(kept(&folder)), pushes: None };
        for (path, methods) in paths {
            if path == "/v1/sets/{set}" {
                assert_eq!(methods.as_object().unwrap().keys().collect::<Vec<_>>(), ["delete", "put"]);
                continue;
            }
            assert_eq!(methods.as_object().unwrap().keys().collect::<Vec<_>>(), ["get"]);
            let contents = methods["get"]["responses"]["200"]["content"].as_object().unwrap();
            for (accept, content) in contents {
                let answer = answer_route(&question(path, accept), testing::status(&["climate", "uid:7"]), &kept);
                assert!(answer.content_type.starts_with(accept), "{path}: {}", answer.content_type);
                if accept == "application/json" {
                    assert_conforms(&openapi, &content["schema"], &serde_json::from_str(&answer.body).unwrap(), path);
                }
            }
        }
    }

    fn assert_conforms(openapi: &Value, schema: &Value, value: &Value, place: &str) {
        if let Some(reference) = schema["$ref"].as_str() {
            let schema = openapi.pointer(reference.trim_start_matches('#')).expect(reference);
            return assert_conforms(openapi, schema, value, place);
        }
        let found = match value {
            Value::Object(_) => "object",
            Value::Array(_) => "array",
            Value::String(_) => "string",
            Value::Bool(_) => "boolean",
            Value::Number(number) if number.is_u64() => "integer",
            Value::Number(_) => "number",
            Value::Null => "null",
        };
        let types = &schema["type"];
        let is_described = types == found || types.as_array().is_some_and(|types| types.contains(&found.into()));
        assert!(is_described, "{place}: {found} instead of {types}");
        if let Some(fields) = value.as_object() {
            let names = |value: &Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
            assert_eq!(names(value), names(&schema["properties"]), "{place}");
            assert_eq!(schema["required"].as_array().unwrap().len(), fields.len(), "{place}");
            for (name, field) in fields {
                assert_conforms(openapi, &schema["properties"][name], field, &format!("{place}.{name}"));
            }
        }
        for element in value.as_array().into_iter().flatten() {
            assert_conforms(openapi, &schema["items"], element, place);
        }
    }

    #[test]
    fn what_is_described_reads_back() {
        let body = answer_route(&question(STATUS, ""), testing::status(&["climate"]), &Kept::default()).body;
        let status: api::Status = serde_json::from_str(&body).unwrap();
        assert_eq!(status, api::Status::from(&testing::status(&["climate"])));
        assert!(status.servers[0].apps[0].bulk && status.servers[0].pace_bytes_per_second == Some(250_000_000));
    }

    #[test]
    fn nothing_else_can_be_asked() {
        let refused = |method, path| check_route(&method, path, &[METRICS]).map_err(|answer| answer.status.as_u16());
        assert_eq!([Method::GET, Method::HEAD].map(|method| refused(method, METRICS)), [Ok(()); 2]);
        assert_eq!(refused(Method::GET, STATUS), Err(404), "not at this place");
        assert_eq!(refused(Method::POST, METRICS), Err(405));
    }

    #[tokio::test]
    async fn only_the_key_opens() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let key = PageKey::File(file.path().to_owned());
        for (text, path, rest) in [
            ("0123456789abcdef\n", "/0123456789abcdef/still", Some("still")),
            ("0123456789abcdef\n", "/0123456789abcdef", None),
            ("0123456789abcdef\n", "/0123456789abcde/", None),
            ("", "//", None),
            ("short", "/short/", None),
        ] {
            std::fs::write(file.path(), text).unwrap();
            assert_eq!(key.rest(path).await, rest, "{text} {path}");
        }
        drop(file);
        assert_eq!(key.rest("/0123456789abcdef/").await, None, "without its file nobody may");
    }

    #[tokio::test]
    async fn a_socket_belongs_to_its_owner_and_group_and_one_process() {
        let folder = tempfile::tempdir().unwrap();
        let path = socket_path(&folder.path().join("vpfs"), "s1");
        let _first = bind_socket(&path, false).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o660);
        assert_eq!(bind_socket(&path, false).err().map(|error| error.kind()), Some(io::ErrorKind::AddrInUse));
        drop(bind_socket(&path, true).unwrap());
        bind_socket(&path, false).expect("nobody answers there");
    }
}
