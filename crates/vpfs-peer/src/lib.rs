//! Connections between the proxy processes of a cluster, without I/O.
//!
//! [`wire`] is the format of what they send to each other (`docs/protocols/peers.md`); [`mesh`] decides whom to connect
//! to, what to keep and what to send, and checks what arrives. The daemon moves the bytes; it
//! also authenticates the processes, which nothing here does.
//!
//! Nothing here does I/O, reads a clock or draws a random number. Memory is bounded for each link.

pub mod mesh;
pub mod wire;
