//! Requests in turns: each belongs to an application, and waits until the scheduler lets it go on.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use vpfs_core::{AppId, OpKind};
use vpfs_proxy::Turns;

use crate::caller::Caller;
use crate::inodes::lock;
use crate::programs::{Program, Programs};
use crate::workers::{Workers, start};

/// The most bytes of writes that wait here; beyond, whoever reads requests waits.
const HELD_MAX: usize = 1 << 30;

/// Whose turn it is.
#[derive(Debug)]
pub(crate) struct Shares {
    turns: Turns,
    programs: Programs,
    held: Arc<Held>,
}

/// Who opened a file: its requests are charged to them, also those that the kernel makes later.
#[derive(Debug)]
pub(crate) struct Opener {
    program: Arc<Program>,
    file: String,
    /// The application of each [`OpKind`], and above it the rules by which it was found.
    apps: [AtomicU64; 3],
}

impl Shares {
    pub(crate) fn new(turns: Turns) -> Self {
        Self { turns, programs: Programs::default(), held: Arc::default() }
    }

    /// Serves a request of an application, here if it may go on at once.
    pub(crate) fn serve(
        &self,
        workers: &Workers,
        (app, op, bytes): (AppId, OpKind, u64),
        data: &[u8],
        work: impl FnOnce(&[u8]) -> u64 + Send + 'static,
    ) {
        let waiting = match self.turns.ask(app, op, bytes) {
            Ok(turn) => return workers.serve(data, move |data| turn.done(work(data))),
            Err(waiting) => waiting,
        };
        let data = Data::held(&self.held, data);
        waiting.then(Box::new(move |turn| start(move || turn.done(work(&data.bytes)))));
    }

    /// The application of a program's request about the metadata of the file at this path below the mount.
    pub(crate) fn app_of(&self, caller: Caller, file: &str) -> AppId {
        self.app(&self.programs.get(caller), file, OpKind::Metadata)
    }

    pub(crate) fn opener(&self, caller: Caller, file: String) -> Opener {
        Opener { program: self.programs.get(caller), file, apps: std::array::from_fn(|_| AtomicU64::new(u64::MAX)) }
    }

    pub(crate) fn app_of_opener(&self, opener: &Opener, op: OpKind) -> AppId {
        let app = &opener.apps[op as usize];
        let (known, rules) = (app.load(Relaxed), self.turns.generation() & u64::from(u32::MAX));
        if known >> 32 == rules && known != u64::MAX {
            return AppId(u32::try_from(known & u64::from(u32::MAX)).unwrap_or_default());
        }
        let found = self.app(&opener.program, &opener.file, op);
        app.store(rules << 32 | u64::from(found.0), Relaxed);
        found
    }

    fn app(&self, program: &Program, file: &str, op: OpKind) -> AppId {
        let Program { uid, gids, cgroup, executable, weight } = program;
        self.turns.app(&vpfs_config::Program { uid: *uid, gids, cgroup, executable, file, op, weight: *weight })
    }
}

/// How much waits here.
#[derive(Debug, Default)]
struct Held {
    bytes: Mutex<usize>,
    less: Condvar,
}

/// A copy of a request's data, counted until it is dropped.
struct Data {
    bytes: Vec<u8>,
    held: Arc<Held>,
}

impl Data {
    fn held(held: &Arc<Held>, bytes: &[u8]) -> Self {
        let count = lock(&held.bytes);
        let is_too_much = |count: &mut usize| *count > HELD_MAX.saturating_sub(bytes.len());
        let mut count = held.less.wait_while(count, is_too_much).unwrap_or_else(PoisonError::into_inner);
        *count += bytes.len();
        Self { bytes: bytes.to_vec(), held: Arc::clone(held) }
    }
}

impl Drop for Data {
    fn drop(&mut self) {
        *lock(&self.held.bytes) -= self.bytes.len();
        self.held.less.notify_one();
    }
}
