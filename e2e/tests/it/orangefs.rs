//! Stock OrangeFS tools through the proxies, to stock servers and to the embedded ones. Tests whose programs are not on
//! PATH are skipped with a message.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::Value;
use vpfs_e2e::requirements::are_present;
use vpfs_e2e::{
    Daemon, await_some, complaints, free_ports, get, ours, output, proxy_config, requirements, run,
    run_until_it_succeeds, stderr, stdout, write_file,
};

const SERVERS: u16 = 4;

const TOOLS: [&str; 7] =
    ["pvfs2-ping", "pvfs2-ls", "pvfs2-mkdir", "pvfs2-touch", "pvfs2-cp", "pvfs2-stat", "pvfs2-statfs"];

const SERVER: &str = "pvfs2-server";

/// A file system of four servers on loopback, and proxies in front of it.
struct Cluster {
    dir: tempfile::TempDir,
    _servers: Vec<Daemon>,
    proxy: Daemon,
    proxy_port: u16,
    metrics: String,
    tab: PathBuf,
}

fn server_config(dir: &Path, port: u16) -> String {
    let mut text = String::from(
        "<Defaults>\nUnexpectedRequests 50\nEventLogging none\nLogStamp datetime\nBMIModules bmi_tcp\n\
         FlowModules flowproto_multiqueue\nServerJobBMITimeoutSecs 30\nServerJobFlowTimeoutSecs 30\n\
         ClientJobBMITimeoutSecs 300\nClientJobFlowTimeoutSecs 300\nClientRetryLimit 5\n\
         ClientRetryDelayMilliSecs 500\nTCPBindSpecific yes\n<Security>\nTurnOffTimeouts yes\n</Security>\n</Defaults>\n\
         <Aliases>\n",
    );
    let names = || (0..SERVERS).map(|i| (i, format!("s{}", i + 1)));
    for (i, name) in names() {
        let _ = writeln!(text, "Alias {name} tcp://127.0.0.1:{}", port + i);
    }
    text += "</Aliases>\n";
    for (_, name) in names() {
        let dir = dir.display();
        let _ = writeln!(
            text,
            "<ServerOptions>\nServer {name}\nDataStorageSpace {dir}/{name}/data\n\
             MetadataStorageSpace {dir}/{name}/meta\nLogFile {dir}/{name}.server.log\n</ServerOptions>"
        );
    }
    text += "<FileSystem>\nName pfs\nID 1001\nRootHandle 1048576\nFileStuffing yes\n";
    let span = 1_u64 << 59;
    for (kind, first) in [("Meta", 3), ("Data", 1_u64 << 62)] {
        let _ = writeln!(text, "<{kind}HandleRanges>");
        for (i, name) in names() {
            let start = first + u64::from(i) * span;
            let _ = writeln!(text, "Range {name} {start}-{}", start + span - 4);
        }
        let _ = writeln!(text, "</{kind}HandleRanges>");
    }
    text + "<StorageHints>\nTroveSyncMeta yes\nTroveSyncData no\nTroveMethod alt-aio\n</StorageHints>\n</FileSystem>\n"
}

impl Cluster {
    /// Stock servers behind the proxies.
    fn stock() -> Self {
        Self::start(|dir, port| {
            let config = dir.join("servers.conf");
            write_file(&config, server_config(dir, port));
            (0..SERVERS).map(|i| start_server(dir, &config, i)).collect()
        })
    }

    /// Embedded servers behind the proxies.
    fn embedded() -> Self {
        Self::start(|dir, port| vec![Daemon::serve(dir, port..port + SERVERS, &[])])
    }

