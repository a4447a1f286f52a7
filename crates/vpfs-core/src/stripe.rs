//! Distributions of a file over servers: which bytes lie where, counted in closed form.
//!
//! All four OrangeFS distributions repeat with a *round* and give every server its bytes in file order, without holes.
//! So one count answers nearly every question: [`Stripe::bytes_before`], the number of bytes below a logical offset
//! that a server holds. It is also the physical offset at which that server continues, and the difference of two counts
//! is the server's part of a range, however long the range is.
//!
//! A *server* here is an index in the file's own list of datafiles, not a server of the cluster.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::ops::Range;

use crate::units::Bytes;

/// The rule by which a file is cut into strips.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the comments of the variants explain the fields")]
pub enum Distribution {
    /// Strips of so many bytes, round robin over all servers.
    SimpleStripe { strip: u64 },
    /// The whole file on server 0.
    Basic,
    /// An explicit list of strips, repeated.
    VarStrip(VarStrip),
    /// Servers in groups; if there are more than servers, each server is its own group. Each group in turn takes
    /// `factor` strips of so many bytes per server, round robin inside the group.
    TwoDStripe { groups: u32, strip: u64, factor: u32 },
}

/// Why a distribution cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StripeError {
    /// A strip size, group count, factor or server count of zero.
    #[error("a distribution parameter is zero")]
    Zero,
    /// One round of the distribution exceeds 64 bits.
    #[error("a round of the distribution exceeds 64 bits")]
    TooLarge,
    /// The text of a variable strip distribution is not `server:size;...`.
    #[error("variable strips are not `server:size[KMG];...`")]
    Syntax,
}

/// The parsed strips of a variable strip distribution.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VarStrip {
    /// By server, then in file order, so that a server's strips can be found by binary search.
    strips: Box<[VarStripEntry]>,
    round: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct VarStripEntry {
    server: u32,
    /// Offset in the round.
    start: u64,
    size: u64,
    /// Bytes of the same server before this strip in a round.
    before: u64,
}

impl VarStrip {
    /// Parses `server:size;server:size;...`; a size may end in K, M or G (powers of 1024, either case), the
    /// list in a semicolon.
    pub fn parse(text: &str) -> Result<Self, StripeError> {
        let text = text.trim();
        let entries = text.strip_suffix(';').unwrap_or(text).split(';').map(|entry| {
            let (server, size) = entry.split_once(':').ok_or(StripeError::Syntax)?;
            let server = server.trim().parse().map_err(|_| StripeError::Syntax)?;
            Ok((server, parse_size(size.trim())?))
        });
        Self::new(entries.collect::<Result<Vec<_>, StripeError>>()?)
    }

    /// The strips of a round in file order: a server's number and the bytes of its strip. A server may have several.
    ///
    /// # Errors
    /// If there are none, one has no bytes, or the round exceeds 64 bits.
    pub fn new(list: impl IntoIterator<Item = (u32, u64)>) -> Result<Self, StripeError> {
        let mut strips = Vec::new();
        let mut round = 0u64;
        for (server, size) in list {
            strips.push(VarStripEntry { server, start: round, size, before: 0 });
            round = round.checked_add(size).ok_or(StripeError::TooLarge)?;
        }
        if strips.is_empty() || strips.iter().any(|strip| strip.size == 0) {
            return Err(StripeError::Zero);
        }
        strips.sort_unstable();
        for at in 1..strips.len() {
            let previous = strips[at - 1];
            if previous.server == strips[at].server {
                strips[at].before = previous.before + previous.size;
            }
        }
        Ok(Self { strips: strips.into(), round })
    }

    /// The server's strips in file order.
    fn of(&self, server: u32) -> &[VarStripEntry] {
        let from = self.strips.partition_point(|strip| strip.server < server);
        let to = self.strips.partition_point(|strip| strip.server <= server);
        &self.strips[from..to]
    }

    /// Bytes of the server in a round.
    fn own(&self, server: u32) -> u64 {
        self.of(server).last().map_or(0, |last| last.before + last.size)
    }

