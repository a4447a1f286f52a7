//! What holds for the sum over all servers.

mod caps;
mod cluster;
mod large;
mod minima;
mod targets;
