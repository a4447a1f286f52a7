//! `vpfs peers`: what the proxies of this host and others know about each other.

mod table;

use vpfs_proxy::PeersReport;

use super::asking::Asking;
use super::runtime;
use crate::exit::Exit;
use crate::print::{print, print_json};

/// Show which other proxies are there, and what applications got here and elsewhere
///
/// Asks the proxies on this host, through their sockets in the directory peers.sockets (/run/vpfs without a peers
/// table), which only root, their own user and the group of the socket may use.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  \
    vpfs peers                       peers and applications of all proxies on this host\n  \
    vpfs peers --server s1 --json    the same of one proxy, for programs")]
pub(crate) struct Peers {
    #[command(flatten)]
    asking: Asking,

    /// Print JSON: a list with an object for each proxy
    #[arg(long)]
    json: bool,
}

impl Peers {
    pub(crate) fn run(&self) -> Result<(), Exit> {
        let config = self.asking.config()?;
        let reports: Vec<PeersReport> = runtime()?.block_on(self.asking.answers(&config))?.told();
        if self.json {
            return print_json(&reports);
        }
        reports.iter().try_for_each(|report| print(table::of(report, &config)))
    }
}
