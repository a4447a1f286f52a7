//! Jobs of real Slurm (munged, slurmctld, and a slurmd for each node, all on this host) get their shares at a proxy.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;
use vpfs_e2e::requirements::are_present;
use vpfs_e2e::{Daemon, await_some, free_ports, output, proxy_config, run, run_until_it_succeeds, vpfs};

/// Slurm starts jobs when it likes to.
const PATIENCE: Duration = Duration::from_secs(60);

/// The addresses of nodes c1 and c2.
const NODE: &str = "127.0.110.1";
const OTHER: &str = "127.0.110.2";

struct Site {
    dir: tempfile::TempDir,
    /// In the order in which they end.
    daemons: Vec<Daemon>,
    slurmctld: Option<Daemon>,
    port: u16,
}

impl Site {
    fn start() -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let mut site = Self { dir, daemons: Vec::new(), slurmctld: None, port: free_ports(8) };
        site.start_storage();
        site.start_slurm();
        let rules = "[agent]\nconfig = \"vpfs.toml\"\ntoken = \"slurm.token\"\ninterval = \"10min\"\nttl = \"1h\"\n\
                     timeout = \"5s\"\nreach = \"sockets\"\nwake = \"wake.sock\"\n\
                     [[rule]]\ncomment = \"vip\"\nweight = 3\nshare = \"{account}/{user}\"\n";
        std::fs::write(site.path("slurm.toml"), rules).expect("a file");
        let mut command = site.command(&vpfs());
        let mut agent = Daemon::start(
            site.dir.path(),
            "agent",
            command.args(["slurm", "agent", "--rules"]).arg(site.path("slurm.toml")),
        );
        agent.await_log("pushing jobs");
        site.daemons.insert(0, agent);
        site
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command.env("SLURM_CONF", self.path("slurm.conf")).current_dir(self.dir.path());
        command
    }

    fn start_storage(&mut self) {
        let [server, proxy] = [self.port, self.port + 1];
        let rest = "[peers]\naddresses = { s1 = \"127.0.0.1:1\" }\nsecurity = \"none\"\nsockets = \"sockets\"\n\
                    [[owner]]\nname = \"slurm\"\ntoken = \"slurm.token\"\n";
        std::fs::write(self.path("vpfs.toml"), proxy_config(1, server, proxy, rest)).expect("a file");
        std::fs::write(self.path("slurm.token"), "0123456789abcdef\n").expect("a file");
        run(Command::new("chmod").arg("600").arg(self.path("slurm.token")));
        let listen = format!("127.0.0.1:{server}");
        let mut serve = Daemon::start(
            self.dir.path(),
            "serve",
            Command::new(vpfs()).args(["serve", "--servers", "1", "--listen", &listen]),
        );
        serve.await_port(server);
        let mut command = Command::new(vpfs());
        command.args(["proxy", "--config"]).arg(self.path("vpfs.toml")).env("STATE_DIRECTORY", self.dir.path());
        let mut proxy = Daemon::start(self.dir.path(), "proxy", &mut command);
        proxy.await_log("ready");
        self.daemons.extend([proxy, serve]);
    }

    fn start_slurm(&mut self) {
        let dir = self.dir.path().display().to_string();
        std::fs::write(self.path("munge.key"), [7; 64]).expect("a file");
        run(Command::new("chmod").arg("400").arg(self.path("munge.key")));
        let file = |option: &str, name: &str| format!("--{option}={dir}/{name}");
        let options = [
            file("socket", "munge.sock"),
            file("key-file", "munge.key"),
            file("pid-file", "munged.pid"),
            file("seed-file", "munge.seed"),
        ];
        let mut command = Command::new("munged");
        let munged = Daemon::start(self.dir.path(), "munged", command.args(["--foreground", "--force"]).args(options));
        run_until_it_succeeds(Command::new("munge").arg("--no-input").arg(file("socket", "munge.sock")));
        std::fs::write(self.path("slurm.conf"), self.slurm_conf()).expect("a file");
        std::fs::write(self.path("wake"), self.wake_script()).expect("a file");
        run(Command::new("chmod").arg("755").arg(self.path("wake")));
        std::fs::create_dir(self.path("state")).expect("a directory");
        self.slurmctld = Some(self.start_slurmctld());
        for node in ["c1", "c2"] {
            let mut command = self.command(Path::new("slurmd"));
            let slurmd = Daemon::start(self.dir.path(), node, command.args(["-D", "-N", node]));
            self.daemons.push(slurmd);
        }
        self.daemons.push(munged);
        await_some(PATIENCE, || {
            let nodes = run(self.command(Path::new("sinfo")).args(["--noheader", "--format=%D %t"]));
            if nodes.trim() == "2 idle" { Ok(()) } else { Err(nodes) }
        });
    }

    fn start_slurmctld(&self) -> Daemon {
        let mut slurmctld = Daemon::start(self.dir.path(), "slurmctld", self.command(Path::new("slurmctld")).arg("-D"));
        slurmctld.await_port(self.port + 2);
        slurmctld
    }

    fn slurm_conf(&self) -> String {
        let (dir, port) = (self.dir.path().display(), self.port);
        let user = run(Command::new("id").arg("-un"));
        let user = user.trim();
        format!(
            "ClusterName=vpfs\nSlurmctldHost=localhost(127.0.0.1)\nSlurmctldPort={}\nSlurmUser={user}\nSlurmdUser={user}\n\
             AuthType=auth/munge\nAuthInfo=socket={dir}/munge.sock\nCredType=cred/munge\nMpiDefault=none\n\
             StateSaveLocation={dir}/state\nSlurmdSpoolDir={dir}/spool-%n\nSlurmctldPidFile={dir}/slurmctld.pid\n\
             SlurmdPidFile={dir}/slurmd-%n.pid\nProctrackType=proctrack/pgid\nTaskPlugin=task/none\nSwitchType=switch/none\n\
             SelectType=select/cons_tres\nSelectTypeParameters=CR_CPU\nReturnToService=2\n\
             SchedulerParameters=sched_min_interval=0\nAccountingStorageType=accounting_storage/none\n\
             JobAcctGatherType=jobacct_gather/none\nPrologSlurmctld={dir}/wake\nEpilogSlurmctld={dir}/wake\n\
             NodeName=c1 NodeHostname=localhost NodeAddr={NODE} Port={} CPUs=2\n\
             NodeName=c2 NodeHostname=localhost NodeAddr={OTHER} Port={} CPUs=2\n\
             PartitionName=batch Nodes=c[1-2] Default=YES MaxTime=INFINITE State=UP\n",
            port + 2,
            port + 3,
            port + 4,
        )
    }

    fn wake_script(&self) -> String {
        let (vpfs, dir) = (vpfs(), self.dir.path().display());
        format!("#!/bin/sh\nexec {} slurm wake --socket {dir}/wake.sock\n", vpfs.display())
    }

    fn submit(&self, options: &[&str]) -> String {
        let mut command = self.command(Path::new("sbatch"));
        command.args(["--parsable", "--output=/dev/null", "--wrap", "sleep 300"]).args(options);
        run(&mut command).trim().to_owned()
    }

    /// The applications at the proxy, as names with weights and numbers of clients and users.
    fn apps(&self) -> Vec<String> {
        let text = run(Command::new(vpfs()).args(["app", "ls", "--json", "--config"]).arg(self.path("vpfs.toml")));
        let told: Value = serde_json::from_str(&text).expect("JSON");
        let list = |app: &Value, key: &str| app[key].as_array().map_or(0, Vec::len);
        let show = |app: &Value| {
            let (name, weight) = (app["name"].as_str().expect("a name"), &app["weight"]);
            format!("{name} x{weight} {} {}", list(app, "clients"), list(app, "uids"))
        };
        let sets = told[0]["sets"].as_array().expect("sets").iter();
        sets.flat_map(|set| set["apps"].as_array().expect("apps")).map(show).collect()
    }

    fn await_apps(&self, expected: &[String]) {
        await_some(PATIENCE, || {
            let apps = self.apps();
            if apps == expected { Ok(()) } else { Err(format!("{apps:?} instead of {expected:?}\n{}", self.log())) }
        });
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.path("agent.log")).unwrap_or_default()
    }
}

