//! What proxies measure, read as Prometheus and administrators do, against what a client measured.

use std::collections::BTreeMap;
use std::io::Write;
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::Value;
use vpfs_e2e::requirements::are_present;
use vpfs_e2e::{
    Daemon, await_some, cells, free_ports, get, ours, output, proxy_config, run, stderr, stdout, write_file,
};

const TOKEN: &str = "f00d";
const KEY: &str = "0123456789abcdef";

/// Two embedded servers, each with a proxy process that serves metrics; the second wants a token.
struct Site {
    dir: tempfile::TempDir,
    security: &'static str,
    _servers: Daemon,
    proxies: Vec<Daemon>,
    port: u16,
}

impl Site {
    const SERVERS: u16 = 2;

    fn start() -> Self {
        Self::start_with("security = \"none\"")
    }

    /// With what `[peers]` says of security; there is a `peers.key`.
    fn start_with(security: &'static str) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let port = free_ports(5 * Self::SERVERS);
        let servers = Daemon::serve(dir.path(), port..port + Self::SERVERS, &[]);
        write_file(dir.path().join("token"), format!("{TOKEN}\n"));
        write_file(dir.path().join("key"), format!("{KEY}\n"));
        write_key(&dir.path().join("peers.key"), "0");
        let mut site = Self { dir, security, _servers: servers, proxies: Vec::new(), port };
        site.proxies = (1..=Self::SERVERS).map(|server| site.proxy(server)).collect();
        site
    }

    fn file(&self, server: u16) -> PathBuf {
        self.dir.path().join(format!("s{server}.toml"))
    }

    /// Where the proxy of a server serves metrics.
    fn metrics(&self, server: u16) -> String {
        format!("127.0.0.1:{}", self.port + 3 * Self::SERVERS + server - 1)
    }

    /// Where the proxy of a server serves its page.
    fn web(&self, server: u16) -> String {
        format!("127.0.0.1:{}", self.port + 4 * Self::SERVERS + server - 1)
    }

    fn proxy(&self, server: u16) -> Daemon {
        let peers = self.port + 2 * Self::SERVERS;
        let mut rest = format!(
            "[[app]]\nname = \"climate\"\nclients = \"127.0.0.1\"\n\
             [peers]\naddresses = {{ s1 = \"127.0.0.1:{peers}\", s2 = \"127.0.0.1:{}\" }}\n{}\nsockets = \"sockets\"\n[web]\nlisten = {:?}\nkey = \"key\"\n\
             [metrics]\nlisten = {:?}\n",
            peers + 1,
            self.security,
            self.web(server),
            self.metrics(server)
        );
        if server == 2 {
            rest += "token = \"token\"\n";
        }
        write_file(self.file(server), proxy_config(Self::SERVERS, self.port, self.port + Self::SERVERS, &rest));
        let mut command = ours(&["proxy", "--server", &format!("s{server}"), "--config"]);
        command.arg(self.file(server));
        let mut proxy = Daemon::start(self.dir.path(), &format!("s{server}"), &mut command);
        proxy.await_log("serving metrics");
        proxy
    }

    /// Runs a load, and returns what its client says that it wrote and read.
    fn load(&self) -> BTreeMap<&'static str, f64> {
        let report = self.dir.path().join("ior.json");
        let url = format!("tcp://127.0.0.1:{}/pfs", self.port + Self::SERVERS);
        let mut ior =
            ours(&["workload", "ior", "--processes", "4", "--transfer", "192KiB", "--block", "1536KiB", "--url", &url]);
        run(ior.arg("--json").arg(&report));
        let report: Value = serde_json::from_slice(&std::fs::read(report).expect("a report")).expect("JSON");
        let phases = report["repetitions"][0]["phases"].as_array().expect("phases");
        let bytes = |name: &'static str| {
            let phase = phases.iter().find(|phase| phase["phase"] == name).expect(name);
            (name, phase["bytes"].as_f64().expect("bytes"))
        };
        ["read", "write"].map(bytes).into()
    }

    fn scrape(&self, server: u16) -> String {
        let (status, body) = get(&self.metrics(server), "/metrics", &format!("Authorization: Bearer {TOKEN}\r\n"));
        assert_eq!(status, 200, "{body}");
        body
    }

    /// The data bytes of an application by what was done, over both servers.
    fn data(&self) -> BTreeMap<&'static str, f64> {
        let texts: Vec<String> = (1..=Self::SERVERS).map(|server| self.scrape(server)).collect();
        let sum = |op: &'static str| {
            let labels = format!("app=\"climate\",op=\"{op}\"");
            (op, texts.iter().map(|text| value(text, "vpfs_app_data_bytes_total", &labels)).sum::<f64>())
        };
        ["read", "write"].map(sum).into()
    }
}

