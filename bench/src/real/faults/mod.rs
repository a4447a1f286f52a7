//! Faults of proxies and of the links between them, while two applications read and write: longest operations, shares,
//! and how soon these are back. *Wide*, of weight 2, is on all of four servers and *narrow*, of weight 1, on two of
//! them. `e2e/tests/faults.rs` asserts what is measured here.

mod loads;
mod proxies;
mod relay;
mod shares;

use std::time::{Duration, Instant};

use loads::{FAULTY, Loads};
use proxies::Proxies;
use shares::Shares;

use super::cluster::Cluster;
use super::scratch::Scratch;
use super::target::Target;

/// Verified load while proxies and links between them fail
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Length of each fault, in seconds: clients of a killed proxy must be willing to retry for so long
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u64).range(8..=600))]
    seconds: u64,
    /// Device model of the embedded servers, see `vpfs serve`
    #[arg(long, value_name = "NAME", default_value = "throttled-disk")]
    device: String,
    #[command(flatten)]
    target: Target,
}

/// Servers, of which narrow uses the first two.
const SERVERS: usize = 4;
/// Time until shares are steady, and in which they must be back.
const STEADY: Duration = Duration::from_secs(8);
const AFTER: Duration = Duration::from_secs(14);

/// Bytes that wide and narrow got so far.
type Sample = [u64; 2];

#[derive(Clone, Copy, Debug)]
enum Fault {
    Hang,
    Kill,
    Cut,
    Halves,
}

impl Fault {
    const ALL: [(Self, &'static str); 4] = [
        (Self::Hang, "SIGSTOP of a proxy, SIGCONT"),
        (Self::Kill, "SIGKILL of a proxy, start"),
        (Self::Cut, "one link cut"),
        (Self::Halves, "a partition in halves"),
    ];

    fn begin(self, proxies: &mut Proxies<'_>) -> Result<(), String> {
        match self {
            Self::Hang => proxies.set_hung(FAULTY, true)?,
            Self::Kill => proxies.kill(FAULTY)?,
            Self::Cut | Self::Halves => self.links().iter().for_each(|pair| proxies.set_cut(*pair, true)),
        }
        Ok(())
    }

    fn end(self, proxies: &mut Proxies<'_>) -> Result<(), String> {
        match self {
            Self::Hang => proxies.set_hung(FAULTY, false)?,
            Self::Kill => proxies.restart(FAULTY)?,
            Self::Cut | Self::Halves => self.links().iter().for_each(|pair| proxies.set_cut(*pair, false)),
        }
        Ok(())
    }

    /// The links that are cut.
    fn links(self) -> &'static [(usize, usize)] {
        match self {
            Self::Halves => &[(0, FAULTY), (0, 3), (1, FAULTY), (1, 3)],
            _ => &[(0, FAULTY)],
        }
    }
}

/// Runs all faults one after the other and prints them as a table. An error if an operation fails or data is wrong.
#[expect(clippy::print_stdout, reason = "it is what the program is for")]
pub(crate) fn run(options: &Options) -> Result<(), String> {
    let scratch = Scratch::new()?;
    let started = options.target.start(&scratch, SERVERS, &options.device)?;
    let (program, cluster) = (&started.program, &started.cluster);
    if cluster.addresses.len() != SERVERS {
        return Err(format!("{} servers; give --orangefs a cluster of {SERVERS}", cluster.addresses.len()));
    }
    let mut proxies = Proxies::start(&scratch, program, cluster)?;
    println!(
        "Wide : narrow, by weight 2; faults of {} s; longest operations of others and of users of s{FAULTY}\n\n\
         | fault | others s | users s | before | during | after | back after s |\n|{}",
        options.seconds,
        "---|".repeat(7)
    );
    for (fault, name) in Fault::ALL {
        println!("| {name} {}", measure(fault, options, &scratch, cluster, &mut proxies)?);
    }
    Ok(())
}

/// The other columns of a row.
fn measure(
    fault: Fault,
    options: &Options,
    scratch: &Scratch,
    cluster: &Cluster,
    proxies: &mut Proxies<'_>,
) -> Result<String, String> {
    let time = Duration::from_secs(options.seconds);
    let loads = Loads::start(scratch, cluster, proxies, STEADY + time + AFTER)?;
    let mut shares = Shares::default();
    let before = shares.watch(proxies, STEADY)?;
    fault.begin(proxies)?;
    let during = shares.watch(proxies, time)?;
    fault.end(proxies)?;
    let end = Instant::now();
    let after = shares.watch(proxies, AFTER)?;
    let back = shares.back_after(end, before).map_or("-".to_owned(), |time| format!("{:.1}", time.as_secs_f64()));
    let longest = loads.finish()?;
    let [others, users] = [longest.others, longest.faulty].map(|time| time.as_secs_f64());
    Ok(format!("| {others:.2} | {users:.2} | {before:.2} | {during:.2} | {after:.2} | {back} |"))
}
