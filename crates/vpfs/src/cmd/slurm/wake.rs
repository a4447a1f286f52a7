//! `vpfs slurm wake`, for slurmctld, whose jobs it must never delay.

use std::io;
use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;

/// Let the agent read the jobs now; for PrologSlurmctld, EpilogSlurmctld and strigger
///
/// Sends one datagram, which never waits, and exits with 0 whether or not an agent got it: without it, the agent finds
/// a job within its interval.
#[derive(clap::Args)]
pub(super) struct Wake {
    /// The agent's socket
    #[arg(long, value_name = "PATH", default_value = "/run/vpfs-slurm/wake.sock")]
    socket: PathBuf,
}

impl Wake {
    pub(super) fn run(&self) {
        if let Err(error) = self.send() {
            eprintln!("vpfs: the agent was not woken at {}: {error}", self.socket.display());
        }
    }

    fn send(&self) -> io::Result<()> {
        let socket = UnixDatagram::unbound()?;
        socket.set_nonblocking(true)?;
        match socket.send_to(b"wake", &self.socket) {
            // As many wait that the agent will read the jobs anyway.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(()),
            sent => sent.map(drop),
        }
    }
}
