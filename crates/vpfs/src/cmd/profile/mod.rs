//! `vpfs profile`: the depth and the slot costs of real storage or of a device model. Its subcommands measure what
//! `vpfs layout advise` needs.

mod class;
mod network;
mod subject;

use std::path::{Path, PathBuf};

use serde_json::json;
use vpfs_config::units::Size;
use vpfs_core::{Depth, OpKind};
use vpfs_profile::{Measurements, OpFit, Progress, Storage, StorageFit, Sweep, records, report, to_toml};

use crate::cmd::workload::output;
use crate::cmd::workload::progress::ProgressLine;
use crate::exit::Exit;
use crate::new_file;
use crate::print::print;
use subject::Subject;

/// Measure storage, and write the depth and slot costs that `vpfs proxy` schedules it with
///
/// Run it on a storage server, on the server's storage directory, while the storage is idle. Random reads and writes of
/// 4 KiB to 4 MiB, 1 to 64 at a time, go to a test file without a name, so nothing remains of it even after Ctrl-C. A
/// block device is only read.
///
/// The subcommands measure classes of servers and their network for `vpfs layout advise`. (Write ./class and ./network
/// for directories of these names.)
#[derive(clap::Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
#[command(after_help = "Examples:\n  \
    vpfs profile /srv/orangefs/storage             a directory, in about a minute\n  \
    vpfs profile /srv/data --time 5min             a disk: more accurate\n  \
    vpfs profile --model hdd                       the disk model of `vpfs serve --device hdd`")]
pub(crate) struct ProfileArgs {
    #[command(subcommand)]
    command: Option<Command>,

    #[command(flatten)]
    subject: Subject,

    /// Where to write the profile
    #[arg(long, short, value_name = "FILE", default_value = "profile.toml")]
    output: PathBuf,

    /// Replace files that exist
    #[arg(long)]
    overwrite: bool,

    /// Write charts of both models to this file, an HTML page
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,

    /// Write all measurements to this file, "-" for standard output
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,

    /// Show no progress
    #[arg(long, short)]
    quiet: bool,
}

#[derive(clap::Subcommand)]
enum Command {
    Class(Box<class::ClassArgs>),
    Network(network::NetworkArgs),
}

impl ProfileArgs {
    pub(crate) fn run(&self) -> Result<(), Exit> {
        match &self.command {
            Some(Command::Class(class)) => class.run(),
            Some(Command::Network(network)) => network.run(),
            None => self.sweep(),
        }
    }

    fn sweep(&self) -> Result<(), Exit> {
        let files = [Some(&self.output), self.html.as_ref(), self.json.as_ref()];
        for file in files.into_iter().flatten().filter(|file| **file != Path::new("-")) {
            new_file::check(file, self.overwrite)?;
        }
        let line = ProgressLine::start(self.quiet);
        let measurements = self.measure(&line);
        line.clear();
        let measurements = measurements?;
        // Measurements are worth keeping even if no profile can be derived from them.
        self.write_json(&measurements)?;
        let fit = measurements.fit().map_err(|error| Exit::Failed(error.to_string()))?;
        let profile = to_toml(&fit, &format!("Written by `vpfs profile` for {}.", self.subject.describe()));
        new_file::write(&self.output, &profile, self.overwrite)?;
        if let Some(page) = &self.html {
            new_file::write(page, &report(&measurements, &fit, &self.subject.describe()).html(), self.overwrite)?;
        }
        if self.json.as_deref() != Some(Path::new("-")) {
            print(format_args!("{}written to {}", summary(&fit), self.output.display()))?;
        }
        Ok(())
    }

    fn measure(&self, line: &ProgressLine) -> Result<Measurements, Exit> {
        let sweep = Sweep::default();
        let (mut storage, time) = self.subject.open(
            sweep.largest(),
            line,
            |model| Box::new(model) as Box<dyn Storage>,
            |real| Box::new(real),
        )?;
        let show = |progress: Progress| line.show(|| describe(&progress));
        sweep.run(&mut *storage, time, show).map_err(|error| Exit::Failed(error.to_string()))
    }

    fn write_json(&self, measurements: &Measurements) -> Result<(), Exit> {
        let Some(path) = &self.json else { return Ok(()) };
        output::write(path, &json!({ "measured": self.subject.describe(), "measurements": records(measurements) }))
    }
}

fn op_name(op: OpKind) -> &'static str {
    if op == OpKind::Write { "writes" } else { "reads" }
}

fn describe(progress: &Progress) -> String {
    let Progress { point, done, all } = progress;
    format!("{done}/{all}: {} of {}, {} outstanding", op_name(point.op), Size(point.size), point.outstanding)
}

