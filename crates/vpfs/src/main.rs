//! The vpfs command: arguments in, composed crates out.
#![expect(clippy::print_stdout, reason = "a command-line tool")]

mod cmd;
mod print;
mod service;

use clap::{Command as ClapCommand, CommandFactory, FromArgMatches, Parser, Subcommand};
use clap_complete::CompleteEnv;

/// I/O performance management for shared parallel storage: a proxy in front of each storage server that recognises
/// applications and schedules their requests.
#[derive(Parser)]
#[command(version, max_term_width = 100, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

/// The subcommands, by name; each has a `run` of its own.
macro_rules! commands {
    ($($(#[$attribute:meta])* $name:ident: $arguments:ty,)*) => {
        #[derive(Subcommand)]
        enum Command {
            $($(#[$attribute])* $name($arguments),)*
        }

        impl Command {
            fn run(&self) -> Result<(), print::Exit> {
                match self {
                    $(Self::$name(arguments) => arguments.run(),)*
                }
            }
        }
    };
}

commands! {
    App: cmd::app::App,
    Completions: cmd::generate::Completions,
    Demo: cmd::demo::Demo,
    Doctor: cmd::doctor::Doctor,
    Events: cmd::events::Events,
    #[command(hide = true)]
    Generate: cmd::generate::Generate,
    History: cmd::history::History,
    Init: cmd::init::Init,
    Layout: cmd::layout::Layout,
    Mount: cmd::mount::Mount,
    Peers: cmd::peers::Peers,
    Profile: cmd::profile::ProfileArgs,
    Proxy: cmd::proxy::Proxy,
    Report: cmd::why::Report,
    Reproduce: cmd::reproduce::Reproduce,
    Run: cmd::mount::Run,
    Serve: cmd::serve::Serve,
    Sim: cmd::sim::Sim,
    Slurm: cmd::slurm::Slurm,
    Status: cmd::status::Status,
    SupportBundle: cmd::support_bundle::SupportBundle,
    Top: cmd::top::Top,
    Web: cmd::web::Web,
    Why: cmd::why::Why,
    Workload: cmd::workload::Workload,
    WriteBack: cmd::write_back::WriteBackArgs,
}

pub(crate) fn command() -> ClapCommand {
    grouped(Cli::command())
}

fn main() -> std::process::ExitCode {
    CompleteEnv::with_factory(command).var(cmd::generate::VARIABLE).complete();
    let cli = Cli::from_arg_matches(&command().get_matches()).unwrap_or_else(|error| error.exit());
    match cli.command.run() {
        Ok(()) => std::process::ExitCode::SUCCESS,
        Err(exit) => exit.report(),
    }
}

/// A heading, and the subcommands below it.
pub(crate) const GROUPS: [(&str, &[&str]); 5] = [
    (
        "Operate",
        &["status", "top", "why", "report", "history", "events", "peers", "app", "web", "doctor", "support-bundle"],
    ),
    ("Configure", &["init", "proxy", "slurm", "write-back", "profile", "completions"]),
    ("Try", &["demo", "serve", "workload", "sim"]),
    ("Layouts and mounts", &["layout", "mount", "run"]),
    ("Research", &["reproduce"]),
];

/// What stands below the groups.
const BEGIN: &str = "\
Examples:
  vpfs demo                              what vpfs does, in a minute, without root
  vpfs init --nfs nas1:/home --output .  a configuration, and what to do with it
  vpfs status                            servers, health and load

Begin with `vpfs demo`; `vpfs serve --help` has a tour in five commands, without a
storage. `vpfs COMMAND --help` has examples, and `man vpfs-top` and others the same.";

/// The width that every terminal has.
const WIDTH: usize = 80;

fn grouped(command: ClapCommand) -> ClapCommand {
    let mut text = "{about-with-newline}\n{usage-heading} {usage}\n".to_owned();
    for (heading, names) in GROUPS {
        text += &format!("\n{heading}:\n");
        for name in names {
            let about = command.find_subcommand(name).and_then(ClapCommand::get_about).map(ToString::to_string);
            text += &wrapped(&format!("  {name:<16}"), &about.unwrap_or_default());
        }
    }
    text += &format!("\nOptions:\n{{options}}\n\n{BEGIN}");
    command.help_template(text)
}

/// Lines with a hanging indent.
fn wrapped(first: &str, text: &str) -> String {
    let (mut lines, mut line) = (String::new(), first.to_owned());
    for word in text.split(' ') {
        if line.chars().count() + 1 + word.chars().count() > WIDTH {
            lines += line.trim_end();
            lines.push('\n');
            line = " ".repeat(first.len());
        }
        if line.len() > first.len() {
            line.push(' ');
        }
        line += word;
    }
    lines + &line + "\n"
}

/// The other subcommands of its group.
pub(crate) fn related(name: &str) -> impl Iterator<Item = &'static str> {
    let group = GROUPS.iter().find(|(_, names)| names.contains(&name));
    group.into_iter().flat_map(|(_, names)| *names).copied().filter(move |other| *other != name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_subcommand_is_in_one_group() {
        let command = command();
        let mut grouped: Vec<&str> = GROUPS.iter().flat_map(|(_, names)| *names).copied().collect();
        grouped.sort_unstable();
        let shown = command.get_subcommands().filter(|command| !command.is_hide_set());
        let mut shown: Vec<&str> = shown.map(ClapCommand::get_name).collect();
        shown.sort_unstable();
        assert_eq!(grouped, shown);
    }

    #[test]
    fn the_help_fits_a_terminal_and_says_where_to_begin() {
        let help = command().render_help().to_string();
        assert!(help.lines().all(|line| line.chars().count() <= 100), "{help}");
        assert!(help.contains("Begin with `vpfs demo`") && help.contains("\nOperate:\n  status "), "{help}");
    }
}
