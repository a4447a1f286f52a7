//! Programs that use a mount.

use std::fmt;

use vpfs_core::{OpKind, Weight};

/// A program that uses a mount, as its kernel knows it.
#[derive(Clone, Copy, Debug)]
pub struct Program<'a> {
    /// Its user.
    pub uid: u32,
    /// Its groups.
    pub gids: &'a [u32],
    /// Its control group, a path.
    pub cgroup: &'a str,
    /// The path of its executable.
    pub executable: &'a str,
    /// The path of the file below the mount.
    pub file: &'a str,
    /// What it asks for.
    pub op: OpKind,
    /// The weight that its user gave it among his own programs.
    pub weight: Option<RunWeight>,
}

/// The weight of a command among its user's others. There are few, so that nobody makes applications without number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RunWeight(u8);

impl RunWeight {
    /// The environment variable that carries it from `vpfs run` to all processes of a command.
    pub const VARIABLE: &str = "VPFS_WEIGHT";
    /// The largest one.
    pub const MAX: u8 = 10;

    /// `None` if it is not from 1 to 10.
    pub fn new(weight: u8) -> Option<Self> {
        (1..=Self::MAX).contains(&weight).then_some(Self(weight))
    }

    pub(crate) fn weight(self) -> Weight {
        Weight::new(self.0.into()).unwrap_or(Weight::ONE)
    }
}

impl fmt::Display for RunWeight {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

impl Program<'_> {
    /// The Slurm job that it belongs to.
    pub(crate) fn job(&self) -> Option<u32> {
        job_of(self.cgroup)
    }
}

/// The Slurm job that a control group belongs to: slurmd puts processes into `/slurm/uid_1000/job_4711/step_0` or
/// `/system.slice/slurmstepd.scope/job_4711/step_0`. Users can make groups below their own, but not there.
pub fn job_of(cgroup: &str) -> Option<u32> {
    let mut parts = cgroup.split('/').skip(1);
    let is_slurms = match parts.next()? {
        "system.slice" => parts.next()?.ends_with("slurmstepd.scope"),
        first => first.starts_with("slurm"),
    };
    let job = parts.next().filter(|part| !part.starts_with("uid_")).or_else(|| parts.next())?;
    job.strip_prefix("job_")?.parse().ok().filter(|_| is_slurms)
}
