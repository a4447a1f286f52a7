//! Where a result comes from: without it, nobody can repeat or judge it.

use std::process::Command;

use serde::{Deserialize, Serialize};

/// What was measured, where and when.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Origin {
    /// The commit, with `+` if the tree had changes.
    pub(crate) commit: String,
    /// Processors, memory and kernel.
    pub(crate) machine: String,
    /// UTC.
    pub(crate) time: String,
}

impl Origin {
    /// Of what is measured now.
    pub(crate) fn here() -> Self {
        let changed = output("git", &["status", "--porcelain", "--untracked-files=no"]).is_some();
        let commit = output("git", &["rev-parse", "--short=8", "HEAD"]).unwrap_or_else(|| "unknown".to_owned());
        let time = output("date", &["-u", "+%Y-%m-%dT%H:%MZ"]).unwrap_or_else(|| "unknown".to_owned());
        Self { commit: commit + if changed { "+" } else { "" }, machine: machine(), time }
    }
}

fn machine() -> String {
    let read = |file| std::fs::read_to_string(file).unwrap_or_default();
    let (processors, memory, kernel) =
        (read("/proc/cpuinfo"), read("/proc/meminfo"), read("/proc/sys/kernel/osrelease"));
    let value = |text: &str, name: &str| -> Option<String> {
        let line = text.lines().find(|line| line.starts_with(name))?;
        Some(line.split_once(':')?.1.trim().to_owned())
    };
    let count = std::thread::available_parallelism().map_or(0, usize::from);
    let model = value(&processors, "model name").unwrap_or_else(|| "processors".to_owned());
    let kib: u64 = value(&memory, "MemTotal").and_then(|text| text.split(' ').next()?.parse().ok()).unwrap_or_default();
    format!("{count} × {model}, {} GiB, Linux {}", kib >> 20, kernel.trim())
}

/// What a program prints, if it prints anything.
fn output(program: &str, args: &[&str]) -> Option<String> {
    let output = Command::new(program).args(args).output().ok().filter(|output| output.status.success())?;
    let text = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    (!text.is_empty()).then_some(text)
}
