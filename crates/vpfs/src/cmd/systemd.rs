//! What systemd is told, if it started this process.

use std::process::Command;
use std::time::Duration;

use futures_util::future::FutureExt;
use sd_notify::NotifyState;
use tokio::task::JoinSet;
use vpfs_proxy::Observer;

/// The longest status that is shown.
const STATUS_MAX: usize = 500;

/// Everything is served; a successor's predecessor says so for it.
pub(crate) fn ready(status: &str, is_successor: bool) {
    let ready = (!is_successor).then_some(NotifyState::Ready);
    tell(&ready.into_iter().chain([NotifyState::Status(status)]).collect::<Vec<_>>());
}

/// A reload begins. systemd wants to know when, so that it recognises the end of this one.
pub(crate) fn reloading() {
    let now = NotifyState::monotonic_usec_now().ok();
    tell(&[NotifyState::Reloading].into_iter().chain(now).collect::<Vec<_>>());
}

/// A reload has ended, and how.
pub(crate) fn reloaded(outcome: &Result<String, String>) {
    let text = match outcome {
        Ok(what) => format!("reloaded: {what}"),
        Err(reason) => format!("reload rejected, the old configuration stays active: {reason}"),
    };
    let line: String = text.replace('\n', "; ").chars().take(STATUS_MAX).collect();
    tell(&[NotifyState::Ready, NotifyState::Status(&line)]);
}

/// The process with this id is the main one from now on, and has the whole time until its first ping is due.
pub(crate) fn succeeded_by(pid: u32) {
    tell(&[NotifyState::Watchdog, NotifyState::MainPid(pid)]);
}

/// Lets `successor` serve the watchdog of this process, which is named by its id; without an id, it is for anyone.
pub(crate) fn pass_watchdog_on(successor: &mut Command) {
    successor.env_remove("WATCHDOG_PID");
}

/// Until this is dropped, tells systemd that the data path answers, if it watches for that. It restarts a proxy that
/// hangs.
pub(crate) fn watch(observer: Observer) -> JoinSet<()> {
    let mut watching = JoinSet::new();
    if let Some(patience) = sd_notify::watchdog_enabled() {
        watching.spawn(ping(observer, patience).boxed());
    }
    watching
}

async fn ping(observer: Observer, patience: Duration) {
    loop {
        // First of all: a successor is not heard until its predecessor has named it.
        tokio::time::sleep(patience / 4).await;
        let mut pulse = std::pin::pin!(observer.pulse());
        if tokio::time::timeout(patience / 2, &mut pulse).await.is_err() {
            tracing::error!("the data path does not answer; systemd will restart this process");
            pulse.await;
        }
        tell(&[NotifyState::Watchdog]);
    }
}

/// Operations in progress end.
pub(crate) fn stopping() {
    tell(&[NotifyState::Stopping]);
}

/// Without systemd this does nothing.
fn tell(states: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        tracing::warn!(%error, "cannot notify systemd");
    }
}
