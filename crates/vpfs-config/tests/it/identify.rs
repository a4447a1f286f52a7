//! What host lists denote, which application a client belongs to, which id it gets, and what stays when the file is
//! read again.

use std::net::IpAddr;
use std::process::Command;
use std::time::Duration;

use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use vpfs_config::sets::{AppText, Set, SetName, SetText, Sets};
use vpfs_config::{
    Account, AppIndex, AppTable, AutoKey, Client, Config, HOSTS_LIMIT, HostList, Identify, Identity, Place, Program,
    RunWeight,
};
use vpfs_core::{AppId, AppPolicy, OpKind, PolicyKind, Time};

use crate::{SITE, for_each_file, fuzz};

fn config(text: &str) -> Config {
    Config::parse("f", &format!("{SITE}{text}")).unwrap_or_else(|problems| panic!("{problems}"))
}

/// Host `c<n>` has the address 10.0.0.<n>; other hosts have none.
fn known(name: &str) -> Vec<IpAddr> {
    let number = name.strip_prefix('c').and_then(|number| number.parse().ok());
    number.map(|number| IpAddr::from([10, 0, 0, number])).into_iter().collect()
}

fn identify(text: &str) -> Identify {
    config(text).resolve(&known)
}

fn ip(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

fn client(ip: IpAddr, uid: Option<u32>, gids: &[u32]) -> Client<'_> {
    Client { listener: 0, ip, uid, gids, machine: "", op: OpKind::Read }
}

fn app(index: usize) -> Identity {
    Identity::App(AppIndex(index))
}

#[test]
fn clients_match_by_network_address_and_name() {
    let who = identify(
        "[[app]]\nname = \"net\"\nclients = \"10.1.0.0/16\"\n[[app]]\nname = \"one\"\nclients = [\"192.168.0.7\", \"fd00::7\"]\n\
         [[app]]\nname = \"names\"\nclients = \"c[001-003,9]\"\n[apps]\nauto = \"off\"\n",
    );
    let ips = ["10.1.255.1", "::ffff:10.1.2.3", "192.168.0.7", "fd00::7", "10.0.0.3", "10.0.0.9", "10.0.0.4"];
    let of = ips.map(|text| who.identify(&client(ip(text), None, &[])));
    assert_eq!(of, [0, 0, 1, 1, 2, 2, 3].map(app));
}

#[test]
fn all_parts_must_match_and_the_first_application_wins() {
    let who = identify(
        "[[app]]\nname = \"both\"\nclients = \"10.0.0.0/8\"\nuids = [\"1000-1999\", 5]\n\
         [[app]]\nname = \"group\"\ngids = 100\n[[app]]\nname = \"rest\"\nclients = \"10.0.0.0/8\"\n",
    );
    let of = |uid, gids: &[u32]| who.identify(&client(ip("10.0.0.1"), uid, gids));
    assert_eq!(of(Some(1000), &[100]), app(0));
    assert_eq!(of(Some(1999), &[]), app(0));
    assert_eq!(of(Some(5), &[]), app(0));
    assert_eq!(of(Some(2000), &[7, 100]), app(1));
    assert_eq!(of(None, &[]), app(2));
    assert_eq!(who.identify(&client(ip("11.0.0.1"), Some(1000), &[])), Identity::Auto(AutoKey::Host(ip("11.0.0.1"))));
}

#[test]
fn the_listeners_application_goes_before_all() {
    let who = identify(
        "[[listener]]\nport = 5335\napp = \"b\"\n[[app]]\nname = \"a\"\nuids = 0\n[[app]]\nname = \"b\"\nuids = 0\n",
    );
    let of = |listener| who.identify(&Client { listener, ..client(ip("::1"), Some(0), &[]) });
    assert_eq!([of(0), of(1)], [app(0), app(1)]);
}