    /// The server's last strip that starts at or before an offset in the round.
    fn strip_before(&self, server: u32, in_round: u64) -> Option<&VarStripEntry> {
        let own = self.of(server);
        own[..own.partition_point(|strip| strip.start <= in_round)].last()
    }

    fn bytes_before(&self, server: u32, logical: u64) -> u64 {
        let rest = logical % self.round;
        let in_round =
            self.strip_before(server, rest).map_or(0, |strip| strip.before + (rest - strip.start).min(strip.size));
        (logical / self.round) * self.own(server) + in_round
    }

    fn logical_of(&self, server: u32, physical: u64) -> Option<u64> {
        let own = self.own(server);
        let rest = physical.checked_rem(own)?;
        let strips = self.of(server);
        let strip = strips[..strips.partition_point(|strip| strip.before <= rest)].last()?;
        (physical / own).checked_mul(self.round)?.checked_add(strip.start + (rest - strip.before))
    }
}

fn parse_size(text: &str) -> Result<u64, StripeError> {
    let shift = match text.as_bytes().last() {
        Some(b'k' | b'K') => 10,
        Some(b'm' | b'M') => 20,
        Some(b'g' | b'G') => 30,
        _ => 0,
    };
    let digits = if shift == 0 { text } else { &text[..text.len() - 1] };
    let count: u64 = digits.parse().map_err(|_| StripeError::Syntax)?;
    let size = count.checked_mul(1 << shift).ok_or(StripeError::TooLarge)?;
    if size == 0 { Err(StripeError::Zero) } else { Ok(size) }
}

/// A file's distribution over a known number of servers; every method is in closed form, O(1) or, for variable strips,
/// O(log strips) unless it says otherwise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stripe {
    rule: Rule,
}

/// [`Distribution`] with precomputed values.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Rule {
    /// Also used for a simple stripe over one server.
    Whole,
    Simple {
        strip: u64,
        servers: u32,
        round: u64,
    },
    Var(VarStrip),
    TwoD(TwoD),
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct TwoD {
    strip: u64,
    factor: u64,
    servers: u64,
    groups: u64,
    /// Servers in each group but the last, which takes the rest.
    group_size: u64,
    round: u64,
}

/// The place of one server in a two-dimensional stripe.
struct Seat {
    /// Offset of its group's first byte in a round.
    group_start: u64,
    /// Servers in its group.
    group_size: u64,
    /// Its place in the group.
    index: u64,
}

impl TwoD {
    fn seat(&self, server: u32) -> Option<Seat> {
        let server = u64::from(server);
        if server >= self.servers {
            return None;
        }
        let group = (server / self.group_size).min(self.groups - 1);
        let first = group * self.group_size;
        let group_size = if group + 1 == self.groups { self.servers - first } else { self.group_size };
        Some(Seat { group_start: first * self.factor * self.strip, group_size, index: server - first })
    }
}

/// Bytes that are contiguous both in the file and on the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Offset of the first byte in the file.
    pub logical: u64,
    /// Offset of the first byte in the server's datafile.
    pub physical: u64,
    /// Number of bytes, never zero.
    pub len: u64,
}

impl Stripe {
    /// Checks the parameters of `distribution` over `servers` servers.
    pub fn new(distribution: Distribution, servers: u32) -> Result<Self, StripeError> {
        if servers == 0 {
            return Err(StripeError::Zero);
        }
        let rule = match distribution {
            Distribution::Basic => Rule::Whole,
            Distribution::SimpleStripe { strip: 0 } => return Err(StripeError::Zero),
            Distribution::SimpleStripe { .. } if servers == 1 => Rule::Whole,
            Distribution::SimpleStripe { strip } => {
                let round = strip.checked_mul(u64::from(servers)).ok_or(StripeError::TooLarge)?;
                Rule::Simple { strip, servers, round }
            }
            Distribution::VarStrip(strips) => Rule::Var(strips),
            Distribution::TwoDStripe { groups, strip, factor } => {
                if groups == 0 || strip == 0 || factor == 0 {
                    return Err(StripeError::Zero);
                }
                let groups = groups.min(servers);
                let servers = u64::from(servers);
                let factor = u64::from(factor);
                let round = strip.checked_mul(servers).and_then(|row| row.checked_mul(factor));
                let round = round.ok_or(StripeError::TooLarge)?;
                let groups = u64::from(groups);
                Rule::TwoD(TwoD { strip, factor, servers, groups, group_size: servers / groups, round })
            }
        };
        Ok(Self { rule })
    }

