//! Who serves a request: the thread that read it, or another one if it is the last that reads.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread;

/// Threads that read requests.
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

/// Starts a thread for a request.
pub(crate) fn start(work: impl FnOnce() + Send + 'static) {
    if let Err(error) = thread::Builder::new().spawn(work) {
        // The request is lost with the closure; its reply is an error when it is dropped.
        tracing::error!(%error, "cannot start a thread for a request");
    }
}

/// Counts itself until it is dropped.
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
