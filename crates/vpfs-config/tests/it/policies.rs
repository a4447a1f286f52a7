//! How `[scheduler]` and `[[app]]` configure each policy.

use std::io;
use std::time::Duration;

use vpfs_config::Config;
use vpfs_core::settings::DeviceTime;
use vpfs_core::{Backfill, Bytes, Minimum, OpKind, PolicyKind, Scope, Settings, SharingMode, Target, WindowOrder};

const SITE: &str =
    "[[server]]\nname = \"s1\"\naddress = \"tcp://n1:3334\"\n[[listener]]\nport = 5334\n[apps]\ndefault = \"a\"\n";

/// `app` are the keys of the only application, `scheduler` those of `[scheduler]`.
fn parse(scheduler: &str, app: &str) -> Result<Config, String> {
    let text = format!("{SITE}[[app]]\nname = \"a\"\n{app}\n[scheduler]\n{scheduler}");
    let files = |name: &str| {
        match name {
        "disk.toml" => Ok("[scheduler]\ndepth = 20\nslot_cost = [{ up_to = \"1MiB\", slots = 7 }]\ndevice_time = [{ op = \"write\", size = \"1MiB\", time = \"70ms\" }]\n"
            .to_owned()),
        "wrong.toml" => Ok("[scheduler]\npolicy = \"fifo\"\n".to_owned()),
        _ => Err(io::Error::from(io::ErrorKind::NotFound)),
    }
    };
    Config::parse_with("f", &text, &files).map_err(|problems| problems.to_string())
}

fn settings(scheduler: &str) -> Settings {
    parse(scheduler, "").unwrap().scheduler.policy
}

fn problem(scheduler: &str, app: &str) -> String {
    parse(scheduler, app).unwrap_err()
}

fn depth_and_cost(scheduler: &str) -> (u32, u32) {
    let settings = settings(scheduler);
    let cost = settings.slot_costs.slot_cost(vpfs_core::OpKind::Write, Bytes::mib(1));
    (settings.depth.get(), cost.get())
}

#[test]
fn without_a_word_the_defaults_are_the_cores() {
    let core = settings("");
    assert_eq!(core, Settings::new(PolicyKind::Isolation, core.depth, core.slot_costs.clone()));
}

#[test]
fn every_policy_and_way_of_sharing_has_a_name() {
    let names = PolicyKind::NAMES;
    assert_eq!(names.map(|name| settings(&format!("policy = {name:?}")).kind), PolicyKind::ALL);
    let modes = ["local", "threshold", "layout"].map(|name| settings(&format!("sharing = {name:?}")).sharing.mode);
    assert_eq!(modes, [SharingMode::Local, SharingMode::Threshold, SharingMode::Layout]);
}

#[test]
fn all_parameters_are_taken() {
    let settings = settings(
        "adaptive = \"on\"\nbackfill = \"paper\"\nsharing = \"threshold\"\nbroadcast_threshold = \"512KiB\"\nmetadata_threshold = 7\n\
         min_local_share = \"2.5%\"\nmetadata_depth = 3\nreplenish_period = \"100ms\"\ncontrol_window = \"2s\"\n\
         outstanding_max = 50\nwindow = \"250ms\"\nwindow_order = \"paper\"",
    );
    assert!(settings.adaptive);
    assert_eq!(settings.backfill, Backfill::Paper);
    assert_eq!(settings.sharing.broadcast_threshold, Bytes::kib(512));
    assert_eq!((settings.sharing.metadata_threshold, settings.sharing.min_local_share_ppm), (7, 25_000));
    assert_eq!(settings.metadata_depth.map(|depth| depth.get()), Some(3));
    let two_level = settings.two_level;
    assert_eq!((two_level.replenish_period.as_millis(), two_level.control_window.as_secs()), (100, 2));
    assert_eq!((two_level.outstanding_max, settings.ioco.window.as_millis()), (50, 250));
    assert_eq!(settings.ioco.order, WindowOrder::Paper);
}

