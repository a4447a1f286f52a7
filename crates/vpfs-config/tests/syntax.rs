//! A file that is not TOML has one message, at the place where a person would look.

#![allow(clippy::unwrap_used, reason = "a test may unwrap: its panic is the report")]

use proptest::prelude::*;
use vpfs_config::Config;

const SITE: &str = "[[server]]\nname = \"s1\"\naddress = \"tcp://n1:3334\"\n[[listener]]\nport = 5334\n";

fn complaint(text: &str) -> String {
    Config::parse("f", text).err().map(|problems| problems.to_string()).unwrap_or_default()
}

#[test]
fn each_fault_has_one_message_at_its_place() {
    for (text, expected) in [
        // Brackets.
        (
            "[scheduler]\nslot_cost = [\n    { up_to = \"512KiB\", slots = 2 },\n\n[apps]\nauto = \"uid\"\n[[app]]\nname = \"a\"",
            "f:2: scheduler.slot_cost: the \"[\" here is not closed; add \"]\"",
        ),
        (
            "[[app]]\nname = \"a\"\nclients = [\"c1\", \"c2\"\nweight = 4\nuids = [1]\n",
            "f:3: app.clients: the \"[\" here is not closed; add \"]\"",
        ),
        (
            "[[listener]]\naddresses = { s1 = \"tcp://n1:1\"\n[scheduler]\ndepth = 1\n",
            "f:2: listener.addresses: the \"{\" here is not closed; add \"}\"",
        ),
        (
            "[[listener]]\naddresses = { s1 = \"tcp://n1:1\"\nbind = \"::\"\n",
            "f:2: listener.addresses: the \"{\" here is not closed; add \"}\"",
        ),
        (
            "[scheduler]\nslot_cost = [\n{ up_to = \"1MiB\", slots = 2 ]\ndepth = 1\n",
            "f:3: scheduler.slot_cost: the \"{\" here is not closed; add \"}\"",
        ),
        ("[[app]]\nclients = [\"c1\"\n", "f:2: app.clients: the \"[\" here is not closed; add \"]\""),
        ("[[app]]\nclients = [\"c1\"]]\n", "f:2: app.clients: \"]\" closes nothing; remove it"),
        ("[[app]]\nclients = [\n\"c1\"]\n]\n", "f:4: \"]\" closes nothing; remove it"),
        ("[[app]]\nclients = [\"c1\" \"c2\"]\n", "f:2: app.clients: there is no comma before \"\\\"c2\\\"]\""),
        (
            "[[app]]\nclients = \"c1\", \"c2\"\n",
            "f:2: app.clients: several values need brackets; write clients = [..., ...]",
        ),
        // Headers.
        (
            "[app]\nname = \"a\"\n[app]\nname = \"b\"\n[app]\nname = \"c\"\n",
            "f:3: line 1 has [app], too; write [[app]] for each",
        ),
        ("[[app]]\nname = \"a\"\n[app]\nname = \"b\"\n", "f:3: line 1 has [[app]], too; write [[app]] for each"),
        (
            "[server]\nname = \"a\"\n[server]\nname = \"b\"\n",
            "f:3: line 1 has [server], too; write [[server]] for each",
        ),
        ("[log]\nlevel = \"warn\"\n[scheduler]\n[log]\n", "f:4: line 1 has [log], too; put all its keys there"),
        ("[log]\n[[log]]\n", "f:2: line 1 has [log], too; put all its keys there"),
        ("[scheduler\ndepth = 1\n", "f:1: \"[scheduler\" is not a header; write [scheduler]"),
        ("[[app]\nname = \"a\"\n", "f:1: \"[[app]\" is not a header; write [[app]]"),
        ("[app]]\nname = \"a\"\n", "f:1: \"[app]]\" is not a header; write [[app]]"),
        ("[]\n", "f:1: \"[]\" is not a header; write a name in it, for example [scheduler]"),
        ("[scheduler] depth = 1\n", "f:1: \"depth = 1\" stands behind a header; begin a new line"),
        // Values.
        ("[[server]]\nname = s1\n", "f:2: server.name: s1 needs quotes; write name = \"s1\""),
        (
            "[scheduler]\npolicy = sfq-d # shares\n",
            "f:2: scheduler.policy: sfq-d needs quotes; write policy = \"sfq-d\"",
        ),
        ("[[app]]\ncap = 100MB/s\n", "f:2: app.cap: 100MB/s needs quotes; write cap = \"100MB/s\""),
        ("[[app]]\nclients = [c1, \"c2\"]\n", "f:2: app.clients: c1 needs quotes; write \"c1\""),
        ("[[app]]\nclients = c[1-3]\n", "f:2: app.clients: c[1-3] needs quotes; write clients = \"c[1-3]\""),
        ("[[app]]\nname = \"a\nweight = 1\n", "f:2: app.name: the text that begins here has no closing \""),
        ("[[app]]\nname = 'a\n", "f:2: app.name: the text that begins here has no closing '"),
        ("[[app]]\nname = \"\"\"a\n\n[log]\n", "f:2: app.name: the text that begins here has no closing \"\"\""),
        (
            "[[app]]\nname = \u{201c}a\u{201d}\n",
            "f:2: app.name: \"\u{201c}a\u{201d}\" has typographic quotes; write plain ones, \"...\"",
        ),
        ("[[app]]\nweight =\nuids = 1\n", "f:2: app.weight: has no value after \"=\""),
        ("[[app]]\nweight = 4 5\n", "f:2: app.weight: \"5\" stands behind its value 4; begin a new line"),
        (
            "[[app]]\nname = \"a\" weight = 4\n",
            "f:2: app.name: \"weight = 4\" stands behind its value; begin a new line",
        ),
        ("[scheduler]\ndepth = 14\ndepth = 15\n", "f:3: scheduler.depth: line 2 sets it, too; remove one of them"),
        // Keys.
        ("[scheduler]\ndepth 14\n", "f:2: \"depth 14\" has no \"=\"; write depth = 14"),
        ("[scheduler]\ndepth: 14\n", "f:2: \"depth: 14\" has no \"=\"; write depth = 14"),
        ("[scheduler]\ndepth\n", "f:2: \"depth\" has no value; write depth = ..."),
        ("[scheduler]\n= 14\n", "f:2: there is no key before \"=\""),
        ("[scheduler]\nmy depth = 14\n", "f:2: \"my depth\" is not a key"),
        (
            "[scheduler]\n\u{a0}depth = 14\n",
            "f:2: \"\\u{a0}depth\" is not a key; it has an invisible character, U+00A0: type it again",
        ),
        // Line ends.
        ("[scheduler]\rdepth = 14\r", "f:1: a line ends with CR alone; convert the file to line ends of LF or CRLF"),
    ] {
        assert_eq!(complaint(text), expected, "of {text}");
        let windows = text.replace('\n', "\r\n");
        assert_eq!(complaint(&windows), expected, "of {windows:?}");
        let later = format!("\u{feff}# ünï\n{text}");
        let line = |text: &str| text[2..].split(':').next().and_then(|line| line.parse::<usize>().ok());
        assert_eq!(line(&complaint(&later)), line(expected).map(|line| line + 1), "of {later}");
    }
}

