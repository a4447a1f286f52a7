//! Several proxies on hosts of their own, as network namespaces on one bridge, or on loopback: faults of proxies and of
//! the links between them while two applications read and write, and clients that are redirected.
//!
//! An application that does not use what is broken notices nothing, all bytes are right, and shares are local until
//! they are those of the sum again. Needs root, `ip` and `nft`; without them a test is skipped, and says so.

use std::fmt::Write;
use std::ops::Range;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::Value;
use vpfs_e2e::{Daemon, Hosts, await_some, free_ports, ours, requirements, run, vpfs, write_file};

/// How long is waited for what takes a moment.
const PATIENCE: Duration = Duration::from_secs(20);

/// Embedded servers on disks of 15 MB/s, proxies that share by the sum over all of them, and two applications with
/// listeners of their own: *wide*, of weight 2, and *narrow*, of weight 1.
#[derive(Debug)]
struct Cluster {
    proxies: Vec<Daemon>,
    _servers: Daemon,
    network: Network,
    dir: tempfile::TempDir,
}

#[derive(Debug)]
enum Network {
    /// All on 127.0.0.1, at ports from this one.
    Loopback(u16),
    /// Each proxy on a host of its own, servers and clients on the first one.
    Hosts(Hosts),
}

#[derive(Clone, Copy)]
enum End {
    Server,
    Wide,
    Narrow,
    Peer,
}

impl Network {
    fn address(&self, end: End, server: u16) -> String {
        match (self, end) {
            (Self::Loopback(port), _) => format!("127.0.0.1:{}", port + end as u16 * Cluster::SERVERS + server - 1),
            (Self::Hosts(_), End::Server) => format!("10.77.0.100:{}", 3333 + server),
            (Self::Hosts(_), _) => format!("10.77.0.{server}:{}", 5334 + end as u16),
        }
    }

    /// `name = "address"` of all servers.
    fn table(&self, end: End, scheme: &str) -> String {
        let of = |server| format!("s{server} = \"{scheme}{}\"", self.address(end, server));
        (1..=Cluster::SERVERS).map(of).collect::<Vec<_>>().join(", ")
    }

    /// The vpfs command on a host, of which 0 has clients and servers.
    fn on(&self, host: u16) -> Command {
        match self {
            Self::Loopback(_) => Command::new(vpfs()),
            Self::Hosts(hosts) => hosts.on(host),
        }
    }

    fn config(&self) -> String {
        let mut text = String::new();
        for server in 1..=Cluster::SERVERS {
            let address = self.address(End::Server, server);
            let _ = writeln!(text, "[[server]]\nname = \"s{server}\"\naddress = \"tcp://{address}\"\n");
        }
        for (app, end, weight) in [("wide", End::Wide, 2), ("narrow", End::Narrow, 1)] {
            let own = self.table(end, "tcp://");
            let _ = writeln!(text, "[[listener]]\napp = \"{app}\"\naddresses = {{ {own} }}\n");
            let _ = writeln!(text, "[[app]]\nname = \"{app}\"\nweight = {weight}\n");
        }
        text + &format!(
            "[apps]\nauto = \"off\"\n[scheduler]\npolicy = \"sfq-d\"\ndepth = 4\nsharing = \"threshold\"\n\
             broadcast_threshold = \"1MiB\"\n\
             [peers]\naddresses = {{ {} }}\nshared_key = \"peers.key\"\nsockets = \"sockets\"\n",
            self.table(End::Peer, "")
        )
    }
}

impl Cluster {
    /// Servers are s1 to s4; with hosts, that of server n is host n.
    const SERVERS: u16 = 4;