    /// Bytes of memory that it takes up. O(1).
    pub fn memory(&self) -> usize {
        let strips = match &self.rule {
            Rule::Var(var) => size_of_val(&*var.strips),
            Rule::Whole | Rule::Simple { .. } | Rule::TwoD(_) => 0,
        };
        size_of::<Self>() + strips
    }

    /// Logical bytes after which the distribution repeats; `None` if it uses one server only.
    pub fn round(&self) -> Option<u64> {
        match &self.rule {
            Rule::Whole => None,
            Rule::Simple { round, .. } => Some(*round),
            Rule::Var(var) => Some(var.round),
            Rule::TwoD(two) => Some(two.round),
        }
    }

    /// How many of the first `logical` bytes of the file lie on `server`; also the physical offset of its first byte at
    /// or after `logical`. Zero for a server outside the distribution.
    pub fn bytes_before(&self, server: u32, logical: u64) -> u64 {
        match &self.rule {
            Rule::Whole if server == 0 => logical,
            Rule::Whole => 0,
            Rule::Simple { strip, servers, round } => {
                if server >= *servers {
                    return 0;
                }
                let start = u64::from(server) * strip;
                (logical / round) * strip + (logical % round).saturating_sub(start).min(*strip)
            }
            Rule::Var(var) => var.bytes_before(server, logical),
            Rule::TwoD(two) => {
                let Some(seat) = two.seat(server) else { return 0 };
                let row = seat.group_size * two.strip;
                let in_group = (logical % two.round).saturating_sub(seat.group_start).min(row * two.factor);
                let in_row = (in_group % row).saturating_sub(seat.index * two.strip).min(two.strip);
                (logical / two.round) * two.factor * two.strip + (in_group / row) * two.strip + in_row
            }
        }
    }

    /// Bytes of the logical `range` that lie on `server`.
    pub fn bytes_in(&self, server: u32, range: &Range<u64>) -> u64 {
        if range.is_empty() {
            return 0;
        }
        self.bytes_before(server, range.end) - self.bytes_before(server, range.start)
    }

    /// Whether every server that holds bytes of the file holds some of the logical `range`. O(1) for a range of a round
    /// or more and for simple stripes, otherwise O(servers), times O(log strips) for [`VarStrip`].
    pub fn reaches_all(&self, range: &Range<u64>) -> bool {
        let Some(round) = self.round() else { return !range.is_empty() };
        if range.end.saturating_sub(range.start) >= round {
            return true;
        }
        let has_part = |server| self.bytes_in(server, range) > 0;
        match &self.rule {
            Rule::Whole => has_part(0),
            // The range is shorter than a round: its strips are on consecutive servers, so it must have a strip on
            // each.
            Rule::Simple { strip, servers, .. } => {
                !range.is_empty() && (range.end - 1) / strip - range.start / strip + 1 >= u64::from(*servers)
            }
            Rule::Var(var) => var.strips.iter().all(|strip| has_part(strip.server)),
            Rule::TwoD(two) => (0..narrow(two.servers)).all(has_part),
        }
    }

