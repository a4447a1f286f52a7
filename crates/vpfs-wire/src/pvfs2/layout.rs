//! Where a new object's parts go: handle ranges and server layouts (docs/protocols/orangefs.md, handle ranges and
//! layout).

use super::codec::wire_structs;
use super::types::{Handle, Padded, Text};

wire_structs! {
    /// Handle ranges, both ends included.
    #[derive(Default)]
    pub struct HandleRanges {
        /// First and last handle of each range.
        [pad4] pub ranges: Vec<(Handle, Handle)>,
    }

    /// How servers are chosen for a new file or directory.
    #[derive(Default)]
    pub struct Layout {
        /// One of the constants.
        pub algorithm: i32,
        /// Full addresses (`tcp://host:port`) as the client knows them, for [`Layout::LIST`].
        [pad4] pub servers: Padded<Text>,
    }
}

impl Layout {
    /// Server list order.
    pub const NONE: i32 = 1;
    /// Round robin from a random start; the default.
    pub const ROUND_ROBIN: i32 = 2;
    /// Random servers.
    pub const RANDOM: i32 = 3;
    /// The servers that are listed.
    pub const LIST: i32 = 4;
    /// The local server.
    pub const LOCAL: i32 = 5;
}
