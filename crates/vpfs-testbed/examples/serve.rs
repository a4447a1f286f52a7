//! Runs embedded servers for tools on other terminals.
//!
//! `cargo run -p vpfs-testbed --example serve -- [SERVERS [FIRST_PORT [none|hdd|ssd [DIRECTORY]]]]`

#![allow(clippy::print_stdout, reason = "printing is what it does")]

use std::io;
use std::net::{Ipv4Addr, SocketAddr};

use vpfs_model::device::DeviceProfile;
use vpfs_testbed::{ClusterConfig, EmbeddedCluster, StorageKind};

#[tokio::main]
async fn main() -> io::Result<()> {
    tracing_subscriber::fmt().with_env_filter(tracing_subscriber::EnvFilter::from_default_env()).init();
    let cluster = EmbeddedCluster::start(config()?).await?;
    println!("serving {} on {:?}", cluster.url(), cluster.addresses());
    std::future::pending().await
}

fn config() -> io::Result<ClusterConfig> {
    let mut arguments = std::env::args().skip(1);
    let bad = |what: &str| io::Error::new(io::ErrorKind::InvalidInput, format!("bad {what}"));
    let servers = arguments.next().map_or(Ok(4), |text| text.parse()).map_err(|_| bad("number of servers"))?;
    let first_port: u16 = arguments.next().map_or(Ok(6300), |text| text.parse()).map_err(|_| bad("port"))?;
    let mut config = ClusterConfig::new(servers);
    config.fs_name = "pfs".to_owned();
    let ports = first_port..=u16::MAX;
    config.listen = ports.map(|port| SocketAddr::from((Ipv4Addr::LOCALHOST, port))).take(servers).collect();
    config.devices = match arguments.next().as_deref() {
        None | Some("none") => vec![DeviceProfile::None],
        Some("hdd") => vec![DeviceProfile::hdd()],
        Some("ssd") => vec![DeviceProfile::ssd()],
        Some(_) => return Err(bad("device")),
    };
    if let Some(directory) = arguments.next() {
        config.storage = StorageKind::Directory(directory.into());
    }
    Ok(config)
}