    /// The server that holds the byte at `logical`, and the byte's offset in its datafile. O(strips) for
    /// [`VarStrip`].
    pub fn locate(&self, logical: u64) -> (u32, u64) {
        let server = match &self.rule {
            Rule::Whole => 0,
            Rule::Simple { strip, round, .. } => narrow((logical % round) / strip),
            Rule::Var(var) => {
                let rest = logical % var.round;
                // Strips are sorted by server, so this lookup by offset needs a scan.
                let strip = var.strips.iter().find(|strip| rest >= strip.start && rest - strip.start < strip.size);
                strip.map_or(0, |strip| strip.server)
            }
            Rule::TwoD(two) => {
                let rest = logical % two.round;
                let per_server = two.factor * two.strip;
                let group = (rest / (two.group_size * per_server)).min(two.groups - 1);
                let first = group * two.group_size;
                let group_size = if group + 1 == two.groups { two.servers - first } else { two.group_size };
                let in_group = rest - first * per_server;
                narrow(first + (in_group / two.strip) % group_size)
            }
        };
        (server, self.bytes_before(server, logical))
    }

    /// The logical offset of the byte at `physical` on `server`.
    ///
    /// `None` if the server holds nothing or the offset exceeds 64 bits.
    pub fn logical_of(&self, server: u32, physical: u64) -> Option<u64> {
        match &self.rule {
            Rule::Whole => (server == 0).then_some(physical),
            Rule::Simple { strip, servers, round } => {
                if server >= *servers {
                    return None;
                }
                let base = (physical / strip).checked_mul(*round)?;
                base.checked_add(u64::from(server) * strip + physical % strip)
            }
            Rule::Var(var) => var.logical_of(server, physical),
            Rule::TwoD(two) => {
                let seat = two.seat(server)?;
                let own = two.factor * two.strip;
                let rest = physical % own;
                let row = (rest / two.strip) * seat.group_size * two.strip;
                let in_round = seat.group_start + row + seat.index * two.strip + rest % two.strip;
                (physical / own).checked_mul(two.round)?.checked_add(in_round)
            }
        }
    }

    /// The end of the file as far as `server` knows: one past its last byte's logical offset when its datafile
    /// is `physical_size` long; zero for an empty datafile.
    pub fn logical_size(&self, server: u32, physical_size: u64) -> Option<u64> {
        match physical_size.checked_sub(1) {
            None => Some(0),
            Some(last) => self.logical_of(server, last)?.checked_add(1),
        }
    }

    /// The pieces of the logical `range` on `server`, in file order. O(1) for each piece
    /// (O(log strips) for [`VarStrip`]).
    pub fn pieces(&self, server: u32, range: Range<u64>) -> Pieces<'_> {
        Pieces { stripe: self, server, range }
    }

    /// The number of bytes from `logical` to the end of its strip.
    fn run_at(&self, server: u32, logical: u64, physical: u64) -> u64 {
        match &self.rule {
            Rule::Whole => u64::MAX,
            Rule::Simple { strip, .. } | Rule::TwoD(TwoD { strip, .. }) => strip - physical % strip,
            Rule::Var(var) => {
                let rest = logical % var.round;
                var.strip_before(server, rest).map_or(0, |strip| strip.start + strip.size - rest)
            }
        }
    }
}

/// A server index computed from an offset: always below the `u32` server count.
fn narrow(server: u64) -> u32 {
    u32::try_from(server).unwrap_or(u32::MAX)
}

/// Iterator of [`Stripe::pieces`].
#[derive(Clone, Debug)]
pub struct Pieces<'a> {
    stripe: &'a Stripe,
    server: u32,
    range: Range<u64>,
}

impl Iterator for Pieces<'_> {
    type Item = Piece;

    fn next(&mut self) -> Option<Piece> {
        if self.range.is_empty() {
            return None;
        }
        let physical = self.stripe.bytes_before(self.server, self.range.start);
        let logical = self.stripe.logical_of(self.server, physical).filter(|at| *at < self.range.end);
        let Some(logical) = logical else {
            self.range.start = self.range.end;
            return None;
        };
        let len = self.stripe.run_at(self.server, logical, physical).min(self.range.end - logical);
        self.range.start = logical + len;
        Some(Piece { logical, physical, len })
    }
}

