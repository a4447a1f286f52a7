//! Embedded OrangeFS-protocol servers with a device model, and a client library.

pub mod device;
pub mod store;