#[test]
fn a_least_share_is_a_percentage() {
    for (text, ppm) in [("0%", 0), ("100%", 1_000_000), (" 0.01 % ", 100)] {
        assert_eq!(settings(&format!("min_local_share = {text:?}")).sharing.min_local_share_ppm, ppm);
    }
    for text in ["1", "101%", "-1%", "x%"] {
        let expected = format!("f:12: scheduler.min_local_share: {text:?} is not a share from \"0%\" to \"100%\"");
        assert_eq!(problem(&format!("min_local_share = {text:?}"), ""), expected);
    }
}

#[test]
fn a_profile_supplies_missing_keys() {
    assert_eq!(depth_and_cost("profile = \"disk.toml\""), (20, 7));
    assert_eq!(depth_and_cost("profile = \"disk.toml\"\ndepth = 9"), (9, 7));
    assert_eq!(depth_and_cost("profile = \"disk.toml\"\nslot_cost = [{ up_to = \"1MiB\", slots = 2 }]"), (20, 2));
}

#[test]
fn device_times_are_for_both_operations_or_one_and_the_file_goes_before_the_profile() {
    let row = |op, size, time| DeviceTime { op, size, time: Duration::from_millis(time) };
    let (read, write) = (OpKind::Read, OpKind::Write);
    assert_eq!(settings("profile = \"disk.toml\"").device_times, [row(write, Bytes::mib(1), 70)]);
    let found = settings(
        "profile = \"disk.toml\"\ndevice_time = [{ size = \"4KiB\", time = \"2ms\" }, { op = \"read\", size = \"1MiB\", time = \"9ms\" }]",
    );
    let small = Bytes::kib(4);
    assert_eq!(found.device_times, [row(read, small, 2), row(read, Bytes::mib(1), 9), row(write, small, 2)]);
    let twice =
        "device_time = [{ size = \"4KiB\", time = \"2ms\" },\n{ op = \"read\", size = \"4KiB\", time = \"3ms\" }]";
    let expected = "f:13: scheduler.device_time.size: line 12 also has a row for reads of 4KiB; remove one of them";
    assert_eq!(problem(twice, ""), expected);
}

#[test]
fn problems_of_a_profile_are_reported_with_their_place() {
    assert_eq!(
        problem("profile = \"wrong.toml\"", ""),
        "f:12: scheduler.profile: wrong.toml:2: scheduler.policy: unknown key; allowed are depth, small_threshold, slot_cost, device_time"
    );
    let missing = problem("profile = \"none.toml\"", "");
    assert!(missing.starts_with("f:12: scheduler.profile: none.toml cannot be read: "), "{missing}");
}

#[test]
fn a_profile_that_changes_shows_in_the_diff() {
    let [with, without] = ["profile = \"disk.toml\"", ""].map(|text| parse(text, "").unwrap());
    let changes: Vec<_> = without.diff(&with).live.into_iter().map(|change| change.key).collect();
    assert_eq!(changes, ["scheduler.depth", "scheduler.device_time", "scheduler.profile", "scheduler.slot_cost"]);
}

#[test]
fn a_promise_has_a_rate_and_a_deadline() {
    let app = "target_rate = \"40MB/s\"\ndeadline = \"100ms\"";
    let config = parse("policy = \"two-level\"", app).unwrap();
    let target = Target { rate: Bytes(40_000_000), scope: Scope::Total, deadline: Duration::from_millis(100) };
    assert_eq!(config.apps[0].target, Some(target));
    let server = parse("policy = \"two-level\"", &format!("server_{app}")).unwrap();
    assert_eq!(server.apps[0].target, Some(Target { scope: Scope::Server, ..target }));
    assert_eq!(config.warnings.to_string(), "");
    assert_eq!(
        problem("policy = \"two-level\"", "deadline = \"100ms\""),
        "f:10: app.a.deadline: has no effect without target_rate or server_target_rate; add one or remove this"
    );
    for key in ["target_rate", "server_target_rate"] {
        let text = format!("f:10: app.a.{key}: has no effect without deadline; add it or remove this");
        assert_eq!(problem("policy = \"two-level\"", &format!("{key} = \"1MB/s\"")), text);
    }
    assert_eq!(
        problem("policy = \"two-level\"", &format!("{app}\nserver_target_rate = \"1MB/s\"")),
        "f:12: app.a.server_target_rate: cannot be together with target_rate, which is for the sum over all servers; \
         remove one"
    );
}

