//! The corpus of the servers' configuration, which is that of the fuzz target, too; and the same configurations written
//! in all ways that servers read alike.
#![allow(clippy::unwrap_used, reason = "a test may unwrap: its panic is the report")]

#[path = "../../../../fuzz/src/fs_conf.rs"]
#[expect(unreachable_pub, reason = "public in the crate of the fuzz targets")]
mod fuzz;
mod style;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use proptest::prelude::*;
use proptest::sample::Index;
use vpfs_testbed::fsconfig::{Configuration, FsConfig};
use vpfs_wire::pvfs2::reply::GetConfig;
use vpfs_wire::pvfs2::rewrite::{self, ClientTimeouts};
use vpfs_wire::pvfs2::{Reply, ReplyBody, Text};

use self::style::Style;

/// How many generated files the corpus has.
const GENERATED: u64 = 16;

fn corpus() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/fs_conf")
}

/// The names of the corpus' files, with their content.
fn files() -> Vec<(String, Vec<u8>)> {
    let entries = fs::read_dir(corpus()).unwrap().map(|entry| entry.unwrap());
    entries.map(|entry| (entry.file_name().into_string().unwrap(), fs::read(entry.path()).unwrap())).collect()
}

fn plain() -> FsConfig {
    FsConfig::parse(&fs::read(corpus().join("same_plain")).unwrap(), "orangefs").unwrap()
}

#[test]
fn fuzz_corpus() {
    files().iter().for_each(|(_, text)| fuzz::fs_conf(text));
}

#[test]
fn the_corpus_is_read_as_servers_read_it() {
    let plain = plain();
    for (name, text) in files() {
        let read = FsConfig::parse(&text, "orangefs");
        match name.split('_').next() {
            Some("same") => assert_eq!(read.as_ref(), Ok(&plain), "{name}"),
            Some("refused" | "ours") => assert!(read.is_err(), "{name}"),
            _ => panic!("{name} does not say what it shows"),
        }
    }
}

/// Generated files are kept, so that real servers read them, too; UPDATE=1 writes them.
#[test]
fn generated_corpus() {
    for seed in 0..GENERATED {
        let path = corpus().join(format!("same_generated_{seed:02}"));
        let text = Style::new(seed).write(&plain());
        if std::env::var_os("UPDATE").is_some() {
            fs::write(&path, &text).unwrap();
        }
        assert!(fs::read(&path).unwrap() == text, "{}: UPDATE=1 writes it", path.display());
    }
}

/// A file system whose names need quotes or backslashes.
fn any_file_system() -> impl Strategy<Value = FsConfig> {
    let name = "[a-z_.#'\"\\\\ =<>-]{1,12}";
    (name, proptest::collection::btree_set("[a-z#'\"\\\\ -]{1,8}", 1..6), 1..9_i32, 2..9_usize).prop_map(
        |(name, aliases, fs_id, flow_buffers)| {
            let addresses: Vec<String> = (0..aliases.len()).map(|server| format!("tcp://oss{server}:3334")).collect();
            let mut fs = FsConfig { fs_id, flow_buffers, ..FsConfig::new(&name, &addresses) };
            fs.servers.iter_mut().zip(aliases).for_each(|(server, alias)| server.alias = alias);
            fs
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn all_styles_are_read_alike(fs in any_file_system(), seed: u64) {
        let text = Style::new(seed).write(&fs);
        let read = Configuration::parse(&text);
        prop_assert_eq!(read.map(|read| read.file_systems), Ok(vec![fs]), "{}", String::from_utf8_lossy(&text));
    }

    /// What a proxy changes for its clients is what they read, however it is written.
    #[test]
    fn rewritten_texts_lead_to_proxies(fs in any_file_system(), seed: u64) {
        let text = Text(Style::new(seed).write(&fs));
        let timeouts = ClientTimeouts { bmi_secs: Some(900), flow_secs: None };
        let proxy = |address: &str| Some(address.strip_prefix("tcp://oss")?.replace(":3334", ".proxy:5334"));
        let map = |address: &str| proxy(address).map(|rest| format!("tcp://{rest}"));
        let reply = rewrite::config_text(&Reply::from(GetConfig { text }).encode(), timeouts, map).unwrap();
        let ReplyBody::GetConfig(GetConfig { text }) = Reply::decode(&reply).unwrap().body else { panic!("{reply:?}") };
        let mut expected = fs;
        expected.servers.iter_mut().for_each(|server| server.address = map(&server.address).unwrap());
        expected.reply_timeout = Duration::from_secs(900);
        prop_assert_eq!(FsConfig::parse(&text.0, &expected.name), Ok(expected), "{:?}", text);
    }

    #[test]
    fn our_own_text_is_read(fs in any_file_system()) {
        prop_assert_eq!(FsConfig::parse(fs.to_text().as_bytes(), &fs.name), Ok(fs));
    }

    #[test]
    fn no_bytes_make_it_panic(
        file: Index, changes in proptest::collection::vec((any::<Index>(), any::<u8>()), 0..6), cut: Option<Index>,
        twice: bool,
    ) {
        let files = files();
        let mut text = file.get(&files).1.clone();
        for (at, value) in changes {
            let at = at.index(text.len());
            text[at] = value;
        }
        if let Some(cut) = cut {
            text.truncate(cut.index(text.len()));
        }
        if twice {
            text.extend_from_within(..);
        }
        fuzz::fs_conf(&text);
    }
}
