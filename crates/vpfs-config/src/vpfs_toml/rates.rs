//! The rates that applications and shares may have at most, and are promised.

use std::time::Duration;

use vpfs_core::{Bytes, Minimum, Scope, Target};

use crate::schema::table::Table;
use crate::schema::units::{Rate, Size, decimal, parse_rate, quote};

/// A limit on a rate, which holds even if the storage is idle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cap {
    /// In the long run; never 0.
    pub rate: Rate,
    /// Amount at once after a pause; never 0.
    pub burst: Bytes,
    /// On each server, or as the sum over all.
    pub scope: Scope,
}

impl Cap {
    pub(super) fn policy(self) -> Option<vpfs_core::Cap> {
        let Self { rate, burst, scope } = self;
        let at_each = vpfs_core::Cap::new(rate.0, burst)?;
        Some(if scope == Scope::Total { at_each.over_all_servers() } else { at_each })
    }
}

/// The throughput of one server, and the number of servers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Capacity {
    pub(crate) server: Rate,
    pub(crate) servers: usize,
}

impl Capacity {
    pub(super) fn of(self, scope: Scope) -> Rate {
        match scope {
            Scope::Server => self.server,
            Scope::Total => Rate(self.server.0.saturating_mul(self.servers as u64)),
        }
    }
}

/// Which one of two keys for the same rate the file has.
fn scoped(table: &Table<'_>, [total, server]: [&'static str; 2]) -> (&'static str, Scope) {
    if table.has(total) && table.has(server) {
        let problem = format!("cannot be together with {total}, which is for the sum over all servers; remove one");
        table.refuse(server, problem);
    }
    if table.has(server) { (server, Scope::Server) } else { (total, Scope::Total) }
}

pub(super) fn read_cap(table: &Table<'_>, capacity: Option<Capacity>) -> Option<Cap> {
    let (key, scope) = scoped(table, ["cap", "server_cap"]);
    if table.has("burst") && !table.has(key) {
        table.refuse("burst", "has no effect without cap or server_cap; add one or remove it");
    }
    let found = table.text(key)?;
    let burst = Bytes(table.number_or_default("burst"));
    match cap_rate(found, capacity.map(|capacity| capacity.of(scope))) {
        Ok(rate) => {
            table.set(key, rate.to_string());
            Some(Cap { rate, burst, scope })
        }
        Err(message) => {
            table.refuse(key, message);
            None
        }
    }
}

pub(super) fn read_target(table: &Table<'_>) -> Option<Target> {
    let deadline = "deadline";
    let (key, scope) = scoped(table, ["target_rate", "server_target_rate"]);
    if table.has(key) && !table.has(deadline) {
        table.refuse(key, "has no effect without deadline; add it or remove this");
    }
    if table.has(deadline) && !table.has(key) {
        table.refuse(deadline, "has no effect without target_rate or server_target_rate; add one or remove this");
    }
    let rate = table.number(key).map(Bytes);
    Some(Target { deadline: table.number(deadline).map(Duration::from_nanos)?, rate: rate?, scope })
}

pub(super) fn read_minimum(table: &Table<'_>, cap: Option<vpfs_core::Cap>) -> Option<Minimum> {
    let (key, scope) = scoped(table, ["min_rate", "server_min_rate"]);
    let rate = table.number(key).map(Bytes)?;
    if cap.is_some_and(|cap| cap.scope() == scope && cap.bytes_per_second() < rate.0) {
        table.refuse(key, "is more than its cap; lower it, or raise the cap");
    }
    Some(Minimum { rate, scope })
}

impl Table<'_> {
    /// What the table promises with `min_rate` or `server_min_rate`, to an application with this cap.
    pub fn minimum(&self, cap: Option<vpfs_core::Cap>) -> Option<Minimum> {
        read_minimum(self, cap)
    }

    /// What it promises with `target_rate` or `server_target_rate`, and `deadline`.
    pub fn target(&self) -> Option<Target> {
        read_target(self)
    }
}

fn cap_rate(text: &str, capacity: Option<Rate>) -> Result<Rate, String> {
    let rate = match text.trim().strip_suffix('%') {
        None => parse_rate(text).map_err(|error| error.to_string())?,
        Some(percent) => {
            let Some((digits, places)) = decimal(percent.trim()).filter(|(_, places)| *places <= 9) else {
                return Err(format!("{} is not a share; write for example \"25%\"", quote(text)));
            };
            let whole = 100 * 10_u128.pow(places);
            if digits > whole {
                return Err(format!("{} is more than 100%", quote(text)));
            }
            let Some(capacity) = capacity else {
                return Err("a percentage needs the capacity; set capacity in [scheduler], or write a rate".into());
            };
            // No overflow: 64 bits of capacity times 37 bits of share.
            Rate(u64::try_from(u128::from(capacity.0) * digits / whole).unwrap_or(capacity.0))
        }
    };
    if rate.0 == 0 {
        return Err("a cap of 0 would block all requests; remove the cap or raise it".into());
    }
    Ok(rate)
}

/// A cap as `vpfs` prints it.
impl std::fmt::Display for Cap {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let each = if self.scope == Scope::Server { " on each server" } else { "" };
        write!(f, "{}{each} (burst {})", self.rate, Size(self.burst))
    }
}