    /// Starts everything, and waits until all proxies are connected with each other. Without hosts, all are on
    /// 127.0.0.1.
    fn start(hosts: Option<Hosts>) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let network = hosts.map_or_else(|| Network::Loopback(free_ports(4 * Self::SERVERS)), Network::Hosts);
        let key = dir.path().join("peers.key");
        write_file(&key, "0123456789abcdef".repeat(4));
        std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o600)).expect("its mode");
        write_file(dir.path().join("vpfs.toml"), network.config());
        let mut serve = network.on(0);
        serve.args(["serve", "--device", "throttled-disk", "--listen", &network.address(End::Server, 1)]);
        let mut servers = Daemon::start(dir.path(), "servers", &mut serve);
        servers.await_log("serving");
        let mut cluster = Self { proxies: Vec::new(), _servers: servers, network, dir };
        cluster.proxies = (1..=Self::SERVERS).map(|server| cluster.proxy(server)).collect();
        for server in 1..=Self::SERVERS {
            cluster.await_lost(server, &[]);
        }
        cluster
    }

    fn proxy(&self, server: u16) -> Daemon {
        let name = format!("s{server}");
        let mut command = self.network.on(server);
        command.args(["proxy", "--server", &name, "--config"]).arg(self.dir.path().join("vpfs.toml"));
        let mut proxy = Daemon::start(self.dir.path(), &name, &mut command);
        proxy.await_log("ready");
        proxy
    }

    fn dir(&self) -> &Path {
        self.dir.path()
    }

    fn proxy_of(&mut self, server: u16) -> &mut Daemon {
        &mut self.proxies[usize::from(server) - 1]
    }

    /// Starts the proxy of a server again.
    fn restart(&mut self, server: u16) {
        *self.proxy_of(server) = self.proxy(server);
    }

    /// `vpfs workload ior` as an application: *wide* or *narrow*.
    fn ior(&self, app: &str) -> Command {
        let end = if app == "wide" { End::Wide } else { End::Narrow };
        let mut command = self.network.on(0);
        command.args(["workload", "ior", "--url", &format!("tcp://{}/pfs", self.network.address(end, 1))]);
        command
    }

    /// Cuts or joins the links between proxies of one side and those of the other; clients and servers notice nothing.
    ///
    /// # Panics
    /// Without hosts.
    fn set_cut(&self, one: &[u16], other: &[u16], is_cut: bool) {
        let Network::Hosts(hosts) = &self.network else { panic!("links are cut between hosts only") };
        for (one, other) in one.iter().flat_map(|one| other.iter().map(move |other| (*one, *other))) {
            for (from, to) in [(one, other), (other, one)] {
                // Frames go to an address that nobody has.
                let at = format!("10.77.0.{to}");
                hosts.ip(
                    from,
                    &match is_cut {
                        true => format!("neigh replace {at} lladdr 02:00:00:00:00:01 dev eth0 nud permanent"),
                        false => format!("neigh delete {at} dev eth0"),
                    },
                );
            }
        }
    }

    /// What the proxy of a server knows about the others, and what applications got.
    fn report(&self, server: u16) -> Value {
        let text = run(&mut self.peers(&["--json", "--server", &format!("s{server}")]));
        let reports: Value = serde_json::from_str(&text).expect("JSON");
        reports[0].clone()
    }

    fn peers(&self, args: &[&str]) -> Command {
        let config: PathBuf = self.dir.path().join("vpfs.toml");
        let mut command = Command::new(vpfs());
        command.arg("peers").args(args).arg("--config").arg(config);
        command
    }

    /// Waits until the proxy of `server` has links to all others but those of `lost`. Returns how long that took.
    ///
    /// # Panics
    /// If it takes more than 20 s.
    fn await_lost(&self, server: u16, lost: &[u16]) -> Duration {
        let start = Instant::now();
        let expected: Vec<String> = lost.iter().map(|id| format!("s{id}")).collect();
        await_some(PATIENCE, || {
            let report = self.report(server);
            let peers = report["peers"].as_array().expect("a list").iter();
            let unreached = peers.filter(|peer| peer["connected"] == false).filter_map(|peer| peer["server"].as_str());
            let is_so = unreached.eq(expected.iter().map(String::as_str));
            if is_so { Ok(start.elapsed()) } else { Err(format!("s{server}, not {lost:?}: {report}")) }
        })
    }
}

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
        assert!(start.elapsed() < PATIENCE, "shares are {ratio:?}, not {expected:?}");
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

const PROXIES: u16 = Hosts::COUNT;

/// The servers with which the proxy of `server` is connected.
fn reached(config: &Path, server: &str) -> Vec<String> {
    let text = run(ours(&["peers", "--json", "--server", server, "--config"]).arg(config));
    let reports: Value = serde_json::from_str(&text).expect("JSON");
    let peers = reports[0]["peers"].as_array().expect("a list").iter();
    let connected = peers.filter(|peer| peer["connected"] == true).filter_map(|peer| peer["server"].as_str());
    connected.map(str::to_owned).collect()
}

