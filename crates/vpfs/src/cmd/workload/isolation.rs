//! `vpfs workload isolation`.

use std::net::IpAddr;
use std::time::Duration;

use serde_json::json;
use tokio::time::sleep;
use vpfs_config::units::{parse_duration, parse_size};
use vpfs_core::Bytes;
use vpfs_sim::model::plan::{Interactive, Ior, Phase, Plan};
use vpfs_testbed::load::measure::Report;
use vpfs_testbed::load::run::{RunError, RunHandle, RunOptions};
use vpfs_testbed::load::table::{Pair, kept, side_by_side};

use super::target::{ProgressLine, Target};
use super::{Application, Doubt, Tracer, call, explain, run_application, target, usage};
use crate::cmd::{accounts, workload};
use crate::exit::Exit;
use crate::print::print;

/// Measure how much of its speed a small application keeps next to a large one, and vice versa
///
/// Runs small calls with think time alone, large calls alone, then both at once. A proxy must be able to tell both
/// apart: by default, each client address is an application, so give each load an address of its own, or a listener.
/// With the address of a server instead of a proxy, it measures what there is to gain.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  \
    vpfs workload isolation --url tcp://127.0.0.1:5334/orangefs --bind 127.0.0.2 --large-bind 127.0.0.3\n    \
    a proxy on this host, as `vpfs init` configures it: two addresses are two applications\n  \
    vpfs workload isolation --url tcp://oss1:5334/orangefs --bind 10.0.1.7 --large-bind 10.0.1.8\n    \
    from a host with two addresses (`ip address add 10.0.1.8/24 dev eth0` adds one)\n  \
    vpfs workload isolation --url tcp://oss1:5334/orangefs --large-url tcp://oss1:5434/orangefs\n    \
    two listeners, each with app = \"...\" in vpfs.toml")]
pub(super) struct IsolationArgs {
    /// Where the large application connects [default: same as the small one]
    #[arg(long, value_name = "URL", help_heading = "Target")]
    large_url: Option<String>,

    /// Local addresses that the large application connects from [default: those of --bind]
    #[arg(long, value_name = "ADDR,...", value_delimiter = ',', help_heading = "Target")]
    large_bind: Vec<IpAddr>,

    /// User in every credential of the large application [default: that of --uid]
    #[arg(long, value_name = "UID", value_parser = accounts::user, help_heading = "Target")]
    large_uid: Option<u32>,

    /// Processes of the small application; each has one call in flight
    #[arg(short = 'n', long, value_name = "N", default_value_t = 4)]
    processes: u32,

    /// Bytes of one call of the small application
    #[arg(short, long, value_name = "SIZE", default_value = "8KiB", value_parser = parse_size)]
    transfer: Bytes,

    /// Bytes of the file of each process of the small application
    #[arg(long, value_name = "SIZE", default_value = "16MiB", value_parser = parse_size)]
    file: Bytes,

    /// Mean think time of the small application before each call, drawn between half and one and a half times this
    #[arg(long, value_name = "TIME", default_value = "2ms", value_parser = parse_duration)]
    think: Duration,

    /// Let the small application read and verify instead of writing
    #[arg(short, long)]
    read: bool,

    /// Processes of the large application, each with its own file
    #[arg(long, value_name = "N", default_value_t = 12)]
    large_processes: u32,

    /// Bytes of one call of the large application
    #[arg(long, value_name = "SIZE", default_value = "4MiB", value_parser = parse_size)]
    large_transfer: Bytes,

    /// Bytes of the file of each process of the large application, written (or read) repeatedly
    #[arg(long, value_name = "SIZE", default_value = "128MiB", value_parser = parse_size)]
    large_file: Bytes,

    /// Let the large application read and verify instead of writing; its files are written before the first run
    #[arg(long)]
    large_read: bool,

    /// Length of the measurement in each of the three runs
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = parse_duration)]
    time: Duration,

    #[command(flatten)]
    target: Target,
}

const WATCH_EVERY: Duration = Duration::from_millis(20);

impl IsolationArgs {
    pub(super) async fn run(&self) -> Result<(), Exit> {
        if self.target.repetitions != 1 {
            return Err(Exit::Usage(
                "--repetitions: three runs form one measurement; run the command again instead".to_owned(),
            ));
        }
        let (mut small, mut large) = (self.small()?, self.large()?);
        let (tracer, trace) = Tracer::start(self.target.trace.as_deref())?;
        (small.options.trace, large.options.trace) = (trace.clone(), trace);
        let line = ProgressLine::start(self.target.quiet);
        let reports = measure(&small, &large, &line).await;
        line.clear();
        (small.options.trace, large.options.trace) = (None, None);
        let ([small_alone, large_alone, small_beside, large_beside], warning) =
            reports.map_err(|error| Exit::Failed(explain(&error)))?;
        let pair = |alone, beside| Pair { alone, beside };
        let pairs = [pair(&small_alone, &small_beside), pair(&large_alone, &large_beside)];
        if !self.target.json_on_stdout() {
            print(side_by_side(pairs[0], pairs[1]).trim_end())?;
            if warning.is_some() {
                print("(Both loads were one application to a proxy: see the warning above.)")?;
            }
        }
        if let Some(path) = &self.target.json {
            let document = json!({
                "workload": "isolation",
                "url": small.options.client.url,
                "large_url": large.options.client.url,
                "parameters": { "small": small.plan, "large": large.plan },
                "warning": warning,
                "kept": kept(pairs[0], pairs[1]),
                "alone": { "small": small_alone, "large": large_alone },
                "beside": { "small": small_beside, "large": large_beside },
            });
            target::write_output(path, &document)?;
        }
        tracer.finish().await?;
        target::verdict([&small_alone, &large_alone, &small_beside, &large_beside])
    }

