//! Clients with few outstanding requests, a scheduler and a device, in virtual time.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use vpfs_core::testing::Random;
use vpfs_core::{AppId, Bytes, OpKind, Policy, Request, RequestId, Scheduler, Time};
use vpfs_model::device::{Device, Io, IoId, IoKind};

/// Processes of one application that each send a random access, wait for it, think, and send the next.
#[derive(Clone, Debug)]
pub(crate) struct Clients {
    pub(crate) kind: IoKind,
    /// Drawn at random for each access.
    pub(crate) sizes: Vec<Bytes>,
    pub(crate) processes: u32,
    /// Mean; drawn between half and one and a half times this value.
    pub(crate) think: Duration,
}

/// One finished access.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Served {
    pub(crate) at: Time,
    pub(crate) app: AppId,
    pub(crate) size: Bytes,
}

/// The record of a run.
#[derive(Debug, Default)]
pub(crate) struct Trace {
    pub(crate) served: Vec<Served>,
    /// The depth found, with the time from which it holds.
    pub(crate) depths: Vec<(Time, u32)>,
}

struct Process {
    app: AppId,
    size: Bytes,
}

struct Run<'a> {
    scheduler: &'a mut Policy,
    device: &'a mut dyn Device,
    clients: &'a [Clients],
    random: Random,
    /// By request id.
    processes: Vec<Process>,
    thinking: BTreeSet<(Time, RequestId)>,
    submitted: BTreeMap<IoId, RequestId>,
    trace: Trace,
}

/// Runs application 0, 1, ... = `clients` until `until`.
pub(crate) fn run(
    scheduler: &mut Policy,
    device: &mut dyn Device,
    clients: &[Clients],
    seed: u64,
    until: Time,
) -> Trace {
    let mut run = Run {
        scheduler,
        device,
        clients,
        random: Random::new(seed),
        processes: Vec::new(),
        thinking: BTreeSet::new(),
        submitted: BTreeMap::new(),
        trace: Trace::default(),
    };
    run.start();
    run.go(until);
    run.trace
}

impl Run<'_> {
    fn start(&mut self) {
        for (app, clients) in (0..).map(AppId).zip(self.clients) {
            for _ in 0..clients.processes {
                let id = RequestId(u32::try_from(self.processes.len()).expect("few processes"));
                self.processes.push(Process { app, size: Bytes::ZERO });
                self.thinking.insert((Time::ZERO, id));
            }
        }
    }

    fn go(&mut self, until: Time) {
        loop {
            let thought = self.thinking.first().map(|&(at, _)| at);
            let next = [thought, self.device.poll_timeout(), self.scheduler.poll_timeout()];
            let Some(now) = next.into_iter().flatten().min().filter(|&now| now <= until) else { return };
            if self.scheduler.poll_timeout().is_some_and(|at| at <= now) {
                self.scheduler.handle_timeout(now);
            }
            while let Some(completion) = self.device.poll_completed(now) {
                self.complete(now, completion.id);
                self.drain(now);
            }
            while let Some(&(at, id)) = self.thinking.first()
                && at <= now
            {
                self.thinking.pop_first();
                self.send(now, id);
                self.drain(now);
            }
        }
    }

    fn send(&mut self, now: Time, id: RequestId) {
        let process = &mut self.processes[id.index()];
        let clients = &self.clients[process.app.index()];
        let choices = u32::try_from(clients.sizes.len()).expect("few sizes");
        process.size = clients.sizes[self.random.below(choices) as usize];
        let op = if clients.kind == IoKind::Read { OpKind::Read } else { OpKind::Write };
        self.scheduler.enqueue(now, Request::new(id, process.app, op, process.size));
    }

    fn complete(&mut self, now: Time, io: IoId) {
        let id = self.submitted.remove(&io).expect("only submitted accesses complete");
        self.scheduler.complete(now, id);
        let Process { app, size } = self.processes[id.index()];
        self.trace.served.push(Served { at: now, app, size });
        let think = self.clients[app.index()].think;
        let think = think / 2 + think * self.random.below(1000) / 1000;
        self.thinking.insert((now + think, id));
    }

    fn drain(&mut self, now: Time) {
        while let Some(dispatch) = self.scheduler.poll_dispatch(now) {
            let Process { app, size, .. } = self.processes[dispatch.id.index()];
            let kind = self.clients[app.index()].kind;
            let object = self.random.bits() >> 8;
            let io = self.device.submit(now, Io { kind, object, offset: 0, len: size.0 });
            self.submitted.insert(io, dispatch.id);
        }
        if let Some(depth) = self.scheduler.limits().depth
            && self.trace.depths.last().is_none_or(|&(_, last)| last != depth.get())
        {
            self.trace.depths.push((now, depth.get()));
        }
    }
}

impl Trace {
    fn between(&self, from: Time, to: Time) -> impl Iterator<Item = &Served> {
        self.served.iter().filter(move |served| served.at > from && served.at <= to)
    }

    /// Bytes per second of all applications.
    pub(crate) fn bandwidth(&self, from: Time, to: Time) -> f64 {
        self.between(from, to).map(|served| served.size.0 as f64).sum::<f64>() / to.since(from).as_secs_f64()
    }

    /// Accesses per second of one application.
    pub(crate) fn rate(&self, app: AppId, from: Time, to: Time) -> f64 {
        self.between(from, to).filter(|served| served.app == app).count() as f64 / to.since(from).as_secs_f64()
    }

    /// The smallest and the largest depth found, from `from` on.
    pub(crate) fn band(&self, from: Time) -> (u32, u32) {
        let before = self.depths.iter().rev().find(|&&(at, _)| at <= from);
        let after = self.depths.iter().filter(|&&(at, _)| at > from);
        let depths = || before.into_iter().chain(after.clone()).map(|&(_, depth)| depth);
        (depths().min().expect("a depth"), depths().max().expect("a depth"))
    }
}
