//! Whether all promises together can be kept.

use std::collections::HashMap;

use vpfs_core::{Minimum, Scope};

use super::apps::App;
use super::rates::Capacity;
use super::shares::{self, Share};
use crate::schema::table::Table;
use crate::schema::units::Rate;

/// Refuses promises that cannot be kept: in a share, beyond what is promised to it or its cap; all together, beyond
/// what the servers have.
pub(crate) fn check(
    root: &Table<'_>,
    shares: (&[Share], &[Table<'_>]),
    apps: &[App],
    servers: usize,
    capacity: Option<Capacity>,
) {
    let in_shares = apps.iter().filter_map(|app| Some((app.share.as_deref(), app.minimum?)));
    let minima = check_in_shares(shares, in_shares, servers);
    let Some(capacity) = capacity else { return };
    let targets = apps.iter().filter_map(|app| app.target).map(|target| ("target_rate", target.scope, target.rate.0));
    let promises = minima.iter().map(|minimum| ("min_rate", minimum.scope, minimum.rate.0));
    let promises: Vec<_> = promises.chain(targets).collect();
    for (key, scope) in
        ["min_rate", "target_rate"].into_iter().flat_map(|key| [Scope::Server, Scope::Total].map(|scope| (key, scope)))
    {
        let rates = promises.iter().filter(|promise| (promise.0, promise.1) == (key, scope)).map(|promise| promise.2);
        let (sum, most) = (Rate(rates.fold(0, u64::saturating_add)), capacity.of(scope));
        if sum.0 > most.0 {
            let of = if scope == Scope::Server { "each server has" } else { "all servers have" };
            let message = format!(
                "the {} of all applications together is {sum}, but {of} {most} by scheduler.capacity; lower some",
                key_for(key, scope)
            );
            root.cx.refuse(0, "app", message);
        }
    }
}

impl Table<'_> {
    /// The list `share` of the file, for another file than vpfs.toml: one with so many servers and applications with
    /// these minima, each with the path of the share that it is in.
    pub fn shares<'b>(
        &self,
        minima: impl IntoIterator<Item = (Option<&'b str>, Minimum)>,
        servers: usize,
    ) -> Vec<Share> {
        let (shares, tables) = shares::read(self, None);
        check_in_shares((&shares, &tables), minima, servers);
        shares
    }
}

/// Refuses minima in a share, by its path, beyond what is promised to it or its cap; returns those that are in none
/// with a minimum.
fn check_in_shares<'b>(
    (shares, tables): (&[Share], &[Table<'_>]),
    apps: impl IntoIterator<Item = (Option<&'b str>, Minimum)>,
    servers: usize,
) -> Vec<Minimum> {
    let mut minima = Minima { shares: shares.iter().map(|share| (&*share.path, share)).collect(), ..Minima::default() };
    for (share, minimum) in apps {
        minima.add(share, minimum);
    }
    for share in shares {
        let outside = share.path.rsplit_once('/').map(|(outside, _)| outside);
        share.policy.minimum.iter().for_each(|minimum| minima.add(outside, *minimum));
    }
    for (share, table) in shares.iter().zip(tables) {
        let Some(inside) = minima.inside.get(&*share.path) else { continue };
        let cap = share.policy.cap.map(|cap| ("cap", cap.scope(), cap.bytes_per_second()));
        let minimum = share.policy.minimum.map(|minimum| ("min_rate", minimum.scope, minimum.rate.0));
        let exceeded =
            [minimum, cap].into_iter().flatten().find(|(_, scope, rate)| sum(inside, *scope, servers) > *rate);
        if let Some((key, scope, _)) = exceeded {
            let (key, sum) = (key_for(key, scope), Rate(sum(inside, scope, servers)));
            table.refuse(
                &key,
                format!("is less than what has minima in it needs together, {sum}; raise it, or lower those"),
            );
        }
    }
    minima.at_the_top
}

/// What is promised by its place in the tree of shares.
#[derive(Default)]
struct Minima<'a> {
    shares: HashMap<&'a str, &'a Share>,
    /// By path of a share: the minima of what is in it, but in no share in it with a minimum.
    inside: HashMap<&'a str, Vec<Minimum>>,
    at_the_top: Vec<Minimum>,
}

impl<'a> Minima<'a> {
    fn add(&mut self, mut share: Option<&'a str>, minimum: Minimum) {
        while let Some(path) = share {
            self.inside.entry(path).or_default().push(minimum);
            if self.shares.get(path).is_some_and(|share| share.policy.minimum.is_some()) {
                return;
            }
            share = path.rsplit_once('/').map(|(outside, _)| outside);
        }
        self.at_the_top.push(minimum);
    }
}

/// What minima may need at one server, or at all of these. Any server may have all of what is for all.
fn sum(minima: &[Minimum], scope: Scope, servers: usize) -> u64 {
    let need = |minimum: &Minimum| match (minimum.scope, scope) {
        (Scope::Server, Scope::Total) => minimum.rate.0.saturating_mul(servers as u64),
        _ => minimum.rate.0,
    };
    minima.iter().map(need).fold(0, u64::saturating_add)
}

fn key_for(key: &str, scope: Scope) -> String {
    if scope == Scope::Server { format!("server_{key}") } else { key.to_owned() }
}
