//! Ends requests that wait for their turn when the program that made them is being killed.
//!
//! The kernel says so by FUSE_INTERRUPT. fuser 0.18 answers that this is not supported, and does not tell us (its
//! issue 14; its pull request 696 was closed), after which the kernel says it to nobody. So what has waited for a
//! while is looked at: the kernel shows which signals a thread has yet to take. That also tells fatal signals,
//! which end waiting, from those that the program handles, which must not make a write to a file fail that no other
//! file system interrupts. Threads that we cannot see, in no namespace below ours, wait for their turn.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use vpfs_proxy::Cancel;

use crate::inodes::lock;

/// How long a request waits before it is looked at, and then how often.
const PERIOD: Duration = Duration::from_millis(50);
/// Looking takes at most one part in so many of a processor's time.
const SHARE: u32 = 20;

/// Requests that wait.
#[derive(Debug, Default)]
pub(crate) struct Waiters {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    waiting: Vec<Waiter>,
    has_ended: bool,
}

#[derive(Debug)]
struct Waiter {
    thread: u32,
    is_read: bool,
    cancel: Cancel,
    is_old: bool,
}

impl Waiters {
    /// Looks at them in a thread of its own, until [`Waiters::end`].
    pub(crate) fn start() -> Arc<Self> {
        let waiters = Arc::<Self>::default();
        let watched = Arc::clone(&waiters);
        if let Err(error) = thread::Builder::new().name("waiters".into()).spawn(move || watched.watch()) {
            tracing::error!(%error, "cannot start a thread; programs that wait for their turn cannot be killed");
        }
        waiters
    }

    pub(crate) fn end(&self) {
        lock(&self.state).has_ended = true;
        self.changed.notify_one();
    }

    /// Ends the waiting of a thread's request when the thread is being killed, or that of a read when it is gone.
    pub(crate) fn add(&self, thread: u32, is_read: bool, cancel: Cancel) {
        let mut state = lock(&self.state);
        state.waiting.push(Waiter { thread, is_read, cancel, is_old: false });
        let is_first = state.waiting.len() == 1;
        drop(state);
        if is_first {
            self.changed.notify_one();
        }
    }

    fn watch(&self) {
        loop {
            let is_idle = |state: &mut State| state.waiting.is_empty() && !state.has_ended;
            let waited = self.changed.wait_while(lock(&self.state), is_idle);
            drop(waited.unwrap_or_else(PoisonError::into_inner));
            let begin = Instant::now();
            self.look(is_dying);
            let pause = PERIOD.max(begin.elapsed() * SHARE);
            let goes_on = |state: &mut State| !state.has_ended;
            let waited = self.changed.wait_timeout_while(lock(&self.state), pause, goes_on);
            if waited.unwrap_or_else(PoisonError::into_inner).0.has_ended {
                return;
            }
        }
    }

    fn look(&self, is_dying: impl Fn(u32, bool) -> bool) {
        let mut threads = BTreeSet::new();
        lock(&self.state).waiting.retain_mut(|waiter| {
            if waiter.is_old {
                threads.insert((waiter.thread, waiter.is_read));
            }
            waiter.is_old = true;
            !waiter.cancel.is_late()
        });
        threads.retain(|(thread, is_read)| is_dying(*thread, *is_read));
        if threads.is_empty() {
            return;
        }
        let dying: Vec<_> = {
            let mut state = lock(&self.state);
            let is_dying = |waiter: &mut Waiter| waiter.is_old && threads.contains(&(waiter.thread, waiter.is_read));
            state.waiting.extract_if(.., is_dying).collect()
        };
        dying.iter().for_each(|waiter| waiter.cancel.cancel());
    }
}

/// Of a thread that is gone, the kernel still reads ahead. Others that open the file wait for that, and cannot be
/// killed meanwhile; without it they read for themselves.
fn is_dying(thread: u32, is_read: bool) -> bool {
    match fs::read_to_string(format!("/proc/{thread}/status")) {
        Ok(status) => has_fatal_signal(&status),
        // Whatever else fails, such as too many open files, says nothing of the thread.
        Err(error) => is_read && is_gone(&error),
    }
}

/// Before or while it is read.
fn is_gone(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound || Errno::from_io_error(error) == Some(Errno::SRCH)
}

/// Whether a thread ends as soon as it takes the signals that it has yet to take. Most are made SIGKILL when they are
/// sent; not so those that dump core, and all while it is traced.
fn has_fatal_signal(status: &str) -> bool {
    let mask = |key: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'));
        line.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or_default()
    };
    let bits = |signals: &[u32]| signals.iter().fold(0, |mask, signal| mask | 1_u64 << (signal - 1));
    let kill = bits(&[9]);
    // SIGCHLD, SIGCONT, SIGSTOP, SIGTSTP, SIGTTIN, SIGTTOU, SIGURG, SIGWINCH.
    let harmless = bits(&[17, 18, 19, 20, 21, 22, 23, 28]);
    let pending = mask("SigPnd") | mask("ShdPnd");
    pending & (kill | !(harmless | mask("SigBlk") | mask("SigIgn") | mask("SigCgt"))) != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_that_end_the_thread_are_fatal() {
        let status = |pending: &str, shared: &str, blocked: &str, ignored: &str, caught: &str| {
            format!(
                "Name:\tdd\nSigQ:\t1/7\nSigPnd:\t{pending}\nShdPnd:\t{shared}\nSigBlk:\t{blocked}\n\
                 SigIgn:\t{ignored}\nSigCgt:\t{caught}\n"
            )
        };
        let (none, kill, quit, child, all) = ("0", "0000000000000100", "4", "10000", "ffffffffffffffff");
        assert!(has_fatal_signal(&status(kill, none, none, none, none)), "as the kernel marks all threads of a group");
        assert!(has_fatal_signal(&status(none, kill, all, all, all)), "nothing holds it up");
        assert!(has_fatal_signal(&status(none, quit, none, none, none)));
        assert!(!has_fatal_signal(&status(none, quit, none, none, quit)), "the program handles it");
        assert!(!has_fatal_signal(&status(none, quit, quit, none, none)));
        assert!(!has_fatal_signal(&status(none, child, none, none, none)));
        assert!(!has_fatal_signal(&status(none, none, none, none, none)) && !has_fatal_signal(""));
        let this = std::process::id();
        assert!(!is_dying(this, true) && !is_dying(this, false) && !is_dying(u32::MAX, false));
        assert!(is_dying(u32::MAX, true), "it is gone");
        assert!(!is_gone(&Errno::MFILE.into()) && is_gone(&Errno::SRCH.into()));
    }
}
