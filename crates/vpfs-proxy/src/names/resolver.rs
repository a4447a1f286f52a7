//! Looks one name up.

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::pin::Pin;
use std::sync::Arc;
use std::thread;

use tokio::sync::oneshot;

/// The addresses of a name, some time.
type Answer = Pin<Box<dyn Future<Output = io::Result<Vec<IpAddr>>> + Send>>;

/// Looks host names up. The default is the system's way, as configured in `/etc/nsswitch.conf`.
#[derive(Clone)]
pub struct Resolver(Arc<dyn Fn(String) -> Answer + Send + Sync>);

impl Resolver {
    /// A resolver for tests.
    pub fn new<F>(look_up: impl Fn(String) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = io::Result<Vec<IpAddr>>> + Send + 'static,
    {
        Self(Arc::new(move |name| Box::pin(look_up(name))))
    }

    /// The addresses of a name. Dropping this does not stop the look-up.
    pub fn look_up(&self, name: String) -> impl Future<Output = io::Result<Vec<IpAddr>>> + Send + use<> {
        (self.0)(name)
    }
}

impl Default for Resolver {
    fn default() -> Self {
        Self::new(by_system)
    }
}

impl fmt::Debug for Resolver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Resolver")
    }
}

/// `getaddrinfo` in a thread of its own. It cannot be interrupted, so the thread is left alone if nobody waits for the
/// answer any more: neither a runtime nor the end of the process waits for it, as they would for tokio's own threads.
async fn by_system(name: String) -> io::Result<Vec<IpAddr>> {
    let (answer, answered) = oneshot::channel();
    thread::Builder::new().name("name look-up".into()).spawn(move || {
        let found = (name.as_str(), 0).to_socket_addrs();
        // Who asked may be gone.
        let _ = answer.send(found.map(|found| found.map(|address: SocketAddr| address.ip()).collect::<Vec<_>>()));
    })?;
    let mut addresses = answered.await.map_err(io::Error::other)?.map_err(|error| without_preamble(&error))?;
    addresses.dedup();
    Ok(addresses)
}

/// What every error of the standard library begins with says nothing that our messages do not.
fn without_preamble(error: &io::Error) -> io::Error {
    let text = error.to_string();
    io::Error::other(text.strip_prefix("failed to lookup address information: ").unwrap_or(&text).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_system_knows_this_host() {
        assert!(by_system("localhost".into()).await.unwrap().iter().any(IpAddr::is_loopback));
        // Not a name at all, so no name server is asked.
        let error = by_system("a name with blanks".into()).await.unwrap_err().to_string();
        assert!(!error.is_empty() && !error.contains("look"), "{error}");
    }
}
