//! What connections tell the task that owns the state of all links.

use std::io;

use vpfs_core::ServerId;
use vpfs_peer::mesh::{LinkId, Origin};
use vpfs_peer::wire::{Frame, WireError};

use super::handshake::Introduced;

/// The most inputs that wait: a reader beyond it waits, and so does its peer.
pub(super) const INPUTS: usize = 256;

/// What connections tell the switch.
pub(super) enum Input {
    /// A process introduced itself.
    Connected(Origin, Introduced),
    DialFailed(ServerId, io::Error),
    Frame(LinkId, Frame),
    Malformed(LinkId, WireError),
    Closed(LinkId, io::Error),
    /// A batch was sent.
    Written(LinkId),
}
