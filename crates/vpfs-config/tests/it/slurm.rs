//! Jobs that real Slurm reported, and files that people write.

use std::net::IpAddr;
use std::path::Path;

use proptest::prelude::*;
use vpfs_config::HostList;
use vpfs_config::sets::{AppText, IdText, Set, SetText};
use vpfs_config::slurm::{Built, Job, Jobs, Settings, build, build_for_mounts, nodes_of, slurm_manual};

use crate::pairs;

/// Printed by squeue 22.05.8 of Debian: an exclusive job on c1 and c2; an array whose tasks have c3 and c4; a
/// heterogeneous job whose components have c3 and c4 as well; and jobs without nodes, one of which has a hostile name.
const CAPTURED: &str = include_str!("../captured/22.05.json");

fn settings(text: &str) -> Settings {
    let text = if text.contains("[agent]") { text.to_owned() } else { format!("[agent]\ntoken = \"t\"\n{text}") };
    Settings::parse("slurm.toml", &text, Path::new("/etc/vpfs")).unwrap_or_else(|problems| panic!("{problems}"))
}

/// Node `c<n>` is at 10.0.0.<n>; others are not known.
fn address(node: &str) -> Vec<IpAddr> {
    let number = node.strip_prefix('c').and_then(|number| number.parse().ok());
    number.map(|number| IpAddr::from([10, 0, 0, number])).into_iter().collect()
}

fn of(jobs: &[Job], text: &str) -> Built {
    let built = build(jobs, &settings(text), &address);
    let set = SetText { version: 1, ttl: "5min".into(), apps: built.apps.clone() };
    assert!(Set::check(set).is_ok(), "a proxy accepts it");
    built
}

fn job(id: u64, uid: u32, nodes: &str) -> Job {
    let nodes = HostList::parse(nodes, 100).unwrap().names.into_iter().map(|(name, _)| name).collect();
    Job { id, name: id.to_string(), family: id, uid, user: format!("u{uid}"), nodes, ..Job::default() }
}

fn show(apps: &[AppText]) -> Vec<String> {
    let uid = |uids: &[IdText]| match uids {
        [IdText::One(uid)] => format!(" uid {uid}"),
        _ => String::new(),
    };
    let show = |app: &AppText| {
        format!("{} x{} {}{}", app.name, app.weight.unwrap(), app.clients.join(","), uid(&app.uids))
            .replace("10.0.0.", "c")
    };
    apps.iter().map(show).collect()
}

#[test]
fn what_real_slurm_reports_becomes_a_set() {
    let jobs = Jobs::parse(CAPTURED.as_bytes()).unwrap().jobs;
    assert_eq!(nodes_of(&jobs).into_iter().collect::<Vec<_>>(), ["c1", "c2", "c3", "c4"]);
    let built =
        of(&jobs, "[[rule]]\npartition = \"debug\"\nweight = 2\n[[rule]]\ncomment = \"weight=3\"\nweight = 3\n");
    assert_eq!(show(&built.apps), ["1 x3 c1,c2", "3_1 x2 c4 uid 0", "4 x1 c3,c4 uid 0", "3_0 x2 c3 uid 0"]);
    let unclear: Vec<_> = built.unclear.iter().map(|unclear| (&*unclear.counts_as, unclear.others.join(","))).collect();
    assert_eq!(unclear, [("3_1", "4".to_owned()), ("4", "3_0".to_owned())]);
}

#[test]
fn jobs_that_share_nodes_are_told_apart_by_their_users() {
    let built = of(&[job(1, 7, "c1"), job(2, 8, "c[1-2]"), job(3, 8, "c3")], "");
    assert_eq!(show(&built.apps), ["1 x1 c1 uid 7", "2 x1 c1,c2 uid 8", "3 x1 c3"]);
    assert_eq!(built.unclear, []);
    let built = of(&[job(1, 7, "c[1-2]"), job(2, 7, "c[2-3]")], "");
    assert_eq!(show(&built.apps), ["1 x1 c1,c2 uid 7", "2 x1 c2,c3 uid 7"], "the first that matches counts: on c2, 1");
    let built = of(&[job(1, 7, "c1"), job(2, 7, "c1"), job(3, 7, "c1")], "");
    let unclear = &built.unclear[0];
    assert_eq!((&*unclear.user, &*unclear.counts_as, unclear.others.len()), ("u7", "1", 2));
}

