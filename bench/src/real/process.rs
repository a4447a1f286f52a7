//! Programs in the background that never outlive their case.

use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use super::scratch::Scratch;

/// Polling interval for states without notification.
const POLL: Duration = Duration::from_millis(50);

/// A started program; it is killed when dropped.
#[derive(Debug)]
pub(crate) struct Running {
    child: Child,
    name: String,
    log: PathBuf,
    mark: PathBuf,
}

impl Running {
    /// Starts `command` with its output going to `name`.log.
    pub(crate) fn start(scratch: &Scratch, name: &str, command: &mut Command) -> Result<Self, String> {
        let log = scratch.path(&format!("{name}.log"));
        let out = std::fs::File::create(&log).map_err(|error| format!("{}: {error}", log.display()))?;
        let err = out.try_clone().map_err(|error| format!("{}: {error}", log.display()))?;
        // A separate process group: Ctrl-C ends only this program, and the keeper of the scratch directory then ends
        // all others in order.
        command.stdin(Stdio::null()).stdout(out).stderr(err).process_group(0);
        let child = command.spawn().map_err(|error| format!("cannot start {command:?}: {error}"))?;
        let mark = scratch.mark(child.id());
        Ok(Self { child, name: name.to_owned(), log, mark })
    }

    /// Waits until `done`. An error if the program ends before that, or after 30 s.
    pub(crate) fn await_that(&mut self, what: &str, done: impl Fn() -> bool) -> Result<(), String> {
        let start = Instant::now();
        while !done() {
            if let Some(status) = self.ended()? {
                return Err(format!("{} ended with {status} before it {what}:\n{}", self.name, self.output()));
            }
            if start.elapsed() > Duration::from_secs(30) {
                return Err(format!(
                    "after 30 s {} has not {what}; do the servers answer?\n{}",
                    self.name,
                    self.output()
                ));
            }
            std::thread::sleep(POLL);
        }
        Ok(())
    }

    /// Waits for its end, or until `stop`, which kills it. True if it succeeded, false if it was stopped.
    pub(crate) fn finish(mut self, stop: impl Fn() -> bool) -> Result<bool, String> {
        loop {
            match self.ended()? {
                Some(status) if status.success() => return Ok(true),
                Some(status) => return Err(format!("{} failed with {status}:\n{}", self.name, self.output())),
                None if stop() => return Ok(false),
                None => std::thread::sleep(POLL),
            }
        }
    }

    /// Asks it to terminate, and kills it after 40 s: a proxy drains for 30 s.
    pub(crate) fn terminate(mut self) -> Result<(), String> {
        self.signal("TERM")?;
        self.await_end(Duration::from_secs(40))
    }

    /// Sends a signal, for example "STOP". It may have ended.
    pub(crate) fn signal(&self, name: &str) -> Result<(), String> {
        let id = self.child.id().to_string();
        let sent = Command::new("kill").args(["-s", name, &id]).stderr(Stdio::null()).status();
        sent.map(drop).map_err(|error| format!("cannot run kill: {error}"))
    }

    /// Waits for a termination caused elsewhere. After the time limit, the drop kills it.
    pub(crate) fn await_end(&mut self, limit: Duration) -> Result<(), String> {
        let start = Instant::now();
        while self.ended()?.is_none() && start.elapsed() < limit {
            std::thread::sleep(POLL);
        }
        Ok(())
    }

    /// The time of processors that it has used.
    pub(crate) fn processor_time(&self) -> Result<Duration, String> {
        /// Linux counts in hundredths of a second, whatever its own clock.
        const TICK: Duration = Duration::from_millis(10);
        let file = format!("/proc/{}/stat", self.child.id());
        let text = std::fs::read_to_string(&file).map_err(|error| format!("{file}: {error}"))?;
        let ticks = ticks(&text).ok_or_else(|| format!("{file} is not as expected: {text}"))?;
        Ok(TICK * ticks)
    }

    /// The most memory that it has occupied, in bytes.
    pub(crate) fn peak_memory(&self) -> Result<u64, String> {
        let file = format!("/proc/{}/status", self.child.id());
        let text = std::fs::read_to_string(&file).map_err(|error| format!("{file}: {error}"))?;
        let kib = text.lines().find_map(|line| line.strip_prefix("VmHWM:")?.split_whitespace().next()?.parse().ok());
        kib.map(|kib: u64| kib << 10).ok_or_else(|| format!("{file} has no VmHWM"))
    }

    fn ended(&mut self) -> Result<Option<ExitStatus>, String> {
        self.child.try_wait().map_err(|error| format!("{}: {error}", self.name))
    }

    fn output(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }
}

/// What `/proc/PID/stat` counts for a process: its own time and that of the system for it.
fn ticks(stat: &str) -> Option<u32> {
    // The name, in parentheses, may contain anything.
    let (_, rest) = stat.rsplit_once(')')?;
    let mut times = rest.split_whitespace().skip(11).map(|time| time.parse::<u32>().ok());
    times.next()??.checked_add(times.next()??)
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended by itself. The mark is removed only after the program has been reaped.
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_file(&self.mark);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processor_times_follow_the_name() {
        let stat = "7 (a) b) S 1 7 7 0 -1 4194304 1 0 0 0 250 130 5 5 20 0 1 0 9 9 9";
        assert_eq!(ticks(stat), Some(380));
        assert_eq!(ticks("7 (a) S 1"), None);
    }
}