#[test]
fn machines_listeners_operations_and_alternatives() {
    let who = identify(
        "[[listener]]\nport = 5335\n\
         [[app]]\nname = \"storm\"\noperations = [\"metadata\"]\nuids = 7\n\
         [[app]]\nname = \"climate\"\nclients = \"10.0.0.1\"\n\
         [[app]]\nname = \"export\"\nlisteners = 5335\n\
         [[app]]\nname = \"hub\"\nmachines = [\"hub-*\", \"login\"]\n\
         [[match]]\napp = \"climate\"\nuids = 7\noperations = [\"read\", \"write\"]\n\
         [[match]]\napp = \"climate\"\nlisteners = [5334]\ngids = 8\n[apps]\nauto = \"off\"\n",
    );
    let [storm, climate, export, hub, other] = [0, 1, 2, 3, 4].map(app);
    let at_2 = |uid, gids| client(ip("10.0.0.2"), uid, gids);
    assert_eq!(who.identify(&Client { op: OpKind::Metadata, ..at_2(Some(7), &[]) }), storm);
    assert_eq!(who.identify(&at_2(Some(7), &[])), climate, "by another rule of its own, before the next application");
    assert_eq!(who.identify(&client(ip("10.0.0.1"), None, &[])), climate);
    assert_eq!(who.identify(&at_2(None, &[8])), climate);
    assert_eq!(who.identify(&Client { listener: 1, ..at_2(None, &[8]) }), export);
    for (machine, expected) in [("hub-7", hub), ("login", hub), ("login1", other), ("", other)] {
        assert_eq!(who.identify(&Client { machine, ..at_2(None, &[]) }), expected, "{machine}");
    }
}

#[test]
fn automatic_applications_are_hosts_or_users() {
    let who = identify("[apps]\nauto = \"uid\"\n");
    assert_eq!(who.identify(&client(ip("::1"), Some(7), &[])), Identity::Auto(AutoKey::Uid(7)));
    assert_eq!(who.identify(&client(ip("::1"), None, &[])), app(0));
    assert_eq!(AutoKey::Uid(7).to_string(), "uid:7");
    assert_eq!(AutoKey::Host(ip("10.1.2.3")).to_string(), "host:10.1.2.3");
}

/// A name that has no address must not keep the rest from working.
#[test]
fn a_host_without_address_matches_no_rule() {
    let text = "[[app]]\nname = \"a\"\nclients = [\"c1\", \"login1\",\n\"nobody\"]\n\
                [[app]]\nname = \"b\"\nclients = \"nobody\"\n";
    let who = identify(text);
    assert_eq!(who.identify(&client(ip("10.0.0.1"), None, &[])), app(0));
    let other = ip("10.0.0.2");
    assert_eq!(who.identify(&client(other, None, &[])), Identity::Auto(AutoKey::Host(other)));
    let config = config(text);
    assert_eq!(config.unresolved().collect::<Vec<_>>(), [("c1", 8), ("login1", 8), ("nobody", 9)]);
}

#[test]
fn ids_are_dense_and_bounded() {
    let mut table =
        AppTable::new(&config("[[app]]\nname = \"a\"\nuids = 0\n[apps]\nauto_limit = 2\nauto_weight = 3\n"));
    let mut auto = |uid| table.assign(Identity::Auto(AutoKey::Uid(uid))).0;
    assert_eq!([auto(10), auto(11), auto(10), auto(12)], [AppId(2), AppId(3), AppId(2), AppId(1)]);
    assert!(table.is_full());
    assert_eq!(table.assign(app(0)).0, AppId(0));
    let names: Vec<_> =
        table.iter().map(|(id, entry)| (id.0, entry.name.as_str(), entry.policy.weight.get())).collect();
    assert_eq!(names, [(0, "a", 1), (1, "other", 1), (2, "uid:10", 1), (3, "uid:11", 1)]);
    assert_eq!(table.find("uid:11"), Some(AppId(3)));
}

#[test]
fn ids_stay_with_their_names() {
    let mut table = AppTable::new(&config("[[app]]\nname = \"a\"\nuids = 0\n[[app]]\nname = \"b\"\nuids = 1\n"));
    table.assign(Identity::Auto(AutoKey::Uid(9)));
    let newer = config(
        "[[app]]\nname = \"c\"\nuids = 2\n[[app]]\nname = \"b\"\nuids = 1\nweight = 5\n[apps]\nauto_weight = 2\n",
    );
    assert_eq!(table.reload(&newer), [AppId(1), AppId(3), AppId(4)]);
    assert_eq!([0, 1, 2].map(|index| table.assign(app(index)).0), [AppId(4), AppId(1), AppId(2)]);
    assert_eq!(table.assign(Identity::Auto(AutoKey::Uid(9))).0, AppId(3));
    assert_eq!(table.get(AppId(1)).unwrap().policy.weight.get(), 5);
    assert_eq!(table.reload(&newer), []);
    assert_eq!(table.len(), 5);
}

