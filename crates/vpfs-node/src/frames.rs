//! The format of frames between processes: version 4 of `docs/protocols/peers.md`.
//!
//! A frame is the length of the rest (4 bytes), its kind (1 byte) and its body. All numbers are big-endian. Lengths are
//! checked before anything is allocated, and bytes from outside never panic.

use std::time::Duration;

use thiserror::Error;
use vpfs_core::pace::{AppMeasure, Decision, Measure, Pace};
use vpfs_core::{ServerId, ServiceClass, Time, TotalKind};

use crate::coordination::{Counted, FlowKey, FlowTotal, Message, Position, Standing};
use crate::pace::PaceMessage;
use crate::peers::PeerMessage;

/// The version of this format. Processes with different versions do not talk to each other.
pub const VERSION: u16 = 4;

/// Bytes in front of a frame's body: length and kind.
pub const HEADER_LEN: usize = 5;

/// The longest kind and body: a [`Hello`] with [`SERVERS`] long names. The largest report has half of that.
pub const FRAME_LEN: usize = 72 << 10;

/// What one process sends to another.
#[derive(Clone, Debug, PartialEq)]
#[expect(missing_docs, reason = "the comments of the variants explain the fields")]
pub enum Frame {
    /// Names the sender; the first frame in each direction, and only that.
    Hello(Hello),
    /// A message of one server's node to another's; two kinds of frame.
    Report(Report),
    /// Asks for the receiver's time; the answer repeats the sender's.
    Ping { sent: Time },
    /// The answer to [`Frame::Ping`]: the time in the question, and when it arrived and was answered, by the clock of
    /// the process that answers.
    Pong { sent: Time, received: Time, answered: Time },
    /// The sender's configuration lacks a server that the receiver speaks for; the last frame.
    Unlisted,
}

/// A node's message with its sender and receiver.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// The index of the sending server in the sender's [`Hello::servers`].
    pub from: u16,
    /// The index of the receiving server in the receiver's [`Hello::servers`].
    pub to: u16,
    /// What it says.
    pub message: PeerMessage,
}

/// Why bytes are not a frame. The connection cannot be used any more.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum WireError {
    /// A frame that is longer than any frame may be, or has no kind.
    #[error("frame of {0} bytes, the limit is {FRAME_LEN}")]
    Length(u32),
    /// A kind that this version does not have.
    #[error("frame of the unknown kind {0}")]
    Kind(u8),
    /// The sender does not speak this protocol at all.
    #[error("the first bytes are not those of a vpfs peer")]
    Magic,
    /// The sender speaks another version.
    #[error("version {0} of the protocol, this process has {VERSION}: run the same version of vpfs on all servers")]
    Version(u16),
    /// A body that ends early or late.
    #[error("a body does not have the length that its content requires")]
    BodyLength,
    /// A value that is not allowed.
    #[error("{0}")]
    Value(&'static str),
}

mod kind {
    pub(super) const HELLO: u8 = 1;
    pub(super) const REPORT: u8 = 2;
    pub(super) const PING: u8 = 3;
    pub(super) const PONG: u8 = 4;
    pub(super) const UNLISTED: u8 = 5;
    pub(super) const PACE: u8 = 6;
}