/// The value of the series of a metric whose labels contain `labels`.
fn value(text: &str, metric: &str, labels: &str) -> f64 {
    let found = text.lines().find(|line| {
        line.strip_prefix(metric).is_some_and(|rest| rest.starts_with(['{', ' ']) && rest.contains(labels))
    });
    let value = found.and_then(|line| line.rsplit(' ').next()?.parse().ok());
    value.unwrap_or_else(|| panic!("no {metric} with {labels} in\n{text}"))
}

/// Tries until it is so; fails after half a minute, and says what was instead.
fn await_equal<T: PartialEq + std::fmt::Debug>(expected: &T, found: impl Fn() -> T) {
    await_some(Duration::from_secs(30), || {
        let found = found();
        if found == *expected { Ok(()) } else { Err(format!("{found:?} instead of {expected:?}")) }
    });
}

/// A key for `[peers]` of this digit.
fn write_key(path: &Path, digit: &str) {
    write_file(path, digit.repeat(64));
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).expect("its owner's");
}

fn repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the repository").join(path)
}

#[test]
fn counters_are_what_clients_measured_across_a_reload_and_an_upgrade() {
    let mut site = Site::start();
    let measured = site.load();
    // A client may have its answer a moment before the proxy has counted it.
    await_equal(&measured, || site.data());
    let file = std::fs::read_to_string(site.file(1)).expect("a file") + "[log]\nlevel = \"debug\"\n";
    write_file(site.file(1), file);
    site.proxies[0].signal("HUP");
    site.proxies[0].await_log("reloaded");
    assert_eq!(site.data(), measured, "a reload forgets nothing");
    let before = site.scrape(1);
    let started = |text: &str| value(text, "process_start_time_seconds", "");
    assert_eq!(started(&before), started(&site.scrape(1)), "it is the same as long as the process lives");
    let _successor = site.proxies[0].upgrade();
    // By the log of both.
    await_equal(&2, || site.proxies[0].log().matches("serving metrics").count());
    let text = site.scrape(1);
    assert!(started(&text) > started(&before), "a counter that begins anew is known by this");
    assert_eq!(value(&text, "vpfs_app_data_bytes_total", "app=\"climate\",op=\"read\""), 0.0, "{text}");

    let there = site.data();
    let more = site.load();
    let sums = more.iter().map(|(op, bytes)| (*op, bytes + there[op])).collect();
    await_equal(&sums, || site.data());
    // The socket is the successor's as well.
    let peers = run(ours(&["peers", "--json", "--config"]).arg(site.file(1)));
    let peers: Value = serde_json::from_str(&peers).expect("JSON");
    assert_eq!((&peers[0]["servers"][0], &peers[1]["servers"][0]), (&"s1".into(), &"s2".into()));
}

#[test]
fn top_shows_what_goes_on() {
    let site = Site::start();
    let top =
        |args: &[&str]| run(ours(&["top", "--once", "--interval", "1"]).args(args).arg("--config").arg(site.file(1)));
    let busy = std::sync::atomic::AtomicBool::new(true);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while busy.load(std::sync::atomic::Ordering::Relaxed) {
                site.load();
            }
        });
        let climate = |text: &str| {
            let shown: Value = serde_json::from_str(text).expect("JSON");
            let apps = shown["apps"].as_array().expect("a list");
            apps.iter().find(|app| app["app"] == "climate").expect("the application").clone()
        };
        // An interval may lie between two loads.
        let shown = await_some(Duration::from_secs(30), || {
            let shown = climate(&top(&["--json"]));
            if shown["requests_per_second"].as_f64() > Some(0.0) { Ok(shown) } else { Err(shown.to_string()) }
        });
        let number = |name: &str| shown[name].as_f64().unwrap_or_else(|| panic!("{name} of {shown}"));
        assert!(number("used") > 0.0 && number("entitled") == 1.0, "alone, it is entitled to all: {shown}");
        assert!(number("storage_seconds") > 0.0 && number("bytes_per_second") > 0.0, "{shown}");
        let table = top(&["--sort", "app", "--server", "s2"]);
        let told = |text| table.contains(text);
        assert!(told(" UTC  ") && told(": The storage is ") && told("\n  climate ") && told("\n  total "), "{table}");
        busy.store(false, std::sync::atomic::Ordering::Relaxed);
    });
}