#[test]
fn promises_and_policies_that_do_not_meet_are_warned_of() {
    let warning = |scheduler, app| parse(scheduler, app).unwrap().warnings.to_string();
    assert_eq!(
        warning("policy = \"two-level\"", ""),
        "f:11: scheduler.policy: two-level keeps promises to applications, but no [[app]] has target_rate and deadline"
    );
    assert_eq!(
        warning("", "target_rate = \"1MB/s\"\ndeadline = \"1s\""),
        "f:10: app.a.target_rate: has no effect with the policy isolation, only with two-level; remove it\n\
         f:11: app.a.deadline: has no effect with the policy isolation, only with two-level; remove it"
    );
}

#[test]
fn a_minimum_is_for_all_servers_or_for_each() {
    let minimum = |key: &str| {
        let config = parse("", &format!("{key} = \"40MB/s\"")).unwrap();
        assert_eq!(config.warnings.to_string(), "");
        config.apps[0].minimum.unwrap()
    };
    assert_eq!(minimum("min_rate"), Minimum { rate: Bytes(40_000_000), scope: Scope::Total });
    assert_eq!(minimum("server_min_rate"), Minimum { rate: Bytes(40_000_000), scope: Scope::Server });
    assert_eq!(
        problem("", "min_rate = \"1MB/s\"\nserver_min_rate = \"1MB/s\""),
        "f:11: app.a.server_min_rate: cannot be together with min_rate, which is for the sum over all servers; remove one"
    );
    assert_eq!(
        problem("", "cap = \"1MB/s\"\nmin_rate = \"2MB/s\""),
        "f:11: app.a.min_rate: is more than its cap; lower it, or raise the cap"
    );
    let ignored = parse("policy = \"sfq-d\"", "min_rate = \"1MB/s\"").unwrap().warnings.to_string();
    assert_eq!(
        ignored,
        "f:10: app.a.min_rate: has no effect with the policy sfq-d, only with isolation, proportional; remove it"
    );
}

#[test]
fn rates_of_a_share_are_for_all_servers_or_for_each() {
    let policy = |keys: &str| {
        let config = parse("", &format!("[[share]]\nname = \"p\"\n{keys}")).unwrap();
        assert_eq!(config.warnings.to_string(), "");
        config.shares[0].policy
    };
    let total = policy("cap = \"2MB/s\"\nmin_rate = \"1MB/s\"");
    assert_eq!(total.minimum, Some(Minimum { rate: Bytes(1_000_000), scope: Scope::Total }));
    assert_eq!(total.cap, vpfs_core::Cap::new(2_000_000, Bytes::mib(16)).map(vpfs_core::Cap::over_all_servers));
    let server = policy("server_cap = \"2MB/s\"\nserver_min_rate = \"1MB/s\"");
    assert_eq!(server.minimum, Some(Minimum { rate: Bytes(1_000_000), scope: Scope::Server }));
    assert_eq!(server.cap, vpfs_core::Cap::new(2_000_000, Bytes::mib(16)));
}