impl Frame {
    /// Appends the frame to `out`. O(its length).
    ///
    /// # Panics
    /// If the frame is longer than [`FRAME_LEN`]. No [`Hello`] is, and no message of a coordinator.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend_from_slice(&[0; 4]);
        match self {
            Self::Hello(hello) => {
                out.push(kind::HELLO);
                hello.encode(out);
            }
            Self::Report(Report { from, to, message }) => {
                out.push(if matches!(message, PeerMessage::Service(_)) { kind::REPORT } else { kind::PACE });
                put_u16(out, *from);
                put_u16(out, *to);
                match message {
                    PeerMessage::Service(message) => encode_message(message, out),
                    PeerMessage::Pace(message) => encode_pace(message, out),
                }
            }
            Self::Ping { sent } => {
                out.push(kind::PING);
                put_u64(out, sent.as_nanos());
            }
            Self::Pong { sent, received, answered } => {
                out.push(kind::PONG);
                [sent, received, answered].into_iter().for_each(|time| put_u64(out, time.as_nanos()));
            }
            Self::Unlisted => out.push(kind::UNLISTED),
        }
        let length = out.len() - start - 4;
        assert!(length <= FRAME_LEN, "a frame of {length} bytes");
        let length = u32::try_from(length).expect("at most FRAME_LEN");
        out[start..start + 4].copy_from_slice(&length.to_be_bytes());
    }

    /// The first frame of `bytes` and its length, or `None` if it has not arrived completely. O(its length).
    ///
    /// # Errors
    /// If `bytes` do not start with a frame. A frame that is too long is refused as soon as its length has arrived.
    pub fn decode(bytes: &[u8]) -> Result<Option<(Self, usize)>, WireError> {
        let Some((length, rest)) = bytes.split_first_chunk::<4>() else { return Ok(None) };
        let length = u32::from_be_bytes(*length);
        let len = length as usize;
        if len == 0 || len > FRAME_LEN {
            return Err(WireError::Length(length));
        }
        let Some(([kind], body)) = rest.get(..len).and_then(|frame| frame.split_first_chunk()) else { return Ok(None) };
        let mut fields = Fields(body);
        let frame = Self::body(*kind, &mut fields)?;
        fields.end()?;
        Ok(Some((frame, 4 + len)))
    }

    fn body(kind: u8, fields: &mut Fields<'_>) -> Result<Self, WireError> {
        Ok(match kind {
            kind::HELLO => Self::Hello(Hello::decode(fields)?),
            kind::REPORT | kind::PACE => {
                let (from, to) = (fields.u16()?, fields.u16()?);
                let message = match kind {
                    kind::REPORT => PeerMessage::Service(decode_message(fields)?),
                    _ => PeerMessage::Pace(decode_pace(fields)?),
                };
                Self::Report(Report { from, to, message })
            }
            kind::PING => Self::Ping { sent: fields.time()? },
            kind::PONG => Self::Pong { sent: fields.time()?, received: fields.time()?, answered: fields.time()? },
            kind::UNLISTED => Self::Unlisted,
            other => return Err(WireError::Kind(other)),
        })
    }
}

/// The most servers of one process: the limit of a configuration.
pub const SERVERS: usize = 1024;

/// The most bytes of a server's or cluster's name: the limit of a configuration.
pub const NAME_LEN: usize = 64;

/// Tells peers of vpfs from anything else that connects. It and the version after it never change.
const MAGIC: [u8; 4] = *b"vpfs";

/// The first frame of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hello {
    cluster: String,
    incarnation: u64,
    servers: Vec<String>,
}

impl Hello {
    /// A process that started at `incarnation` and has the proxies of these servers of this cluster.
    ///
    /// # Errors
    /// If there are no servers or more than [`SERVERS`], or a name is empty, repeated or longer than [`NAME_LEN`].
    pub fn new(cluster: String, incarnation: u64, servers: Vec<String>) -> Result<Self, WireError> {
        if servers.is_empty() || servers.len() > SERVERS {
            return Err(WireError::Value("a process has 1 to 1024 servers"));
        }
        let is_name = |name: &String| (1..=NAME_LEN).contains(&name.len());
        if !servers.iter().all(is_name) || !is_name(&cluster) {
            return Err(WireError::Value("a name has 1 to 64 bytes"));
        }
        let mut sorted: Vec<&String> = servers.iter().collect();
        sorted.sort_unstable();
        if sorted.windows(2).any(|pair| pair[0] == pair[1]) {
            return Err(WireError::Value("a process names a server twice"));
        }
        Ok(Self { cluster, incarnation, servers })
    }

    /// The name of its cluster.
    pub fn cluster(&self) -> &str {
        &self.cluster
    }

    /// Greater after each start of the process.
    pub fn incarnation(&self) -> u64 {
        self.incarnation
    }

    /// The servers whose proxies it runs; reports refer to them by position.
    pub fn servers(&self) -> &[String] {
        &self.servers
    }

    fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&MAGIC);
        put_u16(out, VERSION);
        put_u64(out, self.incarnation);
        put_text(out, &self.cluster);
        put_u16(out, u16::try_from(self.servers.len()).expect("at most SERVERS"));
        self.servers.iter().for_each(|name| put_text(out, name));
    }

    fn decode(fields: &mut Fields<'_>) -> Result<Self, WireError> {
        if fields.array().ok() != Some(MAGIC) {
            return Err(WireError::Magic);
        }
        match fields.u16()? {
            VERSION => {}
            other => return Err(WireError::Version(other)),
        }
        let incarnation = fields.u64()?;
        let cluster = fields.text()?.to_owned();
        let count = usize::from(fields.u16()?);
        // Each name has at least its length and one byte.
        fields.has(count, 2)?;
        let servers = (0..count).map(|_| fields.text().map(str::to_owned)).collect::<Result<_, _>>()?;
        Self::new(cluster, incarnation, servers)
    }
}

/// Flags of a message.
const KNOWS_RECEIVER: u8 = 1;
const MORE: u8 = 2;

/// Flags of an entry.
const METADATA: u8 = 1;
const LEFT: u8 = 2;
/// An entry about a total: its kind, from 1, in these bits, and whether it is what is wanted of it.
const TOTAL: u8 = 4 | 8;
const TOTAL_SHIFT: u32 = TOTAL.trailing_zeros();
const WANTED: u8 = 16;

fn encode_message(message: &Message, out: &mut Vec<u8>) {
    let start = out.len();
    out.push(flag(message.to.is_some(), KNOWS_RECEIVER) | flag(message.more, MORE));
    let age = u64::try_from(message.age.as_nanos()).unwrap_or(u64::MAX);
    let Position { horizon, version } = message.ack;
    let (to, at) = (message.to.unwrap_or(0), message.at);
    let Standing { members, group, side, stream, to_stream, live } = message.standing;
    [message.incarnation, age, to, members].into_iter().for_each(|number| put_u64(out, number));
    [group.0, side.0, stream, to_stream, live].into_iter().for_each(|number| put_u32(out, number));
    for number in [horizon, version, message.base, at.horizon, at.version] {
        put_u64(out, number);
    }
    put_u16(out, u16::try_from(message.entries.len()).expect("at most MAX_ENTRIES"));
    for entry in &*message.entries {
        out.push(counted_flags(entry.counted) | flag(entry.left, LEFT));
        [entry.key.0, entry.born, entry.changed].into_iter().for_each(|number| put_u64(out, number));
        out.extend_from_slice(&entry.total.to_be_bytes());
    }
    debug_assert_eq!(out.len() - start, message.encoded_len());
}

fn decode_message(fields: &mut Fields<'_>) -> Result<Message, WireError> {
    let flags = flags(fields, KNOWS_RECEIVER | MORE)?;
    let incarnation = fields.u64()?;
    let age = Duration::from_nanos(fields.u64()?);
    let to = match (flags & KNOWS_RECEIVER, fields.u64()?) {
        (0, 0) => None,
        (0, _) => return Err(WireError::Value("a message names an incarnation that it does not know")),
        (_, incarnation) => Some(incarnation),
    };
    let standing = Standing {
        members: fields.u64()?,
        group: ServerId(fields.u32()?),
        side: ServerId(fields.u32()?),
        stream: fields.u32()?,
        to_stream: fields.u32()?,
        live: fields.u32()?,
    };
    let ack = position(fields)?;
    let base = fields.u64()?;
    let at = position(fields)?;
    let count = usize::from(fields.u16()?);
    if count > Message::MAX_ENTRIES {
        return Err(WireError::Value("a message has more than 1024 entries"));
    }
    fields.has(count, Message::ENTRY_LEN)?;
    let entries = (0..count).map(|_| entry(fields)).collect::<Result<_, _>>()?;
    Ok(Message { incarnation, age, to, standing, ack, base, at, more: flags & MORE != 0, entries })
}

fn entry(fields: &mut Fields<'_>) -> Result<FlowTotal, WireError> {
    let flags = flags(fields, METADATA | LEFT | TOTAL | WANTED)?;
    let counted = Counted::all().find(|counted| counted_flags(*counted) == flags & !LEFT);
    Ok(FlowTotal {
        key: FlowKey(fields.u64()?),
        counted: counted.ok_or(WireError::Value("an entry says that something is wanted, but not of which total"))?,
        born: fields.u64()?,
        changed: fields.u64()?,
        total: fields.i64()?,
        left: flags & LEFT != 0,
    })
}

