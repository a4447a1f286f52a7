//! Reads the logs of several runs.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use vpfs_config::tunables::{Kind, Section, Tunable};
use vpfs_config::units::{Rate, parse_size};
use vpfs_config::{Table, read_file, read_text};
use vpfs_core::Bytes;
use vpfs_harl::{Access, Cluster, Columns, DarshanReader, Log, LogReader, ServerClass, TimeUnit, Trace, Unpacked};

use crate::print::Exit;

/// The longest line that is read; names of files have up to 4 KiB.
const LINE_MAX: u64 = 64 << 10;

/// Bytes of a Darshan log that are read at once.
const BLOCK: u64 = 64 << 10;

/// The logs of a command, and how to read those in columns.
#[derive(clap::Args)]
pub(super) struct Logs {
    /// Logs of requests
    #[arg(value_name = "TRACE", required = true)]
    pub(super) traces: Vec<PathBuf>,

    /// Tables: which columns are rank, op, offset, size, time, end, duration and file, by their names or by numbers
    /// from 1, as in "offset=LBA,size=Length" or "op=4,offset=5,size=6" [default: those whose names say so]
    #[arg(long, value_name = "NAME=COLUMN,...")]
    columns: Option<String>,

    /// Tables: the unit of times, s, ms, us, ns, or filetime for those of Windows [default: as the header says, or s]
    #[arg(long, value_name = "UNIT")]
    time_unit: Option<TimeUnit>,

    /// Tables: what offsets and sizes count, such as 512B [default: bytes]
    #[arg(long, value_name = "SIZE", value_parser = some_size)]
    sector: Option<Bytes>,
}

impl Logs {
    /// The runs of each file, or only of the one called `only`.
    pub(super) fn read(&self, weights: &[u32], only: Option<&str>) -> Result<BTreeMap<String, Runs>, Exit> {
        let names = self.columns.as_deref().map_or(Ok(Vec::new()), Columns::parse);
        let names = names.map_err(|error| Exit::Usage(format!("--columns: {error}")))?;
        let columns = Columns { names, time_unit: self.time_unit, sector: self.sector.map(|size| size.0) };
        read(&self.traces, &columns, weights, only)
    }
}

/// The runs that use a file, each with its weight.
pub(super) type Runs = Vec<(Trace, u32)>;

