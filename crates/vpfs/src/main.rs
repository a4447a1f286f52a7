//! The vpfs command: arguments in, composed crates out.
#![expect(clippy::print_stdout, reason = "a command-line tool")]

mod blocks;
mod cmd;
mod exit;
mod groups;
mod log;
mod new_file;
mod print;
mod signals;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use clap_complete::CompleteEnv;

/// I/O performance management for shared parallel storage: a proxy in front of each storage server that recognises
/// applications and schedules their requests.
#[derive(Parser)]
#[command(version, max_term_width = 100, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    App(cmd::app::App),
    Completions(cmd::completions::Completions),
    Demo(cmd::demo::Demo),
    Doctor(cmd::doctor::Doctor),
    Events(cmd::events::Events),
    #[command(hide = true)]
    Generate(cmd::generate::Generate),
    History(cmd::history::History),
    Init(cmd::init::Init),
    Layout(cmd::layout::Layout),
    Mount(cmd::mount::Mount),
    Peers(cmd::peers::Peers),
    Profile(cmd::profile::ProfileArgs),
    Proxy(cmd::proxy::Proxy),
    Report(cmd::why::Report),
    Reproduce(cmd::reproduce::Reproduce),
    Run(cmd::run::Run),
    Serve(cmd::serve::Serve),
    Sim(cmd::sim::Sim),
    Slurm(cmd::slurm::Slurm),
    Status(cmd::status::Status),
    SupportBundle(cmd::support_bundle::SupportBundle),
    Top(cmd::top::Top),
    Web(cmd::web::Web),
    Why(cmd::why::Why),
    Workload(cmd::workload::Workload),
    WriteBack(cmd::write_back::WriteBackArgs),
}

/// The definition of all commands.
fn command() -> clap::Command {
    groups::grouped(Cli::command())
}

fn main() -> std::process::ExitCode {
    CompleteEnv::with_factory(command).var(cmd::completions::VARIABLE).complete();
    let cli = Cli::from_arg_matches(&command().get_matches()).unwrap_or_else(|error| error.exit());
    let result = match cli.command {
        Command::App(app) => app.run(),
        Command::Completions(completions) => completions.run(),
        Command::Demo(demo) => demo.run(),
        Command::Doctor(doctor) => doctor.run(),
        Command::Events(events) => events.run(),
        Command::Generate(generate) => generate.run(command()),
        Command::History(history) => history.run(),
        Command::Init(init) => init.run(),
        Command::Layout(layout) => layout.run(),
        Command::Mount(mount) => mount.run(),
        Command::Peers(peers) => peers.run(),
        Command::Profile(profile) => profile.run(),
        Command::Proxy(proxy) => proxy.run(),
        Command::Report(report) => report.run(),
        Command::Reproduce(reproduce) => reproduce.run(),
        Command::Run(run) => run.run(),
        Command::Serve(serve) => serve.run(),
        Command::Sim(sim) => sim.run(),
        Command::Slurm(slurm) => slurm.run(),
        Command::Status(status) => status.run(),
        Command::SupportBundle(bundle) => bundle.run(),
        Command::Top(top) => top.run(),
        Command::Web(web) => web.run(),
        Command::Why(why) => why.run(),
        Command::Workload(workload) => workload.run(),
        Command::WriteBack(args) => args.run(),
    };
    match result {
        Ok(()) => std::process::ExitCode::SUCCESS,
        Err(exit) => exit.report(),
    }
}
