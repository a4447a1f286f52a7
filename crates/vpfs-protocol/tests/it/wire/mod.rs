//! Codecs, against frames of real clients and servers.

mod golden;
mod nfs;
mod transfer;
