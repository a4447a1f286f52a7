//! What is known of a client when it sends a request.

use std::net::IpAddr;

use vpfs_core::OpKind;

/// A client of a proxy as its connection and a request show it.
#[derive(Clone, Copy, Debug)]
pub struct Client<'a> {
    /// The position in the file of the listener that it connected to.
    pub listener: usize,
    /// Where it connected from.
    pub ip: IpAddr,
    /// The user that it states, if it states one.
    pub uid: Option<u32>,
    /// The groups that it states.
    pub gids: &'a [u32],
    /// The name that its host states for itself; empty if it states none.
    pub machine: &'a str,
    /// What it asks for.
    pub op: OpKind,
}
