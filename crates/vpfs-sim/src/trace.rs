//! Every call with its finish at each server, if a scenario asks for it, and what calls moved, for those who watch.

use vpfs_core::{OpKind, Time};

use crate::model::plan::{Call, Extent};
use crate::results::{CallTrace, PartTrace};

/// What a call has moved of a file: all that it asked for, unless it was strided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transfer {
    /// The number of the application in the scenario.
    pub app: u32,
    /// The number of the process in the application.
    pub process: u32,
    /// Whether it wrote.
    pub is_write: bool,
    /// What it moved.
    pub extent: Extent,
    /// When the call was made.
    pub issued: Time,
    /// When it returned.
    pub finished: Time,
}

/// Collects the calls that move data.
pub(crate) struct Trace {
    wanted: bool,
    /// By call.
    open: Vec<Vec<PartTrace>>,
    pub(crate) done: Vec<CallTrace>,
    /// None if nobody watches; else those since the last look.
    pub(crate) transfers: Option<Vec<Transfer>>,
}

impl Trace {
    pub(crate) fn new(wanted: bool) -> Self {
        Self { wanted, open: Vec::new(), done: Vec::new(), transfers: None }
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

    /// A call that was not preparation returned.
    pub(crate) fn transfer(&mut self, now: Time, call: Call, (app, process): (u32, u32), issued: Time) {
        let Some(transfers) = &mut self.transfers else { return };
        let is_write = matches!(call, Call::Write(_) | Call::WriteStrided(_));
        transfers.extend(call.extents().map(|extent| Transfer {
            app,
            process,
            is_write,
            extent,
            issued,
            finished: now,
        }));
    }
}
