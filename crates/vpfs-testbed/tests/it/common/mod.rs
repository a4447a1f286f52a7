//! Helpers for the tests of servers and client.

use std::time::Duration;

use bytes::Bytes;
use vpfs_testbed::{Client, ClientOptions, ClusterConfig, EmbeddedCluster};

/// Servers in memory, without a device model.
pub(crate) async fn cluster(servers: usize) -> EmbeddedCluster {
    EmbeddedCluster::start(ClusterConfig::new(servers)).await.unwrap()
}

/// A client that retries often and after short pauses.
pub(crate) fn options(cluster: &EmbeddedCluster) -> ClientOptions {
    let (retry_limit, retry_delay) = (Some(100), Some(Duration::from_millis(10)));
    ClientOptions { retry_limit, retry_delay, ..ClientOptions::new(cluster.url()) }
}

pub(crate) async fn client(cluster: &EmbeddedCluster) -> Client {
    Client::connect(options(cluster)).await.unwrap()
}

/// `len` bytes that differ by position and by seed.
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
