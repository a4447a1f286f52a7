//! Which programs use the mount.

use std::collections::HashMap;
use std::fs;
use std::io::Read;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use vpfs_config::{RunWeight, job_of};

use crate::caller::{Caller, groups};
use crate::inodes::lock;

/// How long a program is believed to be what it was: it may execute another one, or be moved to another group.
const BELIEVED: Duration = Duration::from_secs(1);
/// Beyond, no variable is looked for.
const ENVIRONMENT_MAX: u64 = 1 << 20;
/// The most programs to remember.
const PROGRAMS_MAX: usize = 4096;

/// A program as the kernel knows it.
#[derive(Debug, Default)]
pub(crate) struct Program {
    pub(crate) uid: u32,
    pub(crate) gids: Vec<u32>,
    pub(crate) cgroup: String,
    pub(crate) executable: String,
    /// As `vpfs run` wrote it into its environment.
    pub(crate) weight: Option<RunWeight>,
}

impl Program {
    /// What cannot be seen, because the program has ended or is in another PID namespace, is empty.
    fn look(caller: Caller) -> Self {
        let Caller { uid, gid, pid } = caller;
        let executable = fs::read_link(format!("/proc/{pid}/exe")).unwrap_or_default();
        let cgroups = fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default();
        Self {
            uid,
            gids: groups(pid).iter().map(|group| group.as_raw()).chain([gid]).collect(),
            cgroup: telling(&cgroups).to_owned(),
            executable: executable.to_string_lossy().into_owned(),
            weight: weight(pid),
        }
    }
}

/// The control group that tells most. Of several hierarchies that is the one in which slurmd made a group for a job, as
/// it may do in one alone; or else the one with the longest path.
fn telling(cgroups: &str) -> &str {
    let paths = cgroups.lines().filter_map(|line| line.splitn(3, ':').nth(2));
    paths.max_by_key(|path| (job_of(path).is_some(), path.len())).unwrap_or_default()
}

/// What the environment says that a program began with.
fn weight(pid: u32) -> Option<RunWeight> {
    let mut environment = Vec::new();
    fs::File::open(format!("/proc/{pid}/environ")).ok()?.take(ENVIRONMENT_MAX).read_to_end(&mut environment).ok()?;
    let value =
        |variable: &[u8]| variable.strip_prefix(RunWeight::VARIABLE.as_bytes())?.strip_prefix(b"=")?.to_vec().into();
    let found: Vec<u8> = environment.split(|byte| *byte == 0).find_map(value)?;
    RunWeight::new(std::str::from_utf8(&found).ok()?.parse().ok()?)
}

/// A process and its user.
type Process = (u32, u32);

/// Programs that were seen a moment ago, and when.
#[derive(Debug, Default)]
pub(crate) struct Programs(Mutex<HashMap<Process, (Instant, Arc<Program>)>>);

impl Programs {
    pub(crate) fn get(&self, caller: Caller) -> Arc<Program> {
        let (key, now) = ((caller.pid, caller.uid), Instant::now());
        if let Some((since, known)) = lock(&self.0).get(&key)
            && now.duration_since(*since) < BELIEVED
        {
            return Arc::clone(known);
        }
        let program = Arc::new(Program::look(caller));
        let mut known = lock(&self.0);
        if known.len() >= PROGRAMS_MAX {
            known.clear();
        }
        known.insert(key, (now, Arc::clone(&program)));
        program
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_control_group_that_tells_most_counts() {
        assert_eq!(
            telling("0::/system.slice/slurmstepd.scope/job_7/step_0\n"),
            "/system.slice/slurmstepd.scope/job_7/step_0"
        );
        let longer = "9:memory:/machine.slice/libpod-0123456789.scope/container";
        assert_eq!(telling(&format!("{longer}\n4:freezer:/slurm/uid_1/job_7\n0::/\n")), "/slurm/uid_1/job_7");
        assert_eq!(telling("0::/a:b\n1:cpu:/a\n"), "/a:b");
        assert_eq!(telling(""), "");
    }

    #[test]
    fn a_program_is_seen_as_it_is() {
        let own = std::process::id();
        let program = Programs::default().get(Caller { uid: 7, gid: 8, pid: own });
        assert_eq!(program.executable, std::env::current_exe().unwrap().to_string_lossy());
        assert_eq!((program.uid, program.gids.last()), (7, Some(&8)));
        let gone = Programs::default().get(Caller { uid: 7, gid: 8, pid: u32::MAX });
        assert_eq!((gone.executable.as_str(), gone.cgroup.as_str()), ("", ""));
    }
}
