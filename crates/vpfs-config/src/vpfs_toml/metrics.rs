//! `[metrics]`: where Prometheus finds what a proxy measures.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use super::keys::METRICS;
use crate::schema::reader::Reader;
use crate::schema::units::quote;

/// Where metrics are served by TCP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Metrics {
    /// The address; one of the loopback, if there is no token.
    pub listen: SocketAddr,
    /// The file with the secret that whoever reads metrics must send.
    pub token: Option<PathBuf>,
}

impl Metrics {
    /// Makes relative paths relative to `folder`.
    pub(crate) fn resolve_paths(&mut self, folder: &Path) {
        self.token.iter_mut().for_each(|path| *path = folder.join(&*path));
    }
}

/// Reads the table; `None` if metrics are not served by TCP, or the table has a problem, which is reported.
pub(crate) fn read(root: &Reader<'_>) -> Option<Metrics> {
    let reader = Reader::open(root.cx, &METRICS, "metrics", root.value("metrics"));
    let token = reader.text("token").map(|found| found.text);
    token.iter().for_each(|token| reader.set("token", *token));
    let Some(text) = reader.text("listen").map(|found| found.text) else {
        if token.is_some() {
            reader.refuse("token", "has no effect without listen; add listen = \"0.0.0.0:9334\", or remove it");
        }
        return None;
    };
    let listen = endpoint(&reader, text)?;
    if token.is_none() && !listen.ip().to_canonical().is_loopback() {
        let (quoted, port) = (quote(text), listen.port());
        let message = format!(
            "{quoted} can be reached from other hosts, where everybody could read what each application does; add \
             token = \"metrics.token\", a file with a secret, or listen at \"127.0.0.1:{port}\""
        );
        reader.refuse("listen", message);
        return None;
    }
    reader.set("listen", text);
    Some(Metrics { listen, token: token.map(PathBuf::from) })
}

/// The address in `listen`; reports what is none.
pub(super) fn endpoint(reader: &Reader<'_>, text: &str) -> Option<SocketAddr> {
    let address = text.parse::<SocketAddr>().ok().filter(|address| address.port() > 0);
    if address.is_none() {
        let fix = "is not an IP address with a port; write for example \"127.0.0.1:9334\"";
        reader.refuse("listen", format!("{} {fix}", quote(text)));
    }
    address
}
