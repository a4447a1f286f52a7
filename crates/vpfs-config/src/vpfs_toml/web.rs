//! `[web]`: where a browser finds the live page.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use super::keys::WEB;
use super::metrics::endpoint;
use crate::schema::table::Table;

/// Where the live page is served by TCP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Web {
    /// The address.
    pub listen: SocketAddr,
    /// The file with the secret in the path of the page.
    pub key: PathBuf,
}

impl Web {
    /// Makes relative paths relative to `folder`.
    pub(crate) fn resolve_paths(&mut self, folder: &Path) {
        self.key = folder.join(&self.key);
    }
}

/// Reads the table; `None` if the page is not served by TCP, or the table has a problem, which is reported.
pub(crate) fn read(root: &Table<'_>) -> Option<Web> {
    let table = root.table("web", &WEB);
    let [listen, key] = ["listen", "key"].map(|name| table.text(name));
    listen.iter().for_each(|listen| table.set("listen", *listen));
    key.iter().for_each(|key| table.set("key", *key));
    match (listen, key) {
        (Some(listen), Some(key)) => Some(Web { listen: endpoint(&table, listen)?, key: PathBuf::from(key) }),
        (Some(_), None) => {
            let fix = "everybody who can connect could see what each application does; add key = \"web.key\", a file with a \
                       secret (openssl rand -hex 16)";
            table.refuse("listen", fix);
            None
        }
        (None, Some(_)) => {
            table.refuse("key", "has no effect without listen; add listen = \"127.0.0.1:9335\", or remove it");
            None
        }
        (None, None) => None,
    }
}
