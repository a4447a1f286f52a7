//! Requests of programs on this host, which threads serve: a mount has no connections.

use std::fmt;
use std::sync::Arc;

use vpfs_config::Program;
use vpfs_core::{AppId, OpKind, Time};
use vpfs_node::{RequestKey, Served};

use crate::gate::Gate;
use crate::shared::Shared;
use crate::ticket::Ticket;

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
    ///
    /// # Errors
    /// The request, if it has to wait.
    pub fn ask(&self, app: AppId, op: OpKind, bytes: u64) -> Result<Turn, Waiting> {
        let asked = Asked { gate: Arc::clone(&self.gate), op, arrived: self.gate.now() };
        let ticket = Arc::<Ticket>::default();
        self.gate.enqueue_program(&ticket, app, op, bytes);
        match ticket.called() {
            Some(request) => Ok(asked.turn(request)),
            None => Err(Waiting { ticket, asked }),
        }
    }
}

impl fmt::Debug for Turns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Turns").finish_non_exhaustive()
    }
}

struct Asked {
    gate: Arc<Gate>,
    op: OpKind,
    arrived: Time,
}

impl Asked {
    fn turn(self, request: RequestKey) -> Turn {
        let Self { gate, op, arrived } = self;
        let served = Served { op, bytes: 0, arrived, dispatched: gate.now(), answered: false };
        Turn { gate, request, served }
    }
}

/// A request whose turn has not come. It must be told what to do then.
#[must_use = "its turn comes, and nobody would end it"]
pub struct Waiting {
    ticket: Arc<Ticket>,
    asked: Asked,
}

impl Waiting {
    /// Calls `work` when the request's turn comes, now if it has come meanwhile.
    pub fn then(self, work: Work) {
        let asked = self.asked;
        self.ticket.then(Box::new(move |request| work(asked.turn(request))));
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
