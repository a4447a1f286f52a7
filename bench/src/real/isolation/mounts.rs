//! Mounts of the file system by pvfs2fuse: each has one operation in flight, like a program with plain system calls.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use super::super::process::Running;
use super::super::scratch::{PREFIX, Scratch};
use super::Access;

/// Mounted directories; they are unmounted when dropped.
#[derive(Debug)]
pub(super) struct Mounts {
    mounts: Vec<Mount>,
}

#[derive(Debug)]
struct Mount {
    dir: PathBuf,
    daemon: Running,
}

impl Mounts {
    /// Mounts `spec` `count` times.
    pub(super) fn new(scratch: &Scratch, spec: &str, count: u32, small: Access) -> Result<Self, String> {
        let mut all = Self { mounts: Vec::new() };
        for i in 0..count {
            let dir = scratch.path(&format!("mount-{i}"));
            std::fs::create_dir_all(&dir).map_err(|error| format!("{}: {error}", dir.display()))?;
            let mut command = Command::new("pvfs2fuse");
            // Reads must not be answered by the page cache.
            let cache = if small == Access::Read { ",direct_io" } else { "" };
            command.arg(&dir).args(["-f", "-o", &format!("fs_spec={spec}{cache}")]);
            let daemon = Running::start(scratch, &format!("mount-{i}"), &mut command)?;
            all.mounts.push(Mount { dir, daemon });
        }
        for mount in &mut all.mounts {
            let dir = mount.dir.clone();
            mount.daemon.await_that("mounted", move || is_mounted(&dir))?;
        }
        Ok(all)
    }

    /// Their paths.
    pub(super) fn dirs(&self) -> Vec<PathBuf> {
        self.mounts.iter().map(|mount| mount.dir.clone()).collect()
    }
}

impl Drop for Mounts {
    fn drop(&mut self) {
        for mount in &mut self.mounts {
            if !fusermount(&["-u"], &mount.dir) {
                // A file is still open there: unmount lazily.
                fusermount(&["-u", "-z"], &mount.dir);
            }
            let _ = mount.daemon.await_end(Duration::from_secs(10));
        }
    }
}

/// Deletes the files of `kind` that the clients created, directly at the servers.
pub(super) fn remove_files(scratch: &Scratch, spec: &str, kind: &str) -> Result<(), String> {
    let mounts = Mounts::new(scratch, spec, 1, Access::Write)?;
    for dir in mounts.dirs() {
        let failed = |error: std::io::Error| format!("cannot remove the files of this measurement: {error}");
        for entry in std::fs::read_dir(&dir).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            if entry.file_name().to_string_lossy().starts_with(&format!("{PREFIX}{kind}")) {
                std::fs::remove_file(entry.path()).map_err(failed)?;
            }
        }
    }
    Ok(())
}

fn fusermount(flags: &[&str], dir: &Path) -> bool {
    let status = Command::new("fusermount").args(flags).arg(dir).stderr(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}

/// Accessing the mount itself would hang if a server does not answer.
fn is_mounted(dir: &Path) -> bool {
    let table = std::fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    table.lines().any(|line| line.split(' ').nth(1).is_some_and(|at| Path::new(at) == dir))
}
