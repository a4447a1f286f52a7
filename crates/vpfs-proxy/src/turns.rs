//! Requests of programs on this host, which threads serve: a mount has no connections.

use std::fmt;
use std::sync::Arc;

use vpfs_config::Program;
use vpfs_core::{AppId, OpKind, Time};
use vpfs_node::{RequestKey, Served};

use crate::gate::{End, Gate, Identified, Ticket};
use crate::shared::Shared;

/// Where the requests of programs wait for their turn. Copies are the same place.
#[derive(Clone)]
pub struct Turns {
    shared: Arc<Shared>,
    gate: Arc<Gate>,
}

/// What goes on with a request when it is its turn; without a turn if it is cancelled before. It must
/// not block.
pub type Work = Box<dyn FnOnce(Option<Turn>) + Send>;

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

    /// Asks for the turn of a request of `bytes`, 0 for metadata. It may have come at once; otherwise, the caller
    /// says what to do then.
    ///
    /// # Errors
    /// The request, if it has to wait.
    pub fn ask(&self, app: AppId, op: OpKind, bytes: u64) -> Result<Turn, Waiting> {
        let (ticket, arrived) = (Arc::<Ticket>::default(), self.gate.now());
        let request = self.gate.enqueue_program(&ticket, app, op, bytes);
        let asked = Asked { gate: Arc::clone(&self.gate), request, op, arrived };
        if ticket.has_ended() { Ok(asked.turn()) } else { Err(Waiting { ticket, asked }) }
    }
}

impl fmt::Debug for Turns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Turns").finish_non_exhaustive()
    }
}

struct Asked {
    gate: Arc<Gate>,
    request: RequestKey,
    op: OpKind,
    arrived: Time,
}

impl Asked {
    fn turn(self) -> Turn {
        let Self { gate, request, op, arrived } = self;
        let served = Served { op, bytes: 0, arrived, dispatched: gate.now(), answered: false };
        Turn { gate, request, served }
    }
}

/// A request whose turn has not come. It must be told what to do then, or be withdrawn.
#[must_use = "its turn comes, and nobody would end it"]
pub struct Waiting {
    ticket: Arc<Ticket>,
    asked: Asked,
}

impl Waiting {
    /// Calls `work` when the request's turn comes, now if it has come meanwhile. `identified` finds its application by
    /// the rules in force, which may change while it waits.
    pub fn then(self, identified: impl Fn() -> AppId + Send + Sync + 'static, work: Work) -> Cancel {
        let Self { ticket, asked } = self;
        let cancel = Cancel { ticket: Arc::clone(&ticket), gate: Arc::clone(&asked.gate), request: asked.request };
        let identified: Identified = Arc::new(identified);
        let then = move |end| work((end == End::Called).then(|| asked.turn()));
        ticket.then(Arc::clone(&identified), Box::new(then));
        // A change before this did not know whose it is.
        cancel.gate.reassign(cancel.request, identified());
        cancel
    }

    /// Takes the request back, as if it had not been made.
    pub fn withdraw(self) {
        self.ticket.close();
        self.asked.gate.cancel(self.asked.request);
    }
}

/// Ends the waiting of a request.
pub struct Cancel {
    ticket: Arc<Ticket>,
    gate: Arc<Gate>,
    request: RequestKey,
}

impl Cancel {
    /// Its turn will not come, unless it has: its work is called without one.
    pub fn cancel(&self) {
        if self.ticket.close() {
            self.gate.cancel(self.request);
        }
    }

    /// Whether it waits no more.
    pub fn is_late(&self) -> bool {
        self.ticket.has_ended()
    }
}

impl fmt::Debug for Cancel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cancel").finish_non_exhaustive()
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
