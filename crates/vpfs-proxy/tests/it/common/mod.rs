//! Shared by the tests: embedded servers with a daemon in front of them, and peers that send raw frames.

pub(crate) mod cluster;
pub(crate) mod load;
pub(crate) mod log;
pub(crate) mod raw;
mod site;

use bytes::Bytes;
pub(crate) use site::{Front, Network, Site, free_addresses, start_successor};
use vpfs_testbed::CreateOptions;

/// Every distribution, by name.
pub(crate) fn distributions() -> [(&'static str, CreateOptions); 4] {
    [
        ("simple_stripe", CreateOptions::simple_stripe(10_000)),
        ("basic", CreateOptions::basic()),
        ("varstrip", CreateOptions::variable_strips("0:30K;1:100K;2:7K;3:64K")),
        ("twod_stripe", CreateOptions::two_dimensional(2, 16 << 10, 3)),
    ]
}

/// `len` bytes that differ from place to place and from seed to seed.
pub(crate) fn pattern(seed: u64, len: usize) -> Bytes {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let mut data: Vec<u8> = (0..len.div_ceil(8)).flat_map(|_| next().to_le_bytes()).collect();
    data.truncate(len);
    data.into()
}
