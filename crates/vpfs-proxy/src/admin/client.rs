//! Asks a daemon at its socket.

use std::io;
use std::path::Path;
use std::time::Duration;

use futures_util::future::{BoxFuture, FutureExt};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Bytes;
use hyper::header::{AUTHORIZATION, HOST};
use hyper::{Method, Request, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::UnixStream;
use vpfs_config::sets::SetName;

use crate::admin::server::{NO_HISTORY, SETS};

/// The longest answer: a thousand servers and a hundred thousand applications need less.
const LONGEST: usize = 64 << 20;

const PATIENCE: Duration = Duration::from_secs(10);

/// Why there is no answer.
#[derive(Debug)]
pub enum Failure {
    /// Nobody can be reached at the socket.
    Connect(io::Error),
    /// It closed the connection before an answer.
    Closed,
    /// It did not answer in time, which is ten seconds.
    Late,
    /// It has no such thing, for this reason.
    Refused(String),
    /// It has a set of this version, which is not older than the one that was sent.
    Newer(u64),
    /// It answers, but not with this: it has another version.
    Unknown(String),
}

/// The body of the answer to GET `route`, one of [`super::PEERS`], [`super::STATUS`], [`super::EVENTS`],
/// [`super::METRICS`], [`super::SETS`] and [`super::route_of_history`], of the daemon whose
/// [socket](super::socket_path) is at `path`. Call within a tokio runtime.
///
/// # Errors
/// See [`Failure`].
pub fn get<'a>(path: &'a Path, route: &'a str) -> BoxFuture<'a, Result<Bytes, Failure>> {
    Box::pin(async move { get_by(UnixStream::connect(path).await.map_err(Failure::Connect)?, route).await })
}

/// The same by a connection, for example of [`crate::connect_to_ask`].
///
/// # Errors
/// See [`Failure`].
pub async fn get_by(
    stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
    route: &str,
) -> Result<Bytes, Failure> {
    tokio::time::timeout(PATIENCE, ask(stream, route)).await.unwrap_or(Err(Failure::Late))
}

/// A change of a set of applications.
#[derive(Clone, Debug)]
pub struct Change {
    /// The set.
    pub name: SetName,
    /// The JSON of its [`vpfs_config::sets::SetText`]; `None` removes it.
    pub json: Option<Bytes>,
    /// The secret of its owner; root and the user of the daemon need none at its socket.
    pub token: Option<String>,
}

/// Changes a set of the daemon whose [socket](super::socket_path) is at `path`; returns what it says. Call within a
/// tokio runtime.
///
/// # Errors
/// See [`Failure`].
pub fn change<'a>(path: &'a Path, change: &'a Change) -> BoxFuture<'a, Result<Bytes, Failure>> {
    Box::pin(async move { change_by(UnixStream::connect(path).await.map_err(Failure::Connect)?, change).await })
}

/// The same by a connection.
///
/// # Errors
/// See [`Failure`].
pub async fn change_by(
    stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
    Change { name, json, token }: &Change,
) -> Result<Bytes, Failure> {
    let method = if json.is_some() { Method::PUT } else { Method::DELETE };
    let mut request = Request::builder().method(method).uri(format!("{SETS}/{name}"));
    if let Some(token) = token {
        request = request.header(AUTHORIZATION, format!("Bearer {token}"));
    }
    let request = request.header(HOST, "vpfs").body(Full::from(json.clone().unwrap_or_default()));
    let request = request.map_err(|_| Failure::Refused("the token has characters that cannot be sent".to_owned()))?;
    tokio::time::timeout(PATIENCE, send(stream, request)).await.unwrap_or(Err(Failure::Late))
}

async fn ask(stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static, route: &str) -> Result<Bytes, Failure> {
    send(stream, Request::get(route).header(HOST, "vpfs").body(Full::default()).expect("a valid request")).await
}

async fn send(
    stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
    request: Request<Full<Bytes>>,
) -> Result<Bytes, Failure> {
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(|error| failure(&error))?;
    // It ends with the sender.
    tokio::spawn(connection.boxed());
    let response = sender.send_request(request).await.map_err(|error| failure(&error))?;
    let status = response.status();
    let body = Limited::new(response.into_body(), LONGEST).collect().await;
    let body = body.map_err(|error| Failure::Unknown(error.to_string()))?.to_bytes();
    let text = || String::from_utf8_lossy(&body).trim().to_owned();
    match status {
        StatusCode::OK => Ok(body),
        StatusCode::CONFLICT => Err(text().parse().map_or_else(|_| Failure::Refused(text()), Failure::Newer)),
        StatusCode::FORBIDDEN | StatusCode::UNPROCESSABLE_ENTITY => Err(Failure::Refused(text())),
        // The route of an older version, which says nothing about history.
        StatusCode::NOT_FOUND if body.starts_with(NO_HISTORY.as_bytes()) => Err(Failure::Refused(text())),
        _ => Err(Failure::Unknown(status.to_string())),
    }
}

fn failure(error: &hyper::Error) -> Failure {
    if error.is_parse() { Failure::Unknown(error.to_string()) } else { Failure::Closed }
}