/// The agent reads jobs every ten minutes by itself, so all of this is known because slurmctld wakes it.
#[test]
fn a_job_has_its_share_from_its_start_to_its_end() {
    if !are_present("slurm", &["munged", "slurmctld", "slurmd", "squeue"]) {
        return;
    }
    let mut site = Site::start();
    let vip = site.submit(&["--nodes=1", "--exclusive", "--comment=run 7 vip", "--job-name=a\";[[app]]\nb"]);
    site.await_apps(&[format!("{vip} x3 1 0")]);
    let url = format!("tcp://127.0.0.1:{}/pfs", site.port + 1);
    let load = ["workload", "ior", "-n", "1", "-t", "64KiB", "-b", "1MiB", "--write", "--quiet", "--url", &url];
    run(Command::new(vpfs()).args(load).args(["--bind", NODE]));
    let top = ["top", "--once", "--interval", "1", "--json", "--config"];
    let top = run(Command::new(vpfs()).args(top).arg(site.path("vpfs.toml")));
    assert!(top.contains(&format!("slurm:{vip}")), "{top}");

    // Two of one user on one node are told apart by nothing.
    let array = site.submit(&["--nodes=1", "--ntasks=1", "--array=0-1"]);
    let mut tasks = [format!("{array}_0 x1 1 1"), format!("{array}_1 x1 1 1")];
    // Slurm gives the last task the number of the array.
    tasks.reverse();
    site.await_apps(&[&[format!("{vip} x3 1 0")], &tasks[..]].concat());
    assert!(site.log().contains("cannot be told apart"), "{}", site.log());

    // slurmctld is away: nothing waits, and what is known stays.
    let mut slurmctld = site.slurmctld.take().expect("it runs");
    slurmctld.signal("TERM");
    slurmctld.wait();
    let began = Instant::now();
    let woken = output(&mut Command::new(site.path("wake")));
    assert!(woken.status.success() && began.elapsed() < PATIENCE, "{woken:?}");
    await_some(PATIENCE, || if site.log().contains("jobs cannot be read") { Ok(()) } else { Err(site.log()) });
    assert_eq!(site.apps().len(), 3);
    site.slurmctld = Some(site.start_slurmctld());
    run_until_it_succeeds(site.command(Path::new("scancel")).arg(&array));
    run_until_it_succeeds(site.command(Path::new("scancel")).arg(&vip));
    site.await_apps(&[]);

    // Without an agent, slurmctld starts jobs as ever.
    drop(site.daemons.remove(0));
    let woken = output(&mut Command::new(site.path("wake")));
    assert!(woken.status.success(), "{woken:?}");
    let last = site.submit(&["--nodes=1"]);
    await_some(PATIENCE, || {
        let state = run(site.command(Path::new("squeue")).args(["--noheader", "--format=%T", "--jobs", &last]));
        if state.trim() == "RUNNING" { Ok(()) } else { Err(state) }
    });
    run(site.command(Path::new("scancel")).arg(&last));
    // Their processes would outlive the test.
    await_some(PATIENCE, || {
        let jobs = run(site.command(Path::new("squeue")).arg("--noheader"));
        if jobs.trim().is_empty() { Ok(()) } else { Err(jobs) }
    });
}