fn counted_flags(counted: Counted) -> u8 {
    let total = |kind| match kind {
        TotalKind::Cap => 1 << TOTAL_SHIFT,
        TotalKind::Target => 2 << TOTAL_SHIFT,
        TotalKind::Minimum => 3 << TOTAL_SHIFT,
    };
    let (what, class) = match counted {
        Counted::Service(class) => (0, class),
        Counted::Given(kind, class) => (total(kind), class),
        Counted::Wanted(kind, class) => (total(kind) | WANTED, class),
    };
    what | flag(class == ServiceClass::Metadata, METADATA)
}

fn position(fields: &mut Fields<'_>) -> Result<Position, WireError> {
    Ok(Position { horizon: fields.u64()?, version: fields.u64()? })
}

/// Refuses flags that this version does not have: a sender that uses them means something.
fn flags(fields: &mut Fields<'_>, known: u8) -> Result<u8, WireError> {
    let flags = fields.u8()?;
    if flags & !known == 0 { Ok(flags) } else { Err(WireError::Value("a flag is not known")) }
}

fn flag(is_set: bool, flag: u8) -> u8 {
    if is_set { flag } else { 0 }
}

/// No value is larger: what follows from it cannot overflow.
const LARGEST: f32 = 1e18;

/// Kinds of messages about the pace of bulk.
mod pace_kind {
    pub(super) const MEASURED: u8 = 1;
    /// A decision without a pace, ...
    pub(super) const FREE: u8 = 2;
    /// ... with two requests at a time, ...
    pub(super) const FIRST: u8 = 3;
    /// ... and with a rate.
    pub(super) const RATE: u8 = 4;
}

fn encode_pace(message: &PaceMessage, out: &mut Vec<u8>) {
    let start = out.len();
    match message {
        PaceMessage::Measured { number, best, most, measure } => {
            let Measure { seconds, served, lost, blocked, unwanted, full, usual, minima, ref apps } = *measure;
            out.push(pace_kind::MEASURED);
            put_u32(out, *number);
            [*best, *most, seconds, served, lost, blocked, unwanted, full, usual, minima]
                .into_iter()
                .for_each(|value| put_value(out, value));
            put_count(out, apps.len());
            for app in apps {
                let AppMeasure {
                    key,
                    weight,
                    footprint,
                    got,
                    done,
                    late,
                    waited,
                    stored,
                    pending,
                    age,
                    longest,
                    clients,
                } = *app;
                put_u64(out, key.0);
                let values = [weight, footprint, got, done, late, waited, stored, pending, age, longest, clients];
                values.into_iter().for_each(|value| put_value(out, value));
            }
        }
        PaceMessage::Decided { number, decision } => {
            let Decision { pace, wide, most, best, largest, ref bulk, ref interactive } = *decision;
            let (kind, rate) = match pace {
                Pace::Free => (pace_kind::FREE, 0.0),
                Pace::First => (pace_kind::FIRST, 0.0),
                Pace::At(rate) => (pace_kind::RATE, rate),
            };
            out.push(kind);
            put_u32(out, *number);
            [rate, wide, most, best, largest].into_iter().for_each(|value| put_value(out, value));
            for keys in [bulk, interactive] {
                put_count(out, keys.len());
                keys.iter().for_each(|key| put_u64(out, key.0));
            }
        }
    }
    debug_assert_eq!(out.len() - start, message.encoded_len());
}

fn decode_pace(fields: &mut Fields<'_>) -> Result<PaceMessage, WireError> {
    let kind = fields.u8()?;
    let number = fields.u32()?;
    if kind == pace_kind::MEASURED {
        let [best, most, seconds, served, lost, blocked, unwanted, full, usual, minima] = values(fields)?;
        let apps = (0..count(fields, PaceMessage::APP_LEN)?).map(|_| {
            let key = FlowKey(fields.u64()?);
            let [weight, footprint, got, done, late, waited, stored, pending, age, longest, clients] = values(fields)?;
            Ok(AppMeasure { key, weight, footprint, got, done, late, waited, stored, pending, age, longest, clients })
        });
        let apps = apps.collect::<Result<_, WireError>>()?;
        let measure = Measure { seconds, served, lost, blocked, unwanted, full, usual, minima, apps };
        return Ok(PaceMessage::Measured { number, best, most, measure });
    }
    let [rate, wide, most, best, largest] = values(fields)?;
    let pace = match kind {
        pace_kind::FREE if rate == 0.0 => Pace::Free,
        pace_kind::FIRST if rate == 0.0 => Pace::First,
        pace_kind::RATE => Pace::At(rate),
        _ => return Err(WireError::Value("a message about the pace of bulk is of an unknown kind")),
    };
    let (bulk, interactive) = (keys(fields)?, keys(fields)?);
    Ok(PaceMessage::Decided { number, decision: Decision { pace, wide, most, best, largest, bulk, interactive } })
}

