//! The report of a proxy as text.

use comfy_table::presets::NOTHING;
use comfy_table::{CellAlignment, Table};
use vpfs_config::units::{Size, Span};
use vpfs_core::Bytes;
use vpfs_proxy::{PeerReport, PeersReport, TrafficReport};

/// One table of peers and one of applications.
pub(super) fn of(report: &PeersReport) -> String {
    let mut peers = table(&["peer", "state", "address", "news", "sent", "received", "clock"]);
    for peer in &report.peers {
        let state = format!("{} {}", if peer.connected { "up" } else { "absent" }, seconds(peer.since_seconds));
        let news = peer.news_age_seconds.map_or("none".into(), seconds);
        let address = peer.address.clone().unwrap_or_default();
        peers.add_row([
            peer.server.clone(),
            state,
            address,
            news,
            traffic(peer.sent),
            traffic(peer.received),
            clock(peer),
        ]);
    }
    let mut apps = table(&["application", "here", "elsewhere"]);
    for app in &report.apps {
        apps.add_row([app.app.clone(), size(app.here), size(app.elsewhere)]);
    }
    let mut text = format!("proxy of {}\n{peers}\n", report.servers.join(", "));
    if !report.apps.is_empty() {
        text += &format!("\n{apps}\n");
    }
    text
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
    let span = std::time::Duration::try_from_secs_f64(seconds).unwrap_or_default();
    format!("{:.0}", Span(span))
}

fn size(bytes: u64) -> String {
    format!("{:.1}", Size(Bytes(bytes)))
}
