//! Jobs of real Slurm (munged, slurmctld, and a slurmd for each node, all on this host) get their shares at a proxy.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant, SystemTime};

use serde_json::Value;
use vpfs_e2e::requirements::{are_present, missing};
use vpfs_e2e::{
    Daemon, await_some, free_ports, ours, output, proxy_config, run, run_until_it_succeeds, stdout, vpfs, write_file,
    write_program,
};

/// Slurm starts jobs when it likes to.
const PATIENCE: Duration = Duration::from_secs(60);

/// Nodes c1, c2 and c3 have the addresses 127.0.110.1 and so on.
const NODES: std::ops::RangeInclusive<u16> = 1..=3;

fn address(node: u16) -> String {
    format!("127.0.110.{node}")
}

/// Names, addresses and ports of their own for two slurmctld on this host: the first one, and its backup.
const CONTROLLERS: [(&str, &str); 2] = [("ctl1", "127.0.110.11"), ("ctl2", "127.0.110.12")];

/// Runs one of them in the directory `$2`. By its file of a process id, slurmctld ends the one before it.
const CONTROLLER: &str = r#"
set -e
hostname "$1"
mount --make-rprivate /
mount --bind "$2/hosts" /etc/hosts
mount -t tmpfs none "$2/pid"
exec slurmctld -D
"#;

struct Site {
    dir: tempfile::TempDir,
    /// In the order in which they end.
    daemons: Vec<Daemon>,
    /// One, or one for each of [`CONTROLLERS`].
    slurmctld: Vec<Daemon>,
    controllers: usize,
    /// The storage is a directory that node c1 mounts, instead of a server behind a proxy.
    is_mounted: bool,
    port: u16,
}

impl Drop for Site {
    fn drop(&mut self) {
        if self.is_mounted {
            output(Command::new("umount").arg("--lazy").arg(self.path("mnt")));
        }
    }
}

impl Site {
    /// With these rules for jobs, and these tables in the configuration of the proxy.
    fn start(rules: &str, tables: &str) -> Self {
        Self::start_with(1, rules, tables)
    }

    fn start_with(controllers: usize, rules: &str, tables: &str) -> Self {
        let mut site = Self::new(controllers, false);
        site.start_storage(tables);
        site.start_slurm(rules);
        site
    }

    fn start_mounted(rules: &str) -> Self {
        let mut site = Self::new(1, true);
        site.start_mount();
        site.start_slurm(rules);
        site
    }

