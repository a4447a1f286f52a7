//! What holds for the sum over all servers, besides shares. Each kind is counted for itself, see
//! [`Totals`](crate::Totals).

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
    /// The most that an application gets, even while the storage is idle.
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
