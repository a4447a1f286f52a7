//! Client processes, their positions in their plans, and the requests that their calls cause.

use std::sync::Arc;
use std::time::Duration;

use vpfs_core::Time;
use vpfs_core::hash::mix;

use crate::layout::Placement;
use crate::model::device::MetadataOp;
use crate::model::plan::{Call, Dir, FileId, Limit, Phase, Plan, Step, Steps};

pub(crate) struct AppState {
    pub(crate) plan: Arc<dyn Plan>,
    pub(crate) phases: Vec<Phase>,
    pub(crate) placement: Placement,
    /// Distinguishes its files from those of others.
    pub(crate) salt: u64,
    pub(crate) background: bool,
    pub(crate) stable: bool,
    pub(crate) ends: Option<Time>,
    pub(crate) first_process: u32,
    pub(crate) processes: u32,
    pub(crate) active: u32,
    pub(crate) waiting: u32,
    pub(crate) outstanding: u32,
}

pub(crate) struct Process {
    pub(crate) app: u32,
    pub(crate) number: u32,
    pub(crate) node: u32,
    pub(crate) outstanding: u32,
    pub(crate) state: State,
    phase: usize,
    steps: Option<Steps>,
    /// Taken from `steps`, but waits for outstanding calls.
    held: Option<Step>,
    limit: Option<Limit>,
    phase_began: Time,
    done_in_phase: u64,
    /// Since when calls have been outstanding.
    io_since: Time,
    pub(crate) times: Times,
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Times {
    pub(crate) io: Duration,
    pub(crate) think: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Running,
    Thinking,
    /// Waits at a barrier inside a phase.
    AtBarrier,
    AtPhaseEnd,
    Left,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    Call(Call),
    Think(Duration),
    Barrier,
    PhaseEnd,
    /// Finishes before all its steps are done.
    Leave,
    Nothing,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AfterPhase {
    Next,
    Again,
    Done,
}

impl Process {
    pub(crate) fn new(app: u32, number: u32, node: u32) -> Self {
        Self {
            app,
            number,
            node,
            outstanding: 0,
            state: State::Running,
            phase: 0,
            steps: None,
            held: None,
            limit: None,
            phase_began: Time::ZERO,
            done_in_phase: 0,
            io_since: Time::ZERO,
            times: Times::default(),
        }
    }

    pub(crate) fn next(&mut self, now: Time, app: &AppState) -> Next {
        if self.outstanding >= app.outstanding {
            return Next::Nothing;
        }
        match self.held.take().or_else(|| self.step(now, app)) {
            Some(Step::Call(call)) => Next::Call(call),
            step if self.outstanding > 0 => {
                // Any step but a call waits for the calls before it.
                self.held = step;
                Next::Nothing
            }
            Some(Step::Think(time)) => Next::Think(time),
            Some(Step::Until(at)) => Next::Think((self.phase_began + at).since(now)),
            Some(Step::Barrier) => Next::Barrier,
            None if app.ends.is_some_and(|ends| ends <= now) => Next::Leave,
            None => Next::PhaseEnd,
        }
    }

    /// The next step of the plan; `None` at the end of the phase, or when its time is over.
    fn step(&mut self, now: Time, app: &AppState) -> Option<Step> {
        if app.ends.is_some_and(|ends| ends <= now) {
            return None;
        }
        if self.steps.is_none() {
            let phase = *app.phases.get(self.phase)?;
            self.steps = Some(app.plan.steps(phase, self.number));
            self.limit = app.plan.limit(phase);
            (self.phase_began, self.done_in_phase) = (now, 0);
        }
        let (began, done) = (self.phase_began, self.done_in_phase);
        if self.limit.is_some_and(|limit| now.since(began) >= limit.time && done >= limit.at_least_steps) {
            return None;
        }
        self.done_in_phase += 1;
        self.steps.as_mut()?.next()
    }

    pub(crate) fn is_preparing(&self, app: &AppState) -> bool {
        app.phases.get(self.phase) == Some(&Phase::Setup)
    }

    pub(crate) fn end_phase(&mut self, app: &AppState) -> AfterPhase {
        self.steps = None;
        self.phase += 1;
        if self.phase < app.phases.len() {
            return AfterPhase::Next;
        }
        self.phase = 0;
        if app.background { AfterPhase::Again } else { AfterPhase::Done }
    }

    pub(crate) fn call_issued(&mut self, now: Time) {
        if self.outstanding == 0 {
            self.io_since = now;
        }
        self.outstanding += 1;
    }

    pub(crate) fn call_done(&mut self, now: Time) {
        self.outstanding -= 1;
        if self.outstanding == 0 {
            self.times.io += now.since(self.io_since);
        }
    }
}

/// The requests that a call causes.
///
/// A read or write is one request at each server that holds a part of it. Metadata calls are sequences of requests, as
/// OrangeFS's client sends them (counted in `vpfs-testbed`, which speaks the protocol; names of parents are cached).
///
/// The receiver of a metadata request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Recipient {
    /// The server with the directory that contains the name.
    Parent,
    Object,
    /// Every server with data of the file, at once.
    DataServers,
}

/// One metadata request.
type Message = (Recipient, MetadataOp);

/// The requests that a metadata call causes, one after the other; none for calls that move data.
pub(crate) fn requests_of(call: Call) -> &'static [Message] {
    use MetadataOp::{ChangeEntry, Create, GetAttr, LookUp, ReadDir, Remove, SetAttr};
    use Recipient::{DataServers, Object, Parent};
    match call {
        Call::Create(_) => &[(Object, Create), (Parent, ChangeEntry)],
        Call::Open(_) => &[(Parent, LookUp), (Object, GetAttr)],
        // The second one collects the sizes of the datafiles.
        Call::Stat(_) => &[(Parent, LookUp), (Object, GetAttr), (Object, GetAttr)],
        Call::SetTimes(_) => &[(Parent, LookUp), (Object, GetAttr), (Object, SetAttr)],
        // The server removes the datafiles for the client, then the file itself.
        Call::Remove(_) => {
            &[(Parent, LookUp), (Object, GetAttr), (Parent, ChangeEntry), (Object, Remove), (Object, Remove)]
        }
        // The directory, the object that holds its entries, its attributes.
        Call::MakeDir(_) => &[(Object, Create), (Object, Create), (Object, SetAttr), (Parent, ChangeEntry)],
        Call::RemoveDir(_) => {
            &[(Parent, LookUp), (Object, GetAttr), (Parent, ChangeEntry), (Object, Remove), (Object, Remove)]
        }
        Call::ListDir(_) => &[(Parent, LookUp), (Object, GetAttr), (Object, ReadDir)],
        // Costs the same as a forced change of attributes.
        Call::Sync(_) => &[(DataServers, SetAttr)],
        Call::Write(_) | Call::Read(_) | Call::WriteStrided(_) | Call::ReadStrided(_) => &[],
    }
}

