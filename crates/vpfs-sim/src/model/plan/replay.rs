//! A run that was recorded.

use std::sync::Arc;

use super::{MAX_PROCESSES, Phase, Plan, PlanError, Step, Steps};

/// Steps that are known beforehand, those of each process.
#[derive(Clone, Debug)]
pub struct Replay {
    processes: Vec<Arc<[Step]>>,
}

impl Replay {
    /// The steps of each process, all in [`Phase::Mixed`].
    pub fn new(processes: impl IntoIterator<Item = Vec<Step>>) -> Self {
        Self { processes: processes.into_iter().map(Arc::from).collect() }
    }
}

impl Plan for Replay {
    fn validate(&self) -> Result<(), PlanError> {
        let problem = match self.processes() {
            0 => "has no request that moves bytes; give that of a run that reads or writes".to_owned(),
            ranks if ranks > MAX_PROCESSES => format!("has {ranks} ranks; at most {MAX_PROCESSES} are possible"),
            _ => return Ok(()),
        };
        Err(PlanError::new("log", problem))
    }

    fn processes(&self) -> u32 {
        u32::try_from(self.processes.len()).unwrap_or(u32::MAX)
    }

    fn phases(&self) -> Vec<Phase> {
        vec![Phase::Mixed]
    }

    fn steps(&self, _: Phase, process: u32) -> Steps {
        let steps = Arc::clone(&self.processes[process as usize]);
        Box::new((0..steps.len()).map(move |index| steps[index]))
    }
}
