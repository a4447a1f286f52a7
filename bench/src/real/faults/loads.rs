//! Processes of the applications that write and read all the time, verified.

use std::process::Command;
use std::time::Duration;

use super::SERVERS;
use super::proxies::Proxies;
use crate::real::cluster::Cluster;
use crate::real::process::Running;
use crate::real::scratch::{PREFIX, Scratch};

/// The server whose proxy fails, or is cut off.
pub(super) const FAULTY: usize = 2;

/// A part of an application: its name begins with that of the application.
#[derive(Clone, Copy, Debug)]
struct Part {
    name: &'static str,
    servers: &'static [usize],
    writes: bool,
}

/// Narrow uses two servers, and wide all.
const PARTS: [Part; 5] = [
    Part { name: "narrow-reads", servers: &[0, 1], writes: false },
    Part { name: "narrow-writes", servers: &[0, 1], writes: true },
    Part { name: "wide-writes", servers: &[0, 1], writes: true },
    Part { name: "wide-reads", servers: &[2], writes: false },
    Part { name: "wide-more", servers: &[3], writes: true },
];

/// Running parts.
#[derive(Debug)]
pub(super) struct Loads<'a> {
    scratch: &'a Scratch,
    running: Vec<(Part, Running, Command)>,
}

/// The longest operations, of parts that do not use the faulty server and of those that do.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Longest {
    pub(super) others: Duration,
    pub(super) faulty: Duration,
}

impl<'a> Loads<'a> {
    /// Starts all, for so long.
    pub(super) fn start(
        scratch: &'a Scratch,
        cluster: &Cluster,
        proxies: &Proxies<'_>,
        time: Duration,
    ) -> Result<Self, String> {
        let mut commands = Vec::new();
        for part in PARTS {
            if !part.writes {
                let mut prepare = part.ior(cluster, proxies);
                prepare.args(["--write", "--keep", "--overwrite"]);
                Running::start(scratch, part.name, &mut prepare)?.finish(|| false)?;
            }
            let mut command = part.ior(cluster, proxies);
            command.args(if part.writes { &["--write", "--keep", "--overwrite"][..] } else { &["--read", "--keep"] });
            command.args(["--time", &format!("{}s", time.as_secs()), "--trace"]).arg(part.trace(scratch));
            let mut verify = part.ior(cluster, proxies);
            verify.arg("--read");
            commands.push((part, command, verify));
        }
        let start = |(part, mut command, verify): (Part, Command, Command)| {
            Ok((part, Running::start(scratch, part.name, &mut command)?, verify))
        };
        let running = commands.into_iter().map(start).collect::<Result<_, String>>()?;
        Ok(Self { scratch, running })
    }

    /// Waits for their end, reads back all that was written, and removes the files. An error if anything failed, or was
    /// not what it should be.
    pub(super) fn finish(self) -> Result<Longest, String> {
        let mut longest = Longest::default();
        for (part, running, mut verify) in self.running {
            running.finish(|| false)?;
            Running::start(self.scratch, part.name, &mut verify)?.finish(|| false)?;
            let trace = part.trace(self.scratch);
            let text = std::fs::read_to_string(&trace).map_err(|error| format!("{}: {error}", trace.display()))?;
            let place = if part.servers.contains(&FAULTY) { &mut longest.faulty } else { &mut longest.others };
            *place = (*place).max(longest_in(&text)?);
        }
        Ok(longest)
    }
}

impl Part {
    fn ior(self, cluster: &Cluster, proxies: &Proxies<'_>) -> Command {
        let app = self.name.split('-').next().unwrap_or_default();
        let strip = |id| if self.servers.contains(&id) { "128KiB" } else { "0B" };
        let strips: Vec<&str> = (0..SERVERS).map(strip).collect();
        let mut command = Command::new(proxies.program());
        command.args([
            "workload",
            "ior",
            "--quiet",
            "--processes",
            "8",
            "--block",
            "1MiB",
            "--strip",
            &strips.join(","),
        ]);
        command.args(["--transfer", &format!("{}KiB", 128 * self.servers.len())]);
        // A killed proxy is away for longer than clients retry by default.
        command.args(["--retries", "600", "--directory", &format!("/{PREFIX}{}", self.name)]);
        command.args(["--url", &cluster.spec(&proxies.address(app))]);
        command
    }

    fn trace(self, scratch: &Scratch) -> std::path::PathBuf {
        scratch.path(&format!("{}.csv", self.name))
    }
}

/// The longest operation in a trace: rank,op,offset,size,time,end,file.
fn longest_in(trace: &str) -> Result<Duration, String> {
    let mut longest = 0.0_f64;
    for line in trace.lines().skip(1) {
        let times: Option<Vec<f64>> = line.split(',').skip(4).take(2).map(|time| time.parse().ok()).collect();
        match times.as_deref() {
            Some([time, end]) => longest = longest.max(end - time),
            _ => return Err(format!("not a line of a trace: {line}")),
        }
    }
    Ok(Duration::from_secs_f64(longest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_operation_of_a_trace() {
        let trace = "rank,op,offset,size,time,end,file\n1,w,0,9,0.5,1.25,/f\n2,r,0,9,0.5,0.75,/f\n";
        assert_eq!(longest_in(trace), Ok(Duration::from_millis(750)));
        assert!(longest_in("header\n1,w\n").is_err());
    }
}
