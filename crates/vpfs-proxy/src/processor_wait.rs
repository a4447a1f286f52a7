//! For how long messages wait for a processor of this host.
//!
//! A request spends this time on its way, and so do its data and its answer, at the proxy and at a storage server on
//! the same host; while processors are busy, it looks like slow storage. It is measured, not derived from how busy they
//! are: work with lower priority delays nobody, and a runtime whose threads are all busy delays messages also on an
//! idle host. So a thread sends a message to this process now and then, as storage servers do, and the time until it
//! is read counts.

use std::io::{self, Write};
use std::os::unix::net::UnixStream as Sender;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use tokio::io::AsyncReadExt;
use tokio::net::UnixStream;

use crate::gate::Gate;

/// Between two messages.
const EVERY: Duration = Duration::from_millis(50);
/// Messages of which the mean is taken.
const MESSAGES: u32 = 20;

/// Tells the gates each second, for ever. What it needs is opened at once, not when it is first polled.
pub(crate) fn watch(gates: Vec<Arc<Gate>>) -> impl Future<Output = ()> {
    let pair = Sender::pair();
    async move {
        if let Err(error) = measure(pair, |wait| gates.iter().for_each(|gate| gate.set_processor_wait(wait))).await {
            tracing::warn!(%error, "waits for a processor are not measured, so a busy host may look like slow storage");
        }
    }
}

async fn measure(pair: io::Result<(Sender, Sender)>, tell: impl Fn(Duration)) -> io::Result<()> {
    let (sender, receiver) = pair?;
    receiver.set_nonblocking(true)?;
    let (receiver, began) = (UnixStream::from_std(receiver)?, Instant::now());
    thread::Builder::new().name("processor wait".into()).stack_size(64 << 10).spawn(move || send(sender, began))?;
    receive(receiver, began, tell).await
}

/// Tells the mean of the times for which messages waited.
async fn receive(mut receiver: UnixStream, began: Instant, tell: impl Fn(Duration)) -> io::Result<()> {
    loop {
        let mut all = Duration::ZERO;
        for _ in 0..MESSAGES {
            let sent = Duration::from_nanos(receiver.read_u64().await?);
            all += began.elapsed().saturating_sub(sent);
        }
        tell(all / MESSAGES);
    }
}

/// Sends the time until nobody reads it any more.
fn send(mut sender: Sender, began: Instant) {
    let now = || u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX);
    while sender.write_all(&now().to_be_bytes()).is_ok() {
        thread::sleep(EVERY);
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[tokio::test]
    async fn what_messages_waited_is_told() {
        let (mut sender, receiver) = Sender::pair().unwrap();
        receiver.set_nonblocking(true).unwrap();
        // Half of them are from the beginning, a second ago, and half are from later than now, which is no wait.
        let began = Instant::now().checked_sub(Duration::from_secs(1)).unwrap();
        let later = u64::try_from(Duration::from_secs(9000).as_nanos()).unwrap();
        for message in 0..u64::from(MESSAGES) {
            sender.write_all(&(message % 2 * later).to_be_bytes()).unwrap();
        }
        drop(sender);
        let told = Cell::new(Duration::ZERO);
        receive(UnixStream::from_std(receiver).unwrap(), began, |wait| told.set(wait)).await.unwrap_err();
        assert!((Duration::from_millis(500)..=began.elapsed() / 2).contains(&told.get()), "{told:?}");
    }
}