    fn start(servers: impl FnOnce(&Path, u16) -> Vec<Daemon>) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let server_port = free_ports(2 * SERVERS + 1);
        let proxy_port = server_port + SERVERS;
        let mut servers = servers(dir.path(), server_port);
        for i in 0..SERVERS {
            let daemon = usize::from(i) % servers.len();
            servers[daemon].await_port(server_port + i);
        }
        let toml = dir.path().join("vpfs.toml");
        let metrics = format!("127.0.0.1:{}", proxy_port + SERVERS);
        let rest = format!("[scheduler]\npolicy = \"sfq-d-plus\"\n[metrics]\nlisten = \"{metrics}\"\n");
        let text = proxy_config(SERVERS, server_port, proxy_port, &rest);
        write_file(&toml, text);
        let proxy = Daemon::proxy(dir.path(), &toml);
        let tab = dir.path().join("tab");
        write_file(&tab, format!("tcp://127.0.0.1:{proxy_port}/pfs /mnt/pfs pvfs2 defaults,noauto 0 0\n"));
        Self { dir, _servers: servers, proxy, proxy_port, metrics, tab }
    }

    fn tool(&self, name: &str, args: &[&str]) -> String {
        run(self.command(name).args(args))
    }

    fn command(&self, tool: &str) -> Command {
        let mut command = Command::new(tool);
        command.env("PVFS2TAB_FILE", &self.tab).current_dir(self.dir.path());
        command
    }

    fn file(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }
}

fn start_server(dir: &Path, config: &Path, index: u16) -> Daemon {
    let name = format!("s{}", index + 1);
    for kind in ["data", "meta"] {
        std::fs::create_dir_all(dir.join(&name).join(kind)).expect("a directory");
    }
    run(Command::new(SERVER).args(["-f", "-a", &name]).arg(config).current_dir(dir));
    Daemon::start(dir, &name, Command::new(SERVER).args(["-d", "-a", &name]).arg(config).current_dir(dir))
}

/// Bytes that differ between any two places of a file.
fn pattern(len: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut bytes = Vec::with_capacity(len + 8);
    while bytes.len() < len {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend_from_slice(&state.to_le_bytes());
    }
    bytes.truncate(len);
    bytes
}

/// What fio writes to a mount and reads from it is what the proxies have counted, to the byte.
fn count(cluster: &Cluster) {
    run_until_it_succeeds(cluster.command("pvfs2-ping").args(["-m", "/mnt/pfs"]));
    let mount = cluster.file("mount");
    std::fs::create_dir(&mount).expect("a directory");
    let from = format!("fs_spec=tcp://127.0.0.1:{}/pfs", cluster.proxy_port);
    run(Command::new("pvfs2fuse").arg(&mount).args(["-o", &from]));
    let _mounted = Mounted(&mount);
    let counted = |op: &str| {
        let (_, text) = get(&cluster.metrics, "/metrics", "");
        let of_op = |line: &&str| line.starts_with("vpfs_app_data_bytes_total{") && line.contains(op);
        text.lines().filter(of_op).filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum::<f64>()
    };
    for (op, fio) in [("write", "--rw=randwrite"), ("read", "--rw=read")] {
        let before = counted(&format!("op=\"{op}\""));
        let mut command = Command::new("fio");
        command.args(["--name=count", "--ioengine=psync", fio, "--bs=64k", "--size=8m", "--output-format=json"]);
        let report = run(command.arg("--filename=data").current_dir(&mount));
        let report: Value = serde_json::from_str(&report).expect("JSON");
        let bytes = report["jobs"][0][op]["io_bytes"].as_f64().expect("a number");
        let counts = || counted(&format!("op=\"{op}\"")) - before;
        // The last answer may be at the client a moment before it is counted.
        await_some(Duration::from_secs(5), || match counts() {
            same if same == bytes => Ok(()),
            other => Err(format!("fio has {op} {bytes} bytes, the proxies have counted {other}")),
        });
    }
}

/// A mount that ends with the test.
struct Mounted<'a>(&'a Path);

impl Drop for Mounted<'_> {
    fn drop(&mut self) {
        let _ = Command::new("fusermount").arg("-u").arg(self.0).status();
    }
}

