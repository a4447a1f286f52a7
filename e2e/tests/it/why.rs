//! `vpfs why` and `vpfs history` where the answer is known: an embedded server on models of devices, a proxy, a small
//! application and a large one.

use std::os::unix::net::UnixStream;
use std::process::{Command, Output};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use serde_json::Value;
use vpfs_e2e::requirements::are_present;
use vpfs_e2e::{
    Daemon, await_some, cells, free_ports, get, get_by, ours, output, proxy_config, run, stderr, stdout, write_file,
};

/// For what needs some samples or windows.
const PATIENCE: Duration = Duration::from_secs(60);

/// An embedded server behind a proxy, for clients at 127.0.0.2 (*small*) and 127.0.0.3 (*large*).
struct Site {
    dir: tempfile::TempDir,
    _server: Daemon,
    proxy: Daemon,
    port: u16,
    runs: AtomicU32,
}

impl Site {
    /// With `policy`, and `limit` for the small application.
    fn start(device: &str, policy: &str, limit: &str) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let port = free_ports(3);
        let server = Daemon::serve(dir.path(), port..port + 1, &["--device", device]);
        let rest = format!(
            "[[app]]\nname = \"small\"\nclients = \"127.0.0.2\"\n{limit}\
             [[app]]\nname = \"large\"\nclients = \"127.0.0.3\"\n\
             [scheduler]\npolicy = \"{policy}\"\n\
             [peers]\naddresses = {{ s1 = \"127.0.0.1:{}\" }}\nsecurity = \"none\"\nsockets = \"sockets\"\n",
            port + 2
        );
        let config = dir.path().join("vpfs.toml");
        write_file(&config, proxy_config(1, port, port + 1, &rest));
        let proxy = Daemon::proxy(dir.path(), &config);
        Self { dir, _server: server, proxy, port, runs: AtomicU32::new(0) }
    }

    /// A load that ends by itself, in a directory of its own.
    fn load(&self, args: &[&str]) -> Command {
        let mut command = ours(&["workload"]);
        let url = format!("tcp://127.0.0.1:{}/pfs", self.port + 1);
        let directory = format!("/run{}", self.runs.fetch_add(1, Ordering::Relaxed));
        command.args(args).args(["--quiet", "--url", &url, "--directory", &directory]);
        command
    }

    /// One small read after another.
    fn small(&self, time: &str) -> Command {
        let call = ["interactive", "-n", "1", "-t", "4KiB", "--file", "256KiB", "--think", "2ms", "--read"];
        self.load(&[&call[..], &["--time", time, "--bind", "127.0.0.2"]].concat())
    }

    /// Many large writes at a time.
    fn large(&self, time: &str) -> Command {
        let call = ["ior", "-n", "16", "-t", "1MiB", "-b", "4MiB", "--write"];
        self.load(&[&call[..], &["--time", time, "--bind", "127.0.0.3"]].concat())
    }

    fn why(&self, args: &[&str]) -> Output {
        self.ask(&[&["why", "--interval", "2"], args].concat())
    }

    fn ask(&self, args: &[&str]) -> Output {
        let config = self.dir.path().join("vpfs.toml");
        output(ours(args).arg("--config").arg(config).env("STATE_DIRECTORY", self.dir.path()))
    }

    /// The samples of the small application, once there are more than `least`.
    fn await_history(&self, least: usize) -> Vec<Value> {
        await_some(PATIENCE, || {
            let answer = self.ask(&["history", "small", "--since", "1h", "--json"]);
            let samples: Vec<Value> = serde_json::from_slice(&answer.stdout).unwrap_or_default();
            if samples.len() > least { Ok(samples) } else { Err(format!("{answer:?}")) }
        })
    }

    /// Asks why the small application is as slow as it is until the answer is as expected; the words of that time.
    fn await_answer(&self, expected: impl Fn(&Value) -> bool) -> Value {
        await_some(PATIENCE, || {
            let answer = self.why(&["small", "--json"]);
            let found: Value = serde_json::from_slice(&answer.stdout).unwrap_or_default();
            if found.is_object() && expected(&found) { Ok(found) } else { Err(format!("{answer:?}")) }
        })
    }

    /// The small application beside the large one: that it waits for the large one is said, and the storage is not
    /// blamed. How much of its time that is, tests of the node compare, where no processor makes requests longer.
    fn is_explained(&self, mode: &str) {
        self.beside(&[Self::small], || {
            self.await_answer(|answer| answer["requests"].as_u64() > Some(100) && behind_others(answer) == 0.0)
        });
        let is_right = |answer: &Value| {
            let is_cause = mode.starts_with("managed") || answer["cause"]["app"] == "large";
            let is_storage = !answer["slower"].is_null() || seconds(answer, "storage_itself_seconds") > 0.0;
            behind_others(answer) > 0.0 && is_cause && !is_storage
        };
        self.beside(&[Self::small, Self::large], || self.await_answer(is_right));
    }

    /// Changes the configuration of the proxy that runs.
    fn set_mode(&mut self, before: &str, after: &str) {
        let file = self.dir.path().join("vpfs.toml");
        let text = std::fs::read_to_string(&file).expect("a file");
        write_file(&file, text.replace(&format!("\"{before}\""), &format!("\"{after}\"")));
        self.proxy.signal("HUP");
        await_some(PATIENCE, || {
            let log = self.proxy.log();
            let last = log.lines().rfind(|line| line.contains("scheduler.mode")).unwrap_or_default().to_owned();
            if last.contains(&format!("-> {after}")) { Ok(()) } else { Err(log) }
        });
    }

    /// Runs `loads` again and again, each by itself, while `during` runs.
    fn beside<T>(&self, loads: &[fn(&Self, &str) -> Command], during: impl FnOnce() -> T) -> T {
        let busy = AtomicBool::new(true);
        std::thread::scope(|scope| {
            for load in loads {
                scope.spawn(|| {
                    while busy.load(Ordering::Relaxed) {
                        drop(output(&mut load(self, "3s")));
                    }
                });
            }
            let stop = Stop(&busy);
            let result = during();
            drop(stop);
            result
        })
    }
}

