//! Every call with its finish at each server, if a scenario asks for it.

use vpfs_core::{OpKind, Time};

use crate::results::{CallTrace, PartTrace};

/// Collects the calls that move data.
pub(crate) struct Trace {
    wanted: bool,
    /// By call.
    open: Vec<Vec<PartTrace>>,
    pub(crate) done: Vec<CallTrace>,
}

impl Trace {
    pub(crate) fn new(wanted: bool) -> Self {
        Self { wanted, open: Vec::new(), done: Vec::new() }
    }

    /// A part of a call completed at a server.
    pub(crate) fn part(&mut self, now: Time, call: u32, server: u32, bytes: u64) {
        if !self.wanted {
            return;
        }
        let call = call as usize;
        if call >= self.open.len() {
            self.open.resize(call + 1, Vec::new());
        }
        self.open[call].push(PartTrace { server, bytes, finished: now.since(Time::ZERO) });
    }

    /// A call returned.
    pub(crate) fn call(&mut self, now: Time, call: u32, (app, process): (u32, u32), op: OpKind, issued: Time) {
        let Some(parts) = self.open.get_mut(call as usize).map(std::mem::take) else { return };
        if op != OpKind::Metadata {
            let (issued, finished) = (issued.since(Time::ZERO), now.since(Time::ZERO));
            self.done.push(CallTrace { app, process, write: op == OpKind::Write, issued, finished, parts });
        }
    }
}