/// Components of a heterogeneous job have numbers, and so control groups, of their own.
#[test]
fn a_mount_has_the_jobs_of_its_node() {
    let component = Job { name: "4".into(), ..job(5, 7, "c2") };
    let jobs = [job(1, 7, "c[1-2]"), job(2, 7, "c1"), job(4, 7, "c2"), component];
    let at_node = build_for_mounts(&jobs, &settings("[[rule]]\nuser = \"u7\"\nweight = 3\nshare = \"{user}\"\n"));
    let show =
        |app: &AppText| format!("{} {} x{} {:?}", app.name, app.share.as_ref().unwrap(), app.weight.unwrap(), app.jobs);
    let of = |node: &str| at_node[node].iter().map(show).collect::<Vec<_>>();
    assert_eq!(of("c1"), ["1 u7 x3 [1]", "2 u7 x3 [2]"]);
    assert_eq!(of("c2"), ["1 u7 x3 [1]", "4 u7 x3 [4, 5]"]);
    for apps in at_node.into_values() {
        assert!(Set::check(SetText { version: 1, ttl: "5min".into(), apps }).is_ok(), "a mount accepts it");
    }
}

#[test]
fn nodes_without_an_address_are_named() {
    let built = of(&[job(1, 7, "c1,x1"), job(2, 7, "x2")], "");
    assert_eq!(show(&built.apps), ["1 x1 c1"]);
    assert_eq!(built.unknown_nodes.into_iter().collect::<Vec<_>>(), ["x1", "x2"]);
}

#[test]
fn the_first_rule_that_matches_decides() {
    let text = "[[rule]]\nqos = [\"high\", \"urgent\"]\naccount = \"physics\"\nweight = 8\ncap = \"2GB/s\"\n\
                [[rule]]\nlicense = \"fastio\"\nweight = 4\n[[rule]]\nname = \"night*\"\naccount = \"phys?cs\"\nweight = 5\n\
                [[rule]]\ncomment = \"slow\"\nuser = \"u7\"\nshare = \"slow/{user}\"\n\
                [[rule]]\nshare = \"{account}/{user}/{job}\"\nweight = 2\n";
    let with = |change: &dyn Fn(&mut Job)| {
        let mut job = Job { account: "physics".into(), ..job(1, 7, "c1") };
        change(&mut job);
        let AppText { weight, share, cap, .. } = of(&[job], text).apps.remove(0);
        (weight.unwrap(), share, cap)
    };
    let default = (2, Some("physics/u7/1".to_owned()), None);
    assert_eq!(with(&|job| job.qos = "high".into()), (8, None, Some("2GB/s".to_owned())));
    assert_eq!(with(&|job| job.qos = "higher".into()), default);
    assert_eq!(with(&|job| (job.qos, job.account) = ("high".into(), "chem".into())).0, 2);
    assert_eq!(with(&|job| job.licenses = "matlab:1,fastio@db:2".into()).0, 4);
    assert_eq!(with(&|job| job.licenses = "fastio2".into()), default);
    assert_eq!(with(&|job| job.comment = "run 7, slow".into()).1.unwrap(), "slow/u7");
    assert_eq!(with(&|job| job.comment = "slower".into()), default);
    assert_eq!(with(&|job| job.title = "nightly-7".into()).0, 5);
    let app = of(&[Job { account: "phys/ics".into(), user: "al ice".into(), ..job(1, 7, "c1") }], "").apps.remove(0);
    assert_eq!((app.account.as_deref(), app.user.as_deref()), (Some("phys_ics"), Some("al_ice")), "for metrics");
    assert_eq!(with(&|job| (job.name, job.family) = ("9_1".into(), 9)).1.unwrap(), "physics/u7/9");
}

/// Symptom: where Slurm does not check accounts, each name that a user invents (`sbatch -A`) was a new top-level share.
#[test]
fn an_invented_account_gets_no_top_level_share() {
    let text = "[[rule]]\nqos = \"permitted\"\naccount = \"*\"\nshare = \"{account}\"\n\
                [[rule]]\nqos = \"nested\"\nshare = \"batch/{account}\"\n[[rule]]\nshare = \"{account}/{user}\"\n";
    let trusting = settings(text);
    assert!(trusting.trusts_accounts());
    let distrusting = trusting.clone().distrusting_accounts(["physics".to_owned()].into());
    let share = |settings: &Settings, account: &str, qos: &str| {
        let job = Job { account: account.into(), qos: qos.into(), ..job(1, 7, "c1") };
        build(&[job], settings, &address).apps.remove(0).share.unwrap()
    };
    assert_eq!(share(&trusting, "invented", ""), "invented/u7");
    assert_eq!(share(&distrusting, "invented", ""), "none/u7");
    assert_eq!(share(&distrusting, "physics", ""), "physics/u7", "the configuration has it");
    assert_eq!(share(&distrusting, "invented", "permitted"), "invented", "the rule says so");
    assert_eq!(share(&distrusting, "invented", "nested"), "batch/invented", "all of them have one share at the top");
}

