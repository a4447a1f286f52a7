//! `vpfs workload`: runs, verifies and measures the I/O of applications on a parallel file system.

mod apart;
pub(crate) mod application;
mod btio;
mod interactive;
mod ior;
mod isolation;
mod md;
pub(crate) mod output;
pub(crate) mod progress;
mod target;
pub(crate) mod trace;

use std::io::ErrorKind;

use vpfs_core::Bytes;
use vpfs_model::plan::{Plan, PlanError};
use vpfs_testbed::load::measure::Report;
use vpfs_testbed::load::run::{RunError, RunOptions};

use crate::exit::Exit;
use crate::print::print;
use application::Application;
use progress::ProgressLine;
use target::Target;
pub(crate) use target::variable_strips;
use trace::Tracer;

/// Load a file system with the I/O of a known application, verify the data, and measure
///
/// Works with any server of OrangeFS or NFSv3: `vpfs serve`, real ones, or vpfs proxies in front of either. Exits with
/// 3 if data read back differs from what was written.
#[derive(clap::Args)]
pub(crate) struct Workload {
    #[command(subcommand)]
    kind: Box<Kind>,
}

#[derive(clap::Subcommand)]
enum Kind {
    Ior(ior::IorArgs),
    Btio(btio::BtioArgs),
    Md(md::MdArgs),
    Interactive(interactive::InteractiveArgs),
    Isolation(isolation::IsolationArgs),
}

impl Workload {
    pub(crate) fn run(&self) -> Result<(), Exit> {
        let runtime = super::runtime()?;
        runtime.block_on(async {
            match &*self.kind {
                Kind::Ior(args) => args.run().await,
                Kind::Btio(args) => args.run().await,
                Kind::Md(args) => args.run().await,
                Kind::Interactive(args) => args.run().await,
                Kind::Isolation(args) => args.run().await,
            }
        })
    }
}

/// A plan, where it runs, and the options for its output.
struct Job<'a, P> {
    /// The subcommand.
    name: &'static str,
    plan: P,
    target: &'a Target,
    /// Whether files are kept.
    keep: bool,
}

impl<P: Plan + Clone + serde::Serialize + 'static> Job<'_, P> {
    /// Runs all repetitions, prints them as formatted by `table`, writes JSON, and fails if data was wrong.
    async fn run(&self, table: impl Fn(&[Report]) -> String) -> Result<(), Exit> {
        self.plan.validate().map_err(|error| usage(&error))?;
        let mut options = self.target.options(self.name, self.keep, self.plan.processes())?;
        let tracer;
        (tracer, options.trace) = Tracer::start(self.target.trace.as_deref())?;
        let mut reports = Vec::new();
        for repetition in 1..=self.target.repetitions {
            reports.push(self.once(options.clone(), repetition).await.map_err(|error| Exit::Failed(explain(&error)))?);
        }
        drop(options);
        if !self.target.json_on_stdout() {
            print(table(&reports).trim_end())?;
        }
        output::write_json(self, &reports)?;
        tracer.finish().await?;
        output::verdict(&reports)
    }

    async fn once(&self, options: RunOptions, repetition: u32) -> Result<Report, RunError> {
        let run = Application { plan: self.plan.clone(), options }.prepare().await?;
        let title = match self.target.repetitions {
            1 => self.name.to_owned(),
            all => format!("{} {repetition}/{all}", self.name),
        };
        let line = ProgressLine::start(self.target.quiet);
        let report = application::run(run, &title, &line).await;
        line.clear();
        report
    }
}

/// The bytes of one call.
fn call(option: &str, size: Bytes) -> Result<u32, Exit> {
    u32::try_from(size.0).map_err(|_| Exit::Usage(format!("--{option}: must be below 4GiB")))
}

/// An error in the style of clap.
fn usage(error: &PlanError) -> Exit {
    Exit::Usage(format!("--{}: {}", error.option, error.problem))
}

/// Advice for the user, where there is any.
fn explain(error: &RunError) -> String {
    let hint = match error {
        RunError::Call { call: "create" | "mkdir", source, .. } if source.is_already_exists() => {
            "\nleft by an earlier run? use --overwrite, or another --directory"
        }
        RunError::Call { call: "open", source, .. } if source.is_not_found() => {
            "\nreading without writing needs the files of a run with --keep and the same --directory, sizes and --seed"
        }
        RunError::Connect { source, .. } if source.connection() == Some(ErrorKind::AddrNotAvailable) => {
            "\n--bind and --large-bind take addresses that this host has (ip address)"
        }
        _ => "",
    };
    format!("{error}{hint}")
}
