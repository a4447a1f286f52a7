//! `vpfs profile network`: the network's time of each byte for `vpfs layout advise`.

use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::time::Duration;

use vpfs_config::units::parse_duration;
use vpfs_profile::{ClassPlan, NetworkPath, answer_network, fit_network, network_summary, network_toml};

use super::class::describe;
use crate::cmd::workload::progress::ProgressLine;
use crate::exit::Exit;
use crate::new_file;
use crate::print::print;

/// Measure the rate of a server's link, without storage, for `vpfs layout advise`
///
/// Run it with --listen on a storage server, and with that server's address on a client. Anybody who can connect may
/// ask the listening one for data: end it (Ctrl-C) when the measurement is done.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  \
    vpfs profile network --listen 0.0.0.0:7100    on a storage server\n  \
    vpfs profile network oss1:7100                on a client; writes network.toml")]
pub(super) struct NetworkArgs {
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
    pub(super) fn run(&self) -> Result<(), Exit> {
        match (&self.server, self.listen) {
            (Some(server), _) => self.measure(server),
            (None, Some(address)) => listen(address),
            (None, None) => Err(Exit::Usage("give HOST:PORT, or --listen ADDR:PORT".into())),
        }
    }

    fn measure(&self, server: &str) -> Result<(), Exit> {
        new_file::check(&self.output, self.overwrite)?;
        let failed = |error: &dyn std::fmt::Display| Exit::Failed(error.to_string());
        let mut path = NetworkPath::connect(server).map_err(|error| failed(&error))?;
        let plan = ClassPlan { repetitions: self.repetitions, ..ClassPlan::default() };
        let line = ProgressLine::start(self.quiet);
        let timed = plan.run(&mut path, Some(self.time), |progress| line.show(|| describe(&progress)));
        line.clear();
        let network = fit_network(&timed.map_err(|error| failed(&error))?).map_err(|error| failed(&error))?;
        print(network_summary(network).trim_end())?;
        let measured = format!("Written by `vpfs profile network` for transfers from {server:?}.");
        new_file::write(&self.output, &network_toml(network, &measured), self.overwrite)?;
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