/// What an application that is gone still has in the storage must not count for a cap, a minimum or a share.
#[test]
fn an_application_that_is_gone_has_no_rules() {
    let a = "[[app]]\nname = \"a\"\nuids = 0\nshare = \"p\"\nweight = 3\ncap = \"1B/s\"\nburst = \"1B\"\n";
    let mut table = AppTable::new(&config(a));
    let before = table.get(AppId(0)).unwrap().clone();
    assert_eq!(table.reload(&config("[[app]]\nname = \"b\"\nuids = 0\n")), [AppId(0), AppId(2)]);
    let gone = table.get(AppId(0)).unwrap();
    assert_eq!((&gone.name[..], &gone.share, gone.policy), ("a", &None, AppPolicy::default()));
    assert_eq!(table.reload(&config(a)), [AppId(0)], "`b` had nothing to lose");
    assert_eq!(table.get(AppId(0)), Some(&before));
}

/// The shares of some automatic applications, all of weight 3.
fn shares(table: &AppTable, names: &[&str]) -> Vec<Option<String>> {
    let entry = |name: &&str| table.get(table.find(name).expect("assigned")).expect("found");
    let path = |place: &Place| {
        assert_eq!(place.weight.get(), 3);
        place.path.clone()
    };
    names.iter().map(|name| entry(name).share.as_ref().map(path)).collect()
}

#[test]
fn automatic_applications_share_a_weight_as_configured() {
    let mut table = AppTable::new(&config("[apps]\nauto_weight = 3\n"));
    let hosts = ["10.1.2.3", "10.1.2.77", "10.1.3.3", "2001:db8::1", "2001:db8::2"];
    for host in hosts {
        table.assign(Identity::Auto(AutoKey::Host(ip(host))));
    }
    let names = hosts.map(|host| format!("host:{host}"));
    let names = names.each_ref().map(String::as_str);
    assert_eq!(shares(&table, &names), vec![Some("auto".to_owned()); 5]);
    assert_eq!(table.get(AppId(0)).unwrap().share, None, "the default application is not automatic");
    let all: Vec<_> = (1..=5).map(AppId).collect();
    assert_eq!(table.reload(&config("[apps]\nauto_weight = 3\nauto_share = \"each\"\n")), all);
    assert_eq!(shares(&table, &names), vec![None; 5]);
    assert_eq!(table.reload(&config("[apps]\nauto_weight = 3\nauto_share = \"network\"\n")), all);
    let network = |name: &str| Some(name.to_owned());
    let [a, b, c] = ["auto:10.1.2.0", "auto:10.1.3.0", "auto:2001:db8::"].map(network);
    assert_eq!(shares(&table, &names), [a.clone(), a, b, c.clone(), c]);
    table.reload(&config("[apps]\nauto_weight = 3\nauto_share = \"network\"\nauto_prefix = 16\n"));
    assert_eq!(shares(&table, &names[..3]), vec![network("auto:10.1.0.0"); 3]);
}

#[test]
fn networks_are_only_of_hosts() {
    let error = |text: &str| Config::parse("f", &format!("{SITE}{text}")).unwrap_err().to_string();
    let users = error("[apps]\nauto = \"uid\"\nauto_share = \"network\"\n");
    assert!(users.contains("apps.auto_share: \"network\" needs auto = \"client-host\""), "{users}");
    let useless = error("[apps]\nauto_prefix = 16\n");
    assert!(useless.contains("apps.auto_prefix: has no effect without auto_share = \"network\""), "{useless}");
}