/// One server; the application is in p/q.
#[test]
fn minima_in_a_share_are_no_more_than_its_own() {
    let problem_of = |scheduler: &str, app: &str, shares: [&str; 2]| {
        let [p, q] = shares.map(|keys| format!("{keys}\n"));
        let text = format!("share = \"p/q\"\n{app}\n[[share]]\nname = \"p\"\n{p}[[share]]\nname = \"p/q\"\n{q}");
        parse(scheduler, &text).map(drop).map_err(|problems| problems.lines().next().unwrap().to_owned())
    };
    let within = |app, shares| problem_of("", app, shares);
    let less = |place: &str, sum: &str| {
        let message = format!("is less than what has minima in it needs together, {sum}; raise it, or lower those");
        Err(format!("f:{place}: {message}"))
    };
    assert_eq!(within("min_rate = \"4MB/s\"", ["min_rate = \"9MB/s\"", "min_rate = \"5MB/s\""]), Ok(()));
    assert_eq!(
        within("min_rate = \"6MB/s\"", ["min_rate = \"9MB/s\"", "min_rate = \"5MB/s\""]),
        less("17: share.p/q.min_rate", "6MB/s")
    );
    assert_eq!(
        within("min_rate = \"6MB/s\"", ["server_min_rate = \"5MB/s\"", ""]),
        less("14: share.p.server_min_rate", "6MB/s"),
        "one server may have all of it"
    );
    assert_eq!(
        within("server_min_rate = \"6MB/s\"", ["min_rate = \"5MB/s\"", ""]),
        less("14: share.p.min_rate", "6MB/s"),
        "on one server"
    );
    assert_eq!(
        within("", ["cap = \"5MB/s\"", "min_rate = \"6MB/s\""]),
        less("14: share.p.cap", "6MB/s"),
        "it could not be kept"
    );
    let of_all = |p: &str| problem_of("capacity = \"10MB/s\"", "min_rate = \"6MB/s\"", [p, "min_rate = \"8MB/s\""]);
    assert_eq!(of_all("min_rate = \"10MB/s\""), Ok(()), "what is in it is not counted again");
    assert!(of_all("min_rate = \"11MB/s\"").unwrap_err().contains("together is 11MB/s, but all servers have 10MB/s"));
    let own = "f:15: share.p.min_rate: is more than its cap; lower it, or raise the cap";
    assert_eq!(within("", ["cap = \"1MB/s\"\nmin_rate = \"2MB/s\"", ""]), Err(own.to_owned()));
}

#[test]
fn promises_beyond_the_capacity_are_refused() {
    assert_eq!(
        problem("capacity = \"100MB/s\"", "min_rate = \"101MB/s\""),
        "f: app: the min_rate of all applications together is 101MB/s, but all servers have 100MB/s by \
         scheduler.capacity; lower some"
    );
    assert!(parse("capacity = \"100MB/s\"", "server_min_rate = \"100MB/s\"").is_ok());
    assert_eq!(
        problem(
            "policy = \"two-level\"\ncapacity = \"100MB/s\"",
            "server_target_rate = \"101MB/s\"\ndeadline = \"1s\""
        ),
        "f: app: the server_target_rate of all applications together is 101MB/s, but each server has 100MB/s by \
         scheduler.capacity; lower some"
    );
}

#[test]
fn observing_holds_nothing_and_checks_all() {
    let text = "[[server]]\nname = \"s1\"\naddress = \"tcp://10.0.0.1:3334\"\n[[listener]]\nport = 5334\n\
                [scheduler]\nmode = \"observe\"\nmetadata_depth = 4\n\
                [[app]]\nname = \"a\"\nclients = \"10.0.1.1\"\ncap = \"1MB/s\"\nlatency = \"5ms\"\n";
    let config = Config::parse("vpfs.toml", text).unwrap();
    let scheduler = &config.scheduler;
    assert_eq!((scheduler.policy.kind, scheduler.observed), (PolicyKind::Fifo, Some(PolicyKind::Isolation)));
    assert_eq!((scheduler.policy.metadata_depth, config.apps[0].cap), (None, None));
    assert!(config.apps[0].latency.is_some(), "what is late is counted");
    assert!(config.warnings.list.is_empty(), "what will have an effect later is no mistake: {}", config.warnings);
    let wrong = text.replace("1MB/s", "1MB");
    assert!(Config::parse("vpfs.toml", &wrong).is_err(), "so that the mode can be changed without surprises");
}
