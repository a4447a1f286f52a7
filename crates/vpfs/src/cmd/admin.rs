//! Where a proxy tells what it knows: its socket, and metrics for the network (`vpfs-admin`). A proxy works without.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::task::JoinSet;
use vpfs_admin::events::Events;
use vpfs_admin::{Kept, MetricsAccess, keep_history, serve_askers, serve_metrics, serve_socket, socket, watch_storage};
use vpfs_config::Config;
use vpfs_core::ServerId;
use vpfs_proxy::{Askers, Observer, Pushes, StateDir};

use super::{runtime_dir, web};

/// How often to try an address that is in use, at first by a predecessor.
const RETRY: Duration = Duration::from_millis(100);
/// The failure at which a predecessor has left for long, so that it is somebody else.
const TOLD: u32 = 50;

/// Serves until this is dropped. With `take_over`, a predecessor serves until it hands over.
pub(super) fn serve(
    config: &Config,
    servers: &[ServerId],
    take_over: bool,
    (observer, pushes): (&Observer, Pushes),
    (events, askers): (&Events, Option<Askers>),
) -> JoinSet<()> {
    let mut tasks = JoinSet::new();
    tasks.spawn(watch_storage(observer.clone()));
    let history = history_file(config, servers);
    if let Some(path) = history.clone() {
        tasks.spawn(keep_history(path, observer.clone()));
    }
    let kept = Kept { events: events.clone(), history, pushes: Some(pushes) };
    if let Some(listener) = open_socket(config, servers, take_over) {
        tasks.spawn(serve_socket(listener, observer.clone(), kept.clone()));
    }
    if let Some(askers) = askers {
        tasks.spawn(serve_askers(askers, observer.clone(), kept.clone()));
    }
    if let Some(page) = config.web.clone() {
        let observer = observer.clone();
        tasks.spawn(async move {
            let listener = listen(page.listen, "the page is").await;
            tracing::info!(listen = %page.listen, "serving the page");
            web::serve_own(listener, page.key, observer, kept).await;
        });
    }
    if let Some(metrics) = config.metrics.clone() {
        let observer = observer.clone();
        tasks.spawn(async move {
            let listener = listen(metrics.listen, "metrics are").await;
            tracing::info!(listen = %metrics.listen, "serving metrics");
            let access = metrics.token.map_or(MetricsAccess::Everybody, MetricsAccess::Token);
            serve_metrics(listener, access, observer).await;
        });
    }
    tasks
}

/// In the state directory, if there is one.
fn history_file(config: &Config, servers: &[ServerId]) -> Option<PathBuf> {
    let name = &config.servers[servers.first()?.index()].name;
    StateDir::of_service().file(&format!("{name}.history.sqlite")).filter(|_| config.keeps_history)
}

/// At the first place where that is possible, which the log says.
fn open_socket(config: &Config, servers: &[ServerId], take_over: bool) -> Option<tokio::net::UnixListener> {
    let name = &config.servers[servers.first()?.index()].name;
    let mut failures = Vec::new();
    for directory in runtime_dir::of(config) {
        let path = socket::path(&directory, name);
        match socket::bind(&path, take_over) {
            Ok(listener) => {
                tracing::info!(path = %path.display(), "commands such as `vpfs top` ask here");
                return Some(listener);
            }
            Err(error) => failures.push(format!("{}: {error}", path.display())),
        }
    }
    let reasons = failures.join("; ");
    tracing::warn!(reasons, "no socket, so `vpfs top` and others cannot ask this proxy: {}", runtime_dir::REMEDY);
    None
}

/// Tries until it succeeds: a predecessor closes its listener when it hands over, and whatever else is wrong may be
/// fixed at any time.
async fn listen(address: SocketAddr, what: &str) -> TcpListener {
    let mut failures = 0;
    loop {
        match TcpListener::bind(address).await {
            Ok(listener) => return listener,
            Err(error) => {
                failures += 1;
                if failures == TOLD {
                    tracing::warn!(listen = %address, %error, "{what} not served yet");
                }
            }
        }
        tokio::time::sleep(RETRY).await;
    }
}
