//! Jobs of real Slurm (munged, slurmctld, and a slurmd for each node, all on this host) get their shares at a proxy.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;
use vpfs_e2e::requirements::are_present;
use vpfs_e2e::{Daemon, await_some, free_ports, output, proxy_config, run, run_until_it_succeeds, vpfs};

/// Slurm starts jobs when it likes to.
const PATIENCE: Duration = Duration::from_secs(60);

/// Nodes c1, c2 and c3 have the addresses 127.0.110.1 and so on.
const NODES: std::ops::RangeInclusive<u16> = 1..=3;

fn address(node: u16) -> String {
    format!("127.0.110.{node}")
}

struct Site {
    dir: tempfile::TempDir,
    /// In the order in which they end.
    daemons: Vec<Daemon>,
    slurmctld: Option<Daemon>,
    port: u16,
}

impl Site {
    /// With these rules for jobs, and these tables in the configuration of the proxy.
    fn start(rules: &str, tables: &str) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let mut site = Self { dir, daemons: Vec::new(), slurmctld: None, port: free_ports(8) };
        site.start_storage(tables);
        site.start_slurm();
        site.write_rules(rules);
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

    fn write_rules(&self, rules: &str) {
        let agent = "[agent]\nconfig = \"vpfs.toml\"\ntoken = \"slurm.token\"\ninterval = \"10min\"\nttl = \"1h\"\n\
                     timeout = \"5s\"\nreach = \"sockets\"\nwake = \"wake.sock\"\n";
        std::fs::write(self.path("slurm.toml"), format!("{agent}{rules}")).expect("a file");
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command.env("SLURM_CONF", self.path("slurm.conf")).current_dir(self.dir.path());
        command
    }

