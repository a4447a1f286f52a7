//! Files whose servers are mounts: programs of a host instead of clients.

use vpfs_config::sets::{Set, SetName, Sets};
use vpfs_config::{AppIndex, AppTable, AutoKey, Client, Config, Identity, Program, RunWeight};
use vpfs_core::{OpKind, PolicyKind, Time};

const MOUNT: &str = "[[server]]\nname = \"m\"\naddress = \"mount://c001\"\n";

fn problems(text: &str) -> String {
    Config::parse("f", text).map(|config| config.warnings).unwrap_or_else(|problems| problems).to_string()
}

const SOMEBODY: Program<'_> = Program {
    uid: 1000,
    gids: &[100],
    cgroup: "/user.slice",
    executable: "/usr/bin/python3",
    file: "home/a",
    op: OpKind::Read,
    weight: None,
};

#[test]
fn programs_match_by_executable_group_and_file() {
    let rules = "[[app]]\nname = \"climate\"\nprograms = \"/opt/climate/**\"\nuids = 1000\n\
                 [[app]]\nname = \"backup\"\ncgroups = [\"/system.slice/backup.service\", \"/backup\"]\n\
                 [[app]]\nname = \"tmp\"\nfiles = [\"tmp/**\", \"*.tmp\"]\n[[app]]\nname = \"staff\"\ngids = 50\n\
                 [[match]]\napp = \"tmp\"\noperations = \"metadata\"\nprograms = \"/usr/bin/find\"\n";
    let config = Config::parse("f", &format!("{MOUNT}{rules}")).unwrap();
    let who = config.resolve(&|_| Vec::new());
    let app = |index| Identity::App(AppIndex(index));
    let model = Program { executable: "/opt/climate/bin/model", ..SOMEBODY };
    assert_eq!(who.identify_program(&model), app(0));
    assert_eq!(who.identify_program(&Program { uid: 1001, ..model }), Identity::Auto(AutoKey::Uid(1001)));
    assert_eq!(who.identify_program(&Program { cgroup: "/system.slice/backup.service", ..SOMEBODY }), app(1));
    assert_eq!(who.identify_program(&Program { cgroup: "/system.slice/backup.service.d", ..SOMEBODY }), auto());
    assert_eq!(who.identify_program(&Program { file: "tmp/x/.y", ..SOMEBODY }), app(2));
    assert_eq!(who.identify_program(&Program { file: "x.tmp", ..SOMEBODY }), app(2));
    assert_eq!(who.identify_program(&Program { file: "home/x.tmp", ..SOMEBODY }), auto(), "* is one name");
    assert_eq!(who.identify_program(&Program { gids: &[7, 50], ..SOMEBODY }), app(3));
    let find = Program { executable: "/usr/bin/find", ..SOMEBODY };
    assert_eq!(who.identify_program(&Program { op: OpKind::Metadata, ..find }), app(2), "by its other rule");
    assert_eq!(who.identify_program(&find), auto());
    assert_eq!(who.identify_program(&SOMEBODY), auto());
}

fn auto() -> Identity {
    Identity::Auto(AutoKey::Uid(1000))
}

/// Pushed applications are found by job and user; what a proxy tells clients by is nothing that a program has.
#[test]
fn jobs_that_were_pushed_have_their_weights() {
    let config = Config::parse("f", &format!("{MOUNT}[apps]\nauto = \"job\"\n")).unwrap();
    let json = r#"{"version": 1, "ttl": "1h", "apps": [{"name": "hosts", "clients": ["0.0.0.0/0"]},
        {"name": "4711", "weight": 4, "jobs": [4711, 4713]}, {"name": "alice", "uids": [1000], "jobs": [4712]},
        {"name": "bob", "uids": [1001]}]}"#;
    let mut sets = Sets::default();
    sets.put(Time::ZERO, SetName::parse("slurm").unwrap(), Set::parse(json.as_bytes()).unwrap()).unwrap();
    let who = config.resolve(&|_| Vec::new()).with(sets.apps(&[]));
    let of = |uid, job: u32| {
        let cgroup = format!("/slurm/uid_{uid}/job_{job}/step_0");
        who.identify_program(&Program { uid, cgroup: &cgroup, ..SOMEBODY })
    };
    assert_eq!([4711, 4713].map(|job| of(1000, job)), [Identity::Pushed(1); 2]);
    assert_eq!(of(1000, 4712), Identity::Pushed(2));
    assert_eq!(of(1002, 4712), Identity::Auto(AutoKey::Job(4712)), "another user's");
    assert_eq!(of(1001, 4714), Identity::Pushed(3));
    assert_eq!(who.identify_program(&SOMEBODY), auto(), "in no job");
    let client =
        Client { listener: 0, ip: [10, 0, 0, 1].into(), uid: Some(7), gids: &[], machine: "", op: OpKind::Read };
    assert_eq!(who.identify(&client), Identity::Pushed(0), "the same set at a proxy");
}

