//! NFSv3: a server with a device model, and a client.
//!
//! [`NfsServer`] is the server of the crate `nfs3_server` over our stores and devices: each call is a task that waits
//! for the device, so calls of one connection wait at the same time. [`Client`] has one connection with many calls in
//! flight, as a mount has, and works with any server.

mod answers;
mod client;
mod error;
mod files;
mod rpc;
mod server;
mod tree;
mod url;

pub use self::answers::answers;
pub use self::client::{Client, File};
pub use self::error::NfsError;
pub use self::server::{NfsConfig, NfsServer};
pub use self::url::Url;
