//! `vpfs serve`: embedded servers.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};

use vpfs_config::units::{Size, parse_size};
use vpfs_config::{LogLevel, Protocol};
use vpfs_core::Bytes;
use vpfs_proxy::admin::events::Events;
use vpfs_sim::model::device::DeviceProfile;
use vpfs_testbed::nfs::{NfsConfig, NfsServer};
use vpfs_testbed::{ClusterConfig, EmbeddedCluster};

use crate::print::Exit;
use crate::service;
use crate::service::Stop;

/// Run embedded servers that speak the OrangeFS protocol, or one of NFSv3, for tests and trials
///
/// Stock OrangeFS tools and pvfs2fuse can use them, or clients of NFSv3. With a device model, requests take as long as
/// they would on that device, so contention is realistic and repeatable. Not for production: files are in
/// memory and lost on exit, there is no server-to-server protocol, and with NFS no access control and no links.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  \
    vpfs serve                                    four servers in memory at 127.0.0.1:6334 to 6337\n  \
    vpfs serve --device hdd --servers 2           two servers, each as slow as a disk\n  \
    vpfs serve --protocol nfs --device hdd        a server of NFSv3 and its mount protocol at 127.0.0.1:2049\n\n\
    A tour in five commands and two minutes, each that goes on in a terminal of its own:\n  \
    vpfs serve --protocol nfs --device hdd\n  \
    vpfs init --nfs 'nfs://127.0.0.1/pfs?mountport=2049' --output .\n  \
    vpfs proxy --config vpfs.toml\n  \
    vpfs workload isolation --uid 1000 --large-uid 1001 --url 'nfs://127.0.0.1:12049/pfs?mountport=12049'\n  \
    vpfs top --config vpfs.toml                   after a minute both run; `vpfs why uid:1000` says more")]
pub(crate) struct Serve {
    /// What the servers speak
    #[arg(long, value_name = "NAME", default_value = "orangefs", value_parser = super::protocol())]
    protocol: Protocol,

    /// Number of servers, each for metadata and data [default: 4; always 1 with NFS]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    servers: Option<u16>,

    /// Where the first server listens, which is also the address announced to clients; the others take the following
    /// ports [default: 127.0.0.1:6334, or 127.0.0.1:2049 with NFS]
    #[arg(long, value_name = "ADDR:PORT")]
    listen: Option<SocketAddr>,

    #[arg(long, value_name = "NAME", default_value = "none", value_parser = device, help = device_help())]
    device: DeviceProfile,

    /// Storage capacity of each server
    #[arg(long, value_name = "SIZE", default_value = "8GiB", value_parser = parse_size)]
    capacity: Bytes,

    /// Name of the file system or export, the last part of its URL
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
        let _log = service::start_log(self.log_level, false, &Events::default())?;
        let runtime = super::runtime()?;
        let served = match self.protocol {
            Protocol::OrangeFs => runtime.block_on(self.serve(self.config()?)),
            Protocol::Nfs => runtime.block_on(self.serve_nfs(self.nfs_config()?)),
        };
        served.map_err(|error| match error.kind() {
            io::ErrorKind::InvalidInput => Exit::Usage(error.to_string()),
            _ => Exit::Failed(error.to_string()),
        })
    }

    fn listen(&self, port: u16) -> Result<SocketAddr, Exit> {
        let listen = self.listen.unwrap_or(SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
        match listen.ip().is_unspecified() {
            true => Err(Exit::Usage(format!("clients cannot reach {listen}; give the address they connect to"))),
            false => Ok(listen),
        }
    }

    fn config(&self) -> Result<ClusterConfig, Exit> {
        let (listen, servers) = (self.listen(6334)?, self.servers.unwrap_or(4));
        let mut config = ClusterConfig::new(usize::from(servers));
        let last = u32::from(listen.port()) + u32::from(servers).saturating_sub(1);
        if listen.port() != 0 && last > u32::from(u16::MAX) {
            let port = listen.port();
            return Err(Exit::Usage(format!("{servers} ports from {port} on go beyond 65535; choose a lower port")));
        }
        let port = |server: u16| if listen.port() == 0 { 0 } else { listen.port() + server };
        config.listen = (0..servers).map(|server| SocketAddr::new(listen.ip(), port(server))).collect();
        config.fs_name.clone_from(&self.name);
        config.capacity_bytes = self.capacity.0;
        config.devices = vec![self.device.clone()];
        Ok(config)
    }

    fn nfs_config(&self) -> Result<NfsConfig, Exit> {
        let refused = |what: &str| Err(Exit::Usage(format!("{what} with --protocol nfs")));
        let SocketAddr::V4(listen) = self.listen(2049)? else { return refused("--listen: only IPv4 is supported") };
        if self.servers.is_some_and(|servers| servers != 1) {
            return refused("--servers: an export has one server");
        }
        let (export, device) = (self.name.clone(), self.device.clone());
        Ok(NfsConfig { listen, export, device, capacity_bytes: self.capacity.0, ..NfsConfig::default() })
    }

    async fn serve_nfs(&self, config: NfsConfig) -> io::Result<()> {
        let mut stop = Stop::new()?;
        let server = NfsServer::start(config).await?;
        println!("serving {} ({}); stop with Ctrl-C", server.url(), Size(self.capacity));
        stop.asked().await;
        Ok(())
    }

    async fn serve(&self, config: ClusterConfig) -> io::Result<()> {
        let mut stop = Stop::new()?;
        let cluster = EmbeddedCluster::start(config).await?;
        for (number, address) in (1..).zip(cluster.addresses()) {
            println!("s{number} tcp://{address}");
        }
        println!("serving {} ({} for each server); stop with Ctrl-C", cluster.url(), Size(self.capacity));
        stop.asked().await;
        Ok(())
    }
}
