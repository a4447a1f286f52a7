//! A request that waits in a gate without a session.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use vpfs_node::RequestKey;

/// What to do when a request's turn comes. Whoever calls it must not wait for it.
type Then = Box<dyn FnOnce(RequestKey) + Send>;

/// Tells when its turn comes. Whoever asked may say only afterwards what to do then.
#[derive(Default)]
pub(crate) struct Ticket(Mutex<State>);

#[derive(Default)]
enum State {
    #[default]
    Asked,
    Told(Then),
    Called(RequestKey),
}

impl Ticket {
    /// The request, if its turn has come.
    pub(crate) fn called(&self) -> Option<RequestKey> {
        match *self.lock() {
            State::Called(request) => Some(request),
            State::Asked | State::Told(_) => None,
        }
    }

    /// Its turn has come.
    pub(crate) fn call(self: Arc<Self>, request: RequestKey) {
        let before = std::mem::replace(&mut *self.lock(), State::Called(request));
        if let State::Told(then) = before {
            then(request);
        }
    }

    /// Calls `then` when its turn comes, now if it has come meanwhile.
    pub(crate) fn then(&self, then: Then) {
        let mut state = self.lock();
        match *state {
            State::Called(request) => {
                drop(state);
                then(request);
            }
            State::Asked | State::Told(_) => *state = State::Told(then),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
