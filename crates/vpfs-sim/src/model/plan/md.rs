//! The pattern of multi-md-test: bursts of metadata operations, back to back, one kind after the other.
//!
//! It represents metadata-intensive applications [vPFS+ §V-A]. Each phase is measured separately, in operations per
//! second.

use std::iter;

use super::{Amount, Call, Dir, Extent, FileId, Phase, Plan, PlanError, Steps, calls, check_processes, refuse_if};

/// Parameters of a metadata run.
#[derive(Clone, Debug, serde::Serialize)]
pub struct Md {
    /// Number of processes.
    pub processes: u32,
    /// Number of directories, and of files, that each process creates and removes.
    pub items: u32,
    /// Number of times that each process lists the whole directory.
    pub listings: u32,
    /// Whether all processes work in one directory instead of one each.
    pub shared_directory: bool,
    /// Data that each process writes and reads between creating and removing its files; `None`: it reads and sets their
    /// attributes instead.
    pub data: Option<MdData>,
}

/// The data phases of multi-md-test: each process writes and reads its own file [vPFS+ §V-D].
///
/// Each read is preceded by a request for the file's attributes, as the paper says of its clients. Closing a file sends
/// no request to a server, so the paper's close phase has no calls and is left out.
#[derive(Clone, Copy, Debug, serde::Serialize)]
pub struct MdData {
    /// Bytes of each process, in the first of its files.
    pub bytes: u64,
    /// Bytes of one call; the last one of a file may be smaller.
    pub transfer_bytes: u32,
}

impl MdData {
    /// The paper's 400 MB. It does not state the size of the calls; 512 KiB is what it reports for POSIX clients
    /// elsewhere [vPFS+ §IV].
    pub const PAPER: Self = Self { bytes: 400_000_000, transfer_bytes: 512 << 10 };

    fn extents(self, file: FileId) -> impl Iterator<Item = Extent> + Send + use<> {
        let transfer = u64::from(self.transfer_bytes);
        (0..self.bytes.div_ceil(transfer)).map(move |index| {
            let offset = index * transfer;
            let bytes = u32::try_from((self.bytes - offset).min(transfer)).expect("at most one transfer");
            Extent { file, offset, bytes }
        })
    }
}

use Phase::{Cleanup, Create, ListDir, MakeDir, Read, Remove, RemoveDir, SetTimes, Setup, Stat, Write};

/// The phases of [vPFS+ §V-D].
const DATA_PHASES: [Phase; 9] = [Setup, MakeDir, Create, Write, ListDir, Read, Remove, RemoveDir, Cleanup];
const PHASES: [Phase; 9] = [Setup, MakeDir, Create, Stat, SetTimes, ListDir, Remove, RemoveDir, Cleanup];

impl Md {
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

    fn extents(&self, process: u32) -> impl Iterator<Item = Extent> + Send + use<> {
        let data = self.data.zip(self.files(process).next());
        data.into_iter().flat_map(|(data, file)| data.extents(file))
    }

    fn on_own_directory(&self, process: u32, call: fn(Dir) -> Call) -> Steps {
        calls((!self.shared_directory).then(|| call(self.parent(process))).into_iter())
    }
}

impl Plan for Md {
    fn validate(&self) -> Result<(), PlanError> {
        check_processes(self.processes)?;
        refuse_if(self.items == 0, "items", "must be at least 1")?;
        refuse_if(self.data.is_some_and(|data| data.transfer_bytes == 0), "transfer", "must be at least 1B")?;
        if self.data.is_some_and(|data| i64::try_from(data.bytes).is_err()) {
            return Err(PlanError::new("data", "exceeds the largest possible file"));
        }
        match self.items.checked_mul(self.processes) {
            Some(_) => Ok(()),
            None => Err(PlanError::new("items", format!("items times processes must be at most {}", u32::MAX))),
        }
    }

    fn processes(&self) -> u32 {
        self.processes
    }

    fn phases(&self) -> Vec<Phase> {
        if self.data.is_some() { DATA_PHASES.to_vec() } else { PHASES.to_vec() }
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
            Phase::Write => calls(self.extents(process).map(Call::Write)),
            Phase::Read => {
                let with_stat = |extent: Extent| [Call::Stat(extent.file), Call::Read(extent)];
                calls(self.extents(process).flat_map(with_stat))
            }
            Phase::Open | Phase::Sync | Phase::Mixed => calls(iter::empty()),
        }
    }

    fn amount(&self, phase: Phase) -> Option<Amount> {
        let each = match phase {
            Phase::Setup | Phase::Cleanup => u64::from(!self.shared_directory),
            Phase::ListDir => self.listings.into(),
            Phase::Write | Phase::Read => {
                return self.data.map(|data| Amount::Bytes(data.bytes.saturating_mul(self.processes.into())));
            }
            _ => self.items.into(),
        };
        Some(Amount::Calls(each.saturating_mul(self.processes.into())))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::*;
    use crate::model::plan::Step;

    /// Runs a plan on a set of names; every call must be valid at its time.
    fn replay(plan: &Md) {
        let mut dirs = BTreeSet::from([Dir::Base]);
        let mut files = BTreeSet::new();
        let mut written = BTreeMap::new();
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
                        Step::Call(Call::Write(extent)) => {
                            assert!(files.contains(&extent.file));
                            assert_eq!(written.insert(extent.file, extent.offset + u64::from(extent.bytes)), None);
                        }
                        Step::Call(Call::Read(extent)) => assert!(written.contains_key(&extent.file)),
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
            replay(&Md { processes: 3, items: 4, listings: 2, shared_directory, data: None });
            let data = Some(MdData { bytes: 100, transfer_bytes: 100 });
            replay(&Md { processes: 3, items: 4, listings: 2, shared_directory, data });
        }
    }

    #[test]
    fn the_papers_data_is_written_and_read_by_each_process() {
        let plan = Md { processes: 64, items: 1, listings: 1, shared_directory: false, data: Some(MdData::PAPER) };
        assert_eq!(plan.validate(), Ok(()));
        let bytes = |steps: Steps| -> u64 {
            let extents =
                steps.flat_map(|step| if let Step::Call(call) = step { call.extents().collect() } else { vec![] });
            extents.map(|extent: Extent| u64::from(extent.bytes)).sum()
        };
        assert_eq!(bytes(plan.steps(Phase::Write, 63)), 400_000_000);
        assert_eq!(bytes(plan.steps(Phase::Read, 0)), 400_000_000);
        let read: Vec<_> = plan.steps(Phase::Read, 0).take(2).collect();
        assert!(matches!(read[..], [Step::Call(Call::Stat(_)), Step::Call(Call::Read(_))]));
    }
}
