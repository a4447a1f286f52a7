//! A request that waits in a gate without a session.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use vpfs_core::AppId;

/// What to do when a request's turn comes, or when it is closed before. It must not block.
type Then = Box<dyn FnOnce(End) + Send>;

/// How waiting ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Called,
    Closed,
}

/// Finds the application of a request by the rules in force.
pub(crate) type Identified = Arc<dyn Fn() -> AppId + Send + Sync>;

/// Tells when its turn comes. The caller may say only afterwards what to do then.
#[derive(Default)]
pub(crate) struct Ticket(Mutex<State>);

#[derive(Default)]
enum State {
    #[default]
    Asked,
    Told(Then, Identified),
    Ended(End),
}

impl Ticket {
    /// Whether it waits no more.
    pub(crate) fn has_ended(&self) -> bool {
        matches!(*self.lock(), State::Ended(_))
    }

    /// Its turn has come. If it was closed before, the closer ends the request.
    pub(crate) fn call(&self) {
        self.end(End::Called);
    }

    /// Nobody waits any more. Whether that ended it, so that the caller must end the request: its turn had not come.
    pub(crate) fn close(&self) -> bool {
        self.end(End::Closed)
    }

    fn end(&self, end: End) -> bool {
        let mut state = self.lock();
        if let State::Ended(_) = *state {
            return false;
        }
        let before = std::mem::replace(&mut *state, State::Ended(end));
        drop(state);
        if let State::Told(then, _) = before {
            then(end);
        }
        true
    }

    /// The application of a request that waits, as far as that was said.
    pub(crate) fn app(&self) -> Option<AppId> {
        let identified = match &*self.lock() {
            State::Told(_, identified) => Arc::clone(identified),
            State::Asked | State::Ended(_) => return None,
        };
        // Not under the lock: it may dispatch other requests.
        Some(identified())
    }

    /// Calls `then` when its turn comes, now if it has come meanwhile.
    pub(crate) fn then(&self, identified: Identified, then: Then) {
        let mut state = self.lock();
        match *state {
            State::Ended(end) => {
                drop(state);
                then(end);
            }
            State::Asked | State::Told(..) => *state = State::Told(then, identified),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn what_comes_first_ends_it_once() {
        let (sender, ends) = channel();
        let told = || {
            let ticket = Arc::<Ticket>::default();
            let sender = sender.clone();
            ticket.then(Arc::new(|| AppId(0)), Box::new(move |end| sender.send(end).unwrap()));
            ticket
        };
        let closed = told();
        assert!(closed.close() && !closed.close());
        closed.call();
        let called = told();
        called.call();
        assert!(called.has_ended() && !called.close(), "whose turn has come is not interrupted");
        assert_eq!(ends.try_iter().collect::<Vec<_>>(), [End::Closed, End::Called]);
    }
}