/// Symptom it guards against: a user makes a control group with a job's name and gets that job's share.
#[test]
fn jobs_are_those_of_slurm() {
    let config = Config::parse("f", &format!("{MOUNT}[apps]\nauto = \"job\"\n")).unwrap();
    let who = config.resolve(&|_| Vec::new());
    let of = |cgroup| who.identify_program(&Program { cgroup, ..SOMEBODY });
    let job = Identity::Auto(AutoKey::Job(4711));
    assert_eq!(of("/slurm/uid_1000/job_4711/step_0"), job);
    assert_eq!(of("/slurm_c001/uid_1000/job_4711/step_batch/task_0"), job);
    assert_eq!(of("/system.slice/slurmstepd.scope/job_4711/step_0/user/task_0"), job);
    assert_eq!(of("/system.slice/c001_slurmstepd.scope/job_4711/step_0"), job);
    for foreign in [
        "/user.slice/user-1000.slice/user@1000.service/slurm/uid_1000/job_4711/step_0",
        "/user.slice/slurmstepd.scope/job_4711",
        "/slurm/uid_1000/job_x",
        "/slurm",
        "/",
        "",
    ] {
        assert_eq!(of(foreign), auto(), "{foreign}");
    }
    let mut table = AppTable::new(&config);
    let (id, _) = table.assign(job);
    assert_eq!(table.get(id).map(|entry| entry.name.as_str()), Some("job:4711"));
}

/// A user can divide his own share, and not raise it.
#[test]
fn commands_have_weights_in_their_users_share() {
    for (text, all) in [("", "auto/"), ("[apps]\nauto_share = \"each\"\nauto_weight = 7\n", "")] {
        let config = Config::parse("f", &format!("{MOUNT}{text}")).unwrap();
        let (who, mut table) = (config.resolve(&|_| Vec::new()), AppTable::new(&config));
        let mut entry = |weight| {
            let (id, _) = table.assign(who.identify_program(&Program { weight, ..SOMEBODY }));
            let entry = table.get(id).unwrap().clone();
            let place = entry.share.unwrap();
            (entry.name, entry.policy.weight.get(), place.path, place.weight.get())
        };
        let (path, weight) = (format!("{all}uid:1000"), if all.is_empty() { 7 } else { 1 });
        assert_eq!(entry(None), ("uid:1000".to_owned(), 1, path.clone(), weight));
        assert_eq!(entry(RunWeight::new(4)), ("uid:1000/weight:4".to_owned(), 4, path, weight));
    }
    assert_eq!((RunWeight::new(0), RunWeight::new(11)), (None, None));
    let rule = Config::parse("f", &format!("{MOUNT}[[app]]\nname = \"a\"\nuids = 1000\n")).unwrap();
    let of_rule = rule.resolve(&|_| Vec::new()).identify_program(&Program { weight: RunWeight::new(4), ..SOMEBODY });
    assert_eq!(of_rule, Identity::App(AppIndex(0)), "what the administrator says goes first");
}

#[test]
fn mounts_need_no_listener_and_share_by_weight() {
    let config = Config::parse("f", MOUNT).unwrap();
    assert!(config.listeners.is_empty());
    assert_eq!(config.scheduler.policy.kind, PolicyKind::SfqDPlus);
    assert_eq!(Config::parse("f", &config.to_toml()).unwrap().to_toml(), config.to_toml(), "it is read as it is shown");
}

#[test]
fn what_a_mount_cannot_know_is_refused_with_the_fix() {
    for (text, expected) in [
        (
            "[scheduler]\npolicy = \"isolation\"\n",
            "f:5: scheduler.policy: isolation judges the storage by what it sees",
        ),
        ("[[app]]\nname = \"a\"\nclients = \"10.0.0.1\"\n", "f:6: app.a.clients: has no effect for mounts"),
        ("[[listener]]\nport = 5334\n", "listener: has no effect for mounts"),
        ("[apps]\nauto = \"client-host\"\n", "f:5: apps.auto: is one application for all programs of a mount"),
        ("[[server]]\nname = \"s\"\naddress = \"tcp://n1:3334\"\n", "server: has mounts and servers"),
        ("[[app]]\nname = \"a\"\nfiles = \"a[\"\n", "f:6: app.a.files: Pattern syntax error"),
        ("[[app]]\nname = \"a\"\n", "f:5: app.a: no program can belong to this application"),
        ("[[app]]\nname = \"a\"\nprograms = [1]\n", "f:6: app.a.programs: "),
    ] {
        let found = problems(&format!("{MOUNT}{text}"));
        assert!(found.contains(expected), "{text}: {found}");
    }
    let server = "[[server]]\nname = \"s\"\naddress = \"tcp://n1:3334\"\n[[listener]]\nport = 5334\n";
    for (text, expected) in [
        (
            "[[app]]\nname = \"a\"\nprograms = \"/bin/*\"\n",
            "f:8: app.a.programs: is known of programs that use a mount only",
        ),
        ("[apps]\nauto = \"job\"\n", "f:7: apps.auto: \"job\" is known of programs that use a mount only"),
    ] {
        let found = problems(&format!("{server}{text}"));
        assert!(found.contains(expected), "{text}: {found}");
    }
    let found = problems("[[server]]\nname = \"m\"\naddress = \"mount://c001:7\"\n");
    assert!(found.contains("is not the host of a mount; write for example \"mount://c001\""), "{found}");
}