#[test]
fn ten_thousand_jobs_fit_and_more_are_counted() {
    let jobs: Vec<Job> = (0..20_000).map(|id| job(id, 7, "c1")).collect();
    let built = of(&jobs[..10_000], "");
    assert_eq!((built.apps.len(), built.left_out), (10_000, 0));
    let built = of(&jobs, "");
    assert_eq!((built.apps.len(), built.left_out), (Set::APPS, 20_000 - Set::APPS));
}

#[test]
fn a_mistake_has_its_line_and_remedy() {
    for (text, said) in pairs(
        r#"
        # Empty.
            slurm.toml: agent.reach: "peers" needs the owner's token; add token = "slurm.token"
        [agent]\ntoken = "t"\nintervall = "30s"
            slurm.toml:3: agent.intervall: unknown key; did you mean "interval"?
        [agent]\ntoken = "t"\ninterval = 30
            slurm.toml:3: agent.interval: "30" has no unit; write for example "30s"
        [agent]\ntoken = "t"\ninterval = "5min"
            slurm.toml:1: agent.ttl: is less than three times interval, so jobs would lose their shares between two pushes; raise it
        [agent]\ntoken = "t"\nreach = "tcp"
            slurm.toml:3: agent.reach: unknown value "tcp"; allowed are peers, sockets
        [agent]\ntoken = "t"\nclients = "%N-ib"
            slurm.toml:3: agent.clients: has to contain {node} or {address}, and
        [agent]\ntoken = "t"\nowner = "my slurm"
            slurm.toml:3: agent.owner: "my slurm" is not the name of a set; use 1 to 64 letters
        [agent]\ntoken = "t"\n[rules]\nqos = "high"
            slurm.toml:3: rules: unknown key; did you mean [[rule]]?
        [agent]\ntoken = "t"\n[[rule]]\nweight = 0
            slurm.toml:4: rule.weight: 0 is out of range; allowed are 1 to 1000000
        [agent]\ntoken = "t"\n[[rule]]\nweight = "4"
            slurm.toml:4: rule.weight: is text; write 4 without quotes
        [agent]\ntoken = "t"\n[[rule]]\nqos = high
            slurm.toml:4: string values must be quoted, expected literal string: "qos = high"
        [agent]\ntoken = "t"\n[[rule]]\nqos = []
            slurm.toml:4: rule.qos: is empty and would match no job; remove it to match all
        [agent]\ntoken = "t"\n[[rule]]\nqos = [1]
            slurm.toml:4: rule.qos: found a number; write a list of names and patterns such as
        [agent]\ntoken = "t"\n[[rule]]\nlicence = "fastio"
            slurm.toml:4: rule.licence: unknown key; did you mean "license"?
        [agent]\ntoken = "t"\n[[rule]]\nshare = "{acount}/{user}"
            slurm.toml:4: rule.share: "{acount}/{user}" has braces that are no field; there are {account}, {user},
        [agent]\ntoken = "t"\n[[rule]]\nshare = "a b"
            slurm.toml:4: rule.share: "a b" is not a path of shares; use 1 to 64 letters
        [agent]\ntoken = "t"\n[[rule]]\ncap = "2GB"
            slurm.toml:4: rule.cap: "2GB" has an unknown unit; did you mean "GB/s"?
        [agent]\ntoken = "t"\n[[rule]]\ncap = "0MB/s"
            slurm.toml:4: rule.cap: of 0 would block all requests; remove it or raise it
        [agent]\ntoken = "t"\n[[rule]]\nlicense = "fastio:2"
            slurm.toml:4: rule.license: "fastio:2" matches no job, because it has ':' and
        [agent]\ntoken = "t"\n[[rule]]\ncomment = ["ok", "weight 3"]
            slurm.toml:4: rule.comment: "weight 3" matches no job, because it has a
        [agent]\ntoken = "t"\n[[rule]]\nqos = "high,urgent"
            "high,urgent" matches no job, because it has ',' and is compared with one name
        [agent]\ntoken = "t"\n[[rule]]\naccount = "{bio,chem}"
            matches no job, because it has ','
        [agent]\ntoken = "t"\n[[rule]]\nuser = " alice"
            matches no job, because it has a blank
        [agent]\ntoken = "t"\n[[rule]]\nname = "x "
            matches no job, because it has a blank
        "#,
    ) {
        let found = Settings::parse("slurm.toml", &text, Path::new("/")).unwrap_err().to_string();
        assert!(found.contains(said), "{found}");
    }
}

