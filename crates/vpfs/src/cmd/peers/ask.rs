//! Asking the proxies of this host, and why one does not answer.

use std::fmt;
use std::io::{self, ErrorKind, Read};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use vpfs_proxy::PeersReport;

/// The longest answer: a thousand servers and a hundred thousand applications need less.
const LONGEST: u64 = 64 << 20;
const PATIENCE: Duration = Duration::from_secs(5);

/// Why there is no report.
#[derive(Debug)]
pub(super) enum Silence {
    /// There is no socket.
    Absent,
    /// There is a socket, but nobody listens.
    Ended,
    /// Only others may use the socket.
    Denied,
    /// Something answered, but not with a report.
    Unclear(String),
}

/// The report of the proxy whose socket is at `path`.
pub(super) fn ask(path: &Path) -> Result<PeersReport, Silence> {
    let text = answer(path).map_err(|error| match error.kind() {
        ErrorKind::NotFound => Silence::Absent,
        // A proxy leaves its socket behind.
        ErrorKind::ConnectionRefused => Silence::Ended,
        ErrorKind::PermissionDenied => Silence::Denied,
        ErrorKind::WouldBlock | ErrorKind::TimedOut => Silence::Unclear("does not answer within 5 s".to_owned()),
        _ => Silence::Unclear(format!("cannot be asked: {error}")),
    })?;
    if text.is_empty() {
        let what = "sends no answer: it is stopping or handing over to a newer one; try again";
        return Err(Silence::Unclear(what.to_owned()));
    }
    serde_json::from_str(&text).map_err(|error| {
        let what = "sends an answer of another version; upgrade it (SIGUSR2)";
        Silence::Unclear(format!("{what} ({error})"))
    })
}

fn answer(path: &Path) -> io::Result<String> {
    let stream = UnixStream::connect(path)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let mut text = String::new();
    stream.take(LONGEST).read_to_string(&mut text)?;
    Ok(text)
}

/// What is said of the proxy before "at" and its socket's path.
impl fmt::Display for Silence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Absent => "has no socket",
            Self::Ended => "has ended: it left its socket behind",
            Self::Denied => "can only be asked by root and the user that it runs as; try sudo",
            Self::Unclear(what) => what,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::unix::net::UnixListener;

    use super::*;

    /// The text for a socket at which somebody answers with `answer`.
    fn text_for(answer: &'static [u8]) -> String {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s1.sock");
        let listener = UnixListener::bind(&path).unwrap();
        let answering = std::thread::spawn(move || listener.accept().unwrap().0.write_all(answer).unwrap());
        let silence = ask(&path).unwrap_err().to_string();
        answering.join().unwrap();
        silence
    }

    #[test]
    fn each_reason_has_its_own_words() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s1.sock");
        assert!(matches!(ask(&path), Err(Silence::Absent)));
        drop(UnixListener::bind(&path).unwrap());
        assert!(matches!(ask(&path), Err(Silence::Ended)));
        assert!(text_for(b"").contains("try again"));
        assert!(text_for(b"{\"servers\": [\"s1\"]}").contains("another version"));
    }
}
