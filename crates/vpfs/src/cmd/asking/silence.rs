//! Asking the proxies of this host, and why one does not answer.

use std::fmt;
use std::io::ErrorKind;
use std::path::PathBuf;
use std::time::Duration;

use serde::de::DeserializeOwned;
use tokio::net::UnixStream;
use vpfs_admin::{Failure, get_by};
use vpfs_config::Peers;
use vpfs_core::ServerId;
use vpfs_proxy::connect_to_ask;

/// Why there is no report.
#[derive(Debug)]
pub(in super::super) enum Silence {
    /// There is no socket.
    Absent,
    /// There is a socket, but nobody listens.
    Ended,
    /// Only others may use the socket.
    Denied,
    /// Something answered, but not with a report.
    Unclear(String),
}

impl Silence {
    /// Why nobody could be connected to at a socket.
    fn of(error: &std::io::Error) -> Self {
        match error.kind() {
            ErrorKind::NotFound | ErrorKind::NotADirectory => Self::Absent,
            // A proxy leaves its socket behind.
            ErrorKind::ConnectionRefused => Self::Ended,
            ErrorKind::PermissionDenied => Self::Denied,
            _ => Self::Unclear(format!("cannot be asked: {error}")),
        }
    }

    /// It may hang, or be stopped.
    pub(super) fn late(patience: Duration) -> Self {
        Self::Unclear(format!("does not answer within {patience:?}"))
    }
}

/// A connection to the first of these sockets at which a proxy listens; if there is none, why not at the first one that
/// is there.
pub(in super::super) async fn connect(sockets: &[PathBuf]) -> Result<UnixStream, Silence> {
    let mut why = Silence::Absent;
    for path in sockets {
        match UnixStream::connect(path).await {
            Ok(stream) => return Ok(stream),
            Err(error) if matches!(why, Silence::Absent) => why = Silence::of(&error),
            Err(_) => {}
        }
    }
    Err(why)
}

/// The answer to `route` of the proxy that has one of these sockets.
pub(super) async fn ask<T: DeserializeOwned>(sockets: &[PathBuf], route: &str) -> Result<T, Silence> {
    understood(get_by(connect(sockets).await?, route).await)
}

/// The same of the proxy of a server, anywhere, by `[peers]`.
pub(super) async fn ask_remote<T: DeserializeOwned>(
    peers: &Peers,
    server: ServerId,
    route: &str,
) -> Result<T, Silence> {
    let (host, port) = &peers.addresses[server.index()];
    let place = format!("{host}:{port}");
    let stream = connect_to_ask(peers, server).await.map_err(|error| unreachable(&place, &error))?;
    match get_by(stream, route).await {
        Err(Failure::Closed) => Err(without_answer(&place)),
        other => understood(other),
    }
}

/// Nobody can be reached at `place`.
pub(super) fn unreachable(place: &str, error: &std::io::Error) -> Silence {
    Silence::Unclear(format!("cannot be asked at {place}: {error}"))
}

/// With TLS 1.3, a refusal comes when the connection is open already.
pub(super) fn without_answer(place: &str) -> Silence {
    let why = "it has another key, does not accept this certificate, or is stopping; its log says which";
    Silence::Unclear(format!("sends no answer at {place}: {why}"))
}

/// What an answer says.
pub(super) fn understood<T: DeserializeOwned>(answer: Result<impl AsRef<[u8]>, Failure>) -> Result<T, Silence> {
    let another = "sends an answer of another version; upgrade it (SIGUSR2)";
    let answer = answer.map_err(|failure| match failure {
        Failure::Connect(error) => Silence::of(&error),
        Failure::Closed => {
            let what = "sends no answer: it is stopping or handing over to a newer one; try again";
            Silence::Unclear(what.to_owned())
        }
        Failure::Late => Silence::late(Duration::from_secs(10)),
        Failure::Refused(reason) => Silence::Unclear(format!("says: {reason}")),
        Failure::Newer(version) => {
            Silence::Unclear(format!("has version {version} of this set already, which is not older"))
        }
        Failure::Unknown(error) => Silence::Unclear(format!("{another} ({error})")),
    })?;
    serde_json::from_slice(answer.as_ref()).map_err(|error| Silence::Unclear(format!("{another} ({error})")))
}

/// What is said of the proxy before "at" and its socket's path.
impl fmt::Display for Silence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Absent => "has no socket",
            Self::Ended => "has ended: start it, or remove the socket that it left if it is not to run here",
            Self::Denied => {
                "can only be asked by root, the user that it runs as, and the group of its socket; try sudo"
            }
            Self::Unclear(what) => what,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::os::unix::net::UnixListener;
    use std::path::Path;

    use vpfs_admin::PEERS;
    use vpfs_proxy::PeersReport;

    use super::*;

    async fn ask(path: &Path) -> Result<PeersReport, Silence> {
        super::ask(&[path.to_owned()], PEERS).await
    }

    /// The text for a socket at which somebody answers with `answer`.
    async fn text_for(answer: &'static [u8]) -> String {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s1.sock");
        let listener = UnixListener::bind(&path).unwrap();
        let answering = std::thread::spawn(move || {
            let mut stream = listener.accept().unwrap().0;
            assert!(stream.read(&mut [0; 1024]).unwrap() > 0);
            stream.write_all(answer).unwrap();
        });
        let silence = ask(&path).await.unwrap_err().to_string();
        answering.join().unwrap();
        silence
    }

    /// Symptom: where `/run/vpfs` was missing, a proxy had no socket, and every command failed.
    #[tokio::test]
    async fn the_first_socket_with_a_proxy_is_asked() {
        let folder = tempfile::tempdir().unwrap();
        let [absent, ended, live] = ["absent", "ended", "live"].map(|name| folder.path().join(name));
        drop(UnixListener::bind(&ended).unwrap());
        assert!(matches!(connect(&[absent.clone(), ended.clone()]).await, Err(Silence::Ended)));
        let _live = UnixListener::bind(&live).unwrap();
        assert!(connect(&[absent, ended, live]).await.is_ok());
        assert!(matches!(connect(&[]).await, Err(Silence::Absent)));
    }

    #[tokio::test]
    async fn each_reason_has_its_own_words() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s1.sock");
        assert!(matches!(ask(&path).await, Err(Silence::Absent)));
        drop(UnixListener::bind(&path).unwrap());
        assert!(matches!(ask(&path).await, Err(Silence::Ended)));
        assert!(text_for(b"").await.contains("try again"));
        let other = [
            &b"{\"servers\": [\"s1\"]}"[..],
            b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n",
            b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}",
        ];
        for answer in other {
            let text = text_for(answer).await;
            assert!(text.contains("another version"), "{text}");
        }
    }
}
