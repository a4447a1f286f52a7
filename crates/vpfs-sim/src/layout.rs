//! How an application's files are distributed over servers, and which servers an access touches.

use std::ops::Range;

use vpfs_core::Bytes;
use vpfs_core::hash::mix;
use vpfs_core::stripe::{Distribution, Stripe, StripeError, elsewhere};

/// How an application's files are striped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// The rule by which files are divided.
    pub distribution: Distribution,
    /// Servers of its files, by number; empty: all that hold data.
    pub servers: Vec<u32>,
    /// The server of the list on which a file starts.
    pub start: Start,
}

/// The server of the list on which a file starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// On the first one.
    First,
    /// One chosen by file; OrangeFS chooses at random, here the seed decides.
    ByFile,
}

impl Default for Layout {
    /// OrangeFS's default: 64 KiB strips over all servers.
    fn default() -> Self {
        Self { distribution: Distribution::SimpleStripe { strip: 64 << 10 }, servers: Vec::new(), start: Start::ByFile }
    }
}

impl Layout {
    /// The default with another strip size.
    pub fn striped(strip: u64) -> Self {
        Self { distribution: Distribution::SimpleStripe { strip }, ..Self::default() }
    }

    /// The same layout over these servers only.
    pub fn over(self, servers: impl IntoIterator<Item = u32>) -> Self {
        Self { servers: servers.into_iter().collect(), ..self }
    }
}

/// A layout over known servers.
#[derive(Clone, Debug)]
pub(crate) struct Placement {
    pub(crate) stripe: Stripe,
    servers: Vec<u32>,
    start: Start,
}

/// One server's part of an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Share {
    /// Its number in the file's own list.
    pub(crate) datafile: u32,
    /// Its number in the cluster.
    pub(crate) server: u32,
    /// First byte in the datafile.
    pub(crate) offset: u64,
    pub(crate) bytes: u64,
    /// The cost of the other parts, if every server can derive it.
    pub(crate) elsewhere: Option<Bytes>,
}

impl Placement {
    pub(crate) fn new(layout: &Layout, data_servers: &[u32]) -> Result<Self, StripeError> {
        let servers = if layout.servers.is_empty() { data_servers.to_vec() } else { layout.servers.clone() };
        let count = u32::try_from(servers.len()).unwrap_or(u32::MAX);
        Ok(Self { stripe: Stripe::new(layout.distribution.clone(), count)?, servers, start: layout.start })
    }

    /// All servers of a file, in the order of its datafiles.
    pub(crate) fn servers(&self, file: u64) -> impl Iterator<Item = u32> {
        let count = self.servers.len();
        let first = self.first(file);
        (0..count).map(move |datafile| self.servers[(first + datafile) % count])
    }

    /// The part of each server in `range` of a file, by datafile number; only parts that are not empty. O(servers
    /// touched).
    pub(crate) fn split(&self, file: u64, range: &Range<u64>, shares: &mut Vec<Share>) {
        shares.clear();
        let (count, first) = (self.servers.len(), self.first(file));
        let mut add = |datafile: u32| {
            let bytes = self.stripe.bytes_in(datafile, range);
            if bytes > 0 {
                let server = self.servers[(first + datafile as usize) % count];
                let offset = self.stripe.bytes_before(datafile, range.start);
                shares.push(Share { datafile, server, offset, bytes, elsewhere: None });
            }
        };
        match self.stripe.round() {
            Some(round) if range.end - range.start < round => {
                let mut touched = self.walk(range);
                touched.sort_unstable();
                touched.dedup();
                touched.into_iter().for_each(add);
            }
            Some(_) => (0..u32::try_from(count).unwrap_or(u32::MAX)).for_each(add),
            None => add(0),
        }
        self.tell_elsewhere(range, shares);
    }

    /// Either all servers can derive the cost of the other parts, or none.
    fn tell_elsewhere(&self, range: &Range<u64>, shares: &mut [Share]) {
        let told = shares.first().and_then(|share| elsewhere(&self.stripe, share.datafile, range));
        if told.is_some() {
            let total = range.end - range.start;
            shares.iter_mut().for_each(|share| share.elsewhere = Some(Bytes(total - share.bytes)));
        }
    }

    /// The datafiles of a range shorter than a round, strip by strip.
    fn walk(&self, range: &Range<u64>) -> Vec<u32> {
        let (mut at, mut touched) = (range.start, Vec::new());
        while at < range.end {
            let (datafile, _) = self.stripe.locate(at);
            touched.push(datafile);
            at += self.stripe.pieces(datafile, at..range.end).next().map_or(1, |piece| piece.len);
        }
        touched
    }

    fn first(&self, file: u64) -> usize {
        match self.start {
            Start::First => 0,
            Start::ByFile => usize::try_from(mix(file) % self.servers.len() as u64).expect("below a usize"),
        }
    }
}

#[cfg(test)]
mod tests {
    use vpfs_core::stripe::VarStrip;

    use super::*;

    /// The bytes of a range on each server, counted byte by byte.
    fn slowly(placement: &Placement, file: u64, range: Range<u64>) -> Vec<u64> {
        let servers: Vec<u32> = placement.servers(file).collect();
        let mut bytes = vec![0; 8];
        range.for_each(|at| bytes[servers[placement.stripe.locate(at).0 as usize] as usize] += 1);
        bytes
    }

    #[test]
    fn every_distribution_splits_as_byte_by_byte() {
        let strips = VarStrip::parse("0:3;2:5;1:1;2:2").unwrap();
        let distributions = [
            Distribution::SimpleStripe { strip: 3 },
            Distribution::Basic,
            Distribution::VarStrip(strips),
            Distribution::TwoDStripe { groups: 2, strip: 2, factor: 3 },
        ];
        for distribution in distributions {
            for start in [Start::First, Start::ByFile] {
                let layout = Layout { distribution: distribution.clone(), servers: vec![6, 2, 4, 7, 0], start };
                let placement = Placement::new(&layout, &[]).unwrap();
                let mut shares = Vec::new();
                for (file, begin, len) in [(0, 0, 1), (1, 5, 7), (2, 2, 40), (3, 1, 200), (9, 33, 12)] {
                    placement.split(file, &(begin..begin + len), &mut shares);
                    let mut bytes = vec![0; 8];
                    shares.iter().for_each(|share| bytes[share.server as usize] += share.bytes);
                    assert_eq!(bytes, slowly(&placement, file, begin..begin + len), "{distribution:?} {begin} {len}");
                    assert!(shares.iter().all(|share| share.bytes > 0));
                }
            }
        }
    }
}
