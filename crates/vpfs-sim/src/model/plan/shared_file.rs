//! The common part of benchmarks on one shared file, which create, write, read and remove it.

use super::{Call, Dir, FileId, Phase, PlanError, Steps, calls, refuse_if};

/// The file.
pub(crate) const FILE: FileId = FileId { dir: Dir::Base, number: 0 };

/// The phases of a benchmark that does some or all of these.
pub(crate) fn phases(write: bool, read: bool, keep: bool) -> Vec<Phase> {
    let all = [
        (Phase::Create, write),
        (Phase::Open, true),
        (Phase::Write, write),
        (Phase::Read, read),
        (Phase::Remove, !keep),
    ];
    all.into_iter().filter_map(|(phase, wanted)| wanted.then_some(phase)).collect()
}

/// The metadata calls of a phase: the first process creates and removes the file, and each process that did not create
/// it opens it.
pub(crate) fn metadata(phase: Phase, process: u32, write: bool) -> Steps {
    let call = match phase {
        Phase::Create if process == 0 => Some(Call::Create(FILE)),
        Phase::Open if process != 0 || !write => Some(Call::Open(FILE)),
        Phase::Remove if process == 0 => Some(Call::Remove(FILE)),
        _ => None,
    };
    calls(call.into_iter())
}

/// Checks the parameters that all of these benchmarks have.
pub(crate) fn check(write: bool, read: bool, requests: u64) -> Result<(), PlanError> {
    refuse_if(!write && !read, "write", "nothing to do; give --write, --read or both")?;
    refuse_if(requests == 0, "requests", "must be at least 1")?;
    Ok(())
}

/// Checks that a file of this many rounds is possible. `round` is the number of bytes that all processes together move
/// in one round, and `option` names the parameter to blame if it is zero.
pub(crate) fn check_size(option: &'static str, round: u128, rounds: u64) -> Result<(), PlanError> {
    refuse_if(round == 0, option, "must be at least 1B")?;
    let total = round.checked_mul(u128::from(rounds));
    match total.is_some_and(|total| i64::try_from(total).is_ok()) {
        true => Ok(()),
        false => Err(PlanError::new("requests", "the file would exceed the largest possible size")),
    }
}

#[cfg(test)]
pub(crate) mod testing {
    use super::*;
    use crate::model::plan::{Extent, Plan, Step};

    /// All calls of a process in a phase.
    pub(crate) fn extents(plan: &dyn Plan, phase: Phase, process: u32) -> impl Iterator<Item = Extent> {
        let extents = |step| match step {
            Step::Call(call) => call.extents().collect::<Vec<_>>(),
            _ => Vec::new(),
        };
        plan.steps(phase, process).flat_map(extents)
    }

    /// Asserts that writes, and reads, cover `0..total` without gap or overlap, each process reads what it wrote, and
    /// all processes have the same barriers.
    pub(crate) fn covers(plan: &dyn Plan, total: u64) {
        let barriers = |process| plan.steps(Phase::Write, process).filter(|step| *step == Step::Barrier).count();
        let mut all = Vec::new();
        for process in 0..plan.processes() {
            let written: Vec<_> = extents(plan, Phase::Write, process).collect();
            assert_eq!(written, extents(plan, Phase::Read, process).collect::<Vec<_>>());
            assert_eq!(barriers(process), barriers(0));
            all.extend(written);
        }
        all.sort_by_key(|extent| extent.offset);
        let end = all.iter().try_fold(0, |at, e| (e.offset == at).then(|| at + u64::from(e.bytes)));
        assert_eq!(end, Some(total));
    }
}
