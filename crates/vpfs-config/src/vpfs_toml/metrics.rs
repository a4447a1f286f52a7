//! `[metrics]`: where Prometheus finds what a proxy measures.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use super::keys::METRICS;
use crate::schema::table::Table;
use crate::schema::units::quote;

/// Where metrics are served by TCP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Metrics {
    /// The address; one of the loopback, if there is no token.
    pub listen: SocketAddr,
    /// The file with the secret that readers of metrics must send.
    pub token: Option<PathBuf>,
}

impl Metrics {
    /// Makes relative paths relative to `folder`.
    pub(crate) fn resolve_paths(&mut self, folder: &Path) {
        self.token.iter_mut().for_each(|path| *path = folder.join(&*path));
    }
}

/// Reads the table; `None` if metrics are not served by TCP, or the table has a problem, which is reported.
pub(crate) fn read(root: &Table<'_>) -> Option<Metrics> {
    let table = root.table("metrics", &METRICS);
    let token = table.text("token");
    token.iter().for_each(|token| table.set("token", *token));
    let Some(text) = table.text("listen") else {
        if token.is_some() {
            table.refuse("token", "has no effect without listen; add listen = \"0.0.0.0:9334\", or remove it");
        }
        return None;
    };
    let listen = endpoint(&table, text)?;
    if token.is_none() && !listen.ip().to_canonical().is_loopback() {
        let (quoted, port) = (quote(text), listen.port());
        let message = format!(
            "{quoted} can be reached from other hosts, where everybody could read what each application does; add \
             token = \"metrics.token\", a file with a secret, or listen at \"127.0.0.1:{port}\""
        );
        table.refuse("listen", message);
        return None;
    }
    table.set("listen", text);
    Some(Metrics { listen, token: token.map(PathBuf::from) })
}

/// The address in `listen`; reports what is none.
pub(super) fn endpoint(table: &Table<'_>, text: &str) -> Option<SocketAddr> {
    let address = text.parse::<SocketAddr>().ok().filter(|address| address.port() > 0);
    if address.is_none() {
        let fix = "is not an IP address with a port; write for example \"127.0.0.1:9334\"";
        table.refuse("listen", format!("{} {fix}", quote(text)));
    }
    address
}
