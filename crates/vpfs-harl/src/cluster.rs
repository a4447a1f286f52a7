//! What is known about the servers: classes of equal servers, and the network.

use std::time::Duration;

/// Times of one kind of access, read or write, at one server [HARL §III-D, Table I].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    startup_min: u64,
    startup_max: u64,
    per_byte: u64,
}

/// Why parameters cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ClusterError {
    /// The largest start-up time is below the smallest.
    #[error("the largest start-up time is below the smallest one; swap them")]
    Startup,
    /// A start-up time of more than [`Access::STARTUP_MAX`].
    #[error("a start-up time is above 100 s; is its unit right?")]
    StartupTooLong,
    /// A rate outside [`Access::RATES`].
    #[error("a rate is outside 100 KB/s to 100 GB/s; is its unit right?")]
    Rate,
    /// A class without servers.
    #[error("a class has no servers; give it some or remove it")]
    NoServers,
    /// No class at all, or more than [`Cluster::CLASSES_MAX`].
    #[error("there must be one to four classes of servers")]
    Classes,
    /// More than [`Cluster::SERVERS_MAX`] servers.
    #[error("there are more than 10000 servers")]
    TooManyServers,
}

impl Access {
    /// Rates that are accepted, in bytes per second: times per byte are whole picoseconds.
    pub const RATES: std::ops::RangeInclusive<u64> = 100_000..=100_000_000_000;
    /// The longest start-up time.
    pub const STARTUP_MAX: Duration = Duration::from_secs(100);

    /// Start-up times are drawn evenly from `min` to `max`; then bytes pass at `bytes_per_second`. For writes, `max` of
    /// at most 1 µs means that a cache gathers them, and the device stores them later at that rate. The time for a byte
    /// is rounded to a picosecond, which is 0.5 % at 10 GB/s.
    ///
    /// # Errors
    /// If `min > max`, or a value is out of range.
    pub fn new(min: Duration, max: Duration, bytes_per_second: u64) -> Result<Self, ClusterError> {
        if min > max {
            return Err(ClusterError::Startup);
        }
        if max > Self::STARTUP_MAX {
            return Err(ClusterError::StartupTooLong);
        }
        let picos = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX).saturating_mul(1000);
        Ok(Self { startup_min: picos(min), startup_max: picos(max), per_byte: per_byte(bytes_per_second)? })
    }

    /// The expected largest of `servers` start-up times, in picoseconds; 0 for none. O(1). [HARL §III-D, eq. 3]
    pub fn largest_startup(&self, servers: u32) -> u64 {
        if servers == 0 {
            return 0;
        }
        // At most 1e14 · 1e4, within 64 bits.
        let servers = u64::from(servers);
        self.startup_min + (self.startup_max - self.startup_min) * servers / (servers + 1)
    }

    /// The mean start-up time, in picoseconds.
    pub fn mean_startup(&self) -> u64 {
        self.largest_startup(1)
    }

    /// A start-up time in picoseconds; numbers without a pattern give times spread evenly over their range.
    pub(crate) fn startup(&self, lot: u64) -> u64 {
        self.startup_min + lot % (self.startup_max - self.startup_min + 1)
    }

    /// Whether a cache takes what is written, and the device stores it later: a start-up time of at most 1 µs. A
    /// request then waits for the network only; in the end the device has to have moved all bytes at its rate.
    pub(crate) fn is_gathered(&self) -> bool {
        self.startup_max <= 1_000_000
    }

    /// The time for `bytes`, in picoseconds, without the start-up.
    pub fn transfer(&self, bytes: u64) -> u64 {
        self.per_byte.saturating_mul(bytes)
    }
}

fn per_byte(bytes_per_second: u64) -> Result<u64, ClusterError> {
    const SECOND: u64 = 1_000_000_000_000;
    if !Access::RATES.contains(&bytes_per_second) {
        return Err(ClusterError::Rate);
    }
    Ok((SECOND + bytes_per_second / 2) / bytes_per_second)
}

/// Servers that are equal to each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerClass {
    /// Its name for people.
    pub name: String,
    /// The number of servers, not zero.
    pub servers: u32,
    /// Times of reads.
    pub read: Access,
    /// Times of writes.
    pub write: Access,
    /// Bytes that may be placed on each server; `None` if that is no concern.
    pub free: Option<u64>,
}

/// All servers that a file may be placed on, and the network to each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cluster {
    classes: Vec<ServerClass>,
    network_per_byte: u64,
}

impl Cluster {
    /// The largest number of classes: the search grows with each by a factor.
    pub const CLASSES_MAX: usize = 4;
    /// The largest number of servers of all classes.
    pub const SERVERS_MAX: u32 = 10_000;

    /// Servers in the order of a round: all of the first class, then all of the second, and so on. `network` is the
    /// rate of each server's link, in bytes per second.
    ///
    /// # Errors
    /// If there is no class, one without servers, too many of either, or a rate out of range.
    pub fn new(classes: Vec<ServerClass>, network: u64) -> Result<Self, ClusterError> {
        if classes.is_empty() || classes.len() > Self::CLASSES_MAX {
            return Err(ClusterError::Classes);
        }
        if classes.iter().any(|class| class.servers == 0) {
            return Err(ClusterError::NoServers);
        }
        let servers: u64 = classes.iter().map(|class| u64::from(class.servers)).sum();
        if servers > u64::from(Self::SERVERS_MAX) {
            return Err(ClusterError::TooManyServers);
        }
        Ok(Self { classes, network_per_byte: per_byte(network)? })
    }

    /// The classes, in the order of a round.
    pub fn classes(&self) -> &[ServerClass] {
        &self.classes
    }

    /// The number of servers of all classes.
    pub fn servers(&self) -> u32 {
        self.classes.iter().map(|class| class.servers).sum()
    }

    /// The time for `bytes` on a server's link, in picoseconds.
    pub fn network(&self, bytes: u64) -> u64 {
        self.network_per_byte.saturating_mul(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn access(min: u64, max: u64) -> Access {
        Access::new(Duration::from_nanos(min), Duration::from_nanos(max), 1_000_000_000).unwrap()
    }

    #[test]
    fn the_largest_of_more_draws_is_closer_to_the_maximum() {
        let access = access(100, 700);
        assert_eq!([0, 1, 2, 5].map(|k| access.largest_startup(k)), [0, 400_000, 500_000, 600_000]);
        assert_eq!(access.mean_startup(), 400_000);
    }

    #[test]
    fn impossible_parameters_are_refused() {
        let one = Duration::from_secs(1);
        assert_eq!(Access::new(one, Duration::ZERO, 1_000_000), Err(ClusterError::Startup));
        assert_eq!(Access::new(one, one * 1000, 1_000_000), Err(ClusterError::StartupTooLong));
        assert_eq!(Access::new(one, one, 0), Err(ClusterError::Rate));
        let class =
            |servers| ServerClass { name: "disk".into(), servers, read: access(1, 2), write: access(1, 2), free: None };
        assert_eq!(Cluster::new(vec![], 1_000_000), Err(ClusterError::Classes));
        assert_eq!(Cluster::new(vec![class(0)], 1_000_000), Err(ClusterError::NoServers));
        assert_eq!(Cluster::new(vec![class(10_001)], 1_000_000), Err(ClusterError::TooManyServers));
        assert_eq!(Cluster::new(vec![class(1)], 1), Err(ClusterError::Rate));
    }
}
