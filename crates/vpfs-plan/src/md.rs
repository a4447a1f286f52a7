//! The pattern of multi-md-test: bursts of metadata operations, back to back, one kind after the other.
//!
//! It stands for metadata-intensive applications [vPFS+ §V-A]. Each phase is measured by itself, in operations per second.

use std::iter;

use super::{Call, Dir, FileId, Phase, Plan, PlanError, Steps, calls, check_processes};

/// Parameters of a metadata run.
#[derive(Clone, Debug, serde::Serialize)]
pub struct Md {
    /// Number of processes.
    pub processes: u32,
    /// Directories, and files, that each process makes and removes; in between it reads and sets the files' attributes.
    pub items: u32,
    /// How often each process reads the whole directory.
    pub listings: u32,
    /// Whether all processes work in one directory instead of one each.
    pub shared_directory: bool,
}

const PHASES: [Phase; 9] = [
    Phase::Setup,
    Phase::MakeDir,
    Phase::Create,
    Phase::Stat,
    Phase::SetTimes,
    Phase::ListDir,
    Phase::Remove,
    Phase::RemoveDir,
    Phase::Cleanup,
];

impl Md {
    /// Checks the parameters against each other.
    ///
    /// # Errors
    /// The option that does not fit, and why.
    pub fn validate(&self) -> Result<(), PlanError> {
        check_processes(self.processes)?;
        if self.items == 0 {
            return Err(PlanError::new("items", "must be at least 1"));
        }
        match self.items.checked_mul(self.processes) {
            Some(_) => Ok(()),
            None => Err(PlanError::new("items", format!("items times processes must be at most {}", u32::MAX))),
        }
    }

    /// The directory a process works in.
    fn parent(&self, process: u32) -> Dir {
        if self.shared_directory { Dir::Base } else { Dir::Sub(process) }
    }

    fn directories(&self, process: u32) -> impl Iterator<Item = Dir> + Send + use<> {
        let (shared, items) = (self.shared_directory, self.items);
        let name = move |item| if shared { Dir::Sub(process * items + item) } else { Dir::Nested(process, item) };
        (0..items).map(name)
    }

    fn files(&self, process: u32) -> impl Iterator<Item = FileId> + Send + use<> {
        let dir = self.parent(process);
        let first = if self.shared_directory { process * self.items } else { 0 };
        (first..first + self.items).map(move |number| FileId { dir, number })
    }

    /// One call on the process's own directory, if it has one.
    fn on_own_directory(&self, process: u32, call: fn(Dir) -> Call) -> Steps {
        calls((!self.shared_directory).then(|| call(self.parent(process))).into_iter())
    }
}

impl Plan for Md {
    fn processes(&self) -> u32 {
        self.processes
    }

    fn phases(&self) -> Vec<Phase> {
        PHASES.to_vec()
    }

    fn steps(&self, phase: Phase, process: u32) -> Steps {
        match phase {
            Phase::Setup => self.on_own_directory(process, Call::MakeDir),
            Phase::MakeDir => calls(self.directories(process).map(Call::MakeDir)),
            Phase::Create => calls(self.files(process).map(Call::Create)),
            Phase::Stat => calls(self.files(process).map(Call::Stat)),
            Phase::SetTimes => calls(self.files(process).map(Call::SetTimes)),
            Phase::ListDir => calls(iter::repeat_n(Call::ListDir(self.parent(process)), self.listings as usize)),
            Phase::Remove => calls(self.files(process).map(Call::Remove)),
            Phase::RemoveDir => calls(self.directories(process).map(Call::RemoveDir)),
            Phase::Cleanup => self.on_own_directory(process, Call::RemoveDir),
            Phase::Open | Phase::Write | Phase::Sync | Phase::Read => calls(iter::empty()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::super::Step;
    use super::*;

    /// Runs a plan on a set of names; every call must make sense at that moment.
    fn replay(plan: &Md) {
        let mut dirs = BTreeSet::from([Dir::Base]);
        let mut files = BTreeSet::new();
        for phase in plan.phases() {
            for process in 0..plan.processes {
                for step in plan.steps(phase, process) {
                    match step {
                        Step::Call(Call::MakeDir(dir)) => assert!(dirs.insert(dir)),
                        Step::Call(Call::RemoveDir(dir)) => assert!(dirs.remove(&dir)),
                        Step::Call(Call::ListDir(dir)) => assert!(dirs.contains(&dir)),
                        Step::Call(Call::Create(file)) => assert!(dirs.contains(&file.dir) && files.insert(file)),
                        Step::Call(Call::Stat(file) | Call::SetTimes(file)) => assert!(files.contains(&file)),
                        Step::Call(Call::Remove(file)) => assert!(files.remove(&file)),
                        other => panic!("{other:?} in a metadata plan"),
                    }
                }
            }
            if phase == Phase::Create {
                assert_eq!(files.len(), 12);
            }
        }
        assert!(files.is_empty() && dirs == BTreeSet::from([Dir::Base]), "everything is removed again");
    }

    #[test]
    fn every_name_is_made_once_and_removed_once() {
        for shared_directory in [false, true] {
            replay(&Md { processes: 3, items: 4, listings: 2, shared_directory });
        }
    }

    #[test]
    fn refusals_name_the_option() {
        let option = |processes, items| {
            let plan = Md { processes, items, listings: 1, shared_directory: true };
            plan.validate().map_err(|error| error.option)
        };
        assert_eq!(option(1 << 16, 1000), Ok(()));
        assert_eq!(option(1 << 16, 1 << 20), Err("items"));
        assert_eq!(option(0, 1000), Err("processes"));
        assert_eq!(option((1 << 16) + 1, 1), Err("processes"));
    }
}
