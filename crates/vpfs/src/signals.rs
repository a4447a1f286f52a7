//! The signals that request termination, and those that must not.

use std::future::poll_fn;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;

use rustix::process::Signal as Number;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Signals that ask a process to end.
pub(crate) struct Stop(Vec<Signal>);

impl Stop {
    /// Handles SIGTERM and SIGINT from now on.
    pub(crate) fn new() -> io::Result<Self> {
        Self::on(&[SignalKind::terminate(), SignalKind::interrupt()])
    }

    /// Handles these from now on.
    pub(crate) fn on(kinds: &[SignalKind]) -> io::Result<Self> {
        kinds.iter().map(|kind| signal(*kind)).collect::<io::Result<_>>().map(Self)
    }

    /// Waits for the next one of any of them.
    pub(crate) async fn asked(&mut self) {
        poll_fn(|context| {
            let comes = self.0.iter_mut().any(|signal| signal.poll_recv(context).is_ready());
            if comes { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }

    /// Sets `flag` at the first one; the second one ends the process.
    pub(crate) async fn set(mut self, flag: Arc<AtomicBool>) {
        self.asked().await;
        flag.store(true, Ordering::Relaxed);
        self.asked().await;
        std::process::exit(130)
    }
}

/// Signals that end a process by default, although people who send them to a daemon hardly mean that.
const HARMLESS: [(Number, &str); 8] = [
    (Number::USR1, "SIGUSR1"),
    (Number::ALARM, "SIGALRM"),
    (Number::VTALARM, "SIGVTALRM"),
    (Number::PROF, "SIGPROF"),
    (Number::IO, "SIGIO"),
    (Number::POWER, "SIGPWR"),
    (Number::STKFLT, "SIGSTKFLT"),
    (Number::XFSZ, "SIGXFSZ"),
];
/// The signals that Linux leaves to programs and C libraries to their users.
const REAL_TIME: std::ops::RangeInclusive<i32> = 34..=64;

/// These signals do nothing from now on except write a line to the log. Call within a runtime.
pub(crate) fn ignore_harmless() {
    let named = HARMLESS.into_iter().map(|(signal, name)| (signal.as_raw(), name.to_owned()));
    let numbered = REAL_TIME.map(|number| (number, format!("SIGRTMIN+{}", number - REAL_TIME.start())));
    for (number, name) in named.chain(numbered) {
        // A signal that this system does not have cannot come.
        let Ok(mut received) = signal(SignalKind::from_raw(number)) else { continue };
        tokio::spawn(async move {
            while received.recv().await.is_some() {
                let meanings = "SIGHUP reloads, SIGUSR2 upgrades, SIGTERM and SIGINT drain";
                tracing::info!(signal = name, "this signal has no meaning here: {meanings}");
            }
        });
    }
}
