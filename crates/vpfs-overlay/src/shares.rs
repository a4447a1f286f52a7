//! Requests in turns: each belongs to an application, and waits until the scheduler lets it go on.

use std::collections::{BTreeSet, HashMap};
use std::io::Read;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicU64, AtomicUsize};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};
use std::{fs, io, thread};

use rustix::io::{Errno, Result};
use vpfs_config::{RunWeight, job_of};
use vpfs_core::{AppId, OpKind};
use vpfs_proxy::{Cancel, Turn, Turns};

use crate::system::{Caller, groups, lock};

/// The most bytes of writes that wait here whole.
const HELD_MAX: usize = 1 << 30;

/// What is kept of one beyond: the kernel tells the program that so much was written, and the program writes the rest.
/// Threads that read requests must never wait, since no other request is served then.
const HELD_PART: usize = 4096;

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

    pub(crate) fn asker(&self, caller: Caller, file: String) -> Arc<Asker> {
        let apps = std::array::from_fn(|_| AtomicU64::new(u64::MAX));
        Arc::new(Asker { program: self.programs.get(caller), file, apps })
    }
}

impl Asker {
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

#[derive(Debug, Default)]
struct Held(AtomicUsize);

impl Held {
    fn kept(&self, size: usize) -> usize {
        match self.0.load(Relaxed).checked_add(size) {
            Some(all) if all <= HELD_MAX => size,
            _ => size.min(HELD_PART),
        }
    }
}

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

// Ends requests that wait for their turn when the program that made them is being killed.
//
// The kernel says so by FUSE_INTERRUPT. fuser 0.18 answers that this is not supported, and does not tell us (its
// issue 14; its pull request 696 was closed), after which the kernel says it to nobody. So what has waited for a
// while is looked at: the kernel shows which signals a thread has yet to take. That also tells fatal signals,
// which end waiting, from those that the program handles, which must not make a write to a file fail that no other
// file system interrupts. Threads that we cannot see, in no namespace below ours, wait for their turn.

/// How long a request waits before it is looked at, and then how often.
const PERIOD: Duration = Duration::from_millis(50);

/// Looking takes at most one part in so many of a processor's time.
const SHARE: u32 = 20;

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

/// How long a program is believed to be what it was: it may execute another one, or be moved to another group.
const BELIEVED: Duration = Duration::from_secs(1);

const ENVIRONMENT_MAX: u64 = 1 << 20;

const PROGRAMS_MAX: usize = 4096;

#[derive(Debug, Default)]
pub(crate) struct Program {
    pub(crate) uid: u32,
    pub(crate) gids: Vec<u32>,
    pub(crate) cgroup: String,
    pub(crate) executable: String,
    pub(crate) weight: Option<RunWeight>,
}

impl Program {
    /// What cannot be seen, because the program has ended or is in another PID namespace, is empty.
    fn look(caller: Caller) -> Self {
        let Caller { uid, gid, pid } = caller;
        let executable = fs::read_link(format!("/proc/{pid}/exe")).unwrap_or_default();
        let cgroups = fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default();
        Self {
            uid,
            gids: groups(pid).iter().map(|group| group.as_raw()).chain([gid]).collect(),
            cgroup: telling(&cgroups).to_owned(),
            executable: executable.to_string_lossy().into_owned(),
            weight: weight(pid),
        }
    }
}

/// The control group that tells most. Of several hierarchies that is the one in which slurmd made a group for a job, as
/// it may do in one alone; or else the one with the longest path.
fn telling(cgroups: &str) -> &str {
    let paths = cgroups.lines().filter_map(|line| line.splitn(3, ':').nth(2));
    paths.max_by_key(|path| (job_of(path).is_some(), path.len())).unwrap_or_default()
}

fn weight(pid: u32) -> Option<RunWeight> {
    let mut environment = Vec::new();
    fs::File::open(format!("/proc/{pid}/environ")).ok()?.take(ENVIRONMENT_MAX).read_to_end(&mut environment).ok()?;
    let value =
        |variable: &[u8]| variable.strip_prefix(RunWeight::VARIABLE.as_bytes())?.strip_prefix(b"=")?.to_vec().into();
    let found: Vec<u8> = environment.split(|byte| *byte == 0).find_map(value)?;
    RunWeight::new(std::str::from_utf8(&found).ok()?.parse().ok()?)
}

type Process = (u32, u32);

#[derive(Debug, Default)]
pub(crate) struct Programs(Mutex<HashMap<Process, (Instant, Arc<Program>)>>);

impl Programs {
    pub(crate) fn get(&self, caller: Caller) -> Arc<Program> {
        let (key, now) = ((caller.pid, caller.uid), Instant::now());
        if let Some((since, known)) = lock(&self.0).get(&key)
            && now.duration_since(*since) < BELIEVED
        {
            return Arc::clone(known);
        }
        let program = Arc::new(Program::look(caller));
        let mut known = lock(&self.0);
        if known.len() >= PROGRAMS_MAX {
            known.clear();
        }
        known.insert(key, (now, Arc::clone(&program)));
        program
    }
}

pub(crate) const THREADS: usize = 32;

/// The most threads beside them; beyond, requests wait.
const MORE_MAX: usize = 512;

/// Keeps one thread free to read requests while others wait for slow files.
#[derive(Clone, Debug, Default)]
pub(crate) struct Workers {
    busy: Arc<AtomicUsize>,
    more: Arc<AtomicUsize>,
}

impl Workers {
    /// Serves a request here, or in a thread of its own, which gets a copy of `data`.
    pub(crate) fn serve(&self, data: &[u8], work: impl FnOnce(&[u8]) + Send + 'static) {
        let busy = Count::of(&self.busy);
        if busy.before + 1 < THREADS {
            return work(data);
        }
        drop(busy);
        let more = Count::of(&self.more);
        if more.before >= MORE_MAX {
            return work(data);
        }
        let data = data.to_vec();
        start(move || {
            let _more = more;
            work(&data);
        });
    }
}

pub(crate) fn start(work: impl FnOnce() + Send + 'static) {
    if let Err(error) = thread::Builder::new().spawn(work) {
        // The request is lost with the closure; its reply is an error when it is dropped.
        tracing::error!(%error, "cannot start a thread for a request");
    }
}

struct Count {
    of: Arc<AtomicUsize>,
    before: usize,
}

impl Count {
    fn of(of: &Arc<AtomicUsize>) -> Self {
        Self { of: Arc::clone(of), before: of.fetch_add(1, Relaxed) }
    }
}

impl Drop for Count {
    fn drop(&mut self) {
        self.of.fetch_sub(1, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

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

    #[test]
    fn the_control_group_that_tells_most_counts() {
        assert_eq!(
            telling("0::/system.slice/slurmstepd.scope/job_7/step_0\n"),
            "/system.slice/slurmstepd.scope/job_7/step_0"
        );
        let longer = "9:memory:/machine.slice/libpod-0123456789.scope/container";
        assert_eq!(telling(&format!("{longer}\n4:freezer:/slurm/uid_1/job_7\n0::/\n")), "/slurm/uid_1/job_7");
        assert_eq!(telling("0::/a:b\n1:cpu:/a\n"), "/a:b");
        assert_eq!(telling(""), "");
    }

    #[test]
    fn a_program_is_seen_as_it_is() {
        let own = std::process::id();
        let program = Programs::default().get(Caller { uid: 7, gid: 8, pid: own });
        assert_eq!(program.executable, std::env::current_exe().unwrap().to_string_lossy());
        assert_eq!((program.uid, program.gids.last()), (7, Some(&8)));
        let gone = Programs::default().get(Caller { uid: 7, gid: 8, pid: u32::MAX });
        assert_eq!((gone.executable.as_str(), gone.cgroup.as_str()), ("", ""));
    }

    #[test]
    fn slow_requests_leave_one_thread_free() {
        let (workers, (done, finished)) = (Workers::default(), mpsc::channel());
        let slow: Vec<_> = (0..THREADS - 1).map(|_| Count::of(&workers.busy)).collect();
        let (open, gate) = mpsc::channel::<()>();
        // Returns although the gate is shut.
        workers.serve(b"data", move |data| {
            let _ = gate.recv();
            done.send(data.to_vec()).unwrap();
        });
        drop(open);
        assert_eq!(finished.recv().unwrap(), b"data");
        drop(slow);
        let here = thread::current().id();
        workers.serve(&[], move |_| assert_eq!(thread::current().id(), here));
    }
}