/// Depth and slot costs, with warnings.
fn summary(fit: &StorageFit) -> String {
    let mut text = format!("depth {}\n", fit.depth.get());
    let models = [("reads", &fit.reads), ("writes", &fit.writes)];
    for (name, model) in models.into_iter().filter_map(|(name, model)| Some((name, model.as_ref()?))) {
        let slots = model.sizes.iter().map(|one| format!("{} {}", Size(one.size), one.slot_cost.get()));
        let small = Size(model.small_threshold);
        text += &format!("{name}: small up to {small}; slots: {}\n", slots.collect::<Vec<_>>().join(", "));
        text += &warning(name, model);
        text += &noise(name, model, fit.depth);
    }
    text
}

/// If the knee is at the last depth, the true one may be beyond it.
fn warning(name: &str, model: &OpFit) -> String {
    if model.knee < model.deepest {
        return String::new();
    }
    format!(
        "  {name} are not saturated with {} outstanding, so depth may be more than was found\n",
        model.deepest.get()
    )
}

/// The depth was found with the smallest accesses, so these cannot occupy most of the slots.
fn noise(name: &str, model: &OpFit, depth: Depth) -> String {
    match model.sizes.first() {
        Some(smallest) if smallest.slot_cost.get() > 1 && smallest.slot_cost.get() * 2 > depth.get() => format!(
            "  even the smallest {name} take {} of {depth} slots: either latency hardly depends on load here, or there was too \
             little time; try a longer --time\n",
            smallest.slot_cost.get(),
            depth = depth.get(),
        ),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use clap::Parser;
    use vpfs_config::Config;
    use vpfs_core::Bytes;
    use vpfs_model::device::DeviceProfile;
    use vpfs_profile::ModelStorage;

    use super::*;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        profile: ProfileArgs,
    }

    fn run(arguments: &[&str]) -> Result<(), Exit> {
        Cli::try_parse_from([&["profile", "--quiet"], arguments].concat())
            .expect("the arguments are right")
            .profile
            .run()
    }

    /// The daemon's settings from the smallest configuration that names a profile.
    fn load(profile: &Path) -> Config {
        let text = "[[server]]\nname = \"s1\"\naddress = \"tcp://127.0.0.1:3334\"\n[[listener]]\nport = 5334\n\
                    [scheduler]\nprofile = \"profile.toml\"\n";
        let files = |_: &str| fs::read_to_string(profile);
        Config::parse_with("vpfs.toml", text, &files).unwrap_or_else(|problems| panic!("{problems}"))
    }

    #[test]
    fn the_daemon_takes_profiles_over() {
        let directory = tempfile::tempdir().expect("a directory");
        let profile = directory.path().join("profile.toml");
        for name in ["hdd", "ssd", "null-aio"] {
            let output = ["--model", name, "--output", profile.to_str().expect("a plain path")];
            run(&[&output[..], &["--overwrite"]].concat()).expect("models have profiles");
            let Err(Exit::Usage(refusal)) = run(&output) else { panic!("it exists") };
            assert!(refusal.contains("--overwrite"), "{refusal}");
            let storage = &mut ModelStorage(DeviceProfile::by_name(name).expect("it is listed"));
            let fit = Sweep::default().run(storage, None, |_| {}).expect("models do not fail").fit().expect("enough");
            let config = load(&profile);
            assert!(config.warnings.list.is_empty(), "{name}: {}", config.warnings);
            let policy = config.scheduler.policy;
            assert_eq!(policy.depth, fit.depth, "{name}");
            for (op, shift) in [OpKind::Read, OpKind::Write].into_iter().flat_map(|op| (0..26).map(move |s| (op, s))) {
                let slots = policy.slot_costs.slot_cost(op, Bytes(1 << shift));
                assert_eq!(slots, fit.slot_costs.slot_cost(op, Bytes(1 << shift)), "{name}, {op:?}, 2^{shift} bytes");
            }
        }
    }

    #[test]
    fn a_directory_gives_profile_measurements_and_page() {
        let directory = tempfile::tempdir().expect("a directory");
        let [profile, json, html] = ["p.toml", "m.json", "p.html"].map(|name| directory.path().join(name));
        let files = [&profile, &json, &html].map(|path| path.to_str().expect("a plain path"));
        let here = directory.path().to_str().expect("a plain path");
        let measured = ["--buffered", "--time", "100ms", "--size", "16MiB", here];
        run(&[&measured[..], &["--output", files[0], "--json", files[1], "--html", files[2]]].concat())
            .expect("a directory can be measured");
        load(&profile);
        let json: serde_json::Value = serde_json::from_slice(&fs::read(json).expect("it was written")).expect("JSON");
        assert!(json["measurements"].as_array().is_some_and(|all| all.len() > 36), "{json}");
        assert!(fs::read_to_string(html).expect("it was written").contains("<svg"));
    }

    #[test]
    fn models_and_paths_exclude_each_other() {
        for wrong in [&["--model", "hdd", "/tmp"][..], &[], &["--model", "floppy"]] {
            assert!(Cli::try_parse_from([&["profile"], wrong].concat()).is_err(), "{wrong:?}");
        }
    }
}