/// Lets loads end also if a test fails.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Relaxed);
    }
}

fn seconds(answer: &Value, name: &str) -> f64 {
    answer[name].as_f64().unwrap_or_else(|| panic!("{name} of {answer}"))
}

/// All seconds of a list by application.
fn behind(answer: &Value, name: &str) -> f64 {
    let list = answer[name].as_object().unwrap_or_else(|| panic!("{name} of {answer}"));
    list.values().filter_map(Value::as_f64).sum()
}

/// Seconds behind the large application, in vpfs and in the storage.
fn behind_others(answer: &Value) -> f64 {
    ["behind", "behind_in_storage"].iter().filter_map(|list| answer[list]["large"].as_f64()).sum()
}

#[test]
fn the_noisy_neighbour_is_named_under_fifo() {
    let site = Site::start("hdd", "fifo", "");
    run(&mut site.small("3s"));
    site.beside(&[Site::small, Site::large], || {
        let answer = site.await_answer(|answer| answer["cause"]["kind"] == "neighbour");
        assert_eq!(answer["cause"]["app"], "large");
        let large = answer["behind_in_storage"]["large"].as_f64().unwrap_or(0.0);
        let excess = seconds(&answer, "request_seconds") - seconds(&answer, "quiet_seconds");
        assert!(large >= 0.9 * excess && excess > 0.0, "{answer}");
        let text = stdout(&site.why(&["small"]));
        assert!(text.contains("vpfs held nothing.") && text.contains("behind large"), "{text}");
        let matrix = stdout(&site.why(&[]));
        assert!(matrix.contains(" large ") && matrix.contains(" small "), "{matrix}");
    });
}

#[test]
fn an_application_that_is_isolated_gets_what_it_is_entitled_to() {
    let site = Site::start("hdd", "isolation", "");
    run(&mut site.small("3s"));
    site.beside(&[Site::small, Site::large], || {
        let is_beside = |answer: &Value| behind(answer, "behind_in_storage") > 0.0;
        let answer = site.await_answer(|answer| is_beside(answer) && answer["below_entitled"] == false);
        assert_eq!(answer["slower"], Value::Null, "{answer}");
        let text = stdout(&site.why(&["small"]));
        assert!(text.contains("It gets what it is entitled to"), "{text}");
    });
}