#[test]
fn a_diff_names_changes_that_need_a_restart() {
    let older = config("[scheduler]\ndepth = 14\n");
    let newer = config("[scheduler]\ndepth = 28\n[[app]]\nname = \"a\"\nuids = 0\n");
    let diff = older.diff(&newer);
    assert_eq!(
        diff.to_string(),
        "app.a.name: not set -> a\napp.a.uids: not set -> 0\napp.a.weight: not set -> 1\napp.order: other -> a, other\nscheduler.depth: 14 -> 28"
    );
    assert!(diff.restart.is_empty());
    let moved = Config::parse("f", &SITE.replace("5334", "6334")).unwrap();
    assert_eq!(older.diff(&moved).to_string(), "listener.1.port: 5334 -> 6334 (needs a restart)");
    assert!(older.diff(&older).is_empty());
    // Another spelling of the same amount, and an explicit default, change nothing.
    assert!(older.diff(&config("[scheduler]\nsmall_threshold = \"131072B\"\n")).is_empty());
}

#[test]
fn users_and_groups_by_name_match_as_their_ids_do() {
    let text = "[[app]]\nname = \"a\"\nuids = [7]\nusers = [\"alice\", \"SITE\\\\bob\"]\n\
                [[app]]\nname = \"p\"\ngroups = [\"physics\"]\n[apps]\nauto = \"off\"\n";
    let config = config(text);
    let accounts: Vec<String> = config.accounts().iter().map(ToString::to_string).collect();
    assert_eq!(accounts, ["user SITE\\bob", "user alice", "group physics"]);
    let id = |account: &Account| match account {
        Account::User(name) => (name == "alice").then_some(3001),
        Account::Group(_) => Some(500),
    };
    let who = config.resolve_with(&|_| Vec::new(), &id);
    let app = |uid: u32, gids: &[u32]| match who.identify(&client([10, 1, 2, 3].into(), Some(uid), gids)) {
        Identity::App(index) => config.apps[index.0].name.clone(),
        other => format!("{other:?}"),
    };
    assert_eq!([app(7, &[]), app(3001, &[]), app(1, &[500]), app(1, &[1])], ["a", "a", "p", "other"]);
    let nobody = config.resolve(&|_| Vec::new());
    let identity = nobody.identify(&client([10, 1, 2, 3].into(), Some(3001), &[500]));
    assert_eq!(identity, Identity::App(config.default_app), "without an id a rule matches nobody");
}

fn sets(apps: &[(&str, u32, &str)]) -> Sets {
    let app = |&(name, weight, host): &(&str, u32, &str)| AppText {
        name: name.into(),
        weight: Some(weight),
        clients: vec![host.into()],
        ..AppText::default()
    };
    let text = SetText { version: 1, ttl: "1min".into(), apps: apps.iter().map(app).collect() };
    let (name, set) = (SetName::parse("slurm").expect("a name"), Set::check(text).expect("a set"));
    let mut sets = Sets::default();
    sets.put(Time::ZERO, name, set).expect("there is room");
    sets
}

/// The administrator's rules go first, then pushed applications, then automatic ones.
#[test]
fn pushed_applications_come_after_those_of_the_file() {
    let config = config("[[app]]\nname = \"login\"\nclients = \"10.0.0.1\"\n");
    let pushed = sets(&[("1", 4, "10.0.0.1"), ("2", 2, "10.0.0.2")]).apps(&[]);
    let identify = config.resolve(&|_| Vec::new()).with(pushed.clone());
    let mut table = AppTable::new(&config);
    assert_eq!(table.push(Time::ZERO, pushed), [], "nobody is here yet");
    let name = |host: &str| {
        let (id, _) = table.assign(identify.identify(&client(ip(host), None, &[])));
        table.get(id).unwrap().name.clone()
    };
    assert_eq!(["10.0.0.1", "10.0.0.2", "10.0.0.3"].map(name), ["login", "slurm:2", "host:10.0.0.3"]);
}