// The cost of the other parts of an access, derived from how its file is striped [vPFS §III-B2].
//
// Every server of the layout must be able to derive the same total, otherwise some would charge what others report. So
// only accesses count of which *each* server of the layout gets a part. A layout of one server reveals nothing about
// others.
//
// Servers outside the layout do not learn of such accesses. Like the paper, this expects an application to use one
// layout for its data; if it keeps different files on different servers, share by threshold.
//
// A layout is the client's claim. A client that invents a layout whose other parts are tiny is not charged for the
// service that it gets elsewhere, so its shares hold at each server separately, and it gains no more than that. If
// clients are not trusted, share by threshold.

/// The cost elsewhere of an access to the bytes `range` of a file, as seen by server number `server` of the file: the
/// value of [`Request::elsewhere`](crate::Request::elsewhere).
///
/// `None` unless every server of the layout gets a part, and there are at least two. O(1) for accesses of a round or
/// more and for simple stripes, else O(n) in servers of the layout.
pub fn elsewhere(stripe: &Stripe, server: u32, range: &Range<u64>) -> Option<Bytes> {
    let local = stripe.bytes_in(server, range);
    let total = range.end.saturating_sub(range.start);
    (local > 0 && local < total && stripe.reaches_all(range)).then(|| Bytes(total - local))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn distribution() -> impl Strategy<Value = (Distribution, u32)> {
        prop_oneof![
            (1u64..9, 1u32..6).prop_map(|(strip, c)| (Distribution::SimpleStripe { strip }, c)),
            Just((Distribution::Basic, 1)),
            (proptest::collection::vec((0u32..4, 1u64..7), 1..6)).prop_map(|list| {
                let text: Vec<_> = list.iter().map(|(server, size)| alloc::format!("{server}:{size}")).collect();
                (Distribution::VarStrip(VarStrip::parse(&text.join(";")).unwrap()), 4)
            }),
            (1u32..5, 1u64..6, 1u32..4, 1u32..8)
                .prop_map(|(groups, strip, factor, c)| (Distribution::TwoDStripe { groups, strip, factor }, c)),
        ]
    }

    /// The definition, byte by byte: the server of each logical offset.
    fn owner(distribution: &Distribution, servers: u32, logical: u64) -> u32 {
        let c = u64::from(servers);
        let owner = match distribution {
            Distribution::Basic => 0,
            Distribution::SimpleStripe { strip } => (logical / strip) % c,
            Distribution::VarStrip(var) => {
                let rest = logical % var.round;
                let hit = var.strips.iter().find(|s| (s.start..s.start + s.size).contains(&rest)).unwrap();
                u64::from(hit.server)
            }
            Distribution::TwoDStripe { groups, strip, factor } => {
                let groups = u64::from((*groups).min(servers));
                let mut sizes: Vec<u64> = (0..groups).map(|_| c / groups).collect();
                *sizes.last_mut().unwrap() += c % groups;
                let mut rest = logical % (c * u64::from(*factor) * strip);
                let mut first = 0;
                for size in sizes {
                    let span = size * u64::from(*factor) * strip;
                    if rest < span {
                        return narrow(first + (rest / strip) % size);
                    }
                    rest -= span;
                    first += size;
                }
                unreachable!()
            }
        };
        narrow(owner)
    }

    proptest! {
        #[test]
        fn closed_forms_equal_the_definition((distribution, servers) in distribution(), start in 0u64..200, len in 0u64..150) {
            let stripe = Stripe::new(distribution.clone(), servers).unwrap();
            let mut counts = alloc::vec![0u64; 8];
            for logical in 0..start + len {
                let server = owner(&distribution, servers, logical);
                let physical = counts[server as usize];
                prop_assert_eq!(stripe.locate(logical), (server, physical));
                prop_assert_eq!(stripe.logical_of(server, physical), Some(logical));
                prop_assert_eq!(stripe.logical_size(server, physical + 1), Some(logical + 1));
                for other in 0..8 {
                    prop_assert_eq!(stripe.bytes_before(other, logical), counts[other as usize]);
                }
                counts[server as usize] += 1;
            }
            for server in 0..8 {
                let mut bytes = Vec::new();
                for piece in stripe.pieces(server, start..start + len) {
                    prop_assert!(piece.len > 0);
                    bytes.extend((0..piece.len).map(|i| (piece.logical + i, piece.physical + i)));
                }
                let expected: Vec<_> = (start..start + len)
                    .filter(|logical| owner(&distribution, servers, *logical) == server)
                    .map(|logical| (logical, stripe.bytes_before(server, logical)))
                    .collect();
                prop_assert_eq!(stripe.bytes_in(server, &(start..start + len)), expected.len() as u64);
                prop_assert_eq!(bytes, expected);
            }
            let holds = |server| (0..1000).any(|logical| owner(&distribution, servers, logical) == server);
            let all = (0..8).filter(|&server| holds(server)).all(|server| stripe.bytes_in(server, &(start..start + len)) > 0);
            prop_assert_eq!(stripe.reaches_all(&(start..start + len)), all);
        }

        #[test]
        fn any_parameters_are_safe(groups: u32, strip: u64, factor: u32, servers: u32, server: u32, a: u64, b: u64) {
            for distribution in [Distribution::SimpleStripe { strip }, Distribution::TwoDStripe { groups, strip, factor }] {
                let Ok(stripe) = Stripe::new(distribution, servers) else { continue };
                prop_assert!(stripe.bytes_in(server, &(a.min(b)..a.max(b))) <= a.max(b) - a.min(b));
                let (owner, physical) = stripe.locate(a);
                prop_assert!(owner < servers);
                prop_assert_eq!(stripe.logical_of(owner, physical), Some(a));
                let _ = stripe.logical_size(server, b);
                let _ = stripe.pieces(server, a..b).take(3).count();
            }
        }

        #[test]
        fn any_strip_text_is_safe(text in "[0-9:;KMG kmgx]{0,24}", a: u64) {
            if let Ok(var) = VarStrip::parse(&text) {
                let stripe = Stripe::new(Distribution::VarStrip(var), 3).unwrap();
                let (owner, physical) = stripe.locate(a);
                prop_assert_eq!(stripe.logical_of(owner, physical), Some(a));
            }
        }
    }

    #[test]
    fn strip_text() {
        let var = VarStrip::parse("0:10K;1:1M;2:30000").unwrap();
        assert_eq!(var.round, 10240 + 1_048_576 + 30000);
        assert_eq!(VarStrip::parse("0:1g;").unwrap().round, 1 << 30);
        assert_eq!(VarStrip::parse(""), Err(StripeError::Syntax));
        assert_eq!(VarStrip::parse("0:1;;1:1"), Err(StripeError::Syntax));
        assert_eq!(VarStrip::parse("0:0"), Err(StripeError::Zero));
        assert_eq!(VarStrip::parse("0:99999999999G"), Err(StripeError::TooLarge));
    }

    #[test]
    fn impossible_parameters_are_refused() {
        assert_eq!(Stripe::new(Distribution::Basic, 0), Err(StripeError::Zero));
        assert_eq!(Stripe::new(Distribution::SimpleStripe { strip: 0 }, 2), Err(StripeError::Zero));
        assert_eq!(Stripe::new(Distribution::SimpleStripe { strip: u64::MAX }, 2), Err(StripeError::TooLarge));
    }

    /// [`elsewhere`] as the paper estimates it: from the cost of the local part alone, as if the access covered whole
    /// rounds.
    ///
    /// The paper's rules are cases of this one, (round − own)/own · local with the server's own bytes in a round: for a
    /// simple stripe over n servers (n − 1) · local; for a two-dimensional one the same, as the group factor gives each
    /// server of each group equal parts of a round; for variable strips the ratio of the strips. `None` if the server
    /// has no part of a round, or all of it.
    fn elsewhere_of_local(stripe: &Stripe, server: u32, local: Bytes) -> Option<Bytes> {
        let round = stripe.round()?;
        let own = stripe.bytes_before(server, round);
        if own == round {
            return None;
        }
        let elsewhere = (u128::from(local.0) * u128::from(round - own)).checked_div(own.into())?;
        Some(Bytes(u64::try_from(elsewhere).unwrap_or(u64::MAX)))
    }

    fn stripe() -> impl Strategy<Value = Stripe> {
        prop_oneof![
            (1u64..9, 1u32..6).prop_map(|(strip, servers)| (Distribution::SimpleStripe { strip }, servers)),
            Just((Distribution::Basic, 1)),
            proptest::collection::vec((0u32..4, 1u64..7), 1..6).prop_map(|strips| {
                let text: Vec<_> = strips.iter().map(|(server, size)| alloc::format!("{server}:{size}")).collect();
                (Distribution::VarStrip(VarStrip::parse(&text.join(";")).unwrap()), 4)
            }),
            (1u32..5, 1u64..6, 1u32..4, 1u32..6).prop_map(|(groups, strip, factor, servers)| (
                Distribution::TwoDStripe { groups, strip, factor },
                servers
            )),
        ]
        .prop_map(|(distribution, servers)| Stripe::new(distribution, servers).unwrap())
    }

    proptest! {
        /// Either all servers of the layout derive the same total, or none derives any.
        #[test]
        fn all_servers_tell_the_same(stripe in stripe(), start in 0u64..200, len in 1u64..200) {
            let range = start..start + len;
            let holders: Vec<u32> = (0..8).filter(|&server| stripe.bytes_before(server, 1000) > 0).collect();
            let told: Vec<_> = holders.iter().map(|&server| elsewhere(&stripe, server, &range)).collect();
            let local = |server| stripe.bytes_in(server, &range);
            if holders.len() > 1 && holders.iter().all(|&server| local(server) > 0) {
                for (&server, told) in holders.iter().zip(told) {
                    prop_assert_eq!(told, Some(Bytes(len - local(server))));
                }
            } else {
                prop_assert!(told.iter().all(Option::is_none), "{:?}", told);
            }
        }

        #[test]
        fn whole_rounds_follow_the_closed_form(stripe in stripe(), start in 0u64..200, rounds in 1u64..20) {
            if let Some(round) = stripe.round() {
                let range = start..start + round * rounds;
                for server in 0..8 {
                    let local = Bytes(stripe.bytes_in(server, &range));
                    prop_assert_eq!(elsewhere_of_local(&stripe, server, local), elsewhere(&stripe, server, &range));
                }
            }
        }

        /// The paper's rules as it states them.
        #[test]
        fn the_papers_rules_are_cases(strip in 1u64..1 << 20, servers in 2u32..100, groups in 1u32..9, factor in 1u32..9,
                                      sizes in prop::collection::vec(1u64..1 << 20, 2..9), local in 0u64..1 << 40) {
            let of = |distribution, servers| Stripe::new(distribution, servers).unwrap();
            let simple = of(Distribution::SimpleStripe { strip }, servers);
            let others = Some(Bytes(local * u64::from(servers - 1)));
            prop_assert_eq!(elsewhere_of_local(&simple, servers - 1, Bytes(local)), others);
            let two = of(Distribution::TwoDStripe { groups, strip, factor }, servers);
            prop_assert_eq!(elsewhere_of_local(&two, 0, Bytes(local)), others);
            let text: Vec<_> = sizes.iter().enumerate().map(|(server, size)| alloc::format!("{server}:{size}")).collect();
            let var = of(Distribution::VarStrip(VarStrip::parse(&text.join(";")).unwrap()), 9);
            let ratio = u128::from(local) * u128::from(sizes[1..].iter().sum::<u64>()) / u128::from(sizes[0]);
            prop_assert_eq!(elsewhere_of_local(&var, 0, Bytes(local)).map(|bytes| u128::from(bytes.0)), Some(ratio));
        }
    }

    #[test]
    fn a_small_access_reveals_nothing() {
        let stripe = Stripe::new(Distribution::SimpleStripe { strip: 64 << 10 }, 4).unwrap();
        assert_eq!(elsewhere(&stripe, 0, &(0..4096)), None);
        assert_eq!(elsewhere(&stripe, 0, &(0..256 << 10)), Some(Bytes::kib(192)));
        assert_eq!(elsewhere(&stripe, 4, &(0..256 << 10)), None, "not a server of the file");
    }
}