    fn start_storage(&mut self, tables: &str) {
        let [server, proxy] = [self.port, self.port + 1];
        let rest = "[peers]\naddresses = { s1 = \"127.0.0.1:1\" }\nsecurity = \"none\"\nsockets = \"sockets\"\n\
                    [[owner]]\nname = \"slurm\"\ntoken = \"slurm.token\"\n";
        let rest = format!("{rest}{tables}");
        std::fs::write(self.path("vpfs.toml"), proxy_config(1, server, proxy, &rest)).expect("a file");
        std::fs::write(self.path("slurm.token"), "0123456789abcdef\n").expect("a file");
        run(Command::new("chmod").arg("600").arg(self.path("slurm.token")));
        let serve = Daemon::serve(self.dir.path(), server..server + 1, &["--device", "hdd"]);
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
        for node in NODES.map(|node| format!("c{node}")) {
            let mut command = self.command(Path::new("slurmd"));
            let slurmd = Daemon::start(self.dir.path(), &node, command.args(["-D", "-N", &node]));
            self.daemons.push(slurmd);
        }
        self.daemons.push(munged);
        await_some(PATIENCE, || {
            let nodes = run(self.command(Path::new("sinfo")).args(["--noheader", "--format=%D %t"]));
            if nodes.trim() == "3 idle" { Ok(()) } else { Err(nodes) }
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
        let node = |node| {
            let (address, port) = (address(node), port + 2 + node);
            format!("NodeName=c{node} NodeHostname=localhost NodeAddr={address} Port={port} CPUs=2\n")
        };
        let nodes: String = NODES.map(node).collect();
        format!(
            "ClusterName=vpfs\nSlurmctldHost=localhost(127.0.0.1)\nSlurmctldPort={}\nSlurmUser={user}\nSlurmdUser={user}\n\
             AuthType=auth/munge\nAuthInfo=socket={dir}/munge.sock\nCredType=cred/munge\nMpiDefault=none\n\
             StateSaveLocation={dir}/state\nSlurmdSpoolDir={dir}/spool-%n\nSlurmctldPidFile={dir}/slurmctld.pid\n\
             SlurmdPidFile={dir}/slurmd-%n.pid\nProctrackType=proctrack/pgid\nTaskPlugin=task/none\nSwitchType=switch/none\n\
             SelectType=select/cons_tres\nSelectTypeParameters=CR_CPU\nReturnToService=2\n\
             SchedulerParameters=sched_min_interval=0\nAccountingStorageType=accounting_storage/none\n\
             JobAcctGatherType=jobacct_gather/none\nPrologSlurmctld={dir}/wake\nEpilogSlurmctld={dir}/wake\n\
             {nodes}PartitionName=batch Nodes=c[1-3] Default=YES MaxTime=INFINITE State=UP\n",
            port + 2,
        )
    }

    fn wake_script(&self) -> String {
        let (vpfs, dir) = (vpfs(), self.dir.path().display());
        format!("#!/bin/sh\nexec {} slurm wake --socket {dir}/wake.sock\n", vpfs.display())
    }

    fn submit(&self, options: &[&str]) -> String {
        self.submit_script("sleep 300", options)
    }

    fn submit_script(&self, script: &str, options: &[&str]) -> String {
        let mut command = self.command(Path::new("sbatch"));
        command.args(["--parsable", "--output=/dev/null", "--wrap", script]).args(options);
        run(&mut command).trim().to_owned()
    }

    /// A job of a project that writes all that it can, from a node of its own.
    fn submit_writer(&self, project: &str) -> String {
        let url = format!("tcp://127.0.0.1:{}/pfs", self.port + 1);
        let load = "workload ior --processes 4 --transfer 64KiB --block 4MiB --write --time 10min --quiet";
        let bind = "--bind 127.0.110.${SLURMD_NODENAME#c}";
        let script = format!("exec {} {load} {bind} --url {url} --directory /$SLURM_JOB_ID", vpfs().display());
        self.submit_script(&script, &["--nodes=1", "--exclusive", &format!("--account={project}")])
    }

    /// What jobs write, by job, in some seconds from now.
    fn rates(&self) -> BTreeMap<String, f64> {
        let top = ["top", "--once", "--interval", "2", "--json", "--config"];
        let text = run(Command::new(vpfs()).args(top).arg(self.path("vpfs.toml")));
        let told: Value = serde_json::from_str(&text).expect("JSON");
        let rows = told["apps"].as_array().expect("applications").iter();
        let job = |row: &Value| Some(row["app"].as_str()?.strip_prefix("slurm:")?.to_owned());
        rows.filter_map(|row| Some((job(row)?, row["bytes_per_second"].as_f64()?))).collect()
    }

    /// Waits until the rates of these jobs are to each other as these numbers, within a tenth.
    fn await_rates(&self, due: &[(&String, f64)]) {
        let all_due: f64 = due.iter().map(|(_, due)| due).sum();
        await_some(PATIENCE, || {
            let rates = self.rates();
            let rate = |job: &String| rates.get(job).copied().unwrap_or_default();
            let all: f64 = due.iter().map(|(job, _)| rate(job)).sum();
            let is_due = |(job, due): &(&String, f64)| (rate(job) / all / (due / all_due) - 1.0).abs() < 0.1;
            if due.iter().all(is_due) { Ok(()) } else { Err(format!("{rates:?} instead of {due:?}\n{}", self.log())) }
        });
    }

    fn cancel(&self, job: &str) {
        run_until_it_succeeds(self.command(Path::new("scancel")).arg(job));
    }

    /// Processes of jobs would outlive the test.
    fn await_no_jobs(&self) {
        await_some(PATIENCE, || {
            let jobs = run(self.command(Path::new("squeue")).arg("--noheader"));
            if jobs.trim().is_empty() { Ok(()) } else { Err(jobs) }
        });
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
    let rule = |weight: u32| {
        format!("[[rule]]\ncomment = \"vip\"\nname = \"a*\"\nweight = {weight}\nshare = \"{{account}}/{{user}}\"\n")
    };
    let mut site = Site::start(&rule(2), "");
    let vip = site.submit(&["--nodes=1", "--exclusive", "--comment=run 7 vip", "--job-name=a\";[[app]]\nb"]);
    site.await_apps(&[format!("{vip} x2 1 0")]);
    // Rules that are not valid change nothing.
    site.write_rules("[[rule]]\nwieght = 3\n");
    site.daemons[0].signal("HUP");
    site.daemons[0].await_log("wieght");
    site.write_rules(&rule(3));
    site.daemons[0].signal("HUP");
    site.await_apps(&[format!("{vip} x3 1 0")]);
    let url = format!("tcp://127.0.0.1:{}/pfs", site.port + 1);
    let load = ["workload", "ior", "-n", "1", "-t", "64KiB", "-b", "1MiB", "--write", "--quiet", "--url", &url];
    run(Command::new(vpfs()).args(load).args(["--bind", &address(1)]));
    let top = ["top", "--once", "--interval", "1", "--json", "--config"];
    let top = run(Command::new(vpfs()).args(top).arg(site.path("vpfs.toml")));
    assert!(top.contains(&format!("slurm:{vip}")), "{top}");

    // Two of one user on one node are told apart by nothing.
    let array = site.submit(&["--nodelist=c3", "--ntasks=1", "--array=0-1"]);
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
    site.cancel(&array);
    site.cancel(&vip);
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
    site.cancel(&last);
    site.await_no_jobs();
}

/// Projects 3:1; a second job of the first one splits its share, and gives it back at its end.
#[test]
fn jobs_divide_the_share_of_their_project() {
    if !are_present("slurm", &["munged", "slurmctld", "slurmd", "squeue"]) {
        return;
    }
    let tables = "[[share]]\nname = \"bio\"\nweight = 3\n[[share]]\nname = \"chem\"\n";
    let site = Site::start("[[rule]]\nshare = \"{account}\"\n", tables);
    let [bio, chem] = ["bio", "chem"].map(|project| site.submit_writer(project));
    site.await_rates(&[(&bio, 3.0), (&chem, 1.0)]);
    let second = site.submit_writer("bio");
    site.await_rates(&[(&bio, 1.5), (&second, 1.5), (&chem, 1.0)]);
    site.cancel(&second);
    site.await_rates(&[(&bio, 3.0), (&chem, 1.0)]);
    [&bio, &chem].into_iter().for_each(|job| site.cancel(job));
    site.await_no_jobs();
}
