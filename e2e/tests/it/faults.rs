//! Faults of proxies, and of the links between them, while two applications read and write through them: one that does
//! not use what is broken notices nothing, all bytes are right, and shares are local until they are those of the sum
//! again.

use std::ops::Range;
use std::path::PathBuf;
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use vpfs_e2e::{Cluster, Daemon, Hosts, run};

/// The length of a fault, by which operations that wait for its end can be told from all others: these take a tenth.
const FAULT: Duration = Duration::from_secs(12);
/// Longer than a test takes on any machine; it ends the loads.
const LOAD: &str = "10min";

/// What wide gets for each byte of narrow on s1 and s2, which both use. Wide alone has s3 and s4: a third of its two
/// thirds of all four is left for it there, so half of what narrow gets.
const SUM: Range<f64> = 0.3..0.8;
/// Twice as much, as its weight says, if s3 and s4 do not count.
const LOCAL: Range<f64> = 1.4..2.6;

/// Processes that write or read all the time; each read is verified, and everything written is read in the end.
struct Load {
    name: &'static str,
    running: Daemon,
    trace: PathBuf,
    verify: Option<Command>,
}

impl Load {
    fn start(cluster: &Cluster, name: &'static str, servers: &[u16], kind: &str) -> Self {
        let app = name.split(' ').next().expect("a first word");
        let strips: Vec<&str> =
            (1..=Cluster::SERVERS).map(|id| if servers.contains(&id) { "128KiB" } else { "0B" }).collect();
        let ior = || {
            let mut ior = cluster.ior(app);
            ior.args(["--processes", "8", "--block", "1MiB", "--retries", "60", "--quiet", "--keep"]);
            ior.args(["--transfer", &format!("{}KiB", 128 * servers.len()), "--strip", &strips.join(",")]);
            ior.args(["--directory", &format!("/{}", name.replace(' ', "-"))]);
            ior
        };
        let writes = kind == "--write";
        if !writes {
            run(ior().arg("--write"));
        }
        let trace = cluster.dir().join(format!("{name}.csv"));
        let running = Daemon::start(cluster.dir(), name, ior().args([kind, "--time", LOAD, "--trace"]).arg(&trace));
        let mut verify = ior();
        verify.arg("--read");
        Self { name, running, trace, verify: writes.then_some(verify) }
    }

    /// Ends it, and returns how long its longest operation took.
    fn finish(mut self) -> Duration {
        self.running.signal("INT");
        let status = loop {
            // What hangs may take longer than anybody waits for a process that should end.
            if let Some(status) = self.running.ended() {
                break status;
            }
            sleep(Duration::from_millis(50));
        };
        assert!(status.success(), "{}: {status}\n{}", self.name, self.running.log());
        self.verify.iter_mut().for_each(|verify| drop(run(verify)));
        let trace = std::fs::read_to_string(&self.trace).expect("a trace");
        // rank,op,offset,size,time,end,file
        let seconds = |line: &str| {
            let times: Vec<f64> = line.split(',').skip(4).take(2).filter_map(|time| time.parse().ok()).collect();
            times[1] - times[0]
        };
        let longest = trace.lines().skip(1).map(seconds).fold(0.0, f64::max);
        println!("{}: {} operations, the longest took {longest:.2} s", self.name, trace.lines().count() - 1);
        Duration::from_secs_f64(longest)
    }
}

/// Loads on s1 and s2, which both applications use, and those of wide on s3 and on s4.
struct Loads {
    shared: Vec<Load>,
    elsewhere: Vec<Load>,
}

impl Loads {
    fn start(cluster: &Cluster) -> Self {
        let load = |name, servers: &[u16], kind| Load::start(cluster, name, servers, kind);
        Self {
            elsewhere: vec![load("wide on s3", &[3], "--read"), load("wide on s4", &[4], "--write")],
            shared: vec![
                load("narrow reads", &[1, 2], "--read"),
                load("narrow writes", &[1, 2], "--write"),
                load("wide on s1 and s2", &[1, 2], "--write"),
            ],
        }
    }
}

/// Bytes that wide and narrow got so far on s1 and s2.
fn got(cluster: &Cluster) -> [u64; 2] {
    let mut sum = [0; 2];
    for report in [1, 2].map(|server| cluster.report(server)) {
        for app in report["apps"].as_array().expect("a list") {
            let place = usize::from(app["app"] == "narrow");
            sum[place] += app["here"].as_u64().expect("bytes");
        }
    }
    sum
}

