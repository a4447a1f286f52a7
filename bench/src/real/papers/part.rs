//! The two parts of an application's plan: what prepares its files, before anything is measured, and the rest.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use vpfs_sim::App;
use vpfs_sim::model::plan::{Amount, Limit, Phase, Plan, Steps};

/// Whether a phase belongs to the results: those that the application names, or all but what prepares and cleans up.
pub(super) fn counts(app: &App, phase: Phase) -> bool {
    if app.phases.is_empty() { !matches!(phase, Phase::Setup | Phase::Cleanup) } else { app.phases.contains(&phase) }
}

/// Some phases of a plan.
#[derive(Debug)]
pub(super) struct Part {
    plan: Arc<dyn Plan>,
    phases: Vec<Phase>,
    /// Whether to do no more than what later phases need.
    is_brief: bool,
    /// Tells a part in the background to stop, and to clean up.
    told: Option<Arc<AtomicBool>>,
}

impl Part {
    /// The phases before the first one that counts, if they write what it needs, and all others.
    pub(super) fn split(app: &App, seed: u64, told: &Arc<AtomicBool>) -> (Option<Self>, Self) {
        let plan: Arc<dyn Plan> = app.workload.plan(seed);
        let mut before = plan.phases();
        let mut rest = before.split_off(before.iter().position(|phase| counts(app, *phase)).unwrap_or_default());
        if !before.iter().any(|phase| matches!(phase, Phase::Setup | Phase::Write)) {
            rest = plan.phases();
            before.clear();
        }
        let part = |phases, is_brief, told| Self { plan: Arc::clone(&plan), phases, is_brief, told };
        let told = app.background.then(|| Arc::clone(told));
        ((!before.is_empty()).then(|| part(before, true, None)), part(rest, false, told))
    }
}

impl Plan for Part {
    fn processes(&self) -> u32 {
        self.plan.processes()
    }

    fn phases(&self) -> Vec<Phase> {
        self.phases.clone()
    }

    fn steps(&self, phase: Phase, process: u32) -> Steps {
        let steps = self.plan.steps(phase, process);
        let cleans = matches!(phase, Phase::Remove | Phase::RemoveDir | Phase::Cleanup);
        match self.told.clone().filter(|_| !cleans) {
            Some(told) => Box::new(steps.take_while(move |_| !told.load(Ordering::Relaxed))),
            None => steps,
        }
    }

    fn limit(&self, phase: Phase) -> Option<Limit> {
        let limit = self.plan.limit(phase)?;
        Some(if self.is_brief { Limit { time: Duration::ZERO, ..limit } } else { limit })
    }

    fn amount(&self, phase: Phase) -> Option<Amount> {
        self.plan.amount(phase)
    }
}

#[cfg(test)]
mod tests {
    use vpfs_sim::model::plan::Ior;

    use super::*;

    fn phases(named: Vec<Phase>) -> (Vec<Phase>, Vec<Phase>) {
        let ior = Ior { read: true, time_limit: Some(Duration::from_secs(9)), ..Ior::writes(2, 1, 4) };
        let app = App { phases: named, ..App::new("a", ior) };
        let (before, rest) = Part::split(&app, 1, &Arc::default());
        let limit = before.as_ref().and_then(|part| part.limit(Phase::Write));
        assert!(limit.is_none_or(|limit| limit == Limit { time: Duration::ZERO, at_least_steps: 4 }));
        (before.map(|part| part.phases).unwrap_or_default(), rest.phases)
    }

    #[test]
    fn files_that_are_only_read_are_written_before() {
        use Phase::{Create, Open, Read, Remove, Write};
        assert_eq!(phases(vec![Read]), (vec![Create, Open, Write], vec![Read, Remove]));
        assert_eq!(phases(vec![Write]), (vec![], vec![Create, Open, Write, Read, Remove]));
        assert_eq!(phases(vec![]), (vec![], vec![Create, Open, Write, Read, Remove]));
    }
}
