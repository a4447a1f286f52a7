//! Reads the logs of several runs.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use vpfs_harl::{DarshanReader, Log, LogReader, Trace};

use crate::exit::Exit;

/// The longest line that is read; names of files have up to 4 KiB.
const LINE_MAX: u64 = 64 << 10;
/// Bytes of a Darshan log that are read at once.
const BLOCK: u64 = 64 << 10;

/// The runs that use a file, each with its weight.
pub(super) type Runs = Vec<(Trace, u32)>;

/// The runs of each file, or only of the one called `only`.
pub(super) fn read(paths: &[PathBuf], weights: &[u32], only: Option<&str>) -> Result<BTreeMap<String, Runs>, Exit> {
    let mut files: BTreeMap<String, Runs> = BTreeMap::new();
    for (path, weight) in paths.iter().zip(weights) {
        let log = read_log(path)?;
        warn(path, &log);
        for (name, requests) in log.files.into_iter().filter(|(name, _)| only.is_none_or(|only| only == name)) {
            let trace = Trace::new(requests).map_err(|error| failed(path, &error))?;
            files.entry(name).or_default().push((trace, *weight));
        }
    }
    match only {
        Some(only) if files.is_empty() => Err(Exit::Usage(format!("no log has a request to {only:?}"))),
        _ if files.is_empty() => Err(Exit::Failed(
            "the logs have no request that moves bytes; give those of a run that reads or writes".into(),
        )),
        _ => Ok(files),
    }
}

fn warn(path: &Path, log: &Log) {
    if log.left_out > 0 {
        eprintln!(
            "vpfs: {}: {} requests moved nothing, or have no offset, and are left out",
            path.display(),
            log.left_out
        );
    }
    if log.is_incomplete {
        let remedy = "raise MODMEM and MAX_RECORDS of Darshan for a complete one";
        eprintln!("vpfs: {}: the log says that requests are missing; {remedy}", path.display());
    }
}

fn failed(path: &Path, error: &dyn std::fmt::Display) -> Exit {
    Exit::Failed(format!("{}: {error}", path.display()))
}

fn read_log(path: &Path) -> Result<Log, Exit> {
    let mut file = File::open(path).map_err(|error| failed(path, &error))?;
    let mut start = Vec::new();
    (&mut file).take(DarshanReader::HEADER as u64).read_to_end(&mut start).map_err(|error| failed(path, &error))?;
    match DarshanReader::is_darshan(&start) {
        true => read_darshan(path, &file, &start),
        false => read_lines(path, start.chain(file)),
    }
}

fn read_darshan(path: &Path, mut file: &File, start: &[u8]) -> Result<Log, Exit> {
    let metadata = file.metadata().map_err(|error| failed(path, &error))?;
    if !metadata.is_file() {
        return Err(failed(path, &"a Darshan log is not read from its start to its end; give a file, not a pipe"));
    }
    let mut reader = DarshanReader::new(start, metadata.len()).map_err(|error| failed(path, &error))?;
    let mut block = Vec::new();
    while let Some(wanted) = reader.wanted() {
        block.clear();
        file.seek(SeekFrom::Start(wanted.start)).map_err(|error| failed(path, &error))?;
        file.take(BLOCK).read_to_end(&mut block).map_err(|error| failed(path, &error))?;
        reader.push(&block).map_err(|error| failed(path, &error))?;
    }
    reader.finish().map_err(|error| failed(path, &error))
}

