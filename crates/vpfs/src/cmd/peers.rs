//! `vpfs peers`: what the proxies of this host and others know about each other.

use std::time::Duration;

use comfy_table::presets::NOTHING;
use comfy_table::{CellAlignment, Table};
use vpfs_config::Config;
use vpfs_config::units::Size;
use vpfs_core::{Bytes, SharingMode};
use vpfs_proxy::{PeerReport, PeersReport, TrafficReport};

use super::asking::Asking;
use super::runtime;
use crate::print::{Exit, print, print_json, roughly};

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
        reports.iter().try_for_each(|report| print(table_of(report, &config)))
    }
}

/// One table of peers and one of applications, with what their columns count.
fn table_of(report: &PeersReport, config: &Config) -> String {
    let mut text = format!("proxy of {}, started {} ago\n", report.servers.join(", "), seconds(report.up_seconds));
    if !report.peers.is_empty() {
        text += &format!("\n{}\n", peers(report));
    } else if report.servers.len() < config.servers.len() {
        text += "No [peers] table: it does not know the proxies of other servers.\n";
    } else {
        text += "All servers are in this process: there are no other proxies.\n";
    }
    if !report.apps.is_empty() {
        text += &format!("\n{}\n{}", apps(report), explanation(report, config));
    }
    text
}

fn peers(report: &PeersReport) -> Table {
    let mut peers = table(&["peer", "state", "address", "last report", "sent", "received", "clock"]);
    for peer in &report.peers {
        let state = format!("{} {}", if peer.connected { "up" } else { "absent" }, seconds(peer.since_seconds));
        let last = peer.news_age_seconds.map_or("none yet".into(), |age| format!("{} ago", seconds(age)));
        let address = peer.address.clone().unwrap_or_default();
        peers.add_row([
            peer.server.clone(),
            state,
            address,
            last,
            traffic(peer.sent),
            traffic(peer.received),
            clock(peer),
        ]);
    }
    peers
}

fn apps(report: &PeersReport) -> Table {
    let has_peers = !report.peers.is_empty();
    let mut apps = table(&["application", "data here", "metadata here", "elsewhere"][..if has_peers { 4 } else { 3 }]);
    for app in &report.apps {
        let elsewhere = has_peers.then(|| size(app.elsewhere));
        let here = [app.app.clone(), size(app.here), format!("{} requests", app.metadata_here)];
        apps.add_row(here.into_iter().chain(elsewhere));
    }
    apps
}

/// Since when the columns count, and what.
fn explanation(report: &PeersReport, config: &Config) -> String {
    let since = format!("Since this proxy started, {} ago.", seconds(report.up_seconds));
    if report.peers.is_empty() {
        return since + "\n";
    }
    let elsewhere = match config.scheduler.policy.sharing.mode {
        SharingMode::Local => "is not reported with sharing = \"local\", as shares do not depend on it".to_owned(),
        _ => format!(
            "is what the peers reported meanwhile: data, and {} for each object of a metadata request\n\
             (scheduler.metadata_cost)",
            Size(config.scheduler.metadata_cost)
        ),
    };
    format!("{since} \"elsewhere\" {elsewhere}.\n")
}

fn table(header: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(NOTHING).set_header(header.iter().copied());
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

fn traffic(traffic: TrafficReport) -> String {
    format!("{} ({})", traffic.messages, size(traffic.bytes))
}

fn clock(peer: &PeerReport) -> String {
    match (peer.clock_ahead_seconds, peer.clock_error_seconds) {
        (Some(ahead), Some(error)) => format!("{:+.3} ms ± {:.3}", ahead * 1e3, error * 1e3),
        _ => String::new(),
    }
}

fn seconds(seconds: f64) -> String {
    roughly(Duration::try_from_secs_f64(seconds).unwrap_or_default())
}

fn size(bytes: u64) -> String {
    format!("{:.1}", Size(Bytes(bytes)))
}

#[cfg(test)]
mod tests {
    use vpfs_proxy::AppReport;

    use super::*;

    fn config(more: &str) -> Config {
        let server =
            |name: &str, port| format!("[[server]]\nname = \"{name}\"\naddress = \"tcp://127.0.0.1:{port}\"\n");
        let servers = server("s1", 3334) + &server("s2", 3335);
        let listener = "[[listener]]\naddresses = { s1 = \"tcp://127.0.0.1:5334\", s2 = \"tcp://127.0.0.1:5335\" }\n";
        Config::parse("vpfs.toml", &(servers + listener + more)).unwrap_or_else(|problems| panic!("{problems}"))
    }

    fn report(servers: &[&str], peers: Vec<PeerReport>) -> PeersReport {
        let servers = servers.iter().map(|name| (*name).to_owned()).collect();
        let app = AppReport { app: "climate".into(), here: 3 << 20, metadata_here: 12, elsewhere: 1 << 20 };
        PeersReport { servers, up_seconds: 7300.0, peers, apps: vec![app] }
    }

    fn peer() -> PeerReport {
        let traffic = TrafficReport { messages: 1, bytes: 100 };
        PeerReport {
            server: "s2".into(),
            connected: true,
            address: Some("10.0.0.2:7334".into()),
            since_seconds: 300.0,
            news_age_seconds: Some(1.0),
            sent: traffic,
            received: traffic,
            dropped: 0,
            clock_ahead_seconds: None,
            clock_error_seconds: None,
        }
    }

    #[test]
    fn columns_say_since_when_they_count_and_what() {
        let text = table_of(&report(&["s1"], vec![peer()]), &config("[scheduler]\nsharing = \"threshold\"\n"));
        for part in ["proxy of s1, started 2 h ago", "last report", "1 s ago", "up 5 min", "12 requests"] {
            assert!(text.contains(part), "{part}:\n{text}");
        }
        assert!(text.contains("started, 2 h ago") && text.contains("10KiB for each object"), "{text}");
        let local = table_of(&report(&["s1"], vec![peer()]), &config(""));
        assert!(local.contains("not reported"), "{local}");
    }

    #[test]
    fn a_process_with_all_servers_has_no_empty_tables() {
        let text = table_of(&report(&["s1", "s2"], Vec::new()), &config(""));
        assert!(text.contains("no other proxies") && !text.contains("elsewhere"), "{text}");
        let apart = table_of(&report(&["s1"], Vec::new()), &config(""));
        assert!(apart.contains("No [peers] table"), "{apart}");
    }
}
