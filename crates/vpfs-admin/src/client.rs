//! Asks a daemon at its socket.

use std::io;
use std::path::Path;
use std::time::Duration;

use http_body_util::{BodyExt, Empty, Limited};
use hyper::body::Bytes;
use hyper::header::HOST;
use hyper::{Request, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::UnixStream;

use crate::routes::NO_HISTORY;

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
    /// It answers, but not with this: it has another version.
    Unknown(String),
}

/// The body of the answer to GET `route`, one of [`crate::PEERS`], [`crate::STATUS`], [`crate::EVENTS`],
/// [`crate::METRICS`] and [`crate::route_of_history`], of the daemon whose [socket](crate::socket) is at `path`. Call
/// within a tokio runtime.
///
/// # Errors
/// See [`Failure`].
pub async fn get(path: &Path, route: &str) -> Result<Bytes, Failure> {
    get_by(UnixStream::connect(path).await.map_err(Failure::Connect)?, route).await
}

/// The same by a connection, for example of [`vpfs_proxy::connect_to_ask`].
///
/// # Errors
/// See [`Failure`].
pub async fn get_by(
    stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
    route: &str,
) -> Result<Bytes, Failure> {
    tokio::time::timeout(PATIENCE, ask(stream, route)).await.unwrap_or(Err(Failure::Late))
}

async fn ask(stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static, route: &str) -> Result<Bytes, Failure> {
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(|error| failure(&error))?;
    // It ends with the sender.
    tokio::spawn(connection);
    let request = Request::get(route).header(HOST, "vpfs").body(Empty::<Bytes>::new()).expect("a valid request");
    let response = sender.send_request(request).await.map_err(|error| failure(&error))?;
    let status = response.status();
    let body = Limited::new(response.into_body(), LONGEST).collect().await;
    let body = body.map_err(|error| Failure::Unknown(error.to_string()))?.to_bytes();
    match status {
        StatusCode::OK => Ok(body),
        // The route of an older version, which says nothing about history.
        StatusCode::NOT_FOUND if body.starts_with(NO_HISTORY.as_bytes()) => {
            Err(Failure::Refused(String::from_utf8_lossy(&body).trim().to_owned()))
        }
        _ => Err(Failure::Unknown(status.to_string())),
    }
}

fn failure(error: &hyper::Error) -> Failure {
    if error.is_parse() { Failure::Unknown(error.to_string()) } else { Failure::Closed }
}