/// Only those that have clients here cost anything, and only for what changes.
#[test]
fn pushed_applications_keep_their_ids_until_they_are_gone() {
    let config = config("");
    let mut table = AppTable::new(&config);
    let push = |table: &mut AppTable, apps: &[(&str, u32, &str)]| {
        let pushed = sets(apps).apps(&[]);
        let changed = table.push(Time::ZERO, pushed.clone());
        (config.resolve(&|_| Vec::new()).with(pushed), changed)
    };
    let assign = |table: &mut AppTable, identify: &Identify, host: &str| {
        table.assign(identify.identify(&client(ip(host), None, &[])))
    };
    let (identify, _) = push(&mut table, &[("1", 4, "10.0.0.1"), ("2", 2, "10.0.0.2")]);
    let (first, is_new) = assign(&mut table, &identify, "10.0.0.1");
    assert!(is_new && !assign(&mut table, &identify, "10.0.0.1").1);
    let (identify, changed) = push(&mut table, &[("3", 1, "10.0.0.3"), ("1", 5, "10.0.0.1"), ("2", 9, "10.0.0.2")]);
    assert_eq!(changed, [first], "a weight");
    assert_eq!(table.get(first).unwrap().policy.weight.get(), 5);
    let (second, _) = assign(&mut table, &identify, "10.0.0.2");
    let (identify, changed) = push(&mut table, &[("2", 9, "10.0.0.2"), ("4", 1, "10.0.0.4")]);
    assert_eq!((changed, table.retired(Time::ZERO, Duration::ZERO)), (vec![first], vec![first]));
    let (returned, _) = push(&mut table, &[("2", 9, "10.0.0.2"), ("4", 1, "10.0.0.4"), ("1", 5, "10.0.0.1")]);
    assert_eq!(assign(&mut table, &returned, "10.0.0.1"), (first, true), "it continues where it was");
    push(&mut table, &[("2", 9, "10.0.0.2"), ("4", 1, "10.0.0.4")]);
    let size = table.len();
    table.recycle(first);
    assert_eq!(assign(&mut table, &identify, "10.0.0.4"), (first, true), "its id is free");
    assert_eq!((table.find("slurm:4"), table.find("slurm:2")), (Some(first), Some(second)));
    assert_eq!((table.len(), table.retired(Time::ZERO, Duration::ZERO).len()), (size, 0));
}

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
    for (text, expected) in [
        (
            "[[app]]\nname = \"a\"\nprograms = \"/bin/*\"\n",
            "f:8: app.a.programs: is known of programs that use a mount only",
        ),
        ("[apps]\nauto = \"job\"\n", "f:7: apps.auto: \"job\" is known of programs that use a mount only"),
    ] {
        let found = problems(&format!("{SITE}{text}"));
        assert!(found.contains(expected), "{text}: {found}");
    }
    let found = problems("[[server]]\nname = \"m\"\naddress = \"mount://c001:7\"\n");
    assert!(found.contains("is not the host of a mount; write for example \"mount://c001\""), "{found}");
}

#[path = "../../../../e2e/src/requirements.rs"]
#[expect(unreachable_pub, reason = "public in the crate of the end-to-end tests")]
mod requirements;

/// The networks and addresses of a list, then its names.
fn hosts(text: &str) -> Vec<String> {
    let list = HostList::parse(text, HOSTS_LIMIT).unwrap_or_else(|message| panic!("{message}"));
    let show = |net: &ipnet::IpNet| match net.prefix_len() == net.max_prefix_len() {
        true => net.addr().to_string(),
        false => net.to_string(),
    };
    list.nets.iter().map(show).chain(list.names.into_iter().map(|(name, _)| name)).collect()
}

fn why(text: &str) -> String {
    HostList::parse(text, HOSTS_LIMIT).expect_err(text)
}

#[test]
fn names_are_expanded_as_cluster_tools_do() {
    for (text, expected) in [
        ("login1", "login1"),
        ("c[001-003,070]", "c001 c002 c003 c070"),
        ("c[8-11]", "c8 c9 c10 c11"),
        ("n[0-2]", "n0 n1 n2"),
        // Slurm: as many digits as the first number has.
        ("n[098-0101]", "n098 n099 n100 n101"),
        ("n[9-010]", "n9 n10"),
        ("n[001-3]", "n001 n002 n003"),
        ("n[8-9,010-011]", "n8 n9 n010 n011"),
        ("r[1-2]n[01-02].site, login1", "r1n01.site r1n02.site r2n01.site r2n02.site login1"),
        ("c[1-2][3-4]-ib", "c13-ib c14-ib c23-ib c24-ib"),
        ("c[ 1 - 3 , 5 ]", "c1 c2 c3 c5"),
        ("c[1-2,]", "c1 c2"),
        ("c[36-41/2]", "c36 c38 c40"),
        ("c[01-10/3]", "c01 c04 c07 c10"),
        (" c[1-2], d1, ", "c1 c2 d1"),
        ("c1,,c2", "c1 c2"),
        ("c[1-2] d[1-2]", "c1 c2 d1 d2"),
        ("c1\n  c2\tc3", "c1 c2 c3"),
        ("C[1-2].Example.ORG.", "C1.Example.ORG. C2.Example.ORG."),
        ("gpu-a100-[1-2]_mgmt", "gpu-a100-1_mgmt gpu-a100-2_mgmt"),
        ("c1-c5", "c1-c5"),
        ("10-1-0-5.pool", "10-1-0-5.pool"),
    ] {
        assert_eq!(hosts(text).join(" "), expected, "of {text:?}");
    }
    let hundred = hosts("n[01-100]");
    assert_eq!((hundred.len(), &*hundred[0], &*hundred[98], &*hundred[99]), (100, "n01", "n99", "n100"));
}

