//! Logs of real runs, see `recorded/README.md`.

use std::fs;
use std::path::{Path, PathBuf};

use vpfs_harl::{Log, LogReader, Op, Request};

use super::read;

fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/darshan/recorded").join(name)
}

fn text(name: &str) -> Log {
    let mut reader = LogReader::default();
    for line in fs::read_to_string(path(name)).unwrap().lines() {
        reader.line(line.as_bytes()).unwrap();
    }
    reader.finish().unwrap()
}

/// Times in the four decimals of `darshan-dxt-parser`, in units of the last one.
fn rounded(log: Log) -> Vec<(String, Vec<Request>)> {
    let round = |nanoseconds: u64| (nanoseconds + 50_000) / 100_000;
    let requests = |requests: Vec<Request>| {
        requests.into_iter().map(|r| Request { start: round(r.start), end: round(r.end), ..r }).collect()
    };
    log.files.into_iter().map(|(file, all)| (file, requests(all))).collect()
}

#[test]
fn logs_of_real_runs_are_read_as_by_darshans_own_tool() {
    for name in ["3.4.7", "threads"] {
        let log = read(&fs::read(path(&format!("{name}.darshan"))).unwrap()).unwrap();
        assert_eq!((log.left_out, log.is_incomplete), (0, false), "{name}");
        let all = &log.files["/mnt/shared.dat"];
        let writes: Vec<(u32, u64)> =
            all.iter().filter(|r| r.op == Op::Write).map(|r| (r.rank, r.offset / 65_536)).collect();
        let expected = (0..4).flat_map(|rank| (0..4).map(move |block| (rank, block * 4 + u64::from(rank))));
        assert_eq!(writes, expected.collect::<Vec<_>>(), "{name}");
        assert_eq!(all.len() - writes.len(), 2, "{name}: reads of the process that reads for all");
        assert_eq!(rounded(log), rounded(text(&format!("{name}.txt"))), "{name}");
    }
}
