//! `vpfs profile`: the depth and the slot costs of real storage or of a device model. Its subcommands measure what
//! `vpfs layout advise` needs.

use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::json;
use vpfs_config::units::{Rate, Size, parse_duration, parse_rate, parse_size};
use vpfs_core::{Bytes, Depth, OpKind};
use vpfs_report::profile_report;
use vpfs_sim::model::device::{DeviceProfile, UnknownDevice};
use vpfs_testbed::profile::{
    ClassLabels, ClassPlan, ClassProgress, Measurements, ModelStorage, NetworkPath, OpFit, Options, Probe, Progress,
    RealStorage, Storage, StorageFit, Sweep, TimedStorage, Timing, answer_network, class_summary, class_toml,
    fit_class, fit_network, network_summary, network_toml, records, to_toml,
};

use super::workload;
use super::workload::ProgressLine;
use crate::print;
use crate::print::{Exit, print};

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
    Class(Box<ClassArgs>),
    Network(NetworkArgs),
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
            print::check_new_file(file, self.overwrite)?;
        }
        let line = ProgressLine::start(self.quiet);
        let measurements = self.measure(&line);
        line.clear();
        let measurements = measurements?;
        // Measurements are worth keeping even if no profile can be derived from them.
        self.write_json(&measurements)?;
        let fit = measurements.fit().map_err(|error| Exit::Failed(error.to_string()))?;
        let profile = to_toml(&fit, &format!("Written by `vpfs profile` for {}.", self.subject.describe()));
        print::write_new_file(&self.output, &profile, self.overwrite)?;
        if let Some(page) = &self.html {
            print::write_new_file(
                page,
                &profile_report(&measurements, &fit, &self.subject.describe()).html(),
                self.overwrite,
            )?;
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
        workload::write_output(
            path,
            &json!({ "measured": self.subject.describe(), "measurements": records(measurements) }),
        )
    }
}

fn op_name(op: OpKind) -> &'static str {
    if op == OpKind::Write { "writes" } else { "reads" }
}

fn describe(progress: &Progress) -> String {
    let Progress { point, done, all } = progress;
    format!("{done}/{all}: {} of {}, {} outstanding", op_name(point.op), Size(point.size), point.outstanding)
}

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
struct ClassArgs {
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
    fn run(&self) -> Result<(), Exit> {
        let output = self.output.clone().unwrap_or_else(|| format!("{}.toml", self.name).into());
        print::check_new_file(&output, self.overwrite)?;
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
        print::write_new_file(&output, &class_toml(&fit, &self.labels(), &self.measured(&timings)), self.overwrite)?;
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
        let timed = plan.run(&mut *storage, time, |progress| line.show(|| describe_class(&progress)));
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
        workload::write_output(
            path,
            &json!({ "class": self.name, "measured": self.subject.describe(), "measurements": timings }),
        )
    }
}

fn describe_class(progress: &ClassProgress) -> String {
    let ClassProgress { series, done, all } = progress;
    let accesses = match series.probe {
        Probe::Network => "transfers",
        Probe::Read => "reads",
        Probe::Write => "writes",
    };
    format!("{done}/{all}: {accesses} of {}, run {}", Size(series.size), series.repetition + 1)
}

/// Measure the rate of a server's link, without storage, for `vpfs layout advise`
///
/// Run it with --listen on a storage server, and with that server's address on a client. Anybody who can connect may
/// ask the listening one for data: end it (Ctrl-C) when the measurement is done.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  \
    vpfs profile network --listen 0.0.0.0:7100    on a storage server\n  \
    vpfs profile network oss1:7100                on a client; writes network.toml")]
struct NetworkArgs {
    /// Where the listening command runs
    #[arg(value_name = "HOST:PORT", required_unless_present = "listen")]
    server: Option<String>,

    /// Send data to clients that connect to this address, until Ctrl-C
    #[arg(long, value_name = "ADDR:PORT", conflicts_with_all = ["server", "time", "repetitions", "output", "overwrite"])]
    listen: Option<SocketAddr>,

    /// How often everything is measured
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=100))]
    repetitions: u32,

    /// Approximate time to measure
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = parse_duration)]
    time: Duration,

    /// Where to write the rate
    #[arg(long, short, value_name = "FILE", default_value = "network.toml")]
    output: PathBuf,

    /// Replace a file that exists
    #[arg(long)]
    overwrite: bool,

    /// Show no progress
    #[arg(long, short)]
    quiet: bool,
}

