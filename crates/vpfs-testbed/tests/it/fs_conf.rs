//! The corpus of the servers' configuration, which is that of the fuzz target, too: the same configuration written in
//! many ways that servers read alike, and what they refuse.

#[path = "../../../../fuzz/src/fs_conf.rs"]
#[expect(unreachable_pub, reason = "public in the crate of the fuzz targets")]
mod fuzz;

use std::fs;
use std::path::Path;
use std::time::Duration;

use proptest::prelude::*;
use proptest::sample::Index;
use vpfs_protocol::wire::pvfs2::reply::GetConfig;
use vpfs_protocol::wire::pvfs2::rewrite::ClientTimeouts;
use vpfs_protocol::wire::pvfs2::{Reply, ReplyBody, Text, rewrite};
use vpfs_testbed::fsconfig::FsConfig;

/// The names of the corpus' files, with their content.
fn files() -> Vec<(String, Vec<u8>)> {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/fs_conf");
    let entries = fs::read_dir(corpus).unwrap().map(|entry| entry.unwrap());
    entries.map(|entry| (entry.file_name().into_string().unwrap(), fs::read(entry.path()).unwrap())).collect()
}

/// What those files say that are the same.
fn plain() -> FsConfig {
    let (_, text) = files().into_iter().find(|(name, _)| name == "same_plain").unwrap();
    FsConfig::parse(&text, "orangefs").unwrap()
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

/// What a proxy changes for its clients is what they read, however it is written.
#[test]
fn rewritten_texts_lead_to_proxies() {
    let timeouts = ClientTimeouts { bmi_secs: Some(900), flow_secs: None };
    let map = |address: &str| Some(format!("tcp://proxy.{}", address.strip_prefix("tcp://")?));
    let mut expected = plain();
    expected.servers.iter_mut().for_each(|server| server.address = map(&server.address).unwrap());
    expected.reply_timeout = Duration::from_secs(900);
    for (name, text) in files().into_iter().filter(|(name, _)| name.starts_with("same")) {
        let text = Reply::from(GetConfig { text: Text(text) }).encode();
        let reply = rewrite::config_text(&text, timeouts, map).unwrap();
        let ReplyBody::GetConfig(GetConfig { text }) = Reply::decode(&reply).unwrap().body else { panic!("{reply:?}") };
        assert_eq!(FsConfig::parse(&text.0, "orangefs").as_ref(), Ok(&expected), "{name}: {text:?}");
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