#[test]
fn addresses_and_networks_have_many_forms() {
    for (text, expected) in [
        ("10.1.2.3", "10.1.2.3"),
        ("10.1.0.[8-10]", "10.1.0.8 10.1.0.9 10.1.0.10"),
        ("10.1.0.0/16 10.2.0.0/255.255.0.0", "10.1.0.0/16 10.2.0.0/16"),
        ("10.1.0.0 / 16", "10.1.0.0/16"),
        ("10.[1-2].0.0/16", "10.1.0.0/16 10.2.0.0/16"),
        ("10.1.0.*", "10.1.0.0/24"),
        ("10.1.*", "10.1.0.0/16"),
        ("10.*.*.*", "10.0.0.0/8"),
        ("10.1.[2-3].*", "10.1.2.0/24 10.1.3.0/24"),
        ("10.1.0.31-10.1.0.38", "10.1.0.31 10.1.0.32/30 10.1.0.36/31 10.1.0.38"),
        ("10.1.0.31 - 10.1.0.32", "10.1.0.31 10.1.0.32"),
        ("10.1.0.254-10.1.1.1", "10.1.0.254/31 10.1.1.0/31"),
        ("10.1.0.4-7", "10.1.0.4/30"),
        ("0.0.0.0-255.255.255.255", "0.0.0.0/0"),
        ("0.0.0.0/0, ::/0", "0.0.0.0/0 ::/0"),
        ("10.1.0.5@tcp", "10.1.0.5"),
        ("10.1.0.[1-2]@o2ib1", "10.1.0.1 10.1.0.2"),
        ("oss[1-2]@tcp0", "oss1 oss2"),
        ("::1 fd00::/8", "::1 fd00::/8"),
        ("[fd00::7]", "fd00::7"),
        ("fd00::1-fd00::2", "fd00::1 fd00::2"),
        ("::ffff:10.1.2.3 ::ffff:10.1.0.0/112", "10.1.2.3 10.1.0.0/16"),
    ] {
        assert_eq!(hosts(text).join(" "), expected, "of {text:?}");
    }
}

