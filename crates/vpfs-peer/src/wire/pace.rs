//! The messages about the pace of bulk as bytes.

use vpfs_core::pace::{AppMeasure, Decision, Measure, Pace};
use vpfs_node::PaceMessage;
use vpfs_node::coordination::FlowKey;

use super::WireError;
use super::fields::{Fields, put_u32, put_u64};

/// No value is larger: what follows from it cannot overflow.
const LARGEST: f32 = 1e18;

mod kind {
    pub(super) const MEASURED: u8 = 1;
    /// A decision without a pace, ...
    pub(super) const FREE: u8 = 2;
    /// ... with two requests at a time, ...
    pub(super) const FIRST: u8 = 3;
    /// ... and with a rate.
    pub(super) const RATE: u8 = 4;
}

pub(super) fn encode(message: &PaceMessage, out: &mut Vec<u8>) {
    let start = out.len();
    match message {
        PaceMessage::Measured { number, best, most, measure } => {
            let Measure { seconds, served, lost, blocked, unwanted, full, usual, ref apps } = *measure;
            out.push(kind::MEASURED);
            put_u32(out, *number);
            [*best, *most, seconds, served, lost, blocked, unwanted, full, usual]
                .into_iter()
                .for_each(|value| put(out, value));
            put_count(out, apps.len());
            for app in apps {
                let AppMeasure { key, weight, footprint, got, done, late, waited, pending, age, longest, clients } =
                    *app;
                put_u64(out, key.0);
                let values = [weight, footprint, got, done, late, waited, pending, age, longest, clients];
                values.into_iter().for_each(|value| put(out, value));
            }
        }
        PaceMessage::Decided { number, decision } => {
            let Decision { pace, wide, most, best, largest, ref bulk } = *decision;
            let (kind, rate) = match pace {
                Pace::Free => (kind::FREE, 0.0),
                Pace::First => (kind::FIRST, 0.0),
                Pace::At(rate) => (kind::RATE, rate),
            };
            out.push(kind);
            put_u32(out, *number);
            [rate, wide, most, best, largest].into_iter().for_each(|value| put(out, value));
            put_count(out, bulk.len());
            bulk.iter().for_each(|key| put_u64(out, key.0));
        }
    }
    debug_assert_eq!(out.len() - start, message.encoded_len());
}

pub(super) fn decode(fields: &mut Fields<'_>) -> Result<PaceMessage, WireError> {
    let kind = fields.u8()?;
    let number = fields.u32()?;
    if kind == kind::MEASURED {
        let [best, most, seconds, served, lost, blocked, unwanted, full, usual] = values(fields)?;
        let apps = (0..count(fields, PaceMessage::APP_LEN)?).map(|_| {
            let key = FlowKey(fields.u64()?);
            let [weight, footprint, got, done, late, waited, pending, age, longest, clients] = values(fields)?;
            Ok(AppMeasure { key, weight, footprint, got, done, late, waited, pending, age, longest, clients })
        });
        let apps = apps.collect::<Result<_, WireError>>()?;
        let measure = Measure { seconds, served, lost, blocked, unwanted, full, usual, apps };
        return Ok(PaceMessage::Measured { number, best, most, measure });
    }
    let [rate, wide, most, best, largest] = values(fields)?;
    let pace = match kind {
        kind::FREE if rate == 0.0 => Pace::Free,
        kind::FIRST if rate == 0.0 => Pace::First,
        kind::RATE => Pace::At(rate),
        _ => return Err(WireError::Value("a message about the pace of bulk is of an unknown kind")),
    };
    let keys = (0..count(fields, PaceMessage::KEY_LEN)?).map(|_| Ok(FlowKey(fields.u64()?)));
    let bulk = keys.collect::<Result<_, WireError>>()?;
    Ok(PaceMessage::Decided { number, decision: Decision { pace, wide, most, best, largest, bulk } })
}

/// What is not a number, or negative, is 0.
#[expect(clippy::cast_possible_truncation, reason = "a few digits are enough")]
fn put(out: &mut Vec<u8>, value: f64) {
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
