//! `vpfs profile class`: the times of a class of servers for `vpfs layout advise`.

use std::path::{Path, PathBuf};

use serde_json::json;
use vpfs_config::units::{Rate, Size, parse_rate, parse_size};
use vpfs_core::Bytes;
use vpfs_profile::{
    ClassLabels, ClassPlan, ClassProgress, Probe, TimedStorage, Timing, class_summary, class_toml, fit_class,
};

use super::subject::Subject;
use crate::cmd::workload::output;
use crate::cmd::workload::progress::ProgressLine;
use crate::exit::Exit;
use crate::new_file;
use crate::print::print;

/// Measure the start-up times and rates of a class of equal servers, for `vpfs layout advise`
///
/// Run it once for each class, on the storage directory of one server while it is idle, or on a client in a directory
/// whose files lie on one server of the class (with --over-network). Random reads and writes of 4 KiB to 4 MiB, one at
/// a time, go to a test file without a name, so nothing remains of it even after Ctrl-C. A block device is only read.
/// The files of all classes and that of `vpfs profile network` are what --servers of `vpfs layout advise` takes.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  \
    vpfs profile class disk /srv/orangefs/storage --servers 6\n      \
        on a storage server; writes disk.toml\n  \
    vpfs profile class flash /mnt/lustre/flash1 --servers 2 --network 1.1GB/s --over-network\n      \
        on a client, through the file system; writes flash.toml\n  \
    vpfs profile class disk --model harl-disk --servers 6\n      \
        a model, in virtual time")]
pub(super) struct ClassArgs {
    /// The name of the class: letters, digits, "-" and "_"
    #[arg(value_name = "NAME", value_parser = name)]
    name: String,

    #[command(flatten)]
    subject: Subject,

    /// The number of servers of the class
    #[arg(long, value_name = "N", required_unless_present = "addresses", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    servers: Option<u32>,

    /// Their addresses instead, as clients know them, which hints of OrangeFS need: tcp://oss1:3334,...
    #[arg(long, value_name = "ADDR,...", value_delimiter = ',', conflicts_with = "servers", value_parser = address)]
    addresses: Vec<String>,

    /// What may be placed on each server [default: as much as files need]
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    free: Option<Bytes>,

    /// The rate of the link of each server, unless `vpfs profile network` writes it
    #[arg(long, value_name = "RATE", value_parser = some_rate)]
    network: Option<Rate>,

    /// Accesses to PATH pass the network, whose part of the time is subtracted
    #[arg(long, requires = "network", conflicts_with = "model")]
    over_network: bool,

    /// How often everything is measured
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=100))]
    repetitions: u32,

    /// Where to write the class [default: NAME.toml]
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,

    /// Replace a file that exists
    #[arg(long)]
    overwrite: bool,

    /// Write all measurements to this file, "-" for standard output
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,

    /// Show no progress
    #[arg(long, short)]
    quiet: bool,
}

/// What TOML and names of files take as they are.
fn name(text: &str) -> Result<String, String> {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || letter == '-' || letter == '_';
    match !text.is_empty() && text.chars().all(is_plain) {
        true => Ok(text.to_owned()),
        false => Err("a name has letters, digits, \"-\" and \"_\"".to_owned()),
    }
}

fn address(text: &str) -> Result<String, String> {
    let is_plain = |letter: char| letter.is_ascii_graphic() && letter != '"' && letter != '\\';
    let rest = text.strip_prefix("tcp://").filter(|rest| rest.contains(':') && rest.chars().all(is_plain));
    rest.map(|_| text.to_owned()).ok_or_else(|| "an address is written tcp://HOST:PORT".to_owned())
}

/// A rate within what the cost model takes.
fn some_rate(text: &str) -> Result<Rate, String> {
    let rate = parse_rate(text).map_err(|error| error.to_string())?;
    let known = vpfs_harl::Access::RATES;
    if known.contains(&rate.0) { Ok(rate) } else { Err("it must be from 100KB/s to 100GB/s".to_owned()) }
}

impl ClassArgs {
    pub(super) fn run(&self) -> Result<(), Exit> {
        let output = self.output.clone().unwrap_or_else(|| format!("{}.toml", self.name).into());
        new_file::check(&output, self.overwrite)?;
        let line = ProgressLine::start(self.quiet);
        let timings = self.measure(&line);
        line.clear();
        let timings = timings?;
        // Measurements are worth keeping even if no class can be derived from them.
        self.write_json(&timings)?;
        let fit = fit_class(&timings, self.subtracted()).map_err(|error| Exit::Failed(error.to_string()))?;
        if self.json.as_deref() != Some(Path::new("-")) {
            print(class_summary(&fit).trim_end())?;
        }
        new_file::write(&output, &class_toml(&fit, &self.labels(), &self.measured(&timings)), self.overwrite)?;
        if self.json.as_deref() == Some(Path::new("-")) {
            return Ok(());
        }
        print(format_args!("written to {}", output.display()))
    }

    fn measure(&self, line: &ProgressLine) -> Result<Vec<Timing>, Exit> {
        let plan = ClassPlan { repetitions: self.repetitions, ..ClassPlan::default() };
        let (mut storage, time) = self.subject.open(
            plan.largest(),
            line,
            |model| Box::new(model) as Box<dyn TimedStorage>,
            |real| Box::new(real),
        )?;
        if !storage.probes().contains(&Probe::Write) {
            return Err(Exit::Usage(format!(
                "a class needs times of writes, and {} is only read; name a directory, or repeat the device as \
                 --destroy-data",
                self.subject.describe()
            )));
        }
        let timed = plan.run(&mut *storage, time, |progress| line.show(|| describe(&progress)));
        timed.map_err(|error| Exit::Failed(error.to_string()))
    }

    /// The network's time of each byte, where accesses pass it.
    fn subtracted(&self) -> Option<f64> {
        self.network.filter(|_| self.over_network).map(|rate| 1e9 / rate.0 as f64)
    }

    fn labels(&self) -> ClassLabels {
        ClassLabels {
            name: self.name.clone(),
            servers: self.servers.unwrap_or_default(),
            addresses: self.addresses.clone(),
            network: self.network.map(|rate| rate.to_string()),
            free: self.free.map(|free| Size(free).to_string()),
        }
    }

    /// One line about the measurement; a path may have any character.
    fn measured(&self, timings: &[Timing]) -> String {
        let accesses: u64 = timings.iter().map(|timing| u64::from(timing.accesses)).sum();
        let subject: String = self.subject.describe().chars().map(|c| if c.is_control() { '?' } else { c }).collect();
        let over = if self.over_network { " over the network, without its part" } else { "" };
        format!(
            "Written by `vpfs profile class` for {subject}{over}: {accesses} accesses in {} runs.",
            self.repetitions
        )
    }

    fn write_json(&self, timings: &[Timing]) -> Result<(), Exit> {
        let Some(path) = &self.json else { return Ok(()) };
        output::write(
            path,
            &json!({ "class": self.name, "measured": self.subject.describe(), "measurements": timings }),
        )
    }
}

pub(super) fn describe(progress: &ClassProgress) -> String {
    let ClassProgress { series, done, all } = progress;
    let accesses = match series.probe {
        Probe::Network => "transfers",
        Probe::Read => "reads",
        Probe::Write => "writes",
    };
    format!("{done}/{all}: {accesses} of {}, run {}", Size(series.size), series.repetition + 1)
}

#[cfg(test)]
mod tests;