/// Symptom: after a change from manage to observe, `vpfs why` told an application that its neighbour had slowed down
/// sixteen times to look for a failing disk, `vpfs report` that nobody waited for another, and the log that the storage
/// was slower than it was.
#[test]
fn who_waits_for_whom_is_the_same_managed_observed_and_after_a_change() {
    let mut changed = Site::start("one-head", "isolation\"\nmode = \"manage", "");
    changed.is_explained("managed");
    changed.set_mode("manage", "observe");
    changed.is_explained("observed after management");
    let why = stdout(&changed.beside(&[Site::small, Site::large], || changed.why(&["small"])));
    assert!(why.contains("What would change it: mode = \"manage\""), "{why}");
    changed.set_mode("observe", "manage");
    changed.is_explained("managed again");
    let report = stdout(&changed.ask(&["report", "--since", "1h"]));
    assert!(!report.contains("No application waited"), "{report}");
    assert!(!changed.proxy.log().contains("the storage is slower"), "{}", changed.proxy.log());
    Site::start("one-head", "isolation\"\nmode = \"observe", "").is_explained("observed");
}

#[test]
fn a_cap_is_named() {
    // 100 ms for each read, far longer than the storage takes, also where the processors are busy.
    let site = Site::start("none", "isolation", "server_cap = \"40KB/s\"\nburst = \"4KiB\"\n");
    site.beside(&[Site::small], || {
        let answer = site.await_answer(|answer| answer["cause"]["kind"] == "cap");
        let [cap, all] = [&answer["waits"]["cap_seconds"], &answer["request_seconds"]].map(|value| value.as_f64());
        assert!(cap > all.map(|all| 0.5 * all), "{answer}");
        // Each answer is about other seconds, and none may have ended a request.
        await_some(PATIENCE, || {
            let text = stdout(&site.why(&["small"]));
            if text.contains("Its own cap of 40KB/s holds it.") { Ok(()) } else { Err(text) }
        });
    });
}

#[test]
fn history_outlives_the_process_and_answers_why() {
    let mut site = Site::start("none", "isolation", "");
    run(&mut site.small("2s"));
    let samples = site.await_history(0);
    let requests = |samples: &[Value]| {
        let of = |sample: &Value| sample["app"]["read"]["requests"].as_u64();
        samples.iter().filter_map(of).sum::<u64>()
    };
    assert!(requests(&samples) > 32, "{samples:?}");
    let table = site.ask(&["history", "small"]);
    assert!(stdout(&table).contains(" s1 "), "{table:?}");
    let csv = stdout(&site.ask(&["history", "small", "--csv"]));
    let columns: Vec<usize> = csv.lines().map(|line| line.split(',').count()).collect();
    assert!(columns.len() > samples.len() && columns.iter().all(|columns| *columns == 11), "{csv}");

    let _successor = site.proxy.upgrade();
    run(&mut site.small("2s"));
    let later = site.await_history(samples.len());
    assert_eq!(later[..samples.len()], samples, "nothing is lost");
    let why = site.ask(&["why", "small", "--since", "1h", "--json"]);
    let why: Value = serde_json::from_slice(&why.stdout).unwrap_or_else(|_| panic!("{why:?}"));
    assert!(why["requests"].as_u64() > Some(requests(&samples)), "{why}");
    let text = site.ask(&["why", "small", "--since", "1h"]);
    assert!(stderr(&text).contains("it begins at"), "{text:?}");
}

