//! The papers' experiments, scaled to four servers on one machine: simulated, and live in front of real servers, each
//! with several policies and without a proxy.
//!
//! An experiment is a scenario of `scenarios/papers` with variants, and the rows that its results give. The simulator
//! and the live run read the same file: the applications' processes do the same calls, the proxies have the same
//! `[scheduler]` and `[[app]]`. To add one, add its file and an entry in experiments.toml.

mod experiments;
mod live;
mod outcome;
mod page;
mod part;
mod record;
mod trial;
mod watch;

use std::path::PathBuf;
use std::time::Instant;

use experiments::Experiment;
use record::Record;
use trial::Trial;

use super::proxies::Place;
use super::target::Target;

/// The scenarios' servers.
const SERVERS: u16 = 4;

/// The papers' experiments, scaled to four servers: simulated and live
///
/// Servers of the published page: four OrangeFS servers, each on a disk limited to 15 MB/s and 300 I/Os a second.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Names of experiments; by default all that need no special servers
    names: Vec<String>,
    /// Live runs of each case, in turn
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    runs: u32,
    /// Keep all results in this file; those that it has already are not measured again
    #[arg(long, value_name = "FILE", default_value = "papers.json")]
    json: PathBuf,
    /// Also write the page to this file
    #[arg(long, value_name = "FILE")]
    page: Option<PathBuf>,
    /// Device model of the embedded servers, see `vpfs serve`
    #[arg(long, value_name = "NAME", default_value = "throttled-disk")]
    device: String,
    #[command(flatten)]
    target: Target,
}

/// Runs what the record lacks, and prints the page.
#[expect(clippy::print_stdout, reason = "it is what the program is for")]
pub(crate) fn run(options: &Options) -> Result<(), String> {
    let chosen = experiments::chosen(&options.names)?;
    let mut record = Record::read(&options.json)?;
    let dir = tempfile::tempdir().map_err(|error| format!("cannot make a directory: {error}"))?;
    let started = options.target.start(dir.path(), SERVERS, &options.device)?;
    let servers = started.cluster.addresses.len();
    if servers != usize::from(SERVERS) {
        return Err(format!("the experiments are for {SERVERS} servers; this file system has {servers}"));
    }
    let place = Place { dir: dir.path(), program: &started.program, cluster: &started.cluster };
    measure(&chosen, options, &place, &mut record)?;
    let embedded = options.target.cluster.is_none().then_some(options.device.as_str());
    let page = page::markdown(&chosen, &record, embedded)?;
    println!("{page}");
    options.page.as_ref().map_or(Ok(()), |file| super::write(file, &page))
}

/// Each case once, then each again, so that a change of the machine's load meets all of them. Experiments that need
/// special servers only by name.
fn measure(chosen: &[Experiment], options: &Options, place: &Place<'_>, record: &mut Record) -> Result<(), String> {
    let trials = trials(chosen, |one| one.servers.is_none() || options.names.contains(&one.name))?;
    let wanted = (1..=options.runs).flat_map(|run| trials.iter().map(move |trial| (run, trial)));
    let missing: Vec<_> = wanted.filter(|(run, trial)| !record.has(&trial.key, *run)).collect();
    let start = Instant::now();
    for (done, (run, trial)) in missing.iter().enumerate() {
        let left = start.elapsed().as_secs_f64() / done.max(1) as f64 * (missing.len() - done) as f64 / 60.0;
        let left = if done > 0 { format!(", about {left:.0} min left") } else { String::new() };
        eprintln!("[{}/{}] {}, run {run}{left}", done + 1, missing.len(), trial.key);
        let outcome = live::run(trial, place, u64::from(*run)).map_err(|error| format!("{}: {error}", trial.key))?;
        record.add(&trial.key, *run, outcome);
        record.write(&options.json)?;
    }
    Ok(())
}

/// All cases of some experiments.
fn trials(chosen: &[Experiment], are_wanted: impl Fn(&Experiment) -> bool) -> Result<Vec<Trial>, String> {
    let all: Result<Vec<_>, String> = chosen.iter().filter(|one| are_wanted(one)).map(Experiment::trials).collect();
    Ok(all?.into_iter().flatten().collect())
}
