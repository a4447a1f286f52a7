//! What the columns of a log without a header look like.

use std::borrow::Cow;

use super::names::{Column, name_of};
use super::row::{op, whole_number};
use super::time::TimeUnit;

/// Says which columns of a first line look like what, with the options for them; none if it does not look like a
/// request.
pub(super) fn guessed(fields: &[Cow<'_, str>]) -> Option<String> {
    let at = |found: &dyn Fn(&str) -> bool| fields.iter().position(|field| found(field));
    let op = at(&|field| op(field).is_ok())?;
    let epoch = |field: &str| field.split('.').next()?.parse().ok().and_then(TimeUnit::of_epoch);
    let is_decimal = |field: &str| field.contains('.') && field.parse::<f64>().is_ok() && whole_number(field).is_none();
    let time = at(&|field| epoch(field).is_some()).or_else(|| at(&is_decimal));
    let file = at(&|field| field.contains('/'));
    let (offset, size) = place(fields, &[Some(op), time, file])?;
    let mut columns = vec![(Column::Op, op), (Column::Offset, offset), (Column::Size, size)];
    columns.extend(time.map(|time| (Column::Time, time)));
    columns.extend(file.map(|file| (Column::File, file)));
    columns.sort_by_key(|(_, place)| *place);
    let columns: Vec<String> =
        columns.into_iter().map(|(column, place)| format!("{}={}", name_of(column), place + 1)).collect();
    let unit = time.and_then(|time| epoch(&fields[time]));
    let unit = unit.map_or(String::new(), |unit| format!(" --time-unit {}", unit.option()));
    let [place, length] = [offset, size].map(|place| whole_number(&fields[place]).unwrap_or(0));
    let could_be_sectors = place.is_multiple_of(8) && length.is_multiple_of(8) && length <= 2048;
    let sector = if could_be_sectors { ", and --sector 512B if offset and size are in sectors" } else { "" };
    Some(format!("--columns {}{unit}{sector}", columns.join(",")))
}

/// Offset and size: two whole numbers that follow each other, the first of them the largest.
fn place(fields: &[Cow<'_, str>], others: &[Option<usize>]) -> Option<(usize, usize)> {
    let number = |at: usize| whole_number(fields.get(at)?).filter(|_| !others.contains(&Some(at)));
    let pairs = (0..fields.len()).filter_map(|at| Some((number(at)?, number(at + 1).filter(|size| *size > 0)?, at)));
    pairs.max_by_key(|(offset, ..)| *offset).map(|(.., at)| (at, at + 1))
}

#[cfg(test)]
mod tests {
    use super::super::fields::Separator;
    use super::*;

    #[test]
    fn traces_that_sites_keep_are_recognised() {
        for (line, expected) in [
            // As of MSR Cambridge, SPC, FIU and our own.
            (
                "128166372003061629,hm,1,Read,383496192,32768,1331",
                "--columns time=1,op=4,offset=5,size=6 --time-unit filetime",
            ),
            ("0,20941264,8192,W,0.551706", "--columns offset=2,size=3,op=4,time=5"),
            (
                "1237392000123456789 4892 syslogd 904265560 8 W 6 0 531e779",
                "--columns time=1,offset=4,size=5,op=6 --time-unit ns, and --sector 512B if offset and size are in sectors",
            ),
            ("3\tw\t0\t4096\t0.012\t0.019\t/scratch/a", "--columns op=2,offset=3,size=4,time=5,file=7"),
        ] {
            let guessed = guessed(&Separator::of(line).fields(line));
            assert_eq!(guessed.as_deref(), Some(expected), "{line}");
        }
        for line in ["hello world", "1,2,3", "r,w"] {
            assert_eq!(guessed(&Separator::of(line).fields(line)), None, "{line}");
        }
    }
}