#[test]
fn tabs_windows_line_ends_and_a_byte_order_mark_are_no_faults() {
    let text = format!("\u{feff}{SITE}\t[[app]]\n\tname\t=\t\"a\"\t# x\n\tuids = [\n\t\t1,\t2,\n\t]\n");
    assert_eq!(complaint(&text), "");
    assert_eq!(complaint(&text.replace('\n', "\r\n")), "");
}

#[test]
fn keys_at_the_wrong_place_are_sent_to_the_right_one() {
    let after = |text: &str| complaint(&format!("{SITE}{text}"));
    assert_eq!(complaint(&format!("depth = 14\n{SITE}")), "f:1: depth: unknown key; it belongs to [scheduler]");
    assert_eq!(
        complaint(&format!("port = 14\n{SITE}")),
        "f:1: port: unknown key; it belongs to [[listener]] or [peers]"
    );
    assert_eq!(after("[log]\nweight = 1\n"), "f:7: log.weight: unknown key; it belongs to [[share]] or [[app]]");
    assert_eq!(after("[[scheduler]]\ndepth = 1\n"), "f:6: scheduler: found a list; write it as a table, [scheduler]");
    assert_eq!(after("[scheduler.depth]\n"), "f:6: scheduler.depth: found a table; write a whole number");
}

#[test]
fn other_encodings_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("vpfs.toml");
    let complaint = |bytes: &[u8]| {
        std::fs::write(&file, bytes).unwrap();
        Config::load(&file).unwrap_err().list[0].message.clone()
    };
    let utf16: Vec<u8> = "\u{feff}[log]\n".encode_utf16().flat_map(u16::to_le_bytes).collect();
    assert_eq!(
        complaint(&utf16),
        "cannot be read: it is UTF-16 text; convert it, for example with `iconv -f UTF-16 -t UTF-8`"
    );
    assert_eq!(complaint(b"[log]\n# B\xfcro\n"), "cannot be read: it is not UTF-8 text: line 2 has the byte 0xfc");
}

/// A good file that loses or gains one character.
fn damaged() -> impl Strategy<Value = String> {
    let good = include_str!("../../../examples/caps.toml");
    let places: Vec<usize> = good.char_indices().map(|(at, _)| at).collect();
    let more = prop::sample::select(vec!["", "[", "]", "{", "}", "\"", "=", ",", "#", "\n", "x", "\\", "\r"]);
    (prop::sample::select(places), any::<bool>(), more).prop_map(move |(at, removed, more)| {
        let after = if removed { good[at..].chars().next().map_or(at, |c| at + c.len_utf8()) } else { at };
        format!("{}{more}{}", &good[..at], &good[after..])
    })
}

proptest! {
    /// Not more than one message, except for problems of values.
    #[test]
    fn one_character_more_or_less_gives_one_message(text in damaged()) {
        let found = complaint(&text);
        let is_syntax = toml::de::DeTable::parse(&text).is_err();
        prop_assert!(!is_syntax || found.lines().count() == 1, "{}", found);
    }
}