/// Waits until the shares of two seconds are as expected. Returns how long that took, these two seconds included.
fn await_shares(cluster: &Cluster, expected: &Range<f64>) -> Duration {
    let mut samples = vec![(Instant::now(), got(cluster))];
    let start = samples[0].0;
    loop {
        sleep(Duration::from_millis(200));
        let (now, after) = (Instant::now(), got(cluster));
        samples.push((now, after));
        let is_old = |(at, _): &&(Instant, [u64; 2])| now - *at >= Duration::from_secs(2);
        let ratio = samples.iter().rev().find(is_old).map(|(_, before)| {
            let [wide, narrow] = [0, 1].map(|app| (after[app] - before[app]) as f64);
            wide / narrow
        });
        if ratio.is_some_and(|ratio| expected.contains(&ratio)) {
            return start.elapsed();
        }
        assert!(start.elapsed() < Duration::from_secs(20), "shares are {ratio:?}, not {expected:?}");
    }
}

/// A fault from now on, of which the shares are known.
fn live_through_fault(cluster: &Cluster, begin: Instant) {
    let local = await_shares(cluster, &LOCAL);
    println!("local shares {local:?} after the fault was noticed");
    sleep(FAULT.saturating_sub(begin.elapsed()));
}

/// Waits until `server` has all links again, then for the shares.
fn live_on(cluster: &Cluster, server: u16) {
    let linked = cluster.await_lost(server, &[]);
    let shares = linked + await_shares(cluster, &SUM);
    println!("links are back within {linked:?}, shares within {shares:?}");
}

/// Fails if one of these operations seems to have waited for the end of the fault.
fn assert_no_stall(loads: Vec<Load>) {
    for load in loads {
        let name = load.name;
        let longest = load.finish();
        assert!(longest < FAULT / 2, "{name}: {longest:?}");
    }
}

#[test]
fn nobody_waits_for_a_proxy_that_he_does_not_use() {
    let mut cluster = Cluster::start(None);
    let loads = Loads::start(&cluster);
    await_shares(&cluster, &SUM);
    let begin = Instant::now();
    cluster.proxy_of(3).signal("STOP");
    cluster.proxy_of(4).kill();
    cluster.await_lost(1, &[3, 4]);
    live_through_fault(&cluster, begin);
    cluster.proxy_of(3).signal("CONT");
    cluster.restart(4);
    live_on(&cluster, 1);
    let table = run(&mut cluster.peers(&[]));
    assert!(table.contains("proxy of s1") && table.contains("proxy of s4") && table.contains("elsewhere"), "{table}");
    assert_no_stall(loads.shared);
    for load in loads.elsewhere {
        let name = load.name;
        assert!(load.finish() > FAULT / 2, "{name} has operations at the proxy that hangs or was killed");
    }
    let log = cluster.proxy_of(1).log();
    assert!(log.matches("cannot be reached").count() <= 2, "told once, not each second:\n{log}");
}

#[test]
fn nobody_waits_for_a_link_between_proxies() {
    let Some(hosts) = Hosts::new() else { return };
    let mut cluster = Cluster::start(Some(hosts));
    let loads = Loads::start(&cluster);
    await_shares(&cluster, &SUM);
    let begin = Instant::now();
    cluster.set_cut(&[1], &[3], true);
    cluster.await_lost(1, &[3]);
    cluster.await_lost(3, &[1]);
    cluster.await_lost(2, &[]);
    // The rest of a partition in halves.
    cluster.set_cut(&[1, 2], &[3, 4], true);
    cluster.await_lost(1, &[3, 4]);
    cluster.await_lost(4, &[1, 2]);
    live_through_fault(&cluster, begin);
    cluster.set_cut(&[1, 2], &[3, 4], false);
    live_on(&cluster, 1);
    live_on(&cluster, 4);
    assert_no_stall(loads.shared);
    assert_no_stall(loads.elsewhere);
    let log = cluster.proxy_of(1).log();
    // A short absence is not told.
    let absences = log.matches("cannot be reached: shares").count();
    assert!(absences <= 2, "one line for each peer that is gone, not each second:\n{log}");
}
