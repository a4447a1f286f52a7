//! Requests of programs on this host, which threads serve: a mount has no connections.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use vpfs_config::Program;
use vpfs_core::{AppId, OpKind, Time};
use vpfs_node::{RequestKey, Served};

use crate::gate::Gate;
use crate::shared::Shared;

/// Where the requests of programs wait for their turn. Copies are the same place.
#[derive(Clone)]
pub struct Turns {
    shared: Arc<Shared>,
    gate: Arc<Gate>,
}

/// What goes on with a request when it is its turn. Whoever calls it must not wait for it.
pub type Work = Box<dyn FnOnce(Turn) + Send>;

impl Turns {
    pub(crate) fn new(shared: Arc<Shared>, gate: Arc<Gate>) -> Self {
        Self { shared, gate }
    }

    /// The application of a program, by the rules in force.
    pub fn app(&self, program: &Program<'_>) -> AppId {
        self.shared.assign_program(program)
    }

    /// Grows with every change of the rules, after which applications are to be asked for again.
    pub fn generation(&self) -> u64 {
        self.shared.generation()
    }

    /// Asks for the turn of a request of `bytes`, 0 for metadata. It may have come at once; otherwise, whoever asked
    /// says what to do then.
    pub fn ask(&self, app: AppId, op: OpKind, bytes: u64) -> Result<Turn, Waiting> {
        let ticket =
            Arc::new(Ticket { state: Mutex::new(State::Asked), op, gate: self.gate.clone(), arrived: self.gate.now() });
        self.gate.enqueue_program(&ticket, app, op, bytes);
        let request = match *ticket.lock() {
            State::Called(request) => request,
            _ => return Err(Waiting(Arc::clone(&ticket))),
        };
        Ok(ticket.turn(request))
    }
}

impl fmt::Debug for Turns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Turns").finish_non_exhaustive()
    }
}

/// A request whose turn has not come. It must be told what to do then.
#[must_use = "its turn comes, and nobody would end it"]
pub struct Waiting(Arc<Ticket>);

impl Waiting {
    /// Calls `work` when the request's turn comes, now if it has come meanwhile.
    pub fn then(self, work: Work) {
        let mut state = self.0.lock();
        match *state {
            State::Called(request) => {
                drop(state);
                work(self.0.turn(request));
            }
            _ => *state = State::Told(work),
        }
    }
}

/// A request that waits in a gate.
pub(crate) struct Ticket {
    state: Mutex<State>,
    op: OpKind,
    gate: Arc<Gate>,
    arrived: Time,
}

enum State {
    Asked,
    Told(Work),
    Called(RequestKey),
}

impl Ticket {
    /// Its turn has come.
    pub(crate) fn call(self: Arc<Self>, request: RequestKey) {
        let before = std::mem::replace(&mut *self.lock(), State::Called(request));
        if let State::Told(work) = before {
            work(self.turn(request));
        }
    }

    fn turn(&self, request: RequestKey) -> Turn {
        let Self { op, arrived, .. } = *self;
        let served = Served { op, bytes: 0, arrived, dispatched: self.gate.now(), answered: false };
        Turn { gate: Arc::clone(&self.gate), request, served }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A request that goes on; the next one may when this is dropped.
pub struct Turn {
    gate: Arc<Gate>,
    request: RequestKey,
    served: Served,
}

impl Turn {
    /// It was done and moved so many bytes; without this call it failed.
    pub fn done(mut self, bytes: u64) {
        self.served = Served { bytes, answered: true, ..self.served };
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.gate.complete_program(self.request, &self.served);
    }
}
