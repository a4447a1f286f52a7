//! `vpfs completions`: what shells complete, which they ask this program for.

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use clap::builder::PossibleValuesParser;
use clap_complete::engine::{ArgValueCandidates, CompletionCandidate};
use clap_complete::env::Shells;
use tokio::time::timeout;
use vpfs_admin::api;
use vpfs_config::Config;

use super::asking::Asking;
use super::runtime;
use crate::exit::Exit;
use crate::print::print;

/// Set by the shell that asks.
pub(crate) const VARIABLE: &str = "VPFS_COMPLETE";
/// Nobody waits longer for a key.
const PATIENCE: Duration = Duration::from_millis(500);

/// Print what makes a shell complete commands, applications and servers
///
/// Applications and servers are those of the configuration, and of the proxies that run here. Packages install the same
/// for bash, zsh and fish.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  \
    source <(vpfs completions bash)                          in this shell; in ~/.bashrc for all\n  \
    source <(vpfs completions zsh)                           after compinit in ~/.zshrc\n  \
    vpfs completions fish > ~/.config/fish/completions/vpfs.fish")]
pub(crate) struct Completions {
    /// The shell
    #[arg(value_parser = PossibleValuesParser::new(["bash", "elvish", "fish", "powershell", "zsh"]))]
    shell: String,
}

impl Completions {
    pub(crate) fn run(&self) -> Result<(), Exit> {
        // The program by the name that it has here, which need not be on the path.
        let program = std::env::args_os().next().map_or_else(|| "vpfs".into(), program);
        let script = script(&self.shell, &program.to_string_lossy());
        print(script.map_err(|error| Exit::Failed(error.to_string()))?.trim_end())
    }
}

fn program(called: OsString) -> OsString {
    let called = PathBuf::from(called);
    match called.components().count() {
        ..2 => called.into(),
        _ => std::path::absolute(&called).unwrap_or(called).into(),
    }
}

/// What a shell has to run so that it asks `program`.
pub(super) fn script(shell: &str, program: &str) -> io::Result<String> {
    let shells = Shells::builtins();
    let known = shells.completer(shell).ok_or_else(|| io::Error::other(format!("{shell} is not supported")))?;
    let mut script = Vec::new();
    known.write_registration(VARIABLE, "vpfs", "vpfs", program, &mut script)?;
    let script = String::from_utf8(script).map_err(io::Error::other)?;
    Ok(match shell {
        // It would take names such as uid:1000 for several words.
        "bash" => script + "COMP_WORDBREAKS=${COMP_WORDBREAKS//:/}\n",
        // In a directory of functions, the first use runs the file and has to complete, too.
        "zsh" => script + "if [ \"$funcstack[1]\" = _vpfs ]; then _clap_dynamic_completer_vpfs \"$@\"; fi\n",
        _ => script,
    })
}

/// Completes applications.
pub(super) fn apps() -> ArgValueCandidates {
    ArgValueCandidates::new(|| {
        let Some(config) = config() else { return Vec::new() };
        let mut names: Vec<String> = config.apps.iter().map(|app| app.name.clone()).collect();
        names.extend(present(&config).into_iter().flatten());
        candidates(names)
    })
}

/// Completes servers.
pub(super) fn servers() -> ArgValueCandidates {
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
    super::CONFIG.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_shell_has_a_script_that_asks_this_program() {
        for shell in Shells::builtins().names() {
            let script = script(shell, "/opt/vpfs").unwrap();
            assert!(script.contains(VARIABLE) && script.contains("/opt/vpfs"), "{script}");
        }
        assert!(script("csh", "vpfs").is_err());
    }
}
