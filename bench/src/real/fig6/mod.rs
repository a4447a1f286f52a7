//! vPFS Fig. 6 with real processes: unfairness while applications arrive one after the other, each with its number as
//! weight, odd ones on half of the servers and even ones on all [vPFS §IV-C2]. Beyond the paper's figure, they are
//! killed one after the other at the end. `vpfs reproduce vpfs-6` simulates the paper's part.

mod apps;
mod fairness;
mod options;

use std::thread::sleep;
use std::time::Instant;

use apps::App;
use fairness::{Sample, Windows};
use options::APPS;
pub(crate) use options::Options;

use super::cluster::Cluster;
use super::process::Running;
use super::proxies::Proxies;
use super::scratch::Scratch;

/// Embedded servers, as many as the paper has.
const SERVERS: usize = 8;

/// Runs it once and prints the service of each application in each short window, and both figures of the paper. An
/// error if they are missed.
#[expect(clippy::print_stdout, reason = "it is what the program is for")]
pub(crate) fn run(options: &Options) -> Result<(), String> {
    let scratch = Scratch::new()?;
    let started = options.target.start(&scratch, SERVERS, &options.device)?;
    let (program, cluster) = (&started.program, &started.cluster);
    let apps: Vec<_> = (1..=APPS).map(|number| App::new(number, cluster.addresses.len()).config()).collect();
    let scheduler = format!("[scheduler]\npolicy = \"sfq-d\"\ndepth = 8\nsharing = \"{}\"\n", options.sharing);
    let proxies = Proxies::start(&scratch, program, cluster, &apps, &scheduler)?;
    println!("{}\n", options.title(cluster.addresses.len(), &load_average()));
    let windows = measure(&proxies, &scratch, cluster, options)?;
    println!("{}", windows.markdown());
    let verdict = windows.verdict();
    println!("{}, load average {}", verdict.text, load_average());
    if let Some(file) = &options.json {
        std::fs::write(file, windows.json())
            .map_err(|error| format!("cannot write {}: {error}; give --json a writable file", file.display()))?;
    }
    if verdict.passed { Ok(()) } else { Err("the goals of vPFS Fig. 6 are missed, see above".to_owned()) }
}

/// Starts and kills the applications when it is time, and samples their service after each short window.
fn measure(proxies: &Proxies<'_>, scratch: &Scratch, cluster: &Cluster, options: &Options) -> Result<Windows, String> {
    let mut running: Vec<(usize, Running)> = Vec::new();
    let mut samples = vec![Sample::default()];
    let start = Instant::now();
    for window in 0..options.long_windows() {
        running.retain(|(number, _)| options.stay(*number).contains(&window));
        if let Some(number) = (1..=APPS).find(|number| options.stay(*number).start == window) {
            running.push((
                number,
                App::new(number, cluster.addresses.len()).start(
                    scratch,
                    proxies.program(),
                    &cluster.spec(&proxies.address(number - 1)),
                    options,
                )?,
            ));
        }
        for short in 1..=options.short_in_long() {
            let end = options.windows(window * options.short_in_long() + short);
            sleep(end.saturating_sub(start.elapsed()));
            samples.push(sample(proxies)?);
        }
        running.iter_mut().try_for_each(|(_, app)| app.assert_running())?;
    }
    Ok(Windows::new(&samples, options))
}

/// What each application got so far.
fn sample(proxies: &Proxies<'_>) -> Result<Sample, String> {
    let served = proxies.served()?;
    Ok(std::array::from_fn(|app| served.get(&App::new(app + 1, 1).name()).copied().unwrap_or_default()))
}

fn load_average() -> String {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split_whitespace().take(3).collect::<Vec<_>>().join(" ")
}
