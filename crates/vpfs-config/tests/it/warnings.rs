//! What is allowed but has no effect, or another one than it seems.

use proptest::prelude::*;
use vpfs_config::{AppIndex, Client, Config, Identity};
use vpfs_core::OpKind;

const SERVER: &str = "[[server]]\nname = \"s1\"\naddress = \"tcp://n1:3334\"\n";

/// The warnings of `text`, which follows one server and one listener (lines 1 to 5).
fn warnings(text: &str) -> Vec<String> {
    warnings_of(&format!("{SERVER}[[listener]]\nport = 5334\n{text}"))
}

fn warnings_of(text: &str) -> Vec<String> {
    let config = Config::parse("f", text).unwrap_or_else(|problems| panic!("{problems}"));
    config.warnings.to_string().lines().map(String::from).collect()
}

/// Applications `a`, `b`, ... with these rules, each in three lines: from line 6, 9, ...
fn apps(rules: &[&str]) -> String {
    let app = |(name, rule): (char, &&str)| format!("[[app]]\nname = \"{name}\"\n{rule}\n");
    ('a'..).zip(rules).map(app).collect()
}

#[test]
fn keys_that_the_policy_ignores_are_named() {
    for (scheduler, expected) in [
        (
            "depth = 9",
            "f:7: scheduler.depth: has no effect with the policy isolation, only with sfq-d, sfq-d-plus, two-level, ioco; remove it",
        ),
        (
            "adaptive = \"on\"",
            "f:7: scheduler.adaptive: has no effect with the policy isolation, only with sfq-d, sfq-d-plus; remove it",
        ),
        ("adaptive = \"off\"", ""),
        (
            "policy = \"two-level\"\nsharing = \"layout\"",
            "f:8: scheduler.sharing: has no effect with the policy two-level, only with sfq-d, sfq-d-plus, isolation, proportional; remove it",
        ),
        (
            "policy = \"sfq-d\"\nbackfill = \"paper\"",
            "f:8: scheduler.backfill: has no effect with the policy sfq-d, only with sfq-d-plus; remove it",
        ),
        (
            "policy = \"fifo\"\nwindow = \"2s\"",
            "f:8: scheduler.window: has no effect with the policy fifo, only with ioco; remove it",
        ),
        (
            "broadcast_threshold = \"1MiB\"",
            "f:7: scheduler.broadcast_threshold: has no effect with sharing = \"local\"; remove it, or choose another sharing",
        ),
        (
            "policy = \"sfq-d\"\ndepth = 9\nadaptive = \"on\"\nsharing = \"threshold\"\nbroadcast_threshold = \"1MiB\"",
            "",
        ),
        ("cost = \"bytes\"\nmetadata_depth = 3\nmetadata_cost = \"1KiB\"", ""),
    ] {
        let found = warnings(&format!("[scheduler]\n{scheduler}\n")).join("\n");
        assert!(
            found.lines().all(|line| line.contains("keeps promises")) && expected.is_empty()
                || found.contains(expected),
            "{found}"
        );
    }
    assert_eq!(
        warnings(&format!(
            "{}[scheduler]\npolicy = \"sfq-d-plus\"\n",
            apps(&["uids = 1\nlatency = \"1ms\"", "uids = 2\nlatency = \"1ms\""])
        )),
        [
            "f:9: app.a.latency: has no effect with the policy sfq-d-plus, only with isolation; remove it (so do 1 more [[app]])"
        ]
    );
    assert_eq!(
        warnings("[apps]\nauto = \"off\"\nauto_limit = 5\n"),
        ["f:8: apps.auto_limit: has no effect with auto = \"off\"; remove it"]
    );
}

#[test]
fn slot_costs_beyond_the_depth_are_cut() {
    assert_eq!(
        warnings("[scheduler]\npolicy = \"sfq-d-plus\"\nslot_cost = [{ up_to = \"1MiB\", slots = 20 }]"),
        ["f:8: scheduler.slot_cost.slots: 20 exceeds depth; 14 is used"]
    );
}

#[test]
fn applications_without_clients_are_named() {
    assert_eq!(
        warnings("[[app]]\nname = \"a\"\n"),
        ["f:7: app.a: no client can belong to this application; give it clients, uids, gids or a listener"]
    );
    let both = format!("{SERVER}[[listener]]\nport = 5334\napp = \"a\"\n{}", apps(&["", "clients = \"127.0.0.1\""]));
    assert_eq!(
        warnings_of(&both),
        [
            "f:11: app.b: no client can belong to this application: each listener has an app, which goes before clients, \
          uids and gids; give this one a listener, or remove app from one"
        ]
    );
    assert_eq!(warnings_of(&format!("{both}[[listener]]\nport = 5335\n")), [""; 0]);
}

