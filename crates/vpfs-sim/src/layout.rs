//! How an application's files are distributed over servers, and which servers an access touches.

use std::ops::Range;

use vpfs_core::Bytes;
use vpfs_core::hash::mix;
use vpfs_core::stripe::{Distribution, Stripe, StripeError, VarStrip, elsewhere};

/// How an application's files are striped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Regions with stripes of their own [HARL §III-F]; if there are any, the other fields are not used.
    pub regions: Vec<Region>,
    /// The rule by which files are divided.
    pub distribution: Distribution,
    /// Servers of its files, by number; empty: all that hold data.
    pub servers: Vec<u32>,
    /// The server of the list on which a file starts.
    pub start: Start,
}

/// A region of each file, which ends where the next one starts; the last one has no end. Its bytes are a file of their
/// own, striped from its start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Region {
    /// Its first byte in the file; 0 for the first region.
    pub start: u64,
    /// A round of its stripes: numbers of servers and bytes, in the order of the file.
    pub stripes: Vec<(u32, u64)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum LayoutError {
    #[error("there is no server {0} that holds data")]
    NoServer(u32),
    #[error("the first region of its files starts at byte {0}; it must start at 0")]
    FirstRegion(u64),
    #[error("the region of its files at byte {0} does not start after the one before it; put them in order")]
    RegionOrder(u64),
    #[error(transparent)]
    Stripe(#[from] StripeError),
}

impl LayoutError {
    pub(crate) fn key(self, layout: &Layout) -> &'static str {
        match self {
            _ if !layout.regions.is_empty() => "region",
            Self::NoServer(_) => "servers",
            _ => "distribution",
        }
    }
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
        Self {
            regions: Vec::new(),
            distribution: Distribution::SimpleStripe { strip: 64 << 10 },
            servers: Vec::new(),
            start: Start::ByFile,
        }
    }
}

impl Layout {
    /// The default with another strip size.
    pub fn striped(strip: u64) -> Self {
        Self { distribution: Distribution::SimpleStripe { strip }, ..Self::default() }
    }

    /// Regions with stripes of their own.
    pub fn by_region(regions: impl IntoIterator<Item = Region>) -> Self {
        Self { regions: regions.into_iter().collect(), ..Self::default() }
    }

    /// The same layout over these servers only.
    pub fn over(self, servers: impl IntoIterator<Item = u32>) -> Self {
        Self { servers: servers.into_iter().collect(), ..self }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Placement {
    /// In order of offset; at least one, the first at 0.
    regions: Vec<Striped>,
}

#[derive(Clone, Debug)]
struct Striped {
    begin: u64,
    stripe: Stripe,
    servers: Vec<u32>,
    start: Start,
    /// The number of its first datafile among those of all regions.
    datafiles: u32,
}

/// One server's part of an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Share {
    /// Its number among all datafiles of the file.
    pub(crate) datafile: u32,
    pub(crate) server: u32,
    pub(crate) offset: u64,
    pub(crate) bytes: u64,
    /// The cost of the other parts, if every server can derive it.
    pub(crate) elsewhere: Option<Bytes>,
}

impl Placement {
    pub(crate) fn new(layout: &Layout, data_servers: &[u32]) -> Result<Self, LayoutError> {
        let named = layout.servers.iter().copied();
        let striped_over = layout.regions.iter().flat_map(|region| region.stripes.iter().map(|(server, _)| *server));
        let unknown = |server: &u32| data_servers.binary_search(server).is_err();
        if let Some(server) = named.chain(striped_over).find(unknown) {
            return Err(LayoutError::NoServer(server));
        }
        if layout.regions.is_empty() {
            let servers = if layout.servers.is_empty() { data_servers.to_vec() } else { layout.servers.clone() };
            let whole = Striped::new(0, layout.distribution.clone(), servers, layout.start, 0)?;
            return Ok(Self { regions: vec![whole] });
        }
        let mut regions: Vec<Striped> = Vec::new();
        for region in &layout.regions {
            match regions.last() {
                None if region.start > 0 => return Err(LayoutError::FirstRegion(region.start)),
                Some(last) if region.start <= last.begin => return Err(LayoutError::RegionOrder(region.start)),
                _ => {}
            }
            let datafiles = regions.last().map_or(0, |last| last.datafiles + last.count());
            regions.push(Striped::of_region(region, datafiles)?);
        }
        Ok(Self { regions })
    }

    /// All servers of a file, in the order of its datafiles; each once.
    pub(crate) fn servers(&self, file: u64) -> Vec<u32> {
        let mut servers: Vec<u32> = Vec::new();
        for region in &self.regions {
            let new = region.servers(file).filter(|server| !servers.contains(server));
            servers.extend(new.collect::<Vec<_>>());
        }
        servers
    }

    /// The part of each server in `range` of a file, by region and datafile number; only parts that are not empty.
    /// O(servers touched + log regions).
    pub(crate) fn split(&self, file: u64, range: &Range<u64>, shares: &mut Vec<Share>) {
        shares.clear();
        let first = self.regions.partition_point(|region| region.begin <= range.start) - 1;
        for (index, region) in self.regions.iter().enumerate().skip(first) {
            let end = self.regions.get(index + 1).map_or(u64::MAX, |next| next.begin).min(range.end);
            let begin = range.start.max(region.begin);
            if begin >= end {
                break;
            }
            region.split(file, &(begin - region.begin..end - region.begin), shares);
        }
        let [region] = &self.regions[..] else { return };
        region.tell_elsewhere(range, shares);
    }
}

impl Striped {
    fn new(
        begin: u64,
        distribution: Distribution,
        servers: Vec<u32>,
        start: Start,
        datafiles: u32,
    ) -> Result<Self, StripeError> {
        let count = u32::try_from(servers.len()).unwrap_or(u32::MAX);
        Ok(Self { begin, stripe: Stripe::new(distribution, count)?, servers, start, datafiles })
    }

