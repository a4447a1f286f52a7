//! Embedded OrangeFS-protocol servers with a device model, and a client library.

pub mod client;
pub mod device;
pub mod fsconfig;
pub mod store;