#[test]
fn counters_are_what_fio_measured_at_stock_servers() {
    if are_present("orangefs", &[SERVER, "pvfs2-ping", "pvfs2fuse", "fio", "fusermount"]) {
        count(&Cluster::stock());
    }
}

/// Basic operations by the stock tools, then a clean shutdown of the proxies.
fn exercise(mut cluster: Cluster) {
    // At their first start stock servers take some seconds until they have found each other and made the root
    // directory.
    run_until_it_succeeds(cluster.command("pvfs2-ping").args(["-m", "/mnt/pfs"]));
    cluster.tool("pvfs2-mkdir", &["/mnt/pfs/dir"]);
    cluster.tool("pvfs2-touch", &["/mnt/pfs/dir/touched"]);
    for (name, len) in [("small", 100), ("odd", 1_234_567), ("large", 32 << 20)] {
        let data = pattern(len);
        write_file(cluster.file(name), &data);
        let remote = format!("/mnt/pfs/dir/{name}");
        cluster.tool("pvfs2-cp", &[name, &remote]);
        cluster.tool("pvfs2-cp", &[&remote, &format!("{name}.back")]);
        let back = std::fs::read(cluster.file(&format!("{name}.back"))).expect("the copy");
        assert!(back == data, "{name}: the copy differs");
        let stat = cluster.tool("pvfs2-stat", &[&remote]);
        let size = stat.lines().find_map(|line| line.trim().strip_prefix("Size")?.split(':').nth(1));
        assert_eq!(size.map(str::trim), Some(len.to_string().as_str()), "{stat}");
    }
    let listing = cluster.tool("pvfs2-ls", &["/mnt/pfs/dir"]);
    let names: Vec<&str> = listing.split_whitespace().collect();
    for name in ["touched", "small", "odd", "large"] {
        assert!(names.contains(&name), "{name} is missing in {listing}");
    }
    cluster.tool("pvfs2-statfs", &["-m", "/mnt/pfs"]);
    let log = cluster.proxy.log();
    assert!(complaints(&log).is_empty(), "the proxies complained:\n{log}");
    cluster.proxy.terminate();
}

#[test]
fn stock_tools_reach_stock_servers_through_the_proxies() {
    if are_present("orangefs", &[&TOOLS[..], &[SERVER]].concat()) {
        exercise(Cluster::stock());
    }
}

#[test]
fn stock_tools_reach_embedded_servers_through_the_proxies() {
    if are_present("orangefs", &TOOLS) {
        exercise(Cluster::embedded());
    }
}

const FS_CONF_SERVER: &str = "pvfs2-server";

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
    output(Command::new(FS_CONF_SERVER).arg(config).args(["-f", "-a", "s1"])).status.success()
}

#[test]
fn a_real_server_and_vpfs_init_agree() {
    if !requirements::are_present("orangefs", &[FS_CONF_SERVER, SHOW]) {
        return;
    }
    for (name, text) in corpus() {
        let dir = tempfile::tempdir().expect("a directory");
        let config = dir.path().join("fs.conf");
        write_file(&config, in_directory(&text, dir.path()));
        let init = output(ours(&["init", "--from"]).arg(&config).arg("--output").arg(dir.path().join("c")));
        let taken = (server_takes(&config), init.status.success());
        let expected = match name.split('_').next() {
            Some("same") => (true, true),
            Some("ours") => (true, false),
            _ => (false, false),
        };
        assert_eq!(taken, expected, "{name}: {}", stderr(&init));
        if name.starts_with("same_") {
            let [data, meta] = ["data", "meta"].map(|part| dir.path().join(part));
            let shown = output(Command::new(SHOW).arg("-s").arg(data).arg("-m").arg(meta));
            let shown = stdout(&shown);
            assert!(shown.contains("\torangefs (coll_id = 1001)"), "{name}: {shown}");
        } else {
            let message = stderr(&init);
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
        write_file(&config, text);
        let checked = output(ours(&["proxy", "--check", "--connect", "--config"]).arg(&config));
        (checked.status.code(), stderr(&checked))
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