fn read(
    paths: &[PathBuf],
    columns: &Columns,
    weights: &[u32],
    only: Option<&str>,
) -> Result<BTreeMap<String, Runs>, Exit> {
    let mut files: BTreeMap<String, Runs> = BTreeMap::new();
    for (path, weight) in paths.iter().zip(weights) {
        let log = read_as(path, columns)?;
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
    log.notes.iter().for_each(|note| eprintln!("vpfs: {}: {note}", path.display()));
}

fn failed(path: &Path, error: &dyn std::fmt::Display) -> Exit {
    Exit::Failed(format!("{}: {error}", path.display()))
}

/// A log of requests. What was left out of it is told on standard error.
pub(crate) fn read_log(path: &Path) -> Result<Log, Exit> {
    read_as(path, &Columns::default())
}

/// The same for tables whose columns may differ from ours as stated.
fn read_as(path: &Path, columns: &Columns) -> Result<Log, Exit> {
    let log = read_any(path, columns)?;
    warn(path, &log);
    Ok(log)
}

fn read_any(path: &Path, columns: &Columns) -> Result<Log, Exit> {
    let file = File::open(path).map_err(|error| failed(path, &error))?;
    let log = Unpacked::new(&file).map_err(|error| failed(path, &error))?;
    if !DarshanReader::is_darshan(&log.start) {
        return read_lines(path, log, columns);
    }
    let is_file = file.metadata().map_err(|error| failed(path, &error))?.is_file();
    match is_file && log.packings.is_empty() {
        true => read_darshan(path, &file),
        false => read_darshan(path, &spooled(path, log)?),
    }
}

/// An unnamed file of what was packed or comes from a pipe, since Darshan's logs are not read from their start to their
/// end. It need not fit memory.
fn spooled(path: &Path, log: Unpacked<'_>) -> Result<File, Exit> {
    let spool = || -> io::Result<File> {
        let mut file = tempfile::tempfile()?;
        io::copy(&mut log.bytes(), &mut file)?;
        Ok(file)
    };
    spool().map_err(|error| failed(path, &error))
}

fn read_darshan(path: &Path, mut file: &File) -> Result<Log, Exit> {
    let size = file.metadata().map_err(|error| failed(path, &error))?.len();
    let mut read = |from: u64, most: u64| -> io::Result<Vec<u8>> {
        let mut block = Vec::new();
        file.seek(SeekFrom::Start(from))?;
        file.take(most).read_to_end(&mut block)?;
        Ok(block)
    };
    let header = read(0, DarshanReader::HEADER as u64).map_err(|error| failed(path, &error))?;
    let mut reader = DarshanReader::new(&header, size).map_err(|error| failed(path, &error))?;
    while let Some(wanted) = reader.wanted() {
        let block = read(wanted.start, BLOCK).map_err(|error| failed(path, &error))?;
        reader.push(&block).map_err(|error| failed(path, &error))?;
    }
    reader.finish().map_err(|error| failed(path, &error))
}

fn read_lines(path: &Path, log: Unpacked<'_>, columns: &Columns) -> Result<Log, Exit> {
    // Errors of the reader begin with the line.
    let at = |error: vpfs_harl::LogError| Exit::Failed(format!("{}:{error}", path.display()));
    let (mut lines, mut line, mut reader) = (BufReader::new(log.bytes()), Vec::new(), LogReader::new(columns.clone()));
    loop {
        line.clear();
        let length = (&mut lines).take(LINE_MAX).read_until(b'\n', &mut line).map_err(|error| failed(path, &error))?;
        if length == 0 {
            return reader.finish().map_err(at);
        }
        // What is too long in a line is the name of a file, which is left out then.
        if length as u64 == LINE_MAX && !line.ends_with(b"\n") {
            lines.skip_until(b'\n').map_err(|error| failed(path, &error))?;
        }
        reader.line(line.strip_suffix(b"\n").unwrap_or(&line)).map_err(at)?;
    }
}

pub(super) struct Classes {
    pub(super) cluster: Cluster,
    /// The addresses of each class's servers; empty if the file has none.
    pub(super) addresses: Vec<Vec<String>>,
}

struct Part {
    file: String,
    network: Option<u64>,
    classes: Vec<(ServerClass, Vec<String>)>,
}

const fn key(key: &'static str, kind: Kind, doc: &'static str) -> Tunable {
    Tunable::new(key, kind, doc)
}

const ROOT: Section = Section {
    name: "",
    header: "",
    doc: "Classes of servers that are equal to each other, and their network.",
    keys: &[
        key("network", Kind::Rate, "The rate of the link of each server.").absent_means("that of another file"),
        key("class", Kind::List("[[class]] tables"), "The classes.").absent_means("those of other files"),
    ],
};

const CLASS: Section = Section {
    name: "class",
    header: "[[class]]",
    doc: "Servers that are equal to each other.",
    keys: &[
        key("name", Kind::Text("a name such as \"flash\""), "Its name."),
        key("servers", Kind::Count, "Their number.").absent_means("that of addresses").range("1", "10000"),
        key("addresses", Kind::List("addresses such as \"tcp://oss1:3334\""), "Their addresses.")
            .absent_means("unknown"),
        key("read", ACCESS_SHAPE, "The times of reads."),
        key("write", ACCESS_SHAPE, "The times of writes."),
        key("free", Kind::Size, "What may be placed on each server.").absent_means("as much as the file needs"),
    ],
};

const ACCESS_SHAPE: Kind =
    Kind::Table("a table such as { startup_min = \"1ms\", startup_max = \"12ms\", rate = \"150MB/s\" }");

const ACCESS: Section = Section {
    name: "access",
    header: "",
    doc: "The times of one kind of access.",
    keys: &[
        key("startup_min", Kind::Duration, "The shortest time until the first byte."),
        key("startup_max", Kind::Duration, "The longest."),
        key("rate", Kind::Rate, "The rate from then on."),
    ],
};

impl Classes {
    pub(super) fn read(paths: &[PathBuf]) -> Result<Self, Exit> {
        Self::join(paths.iter().map(|path| Part::read(path)).collect::<Result<_, _>>()?)
    }

    /// One file after the other. The network's rate is in any of them, or the same in several.
    fn join(parts: Vec<Part>) -> Result<Self, Exit> {
        let files = parts.iter().map(|part| part.file.as_str()).collect::<Vec<_>>().join(", ");
        let network = network(&parts)?.ok_or_else(|| {
            let measured = "`vpfs profile network` measures it";
            Exit::Usage(format!("{files}: network is missing: the rate of the link of each server; {measured}"))
        })?;
        let mut origins: Vec<(String, String)> = Vec::new();
        let (mut classes, mut addresses) = (Vec::new(), Vec::new());
        for part in parts {
            for (class, own) in part.classes {
                if let Some((_, other)) = origins.iter().find(|(name, _)| *name == class.name) {
                    let problem = format!("there is a class {:?} in {other} already; rename one of them", class.name);
                    return Err(Exit::Usage(format!("{}: {problem}", part.file)));
                }
                origins.push((class.name.clone(), part.file.clone()));
                classes.push(class);
                addresses.push(own);
            }
        }
        let cluster = Cluster::new(classes, network).map_err(|error| Exit::Usage(format!("{files}: {error}")))?;
        Ok(Self { cluster, addresses })
    }

    #[cfg(test)]
    pub(super) fn parse(file: &str, text: &str) -> Result<Self, Exit> {
        Self::join(vec![Part::parse(file, text)?])
    }
}

fn network(parts: &[Part]) -> Result<Option<u64>, Exit> {
    let mut given = parts.iter().filter_map(|part| Some((&part.file, part.network?)));
    let Some((first, rate)) = given.next() else { return Ok(None) };
    match given.find(|(_, other)| *other != rate) {
        Some((file, other)) => Err(Exit::Usage(format!(
            "{file}: network is {}, but {} in {first}; keep one of them",
            Rate(other),
            Rate(rate)
        ))),
        None => Ok(Some(rate)),
    }
}

impl Part {
    fn read(path: &Path) -> Result<Self, Exit> {
        let text = read_text(path).map_err(|error| Exit::Usage(format!("{}: {error}", path.display())))?;
        Self::parse(&path.display().to_string(), &text)
    }

    fn parse(file: &str, text: &str) -> Result<Self, Exit> {
        let read = read_file(file, text, &ROOT, |root| {
            let classes = root.tables("class", &CLASS).iter().map(class).collect::<Option<Vec<_>>>()?;
            Some(Self { file: file.to_owned(), network: root.number("network"), classes })
        });
        let read = read.map_err(|problems| Exit::Usage(problems.to_string()))?;
        read.ok_or_else(|| Exit::Usage(format!("{file}: is not complete")))
    }
}

/// `None` after a problem, which has been reported.
fn class(table: &Table<'_>) -> Option<(ServerClass, Vec<String>)> {
    let addresses: Vec<String> = table.texts("addresses").into_iter().map(str::to_owned).collect();
    if let Some(wrong) = addresses.iter().find(|address| !is_plain(address)) {
        table.refuse("addresses", format!("{wrong:?} is no address; write tcp://HOST:PORT"));
    }
    let known = u32::try_from(addresses.len()).ok().filter(|number| *number > 0);
    let servers = table.count("servers").or(known);
    match (servers, known) {
        (None, _) => table.refuse("servers", "is missing; give the number of servers, or their addresses"),
        (Some(servers), Some(known)) if servers != known => {
            table.refuse("addresses", format!("has {known} of them for {servers} servers"));
        }
        _ => {}
    }
    let (read, write) = (access(table, "read"), access(table, "write"));
    let name = table.text("name")?.to_owned();
    let free = table.size("free").map(|size| size.0);
    Some((ServerClass { name, servers: servers?, read: read?, write: write?, free }, addresses))
}

/// Addresses become parts of commands and of lists.
fn is_plain(address: &str) -> bool {
    let may_occur = |letter: char| letter.is_ascii_alphanumeric() || ":/.-_[]%".contains(letter);
    address.strip_prefix("tcp://").is_some_and(|rest| !rest.is_empty() && rest.chars().all(may_occur))
}

fn access(class: &Table<'_>, key: &str) -> Option<Access> {
    if !class.has(key) {
        return None;
    }
    let table = class.table(key, &ACCESS);
    let (min, max) = (table.duration("startup_min")?, table.duration("startup_max")?);
    let access = Access::new(min, max, table.number("rate")?);
    access.map_err(|error| class.refuse(key, error.to_string())).ok()
}

pub(super) fn some_size(text: &str) -> Result<Bytes, String> {
    match parse_size(text) {
        Ok(size) if (1..=1 << 30).contains(&size.0) => Ok(size),
        Ok(_) => Err("give a size from 1B to 1GiB".into()),
        Err(error) => Err(error.to_string()),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::fs;

    use super::*;

    /// Reads logs named 0, 1, ... with weights 1, 2, ...
    fn read_all(logs: &[&[u8]], only: Option<&str>) -> Result<BTreeMap<String, Runs>, Exit> {
        let folder = tempfile::tempdir().expect("a directory");
        let paths: Vec<PathBuf> = (0..logs.len()).map(|number| folder.path().join(number.to_string())).collect();
        paths.iter().zip(logs).for_each(|(path, log)| fs::write(path, log).expect("a file"));
        read(&paths, &Columns::default(), &(1..=8).take(logs.len()).collect::<Vec<_>>(), only)
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
        let darshan = include_bytes!("../../../../fuzz/corpus/darshan/two_ranks");
        let files = read_all(&[csv, fio, darshan], None).unwrap();
        let runs = |name: &str| files[name].iter().map(|(trace, weight)| (offsets(trace), *weight)).collect::<Vec<_>>();
        assert_eq!(files.keys().collect::<Vec<_>>(), ["/scratch/shared.dat", "a", "b"]);
        assert_eq!(runs("a"), [(vec![0, 8192], 1), (vec![4096], 2)], "in the order of offsets");
        assert_eq!(runs("b"), [(vec![0], 1)]);
        assert_eq!(runs("/scratch/shared.dat"), [(vec![0, 0, 4096, 8192, 532_480], 3)]);
        assert_eq!(read_all(&[csv, fio], Some("b")).unwrap().keys().collect::<Vec<_>>(), ["b"]);
    }

    #[test]
    fn packed_logs_are_read() {
        let pack = |log: &[u8]| {
            let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
            io::Write::write_all(&mut encoder, log).expect("memory");
            encoder.finish().expect("memory")
        };
        let csv = pack(b"op,offset,size,file\nr,8192,4096,a\n");
        let darshan = pack(include_bytes!("../../../../fuzz/corpus/darshan/two_ranks"));
        let files = read_all(&[&csv, &darshan], None).unwrap();
        assert_eq!(files.keys().collect::<Vec<_>>(), ["/scratch/shared.dat", "a"]);
        let cut = problem(&csv[..csv.len() - 9]);
        assert!(cut.ends_with("0: gzip data ends early; was the log copied whole?"), "{cut}");
        // Of Darshan 2, which compressed its logs as a whole.
        let old = problem(&pack(&[b"2.06\0\0\0\0", &[7; 4000][..]].concat()));
        assert!(old.contains("this is a log of Darshan 2, which has counters only"), "{old}");
    }

    #[test]
    fn what_is_no_log_is_refused() {
        assert!(problem(b"PK\x03\x04 and so on").contains("0:1: not a log"));
        assert!(problem(&[0; 4096]).contains("the header is of zeros"));
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
            "0:2: a request of 68719476737 bytes is above the limit of 64 GiB; are columns swapped?",
        );
        ends(of("0,r,9223372036854775807,1,0,0,a"), "ends beyond the largest file; are columns swapped?");
        ends(of("0,r,0,1,12000000000,12000000001,a"), "is not a number of seconds from 0 to 10^10 s");
        ends(of("0,r,0,1,2,1,a"), "0:2: a request ends before it begins; are the two times swapped?");
        ends(
            of("0,r,0,0,0,0,a"),
            "the logs have no request that moves bytes; give those of a run that reads or writes",
        );
        ends(problem(b""), "or the output of `darshan-dxt-parser LOG`");
        assert!(problem(b"").contains("0:1: the log is empty; give a CSV file"));
        let long = format!("{header}0,r,0,1,0,0,{}\n", "n".repeat(100_000));
        assert!(problem(long.as_bytes()).contains("the logs have no request that moves bytes"));
        let folder = tempfile::tempdir().expect("a directory");
        let read = |path: PathBuf| message(read(&[path], &Columns::default(), &[1], None));
        assert!(read(folder.path().to_owned()).contains("Is a directory"));
        assert!(read(folder.path().join("none")).contains("none: No such file"));
    }

    pub(in crate::cmd) const TWO: &str = r#"
        network = "112MB/s"
        [[class]]
        name = "disk"
        servers = 6
        read = { startup_min = "300us", startup_max = "1200us", rate = "25MB/s" }
        write = { startup_min = "300us", startup_max = "1200us", rate = "25MB/s" }
        [[class]]
        name = "flash"
        addresses = ["tcp://oss7:3334", "tcp://oss8:3334"]
        read = { startup_min = "50us", startup_max = "100us", rate = "133MB/s" }
        write = { startup_min = "80us", startup_max = "200us", rate = "107MB/s" }
        free = "100GiB"
    "#;

    fn classes_problem(text: &str) -> String {
        match Classes::parse("classes.toml", text) {
            Err(Exit::Usage(message)) => message,
            _ => panic!("{text} was read"),
        }
    }

    #[test]
    fn classes_are_read() {
        let classes = Classes::parse("classes.toml", TWO).unwrap();
        let numbers: Vec<_> = classes.cluster.classes().iter().map(|class| (class.servers, class.free)).collect();
        assert_eq!(numbers, [(6, None), (2, Some(100 << 30))]);
        assert_eq!(classes.addresses[1], ["tcp://oss7:3334", "tcp://oss8:3334"]);
    }

    fn joined(files: &[(&str, &str)]) -> Result<Classes, Exit> {
        Classes::join(files.iter().map(|(file, text)| Part::parse(file, text).unwrap()).collect())
    }

    #[test]
    fn files_are_joined() {
        let (network, classes) = TWO.trim().split_once('\n').unwrap();
        let (disk, flash) = classes.rsplit_once("[[class]]").unwrap();
        let flash = format!("[[class]]{flash}");
        let all = joined(&[("disk.toml", disk), ("flash.toml", &flash), ("network.toml", network)]).unwrap();
        assert_eq!(all.cluster, Classes::parse("classes.toml", TWO).unwrap().cluster);
        let problem = |files: &[(&str, &str)]| match joined(files) {
            Err(Exit::Usage(message)) => message,
            _ => panic!("{files:?} were joined"),
        };
        let absent = problem(&[("disk.toml", disk), ("flash.toml", &flash)]);
        assert!(absent.starts_with("disk.toml, flash.toml: network is missing"), "{absent}");
        let twice = problem(&[("a.toml", TWO), ("b.toml", &flash)]);
        assert_eq!(twice, "b.toml: there is a class \"flash\" in a.toml already; rename one of them");
        let differ = problem(&[("a.toml", TWO), ("b.toml", "network = \"1GB/s\"")]);
        assert_eq!(differ, "b.toml: network is 1GB/s, but 112MB/s in a.toml; keep one of them");
        let none = problem(&[("a.toml", network)]);
        assert_eq!(none, "a.toml: there must be one to four classes of servers");
    }

    #[test]
    fn problems_name_the_place_and_the_fix() {
        assert!(classes_problem("network = \"1GB/s\"").contains("class"), "{}", classes_problem("network = \"1GB/s\""));
        let no_servers = classes_problem(&TWO.replace("servers = 6", ""));
        assert!(no_servers.contains("give the number of servers"), "{no_servers}");
        let differ = classes_problem(&TWO.replace("servers = 6", "servers = 6\naddresses = \"tcp://oss1:3334\""));
        assert!(differ.contains("has 1 of them for 6 servers"), "{differ}");
        let address = classes_problem(&TWO.replace("tcp://oss7:3334", "tcp://oss7:3334; rm x"));
        assert!(address.contains("is no address; write tcp://HOST:PORT"), "{address}");
        let swapped = classes_problem(&TWO.replace("\"1200us\"", "\"1us\""));
        assert!(swapped.contains("swap them"), "{swapped}");
        let slow = classes_problem(&TWO.replace("25MB/s", "25B/s"));
        assert!(slow.contains("is its unit right"), "{slow}");
    }
}