#[test]
fn rules_that_others_hide_are_named() {
    let hidden = |line: usize, app: &str, by: &str| {
        vec![format!(
            "f:{line}: app.{app}: no client can belong to it: {by} comes first and has all of them; put the narrower one first"
        )]
    };
    let together = |line: usize, app: &str, by: &str| {
        vec![format!("f:{line}: app.{app}: no client can belong to it: {by} come first and together have all of them")]
    };
    let shared = |line: usize, app: &str, common: &str, by: &str| {
        vec![format!(
            "f:{line}: app.{app}: {common} is also in {by}, which comes first and gets it; remove it from one of them"
        )]
    };
    let a = "\"a\" (line 7)";
    for (rules, expected) in [
        (vec!["clients = \"0.0.0.0/0\"", "clients = \"10.1.0.0/16\""], hidden(10, "b", a)),
        (vec!["clients = \"0.0.0.0/0\"", "clients = \"c[1-2]\""], hidden(10, "b", a)),
        (vec!["clients = \"0.0.0.0/0\"", "uids = 5"], hidden(10, "b", a)),
        (vec!["clients = \"10.0.0.0/8\"", "clients = [\"10.1.0.0/16\", \"10.2.0.7\"]"], hidden(10, "b", a)),
        (vec!["clients = \"10.0.0.0/8\"", "clients = \"10.1.0.0/16\"\nuids = 5"], hidden(10, "b", a)),
        (vec!["clients = \"127.0.0.1\"", "clients = \"127.0.0.1\""], hidden(10, "b", a)),
        (vec!["clients = \"c[1-9]\"", "clients = \"c[3-4]\""], hidden(10, "b", a)),
        (vec!["uids = \"0-4294967295\"", "uids = 7"], hidden(10, "b", a)),
        (vec!["uids = \"1000-1999\"", "uids = [1000, 1001]"], hidden(10, "b", a)),
        (vec!["gids = [5, 6]", "gids = 6\nuids = 1"], hidden(10, "b", a)),
        (
            vec!["clients = \"10.0.0.0/9\"", "clients = \"10.128.0.0/9\"", "clients = \"10.0.0.0/8\""],
            together(13, "c", "\"a\" (line 7), \"b\" (line 10)"),
        ),
        (
            vec!["uids = \"0-4\"", "uids = \"5-9\"", "uids = \"3-7\"\ngids = 1"],
            together(13, "c", "\"a\" (line 7), \"b\" (line 10)"),
        ),
        (
            vec!["clients = [\"10.1.0.0/16\", \"10.2.0.0/16\"]", "clients = [\"10.2.3.0/24\", \"10.3.0.0/16\"]"],
            shared(10, "b", "10.2.3.0-10.2.3.255", a),
        ),
        (vec!["clients = \"c[1-4]\"", "clients = \"c[4-9]\""], shared(10, "b", "c4", a)),
        (vec!["uids = \"1-4\"", "uids = \"4-9\""], shared(10, "b", "4", a)),
        (
            vec!["uids = \"1-4\"\nclients = \"10.0.0.0/8\"", "uids = \"4-9\"\nclients = \"10.1.0.0/16\""],
            shared(11, "b", "10.1.0.0-10.1.255.255", a),
        ),
        // Exceptions before the rule, and rules of different kinds.
        (vec!["clients = \"10.1.0.7\"", "clients = \"10.1.0.0/16\""], vec![]),
        (vec!["clients = \"10.1.0.0/16\"", "clients = \"0.0.0.0/0\""], vec![]),
        (vec!["uids = 0", "clients = \"10.1.0.0/16\"", "gids = 7"], vec![]),
        (vec!["uids = \"0-4\"", "uids = \"5-9\"", "uids = \"0-10\""], vec![]),
        (vec!["clients = \"10.1.0.0/16\"\nuids = 1", "clients = \"10.1.0.0/16\"\nuids = 2"], vec![]),
    ] {
        assert_eq!(warnings(&apps(&rules)), expected, "of {rules:?}");
    }
}

#[test]
fn many_rules_are_compared_in_time() {
    let many: String =
        (0..9000).map(|n| format!("[[app]]\nname = \"a{n}\"\nclients = \"10.0.{}.{}\"\n", n / 250, n % 250)).collect();
    assert_eq!(warnings(&many), [""; 0]);
}

/// Networks and users of a few, so that they overlap often.
fn rule() -> impl Strategy<Value = String> {
    let nets = prop::collection::vec((0_u8..4, 29_u8..=32), 1..3);
    let nets = nets.prop_map(|nets| {
        let net = |(last, bits): (u8, u8)| format!("\"10.0.0.{}/{bits}\"", last & !((1 << (32 - bits)) - 1));
        format!("clients = [{}]\n", nets.into_iter().map(net).collect::<Vec<_>>().join(", "))
    });
    let ids = |key: &'static str| {
        (0_u32..4, 0_u32..3).prop_map(move |(low, more)| format!("{key} = \"{low}-{}\"\n", low + more))
    };
    let parts = (prop::option::of(nets), prop::option::of(ids("uids")), prop::option::of(ids("gids")));
    parts.prop_map(|(nets, uids, gids)| [nets, uids, gids].into_iter().flatten().collect::<String>())
}

proptest! {
    /// An application that is said to have no client has none, and one that is not hidden by a single other one has.
    #[test]
    fn what_is_said_of_rules_is_true(rules in prop::collection::vec(rule(), 1..4)) {
        let rules: Vec<&str> = rules.iter().map(String::as_str).filter(|rule| !rule.is_empty()).collect();
        let text = format!("{SERVER}[[listener]]\nport = 5334\n{}", apps(&rules));
        let config = Config::parse("f", &text).unwrap();
        let who = config.resolve(&|_| vec![]);
        let mut reached = vec![false; rules.len()];
        for ip in 0..10_u8 {
            for uid in 0..8 {
                for gid in 0..8 {
                    if let Identity::App(AppIndex(app)) = who.identify(&Client { listener: 0, ip: [10, 0, 0, ip].into(), uid: Some(uid), gids: &[gid], machine: "", op: OpKind::Read })
                        && let Some(reached) = reached.get_mut(app)
                    {
                        *reached = true;
                    }
                }
            }
        }
        let warnings = config.warnings.to_string();
        for (name, reached) in ('a'..).zip(reached) {
            let hidden = warnings.contains(&format!("app.{name}: no client can belong"));
            prop_assert!(!(hidden && reached), "{}: {}", text, warnings);
            // Sets in several parts need not be recognised.
            prop_assert!(hidden || reached || rules.len() > 2, "{}: {}", text, warnings);
        }
    }
}
