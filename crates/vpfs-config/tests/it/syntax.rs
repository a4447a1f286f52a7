//! A file that is not TOML has one message, at the place where a person would look.

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
            "f:2: the \"[\" here is not closed; add \"]\"",
        ),
        (
            "[[app]]\nname = \"a\"\nclients = [\"c1\", \"c2\"\nweight = 4\nuids = [1]\n",
            "f:3: the \"[\" here is not closed; add \"]\"",
        ),
        (
            "[[listener]]\naddresses = { s1 = \"tcp://n1:1\"\n[scheduler]\ndepth = 1\n",
            "f:2: the \"{\" here is not closed; add \"}\"",
        ),
        ("[[app]]\nclients = [\"c1\"\n", "f:2: unclosed array, expected `]`: \"clients = [\\\"c1\\\"\""),
        (
            "[[app]]\nname = \"a [\" # [\nclients = [\"c1\" \"c2\"]\n",
            "f:3: missing comma between array elements, expected `,`: \"clients = [\\\"c1\\\" \\\"c2\\\"]\"",
        ),
        // Headers.
        (
            "[app]\nname = \"a\"\n[app]\nname = \"b\"\n[app]\nname = \"c\"\n",
            "f:3: line 1 has [app], too; write [[app]] for each",
        ),
        ("[[app]]\nname = \"a\"\n[app] # b\nname = \"b\"\n", "f:3: line 1 has [[app]], too; write [[app]] for each"),
        ("[log]\nlevel = \"warn\"\n[scheduler]\n[log]\n", "f:4: line 1 has [log], too; put all its keys there"),
        // What the parser says.
        ("[[app]]\ncap = 100MB/s\n", "f:2: string values must be quoted, expected literal string: \"cap = 100MB/s\""),
        ("[scheduler]\ndepth = 14\ndepth = 15\n", "f:3: duplicate key: \"depth = 15\""),
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
    let good = include_str!("../../../../examples/caps.toml");
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
