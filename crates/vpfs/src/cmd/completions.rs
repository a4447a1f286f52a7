//! `vpfs completions`: what shells complete, which they ask this program for.

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;

use clap::builder::PossibleValuesParser;
use clap_complete::env::Shells;

use crate::exit::Exit;
use crate::print::print;

/// Set by the shell that asks.
pub(crate) const VARIABLE: &str = "VPFS_COMPLETE";

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