impl NetworkArgs {
    fn run(&self) -> Result<(), Exit> {
        match (&self.server, self.listen) {
            (Some(server), _) => self.measure(server),
            (None, Some(address)) => listen(address),
            (None, None) => Err(Exit::Usage("give HOST:PORT, or --listen ADDR:PORT".into())),
        }
    }

    fn measure(&self, server: &str) -> Result<(), Exit> {
        print::check_new_file(&self.output, self.overwrite)?;
        let failed = |error: &dyn std::fmt::Display| Exit::Failed(error.to_string());
        let mut path = NetworkPath::connect(server).map_err(|error| failed(&error))?;
        let plan = ClassPlan { repetitions: self.repetitions, ..ClassPlan::default() };
        let line = ProgressLine::start(self.quiet);
        let timed = plan.run(&mut path, Some(self.time), |progress| line.show(|| describe_class(&progress)));
        line.clear();
        let network = fit_network(&timed.map_err(|error| failed(&error))?).map_err(|error| failed(&error))?;
        print(network_summary(network).trim_end())?;
        let measured = format!("Written by `vpfs profile network` for transfers from {server:?}.");
        print::write_new_file(&self.output, &network_toml(network, &measured), self.overwrite)?;
        print(format_args!("written to {}", self.output.display()))
    }
}

/// One client at a time: a second one would take part of the rate.
fn listen(address: SocketAddr) -> Result<(), Exit> {
    let failed = |error| Exit::Failed(format!("cannot listen on {address}: {error}"));
    let listener = TcpListener::bind(address).map_err(failed)?;
    print(format_args!("listening on {}; Ctrl-C ends it", listener.local_addr().map_err(failed)?))?;
    loop {
        let (stream, client) = listener.accept().map_err(failed)?;
        if let Err(error) = answer_network(stream) {
            eprintln!("vpfs: {client}: {error}");
        }
    }
}

#[derive(clap::Args)]
struct Subject {
    /// A directory on the storage to measure, or a block device
    #[arg(value_name = "PATH", required_unless_present = "model")]
    path: Option<PathBuf>,

    /// Measure this device model instead, in virtual time
    #[arg(long, value_name = "NAME", conflicts_with_all = ["path", "time", "size", "buffered", "destroy_data"], value_parser = model)]
    model: Option<Model>,

    /// Approximate time to measure
    #[arg(long, value_name = "TIME", default_value = "1min", value_parser = parse_duration)]
    time: Duration,

    /// Size of the test file; less if it cannot be filled within a quarter of the time
    #[arg(long, value_name = "SIZE", default_value = "4GiB", value_parser = parse_size)]
    size: Bytes,

    /// Use the page cache, for file systems without direct I/O
    #[arg(long)]
    buffered: bool,

    /// Also write to the block device PATH; repeat its name here. Refused if it is in use or has data at either end
    #[arg(long, value_name = "DEVICE")]
    destroy_data: Option<PathBuf>,
}

#[derive(Clone, Debug)]
struct Model {
    name: String,
    device: DeviceProfile,
}

fn model(name: &str) -> Result<Model, UnknownDevice> {
    Ok(Model { name: name.to_owned(), device: DeviceProfile::by_name(name)? })
}

impl Subject {
    /// The storage, for accesses of at most `largest`, and how long it may be measured.
    fn open<S: ?Sized>(
        &self,
        largest: Bytes,
        line: &ProgressLine,
        modelled: impl FnOnce(ModelStorage) -> Box<S>,
        real: impl FnOnce(RealStorage) -> Box<S>,
    ) -> Result<(Box<S>, Option<Duration>), Exit> {
        if let Some(model) = &self.model {
            return Ok((modelled(ModelStorage(model.device.clone())), None));
        }
        let begin = Instant::now();
        let options = Options {
            size: self.size,
            largest_access: largest,
            fill_time: self.time / 4,
            buffered: self.buffered,
            destroy_data: self.destroy_data.clone(),
        };
        line.announce("filling the test file");
        let storage = RealStorage::open(self.path(), &options).map_err(|error| Exit::Failed(error.to_string()))?;
        Ok((real(storage), Some(self.time.saturating_sub(begin.elapsed()))))
    }

    fn describe(&self) -> String {
        match &self.model {
            Some(model) => format!("the device model {}", model.name),
            None => self.path().display().to_string(),
        }
    }

