//! Requests of programs in turns.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use vpfs_e2e::{await_some, output, run, vpfs};

use super::{Overlay, PATIENCE, count, overlay};

/// One application for each kind of rule, and one that gets nearly nothing.
const SHARES: &str = r#"
[[server]]
name = "here"
address = "mount://localhost"
[[app]]
name = "slow"
uids = 2002
server_cap = "1B/s"
burst = "1B"
[[app]]
name = "program"
programs = "**/dd"
[[app]]
name = "file"
files = "out/**"
[peers]
port = 7399
bind = "127.0.0.1"
security = "none"
sockets = "sockets"
"#;

const SLOW: &str = r#"[[app]]
name = "slow"
uids = 2002
server_cap = "1B/s"
burst = "1B"
"#;

/// Symptom it guards against: requests that wait for their turn hold up those of others, in threads or in the kernel.
#[test]
fn waiting_requests_block_no_others() {
    let Some(mut overlay) = overlay() else { return };
    fs::write(overlay.path("vpfs.toml"), SHARES).expect("a file");
    let slow = for_all_users(&overlay, "src/slow");
    let checked = output(&mut overlay.command(&["proxy", "--config", "vpfs.toml", "--check", "--connect"]));
    assert!(String::from_utf8_lossy(&checked.stdout).contains("valid: 1 mount,"), "{checked:?}");
    assert!(checked.status.success());
    overlay.mount(&["--config", "vpfs.toml"]);
    // More requests than there are threads, or places in the kernel's queue.
    let script = "for i in $(seq 700); do head -c 9000 /dev/zero > slow/$i & done; wait";
    let mut command = Command::new("setpriv");
    command.args(["--reuid=2002", "--regid=2002", "--clear-groups", "sh", "-c", script]);
    let mut held = command.current_dir(overlay.path("mnt")).spawn().expect("setpriv");
    await_some(PATIENCE, || match overlay.applications() {
        text if text.contains("slow") => Ok(()),
        text => Err(text),
    });
    fs::write(overlay.path("mnt/out/a"), vec![1; 300_000]).expect("it is written");
    run(Command::new("dd").args(["if=/dev/zero", "of=b", "bs=1000", "count=1"]).current_dir(overlay.path("mnt")));
    let program = vpfs().display().to_string();
    let own = ["--reuid=2003", "--regid=2003", "--clear-groups", &program, "run", "--weight", "4", "--", "cat", "b"];
    run(Command::new("setpriv").args(own).current_dir(overlay.path("mnt")));
    assert!(matches!(held.try_wait(), Ok(None)), "it waits");
    let seen = overlay.applications();
    for app in ["file ", "program ", "uid:0 ", "uid:2003/weight:4 "] {
        assert!(seen.lines().any(|line| line.trim_start().starts_with(app)), "{app}: {seen}");
    }
    // Nothing is lost: it goes on when it may, also where its application is gone.
    fs::write(overlay.path("vpfs.toml"), SHARES.replace(SLOW, "")).expect("a file");
    overlay.signal("-HUP");
    assert!(held.wait().expect("it ends").success());
    assert_eq!(count(&slow), 700);
    assert!(
        fs::read_dir(&slow).expect("ours").flatten().all(|file| file.metadata().is_ok_and(|file| file.len() == 9000))
    );
    overlay.unmount();
}

impl Overlay {
    /// What applications did, as `vpfs peers` shows it.
    fn applications(&self) -> String {
        let seen = output(&mut self.command(&["peers", "--config", "vpfs.toml"]));
        String::from_utf8_lossy(&seen.stdout).into_owned()
    }
}

/// Nothing of user 2002 goes on, by kind of request.
const HELD: &str = r#"
[[server]]
name = "here"
address = "mount://localhost"
[[app]]
name = "held"
uids = 2002
operations = "OPERATIONS"
server_cap = "1B/s"
burst = "1B"
"#;

/// Symptom: a program whose request waits for its turn stays in state D after SIGKILL, for which Slurm drains a node.
/// Cause: nothing ended what waits. Here it would wait for hours.
#[test]
fn waiting_programs_can_be_killed() {
    let Some(mut overlay) = overlay() else { return };
    let open = for_all_users(&overlay, "src/open");
    fs::write(open.join("old"), vec![1; 100_000]).expect("a file");
    for (operations, script) in [
        // Many at one file, too: the kernel lets one after the other.
        ("write", "exec head -c 900000 /dev/zero > $1"),
        ("write", "exec head -c 900000 /dev/zero >> same"),
        ("write", "exec dd if=/dev/zero of=$1 bs=1M count=1 oflag=direct"),
        ("read", "exec cat old"),
        ("metadata", "exec mkdir $1"),
    ] {
        fs::write(overlay.path("vpfs.toml"), HELD.replace("OPERATIONS", operations)).expect("a file");
        overlay.mount(&["--config", "vpfs.toml"]);
        let start = |number: i32| {
            let mut command = Command::new("setpriv");
            command.args(["--reuid=2002", "--regid=2002", "--clear-groups", "sh", "-c", script, "sh"]);
            let command = command.arg(format!("{operations}{number}")).current_dir(overlay.path("mnt/open"));
            command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("setpriv")
        };
        let mut programs: Vec<_> = (0..40).map(start).collect();
        // All have made their request, or wait for one that has. The first one may be let through, and end.
        for program in &programs {
            await_some(PATIENCE, || match state(program.id()) {
                (name, 'D' | 'S' | 'Z') if name != "setpriv" => Ok(()),
                state => Err(format!("{script}: {state:?}")),
            });
        }
        programs.iter_mut().for_each(|program| program.kill().expect("it runs"));
        for program in &mut programs {
            await_some(PATIENCE, || match program.try_wait().expect("ours") {
                Some(_) => Ok(()),
                None => Err(format!("{script}: {:?}", state(program.id()))),
            });
        }
        fs::write(overlay.path("mnt/open/others"), "go on").expect("it is written");
        overlay.unmount();
    }
}

/// A new directory in which all users may write.
fn for_all_users(overlay: &Overlay, path: &str) -> PathBuf {
    let directory = overlay.path(path);
    fs::create_dir(&directory).expect("a directory");
    fs::set_permissions(&directory, fs::Permissions::from_mode(0o777)).expect("ours");
    directory
}

/// Which program a process executes, and its state as `ps` shows it: a process that waits for the kernel is in S until
/// its first signal, and then in D.
fn state(process: u32) -> (String, char) {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).expect("it is not waited for");
    let (name, rest) = stat.split_once(" (").and_then(|(_, rest)| rest.rsplit_once(") ")).expect("a name and more");
    (name.to_owned(), rest.chars().next().expect("a state"))
}