/// The page of `vpfs web` begins with the history, and says who waits for whom, as the API does; in a browser, too.
#[test]
fn a_page_has_the_last_hour_and_who_waits_for_whom() {
    let site = Site::start("throttled-disk", "fifo", "");
    run(&mut site.small("2s"));
    let requests = |app: &Value| -> u64 {
        ["read", "write", "metadata"].iter().filter_map(|op| app[op]["requests"].as_u64()).sum()
    };
    let socket = || UnixStream::connect(site.dir.path().join("sockets/s1.sock")).expect("a socket");
    let status: Value = serde_json::from_str(&get_by(socket(), "/v1/status", "").1).expect("JSON");
    let apps = status["servers"][0]["apps"].as_array().expect("applications");
    let all = requests(apps.iter().find(|app| app["app"] == "small").expect("small"));
    await_some(PATIENCE, || {
        let kept = site.await_history(0).iter().map(|sample| requests(&sample["app"])).sum::<u64>();
        if kept == all { Ok(()) } else { Err(format!("{kept} of {all} requests")) }
    });
    let mut web =
        Daemon::start(site.dir.path(), "web", ours(&["web", "--config"]).arg(site.dir.path().join("vpfs.toml")));
    web.await_log("http://");
    let url = format!("{}still", web.log().trim());
    let (address, path) = url.strip_prefix("http://").and_then(|rest| rest.split_once('/')).expect("an address");
    let page = || get(address, &format!("/{path}"), "").1;
    let hour = cells(&page(), "The last hour", "small").expect("small did something");
    assert_eq!(hour[1], all.to_string(), "{hour:?}");
    site.beside(&[Site::small, Site::large], || {
        let behind_large = |page: &str| -> Option<f64> {
            let columns = page.split_once("<h2>Who waits for whom</h2>")?.1.split("<th").skip(3);
            let column = columns.take(7).position(|name| name.contains(">large</th>"))?;
            cells(page, "Who waits for whom", "small")?.get(column)?.trim_end_matches('%').parse().ok()
        };
        await_some(PATIENCE, || {
            let page = page();
            if behind_large(&page) >= Some(50.0) { Ok(()) } else { Err(page) }
        });
        if are_present("chromium", &["chromium"]) {
            let mut browser = Command::new("chromium");
            browser.args(["--headless", "--no-sandbox", "--disable-gpu", "--dump-dom"]).arg(&url);
            assert!(behind_large(&run(&mut browser)) > Some(0.0));
        }
    });
}

/// What a careful site does first: it only observes, and reads the next morning who slowed whom.
#[test]
fn a_report_of_observed_applications_says_who_slowed_whom() {
    let site = Site::start("throttled-disk", "isolation\"\nmode = \"observe", "");
    run(&mut site.small("2s"));
    let report = site.dir.path().join("report.html");
    let file = report.to_str().expect("a name");
    site.beside(&[Site::small, Site::large], || {
        let page = await_some(PATIENCE, || {
            let written = site.ask(&["report", "--since", "1h", "--html", file, "--overwrite"]);
            let page = std::fs::read_to_string(&report).unwrap_or_default();
            let rows = cells(&page, "Who slowed whom", "small");
            let is_named = rows.is_some_and(|cells| cells.first().is_some_and(|by| by == "large"));
            if is_named { Ok(page) } else { Err(format!("{written:?} {page}")) }
        });
        assert!(page.contains("in [scheduler] (now: ") && !page.contains("Left out"), "{page}");
        assert!(
            page.contains("isolation (observed) at s1")
                && cells(&page, "Shares of the storage's time", "small").is_some(),
            "{page}"
        );
    });
    let written = site.ask(&["report", "--since", "1h", "--html", file, "--overwrite"]);
    assert!(stdout(&written).contains("report.html"), "{written:?}");
    let refused = site.ask(&["report", "--html", file]);
    assert!(stderr(&refused).contains("--overwrite"), "{refused:?}");
    let text = site.ask(&["report", "--since", "1h"]);
    assert!(stdout(&text).contains("Who slowed whom"), "{text:?}");
}

/// Symptom: without a proxy that runs, `vpfs history` showed nothing of what was kept.
#[test]
fn what_was_kept_is_shown_when_the_proxy_has_ended() {
    let mut site = Site::start("none", "isolation", "");
    run(&mut site.small("1s"));
    let samples = site.await_history(0);
    site.proxy.kill();
    let answer = site.ask(&["history", "small", "--since", "1h", "--json"]);
    let kept: Vec<Value> = serde_json::from_slice(&answer.stdout).unwrap_or_default();
    assert!(kept.starts_with(&samples), "{answer:?}");
    assert!(stderr(&answer).contains("the proxy of s1 does not answer"), "{answer:?}");
    assert!(site.ask(&["report", "--since", "1h"]).status.success());
}

#[test]
fn history_that_is_off_is_not_kept() {
    let site = Site::start("none", "isolation", "[history]\nenabled = \"off\"\n");
    run(&mut site.small("1s"));
    let answer = site.ask(&["history", "small"]);
    assert!(stderr(&answer).contains("history.enabled is off"), "{answer:?}");
    let files = std::fs::read_dir(site.dir.path()).expect("a directory");
    assert!(files.flatten().all(|file| !file.file_name().to_string_lossy().contains("history")));
}
