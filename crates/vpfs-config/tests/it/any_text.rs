//! No text makes the reader panic, hang or use much memory.

use std::path::Path;

use proptest::prelude::*;
use vpfs_config::{Client, Config, SECTIONS};
use vpfs_core::OpKind;

#[path = "../../../../fuzz/src/files.rs"]
#[expect(unreachable_pub, reason = "public in the crate of the fuzz targets")]
mod fuzz;

/// A value, usually of a form that some key accepts.
fn value() -> impl Strategy<Value = String> {
    let shapes = [
        "14",
        "-1",
        "0",
        "1.5",
        "true",
        "1979-05-27",
        "[]",
        "{}",
        "\"\"",
        "\"s1\"",
        "\"fifo\"",
        "\"64KiB\"",
        "\"1GB/s\"",
        "\"30%\"",
        "\"5min\"",
        "\"uid\"",
        "\"tcp://n1:3334\"",
        "{ s1 = \"tcp://n1:1\" }",
        "\"10.0.0.0/8\"",
        "\"c[01-99]\"",
        "[1, \"5-9\"]",
        "[{ op = \"read\", up_to = \"1MiB\", slots = 3 }]",
        "99999999999999999999999",
    ];
    prop_oneof![4 => prop::sample::select(shapes.to_vec()).prop_map(String::from), 1 => "\\PC{0,20}".prop_map(|text| format!("{text:?}"))]
}

/// Existing tables and keys with arbitrary values, to get past the syntax check.
fn nearly_a_file() -> impl Strategy<Value = String> {
    let section = prop::sample::select(SECTIONS.to_vec());
    let entries = prop::collection::vec((0_usize..8, value()), 0..6);
    let table = (section, entries).prop_map(|(section, entries)| {
        let mut text = format!("{}\n", section.header);
        for (index, value) in entries {
            text += &format!("{} = {value}\n", section.keys[index % section.keys.len()].key);
        }
        text
    });
    prop::collection::vec(table, 0..8).prop_map(|tables| tables.concat())
}

/// Everything that is accepted can be used.
fn use_it(text: &str) {
    match Config::parse("f", text) {
        Err(problems) => assert!(!problems.list.is_empty() && !problems.to_string().is_empty()),
        Ok(config) => {
            let ip = [10, 0, 0, 1].into();
            config.resolve(&|_| vec![ip]).identify(&Client {
                listener: 0,
                ip,
                uid: None,
                gids: &[],
                machine: "",
                op: OpKind::Read,
            });
            assert!(config.diff(&config).is_empty());
            assert!(
                (0..config.listeners.len())
                    .all(|listener| config.address_pairs(listener).count() == config.servers.len())
            );
        }
    }
}

proptest! {
    #[test]
    fn any_text(text in "(\\PC|\n){0,200}") {
        use_it(&text);
    }

    #[test]
    fn any_values(text in nearly_a_file()) {
        use_it(&text);
        use_it(&format!("[[server]]\nname = \"s1\"\naddress = \"tcp://n9:3334\"\n[[listener]]\nport = 5334\n{text}"));
    }
}

#[test]
fn the_largest_files_are_read_in_time() {
    let parts = [
        "[[app]]\n",
        "a = 1\n",
        "[",
        "[[server]]\nname=\"s\"\n",
        "\"",
        "a.b.",
        "{",
        "clients = \"c[0-9999]\"\n[[app]]\n",
    ];
    for part in parts {
        use_it(&part.repeat((1 << 20) / part.len()));
    }
    let key = "k".repeat(1 << 19);
    use_it(&format!("{key} = \"{key}\""));
    let servers: String =
        (0..4000).map(|n| format!("[[server]]\nname = \"s{n}\"\naddress = \"tcp://n{n}:1\"\n")).collect();
    use_it(&format!("{servers}{}", "[[listener]]\nport = 2\n".repeat(4000)));
}

/// The check of the fuzz target, on its corpus and the examples, whole and cut off at every byte.
#[test]
fn fuzz_corpus() {
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut count = 0;
    for folder in ["fuzz/corpus/configuration", "examples"] {
        for entry in std::fs::read_dir(repository.join(folder)).expect("in the repository") {
            let path = entry.expect("readable").path();
            if path.is_file() {
                let data = std::fs::read(path).expect("readable");
                (0..=data.len()).for_each(|len| fuzz::configuration(&data[..len]));
                count += 1;
            }
        }
    }
    assert!(count > 4, "{count} files");
}
