//! `[app.replay]`: a log of a run as an application.

use std::collections::BTreeMap;
use std::time::Duration;

use vpfs_harl::{Log, Op, Request};

use crate::model::plan::{Call, Dir, Extent, FileId, Replay, Step};

/// The largest call; Linux moves no more than 2 GiB at once.
const CALL: u64 = 1 << 30;

/// Each rank is a process. Between its calls it computes as long as it did in the run; if the log does not say when
/// calls ended, it makes each of them at the time of the log, or later if those before it take longer.
///
/// O(n log n) in requests.
pub(super) fn replay(log: &Log) -> Replay {
    let mut ranks: BTreeMap<u32, Vec<(Request, u32)>> = BTreeMap::new();
    for (file, requests) in (0..).zip(log.files.values()) {
        requests.iter().for_each(|request| ranks.entry(request.rank).or_default().push((*request, file)));
    }
    let all = || log.files.values().flatten();
    let begin = all().map(|request| request.start).min().unwrap_or(0);
    let has_ends = all().any(|request| request.end > request.start);
    Replay::new(ranks.into_values().map(|mut requests| {
        requests.sort_by_key(|(request, file)| (request.start, request.end, *file, request.offset));
        steps(&requests, begin, has_ends)
    }))
}

fn steps(requests: &[(Request, u32)], begin: u64, has_ends: bool) -> Vec<Step> {
    let (mut steps, mut ended) = (Vec::with_capacity(2 * requests.len()), begin);
    for (index, (request, file)) in requests.iter().enumerate() {
        let pause = Duration::from_nanos(request.start.saturating_sub(ended));
        match has_ends && index > 0 {
            true if pause.is_zero() => {}
            true => steps.push(Step::Think(pause)),
            false => steps.push(Step::Until(Duration::from_nanos(request.start - begin))),
        }
        ended = ended.max(request.end);
        steps.extend(calls(request, FileId { dir: Dir::Base, number: *file }));
    }
    steps
}

fn calls(request: &Request, file: FileId) -> impl Iterator<Item = Step> {
    let Request { op, offset, size, .. } = *request;
    (0..size.div_ceil(CALL)).map(move |piece| {
        let bytes = u32::try_from(CALL.min(size - piece * CALL)).expect("at most a call");
        let extent = Extent { file, offset: offset + piece * CALL, bytes };
        Step::Call(if op == Op::Write { Call::Write(extent) } else { Call::Read(extent) })
    })
}

#[cfg(test)]
mod tests {
    use vpfs_harl::LogReader;

    use crate::model::plan::{Phase, Plan};

    use super::*;

    fn replayed(text: &str) -> Vec<Vec<Step>> {
        let mut reader = LogReader::default();
        text.lines().for_each(|line| reader.line(line.as_bytes()).expect("a line of a log"));
        let replay = replay(&reader.finish().expect("a log"));
        (0..replay.processes()).map(|process| replay.steps(Phase::Mixed, process).collect()).collect()
    }

    fn call(number: u32, is_write: bool, offset: u64, bytes: u32) -> Step {
        let extent = Extent { file: FileId { dir: Dir::Base, number }, offset, bytes };
        Step::Call(if is_write { Call::Write(extent) } else { Call::Read(extent) })
    }

    const MS: fn(u64) -> Duration = Duration::from_millis;

    #[test]
    fn processes_compute_as_long_as_they_did() {
        let log = "rank,op,offset,size,time,end,file\n7,w,0,10,5.5,5.6,b\n2,r,4,6,5,5.1,a\n2,w,0,9,5.05,5.3,b\n2,r,1,2,5.4,5.5,a\n";
        let expected = [
            vec![
                Step::Until(MS(0)),
                call(0, false, 4, 6),
                call(1, true, 0, 9),
                Step::Think(MS(100)),
                call(0, false, 1, 2),
            ],
            vec![Step::Until(MS(500)), call(1, true, 0, 10)],
        ];
        assert_eq!(replayed(log), expected);
    }

    #[test]
    fn without_ends_calls_have_the_times_of_the_log() {
        let log =
            "fio version 3 iolog\n1000 a write 0 65536\n3000 a read 0 65536\nfio version 3 iolog\n2000 a read 7 9\n";
        let expected = [
            vec![Step::Until(MS(0)), call(0, true, 0, 65_536), Step::Until(MS(2)), call(0, false, 0, 65_536)],
            vec![Step::Until(MS(1)), call(0, false, 7, 9)],
        ];
        assert_eq!(replayed(log), expected);
    }

    #[test]
    fn larger_requests_are_several_calls() {
        let steps = &replayed("op,offset,size\nw,5,2147483650\n")[0];
        let expected = [call(0, true, 5, 1 << 30), call(0, true, 5 + CALL, 1 << 30), call(0, true, 5 + 2 * CALL, 2)];
        assert_eq!(steps[1..], expected);
    }
}