    fn small(&self) -> Result<Application<Interactive>, Exit> {
        let plan = Interactive {
            processes: self.processes,
            transfer_bytes: call("transfer", self.transfer)?,
            file_bytes: self.file.0,
            think: self.think,
            time: self.time,
            read: self.read,
            fills: true,
            seed: self.target.seed,
        };
        plan.validate().map_err(|error| usage(&error))?;
        let options = self.target.options("isolation", false, plan.processes)?;
        Ok(Application { plan, options })
    }

    fn large(&self) -> Result<Application<Ior>, Exit> {
        let transfer = call("large-transfer", self.large_transfer)?;
        let plan = Ior {
            write: !self.large_read,
            read: self.large_read,
            time_limit: Some(self.time),
            seed: self.target.seed,
            ..Ior::writes(self.large_processes, transfer, self.large_file.0)
        };
        plan.validate().map_err(|error| match error.option {
            "block" => Exit::Usage("--large-file: must be a multiple of --large-transfer".to_owned()),
            option => Exit::Usage(format!("--large-{option}: {}", error.problem)),
        })?;
        let mut options = self.target.options("isolation", false, plan.processes)?;
        // Next to the small application's directory.
        options.directory = match options.directory.trim_end_matches('/') {
            "" => "/isolation-large".to_owned(),
            directory => format!("{directory}-large"),
        };
        options.client.url = self.large_url.clone().unwrap_or(options.client.url);
        options.client.uid = self.large_uid.unwrap_or(options.client.uid);
        if !self.large_bind.is_empty() {
            options.local_addresses.clone_from(&self.large_bind);
        }
        Ok(Application { plan, options })
    }
}

impl Application<Ior> {
    /// The same, but its files stay.
    fn keeping(&self) -> Self {
        Self { plan: Ior { keep: true, ..self.plan.clone() }, options: self.options.clone() }
    }

    /// Writes the files that are to be read.
    async fn fill(&self, line: &ProgressLine) -> Result<(), RunError> {
        let Self { plan, options } = self.keeping();
        let plan = Ior { write: true, read: false, time_limit: None, ..plan };
        let options = RunOptions { trace: None, ..options };
        Self { plan, options }.alone("files of the large one", line).await.map(drop)
    }
}

/// The small application alone, the large one alone, and both at once; and a warning if they cannot be told apart.
async fn measure(
    small: &Application<Interactive>,
    large: &Application<Ior>,
    line: &ProgressLine,
) -> Result<([Report; 4], Option<String>), RunError> {
    // The last run of the large one: it made the directory, so it removes that.
    let other = large.prepare().await?;
    let first = small.prepare().await?;
    let users = [small.options.client.uid, large.options.client.uid];
    let warning = match workload::doubt(&first.ends(), &other.ends(), users) {
        Some(Doubt::Same(warning)) => {
            eprintln!("vpfs: {warning}");
            Some(warning)
        }
        Some(Doubt::Users(note)) => {
            eprintln!("vpfs: {note}");
            None
        }
        None => None,
    };
    let small_alone = run_application(first, "small alone (run 1 of 3)", line).await?;
    let large_title = "large alone (run 2 of 3)";
    let large_alone = if large.plan.read {
        large.fill(line).await?;
        large.keeping().alone(large_title, line).await?
    } else {
        large.alone(large_title, line).await?
    };
    let beside = small.prepare().await?;
    let handles = [beside.handle(), other.handle()];
    let measured = handles[0].clone();
    // The small application's files are filled first, so that both measure nearly the same period.
    let both = async {
        tokio::try_join!(beside.execute(), async {
            begin_of_calls(&measured).await;
            other.execute().await
        })
    };
    let describe = || {
        let [small, large] = handles.each_ref().map(target::describe_progress);
        format!("both (run 3 of 3), small: {small}; large: {large}")
    };
    let (small_beside, large_beside) = line.follow(both, describe).await?;
    Ok(([small_alone, large_alone, small_beside, large_beside], warning))
}

async fn begin_of_calls(small: &RunHandle) {
    let is_preparing = |phase| matches!(phase, None | Some(Phase::Create | Phase::Setup));
    while is_preparing(small.progress().map(|progress| progress.phase)) {
        sleep(WATCH_EVERY).await;
    }
}
