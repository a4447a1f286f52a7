//! What systemd is told, if it started this process.

use sd_notify::NotifyState;

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

/// The process with this id is the main one from now on.
pub(crate) fn succeeded_by(pid: u32) {
    tell(&[NotifyState::MainPid(pid)]);
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
