//! Instructions of one proxied operation of each kind, and of one scheduling decision of each policy, counted by
//! valgrind: the same for equal programs, however busy the machine is.
//!
//! Each case is run with few and with many operations, and the difference counts, so start and end do not. The programs
//! are those that the tests use, so the numbers are those of unoptimised code, and only their changes mean something.

use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A number is right within this many percent: compilers differ, and threads wait more or less often.
const TOLERANCE_PERCENT: u64 = 20;

/// Operations of a proxy: name, `vpfs workload` for a given number of operations, few and many of them, and the
/// expected instructions of one.
const PROXIED: [(&str, &[&str], [u64; 2], u64); 5] = [
    ("series of 24 metadata operations", &["md", "-n", "1", "--listings", "0", "--items"], [100, 300], 3_153_000),
    ("write of 4 KiB", &["ior", "-n", "1", "-w", "-t", "4KiB", "-b", "4KiB", "-s"], [200, 600], 125_600),
    ("write and read of 4 KiB", &["ior", "-n", "1", "-w", "-r", "-t", "4KiB", "-b", "4KiB", "-s"], [200, 600], 263_800),
    ("write of 1 MiB", &["ior", "-n", "1", "-w", "-t", "1MiB", "-b", "1MiB", "-s"], [50, 150], 361_600),
    ("write and read of 1 MiB", &["ior", "-n", "1", "-w", "-r", "-t", "1MiB", "-b", "1MiB", "-s"], [50, 150], 658_800),
];

/// Policies, and the expected instructions for a request: enqueue, dispatch, complete.
const POLICIES: [(&str, u64); 6] = [
    ("isolation", 4_180),
    ("fifo", 932),
    ("sfq-d", 2_620),
    ("sfq-d-plus", 2_110),
    ("two-level", 4_180),
    ("ioco", 1_160),
];
const REQUESTS: [u64; 2] = [2_000, 6_000];

/// Counts everything with the programs in target/debug, and fails if a number is higher than expected.
pub(crate) fn run() -> Result<(), String> {
    if Command::new("valgrind").arg("--version").stdout(Stdio::null()).status().is_err() {
        eprintln!("SKIPPED: not on PATH: valgrind, which counts instructions");
        return Ok(());
    }
    let programs = Path::new("target/debug");
    let scratch = std::env::temp_dir().join(format!("vpfs-instructions-{}", std::process::id()));
    std::fs::create_dir_all(&scratch).map_err(|error| format!("{}: {error}", scratch.display()))?;
    let counted = count_all(programs, &scratch);
    // Only a directory of our own, which the next run does not need.
    let _ = std::fs::remove_dir_all(&scratch);
    let too_many: Vec<String> =
        counted?.into_iter().filter_map(|(name, count, expected)| verdict(&name, count, expected)).collect();
    if too_many.is_empty() { Ok(()) } else { Err(too_many.join("\n")) }
}

/// What is counted, its number, and the expected one.
type Counted = (String, u64, u64);

fn count_all(programs: &Path, scratch: &Path) -> Result<Vec<Counted>, String> {
    let mut counted = Vec::new();
    for (name, work, ops, expected) in PROXIED {
        let count = difference(ops, |ops| proxied(programs, scratch, work, ops))?;
        counted.push((format!("proxied {name}"), count, expected));
    }
    for (policy, expected) in POLICIES {
        let count = difference(REQUESTS, |requests| decided(programs, scratch, policy, requests))?;
        counted.push((format!("request of {policy}"), count, expected));
    }
    Ok(counted)
}

/// Prints a count, and returns a complaint if it is higher than it should be.
fn verdict(name: &str, count: u64, expected: u64) -> Option<String> {
    println!("{count:>9} instructions for each {name}, {expected} expected");
    let [least, most] = [100 - TOLERANCE_PERCENT, 100 + TOLERANCE_PERCENT].map(|percent| expected * percent / 100);
    if count < least {
        println!("          fewer than expected: lower the number in xtask/src/instructions.rs");
    }
    (count > most).then(|| {
        format!(
            "{count} instructions for each {name}, {expected} expected: find the cost with callgrind_annotate, or state \
             it in xtask/src/instructions.rs with the reason in the commit"
        )
    })
}

/// Instructions of one operation.
fn difference(ops: [u64; 2], count: impl Fn(u64) -> Result<u64, String>) -> Result<u64, String> {
    let [few, many] = ops;
    Ok(count(many)?.saturating_sub(count(few)?) / (many - few))
}