    fn path(&self) -> &Path {
        self.path.as_deref().unwrap_or(Path::new("."))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use clap::Parser;
    use vpfs_config::Config;
    use vpfs_core::Bytes;
    use vpfs_sim::model::device::DeviceProfile;
    use vpfs_testbed::profile::ModelStorage;

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

    fn parse(arguments: &[&str]) -> Result<Cli, clap::Error> {
        Cli::try_parse_from([&["profile", "class"], arguments].concat())
    }

    fn class_run(arguments: &[&str]) -> Result<(), Exit> {
        parse(&[arguments, &["--quiet"]].concat()).expect("the arguments are right").profile.run()
    }

    fn problem(arguments: &[&str]) -> String {
        match class_run(arguments) {
            Err(Exit::Usage(message) | Exit::Failed(message)) => message,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_file_is_replaced_only_on_request() {
        let directory = tempfile::tempdir().expect("a directory");
        let file = directory.path().join("disk.toml");
        let output = file.to_str().expect("a plain path");
        let arguments = ["disk", "--model", "harl-disk", "--servers", "6", "--output", output];
        class_run(&arguments).expect("models can be measured");
        let first = fs::read_to_string(&file).expect("it was written");
        assert!(first.contains("\nname = \"disk\"\nservers = 6\n"), "{first}");
        let refused = problem(&arguments);
        assert!(refused.contains("disk.toml exists; choose another name, or use --overwrite"), "{refused}");
        fs::write(&file, first.repeat(2)).expect("it can be written");
        class_run(&[&arguments[..], &["--overwrite"]].concat()).expect("it may be replaced");
        assert_eq!(fs::read_to_string(&file).expect("it was written"), first);
    }

    #[test]
    fn a_class_has_what_was_said_of_it() {
        let directory = tempfile::tempdir().expect("a directory");
        let class = directory.path().join("c.toml");
        let output = class.to_str().expect("a plain path");
        let said =
            ["--model", "harl-disk", "--servers", "1", "--network", "1GB/s", "--free", "1TiB", "--output", output];
        class_run(&[&["c"], &said[..]].concat()).expect("models can be measured");
        let text = fs::read_to_string(class).expect("it was written");
        assert!(text.contains("\nnetwork = \"1GB/s\"\n") && text.ends_with("\nfree = \"1TiB\"\n"), "{text}");
    }

    /// Where the storage was busy for a moment, large accesses may have taken no longer than small ones. What was
    /// measured is kept in any case.
    #[test]
    fn a_directory_gives_measurements() {
        let directory = tempfile::tempdir().expect("a directory");
        let [class, json] = ["c.toml", "m.json"].map(|name| directory.path().join(name));
        let [output, measurements] = [&class, &json].map(|path| path.to_str().expect("a plain path"));
        let here = directory.path().to_str().expect("a plain path");
        let measured = ["here", here, "--servers", "1", "--buffered", "--time", "100ms", "--size", "16MiB"];
        match class_run(&[&measured[..], &["--repetitions", "2", "--output", output, "--json", measurements]].concat())
        {
            Ok(()) => assert!(class.exists()),
            Err(Exit::Failed(why)) => {
                assert!(why.contains("took no longer than small ones") && !class.exists(), "{why}")
            }
            other => panic!("{other:?}"),
        }
        let json: serde_json::Value = serde_json::from_slice(&fs::read(json).expect("it was written")).expect("JSON");
        // Two runs of five sizes, read and written.
        assert_eq!(json["measurements"].as_array().map(Vec::len), Some(20));
    }

    #[test]
    fn wrong_arguments_name_the_fix() {
        let refused = |arguments: &[&str]| match parse(arguments) {
            Err(error) => error.to_string(),
            Ok(_) => panic!("{arguments:?} were accepted"),
        };
        assert!(refused(&["disk"]).contains("<PATH>"));
        assert!(refused(&["disk", "/tmp"]).contains("--servers"));
        assert!(refused(&["../disk", "/tmp", "--servers", "1"]).contains("letters, digits"));
        assert!(refused(&["disk", "/tmp", "--addresses", "oss1"]).contains("tcp://HOST:PORT"));
        assert!(refused(&["disk", "/tmp", "--servers", "1", "--over-network"]).contains("--network"));
        assert!(refused(&["disk", "/tmp", "--servers", "1", "--network", "1B/s"]).contains("100KB/s"));
        assert!(refused(&["disk", "--model", "floppy", "--servers", "1"]).contains("harl-disk"));
        let nowhere = problem(&["disk", "/nowhere", "--servers", "1"]);
        assert!(nowhere.contains("cannot look at /nowhere"), "{nowhere}");
        let level = problem(&["memory", "--model", "none", "--servers", "1", "--output", "/nowhere/memory.toml"]);
        assert!(level.contains("large reads took no longer than small ones"), "{level}");
    }
}
