//! Embedded OrangeFS-protocol servers with a device model, and a client library.

pub mod client;
pub mod device;
mod flow;
pub mod fsconfig;
pub mod server;
pub mod store;
mod transport;

pub use client::{Client, ClientOptions, CreateOptions, File};
pub use device::{DeviceClock, DeviceProfile};
pub use server::{ClusterConfig, EmbeddedCluster, StorageKind};
