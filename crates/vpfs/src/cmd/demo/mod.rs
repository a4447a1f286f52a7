//! `vpfs demo`: the effect of scheduling on a small application beside a checkpointing one, on this machine.

mod bed;
mod isolation;
mod scale;

use std::path::{Path, PathBuf};
use std::time::Instant;

use serde_json::{Value, json};
use vpfs_config::Protocol;
use vpfs_testbed::DeviceClock;
use vpfs_testbed::load::measure::Report;
use vpfs_testbed::load::run::RunError;

use super::workload::output;
use super::workload::progress::ProgressLine;
use crate::blocks::Blocks;
use crate::exit::Exit;
use crate::print::print;
use bed::Bed;
use isolation::{Comparison, Management, Trial};
use scale::Scale;

/// Show in 75 seconds on this machine how a small application performs next to a checkpointing one
///
/// Starts four file servers on a model of a disk, and four vpfs proxies in front of them, all over real loopback
/// sockets. A simulation with tiny I/Os (BTIO class A) then runs alone, and beside a checkpoint writer (IOR) under no
/// management, SFQ(D), SFQ(D)+, SFQ(D) with a cap on the writer, and `isolation`, the default, without any settings.
/// The table shows the results of both applications.
///
/// With --protocol nfs, one server of NFSv3 takes the place of the four, behind one proxy.
///
/// This is the experiment of vPFS+ (MSST 2019), Fig. 5 and 6, scaled down, with `isolation` added. All numbers are
/// measured during the run.
#[derive(clap::Args)]
pub(crate) struct Demo {
    /// Shorter runs: 25 seconds in total, too short to judge what `isolation` promises
    #[arg(long)]
    quick: bool,

    /// What the file servers speak
    #[arg(long, value_name = "NAME", default_value = "orangefs", value_parser = super::protocol())]
    protocol: Protocol,

    /// Write parameters and all measurements to this file; "-" for standard output instead of the table
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,

    /// Show no progress on standard error
    #[arg(short, long)]
    quiet: bool,
}

/// The results of all runs, before they are compared.
struct Runs {
    small_alone: Report,
    /// Bytes per second.
    writer_alone: f64,
    trials: Vec<(Management, Trial)>,
}

/// Steps of the demo: each application alone, then both for each way of sharing.
const STEPS: usize = 2 + Management::ALL.len();

impl Demo {
    pub(crate) fn run(&self) -> Result<(), Exit> {
        let runtime = super::runtime()?;
        let begin = Instant::now();
        let scale = if self.quick { Scale::QUICK } else { Scale::FULL }.with(self.protocol);
        let line = ProgressLine::start(self.quiet);
        let runs = runtime.block_on(run_all(&scale, DeviceClock::default(), &line));
        line.clear();
        self.report(&scale, &runs?, begin.elapsed().as_secs_f64())
    }

    fn report(&self, scale: &Scale, runs: &Runs, wall_seconds: f64) -> Result<(), Exit> {
        let mut comparison = Comparison::new(&runs.small_alone, runs.writer_alone, &runs.trials);
        if self.quick {
            // Opening files is most of the I/O then.
            comparison.promises.clear();
        }
        if self.json.as_deref() != Some(Path::new("-")) {
            let table = isolation::table(&comparison, Blocks::of_locale());
            print(format_args!("{} {wall_seconds:.0} s in all.\n\n{table}", scale.describe()))?;
        }
        if let Some(path) = &self.json {
            output::write(path, &document(scale, runs, &comparison, wall_seconds))?;
        }
        let reports = runs.trials.iter().map(|(_, trial)| &trial.small).chain([&runs.small_alone]);
        output::verdict(reports)
    }
}

/// Each step has its own servers and proxies, so that no run is affected by an earlier one.
async fn run_all(scale: &Scale, clock: DeviceClock, line: &ProgressLine) -> Result<Runs, Exit> {
    let experiment = scale.experiment();
    let failed = |error: RunError| Exit::Failed(error.to_string());
    let step = |number: usize, title: &str| {
        let title = format!("[{number}/{STEPS}] {title}");
        line.announce(&*title);
        title
    };

    let title = step(1, "small application alone");
    let bed = Bed::start(Management::None, scale, clock).await?;
    let small_alone = experiment.small.at(&bed.url).alone(&title, line).await.map_err(failed)?;

    let title = step(2, "checkpoint writer alone");
    let bed = Bed::start(Management::None, scale, clock).await?;
    let meter = || bed.writer_bytes();
    let writer_alone = experiment.writer_alone(&bed.url, &meter, scale.writer_alone, &title, line).await;
    let writer_alone = writer_alone.map_err(failed)?;

    let mut trials = Vec::new();
    for (number, management) in (3..).zip(Management::ALL) {
        let title = step(number, &format!("both, {}", management.title()));
        let bed = Bed::start(management, scale, clock).await?;
        let trial = experiment.both(&bed.url, &|| bed.writer_bytes(), &title, line).await.map_err(failed)?;
        trials.push((management, trial));
    }
    Ok(Runs { small_alone, writer_alone, trials })
}

fn document(scale: &Scale, runs: &Runs, comparison: &Comparison, wall_seconds: f64) -> Value {
    let reports =
        runs.trials.iter().map(|(management, trial)| json!({ "management": management, "small": trial.small }));
    json!({
        "parameters": scale.parameters(),
        "comparison": comparison,
        "small_alone": runs.small_alone,
        "runs": reports.collect::<Vec<_>>(),
        "wall_seconds": wall_seconds,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The whole demo in virtual time: sockets, proxies and servers are real, but waiting takes no time.
    #[tokio::test(start_paused = true)]
    async fn a_short_demo_matches_the_papers_ordering() {
        assert_matches_paper(&Scale::TEST).await;
    }

    #[tokio::test(start_paused = true)]
    #[ignore = "a long simulation; the one with OrangeFS is in the fast tier"]
    async fn so_does_one_with_nfs() {
        assert_matches_paper(&Scale::TEST.with(Protocol::Nfs)).await;
    }

    async fn assert_matches_paper(scale: &Scale) {
        let runs = run_all(scale, DeviceClock::Tokio, &ProgressLine::Quiet).await;
        let runs = runs.unwrap_or_else(|exit| panic!("{exit:?}"));
        let comparison = Comparison::new(&runs.small_alone, runs.writer_alone, &runs.trials);
        assert!(comparison.matches_paper, "{}", isolation::table(&comparison, Blocks::Ascii));
    }
}
