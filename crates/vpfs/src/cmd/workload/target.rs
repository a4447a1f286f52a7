//! Options shared by all workloads: target, identity and output.

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::ValueEnum;
use vpfs_config::units::{parse_duration, parse_size};
use vpfs_core::Bytes;
use vpfs_testbed::client::{ClientOptions, CreateOptions};
use vpfs_testbed::load::run::{Connections, RunOptions, SyncMode};

use crate::cmd::accounts;
use crate::exit::Exit;

#[derive(clap::Args)]
pub(super) struct Target {
    /// Any one server or proxy of the file system, tcp://HOST:PORT/NAME; or nfs://HOST:PORT/EXPORT?mountport=PORT,
    /// where the ports can be left out if they are 2049 and 20048
    #[arg(long, value_name = "URL", help_heading = "Target")]
    pub(super) url: String,

    /// User in every credential, by number or name
    #[arg(long, value_name = "UID", default_value = "0", value_parser = accounts::user, help_heading = "Target")]
    uid: u32,

    /// Groups in every credential, the primary one first
    #[arg(long = "gid", value_name = "GID,...", value_delimiter = ',', default_value = "0", value_parser = accounts::group, help_heading = "Target")]
    gids: Vec<u32>,

    /// Host name in every credential
    #[arg(long, value_name = "NAME", default_value = "vpfs", help_heading = "Target")]
    host_name: String,

    /// Local addresses to connect from, assigned to nodes in turn, e.g. 127.0.0.2,127.0.0.3, so that nodes look like
    /// different hosts [default: chosen by the system]
    #[arg(long, value_name = "ADDR,...", value_delimiter = ',', help_heading = "Target")]
    bind: Vec<IpAddr>,

    /// Number of client hosts that the processes are spread over, in blocks
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..), help_heading = "Target")]
    pub(super) nodes: u32,

    /// Which processes share connections
    #[arg(long, value_enum, value_name = "WHAT", default_value_t = SharedBy::Node, help_heading = "Target")]
    connection_per: SharedBy,

    /// Directory of the run: created if it does not exist, and then also removed [default: / and the workload's name]
    #[arg(long, value_name = "PATH", help_heading = "Target")]
    directory: Option<String>,

    /// Strip size of new files on OrangeFS; several: of each server, in the order of the file system's configuration,
    /// 0B for none
    #[arg(long, value_name = "SIZE,...", value_delimiter = ',', default_value = "64KiB", value_parser = parse_size, help_heading = "Target")]
    strip: Vec<Bytes>,

    /// Number of servers that each new file is striped over, if all have equal strips [default: all]
    #[arg(long, value_name = "N", help_heading = "Target")]
    datafiles: Option<u32>,

    /// Replace an existing file instead of failing
    #[arg(long, help_heading = "Target")]
    overwrite: bool,

    /// Attempts after the first one, with OrangeFS [default: from the servers' configuration]
    #[arg(long, value_name = "N", help_heading = "Target")]
    retries: Option<u32>,

    /// How long to wait for a reply [default: from the servers' configuration; 5min with NFS]
    #[arg(long, value_name = "TIME", value_parser = parse_duration, help_heading = "Target")]
    reply_timeout: Option<Duration>,

    /// Number of times to run everything
    #[arg(short = 'i', long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..), help_heading = "Run")]
    pub(super) repetitions: u32,

    /// Seed of file contents, random order and random sizes
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = "Run")]
    pub(super) seed: u64,

    /// Interval of the timeline in the JSON file, at least 10ms
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = parse_interval, help_heading = "Run")]
    interval: Duration,

    /// Write parameters and all measurements to this file; "-" for standard output instead of the table
    #[arg(long, value_name = "FILE", help_heading = "Run")]
    pub(super) json: Option<PathBuf>,

    /// Write each transfer to this file, a CSV log for `vpfs layout advise`; those that prepare files are left out
    #[arg(long, value_name = "FILE", help_heading = "Run")]
    pub(super) trace: Option<PathBuf>,

    /// Show no progress on standard error
    #[arg(short, long, help_heading = "Run")]
    pub(super) quiet: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum SharedBy {
    /// All processes of a node share one connection to each server, as on a host with a client module
    Node,
    /// Each process has its own connections, as with a user-space library
    Process,
}

