//! The large application: stock copies into the file system, one after another in each of twelve loops.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{Scope, ScopedJoinHandle};

use super::process::Running;
use super::scratch::{PREFIX, Scratch};

/// Loops at once.
const LOOPS: usize = 12;
/// Where the file system is, for OrangeFS programs; nothing is mounted there.
const MOUNT: &str = "/vpfs-bench";

/// Running loops; dropped, they stop.
#[derive(Debug)]
pub(super) struct Writers<'scope> {
    stop: Arc<AtomicBool>,
    loops: Vec<ScopedJoinHandle<'scope, Result<(), String>>>,
}

impl<'scope> Writers<'scope> {
    /// Starts the loops with calls of `call` bytes to the file system at `spec`.
    pub(super) fn start<'env>(
        scope: &'scope Scope<'scope, 'env>,
        scratch: &'env Scratch,
        spec: &str,
        call: u64,
    ) -> Result<Self, String> {
        let tab = scratch.path("pvfs2tab");
        std::fs::write(&tab, format!("{spec} {MOUNT} pvfs2 defaults,noauto 0 0\n"))
            .map_err(|error| format!("{}: {error}", tab.display()))?;
        let source = source(scratch)?;
        let mut writers = Self { stop: Arc::default(), loops: Vec::new() };
        for number in 0..LOOPS {
            let (tab, source, stop) = (tab.clone(), source.clone(), Arc::clone(&writers.stop));
            writers.loops.push(scope.spawn(move || copies(scratch, number, &tab, &source, call, &stop)));
        }
        Ok(writers)
    }

    /// Stops the loops; an error if a copy had failed, because figures beside fewer writers are of no use.
    pub(super) fn stop(mut self) -> Result<(), String> {
        self.stop.store(true, Ordering::Relaxed);
        self.loops.drain(..).try_for_each(|one| one.join().map_err(|_| "a writer's thread panicked".to_owned())?)
    }
}

impl Drop for Writers<'_> {
    fn drop(&mut self) {
        // The scope waits for the threads.
        self.stop.store(true, Ordering::Relaxed);
    }
}

fn copies(
    scratch: &Scratch,
    number: usize,
    tab: &Path,
    source: &Path,
    call: u64,
    stop: &AtomicBool,
) -> Result<(), String> {
    // pvfs2-cp refuses to write over a file.
    for copy in 0.. {
        let mut command = Command::new("pvfs2-cp");
        command.env("PVFS2TAB_FILE", tab).args(["-b", &call.to_string()]).arg(source);
        command.arg(format!("{MOUNT}/{PREFIX}large-{number}-{copy}"));
        let running = Running::start(scratch, &format!("copy-{number}"), &mut command)?;
        if !running.finish(|| stop.load(Ordering::Relaxed))? {
            break;
        }
    }
    Ok(())
}

/// What is copied: 128 MiB, made once.
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
