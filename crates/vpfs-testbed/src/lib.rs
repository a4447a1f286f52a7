//! Embedded OrangeFS-protocol servers with a device model, a client library, and load.
//!
//! Everything that a demonstration or a test of a proxy needs, on one machine and without an installation:
//! - [`EmbeddedCluster`]: file servers that stock clients and tools accept (docs/protocols/orangefs.md), in one
//!   process, each with its own address, store and device;
//! - [`storage`]: disk and flash models in the I/O path, so that contention is real and repeatable;
//! - [`Client`]: many clients in one process, for embedded and real servers alike;
//! - [`load`]: what applications do, run by such clients, verified and measured;
//! - [`relayout`] and [`profile`]: copies with a new layout, by such a client or on a mount, and what storage can do.
//!
//! ```
//! use vpfs_testbed::{Client, ClientOptions, ClusterConfig, CreateOptions, EmbeddedCluster};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let cluster = EmbeddedCluster::start(ClusterConfig::new(4)).await?;
//! let client = Client::connect(ClientOptions::new(cluster.url())).await?;
//! let file = client.create("/greeting", &CreateOptions::simple_stripe(4)).await?;
//! client.write_at(&file, 0, "hello, striped world".into()).await?;
//! assert_eq!(file.servers().len(), 4);
//! assert_eq!(client.read_at(&file, 7, 7).await?, "striped");
//! # Ok(())
//! # }
//! ```
//!
//! No lock is held while waiting. All input from the other side of a connection is bounded and checked; a fault on one
//! connection never affects another. Servers and client must run inside a tokio runtime with time and I/O enabled.

pub mod client;
pub mod fsconfig;
pub mod load;
pub mod nfs;
pub mod profile;
pub mod relayout;
pub mod server;
pub mod storage;
mod transport;

pub use client::{Client, ClientOptions, CreateOptions, File};
pub use server::{ClusterConfig, EmbeddedCluster};
pub use storage::DeviceClock;
pub use transport::socket_for;