/// Waits until these are connected, and returns how long that took.
fn await_reached(config: &Path, server: &str, expected: &[&str]) -> Duration {
    let start = Instant::now();
    await_some(PATIENCE, || {
        let reached = reached(config, server);
        if reached == expected { Ok(start.elapsed()) } else { Err(format!("{server} has {reached:?}")) }
    })
}

/// The configuration of four servers as OrangeFS has it.
fn servers_own_config() -> String {
    let names = || (1..=PROXIES).map(|id| format!("s{id}"));
    let aliases: String =
        names().zip(3334..).map(|(name, port)| format!("Alias {name} tcp://10.77.0.100:{port}\n")).collect();
    let ranges = |first: u64| -> String {
        names()
            .zip(0..)
            .map(|(name, id): (_, u64)| format!("Range {name} {}-{}\n", first + id * 100, first + id * 100 + 99))
            .collect()
    };
    format!(
        "<Defaults>\nUnexpectedRequests 50\n</Defaults>\n<Aliases>\n{aliases}</Aliases>\n<FileSystem>\nName pfs\nID 1001\n\
         RootHandle 10\n<MetaHandleRanges>\n{}</MetaHandleRanges>\n<DataHandleRanges>\n{}</DataHandleRanges>\n\
         </FileSystem>\n",
        ranges(3),
        ranges(1 << 20)
    )
}

/// What applications got through the proxy of the first server, in bytes of cost.
fn served(config: &Path) -> u64 {
    let text = run(ours(&["peers", "--json", "--server", "s1", "--config"]).arg(config));
    let reports: Value = serde_json::from_str(&text).expect("JSON");
    reports[0]["apps"].as_array().expect("a list").iter().filter_map(|app| app["here"].as_u64()).sum()
}

#[test]
fn clients_are_redirected_and_notice_nothing() {
    let Some(hosts) = Hosts::new().filter(|_| requirements::are_present("nft", &["nft"])) else { return };
    let dir = tempfile::tempdir().expect("a directory");
    let (conf, cluster) = (dir.path().join("fs.conf"), dir.path().join("cluster"));
    write_file(&conf, servers_own_config());
    let init = ["init", "--file-system", "pfs", "--redirect", "--from"];
    run(ours(&init).arg(&conf).arg("--output").arg(&cluster));
    let config = cluster.join("vpfs.toml");
    // `[peers]` is the last table. Sockets in /run could be those of another cluster.
    let text = std::fs::read_to_string(&config).expect("vpfs.toml") + "sockets = \"sockets\"\n";
    write_file(&config, text);
    let mut serve = hosts.on(0);
    let _servers =
        Daemon::start(dir.path(), "servers", serve.args(["serve", "--servers", "4", "--listen", "10.77.0.100:3334"]));
    let mut proxies: Vec<Daemon> = (1..=PROXIES)
        .map(|id| {
            let (name, mut command) = (format!("s{id}"), hosts.on(0));
            Daemon::start(dir.path(), &name, command.args(["proxy", "--server", &name, "--config"]).arg(&config))
        })
        .collect();
    proxies.iter_mut().for_each(|proxy| proxy.await_log("ready"));
    await_reached(&config, "s1", &["s2", "s3", "s4"]);
    let load = |host| {
        let ior = ["workload", "ior", "--processes", "2", "--transfer", "1MiB", "--block", "8MiB"];
        run(hosts.on(host).args(ior).args(["--url", "tcp://10.77.0.100:3334/pfs"]));
    };
    load(1);
    assert_eq!(served(&config), 0, "nobody is redirected before the rules are there");
    run(hosts.program(0, Path::new("nft")).arg("-f").arg(cluster.join("vpfs.nft")));
    load(1);
    let redirected = served(&config);
    assert!(redirected >= 2 << 20, "a quarter of 16 MiB, written and read: {redirected}");
    load(0);
    assert_eq!(served(&config), redirected, "servers' own hosts reach them directly");
    run(hosts.program(0, Path::new("nft")).args(["delete", "table", "ip", "vpfs"]));
    load(1);
    assert_eq!(served(&config), redirected, "the rules are gone");
}