impl Target {
    /// Target options of the workload `name` with `processes` processes.
    pub(super) fn options(&self, name: &str, keep: bool, processes: u32) -> Result<RunOptions, Exit> {
        if self.nodes > processes {
            return Err(Exit::Usage(format!("--nodes: more nodes than processes ({processes})")));
        }
        for (option, is_given) in [("datafiles", self.datafiles.is_some()), ("retries", self.retries.is_some())] {
            if is_given && self.url.starts_with("nfs://") {
                return Err(Exit::Usage(format!("--{option}: is for OrangeFS only; leave it out with nfs://")));
            }
        }
        let directory = self.directory.clone().unwrap_or_else(|| format!("/{name}"));
        if !directory.starts_with('/') {
            return Err(Exit::Usage(format!("--directory: {directory:?} is not absolute; write \"/{directory}\"")));
        }
        Ok(RunOptions {
            client: self.client(),
            local_addresses: self.bind.clone(),
            nodes: self.nodes,
            connections: match self.connection_per {
                SharedBy::Node => Connections::PerNode,
                SharedBy::Process => Connections::PerProcess,
            },
            directory,
            create: self.create()?,
            overwrite: self.overwrite,
            keep,
            sync: SyncMode::Stable,
            seed: self.seed,
            interval: self.interval,
            trace: None,
        })
    }

    /// Whether JSON is printed instead of the table.
    pub(super) fn json_on_stdout(&self) -> bool {
        self.json.as_deref() == Some(Path::new("-"))
    }

    fn client(&self) -> ClientOptions {
        ClientOptions {
            uid: self.uid,
            gids: self.gids.clone(),
            host_name: self.host_name.clone(),
            retry_limit: self.retries,
            reply_timeout: self.reply_timeout,
            ..ClientOptions::new(self.url.clone())
        }
    }

    /// The layout of new files.
    fn create(&self) -> Result<CreateOptions, Exit> {
        match (self.strip.as_slice(), self.datafiles) {
            ([strip], None) => Ok(CreateOptions::simple_stripe(strip.0)),
            ([strip], Some(count)) => Ok(CreateOptions::simple_stripe(strip.0).datafiles(count)),
            (strips, None) => variable_strips(strips.iter().copied().enumerate()),
            (_, Some(_)) => Err(Exit::Usage("--datafiles: --strip says already which servers hold data".to_owned())),
        }
    }
}

/// Strips of these sizes on servers, none where it is zero.
pub(crate) fn variable_strips(strips: impl IntoIterator<Item = (usize, Bytes)>) -> Result<CreateOptions, Exit> {
    let (servers, sizes): (Vec<usize>, Vec<u64>) =
        strips.into_iter().filter(|(_, strip)| strip.0 > 0).map(|(server, strip)| (server, strip.0)).unzip();
    if servers.is_empty() {
        return Err(Exit::Usage("--strip: no server has a strip; give at least one a size".to_owned()));
    }
    let strips: Vec<String> = sizes.iter().enumerate().map(|(index, size)| format!("{index}:{size}")).collect();
    Ok(CreateOptions::variable_strips(strips.join(";")).on_servers(servers))
}

fn parse_interval(text: &str) -> Result<Duration, String> {
    let interval = parse_duration(text).map_err(|error| error.to_string())?;
    if interval < Duration::from_millis(10) { Err("must be at least 10ms".to_owned()) } else { Ok(interval) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strips_of_each_server() {
        let strips = |sizes: &[u64]| variable_strips(sizes.iter().copied().map(Bytes::kib).enumerate());
        let some = CreateOptions::variable_strips("0:65536;1:1048576").on_servers(vec![0, 2]);
        assert_eq!(strips(&[64, 0, 1024]).ok(), Some(some));
        let Err(Exit::Usage(problem)) = strips(&[0, 0]) else { panic!("no strips at all") };
        assert!(problem.contains("at least one"), "{problem}");
    }
}