#[test]
fn strangers_get_nothing() {
    let site = Site::start();
    let open = site.metrics(1);
    assert_eq!(get(&open, "/v1/status", "").0, 404, "the network has metrics only");
    let guarded = site.metrics(2);
    for headers in ["", "Authorization: Bearer f00\r\n", "Authorization: Basic f00d\r\n"] {
        let (status, body) = get(&guarded, "/metrics", headers);
        assert!(status == 401 && !body.contains("vpfs_"), "{headers}: {status} {body}");
    }
    assert!(site.scrape(2).contains("vpfs_build_info"));
    std::fs::remove_file(site.dir.path().join("token")).expect("the file");
    let empty = "Authorization: Bearer \r\n";
    assert_eq!(get(&guarded, "/metrics", empty).0, 401, "without its file nobody may");
    // More that say nothing than there are places; they are dropped in time, and storage goes on.
    let silent: Vec<TcpStream> = (0..10).filter_map(|_| TcpStream::connect(&open).ok()).collect();
    site.load();
    drop(silent);
    assert_eq!(get(&open, "/metrics", "").0, 200);
}

#[test]
fn prometheus_scrapes_two_proxies_and_evaluates_the_rules() {
    if !are_present("prometheus", &["prometheus", "promtool"]) {
        return;
    }
    let site = Site::start();
    let dir = site.dir.path();
    let port = free_ports(1);
    let rules = repository("packaging/prometheus/vpfs.rules.yml");
    let config = format!(
        "global: {{scrape_interval: 1s, evaluation_interval: 1s}}\nrule_files: [{rules:?}]\nscrape_configs:\n  \
         - {{job_name: vpfs, static_configs: [{{targets: [{:?}]}}]}}\n  \
         - {{job_name: vpfs-token, authorization: {{credentials_file: {:?}}}, static_configs: [{{targets: [{:?}]}}]}}\n",
        site.metrics(1),
        dir.join("token"),
        site.metrics(2)
    );
    write_file(dir.join("prometheus.yml"), config);
    let address = format!("127.0.0.1:{port}");
    let mut prometheus = Command::new("prometheus");
    prometheus.arg(format!("--config.file={}", dir.join("prometheus.yml").display()));
    prometheus.arg(format!("--storage.tsdb.path={}", dir.join("data").display()));
    prometheus.arg(format!("--web.listen-address={address}"));
    let mut prometheus = Daemon::start(dir, "prometheus", &mut prometheus);
    prometheus.await_port(port);
    let measured = site.load();
    let query = |query: &str| {
        let body = get(&address, &format!("/api/v1/query?query={query}"), "").1;
        let answer: Value = serde_json::from_str(&body).unwrap_or_default();
        answer["data"]["result"][0]["value"][1].as_str().and_then(|value| value.parse::<f64>().ok())
    };
    await_equal(&Some(2.0), || query("sum(up)"));
    for (op, bytes) in measured {
        let sum = format!("sum(vpfs_app_data_bytes_total%7Bapp=%22climate%22,op=%22{op}%22%7D)");
        await_equal(&Some(bytes), || query(&sum));
    }
    await_equal(&Some(2.0), || query("count(server:vpfs_server_busy:ratio5m)"));
    let rules = get(&address, "/api/v1/rules", "").1;
    assert!(!rules.contains("\"health\":\"err\""), "{rules}");
}

#[test]
fn names_and_rules_follow_the_conventions() {
    if !are_present("prometheus", &["promtool"]) {
        return;
    }
    let site = Site::start();
    site.load();
    let text = site.scrape(1);
    let file = site.dir.path().join("metrics.txt");
    write_file(&file, &text);
    let metrics = std::fs::File::open(file).expect("a file");
    let mut check = Command::new("promtool");
    let checked = check.args(["check", "metrics"]).stdin(metrics).output().expect("promtool");
    let complaints = stderr(&checked);
    assert!(checked.status.success() && complaints.is_empty(), "{complaints}");
    run(Command::new("promtool").args(["check", "rules"]).arg(repository("packaging/prometheus/vpfs.rules.yml")));
    let tested = output(
        Command::new("promtool").args(["test", "rules"]).arg(repository("packaging/prometheus/vpfs.rules.test.yml")),
    );
    assert!(tested.status.success(), "{}", stdout(&tested));
}

