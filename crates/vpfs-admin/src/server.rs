//! Serves HTTP: one request for each connection, a few at a time, each within a few seconds.

use std::convert::Infallible;
use std::future::poll_fn;
use std::io;
use std::path::PathBuf;
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
use tokio::net::{TcpListener, UnixListener, UnixStream};
use tokio::sync::Semaphore;
use vpfs_proxy::{Askers, Observer};

use crate::access::{Caller, is_token};
use crate::answer::Answer;
use crate::routes::{self, Kept, METRICS, Question, ROUTES, SETS};
use crate::sets;

/// Who connects beyond this waits. It bounds the memory of answers, too: one has up to 100 KiB for each server, and
/// 20 KiB for each application there.
const CONNECTIONS: usize = 4;
/// The time for a request and its answer, however slowly the other end sends and takes it.
const PATIENCE: Duration = Duration::from_secs(10);
/// The longest line and headers of a request; the shortest that hyper permits.
const LONGEST_HEAD: usize = 8 << 10;
/// After a failure to accept, the time to the next attempt.
const RETRY: Duration = Duration::from_secs(1);

/// Who may read metrics.
#[derive(Clone, Debug)]
pub enum MetricsAccess {
    /// Whoever connects.
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
}

/// Serves all routes at a [socket](crate::socket), for ever.
pub async fn serve_socket(listener: UnixListener, observer: Observer, kept: Kept) {
    let server = Server { observer, kept, routes: &ROUTES, access: MetricsAccess::Everybody };
    let caller = |stream: &UnixStream| stream.peer_cred().map_or(Caller::Unknown, |user| Caller::User(user.uid()));
    let with_caller = move |(stream, _)| (caller(&stream), stream);
    accept(move |cx| listener.poll_accept(cx).map_ok(with_caller), server).await;
}

/// Serves all routes to those who have the key or a certificate of `[peers]`, for ever.
pub async fn serve_askers(mut askers: Askers, observer: Observer, kept: Kept) {
    let server = Server { observer, kept, routes: &ROUTES, access: MetricsAccess::Everybody };
    accept(move |cx| askers.poll_next(cx).map(|stream| Ok((Caller::Unknown, stream))), server).await;
}

/// Serves nothing but metrics to the network, for ever.
pub async fn serve_metrics(listener: TcpListener, access: MetricsAccess, observer: Observer) {
    let server = Server { observer, kept: Kept::default(), routes: &[METRICS], access };
    accept(move |cx| listener.poll_accept(cx).map_ok(|(stream, _)| (Caller::Unknown, stream)), server).await;
}

pub(crate) async fn accept<S>(
    mut next: impl FnMut(&mut Context<'_>) -> Poll<io::Result<(Caller, S)>>,
    server: impl Respond,
) where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let (server, permits) = (Arc::new(server), Arc::new(Semaphore::new(CONNECTIONS)));
    while let Ok(permit) = Arc::clone(&permits).acquire_owned().await {
        match poll_fn(&mut next).await {
            Ok((caller, stream)) => {
                let server = Arc::clone(&server);
                tokio::spawn(async move {
                    converse(caller, stream, &*server).await;
                    drop(permit);
                });
            }
            // Without descriptors, for example; connections that end will free some.
            Err(_) => tokio::time::sleep(RETRY).await,
        }
    }
}

async fn converse<S: AsyncRead + AsyncWrite + Unpin>(caller: Caller, stream: S, server: &impl Respond) {
    let service = service_fn(async |request| Ok::<_, Infallible>(server.respond(caller, request).await));
    let mut builder = http1::Builder::new();
    let connection = builder
        .keep_alive(false)
        // The time below is for the head as well.
        .header_read_timeout(None)
        .max_buf_size(LONGEST_HEAD)
        .serve_connection(TokioIo::new(stream), service);
    match tokio::time::timeout(PATIENCE, connection).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::debug!(%error, "a connection to the API failed"),
        Err(_) => tracing::debug!("a connection to the API took too long"),
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
