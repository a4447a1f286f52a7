//! A request that waits in a gate without a session.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// What to do when a request's turn comes, or when it is closed before. Whoever calls it must not wait for it.
type Then = Box<dyn FnOnce(End) + Send>;

/// How waiting ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Called,
    Closed,
}

/// Tells when its turn comes. Whoever asked may say only afterwards what to do then.
#[derive(Default)]
pub(crate) struct Ticket(Mutex<State>);

#[derive(Default)]
enum State {
    #[default]
    Asked,
    Told(Then),
    Ended(End),
}

impl Ticket {
    /// Whether it waits no more.
    pub(crate) fn has_ended(&self) -> bool {
        matches!(*self.lock(), State::Ended(_))
    }

    /// Its turn has come. If it was closed, whoever did that ends the request.
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
        if let State::Told(then) = before {
            then(end);
        }
        true
    }

    /// Calls `then` when its turn comes, now if it has come meanwhile.
    pub(crate) fn then(&self, then: Then) {
        let mut state = self.lock();
        match *state {
            State::Ended(end) => {
                drop(state);
                then(end);
            }
            State::Asked | State::Told(_) => *state = State::Told(then),
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
            ticket.then(Box::new(move |end| sender.send(end).unwrap()));
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