fn keys(fields: &mut Fields<'_>) -> Result<Vec<FlowKey>, WireError> {
    (0..count(fields, PaceMessage::KEY_LEN)?).map(|_| Ok(FlowKey(fields.u64()?))).collect()
}

/// What is not a number, or negative, is 0.
#[expect(clippy::cast_possible_truncation, reason = "a few digits are enough")]
fn put_value(out: &mut Vec<u8>, value: f64) {
    let value = if value > 0.0 { (value as f32).min(LARGEST) } else { 0.0 };
    put_u32(out, value.to_bits());
}

fn put_count(out: &mut Vec<u8>, count: usize) {
    out.push(u8::try_from(count).expect("at most PaceMessage::APPS"));
}

fn values<const N: usize>(fields: &mut Fields<'_>) -> Result<[f64; N], WireError> {
    let mut values = [0.0; N];
    for value in &mut values {
        let read = f32::from_bits(fields.u32()?);
        if !(0.0..=LARGEST).contains(&read) || read.is_sign_negative() {
            return Err(WireError::Value("a value about the pace of bulk is out of range"));
        }
        *value = read.into();
    }
    Ok(values)
}

fn count(fields: &mut Fields<'_>, len: usize) -> Result<usize, WireError> {
    let count = usize::from(fields.u8()?);
    if count > PaceMessage::APPS {
        return Err(WireError::Value("a message about the pace of bulk has more than 32 applications"));
    }
    fields.has(count, len)?;
    Ok(count)
}

/// The rest of a body.
struct Fields<'a>(&'a [u8]);

macro_rules! numbers {
    ($($number:ident)*) => { $(
        fn $number(&mut self) -> Result<$number, WireError> {
            Ok($number::from_be_bytes(self.array()?))
        }
    )* };
}

impl<'a> Fields<'a> {
    numbers!(u8 u16 u32 u64 i64);

    fn time(&mut self) -> Result<Time, WireError> {
        Ok(Time::from_nanos(self.u64()?))
    }

    /// A text of at most 255 bytes, after its length.
    fn text(&mut self) -> Result<&'a str, WireError> {
        let len = self.u8()?;
        let text = self.bytes(len.into())?;
        std::str::from_utf8(text).map_err(|_| WireError::Value("a name is not text"))
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], WireError> {
        let (array, rest) = self.0.split_first_chunk().ok_or(WireError::BodyLength)?;
        self.0 = rest;
        Ok(*array)
    }

    fn end(&self) -> Result<(), WireError> {
        if self.0.is_empty() { Ok(()) } else { Err(WireError::BodyLength) }
    }

    /// Refuses a body that cannot have `count` more elements of `len` bytes, before any is allocated.
    fn has(&self, count: usize, len: usize) -> Result<(), WireError> {
        if self.0.len() >= count.saturating_mul(len) { Ok(()) } else { Err(WireError::BodyLength) }
    }

    fn bytes(&mut self, len: usize) -> Result<&'a [u8], WireError> {
        let (bytes, rest) = self.0.split_at_checked(len).ok_or(WireError::BodyLength)?;
        self.0 = rest;
        Ok(bytes)
    }
}

fn put_u16(out: &mut Vec<u8>, number: u16) {
    out.extend_from_slice(&number.to_be_bytes());
}

fn put_u32(out: &mut Vec<u8>, number: u32) {
    out.extend_from_slice(&number.to_be_bytes());
}

fn put_u64(out: &mut Vec<u8>, number: u64) {
    out.extend_from_slice(&number.to_be_bytes());
}

/// A text of at most 255 bytes, after its length.
fn put_text(out: &mut Vec<u8>, text: &str) {
    out.push(u8::try_from(text.len()).expect("names are checked when they are made"));
    out.extend_from_slice(text.as_bytes());
}