#[test]
fn a_rule_that_no_job_gets_is_refused() {
    let problem = |rules: &str| {
        let text = format!("[agent]\ntoken = \"t\"\n{rules}");
        Settings::parse("slurm.toml", &text, Path::new("/")).map(drop).map_err(|problems| problems.to_string())
    };
    let line = |number: usize, by: usize| {
        format!("slurm.toml:{number}: rule: no job gets it, because the rule of line {by} matches all that it matches")
    };
    for (rules, said) in [
        ("[[rule]]\nweight = 2\n[[rule]]\nqos = \"high\"\n", line(5, 3)),
        ("[[rule]]\nuser = \"*\"\n[[rule]]\nqos = \"high\"\n", line(5, 3)),
        ("[[rule]]\nqos = [\"h*\", \"x\"]\n[[rule]]\nqos = [\"x\", \"high\"]\nuser = \"a\"\n", line(5, 3)),
        ("[[rule]]\nuser = \"a\"\n[[rule]]\nname = \"b*\"\n[[rule]]\nname = \"b*\"\n", line(7, 5)),
    ] {
        assert!(problem(rules).as_ref().is_err_and(|found| found.starts_with(&said)), "{:?}", problem(rules));
    }
    for rules in [
        "[[rule]]\nqos = \"high\"\n[[rule]]\nweight = 2\n",
        "[[rule]]\nqos = \"high\"\nuser = \"a\"\n[[rule]]\nqos = \"high\"\n",
        "[[rule]]\nqos = \"h*\"\n[[rule]]\nqos = [\"high\", \"low\"]\n",
        "[[rule]]\nqos = \"h*\"\n[[rule]]\nqos = \"*h\"\n",
        // A name may have a slash.
        "[[rule]]\nname = \"*\"\n[[rule]]\nqos = \"high\"\n",
    ] {
        assert_eq!(problem(rules), Ok(()), "{rules}");
    }
    // One that is not in a list is the only one, and nobody can add a second one.
    let found = problem("[rule]\nqos = \"high\"\n").unwrap_err();
    assert_eq!(found, "slurm.toml:3: rule: found one table; there may be several, so write [[rule]]");
}

#[test]
fn the_example_is_valid() {
    let read = settings(include_str!("../../../../examples/jobs/slurm.toml"));
    assert_eq!(read.rules.iter().map(|rule| rule.weight).collect::<Vec<_>>(), [8, 4, 1, 1]);
}

#[test]
fn defaults_are_those_of_the_manual() {
    let read = settings("");
    assert_eq!(read.client_of("c1", "10.0.0.1"), "10.0.0.1");
    assert_eq!(
        (read.wake.to_str(), read.config.to_str()),
        (Some("/run/vpfs-slurm/wake.sock"), Some("/etc/vpfs/vpfs.toml"))
    );
    assert_eq!(read.token.unwrap().to_str(), Some("/etc/vpfs/t"), "beside the file");
    assert_eq!(settings("[agent]\ntoken = \"t\"\nclients = \"{node}-ib\"\n").client_of("c1", ""), "c1-ib");
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/slurm.md");
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&path, slurm_manual()).unwrap();
    }
    let committed = std::fs::read_to_string(path).unwrap_or_default();
    assert!(committed == slurm_manual(), "docs/slurm.md is old; run UPDATE=1 cargo test -p vpfs-config");
    for default in ["`/run/vpfs-slurm/wake.sock`", "`{address}`", "`/etc/vpfs/vpfs.toml`", "|`slurm`|"] {
        assert!(committed.contains(default), "{default}");
    }
}

proptest! {
    /// Whatever users write, a proxy accepts the set, and what they wrote decides nothing.
    #[test]
    fn hostile_texts_harm_nothing(name in ".*", comment in ".*", account in ".*", licenses in ".*", nodes in ".*") {
        let user = name.clone();
        let hostile = Job { user, comment, account, licenses, nodes: vec![nodes], ..job(1, 7, "c1") };
        let text = "[[rule]]\ncomment = \"vip\"\nqos = \"high\"\nweight = 9\n[[rule]]\nshare = \"{account}/{user}\"\n";
        let built = of(&[hostile.clone(), job(2, 8, "c1")], text);
        prop_assert_eq!(built.apps.last().map(|app| app.name.as_str()), Some("2"));
        prop_assert!(built.apps.iter().all(|app| app.weight == Some(1)));
        let built = of(&[Job { nodes: vec!["c2".into()], ..hostile }], text);
        prop_assert_eq!(built.apps[0].share.as_ref().map(|share| share.matches('/').count()), Some(1));
    }

    #[test]
    fn no_output_of_squeue_panics(bytes in prop::collection::vec(any::<u8>(), 0..200), at in 0..30_000_usize) {
        let _ = Jobs::parse(&bytes[..]);
        let mut damaged = CAPTURED.as_bytes().to_vec();
        let at = at % damaged.len();
        damaged[at] = bytes.first().copied().unwrap_or(b'x');
        if let Ok(jobs) = Jobs::parse(&damaged[..]) {
            of(&jobs.jobs, "");
        }
    }
}
