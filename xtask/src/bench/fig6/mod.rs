//! vPFS Fig. 6 with real processes: unfairness while applications arrive one after the other, each with its number as
//! weight, odd ones on half of the servers and even ones on all [vPFS §IV-C2]. `vpfs reproduce vpfs-6` simulates it.

mod apps;
mod fairness;
mod options;
mod proxies;

use std::thread::sleep;
use std::time::{Duration, Instant};

use apps::App;
use fairness::{Sample, Windows};
use options::{APPS, Options};
use proxies::Proxies;

use super::cluster::Cluster;
use super::process::Running;
use super::program;
use super::scratch::Scratch;

/// How long applications may take for their last calls.
const PATIENCE: Duration = Duration::from_secs(120);

/// Runs it once and prints the service of each application in each short window, and both figures of the paper. An
/// error if they are missed.
pub(super) fn run(args: &[&str]) -> Result<(), String> {
    let options = Options::parse(args)?;
    let program = program::build(options.vpfs.as_deref())?;
    let scratch = Scratch::new()?;
    let (_servers, cluster) = match &options.cluster {
        Some(dir) => (None, Cluster::read(dir)?),
        None => proxies::embedded_servers(&scratch, &program, &options).map(|(servers, it)| (Some(servers), it))?,
    };
    let proxies = Proxies::start(&scratch, &program, &cluster, &options)?;
    println!("{}\n", options.title(cluster.addresses.len(), &load_average()));
    let windows = measure(&proxies, &scratch, &cluster, &options)?;
    println!("{}", windows.markdown());
    let verdict = windows.verdict();
    println!("{}, load average {}", verdict.text, load_average());
    if let Some(file) = &options.json {
        std::fs::write(file, windows.json())
            .map_err(|error| format!("cannot write {}: {error}; give --json a writable file", file.display()))?;
    }
    if verdict.passed { Ok(()) } else { Err("the goals of vPFS Fig. 6 are missed, see above".to_owned()) }
}

/// Starts the applications when they are due, and samples their service after each short window.
fn measure(proxies: &Proxies<'_>, scratch: &Scratch, cluster: &Cluster, options: &Options) -> Result<Windows, String> {
    let mut running: Vec<Running> = Vec::new();
    let mut samples = vec![Sample::default()];
    let start = Instant::now();
    for window in 0..options.windows() {
        if window % options.windows_per_arrival() == 0 && running.len() < APPS {
            let app = App::new(running.len() + 1, cluster.addresses.len());
            let left = options.seconds.saturating_sub(start.elapsed().as_secs());
            running.push(app.start(scratch, cluster, proxies, options, left)?);
        }
        sleep((options.window() * (window + 1)).saturating_sub(start.elapsed()));
        samples.push(proxies.sample()?);
        if window + 1 < options.windows() {
            running.iter_mut().try_for_each(Running::assert_running)?;
        }
    }
    // They end by themselves and remove their files; calls of the smallest one may take long.
    let end = Instant::now();
    for app in running {
        app.finish(|| end.elapsed() > PATIENCE)?;
    }
    Ok(Windows::new(&samples, options))
}

fn load_average() -> String {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split_whitespace().take(3).collect::<Vec<_>>().join(" ")
}
