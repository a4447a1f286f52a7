//! One proxy process for all servers of the file, asked from elsewhere: by the agent of Slurm as it is by default, and
//! with `--remote`.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use vpfs_e2e::{Daemon, await_some, free_ports, output, proxy_config, run, vpfs, write_program};

/// Slurm has one job.
const SQUEUE: &str = r#"#!/bin/sh
echo '{"jobs": [{"job_id": 4711, "job_state": "RUNNING", "user_id": 1007, "user_name": "ada", "nodes": "localhost"}]}'
"#;
const SINFO: &str = "#!/bin/sh\necho localhost 127.0.0.1\n";

fn write(path: &Path, text: &str) {
    std::fs::write(path, text).expect("a file");
    std::fs::set_permissions(path, PermissionsExt::from_mode(0o600)).expect("its mode");
}

/// Symptom: `[peers]` was ignored without servers in other processes, so that nothing listened at its port, while
/// `--check`, the log and `doctor` said that all was well.
#[test]
fn agents_and_remote_commands_reach_one_process_for_all_servers() {
    let folder = tempfile::tempdir().expect("a directory");
    let dir = folder.path();
    let port = free_ports(6);
    let rest = format!(
        "[peers]\naddresses = {{ s1 = \"127.0.0.1:{}\", s2 = \"127.0.0.1:{}\" }}\nshared_key = \"peers.key\"\n\
         sockets = \"sockets\"\n[[owner]]\nname = \"slurm\"\ntoken = \"slurm.token\"\n",
        port + 4,
        port + 5
    );
    write(&dir.join("vpfs.toml"), &proxy_config(2, port, port + 2, &rest));
    write(&dir.join("peers.key"), &"0".repeat(64));
    write(&dir.join("slurm.token"), &"1".repeat(32));
    write(
        &dir.join("slurm.toml"),
        "[agent]\nconfig = \"vpfs.toml\"\ntoken = \"slurm.token\"\nwake = \"wake.sock\"\n[[rule]]\nweight = 3\n",
    );
    for (name, text) in [("squeue", SQUEUE), ("sinfo", SINFO)] {
        write_program(&dir.join(name), text);
    }
    let vpfs = |args: &[&str]| {
        let mut command = Command::new(vpfs());
        command.current_dir(dir).args(args).args(["--config", "vpfs.toml"]);
        command
    };
    let mut proxy = Daemon::start(dir, "proxy", &mut vpfs(&["proxy"]));
    proxy.await_log("ready");

    let path = format!("{}:{}", dir.display(), std::env::var("PATH").unwrap_or_default());
    let mut agent = Command::new(vpfs_e2e::vpfs());
    agent.current_dir(dir).args(["slurm", "agent", "--rules", "slurm.toml"]).env("PATH", path);
    let agent = Daemon::start(dir, "agent", &mut agent);
    await_some(Duration::from_secs(60), || {
        let listed = output(&mut vpfs(&["app", "ls", "--remote"]));
        let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
        if listed.contains("slurm") && listed.contains("4711") { Ok(()) } else { Err(listed + &agent.log()) }
    });
    assert!(!agent.log().contains("not pushed"), "{}", agent.log());
    run(&mut vpfs(&["top", "--remote", "--once", "--json"]));

    let examined = || {
        let findings = output(&mut vpfs(&["doctor", "--json"])).stdout;
        let findings: Vec<serde_json::Value> = serde_json::from_slice(&findings).expect("JSON");
        findings.into_iter().find(|finding| finding["check"] == "remote").expect("the check")
    };
    assert_eq!(examined()["result"], "ok", "{}", examined());
    drop(proxy);
    assert_eq!(examined()["result"], "failed", "{}", examined());
}