#[test]
fn brackets_that_denote_nothing_are_explained() {
    for (text, expected) in [
        ("c[1-3", r#""c[1-3" has a "[" without "]""#),
        ("c1-3]", r#""c1-3]" has a "]" without "[""#),
        ("c[[1]]", r#""c[[1]]" has brackets inside brackets"#),
        ("c[3-1]", "[3-1] is a descending range; write [1-3]"),
        ("c[]", "there is nothing between the brackets; write numbers such as [001-064]"),
        ("c[,]", "there is nothing between the brackets; write numbers such as [001-064]"),
        ("c[a]", "[a] is not a number or a range such as [001-064]"),
        ("c[1 2]", "[1 2] is not a number or a range such as [001-064]"),
        ("c[-3]", "[-3] is not a number or a range such as [001-064]"),
        ("c[1-9/0]", "[1-9/0] has a step of 0; write [1-9]"),
        ("c[1-9:2]", "[1-9:2] has an unknown step; write [1-9/2]"),
        ("c[1-1000000000]", "[1-1000000000] has a number of more than 9 digits"),
        ("c[1-65537]", r#""c[1-65537]" names too many hosts; 65536 more are allowed"#),
        ("c[1-65536],d[1-2]", r#""d[1-2]" names too many hosts; 0 more are allowed"#),
    ] {
        assert_eq!(why(text), expected, "of {text:?}");
    }
}

#[test]
fn what_denotes_no_host_is_refused_with_a_remedy() {
    let no_host = "is not a host; write names as in \"c[001-064],login1\", addresses or networks";
    let no_address = "is not an address; write for example \"10.1.2.3\", \"10.1.0.0/16\"";
    let pattern = "is a pattern of names, but a proxy knows its clients by address";
    let nowhere = "no host connects from";
    for (texts, expected) in [
        (&["", " , "][..], "is empty; remove it, or write hosts such as \"c[001-064]\""),
        (&["10.1.2.300", "10.1.0.[08]", "10.1.", "c 1", "10.1/16", "10.1.0.0/33", "fd00::/129"], no_address),
        (&["10.1.0.0/", "10.1.0.0/x", "10.1.0.0/0.0.255.255", "10.1.0.0/255.0.255.0", "10.1.0.9-x"], no_address),
        (&["10.*.0.1", "fd00::g", "fe80::1%eth0", "00:11:22:33:44:55", "tcp://10.1.0.5:3334", "node01/0"], no_address),
        (&["10.1.2.3/16"], "10.1.2.3/16 has bits set beyond its prefix; write \"10.1.0.0/16\""),
        (&["10.1.0.9-10.1.0.3"], "is a descending range; write \"10.1.0.3-10.1.0.9\""),
        (&["10.1.0.9-fd00::1"], "begins with an IPv4 and ends with an IPv6 address"),
        (&["0.0.0.0", "::", "*", "*.*"], "means every host; write \"0.0.0.0/0\", and \"::/0\""),
        (&["224.0.0.1", "255.255.255.255", "10.1.0.0 255.255.0.0"], nowhere),
        (&["10.1.0.5:3334", "n1:5334", "[fd00::7]:3334"], "has a port, but a list is of hosts; write"),
        (&["*.compute.example.org", ".example.org", "c?"], pattern),
        (&["None assigned", "(null)", "(Resources)", "@compute", "5@gni", "10.1.0.5@tcp:10.1.0.6@tcp"], no_host),
        (
            &["c1, -c5", "c[1-9]!c5", "c{1..3}", "c1 - c5", "c1;c2", "c1\u{2013}c5", "b\u{fc}cher", "n01 slots=4"],
            no_host,
        ),
        (&["c..d", "fd00::[1-8]", "c [1-3]"], no_host),
    ] {
        for text in texts {
            assert!(why(text).contains(expected), "of {text:?}: {}", why(text));
        }
    }
    assert!(why(&"x".repeat(254)).ends_with("is longer than the 253 characters of a host name"));
}

#[test]
fn small_texts_cannot_expand_to_much() {
    let long = [
        "c[0-999999999][0-999999999][0-999999999]".to_owned(),
        "[1]".repeat(100_000),
        "c[1]".repeat(100_000),
        format!("c[1-65536]{}", "x".repeat(1 << 20)),
        format!("c[{}]", "1-9999,".repeat(100_000)),
        "0.0.0.1-255.255.255.254 ".repeat(40_000),
        format!("c{}", " ".repeat(1 << 20)),
        format!("c{}-", " ".repeat(1 << 20)),
    ];
    for text in &long {
        let found = HostList::parse(text, HOSTS_LIMIT);
        assert!(found.map_or_else(|message| message.len() < 400, |list| list.nets.len() + list.names.len() <= 1));
    }
}

/// A list of names with brackets, in the notation that both tools have.
fn list() -> impl Strategy<Value = String> {
    let range = (0_u32..120, 0_u32..30, 1_usize..4, prop::bool::weighted(0.7));
    let range = range.prop_map(|(low, more, width, is_range)| {
        // The same number of digits at both ends, which ClusterShell wants; what Slurm does otherwise is above.
        let width = if low.to_string().len() == (low + more).to_string().len() { width } else { 3 };
        if is_range { format!("{low:0width$}-{:0width$}", low + more) } else { format!("{low:0width$}") }
    });
    let bracket = prop::collection::vec(range, 1..3).prop_map(|ranges| format!("[{}]", ranges.join(",")));
    let name = ("[a-z]{1,3}", prop::option::of(bracket.clone()), "(-[a-z]|_x)?", prop::option::of(bracket));
    let name = name.prop_map(|(name, first, middle, second)| match (first, second) {
        (Some(first), Some(second)) if !middle.is_empty() => format!("{name}{first}{middle}{second}"),
        (Some(first), _) => format!("{name}{first}"),
        (None, _) => format!("{name}{middle}"),
    });
    prop::collection::vec(name, 1..4).prop_map(|names| names.join(","))
}

/// Compares with a tool of a package over random lists, and over `more`.
fn compare(package: &str, tool: &str, more: &[&str], expand: impl Fn(&str) -> Command) {
    if !requirements::are_present(package, &[tool]) {
        return;
    }
    let mut runner =
        TestRunner::new(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() });
    let check = |list: String| {
        let output = expand(&list).output().unwrap();
        prop_assert!(output.status.success(), "{list}: {}", String::from_utf8_lossy(&output.stderr));
        let mut theirs: Vec<String> =
            String::from_utf8_lossy(&output.stdout).split_whitespace().map(String::from).collect();
        let mut ours = hosts(&list);
        // ClusterShell sorts, and names each host once.
        for names in [&mut theirs, &mut ours] {
            names.sort();
            names.dedup();
        }
        prop_assert_eq!(ours, theirs, "of {}", list);
        Ok(())
    };
    runner.run(&list(), check).unwrap_or_else(|error| panic!("{error}"));
    more.iter().for_each(|list| check((*list).to_owned()).unwrap_or_else(|error| panic!("{error}")));
}

#[test]
fn slurm_expands_lists_to_the_same_hosts() {
    let folder = tempfile::tempdir().unwrap();
    let conf = folder.path().join("slurm.conf");
    std::fs::write(&conf, "ClusterName=test\nSlurmctldHost=localhost\n").unwrap();
    let more = ["n[01-100]", "n[9-011]", "n[001-3]", "c[1-2],", "c1,,c2", "c[1-2][3-4]", "c[1-2] d[1-2]", "c1."];
    compare("slurm", "scontrol", &more, |list| {
        let mut command = Command::new("scontrol");
        command.args(["show", "hostnames", list]).env("SLURM_CONF", &conf);
        command
    });
}

#[test]
fn clustershell_expands_lists_to_the_same_hosts() {
    compare(
        "clustershell",
        "nodeset",
        &["c[36-400/2]", "c[01-10/3]", "c[1-3]-ib.site", "c[ 1 - 3 , 5 ]", "C[1-2]."],
        |list| {
            let mut command = Command::new("nodeset");
            command.args(["-e", list]);
            command
        },
    );
}

proptest! {
    #[test]
    fn a_range_of_addresses_has_each_of_them_once(low in any::<u32>(), more in 0_u32..3000) {
        let last = low.saturating_add(more);
        let (first, end) = (std::net::Ipv4Addr::from_bits(low), std::net::Ipv4Addr::from_bits(last));
        let list = HostList::parse(&format!("{first}-{end}"), HOSTS_LIMIT).unwrap();
        let mut expected = low;
        for net in list.nets.iter().map(|net| match net { ipnet::IpNet::V4(net) => *net, ipnet::IpNet::V6(_) => unreachable!() }) {
            prop_assert_eq!(net.network().to_bits(), expected);
            expected = net.broadcast().to_bits().wrapping_add(1);
        }
        prop_assert_eq!(expected, last.wrapping_add(1));
    }

    #[test]
    fn any_text_stays_within_the_limit(
        text in "[\\[\\]0-9a,. @/*:%-]{0,40}|\\PC{0,40}|10\\.[0-9*]{1,3}(\\.[0-9*/-]{1,9}){0,3}",
        limit in 0_usize..50,
    ) {
        fuzz::host_list(&text, limit);
    }
}

/// The check of the fuzz target, on its corpus: one file for each notation, one list on each line.
#[test]
fn fuzz_corpus() {
    for_each_file("fuzz/corpus/hosts", 5, |data| (0..=data.len()).for_each(|len| fuzz::hosts(&data[..len])));
}
