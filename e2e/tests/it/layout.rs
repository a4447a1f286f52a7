//! The built command from server profiles and a log to layouts.

use std::fmt::Write as _;
use std::path::Path;

use serde_json::Value;
use vpfs_e2e::{Daemon, command, free_ports, output, run};

fn write(dir: &Path, name: &str, text: &str) {
    std::fs::write(dir.join(name), text).expect("a file");
}

/// The log of the paper's experiment, shorter: 16 processes, requests of `kib` KiB at random places.
fn log(op: char, kib: u64) -> String {
    let mut log = String::from("rank,op,offset,size,time,end,file\n");
    let size = kib << 10;
    for number in 0..64_u64 {
        let (rank, offset) = (number % 16, number * 37 % 64 * size);
        writeln!(log, "{rank},{op},{offset},{size},{number},{number}.5,/pfs/shared").expect("text");
    }
    log
}

/// Six disks and two flash servers that are measured, as models, have the stripes that the paper found on real ones
/// [HARL §IV-B]. They depend on times by server class to a few percent.
#[test]
fn measured_classes_get_the_papers_stripes() {
    let dir = tempfile::tempdir().expect("a directory");
    let dir = dir.path();
    let profile = |args: &[&str]| run(&mut command(dir, &[&["profile", "class"], args].concat()));
    profile(&["disk", "--model", "harl-disk", "--servers", "6", "--network", "112.36MB/s"]);
    profile(&["flash", "--model", "harl-flash", "--addresses", "tcp://oss7:3334,tcp://oss8:3334"]);
    let advise = ["layout", "advise", "run.csv", "--servers", "disk.toml", "--servers", "flash.toml"];
    for (op, disk, flash) in [('r', 32, 160), ('w', 36, 148)] {
        write(dir, "run.csv", &log(op, 512));
        let advised = run(&mut command(dir, &[&advise[..], &["--model", "paper", "--json", "-"]].concat()));
        let json: Value = serde_json::from_str(&advised).expect("valid JSON");
        let region = &json[0]["regions"][0];
        assert_eq!(region["stripes"]["disk"], disk << 10, "{json}");
        assert_eq!(region["stripes"]["flash"], flash << 10, "{json}");
    }
    write(dir, "run.csv", &log('r', 512));
    let refused = output(&mut command(dir, &[&advise[..], &["--for", "orangefs"]].concat()));
    let message = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(refused.status.code() == Some(2) && message.contains("class \"disk\" has no addresses"), "{message}");
    write(dir, "run.csv", &log('r', 128));
    let template = ["--model", "paper", "--for", "lustre-yaml", "--script", "a.lyl"];
    run(&mut command(dir, &[&advise[..], &template[..]].concat()));
    let written = std::fs::read_to_string(dir.join("a.lyl")).expect("a template");
    assert!(written.contains("\nlmm_stripe_count: 2\nlmm_stripe_size: 65536\nlmm_pool: flash\n"), "{written}");
    let again = output(&mut command(dir, &[&advise[..], &template[..]].concat()));
    let message = String::from_utf8_lossy(&again.stderr).into_owned();
    assert!(again.status.code() == Some(2) && message.contains("a.lyl exists; choose another name"), "{message}");
}

#[test]
fn the_network_is_measured_between_two_commands() {
    let dir = tempfile::tempdir().expect("a directory");
    let dir = dir.path();
    let port = free_ports(1);
    let address = format!("127.0.0.1:{port}");
    let mut listening = Daemon::start(dir, "network", &mut command(dir, &["profile", "network", "--listen", &address]));
    listening.await_log("listening on");
    let told = run(&mut command(dir, &["profile", "network", &address, "--time", "200ms"]));
    assert!(told.starts_with("network: ") && told.contains("written to network.toml"), "{told}");
    run(&mut command(dir, &["profile", "class", "flash", "--model", "harl-flash", "--servers", "2"]));
    write(dir, "run.csv", &log('w', 512));
    let advise = ["layout", "advise", "run.csv", "--servers", "network.toml", "--servers", "flash.toml"];
    assert!(run(&mut command(dir, &advise)).contains("/pfs/shared"));
    let again = output(&mut command(dir, &["profile", "network", &address]));
    assert!(again.status.code() == Some(2) && String::from_utf8_lossy(&again.stderr).contains("--overwrite"));
    let without = output(&mut command(dir, &["layout", "advise", "run.csv", "--servers", "flash.toml"]));
    assert!(String::from_utf8_lossy(&without.stderr).contains("flash.toml: network is missing"), "{without:?}");
}

/// From a run's log to the same file in the advised stripes, without a mounted client; the workload finds its data.
#[test]
fn an_advised_file_is_copied_and_read_again() {
    let dir = tempfile::tempdir().expect("a directory");
    let dir = dir.path();
    let port = free_ports(4);
    let _servers = Daemon::serve(dir, port..port + 4, &[]);
    let addresses = |first: u16| format!("tcp://127.0.0.1:{},tcp://127.0.0.1:{}", port + first, port + first + 1);
    let profile = |class: &str, model: &str, first: u16| {
        let addresses = addresses(first);
        let args = ["profile", "class", class, "--model", model, "--addresses", &addresses];
        run(command(dir, &args).args(["--network", "112.36MB/s"]));
    };
    profile("disk", "harl-disk", 0);
    profile("flash", "harl-flash", 2);
    let url = format!("tcp://127.0.0.1:{port}/pfs");
    let ior = ["workload", "ior", "-q", "--url", &url, "-n", "4", "-t", "256KiB", "-b", "1MiB", "--keep"];
    run(command(dir, &ior).args(["--write", "--trace", "run.csv"]));
    let advise = ["layout", "advise", "run.csv", "--servers", "disk.toml", "--servers", "flash.toml"];
    run(command(dir, &advise).args(["--for", "orangefs", "--script", "hints.sh"]));
    let hints = std::fs::read_to_string(dir.join("hints.sh")).expect("it was written");
    let strips = hints.split_once("--strip '").and_then(|(_, rest)| rest.split_once('\'')).expect("strips").0;
    assert!(strips.contains(&format!("tcp://127.0.0.1:{}=", port + 3)), "{hints}");
    let copy = ["layout", "copy", "-q", "/ior/file.0", "/ior/file.0", "--url", &url, "--strip", strips];
    let exists = output(&mut command(dir, &copy));
    let message = String::from_utf8_lossy(&exists.stderr).into_owned();
    assert!(exists.status.code() == Some(1) && message.contains("/ior/file.0 exists; name a new file"), "{message}");
    let told = run(command(dir, &copy).arg("--replace"));
    assert!(told.starts_with("/ior/file.0: 4194304 bytes, verified, sha256 "), "{told}");
    run(command(dir, &ior).arg("--read"));
    let wrong = output(command(dir, &copy[..copy.len() - 1]).args(["tcp://oss9:1=4KiB", "--replace"]));
    assert!(
        wrong.status.code() == Some(2) && String::from_utf8_lossy(&wrong.stderr).contains("no server tcp://oss9:1")
    );
}