/// A metric that was renamed would leave an empty panel, or an alert that never comes.
#[test]
fn rules_and_dashboard_use_metrics_that_exist() {
    let site = Site::start();
    site.load();
    let text = site.scrape(1);
    let exist: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("# HELP ")?.split(' ').next()).collect();
    for file in ["packaging/prometheus/vpfs.rules.yml", "packaging/grafana/vpfs.json", "docs/guide/watching.md"] {
        let content = std::fs::read_to_string(repository(file)).expect(file);
        let is_name = |char: char| char.is_ascii_alphanumeric() || matches!(char, '_' | ':');
        let words = content.split(|char| !is_name(char)).filter(|word| word.starts_with("vpfs_"));
        for word in words {
            let family = ["_bucket", "_sum", "_count"].iter().find_map(|end| word.strip_suffix(end)).unwrap_or(word);
            assert!(exist.contains(&word) || exist.contains(&family), "{file}: {word}");
        }
    }
}

/// What happened is told in order, once, with names, and also if the log itself is quiet.
#[test]
fn events_tell_what_happened() {
    let site = Site::start();
    let ask = |server: u16| {
        let events = ["events", "--json", "--server", &format!("s{server}"), "--config"];
        let lines = run(ours(&events).arg(site.file(server)));
        let event = |line: &str| serde_json::from_str::<Value>(line).expect("JSON");
        lines.lines().map(event).collect::<Vec<Value>>()
    };
    let messages = |events: &[Value]| -> Vec<String> {
        events.iter().map(|event| event["message"].as_str().expect("a message").to_owned()).collect()
    };
    let events = ask(1);
    let found = messages(&events);
    assert!(found.iter().any(|message| message == "ready"), "{found:?}");
    let listening = events.iter().find(|event| event["message"] == "listening").expect("it listens");
    let fields = listening["fields"].as_array().expect("fields");
    assert!(fields.contains(&serde_json::json!({ "name": "server", "value": "s1" })), "{fields:?}");
    let numbers: Vec<u64> = events.iter().map(|event| event["number"].as_u64().expect("a number")).collect();
    assert!(numbers.iter().copied().eq(0..numbers.len() as u64), "{numbers:?}");
    let text = std::fs::read_to_string(site.file(1)).expect("a file");
    write_file(site.file(1), format!("{text}[log]\nlevel = \"error\"\n"));
    site.proxies[0].signal("HUP");
    await_equal(&true, || messages(&ask(1)).iter().any(|message| message == "reloaded"));
}

/// The page of `vpfs web` says what a client measured, to those alone who know its address, and a browser shows it.
#[test]
fn a_page_shows_what_goes_on() {
    let site = Site::start();
    let mut web = Daemon::start(site.dir.path(), "web", ours(&["web", "--config"]).arg(site.file(1)));
    web.await_log("http://");
    let url = web.log().trim().to_owned();
    let (address, path) = url.strip_prefix("http://").and_then(|rest| rest.split_once('/')).expect("an address");
    let page = || get(address, &format!("/{path}still"), "").1;
    assert_eq!((get(address, "/", "").0, get(address, "/0123/", "").0), (404, 404));
    let mut head = TcpStream::connect(address).expect("it listens");
    write!(head, "HEAD /{path}still HTTP/1.0\r\n\r\n").expect("a request");
    let answer = std::io::read_to_string(head).expect("an answer");
    assert!(answer.starts_with("HTTP/1.0 200") && answer.ends_with("\r\n\r\n"), "{answer}");
    let measured = site.load();
    let bytes: f64 = measured.values().sum();
    // Of the last five seconds, or nothing while there was none.
    let rate = || cells(&page(), "Applications now", "climate")?.get(2)?.parse::<f64>().ok();
    await_equal(&true, || rate() > Some(0.0));
    let seen = rate().expect("a rate");
    assert!(seen * 5e6 <= bytes * 1.2, "{seen} MB/s of {bytes} bytes");
    // All of it was after the first look, so the hour has what the API has, which is what the client measured.
    let requests = (1..=Site::SERVERS).map(|server| {
        let text = site.scrape(server);
        let of = |op| value(&text, "vpfs_app_requests_total", &format!("app=\"climate\",op=\"{op}\""));
        ["read", "write", "metadata"].map(of).iter().sum::<f64>()
    });
    let expected = vec![format!("{:.1}", bytes / 1e6), requests.sum::<f64>().to_string()];
    await_equal(&Some(expected), || Some(cells(&page(), "The last hour", "climate")?[..2].to_vec()));
    if are_present("chromium", &["chromium"]) {
        let shown = run(Command::new("chromium")
            .args(["--headless", "--no-sandbox", "--disable-gpu", "--dump-dom"])
            .arg(format!("{url}still")));
        for text in [">climate</td>", ">s1</td>", ">s2</td>", "ready", "The storage is "] {
            assert!(shown.contains(text), "no {text} in\n{shown}");
        }
    }
}

