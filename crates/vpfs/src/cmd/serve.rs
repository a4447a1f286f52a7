//! `vpfs serve`: embedded OrangeFS-protocol servers.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use vpfs_admin::events::Events;
use vpfs_config::LogLevel;
use vpfs_config::units::{Size, parse_size};
use vpfs_core::Bytes;
use vpfs_model::device::DeviceProfile;
use vpfs_testbed::{ClusterConfig, EmbeddedCluster, StorageKind};

use crate::exit::Exit;
use crate::log;
use crate::signals::Stop;

/// Run embedded servers that speak the OrangeFS protocol, for tests and trials
///
/// Stock OrangeFS tools and pvfs2fuse can use them. With a device model, requests take as long as they would on that
/// device, so contention is realistic and repeatable. Not for production: there is no replication and no
/// server-to-server protocol.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  \
    vpfs serve                                    four servers in memory at 127.0.0.1:6334 to 6337\n  \
    vpfs serve --device hdd --servers 2           two servers, each as slow as a disk\n  \
    vpfs serve --storage /var/tmp/pfs             keep the files in a directory")]
pub(crate) struct Serve {
    /// Number of servers, each for metadata and data
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=1024))]
    servers: u16,

    /// Where the first server listens, which is also the address announced to clients; the others take the following
    /// ports
    #[arg(long, value_name = "ADDR:PORT", default_value_t = SocketAddr::from((Ipv4Addr::LOCALHOST, 6334)))]
    listen: SocketAddr,

    #[arg(long, value_name = "NAME", default_value = "none", value_parser = device, help = device_help())]
    device: DeviceProfile,

    /// Keep files in this directory, which is created if it does not exist [default: in memory, lost on exit]
    #[arg(long, value_name = "DIR")]
    storage: Option<PathBuf>,

    /// Storage capacity of each server
    #[arg(long, value_name = "SIZE", default_value = "8GiB", value_parser = parse_size)]
    capacity: Bytes,

    /// Name of the file system, the last part of its URL
    #[arg(long, value_name = "NAME", default_value = "pfs")]
    name: String,

    /// Log level: error, warn, info, debug or trace
    #[arg(long, value_name = "LEVEL", default_value = "info", value_parser = log_level)]
    log_level: LogLevel,
}

fn log_level(text: &str) -> Result<LogLevel, String> {
    let found = LogLevel::ALL.into_iter().find(|level| level.name() == text);
    found.ok_or_else(|| "must be error, warn, info, debug or trace".to_owned())
}

fn device(name: &str) -> Result<DeviceProfile, String> {
    DeviceProfile::by_name(name).map_err(|error| error.to_string())
}

fn device_help() -> String {
    let names: Vec<&str> = DeviceProfile::NAMED.iter().map(|(name, _)| *name).collect();
    format!("Device model of every server's storage: {}", names.join(", "))
}

impl Serve {
    pub(crate) fn run(&self) -> Result<(), Exit> {
        let _log = log::start(self.log_level, false, &Events::default())?;
        let config = self.config()?;
        let runtime = super::runtime()?;
        runtime.block_on(self.serve(config)).map_err(|error| match error.kind() {
            io::ErrorKind::InvalidInput => Exit::Usage(error.to_string()),
            _ => Exit::Failed(error.to_string()),
        })
    }

    fn config(&self) -> Result<ClusterConfig, Exit> {
        let mut config = ClusterConfig::new(usize::from(self.servers));
        if self.listen.ip().is_unspecified() {
            return Err(Exit::Usage(format!("clients cannot reach {}; give the address they connect to", self.listen)));
        }
        let last = u32::from(self.listen.port()) + u32::from(self.servers).saturating_sub(1);
        if self.listen.port() != 0 && last > u32::from(u16::MAX) {
            let port = self.listen.port();
            return Err(Exit::Usage(format!(
                "{} ports from {port} on go beyond 65535; choose a lower port",
                self.servers
            )));
        }
        let port = |server: u16| if self.listen.port() == 0 { 0 } else { self.listen.port() + server };
        config.listen = (0..self.servers).map(|server| SocketAddr::new(self.listen.ip(), port(server))).collect();
        config.fs_name.clone_from(&self.name);
        config.capacity_bytes = self.capacity.0;
        config.devices = vec![self.device.clone()];
        if let Some(directory) = &self.storage {
            config.storage = StorageKind::Directory(directory.clone());
        }
        Ok(config)
    }

    async fn serve(&self, config: ClusterConfig) -> io::Result<()> {
        let mut stop = Stop::new()?;
        let cluster = EmbeddedCluster::start(config).await?;
        for (number, address) in (1..).zip(cluster.addresses()) {
            println!("s{number} tcp://{address}");
        }
        println!("serving {} ({} for each server); stop with Ctrl-C", cluster.url(), Size(self.capacity));
        stop.asked().await;
        cluster.shutdown().await
    }
}
