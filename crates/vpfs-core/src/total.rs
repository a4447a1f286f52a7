//! What holds for the sum over all servers, besides shares.
//!
//! The schedulers of all servers tell each other what they gave an application of such an amount:
//! [`Scheduler::poll_total`](crate::Scheduler::poll_total) and
//! [`Scheduler::handle_total`](crate::Scheduler::handle_total). Each kind is counted for itself.
//!
//! Where news takes too long for that, in clusters of several groups, the driver sets the part of each total that a
//! server may give, by [`Scheduler::set_part`](crate::Scheduler::set_part), from what all servers say that is wanted
//! there.

/// For what an amount is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scope {
    /// Each server separately.
    #[default]
    Server,
    /// The sum over all servers.
    Total,
}

/// A kind of amount that can be for the sum over all servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TotalKind {
    /// The most that an application gets, see [`crate::cap`].
    Cap,
    /// The rate within which its requests keep their deadline, see [`crate::two_level`].
    Target,
    /// The least that an application gets, under [`crate::isolation`].
    Minimum,
}

impl TotalKind {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Cap, Self::Target, Self::Minimum];
}

/// How many of the servers that share totals are known to be reachable, this one included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reach {
    /// Servers that answer, from 1 to `servers`.
    pub reachable: u32,
    /// All servers, at least 1.
    pub servers: u32,
}

impl Reach {
    /// A server that is alone.
    pub const ALONE: Self = Self { reachable: 1, servers: 1 };

    pub(crate) fn servers(self) -> u64 {
        self.servers.max(1).into()
    }

    /// `rate` in the proportion of what can be reached.
    pub(crate) fn part_of(self, rate: u64) -> u64 {
        let servers = self.servers();
        let part = u128::from(rate) * u128::from(self.reachable.clamp(1, self.servers.max(1))) / u128::from(servers);
        u64::try_from(part).unwrap_or(rate)
    }
}
