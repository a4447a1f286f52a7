//! Storage with scripted service times, and clients that keep it busy.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::time::Duration;

use super::Random;
use crate::request::{Dispatch, OpKind, Request};
use crate::scheduler::Scheduler;
use crate::units::{AppId, Bytes, RequestId, Time};

/// Serves any number of requests at once; each takes the next time of a repeating script.
#[derive(Debug)]
pub struct Storage {
    script: Vec<Duration>,
    served: usize,
    busy: BTreeMap<(Time, usize), RequestId>,
}

impl Storage {
    /// Storage with the times in `script` (not empty), repeated.
    pub fn new(script: Vec<Duration>) -> Self {
        assert!(!script.is_empty(), "the script says how long a request takes");
        Self { script, served: 0, busy: BTreeMap::new() }
    }

    /// Starts to serve a request.
    pub fn start(&mut self, now: Time, dispatch: &Dispatch) {
        let takes = self.script[self.served % self.script.len()];
        self.busy.insert((now + takes, self.served), dispatch.id);
        self.served += 1;
    }

    /// When the next request is complete.
    pub fn next_completion(&self) -> Option<Time> {
        self.busy.keys().next().map(|&(at, _)| at)
    }

    /// The request that is complete at [`Storage::next_completion`].
    pub fn complete(&mut self) -> Option<RequestId> {
        self.busy.pop_first().map(|(_, id)| id)
    }
}

/// Sends a new request as soon as one completes, so that `concurrency` of them are always in progress.
#[derive(Clone, Debug)]
pub struct Client {
    /// The application it belongs to.
    pub app: AppId,
    /// What it does.
    pub op: OpKind,
    /// The sizes of its requests, drawn at random.
    pub sizes: Vec<Bytes>,
    /// Requests at once.
    pub concurrency: u32,
}

/// Runs `clients` against `scheduler` and `storage` until `until`; returns every completion in order.
pub fn run<S: Scheduler>(
    scheduler: &mut S,
    storage: &mut Storage,
    clients: &[Client],
    until: Time,
) -> Vec<(Time, AppId, Bytes)> {
    let mut random = Random::new(1);
    // By request id: the client and the size.
    let mut requests: Vec<(&Client, Bytes)> = Vec::new();
    let mut completions = Vec::new();
    let mut draw = |client: &Client| {
        let last = u32::try_from(client.sizes.len()).unwrap_or(u32::MAX);
        client.sizes[random.below(last) as usize]
    };
    for client in clients {
        for _ in 0..client.concurrency {
            requests.push((client, draw(client)));
        }
    }
    let mut now = Time::ZERO;
    for (id, &(client, cost)) in (0..).zip(&requests) {
        let piece = Some(Bytes::kib(256));
        scheduler.enqueue(now, Request { piece, ..Request::new(RequestId(id), client.app, client.op, cost) });
    }
    while now <= until {
        while let Some(dispatch) = scheduler.poll_dispatch(now) {
            storage.start(now, &dispatch);
        }
        while scheduler.poll_event().is_some() {}
        let Some(next) = [storage.next_completion(), scheduler.poll_timeout()].into_iter().flatten().min() else {
            break;
        };
        now = now.max(next);
        if scheduler.poll_timeout().is_some_and(|at| at <= now) {
            scheduler.handle_timeout(now);
        } else if let Some(id) = storage.complete() {
            let (client, cost) = &mut requests[id.index()];
            scheduler.complete(now, id);
            completions.push((now, client.app, *cost));
            *cost = draw(client);
            scheduler.enqueue(now, Request::new(id, client.app, client.op, *cost));
        }
    }
    completions
}
