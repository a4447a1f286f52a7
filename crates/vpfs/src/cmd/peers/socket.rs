//! The socket at which a proxy tells what it knows about its peers. There are no requests: it sends its report to
//! whoever connects, and closes.

use std::fs::{self, DirBuilder, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{Semaphore, mpsc, oneshot};
use vpfs_config::{Config, Peers};
use vpfs_proxy::PeersReport;

/// Who connects beyond this waits.
const CONNECTIONS: usize = 4;
/// The time in which the other end must take the report.
const PATIENCE: Duration = Duration::from_secs(2);

/// Somebody asks for a report.
pub(crate) type Question = oneshot::Sender<PeersReport>;

/// Where proxies have their sockets, also those without `[peers]`.
pub(crate) fn directory(config: &Config) -> &Path {
    config.peers.as_ref().map_or(Path::new(Peers::SOCKETS), |peers| &peers.sockets)
}

/// The socket of the proxy whose first server is `server`.
pub(crate) fn path(directory: &Path, server: &str) -> PathBuf {
    directory.join(format!("{server}.sock"))
}

/// Listens at `path`, for this user only, until the process ends. Replaces a socket at which nobody answers, and with
/// `take_over` that of a predecessor.
pub(crate) fn listen(path: &Path, take_over: bool) -> io::Result<mpsc::Receiver<Question>> {
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
    fs::set_permissions(&unfinished, Permissions::from_mode(0o600))?;
    fs::rename(&unfinished, path)?;
    let (questions, asked) = mpsc::channel(CONNECTIONS);
    tokio::spawn(serve(listener, questions));
    Ok(asked)
}

async fn serve(listener: UnixListener, questions: mpsc::Sender<Question>) {
    let permits = Arc::new(Semaphore::new(CONNECTIONS));
    while let Ok(permit) = Arc::clone(&permits).acquire_owned().await {
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(PATIENCE).await;
            continue;
        };
        let questions = questions.clone();
        tokio::spawn(async move {
            // Who does not take its report gets none.
            let _ = tokio::time::timeout(PATIENCE, answer(stream, questions)).await;
            drop(permit);
        });
    }
}

async fn answer(mut stream: UnixStream, questions: mpsc::Sender<Question>) -> io::Result<()> {
    let (question, report) = oneshot::channel();
    questions.send(question).await.map_err(io::Error::other)?;
    let report = report.await.map_err(io::Error::other)?;
    stream.write_all(&serde_json::to_vec(&report)?).await?;
    stream.shutdown().await
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    #[tokio::test]
    async fn who_connects_gets_the_report_and_nobody_else_can_connect() {
        let folder = tempfile::tempdir().unwrap();
        let path = path(&folder.path().join("vpfs"), "s1");
        for take_over in [false, true] {
            let mut asked = listen(&path, take_over).unwrap();
            assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
            let sent = PeersReport { servers: vec!["s1".into()], up_seconds: 1.0, peers: vec![], apps: vec![] };
            let client = std::os::unix::net::UnixStream::connect(&path).unwrap();
            asked.recv().await.unwrap().send(sent.clone()).unwrap();
            let reading = tokio::task::spawn_blocking(move || {
                let mut text = String::new();
                (&client).read_to_string(&mut text).map(|_| text)
            });
            let text = reading.await.unwrap().unwrap();
            assert_eq!(serde_json::from_str::<PeersReport>(&text).unwrap(), sent);
            assert_eq!(listen(&path, false).err().map(|error| error.kind()), Some(io::ErrorKind::AddrInUse));
        }
    }
}