/// With `[web]`, the proxy serves the page of its own server, also after an upgrade, to those alone who know its key.
#[test]
fn a_proxy_serves_its_page_if_told() {
    let mut site = Site::start();
    let address = site.web(1);
    let page = || get(&address, &format!("/{KEY}/"), "").1;
    for path in ["/", "/0123456789abcdee/", "//", "/v1/status", "/metrics"] {
        let (status, body) = get(&address, path, "");
        assert!(status == 404 && !body.contains("climate"), "{path}: {status} {body}");
    }
    site.load();
    let shown = |text: &str| {
        let of = |op| value(text, "vpfs_app_requests_total", &format!("app=\"climate\",op=\"{op}\""));
        Some(["read", "write", "metadata"].map(of).iter().sum::<f64>().to_string())
    };
    let requests = || Some(cells(&page(), "The last hour", "climate")?[1].clone());
    await_equal(&shown(&site.scrape(1)), requests);
    assert!(page().contains(">s1</td>") && !page().contains("<h1>vpfs: s2"), "{}", page());
    let _successor = site.proxies[0].upgrade();
    await_equal(&2, || site.proxies[0].log().matches("serving the page").count());
    await_equal(&true, || page().contains("took over"));
    std::fs::remove_file(site.dir.path().join("key")).expect("the file");
    assert_eq!(get(&address, &format!("/{KEY}/"), "").0, 404, "without its file nobody may");
}

/// Commands on a host without proxies ask all of the cluster with its key, and get nothing without.
#[test]
fn commands_ask_from_elsewhere_with_the_key() {
    let site = Site::start_with("shared_key = \"peers.key\"");
    site.load();
    let elsewhere = site.dir.path().join("elsewhere.toml");
    let text = std::fs::read_to_string(site.file(1)).expect("a file").replace("\"sockets\"", "\"nowhere\"");
    write_file(&elsewhere, &text);
    let ask = |args: &[&str]| output(ours(args).arg("--config").arg(&elsewhere));
    assert!(!ask(&["events"]).status.success(), "there is no socket");
    let top = ask(&["top", "--once", "--json", "--interval", "1", "--remote"]);
    let top: Value = serde_json::from_slice(&top.stdout).unwrap_or_else(|_| panic!("{top:?}"));
    assert!(top["apps"].as_array().is_some_and(|apps| apps.iter().any(|app| app["app"] == "climate")), "{top}");
    for (args, count) in [(&["events", "--remote"][..], 2), (&["events", "--remote", "--server", "s2"], 1)] {
        let events = ask(args);
        let events = stdout(&events);
        assert_eq!(events.matches(" ready ").count(), count, "{events}");
    }
    write_key(&site.dir.path().join("other.key"), "1");
    for (found, replacement) in [("shared_key = \"peers.key\"", "security = \"none\""), ("peers.key", "other.key")] {
        write_file(&elsewhere, text.replace(found, replacement));
        let refused = ask(&["events", "--remote"]);
        assert!(!refused.status.success() && refused.stdout.is_empty(), "{replacement}: {refused:?}");
    }
    // The port says nothing to those who do not speak TLS.
    let port = site.port + 2 * Site::SERVERS;
    let mut stranger = TcpStream::connect(("127.0.0.1", port)).expect("it listens");
    stranger.write_all(b"GET /v1/status HTTP/1.0\r\n\r\n").expect("sent");
    let mut answer = Vec::new();
    // It may be reset.
    let _ = std::io::Read::read_to_end(&mut stranger, &mut answer);
    assert!(!String::from_utf8_lossy(&answer).contains("HTTP"), "{answer:?}");
}
