//! Requests in turns: each belongs to an application, and waits until the scheduler lets it go on.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

use rustix::io::{Errno, Result};
use vpfs_core::{AppId, OpKind};
use vpfs_proxy::{Turn, Turns};

use crate::caller::Caller;
use crate::programs::{Program, Programs};
use crate::waiters::Waiters;
use crate::workers::{Workers, start};

/// The most bytes of writes that wait here whole.
const HELD_MAX: usize = 1 << 30;
/// What is kept of one beyond: the kernel tells the program that so much was written, and the program writes the rest.
/// Threads that read requests must never wait, since no other request is served then.
const HELD_PART: usize = 4096;

/// Whose turn it is.
#[derive(Debug)]
pub(crate) struct Shares {
    turns: Turns,
    programs: Programs,
    held: Arc<Held>,
    waiters: Arc<Waiters>,
}

impl Drop for Shares {
    fn drop(&mut self) {
        self.waiters.end();
    }
}

/// A request that may have to wait.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked<'a> {
    pub(crate) op: OpKind,
    pub(crate) bytes: u64,
    /// The thread that waits for it; 0 if none does, or it cannot be seen.
    pub(crate) thread: u32,
    pub(crate) data: &'a [u8],
    /// Whether a part of the data may be written, instead of all.
    pub(crate) is_divisible: bool,
}

/// The program that asks for a file. Requests to an open file are charged to the program that opened it, also those
/// that the kernel makes later.
#[derive(Debug)]
pub(crate) struct Asker {
    program: Arc<Program>,
    file: String,
    /// The application of each [`OpKind`], and above it the rules by which it was found.
    apps: [AtomicU64; 3],
}

impl Shares {
    pub(crate) fn new(turns: Turns) -> Self {
        Self { turns, programs: Programs::default(), held: Arc::default(), waiters: Waiters::start() }
    }

    /// Serves a request of `asker`, in this thread if it may go on at once; `work` is told if it may not go on at all.
    pub(crate) fn serve(
        &self,
        workers: &Workers,
        asker: &Arc<Asker>,
        asked: Asked,
        work: impl FnOnce(Result<()>, &[u8]) -> u64 + Send + 'static,
    ) {
        let Asked { op, thread, is_divisible, mut data, .. } = asked;
        let app = asker.app(&self.turns, op);
        let mut turn = self.turns.ask(app, op, asked.bytes);
        let kept = self.held.kept(data.len());
        if is_divisible
            && kept < data.len()
            && let Err(waiting) = turn
        {
            waiting.withdraw();
            data = &data[..kept];
            turn = self.turns.ask(app, op, kept as u64);
        }
        let waiting = match turn {
            Ok(turn) => return workers.serve(data, move |data| turn.done(work(Ok(()), data))),
            Err(waiting) => waiting,
        };
        let (turns, asker) = (self.turns.clone(), Arc::clone(asker));
        let data = Data::held(&self.held, data);
        let identified = move || asker.app(&turns, op);
        let work = move |turn: Option<Turn>| match turn {
            Some(turn) => start(move || turn.done(work(Ok(()), &data.bytes))),
            None => {
                work(Err(Errno::INTR), &data.bytes);
            }
        };
        let cancel = waiting.then(identified, Box::new(work));
        if thread != 0 {
            self.waiters.add(thread, op == OpKind::Read, cancel);
        }
    }

    /// A program that asks for the file at this path below the mount.
    pub(crate) fn asker(&self, caller: Caller, file: String) -> Arc<Asker> {
        let apps = std::array::from_fn(|_| AtomicU64::new(u64::MAX));
        Arc::new(Asker { program: self.programs.get(caller), file, apps })
    }
}

impl Asker {
    /// Its application by the rules in force.
    fn app(&self, turns: &Turns, op: OpKind) -> AppId {
        let app = &self.apps[op as usize];
        let (known, rules) = (app.load(Relaxed), turns.generation() & u64::from(u32::MAX));
        if known >> 32 == rules && known != u64::MAX {
            return AppId(u32::try_from(known & u64::from(u32::MAX)).unwrap_or_default());
        }
        let Program { uid, gids, cgroup, executable, weight } = &*self.program;
        let (file, weight) = (&self.file[..], *weight);
        let found = turns.app(&vpfs_config::Program { uid: *uid, gids, cgroup, executable, file, op, weight });
        app.store(rules << 32 | u64::from(found.0), Relaxed);
        found
    }
}

/// How many bytes wait here.
#[derive(Debug, Default)]
struct Held(AtomicUsize);

impl Held {
    /// How much to keep of a write that could be divided.
    fn kept(&self, size: usize) -> usize {
        match self.0.load(Relaxed).checked_add(size) {
            Some(all) if all <= HELD_MAX => size,
            _ => size.min(HELD_PART),
        }
    }
}

/// A copy of a request's data, counted until it is dropped.
struct Data {
    bytes: Vec<u8>,
    held: Arc<Held>,
}

impl Data {
    fn held(held: &Arc<Held>, bytes: &[u8]) -> Self {
        held.0.fetch_add(bytes.len(), Relaxed);
        Self { bytes: bytes.to_vec(), held: Arc::clone(held) }
    }
}

impl Drop for Data {
    fn drop(&mut self) {
        self.held.0.fetch_sub(self.bytes.len(), Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Symptom it guards against: with 1 GiB of writes that wait, no request of anybody was served.
    #[test]
    fn beyond_the_bound_a_part_is_kept() {
        let held = Arc::<Held>::default();
        held.0.store(HELD_MAX - (1 << 20), Relaxed);
        assert_eq!(held.kept(1 << 20), 1 << 20);
        let one = Data::held(&held, &[0; 5000]);
        assert_eq!((held.kept(1 << 20), held.kept(5000), held.kept(100)), (HELD_PART, 5000, 100));
        held.0.fetch_add(1 << 20, Relaxed);
        assert_eq!((held.kept(5000), held.kept(100)), (HELD_PART, 100));
        drop(one);
        assert_eq!(held.0.load(Relaxed), HELD_MAX);
    }
}