    fn new(controllers: usize, is_mounted: bool) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        Self { dir, daemons: Vec::new(), slurmctld: Vec::new(), controllers, is_mounted, port: free_ports(8) }
    }

    /// And the agent.
    fn start_slurm(&mut self, rules: &str) {
        self.start_controllers_and_nodes();
        self.write_rules(rules);
        let mut command = self.command(&vpfs());
        let command = command.args(["slurm", "agent", "--rules"]).arg(self.path("slurm.toml"));
        let mut agent = Daemon::start(self.dir.path(), "agent", command);
        agent.await_log("pushing jobs");
        self.daemons.insert(0, agent);
    }

    fn write_rules(&self, rules: &str) {
        // slurmctld says that a job ends; when it has ended, with a backup or control groups later, nobody does.
        let interval = if self.controllers == 1 && !self.is_mounted { "10min" } else { "5s" };
        let agent = format!(
            "[agent]\nconfig = \"vpfs.toml\"\ntoken = \"slurm.token\"\ninterval = {interval:?}\nttl = \"1h\"\n\
             timeout = \"5s\"\nreach = \"sockets\"\nwake = \"wake.sock\"\n"
        );
        write_file(self.path("slurm.toml"), format!("{agent}{rules}"));
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
        let peers = format!("[peers]\naddresses = {{ s1 = \"127.0.0.1:{}\" }}\n", self.port + 7);
        let rest = "security = \"none\"\nsockets = \"sockets\"\n[[owner]]\nname = \"slurm\"\ntoken = \"slurm.token\"\n";
        let rest = format!("{peers}{rest}{tables}");
        write_file(self.path("vpfs.toml"), proxy_config(1, server, proxy, &rest));
        self.write_token();
        let serve = Daemon::serve(self.dir.path(), server..server + 1, &["--device", "hdd"]);
        let proxy = Daemon::proxy(self.dir.path(), &self.path("vpfs.toml"));
        self.daemons.extend([proxy, serve]);
    }

    fn start_mount(&mut self) {
        let text = "[[server]]\nname = \"c1\"\naddress = \"mount://c1\"\n[apps]\nauto = \"job\"\n[peers]\n\
                    addresses = { c1 = \"127.0.0.1:PEERS\" }\nsecurity = \"none\"\nsockets = \"sockets\"\n\
                    [[owner]]\nname = \"slurm\"\ntoken = \"slurm.token\"\n";
        let text = text.replace("PEERS", &(self.port + 7).to_string());
        write_file(self.path("vpfs.toml"), text);
        self.write_token();
        ["src", "mnt"].iter().for_each(|name| std::fs::create_dir(self.path(name)).expect("a directory"));
        let mut command = self.command(&vpfs());
        let mut mount =
            Daemon::start(self.dir.path(), "mount", command.args(["mount", "src", "mnt", "--config", "vpfs.toml"]));
        mount.await_log("requests take turns");
        self.daemons.push(mount);
    }

    fn write_token(&self) {
        write_file(self.path("slurm.token"), "0123456789abcdef\n");
        run(Command::new("chmod").arg("600").arg(self.path("slurm.token")));
    }

    fn start_controllers_and_nodes(&mut self) {
        let dir = self.dir.path().display().to_string();
        write_file(self.path("munge.key"), [7; 64]);
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
        write_file(self.path("slurm.conf"), self.slurm_conf());
        write_file(self.path("cgroup.conf"), "CgroupMountpoint=/sys/fs/cgroup\nCgroupAutomount=no\n");
        write_program(&self.path("wake"), &self.wake_script());
        for name in ["state", "pid"] {
            std::fs::create_dir(self.path(name)).expect("a directory");
        }
        self.slurmctld = (0..self.controllers).map(|number| self.start_slurmctld(number)).collect();
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

    fn start_slurmctld(&self, number: usize) -> Daemon {
        if self.controllers == 1 {
            let mut command = self.command(Path::new("slurmctld"));
            let mut slurmctld = Daemon::start(self.dir.path(), "slurmctld", command.arg("-D"));
            slurmctld.await_port(self.port + 2);
            return slurmctld;
        }
        let name = CONTROLLERS[number].0;
        let hosts: String = CONTROLLERS.map(|(name, address)| format!("{address} {name}\n")).concat();
        write_file(self.path("hosts"), format!("127.0.0.1 localhost\n{hosts}"));
        let mut command = self.command(Path::new("unshare"));
        command.args(["--uts", "--mount", "sh", "-c", CONTROLLER, "sh", name]).arg(self.dir.path());
        let slurmctld = Daemon::start(self.dir.path(), name, &mut command);
        await_some(PATIENCE, || {
            let told = output(self.command(Path::new("scontrol")).arg("ping"));
            let told = stdout(&told);
            let is_up = told.lines().any(|line| line.contains(&format!("at {name} is UP")));
            if is_up { Ok(()) } else { Err(told) }
        });
        slurmctld
    }

    /// Where slurm.conf says that they run.
    fn slurmctld_conf(&self) -> String {
        if self.controllers == 1 {
            return "SlurmctldHost=localhost(127.0.0.1)\n".to_owned();
        }
        let hosts: String = CONTROLLERS.map(|(name, address)| format!("SlurmctldHost={name}({address})\n")).concat();
        format!("{hosts}CommunicationParameters=NoCtldInAddrAny\nSlurmctldTimeout=10\n")
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
        let tracking = if self.is_mounted { "cgroup" } else { "pgid" };
        format!(
            "ClusterName=vpfs\n{}SlurmctldPort={}\nSlurmUser={user}\nSlurmdUser={user}\n\
             AuthType=auth/munge\nAuthInfo=socket={dir}/munge.sock\nCredType=cred/munge\nMpiDefault=none\n\
             StateSaveLocation={dir}/state\nSlurmdSpoolDir={dir}/spool-%n\nSlurmctldPidFile={dir}/pid/slurmctld\n\
             SlurmdPidFile={dir}/slurmd-%n.pid\nProctrackType=proctrack/{tracking}\nTaskPlugin=task/none\nSwitchType=switch/none\n\
             SelectType=select/cons_tres\nSelectTypeParameters=CR_CPU\nReturnToService=2\n\
             SchedulerParameters=sched_min_interval=0\nAccountingStorageType=accounting_storage/none\n\
             JobAcctGatherType=jobacct_gather/none\nPrologSlurmctld={dir}/wake\nEpilogSlurmctld={dir}/wake\n\
             {nodes}PartitionName=batch Nodes=c[1-3] Default=YES MaxTime=INFINITE State=UP\n",
            self.slurmctld_conf(),
            port + 2,
        )
    }

    fn wake_script(&self) -> String {
        let (vpfs, dir) = (vpfs(), self.dir.path().display());
        format!("#!/bin/sh\nexec {} slurm wake --socket {dir}/wake.sock\n", vpfs.display())
    }

    fn submit(&self, options: &[impl AsRef<OsStr>]) -> String {
        self.submit_script("sleep 300", options)
    }

    fn submit_script(&self, script: &str, options: &[impl AsRef<OsStr>]) -> String {
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
        let text = run(ours(&top).arg(self.path("vpfs.toml")));
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

    /// Slurm saves what it knows of jobs within seconds; a job whose start is not saved would be started again.
    fn await_saved(&self, job: &str) {
        let changed = SystemTime::now();
        run(self.command(Path::new("scontrol")).args(["update", &format!("JobId={job}"), "Comment=saved"]));
        await_some(PATIENCE, || {
            let saved = std::fs::metadata(self.path("state/job_state")).and_then(|file| file.modified());
            if saved.is_ok_and(|saved| saved > changed) { Ok(()) } else { Err("it is not saved".to_owned()) }
        });
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
        let text = run(ours(&["app", "ls", "--json", "--config"]).arg(self.path("vpfs.toml")));
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
    // Whatever a user writes; the last byte is not UTF-8.
    let name = OsStr::from_bytes(b"--job-name=a\";[[app]]\nb\xff");
    let vip =
        site.submit(&[OsStr::new("--nodes=1"), OsStr::new("--exclusive"), OsStr::new("--comment=run 7 vip"), name]);
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
    run(ours(&load).args(["--bind", &address(1)]));
    let top = ["top", "--once", "--interval", "1", "--json", "--config"];
    let top = run(ours(&top).arg(site.path("vpfs.toml")));
    assert!(top.contains(&format!("slurm:{vip}")), "{top}");

    // Two of one user on one node are told apart by nothing.
    let array = site.submit(&["--nodelist=c3", "--ntasks=1", "--array=0-1"]);
    let mut tasks = [format!("{array}_0 x1 1 1"), format!("{array}_1 x1 1 1")];
    // Slurm gives the last task the number of the array.
    tasks.reverse();
    site.await_apps(&[&[format!("{vip} x3 1 0")], &tasks[..]].concat());
    assert!(site.log().contains("cannot be told apart"), "{}", site.log());

    let checked = output(site.command(&vpfs()).args(["doctor", "--json", "--config", "vpfs.toml"]));
    let checked: Value = serde_json::from_slice(&checked.stdout).expect("JSON");
    let checked = checked.as_array().expect("findings").iter().filter_map(|finding| {
        let check = finding["check"].as_str()?.strip_prefix("slurm ")?;
        Some(format!("{check} {}", finding["result"].as_str()?))
    });
    let expected = ["rules ok", "token ok", "reach ok", "wake ok", "prolog ok", "accounts warning", "nodes ok"];
    assert_eq!(checked.collect::<Vec<_>>(), expected);

    // slurmctld is away: nothing waits, and what is known stays.
    site.slurmctld[0].signal("TERM");
    site.slurmctld[0].wait();
    let began = Instant::now();
    let woken = output(&mut Command::new(site.path("wake")));
    assert!(woken.status.success() && began.elapsed() < PATIENCE, "{woken:?}");
    await_some(PATIENCE, || if site.log().contains("jobs cannot be read") { Ok(()) } else { Err(site.log()) });
    assert_eq!(site.apps().len(), 3);
    site.slurmctld[0] = site.start_slurmctld(0);
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
#[ignore = "takes long; another test of real Slurm is in the fast tier"]
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

/// Whether a test may mount, and slurmd may make control groups.
fn can_mount() -> bool {
    let group = Path::new("/sys/fs/cgroup/freezer/vpfs-test");
    let may_group = std::fs::create_dir(group).and_then(|()| std::fs::remove_dir(group)).is_ok();
    let is_possible = may_group && File::options().read(true).write(true).open("/dev/fuse").is_ok();
    if !is_possible {
        missing("fuse", "jobs on mounts need root, /dev/fuse, and the freezer of control groups v1");
    }
    is_possible
}

/// On a mount two jobs of one user on one node are told apart, by the control groups that slurmd makes.
#[test]
#[ignore = "takes long; another test of real Slurm is in the fast tier"]
fn jobs_on_mounts_have_their_own_weights() {
    if !are_present("slurm", &["munged", "slurmctld", "slurmd", "squeue"]) || !can_mount() {
        return;
    }
    let site = Site::start_mounted("[[rule]]\nname = \"a\"\nweight = 4\n");
    let mount = site.path("mnt").display().to_string();
    let write = format!("while :; do dd if=/dev/zero of={mount}/$SLURM_JOB_ID bs=64k count=4; sleep 0.1; done");
    let on = |node: &str, name: &str| {
        let options = [format!("--nodelist={node}"), format!("--job-name={name}"), "--ntasks=1".to_owned()];
        site.submit_script(&write, &options.each_ref().map(String::as_str))
    };
    let [heavy, light, elsewhere] = [on("c1", "a"), on("c1", "b"), on("c2", "a")];
    site.await_apps(&[format!("{heavy} x4 0 0"), format!("{light} x1 0 0")]);
    await_some(PATIENCE, || {
        let rates = site.rates();
        let are_there = [&heavy, &light].iter().all(|job| rates.get(*job).is_some_and(|rate| *rate > 0.0));
        if are_there { Ok(()) } else { Err(format!("{rates:?}\n{}", site.log())) }
    });
    assert!(site.log().contains("nodes with jobs that are no mount:// server: c2"), "{}", site.log());
    [&heavy, &light, &elsewhere].into_iter().for_each(|job| site.cancel(job));
    site.await_apps(&[]);
    site.await_no_jobs();
}

/// A job that is cancelled takes longer to complete while its node reports to the controller that is gone first, so the
/// agent sees its end when it reads again by itself.
#[test]
#[ignore = "takes long; another test of real Slurm is in the fast tier"]
fn jobs_keep_their_shares_while_a_backup_controller_takes_over() {
    if !are_present("slurm", &["munged", "slurmctld", "slurmd", "squeue", "unshare"]) {
        return;
    }
    if !output(Command::new("unshare").args(["--uts", "--mount", "true"])).status.success() {
        return missing("slurm", "no right to namespaces; run as root");
    }
    let mut site = Site::start_with(2, "[[rule]]\nweight = 3\n", "");
    let exclusive = ["--nodes=1", "--exclusive"];
    let known = |jobs: &[&String]| jobs.iter().map(|job| format!("{job} x3 1 0")).collect::<Vec<_>>();
    let first = site.submit(&exclusive);
    site.await_apps(&known(&[&first]));
    site.await_saved(&first);
    site.slurmctld[0].kill();
    // Until the backup is in charge, it takes no jobs.
    let mut sbatch = site.command(Path::new("sbatch"));
    sbatch.args(["--parsable", "--output=/dev/null", "--wrap", "sleep 300"]).args(exclusive);
    let second = await_some(PATIENCE, || {
        let told = output(&mut sbatch);
        assert_eq!(site.apps()[..1], known(&[&first]), "no matter which is in charge");
        let text = |bytes| String::from_utf8_lossy(bytes).trim().to_owned();
        if told.status.success() { Ok(text(&told.stdout)) } else { Err(text(&told.stderr)) }
    });
    site.await_apps(&known(&[&first, &second]));
    site.cancel(&first);
    site.await_apps(&known(&[&second]));
    // The first one takes over again.
    site.slurmctld[0] = site.start_slurmctld(0);
    let third = site.submit(&exclusive);
    site.await_apps(&known(&[&second, &third]));
    [&second, &third].into_iter().for_each(|job| site.cancel(job));
    site.await_apps(&[]);
    site.await_no_jobs();
}

/// Slurm has one job.
const SQUEUE: &str = r#"#!/bin/sh
echo '{"jobs": [{"job_id": 4711, "job_state": "RUNNING", "user_id": 1007, "user_name": "ada", "nodes": "localhost"}]}'
"#;

const SINFO: &str = "#!/bin/sh\necho localhost 127.0.0.1\n";

fn write(path: &Path, text: &str) {
    write_file(path, text);
    std::fs::set_permissions(path, PermissionsExt::from_mode(0o600)).expect("its mode");
}

/// Symptom: `[peers]` was ignored without servers in other processes, so that nothing listened at its port, while
/// `--check`, the log and `doctor` said that all was well.
#[test]
fn agents_and_remote_commands_reach_one_process_for_all_servers() {
    let folder = tempfile::tempdir().expect("a directory");
    let dir = folder.path();
    let port = free_ports(6);
    let rest = format!(
        "[peers]\naddresses = {{ s1 = \"127.0.0.1:{}\", s2 = \"127.0.0.1:{}\" }}\nshared_key = \"peers.key\"\n\
         sockets = \"sockets\"\n[[owner]]\nname = \"slurm\"\ntoken = \"slurm.token\"\n",
        port + 4,
        port + 5
    );
    write(&dir.join("vpfs.toml"), &proxy_config(2, port, port + 2, &rest));
    write(&dir.join("peers.key"), &"0".repeat(64));
    write(&dir.join("slurm.token"), &"1".repeat(32));
    write(
        &dir.join("slurm.toml"),
        "[agent]\nconfig = \"vpfs.toml\"\ntoken = \"slurm.token\"\nwake = \"wake.sock\"\n[[rule]]\nweight = 3\n",
    );
    for (name, text) in [("squeue", SQUEUE), ("sinfo", SINFO)] {
        write_program(&dir.join(name), text);
    }
    let vpfs = |args: &[&str]| {
        let mut command = Command::new(vpfs());
        command.current_dir(dir).args(args).args(["--config", "vpfs.toml"]);
        command
    };
    let mut proxy = Daemon::start(dir, "proxy", &mut vpfs(&["proxy"]));
    proxy.await_log("ready");

    let path = format!("{}:{}", dir.display(), std::env::var("PATH").unwrap_or_default());
    let mut agent = Command::new(vpfs_e2e::vpfs());
    agent.current_dir(dir).args(["slurm", "agent", "--rules", "slurm.toml"]).env("PATH", path);
    let agent = Daemon::start(dir, "agent", &mut agent);
    await_some(Duration::from_secs(60), || {
        let listed = output(&mut vpfs(&["app", "ls", "--remote"]));
        let listed = stdout(&listed);
        if listed.contains("slurm") && listed.contains("4711") { Ok(()) } else { Err(listed + &agent.log()) }
    });
    assert!(!agent.log().contains("not pushed"), "{}", agent.log());
    run(&mut vpfs(&["top", "--remote", "--once", "--json"]));

    let examined = || {
        let findings = output(&mut vpfs(&["doctor", "--json"])).stdout;
        let findings: Vec<serde_json::Value> = serde_json::from_slice(&findings).expect("JSON");
        findings.into_iter().find(|finding| finding["check"] == "remote").expect("the check")
    };
    assert_eq!(examined()["result"], "ok", "{}", examined());
    drop(proxy);
    assert_eq!(examined()["result"], "failed", "{}", examined());
}