pub(crate) fn object_of(salt: u64, call: Call) -> u64 {
    match call {
        Call::MakeDir(dir) | Call::RemoveDir(dir) | Call::ListDir(dir) => directory(salt, dir),
        Call::Create(id) | Call::Open(id) | Call::Stat(id) | Call::SetTimes(id) | Call::Remove(id) | Call::Sync(id) => {
            file_of(salt, id)
        }
        Call::Write(extent) | Call::Read(extent) => file_of(salt, extent.file),
        Call::WriteStrided(strided) | Call::ReadStrided(strided) => file_of(salt, strided.file),
    }
}

/// The directory that contains the name of a call's object.
pub(crate) fn parent_of(salt: u64, call: Call) -> u64 {
    match call {
        Call::MakeDir(dir) | Call::RemoveDir(dir) | Call::ListDir(dir) => match dir {
            // The run's own directory lies in one that all applications share.
            Dir::Base => 0,
            Dir::Sub(_) => directory(salt, Dir::Base),
            Dir::Nested(outer, _) => directory(salt, Dir::Sub(outer)),
        },
        Call::Create(id) | Call::Open(id) | Call::Stat(id) | Call::SetTimes(id) | Call::Remove(id) | Call::Sync(id) => {
            directory(salt, id.dir)
        }
        Call::Write(extent) | Call::Read(extent) => directory(salt, extent.file.dir),
        Call::WriteStrided(strided) | Call::ReadStrided(strided) => directory(salt, strided.file.dir),
    }
}

fn directory(salt: u64, dir: Dir) -> u64 {
    let (outer, inner) = match dir {
        Dir::Base => (0, 0),
        Dir::Sub(outer) => (u64::from(outer) + 1, 0),
        Dir::Nested(outer, inner) => (u64::from(outer) + 1, u64::from(inner) + 1),
    };
    mix(mix(salt ^ outer) ^ (inner << 1))
}

pub(crate) fn file_of(salt: u64, id: FileId) -> u64 {
    mix(directory(salt, id.dir) ^ ((u64::from(id.number) << 1) | 1))
}
