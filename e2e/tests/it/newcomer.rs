//! The first minutes with vpfs: five commands from the installed program to who slows whom, as root and without.

use std::fs::{Permissions, create_dir, set_permissions};
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use vpfs_e2e::requirements::missing;
use vpfs_e2e::{Daemon, await_some, free_ports, output, run, vpfs};

/// The uid of nobody.
const NOBODY: u32 = 65534;

/// For what needs some requests.
const PATIENCE: Duration = Duration::from_secs(60);

/// A directory that everybody can enter, and in it the server, configured by `vpfs init`, and its port.
fn site() -> (tempfile::TempDir, Daemon, u16) {
    let dir = tempfile::tempdir().expect("a directory");
    set_permissions(dir.path(), Permissions::from_mode(0o755)).expect("it is ours");
    let port = free_ports(2);
    let server = Daemon::serve(dir.path(), port..port + 1, &["--protocol", "nfs", "--device", "hdd"]);
    let export = format!("nfs://127.0.0.1:{port}/pfs?mountport={port}");
    let told = run(Command::new(vpfs())
        .args(["init", "--nfs", &export, "--port", &(port + 1).to_string(), "--output"])
        .arg(dir.path()));
    assert!(told.contains("vpfs proxy --config"), "{told}");
    (dir, server, port + 1)
}

/// A small and a large load of two users, until they are dropped.
fn loads(dir: &Path, port: u16) -> [Daemon; 2] {
    let url = format!("nfs://127.0.0.1:{port}/pfs?mountport={port}");
    let small = ["interactive", "--uid", "1000", "-t", "8K", "--file", "1M"];
    let large = ["ior", "--uid", "1001", "--write", "-t", "1M", "-b", "16M"];
    [&small[..], &large].map(|args| {
        let mut command = Command::new(vpfs());
        command.arg("workload").args(args).args(["--time", "10min", "--url", &url]);
        Daemon::start(dir, args[0], &mut command)
    })
}

#[test]
fn five_commands_show_who_slows_whom() {
    let (dir, _server, port) = site();
    let ours = |args: &[&str]| {
        let mut command = Command::new(vpfs());
        command.args(args).arg("--config").arg(dir.path().join("vpfs.toml")).env("RUNTIME_DIRECTORY", dir.path());
        command
    };
    let mut proxy = Daemon::start(dir.path(), "proxy", &mut ours(&["proxy"]));
    proxy.await_log(&format!("{}/nfs.sock", dir.path().display()));
    let _loads = loads(dir.path(), port);
    await_some(PATIENCE, || {
        let told = run(&mut ours(&["why", "--interval", "1"]));
        let both = told.lines().filter(|line| line.starts_with(" uid:1000 ") || line.starts_with(" uid:1001 ")).count();
        if both == 2 { Ok(()) } else { Err(told) }
    });
    let status = run(&mut ours(&["status", "--interval", "1"]));
    for said in
        ["  health      ok\n", "  servers     nfs", "  policy      isolation, mode manage\n", "  storage     busy "]
    {
        assert!(status.contains(said), "{said} in\n{status}");
    }
    // What a shell asks for at the key: the third word of `vpfs why uid`.
    let script = "source <(\"$0\" completions bash); COMP_WORDS=(vpfs why --config \"$1\" uid); COMP_CWORD=4; \
                  _clap_complete_vpfs vpfs uid \"$1\" 2>/dev/null; echo \"${COMPREPLY[@]}\"";
    let mut bash = Command::new("bash");
    bash.args(["-c", script]).arg(vpfs()).arg(dir.path().join("vpfs.toml")).env("RUNTIME_DIRECTORY", dir.path());
    let completed = run(&mut bash);
    assert!(completed.contains("uid:1000") && completed.contains("uid:1001"), "{completed}");
    proxy.signal("TERM");
    assert!(proxy.wait().success(), "{}", proxy.log());
}

/// Symptom: where `/run/vpfs` was missing, a proxy started without a word, and every other command failed.
#[test]
fn who_may_not_write_to_run_has_a_socket_as_well() {
    let (dir, _server, _) = site();
    let nobody = |args: &[&str], of_user: Option<&Path>| {
        let mut command = Command::new("setpriv");
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(vpfs()).args(args);
        command.env_remove("RUNTIME_DIRECTORY").env_remove("XDG_RUNTIME_DIR");
        if let Some(directory) = of_user {
            command.env("XDG_RUNTIME_DIR", directory);
        }
        command
    };
    let is_able = nobody(&["--version"], None).output().is_ok_and(|told| told.status.success());
    if !is_able {
        return missing("setpriv", "only root can start the program for another user, who has to reach it");
    }
    let of_user = dir.path().join("user");
    create_dir(&of_user).expect("a directory");
    chown(&of_user, Some(NOBODY), Some(NOBODY)).expect("root may");
    let config = dir.path().join("vpfs.toml").display().to_string();
    let mut proxy = Daemon::start(dir.path(), "proxy", &mut nobody(&["proxy", "--config", &config], Some(&of_user)));
    proxy.await_log("user/vpfs/nfs.sock");
    let status = run(&mut nobody(&["status", "--config", &config, "--interval", "1"], Some(&of_user)));
    assert!(status.contains("  health      ok\n"), "{status}");
    let reloaded = run(&mut nobody(&["proxy", "--reload", &proxy.id().to_string()], Some(&of_user)));
    assert_eq!(reloaded, "reloaded: nothing changed\n");
    let elsewhere = output(&mut nobody(&["top", "--once", "--config", &config], None));
    let said = String::from_utf8_lossy(&elsewhere.stderr);
    assert!(said.contains("cannot ask any proxy of"), "{said}");
    proxy.signal("TERM");
    assert!(proxy.wait().success(), "{}", proxy.log());
    let mut without = Daemon::start(dir.path(), "without", &mut nobody(&["proxy", "--config", &config], None));
    without.await_log("no socket, so `vpfs top` and others cannot ask this proxy");
    without.await_log("ready");
}

#[test]
fn who_has_no_configuration_is_told_what_to_do() {
    let dir = tempfile::tempdir().expect("a directory");
    for command in ["top", "why", "status", "proxy"] {
        let told = output(Command::new(vpfs()).args([command, "--config"]).arg(dir.path().join("vpfs.toml")));
        let said = String::from_utf8_lossy(&told.stderr);
        assert_eq!(told.status.code(), Some(2), "{said}");
        assert!(said.contains("name yours with --config FILE, or write one: `vpfs init --help`"), "{said}");
    }
}
