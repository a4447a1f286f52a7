//! The stage of the daemon, as each of its connections follows it.

use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use tokio::sync::watch;

use crate::shared::Stage;

/// Looks at the stage before each wait of a connection, which takes neither a lock nor a registration as long as
/// nothing changes: all connections would take the same lock, for each message.
pub(crate) struct StageWatch {
    seen: Stage,
    receiver: watch::Receiver<Stage>,
    /// Ends at the next change; registered to wake this task.
    change: Option<(Waker, Change)>,
}

type Change = Pin<Box<dyn Future<Output = ()> + Send>>;

impl StageWatch {
    pub(crate) fn new(mut receiver: watch::Receiver<Stage>) -> Self {
        let seen = *receiver.borrow_and_update();
        Self { seen, receiver, change: None }
    }

    /// The stage now. A change after this ends the next wait.
    pub(crate) fn look(&mut self) -> Stage {
        if self.has_changed() {
            self.seen = *self.receiver.borrow_and_update();
            self.change = None;
        }
        self.seen
    }

    /// Whether it has changed since the latest look.
    pub(crate) fn has_changed(&self) -> bool {
        // The sender is part of the state that connections share.
        self.receiver.has_changed().unwrap_or(true)
    }

    /// Waits for a change since the latest look.
    pub(crate) fn poll_changed(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if self.has_changed() {
            return Poll::Ready(());
        }
        let is_registered = |(waker, _): &(Waker, _)| context.waker().will_wake(waker);
        if !self.change.as_ref().is_some_and(is_registered) {
            let mut receiver = self.receiver.clone();
            let mut change: Change = Box::pin(async move { drop(receiver.changed().await) });
            if change.as_mut().poll(context).is_ready() {
                return Poll::Ready(());
            }
            self.change = Some((context.waker().clone(), change));
        }
        Poll::Pending
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;

    use super::*;

    #[derive(Default)]
    struct Wakes(AtomicUsize);

    impl Wake for Wakes {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    #[test]
    fn each_change_wakes_the_task_that_asked_last() {
        let sender = watch::Sender::new(Stage::Serving);
        let mut watch = StageWatch::new(sender.subscribe());
        let [first, second] = [Arc::new(Wakes::default()), Arc::new(Wakes::default())];
        let poll = |wakes: &Arc<Wakes>, watch: &mut StageWatch| {
            watch.poll_changed(&mut Context::from_waker(&Arc::clone(wakes).into())).is_ready()
        };
        assert!(!poll(&first, &mut watch) && !poll(&second, &mut watch) && !poll(&second, &mut watch));
        for (changes, stage) in [(1, Stage::HandingOver), (2, Stage::Draining)] {
            sender.send_replace(stage);
            assert_eq!(second.0.load(Ordering::SeqCst), changes);
            assert!(poll(&second, &mut watch) && poll(&second, &mut watch), "until it is looked at");
            assert_eq!(watch.look(), stage);
            assert!(!poll(&second, &mut watch));
        }
        sender.send_replace(Stage::Stopped);
        assert_eq!(watch.look(), Stage::Stopped, "without a wait");
    }
}
