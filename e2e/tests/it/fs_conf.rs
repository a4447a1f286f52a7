//! The corpus of the servers' configuration, read by a real server and by `vpfs init`: what the server takes, we take
//! and read as it does, apart from the files that say otherwise. And `--check --connect`, which asks servers for it.

use std::path::Path;
use std::process::Command;

use vpfs_e2e::{Daemon, free_ports, output, proxy_config, requirements, vpfs};

const SERVER: &str = "pvfs2-server";
const SHOW: &str = "pvfs2-showcoll";

/// The corpus of the fuzz target.
fn corpus() -> Vec<(String, Vec<u8>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/corpus/fs_conf");
    let mut files: Vec<(String, Vec<u8>)> = std::fs::read_dir(folder)
        .expect("the corpus")
        .map(|entry| entry.expect("a file"))
        .map(|entry| (entry.file_name().to_string_lossy().into_owned(), std::fs::read(entry.path()).expect("a file")))
        .collect();
    files.sort();
    assert!(files.len() > 60, "the corpus is not complete: {} files", files.len());
    files
}

/// The text with another directory in the place of /srv/orangefs.
fn in_directory(text: &[u8], dir: &Path) -> Vec<u8> {
    let mut rest = text;
    let mut moved = Vec::new();
    while let Some(at) = rest.windows(13).position(|part| part == b"/srv/orangefs") {
        moved.extend_from_slice(&rest[..at]);
        moved.extend_from_slice(dir.as_os_str().as_encoded_bytes());
        rest = &rest[at + 13..];
    }
    moved.extend_from_slice(rest);
    moved
}

/// Whether a real server creates its storage by this configuration.
fn server_takes(config: &Path) -> bool {
    output(Command::new(SERVER).arg(config).args(["-f", "-a", "s1"])).status.success()
}

#[test]
fn a_real_server_and_vpfs_init_agree() {
    if !requirements::are_present("orangefs", &[SERVER, SHOW]) {
        return;
    }
    for (name, text) in corpus() {
        let dir = tempfile::tempdir().expect("a directory");
        let config = dir.path().join("fs.conf");
        std::fs::write(&config, in_directory(&text, dir.path())).expect("a file");
        let init = output(
            Command::new(vpfs()).args(["init", "--from"]).arg(&config).arg("--output").arg(dir.path().join("c")),
        );
        let taken = (server_takes(&config), init.status.success());
        let expected = match name.split('_').next() {
            Some("same") => (true, true),
            Some("ours") => (true, false),
            _ => (false, false),
        };
        assert_eq!(taken, expected, "{name}: {}", String::from_utf8_lossy(&init.stderr));
        if name.starts_with("same_") {
            let [data, meta] = ["data", "meta"].map(|part| dir.path().join(part));
            let shown = output(Command::new(SHOW).arg("-s").arg(data).arg("-m").arg(meta));
            let shown = String::from_utf8_lossy(&shown.stdout);
            assert!(shown.contains("\torangefs (coll_id = 1001)"), "{name}: {shown}");
        } else {
            let message = String::from_utf8_lossy(&init.stderr).into_owned();
            assert!(message.starts_with(&format!("vpfs: {}", config.display())), "{name}: {message}");
        }
    }
}

#[test]
fn check_asks_the_servers() {
    let dir = tempfile::tempdir().expect("a directory");
    let port = free_ports(4);
    let mut servers = Daemon::serve(dir.path(), port..port + 2, &[]);
    let check = |text: &str| {
        let config = dir.path().join("vpfs.toml");
        std::fs::write(&config, text).expect("a file");
        let checked = output(Command::new(vpfs()).args(["proxy", "--check", "--connect", "--config"]).arg(&config));
        (checked.status.code(), String::from_utf8_lossy(&checked.stderr).into_owned())
    };
    let text = proxy_config(2, port, port + 2, "");
    let (code, said) = check(&text);
    assert!(code == Some(0) && said.contains("the servers agree with the configuration (2 reached)"), "{said}");
    let (code, said) = check(&text.replace("\"s2\"", "\"oss2\"").replace("s2 =", "oss2 ="));
    let address = format!("tcp://127.0.0.1:{}", port + 1);
    assert!(
        code == Some(1) && said.contains(&format!("oss2: the servers call {address} s2; use the same name")),
        "{said}"
    );
    servers.kill();
    let (code, said) = check(&text);
    assert!(code == Some(1) && said.contains(&format!("s1: connection to 127.0.0.1:{port}: ")), "{said}");
}