/// The instructions of a whole run of one policy.
fn decided(programs: &Path, scratch: &Path, policy: &str, requests: u64) -> Result<u64, String> {
    let out = scratch.join("callgrind.out");
    let mut command = callgrind(&out, &programs.join("vpfs-bench"));
    command.args(["count", policy, &requests.to_string()]);
    succeed(command)?;
    summary(&out)
}

/// The instructions of a proxy from its start to its end, with a workload through it.
fn proxied(programs: &Path, scratch: &Path, work: &[&str], ops: u64) -> Result<u64, String> {
    let (program, out, config) = (programs.join("vpfs"), scratch.join("callgrind.out"), scratch.join("vpfs.toml"));
    let [server, listener] = [free_port()?, free_port()?];
    let text = format!(
        "[[server]]\nname = \"s\"\naddress = \"tcp://127.0.0.1:{server}\"\n[[listener]]\nport = {listener}\n\
         [scheduler]\npolicy = \"fifo\"\n"
    );
    std::fs::write(&config, text).map_err(|error| format!("{}: {error}", config.display()))?;
    let mut serve = Command::new(&program);
    serve.args(["serve", "--servers", "1", "--listen", &format!("127.0.0.1:{server}")]);
    let _serving = Background::start(serve, server)?;
    let mut proxy = callgrind(&out, &program);
    // With one thread, none waits for work of another.
    proxy.env("TOKIO_WORKER_THREADS", "1").arg("proxy").arg("--config").arg(&config);
    let proxying = Background::start(proxy, listener)?;
    let mut workload = Command::new(&program);
    workload.args(["workload", work[0], "--quiet", "--url", &format!("tcp://127.0.0.1:{listener}/pfs")]);
    workload.args(&work[1..]).arg(ops.to_string());
    succeed(workload)?;
    proxying.terminate()?;
    summary(&out)
}

fn callgrind(out: &Path, program: &Path) -> Command {
    let mut command = Command::new("valgrind");
    command.args(["--quiet", "--tool=callgrind"]).arg(format!("--callgrind-out-file={}", out.display())).arg(program);
    command
}

/// The sum at the end of a profile.
fn summary(profile: &PathBuf) -> Result<u64, String> {
    let text = std::fs::read_to_string(profile).map_err(|error| format!("{}: {error}", profile.display()))?;
    let sum = text.lines().find_map(|line| line.strip_prefix("summary: ")?.trim().parse().ok());
    sum.ok_or_else(|| format!("{}: no summary", profile.display()))
}

fn succeed(mut command: Command) -> Result<(), String> {
    let output = command.output().map_err(|error| format!("cannot run {command:?}: {error}"))?;
    let text = || String::from_utf8_lossy(&output.stderr).into_owned();
    if output.status.success() {
        Ok(())
    } else {
        Err(format!("{command:?} failed with {}:\n{}", output.status, text()))
    }
}

fn free_port() -> Result<u16, String> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0));
    let address = listener.and_then(|listener| listener.local_addr());
    address.map(|address| address.port()).map_err(|error| format!("no port on loopback: {error}"))
}

/// A program in the background, killed when dropped.
struct Background(Child);

impl Background {
    /// Starts it and waits until it listens on this port.
    fn start(mut command: Command, port: u16) -> Result<Self, String> {
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = Self(command.spawn().map_err(|error| format!("cannot start {command:?}: {error}"))?);
        let start = Instant::now();
        while TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_err() {
            let ended = child.0.try_wait().map_err(|error| format!("{command:?}: {error}"))?;
            if ended.is_some() || start.elapsed() > Duration::from_secs(60) {
                return Err(format!("{command:?} does not listen on port {port}"));
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(child)
    }

    /// Asks it to terminate, and waits until it has.
    fn terminate(mut self) -> Result<(), String> {
        let kill = Command::new("kill").arg(self.0.id().to_string()).status();
        kill.and_then(|_| self.0.wait()).map(drop).map_err(|error| format!("cannot end the proxy: {error}"))
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_above_the_tolerance_is_a_complaint_and_one_below_is_not() {
        let complaints = [0, 999, 1200, 1201].map(|count| verdict("x", count, 1000).is_some());
        assert_eq!(complaints, [false, false, false, true]);
    }

    #[test]
    fn only_what_more_operations_add_is_counted() {
        assert_eq!(difference([10, 30], |ops| Ok(5_000 + 7 * ops)), Ok(7));
    }
}
