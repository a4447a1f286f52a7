//! A directory for everything that a run creates, and a keeper that cleans up after it, however it ends.

use std::io::Read;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};

/// Prefix of all files that the clients create in the file system.
pub(crate) const PREFIX: &str = "vpfs-bench-";

/// The keeper's script; $0 is the directory. It waits for the end of its input, which comes even if this program is
/// killed. It then removes in this order: the writing programs, their files while mounts still work, the mounts, all
/// other programs, and the directory.
const KEEPER: &str = r#"
trap '' INT TERM HUP
echo ready
read -r never
marked() { for mark in "$0"/marks/*; do [ -e "$mark" ] && echo "${mark##*/}"; done; }
for id in $(marked); do case "$(cat /proc/$id/comm 2>/dev/null)" in fio|pvfs2-cp) kill -s KILL -- -$id 2>/dev/null;; esac; done
for mount in "$0"/mount-*; do
  mountpoint -q "$mount" || continue
  timeout 20 sh -c 'rm -f "$0"/PREFIX*' "$mount"
  fusermount -u "$mount" 2>/dev/null || fusermount -uz "$mount"
done
for id in $(marked); do kill -s KILL -- -$id 2>/dev/null; done
rm -rf --one-file-system "$0"
"#;

/// The directory; when dropped, everything in it is removed and every program marked in it is killed.
#[derive(Debug)]
pub(crate) struct Scratch {
    dir: PathBuf,
    keeper: Child,
    input: Option<ChildStdin>,
}

impl Scratch {
    /// Creates the directory in memory if possible, so that reading the file to copy does not load a disk.
    pub(crate) fn new() -> Result<Self, String> {
        let memory = Path::new("/dev/shm");
        let parent = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
        let dir = parent.join(format!("vpfs-bench-{}", std::process::id()));
        let failed = |error: std::io::Error| format!("cannot make {}: {error}", dir.display());
        std::fs::create_dir(&dir).map_err(failed)?;
        std::fs::create_dir(dir.join("marks")).map_err(failed)?;
        let mut keeper = Command::new("sh")
            .args(["-c", &KEEPER.replace("PREFIX", PREFIX)])
            .arg(&dir)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .process_group(0)
            .spawn()
            .map_err(|error| format!("cannot start sh: {error}"))?;
        let input = keeper.stdin.take();
        // Its first output: from now on no signal ends it.
        let mut ready = [0; 6];
        if let Some(mut out) = keeper.stdout.take() {
            out.read_exact(&mut ready).map_err(|error| format!("no word from sh: {error}"))?;
        }
        Ok(Self { dir, keeper, input })
    }

    /// The path of a file in it.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    /// Marks a program and its group to be killed; returns the mark.
    pub(crate) fn mark(&self, id: u32) -> PathBuf {
        let mark = self.dir.join("marks").join(id.to_string());
        // Without the mark the program still ends with its owner, unless this program is killed.
        let _ = std::fs::write(&mark, "");
        mark
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        self.input = None;
        let _ = self.keeper.wait();
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::super::process::Running;
    use super::*;

    #[test]
    fn nothing_is_left() {
        let scratch = Scratch::new().unwrap();
        let dir = scratch.dir.clone();
        let sleeper = Running::start(&scratch, "sleeper", Command::new("sleep").arg("600")).unwrap();
        drop(scratch);
        assert!(!dir.exists());
        let start = Instant::now();
        let end = sleeper.finish(|| start.elapsed() > Duration::from_secs(20));
        assert!(end.as_ref().is_err_and(|error| error.contains("signal: 9")), "{end:?}");
    }
}
