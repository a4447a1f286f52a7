//! The runs of a comparison, on all processors, until they are done or Ctrl-C ends them.

use std::collections::BTreeMap;
use std::io;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use vpfs_config::units::Span;
use vpfs_core::Time;
use vpfs_harl::{Op, Request};
use vpfs_sim::{App, PolicySpec, Progress, Results, Scenario, SimError, Simulation, Transfer, parallel};

use crate::cmd::workload::progress::ProgressLine;
use crate::cmd::workload::trace::TraceFile;
use crate::exit::Exit;
use crate::signals::Stop;

/// Runs of one scenario.
pub(super) struct Runs<'a> {
    scenario: &'a Scenario,
    line: ProgressLine,
    /// How far those are that run now.
    states: Mutex<BTreeMap<String, String>>,
    interrupted: Arc<AtomicBool>,
}

impl<'a> Runs<'a> {
    pub(super) fn new(scenario: &'a Scenario, quiet: bool) -> Result<Self, Exit> {
        let interrupted = Arc::default();
        let flag = Arc::clone(&interrupted);
        let waiter = thread::Builder::new().name("signals".into()).spawn(move || wait(&flag));
        waiter.map_err(|error| Exit::Failed(format!("cannot start a thread: {error}")))?;
        Ok(Self { scenario, line: ProgressLine::start(quiet), states: Mutex::default(), interrupted })
    }

    /// One run for each policy. After an interruption those that were underway end at that time, and their names say
    /// so; the others are missing.
    pub(super) fn of_policies(
        &self,
        policies: &[PolicySpec],
        trace: Option<&Mutex<TraceFile>>,
    ) -> Result<Vec<Results>, Exit> {
        let results = parallel::map(policies, |policy| self.run(self.scenario, policy, trace));
        results.into_iter().filter_map(Result::transpose).collect()
    }

    /// Each application as if there were no other: one run of its workload, from the start, without a policy, no longer
    /// than the longest time in which it ran beside others. After an interruption some are missing.
    pub(super) fn alone(&self, shared: &[Results]) -> Result<Vec<Results>, Exit> {
        let numbered: Vec<(usize, &App)> = self.scenario.apps.iter().enumerate().collect();
        let results = parallel::map(&numbered, |&(number, app)| {
            let longest = shared.iter().map(|results| results.active(&results.apps[number])).max();
            let end = app.end.map(|end| end.saturating_sub(app.start));
            let app = App { background: false, start: Duration::ZERO, end, ..app.clone() };
            let policy = PolicySpec { name: format!("{} alone", app.name), ..PolicySpec::fifo() };
            self.run(&Scenario { apps: vec![app], duration: longest, ..self.scenario.clone() }, &policy, None)
        });
        let done = results.into_iter().filter_map(Result::transpose).collect();
        if self.is_interrupted() { Ok(Vec::new()) } else { done }
    }

    /// Fails if there was an interruption.
    pub(super) fn finish(self) -> Result<(), Exit> {
        self.line.clear();
        match self.is_interrupted() {
            true => Err(Exit::Failed("interrupted; what was complete until then is above".into())),
            false => Ok(()),
        }
    }

    fn is_interrupted(&self) -> bool {
        self.interrupted.load(Ordering::Relaxed)
    }

    fn run(
        &self,
        scenario: &Scenario,
        policy: &PolicySpec,
        trace: Option<&Mutex<TraceFile>>,
    ) -> Result<Option<Results>, Exit> {
        if self.is_interrupted() {
            return Ok(None);
        }
        let mut cut = None;
        let show = |Progress { now, events }| {
            let span = Span(now.since(Time::ZERO));
            self.show(&policy.name, Some(format!("{span:.1} simulated, {events} events")));
            cut = self.is_interrupted().then_some(span);
            if cut.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        self.show(&policy.name, Some("started".into()));
        let started = Instant::now();
        let run = Simulation::new(scenario, policy).and_then(|simulation| match trace {
            Some(trace) => {
                let mut trace = trace.lock().unwrap_or_else(PoisonError::into_inner);
                simulation.run_traced(show, |transfer| add(&mut trace, scenario, &transfer))
            }
            None => simulation.run_with(show),
        });
        self.show(&policy.name, None);
        let mut results = run.map_err(|error| match error {
            SimError::Scenario(problem) => Exit::Usage(format!("{}: {problem}", scenario.name)),
            violation => Exit::Failed(format!("{}, {}: {violation}", scenario.name, policy.name)),
        })?;
        self.line.tell(&rate(&results, started.elapsed()));
        if let Some(at) = cut {
            results.policy += &format!(" (until {at:.1})");
        }
        Ok(Some(results))
    }

    /// Shows the state of all runs after a change of one.
    fn show(&self, name: &str, state: Option<String>) {
        let mut states = self.states.lock().unwrap_or_else(PoisonError::into_inner);
        match state {
            Some(state) => states.insert(name.to_owned(), state),
            None => states.remove(name),
        };
        self.line.show(|| states.iter().map(|(name, state)| format!("{name}: {state}")).collect::<Vec<_>>().join("; "));
    }
}

/// How fast a run was, beside others that may have run at the same time; not among its results, which are the same each
/// time.
fn rate(results: &Results, took: Duration) -> String {
    let seconds = took.as_secs_f64().max(1e-9);
    let millions = results.events as f64 / seconds / 1e6;
    format!("{}: {} events in {seconds:.2} s, {millions:.2} million a second", results.policy, results.events)
}

/// The first signal ends the runs, the second one the process, which may be long in a step.
fn wait(flag: &AtomicBool) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    runtime.block_on(async {
        let mut stop = Stop::new()?;
        stop.asked().await;
        flag.store(true, Ordering::Relaxed);
        stop.asked().await;
        std::process::exit(130)
    })
}

/// Each application has files of its own.
fn add(trace: &mut TraceFile, scenario: &Scenario, transfer: &Transfer) {
    let app = scenario.apps.get(transfer.app as usize).map_or("", |app| app.name.as_str());
    let nanoseconds = |at: Time| u64::try_from(at.since(Time::ZERO).as_nanos()).unwrap_or(u64::MAX);
    let request = Request {
        rank: transfer.process,
        op: if transfer.is_write { Op::Write } else { Op::Read },
        offset: transfer.extent.offset,
        size: transfer.extent.bytes.into(),
        start: nanoseconds(transfer.issued),
        end: nanoseconds(transfer.finished),
    };
    trace.add(&request, &format!("/{app}/{}", transfer.extent.file));
}
