//! What systemd is told, if it started this process.

use sd_notify::NotifyState;

/// Tells systemd something; without systemd this does nothing.
pub(crate) fn tell(state: NotifyState<'_>) {
    if let Err(error) = sd_notify::notify(&[state]) {
        tracing::warn!(%error, "cannot notify systemd");
    }
}
