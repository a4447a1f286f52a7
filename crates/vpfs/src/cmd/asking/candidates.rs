//! What shells complete in arguments: applications and servers of the configuration and of the proxies that run here.

use std::path::PathBuf;
use std::time::Duration;

use clap_complete::engine::{ArgValueCandidates, CompletionCandidate};
use tokio::time::timeout;
use vpfs_admin::api;
use vpfs_config::Config;

use super::Asking;
use crate::cmd::{CONFIG, runtime};

/// Nobody waits longer for a key.
const PATIENCE: Duration = Duration::from_millis(500);

/// Completes applications.
pub(in super::super) fn apps() -> ArgValueCandidates {
    ArgValueCandidates::new(|| {
        let Some(config) = config() else { return Vec::new() };
        let mut names: Vec<String> = config.apps.iter().map(|app| app.name.clone()).collect();
        names.extend(present(&config).into_iter().flatten());
        candidates(names)
    })
}

/// Completes servers.
pub(in super::super) fn servers() -> ArgValueCandidates {
    ArgValueCandidates::new(|| {
        let servers = config().map(|config| config.servers).unwrap_or_default();
        candidates(servers.into_iter().map(|server| server.name).collect())
    })
}

/// Those that the proxies of this host know.
fn present(config: &Config) -> Option<Vec<String>> {
    let asking = Asking::of(path(), Vec::new(), false);
    let answers = async { timeout(PATIENCE, asking.answers::<api::Status>(config)).await };
    let answers = runtime().ok()?.block_on(answers).ok()?.ok()?;
    let servers = answers.list.into_iter().flat_map(|status| status.servers);
    Some(servers.flat_map(|server| server.apps).map(|app| app.app).collect())
}

fn candidates(mut names: Vec<String>) -> Vec<CompletionCandidate> {
    names.sort_unstable();
    names.dedup();
    names.into_iter().map(CompletionCandidate::new).collect()
}

fn config() -> Option<Config> {
    Config::load(&path()).ok()
}

/// That on the line that is completed, which is not parsed for this.
fn path() -> PathBuf {
    let mut words = std::env::args_os().skip_while(|word| word != "--").skip(1);
    while let Some(word) = words.next() {
        let text = word.to_string_lossy();
        if text == "--config" {
            return words.next().map_or_else(PathBuf::new, PathBuf::from);
        }
        if let Some(path) = text.strip_prefix("--config=") {
            return path.into();
        }
    }
    CONFIG.into()
}