fn read_lines(path: &Path, log: impl Read) -> Result<Log, Exit> {
    // Errors of the reader begin with the line.
    let at = |error: vpfs_harl::LogError| Exit::Failed(format!("{}:{error}", path.display()));
    let (mut lines, mut line, mut reader) = (BufReader::new(log), Vec::new(), LogReader::default());
    loop {
        line.clear();
        let length = (&mut lines).take(LINE_MAX).read_until(b'\n', &mut line).map_err(|error| failed(path, &error))?;
        if length == 0 {
            return reader.finish().map_err(at);
        }
        // The rest of a line that is too long is read as a line of its own, and refused as such.
        reader.line(line.strip_suffix(b"\n").unwrap_or(&line)).map_err(at)?;
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// Reads logs named 0, 1, ... with weights 1, 2, ...
    fn read_all(logs: &[&[u8]], only: Option<&str>) -> Result<BTreeMap<String, Runs>, Exit> {
        let folder = tempfile::tempdir().expect("a directory");
        let paths: Vec<PathBuf> = (0..logs.len()).map(|number| folder.path().join(number.to_string())).collect();
        paths.iter().zip(logs).for_each(|(path, log)| fs::write(path, log).expect("a file"));
        read(&paths, &(1..=8).take(logs.len()).collect::<Vec<_>>(), only)
    }

    fn message(read: Result<BTreeMap<String, Runs>, Exit>) -> String {
        match read {
            Err(Exit::Failed(message) | Exit::Usage(message)) => message,
            other => panic!("{:?}", other.ok()),
        }
    }

    fn problem(log: &[u8]) -> String {
        message(read_all(&[log], None))
    }

    fn offsets(trace: &Trace) -> Vec<u64> {
        trace.requests().iter().map(|request| request.offset).collect()
    }

    #[test]
    fn each_file_has_the_runs_that_use_it() {
        let csv = b"op,offset,size,file\nr,8192,4096,a\nw,0,4096,b\nr,0,6000,a\nr,0,0,c\n";
        let fio = b"fio version 2 iolog\na write 4096 1\n";
        let darshan = include_bytes!("../../../../../fuzz/corpus/darshan/two_ranks");
        let files = read_all(&[csv, fio, darshan], None).unwrap();
        let runs = |name: &str| files[name].iter().map(|(trace, weight)| (offsets(trace), *weight)).collect::<Vec<_>>();
        assert_eq!(files.keys().collect::<Vec<_>>(), ["/scratch/shared.dat", "a", "b"]);
        assert_eq!(runs("a"), [(vec![0, 8192], 1), (vec![4096], 2)], "in the order of offsets");
        assert_eq!(runs("b"), [(vec![0], 1)]);
        assert_eq!(runs("/scratch/shared.dat"), [(vec![0, 0, 4096, 8192, 532_480], 3)]);
        assert_eq!(read_all(&[csv, fio], Some("b")).unwrap().keys().collect::<Vec<_>>(), ["b"]);
    }

    #[test]
    fn requests_may_overlap_and_come_in_any_order() {
        let lines = ["3,r,0,9000,0.5,0.7,a", "1,w,4096,4096,0.1,0.2,a", "0,w,4096,4096,0.1,0.2,a", "2,r,0,1,0.1,9,a"];
        let read_lines = |lines: &[&str]| {
            let log = format!("rank,op,offset,size,time,end,file\n{}\n", lines.join("\n"));
            read_all(&[log.as_bytes()], None).unwrap().remove("a")
        };
        let sorted = read_lines(&lines).unwrap();
        assert_eq!(offsets(&sorted[0].0), [0, 0, 4096, 4096]);
        let backwards: Vec<&str> = lines.iter().rev().copied().collect();
        assert_eq!(read_lines(&backwards), Some(sorted));
    }

    #[test]
    fn what_cannot_be_is_refused_with_place_and_fix() {
        let header = "rank,op,offset,size,time,end,file\n";
        let of = |line: &str| problem(format!("{header}{line}\n").as_bytes());
        let ends = |message: String, end: &str| assert!(message.ends_with(end), "{message}");
        ends(
            of("0,r,0,68719476737,0,0,a"),
            "0:2: a request of 68719476737 bytes is above the limit of 64 GiB; are columns exchanged?",
        );
        ends(of("0,r,9223372036854775807,1,0,0,a"), "ends beyond the largest file; are columns exchanged?");
        ends(of("0,r,0,1,12000000000,12000000001,a"), "more than 300 years; is its time in seconds?");
        ends(of("0,r,0,1,2,1,a"), "0:2: a request ends before it begins; are the two times exchanged?");
        ends(
            of("0,r,0,0,0,0,a"),
            "the logs have no request that moves bytes; give those of a run that reads or writes",
        );
        ends(problem(b""), "or the output of `darshan-dxt-parser LOG`");
        assert!(problem(b"").contains("0:1: the log is empty; give a CSV file"));
        let long = format!("{header}0,r,0,1,0,0,{}\n", "n".repeat(100_000));
        ends(problem(long.as_bytes()), "0:2: the name of the file is longer than 4096 bytes");
        let many: String = (0..10_001).map(|file| format!("0,r,0,1,0,0,{file}\n")).collect();
        ends(
            problem(format!("{header}{many}").as_bytes()),
            "0:10002: there are more than 10000 files; give a part of the log",
        );
        let folder = tempfile::tempdir().expect("a directory");
        let read = |path: PathBuf| message(read(&[path], &[1], None));
        assert!(read(folder.path().to_owned()).contains("Is a directory"));
        assert!(read(folder.path().join("none")).contains("none: No such file"));
    }
}
