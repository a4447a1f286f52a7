//! Runs a device model in real time, or in tokio's time, and wakes the tasks that wait for its accesses.

use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::thread;

use futures_util::future::FutureExt;
use tokio::sync::{Notify, oneshot};
use vpfs_core::Time;

use vpfs_sim::model::device::{Device, DeviceProfile, Io, IoId};

/// The clock that a device runs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum DeviceClock {
    /// A thread of its own: wakes within tens of microseconds, which flash needs.
    #[default]
    Precise,
    /// A tokio task: milliseconds, and virtual where tokio's clock is paused.
    Tokio,
}

/// A device shared by several tasks. Clones are the same device; dropping the last one stops it.
#[derive(Clone, Debug)]
pub struct DeviceHandle {
    /// `None`: no device model, so no waiting.
    running: Option<Arc<Running>>,
}

impl DeviceHandle {
    /// Starts a device. [`DeviceClock::Tokio`] must be started inside a tokio runtime.
    pub fn start(profile: &DeviceProfile, clock: DeviceClock) -> Self {
        if *profile == DeviceProfile::None {
            return Self { running: None };
        }
        let state = State { device: profile.build(), waiters: HashMap::new(), asleep_until: None, closed: false };
        let shared = Arc::new(Shared { state: Mutex::new(state), clock: Clock::new(clock) });
        let driven = Arc::clone(&shared);
        match clock {
            DeviceClock::Precise => drop(thread::spawn(move || driven.run_on_thread())),
            DeviceClock::Tokio => drop(tokio::spawn(async move { driven.run_on_tokio().await }.boxed())),
        }
        Self { running: Some(Arc::new(Running(shared))) }
    }

    /// Submits an access now; the returned future completes when the device has finished it. Dropping the future does
    /// not cancel the access.
    pub fn submit(&self, io: Io) -> Access {
        Access(self.running.as_ref().map(|running| running.0.submit(io)))
    }

    /// Accesses submitted and not finished.
    pub fn outstanding(&self) -> usize {
        self.running.as_ref().map_or(0, |running| running.0.lock().waiters.len())
    }
}

/// Waits for one access.
#[derive(Debug)]
pub struct Access(Option<oneshot::Receiver<()>>);

impl Future for Access {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        match &mut self.0 {
            None => Poll::Ready(()),
            Some(done) => Pin::new(done).poll(context).map(|_| ()),
        }
    }
}

/// Closes the device when the last handle is dropped.
#[derive(Debug)]
struct Running(Arc<Shared>);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.lock().closed = true;
        self.0.clock.wake();
    }
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    clock: Clock,
}

struct State {
    device: Box<dyn Device>,
    waiters: HashMap<IoId, oneshot::Sender<()>>,
    /// When the driver wakes up; `None`: when it is notified.
    asleep_until: Option<Time>,
    closed: bool,
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("State").field("outstanding", &self.waiters.len()).finish_non_exhaustive()
    }
}

impl State {
    /// Wakes the waiters of finished accesses and returns when to run again; `None`: when notified.
    fn run_until(&mut self, now: Time) -> Option<Time> {
        while let Some(completion) = self.device.poll_completed(now) {
            if let Some(waiter) = self.waiters.remove(&completion.id) {
                // A waiter that was dropped is not interested in the result.
                let _ = waiter.send(());
            }
        }
        self.asleep_until = self.device.poll_timeout();
        self.asleep_until
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn submit(&self, io: Io) -> oneshot::Receiver<()> {
        let (done, wait) = oneshot::channel();
        let mut state = self.lock();
        let id = state.device.submit(self.clock.now(), io);
        state.waiters.insert(id, done);
        let sleeps_too_long = match (state.asleep_until, state.device.poll_timeout()) {
            (Some(asleep), Some(next)) => next < asleep,
            (None, next) => next.is_some(),
            (Some(_), None) => false,
        };
        drop(state);
        if sleeps_too_long {
            self.clock.wake();
        }
        wait
    }

    fn run_on_thread(&self) {
        let Clock::Thread { woken, .. } = &self.clock else { return };
        let mut state = self.lock();
        while !state.closed {
            let now = self.clock.now();
            state = match state.run_until(now) {
                None => woken.wait(state).unwrap_or_else(PoisonError::into_inner),
                Some(at) => woken.wait_timeout(state, at.since(now)).unwrap_or_else(PoisonError::into_inner).0,
            };
        }
    }

    async fn run_on_tokio(&self) {
        let Clock::Tokio { origin, woken } = &self.clock else { return };
        loop {
            let next = {
                let mut state = self.lock();
                if state.closed {
                    return;
                }
                state.run_until(self.clock.now())
            };
            match next {
                None => woken.notified().await,
                Some(at) => tokio::select! {
                    () = tokio::time::sleep_until(*origin + at.since(Time::ZERO)) => {}
                    () = woken.notified() => {}
                },
            }
        }
    }
}

#[derive(Debug)]
enum Clock {
    Thread { origin: std::time::Instant, woken: Condvar },
    Tokio { origin: tokio::time::Instant, woken: Notify },
}

impl Clock {
    fn new(clock: DeviceClock) -> Self {
        match clock {
            DeviceClock::Precise => Self::Thread { origin: std::time::Instant::now(), woken: Condvar::new() },
            DeviceClock::Tokio => Self::Tokio { origin: tokio::time::Instant::now(), woken: Notify::new() },
        }
    }

    fn now(&self) -> Time {
        match self {
            Self::Thread { origin, .. } => Time::ZERO + origin.elapsed(),
            Self::Tokio { origin, .. } => Time::ZERO + origin.elapsed(),
        }
    }

    fn wake(&self) {
        match self {
            Self::Thread { woken, .. } => woken.notify_one(),
            Self::Tokio { woken, .. } => woken.notify_one(),
        }
    }
}