    fn of_region(region: &Region, datafiles: u32) -> Result<Self, StripeError> {
        let mut servers: Vec<u32> = region.stripes.iter().map(|(server, _)| *server).collect();
        servers.sort_unstable();
        servers.dedup();
        let number = |server| u32::try_from(servers.partition_point(|other| *other < server)).unwrap_or(u32::MAX);
        let strips = VarStrip::new(region.stripes.iter().map(|&(server, bytes)| (number(server), bytes)))?;
        Self::new(region.start, Distribution::VarStrip(strips), servers, Start::First, datafiles)
    }

    fn count(&self) -> u32 {
        u32::try_from(self.servers.len()).unwrap_or(u32::MAX)
    }

    fn servers(&self, file: u64) -> impl Iterator<Item = u32> {
        let count = self.servers.len();
        let first = self.first(file);
        (0..count).map(move |datafile| self.servers[(first + datafile) % count])
    }

    fn split(&self, file: u64, range: &Range<u64>, shares: &mut Vec<Share>) {
        let (count, first) = (self.servers.len(), self.first(file));
        let mut add = |datafile: u32| {
            let bytes = self.stripe.bytes_in(datafile, range);
            if bytes > 0 {
                let server = self.servers[(first + datafile as usize) % count];
                let offset = self.stripe.bytes_before(datafile, range.start);
                shares.push(Share { datafile: self.datafiles + datafile, server, offset, bytes, elsewhere: None });
            }
        };
        match self.stripe.round() {
            Some(round) if range.end - range.start < round => {
                let mut touched = self.walk(range);
                touched.sort_unstable();
                touched.dedup();
                touched.into_iter().for_each(add);
            }
            Some(_) => (0..self.count()).for_each(add),
            None => add(0),
        }
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
    use super::*;

    const DATA_SERVERS: [u32; 8] = [0, 1, 2, 3, 4, 5, 6, 7];

    /// The bytes of a range on each server, counted byte by byte.
    fn slowly(placement: &Placement, file: u64, range: Range<u64>) -> Vec<u64> {
        let mut bytes = vec![0; 8];
        for at in range {
            let region = placement.regions.iter().rfind(|region| region.begin <= at).unwrap();
            let servers: Vec<u32> = region.servers(file).collect();
            bytes[servers[region.stripe.locate(at - region.begin).0 as usize] as usize] += 1;
        }
        bytes
    }

    fn assert_splits(placement: &Placement) {
        let mut shares = Vec::new();
        for (file, begin, len) in [(0, 0, 1), (1, 5, 7), (2, 2, 40), (3, 1, 200), (9, 33, 12)] {
            placement.split(file, &(begin..begin + len), &mut shares);
            let mut bytes = vec![0; 8];
            shares.iter().for_each(|share| bytes[share.server as usize] += share.bytes);
            assert_eq!(bytes, slowly(placement, file, begin..begin + len), "{placement:?} {begin} {len}");
            assert!(shares.iter().all(|share| share.bytes > 0));
        }
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
                let servers = vec![6, 2, 4, 7, 0];
                let layout = Layout { distribution: distribution.clone(), servers, start, ..Layout::default() };
                assert_splits(&Placement::new(&layout, &DATA_SERVERS).unwrap());
            }
        }
    }

    #[test]
    fn regions_split_as_byte_by_byte() {
        let region = |start, stripes: &[(u32, u64)]| Region { start, stripes: stripes.to_vec() };
        let regions = [
            region(0, &[(6, 2), (2, 2), (4, 5)]),
            region(9, &[(7, 3)]),
            region(35, &[(0, 1), (6, 4), (0, 2)]),
            region(60, &[(1, 7), (2, 7)]),
        ];
        let placement = Placement::new(&Layout::by_region(regions), &DATA_SERVERS).unwrap();
        assert_splits(&placement);
        assert_eq!(placement.servers(0), [2, 4, 6, 7, 0, 1]);
        let mut shares = Vec::new();
        placement.split(0, &(8..36), &mut shares);
        let parts: Vec<_> =
            shares.iter().map(|share| (share.datafile, share.server, share.offset, share.bytes)).collect();
        assert_eq!(parts, [(1, 4, 4, 1), (3, 7, 0, 26), (4, 0, 0, 1)]);
    }

    #[test]
    fn impossible_regions_are_refused() {
        let error = |list: &[(u64, u32, u64)]| {
            let region = |&(start, server, bytes): &(u64, u32, u64)| Region { start, stripes: vec![(server, bytes)] };
            Placement::new(&Layout::by_region(list.iter().map(region)), &DATA_SERVERS).unwrap_err()
        };
        assert_eq!(error(&[(1, 0, 4)]), LayoutError::FirstRegion(1));
        assert_eq!(error(&[(0, 0, 4), (9, 1, 4), (9, 1, 5)]), LayoutError::RegionOrder(9));
        assert_eq!(error(&[(0, 8, 4)]), LayoutError::NoServer(8));
        assert_eq!(error(&[(0, 0, 0)]), LayoutError::Stripe(StripeError::Zero));
    }
}
