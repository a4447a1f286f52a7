//! The large application: stock copies into the file system or out of it, one after another in each of twelve loops.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{Scope, ScopedJoinHandle};

use super::super::process::Running;
use super::super::scratch::{PREFIX, Scratch};
use super::Access;

/// Number of concurrent loops.
const LOOPS: usize = 12;
/// The mount point in the tab file for OrangeFS programs; nothing is mounted there.
const MOUNT: &str = "/vpfs-bench";

/// Running loops; they stop when dropped.
#[derive(Debug)]
pub(super) struct Copies<'scope> {
    stop: Arc<AtomicBool>,
    loops: Vec<ScopedJoinHandle<'scope, Result<(), String>>>,
}

/// The parameters of all loops.
#[derive(Clone, Debug)]
struct Copying<'a> {
    scratch: &'a Scratch,
    tab: PathBuf,
    source: PathBuf,
    call: u64,
}

impl<'scope> Copies<'scope> {
    /// Starts the loops with calls of `call` bytes to the file system at `spec`. Files to be read are written before,
    /// to `direct`, bypassing any proxy.
    pub(super) fn start<'env>(
        scope: &'scope Scope<'scope, 'env>,
        scratch: &'env Scratch,
        [direct, spec]: [&str; 2],
        call: u64,
        access: Access,
    ) -> Result<Self, String> {
        let copying = Copying { scratch, tab: tab(scratch, "direct", direct)?, source: source(scratch)?, call };
        if access == Access::Read {
            (0..LOOPS).try_for_each(|number| {
                copying.run(number, &copying.source, &copying.stored(number, 0), || false).map(drop)
            })?;
        }
        let copying = Copying { tab: tab(scratch, "measured", spec)?, ..copying };
        let mut copies = Self { stop: Arc::default(), loops: Vec::new() };
        for number in 0..LOOPS {
            let (copying, stop) = (copying.clone(), Arc::clone(&copies.stop));
            let stopped = move || stop.load(Ordering::Relaxed);
            copies.loops.push(scope.spawn(move || match access {
                Access::Write => copying.writes(number, stopped),
                Access::Read => copying.reads(number, stopped),
            }));
        }
        Ok(copies)
    }

    /// Stops the loops. An error if a copy failed, because results with fewer loops are not comparable.
    pub(super) fn stop(mut self) -> Result<(), String> {
        self.stop.store(true, Ordering::Relaxed);
        self.loops.drain(..).try_for_each(|one| one.join().map_err(|_| "a loop's thread panicked".to_owned())?)
    }
}

impl Drop for Copies<'_> {
    fn drop(&mut self) {
        // The scope waits for the threads.
        self.stop.store(true, Ordering::Relaxed);
    }
}

/// Writes the tab file that shows OrangeFS programs where the file system is.
fn tab(scratch: &Scratch, name: &str, spec: &str) -> Result<PathBuf, String> {
    let tab = scratch.path(&format!("pvfs2tab-{name}"));
    std::fs::write(&tab, format!("{spec} {MOUNT} pvfs2 defaults,noauto 0 0\n"))
        .map_err(|error| format!("{}: {error}", tab.display()))?;
    Ok(tab)
}

impl Copying<'_> {
    /// A file of a loop in the file system.
    fn stored(&self, number: usize, copy: usize) -> PathBuf {
        PathBuf::from(format!("{MOUNT}/{PREFIX}large-{number}-{copy}"))
    }

    fn writes(&self, number: usize, stopped: impl Fn() -> bool) -> Result<(), String> {
        // pvfs2-cp refuses to overwrite a file.
        for copy in 0.. {
            if !self.run(number, &self.source, &self.stored(number, copy), &stopped)? {
                break;
            }
        }
        Ok(())
    }

    fn reads(&self, number: usize, stopped: impl Fn() -> bool) -> Result<(), String> {
        let copy = self.scratch.path(&format!("read-{number}"));
        // A copy that was stopped leaves a partial file.
        let _ = std::fs::remove_file(&copy);
        while self.run(number, &self.stored(number, 0), &copy, &stopped)? {
            std::fs::remove_file(&copy).map_err(|error| format!("{}: {error}", copy.display()))?;
        }
        Ok(())
    }

    /// One copy; false if it was stopped.
    fn run(&self, number: usize, from: &Path, to: &Path, stopped: impl Fn() -> bool) -> Result<bool, String> {
        let mut command = Command::new("pvfs2-cp");
        command.env("PVFS2TAB_FILE", &self.tab).args(["-b", &self.call.to_string()]).args([from, to]);
        Running::start(self.scratch, &format!("copy-{number}"), &mut command)?.finish(stopped)
    }
}

/// The file to copy: 128 MiB, created once.
fn source(scratch: &Scratch) -> Result<PathBuf, String> {
    let file = scratch.path("source");
    if file.exists() {
        return Ok(file);
    }
    let failed = |error: std::io::Error| format!("{}: {error}; it needs 128 MiB", file.display());
    let mut out = std::fs::File::create(&file).map_err(failed)?;
    let block = vec![0x5a; 1 << 20];
    (0..128).try_for_each(|_| out.write_all(&block)).map_err(failed)?;
    Ok(file)
}
