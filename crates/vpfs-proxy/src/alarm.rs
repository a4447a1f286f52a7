//! The timer of a connection.

use std::pin::Pin;

use tokio::time::{Sleep, sleep_until};
use vpfs_core::Time;

use crate::clock::Clock;

/// A timer for a deadline that changes with each input, usually to a later one. It then stays as it is until it is due:
/// a new timer for each wait takes the lock of all timers, and the thread that waits for sockets may have to be woken.
#[derive(Default)]
pub(crate) struct Alarm(Option<(Time, Pin<Box<Sleep>>)>);

impl Alarm {
    /// Waits until `deadline`; for ever if there is none. Cancel safe.
    pub(crate) async fn at(&mut self, clock: &Clock, deadline: Option<Time>) {
        let Some(deadline) = deadline else {
            self.0 = None;
            return std::future::pending().await;
        };
        let start = || (deadline, Box::pin(sleep_until(clock.instant(deadline))));
        let (due, sleep) = self.0.get_or_insert_with(start);
        if deadline < *due {
            *due = deadline;
            sleep.as_mut().reset(clock.instant(deadline));
        }
        loop {
            sleep.as_mut().await;
            if clock.now() >= deadline {
                return;
            }
            *due = deadline;
            sleep.as_mut().reset(clock.instant(deadline));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// When the alarm for `deadline` rings, if others were set before it and given up.
    async fn rings_at(before: &[u32], deadline: u32) -> u64 {
        let (mut alarm, clock) = (Alarm::default(), Clock::start());
        let start = clock.now();
        for &other in before {
            tokio::select! {
                biased;
                () = alarm.at(&clock, Some(start + other * SECOND)) => {}
                () = std::future::ready(()) => {}
            }
        }
        alarm.at(&clock, Some(start + deadline * SECOND)).await;
        clock.uptime().as_secs()
    }

    #[tokio::test(start_paused = true)]
    async fn it_rings_at_the_latest_deadline() {
        for before in [&[][..], &[5], &[1], &[1, 9], &[9, 1, 2]] {
            assert_eq!(rings_at(before, 5).await, 5, "{before:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn it_is_used_again_and_not_without_a_deadline() {
        let (mut alarm, clock) = (Alarm::default(), Clock::start());
        let start = clock.now();
        for seconds in [1, 2, 7] {
            alarm.at(&clock, Some(start + seconds * SECOND)).await;
            assert_eq!(clock.uptime().as_secs(), u64::from(seconds));
        }
        tokio::select! {
            () = alarm.at(&clock, None) => panic!("no deadline"),
            () = tokio::time::sleep(10 * SECOND) => {}
        }
        assert!(alarm.0.is_none(), "an idle connection has no timer");
    }
}
