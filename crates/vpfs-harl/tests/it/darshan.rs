//! Darshan's logs: of real runs, one that Darshan's own tools read as stated here, and others written as its headers
//! document.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::{env, fs};

use bzip2::write::BzEncoder;
use flate2::Compression;
use flate2::write::ZlibEncoder;
use proptest::prelude::*;
use vpfs_harl::{DarshanError, DarshanReader, Log, LogReader, Op, Request};

use crate::{corpus, fuzz, replay};

/// A write and a read in eighths of a second, which a double has exactly.
const WRITE: Segment = (4096, 8192, 0.125, 0.25);
const READ: Segment = (0, 4096, 0.25, 0.375);

fn request(rank: u32, op: Op, (offset, size): (u64, u64), (start, end): (u64, u64)) -> Request {
    Request { rank, op, offset, size, start: start * 125_000_000, end: end * 125_000_000 }
}

fn write(rank: u32) -> Request {
    request(rank, Op::Write, (4096, 8192), (1, 2))
}

fn read_of(rank: u32) -> Request {
    request(rank, Op::Read, (0, 4096), (2, 3))
}

fn read(log: &[u8]) -> Result<Log, DarshanError> {
    let mut reader = DarshanReader::new(&log[..log.len().min(DarshanReader::HEADER)], log.len() as u64)?;
    while let Some(wanted) = reader.wanted() {
        reader.push(&log[wanted.start as usize..])?;
    }
    reader.finish()
}

fn problem(log: &[u8]) -> String {
    read(log).unwrap_err().to_string()
}

/// A file that two processes write and read in each known form.
fn forms() -> Vec<(&'static str, Builder)> {
    let old = Builder { version: "3.10", is_big_endian: true, ..Builder::default() };
    let first = Builder { version: "3.00", mpiio: (1, Vec::new()), ..Builder::default() };
    let threads = Builder { posix: (2, Vec::new()), mpiio: (3, Vec::new()), ..Builder::default() };
    let plain = Builder { version: "3.20", compression: 2, ..Builder::default() };
    let bzip2 = Builder { compression: 1, ..Builder::default() };
    let long = Builder { names: vec![(3, LONG), (7, "/scratch/a")], ..Builder::default() };
    [
        ("big_endian", old),
        ("counted_names", first),
        ("threads", threads),
        ("uncompressed", plain),
        ("bzip2", bzip2),
        ("long_name", long),
    ]
    .map(|(name, builder)| (name, builder.posix(7, 0, &[WRITE], &[READ]).posix(7, 3, &[WRITE], &[])))
    .into()
}

/// `darshan-dxt-parser` 3.5.0 and PyDarshan 3.5.0 print these requests of it.
#[test]
fn what_darshans_own_tools_read_is_read() {
    let log = fs::read(corpus("darshan").join("two_ranks")).unwrap();
    let expected = [
        request(0, Op::Write, (0, 4096), (1, 2)),
        request(0, Op::Write, (4096, 4096), (2, 4)),
        request(0, Op::Write, (8192, 524_288), (4, 8)),
        request(0, Op::Read, (0, 65_536), (16, 18)),
        request(1, Op::Write, (532_480, 524_288), (4, 12)),
    ];
    let log = read(&log).unwrap();
    assert_eq!(log.files["/scratch/shared.dat"], expected);
    assert_eq!((log.files.len(), log.left_out, log.is_incomplete), (1, 0, false));
}

/// The logs are the corpus of the fuzz target, too; UPDATE=1 writes them.
#[test]
fn each_version_byte_order_and_compression_is_read() {
    for (name, builder) in forms() {
        let (path, log) = (corpus("darshan").join(name), builder.build());
        if env::var_os("UPDATE").is_some() {
            fs::write(&path, &log).unwrap();
        }
        assert_eq!(read(&fs::read(&path).unwrap()), read(&log), "{name}: UPDATE=1 writes it");
        let files = read(&log).unwrap().files;
        assert_eq!(
            files.into_iter().collect::<Vec<_>>(),
            [("/scratch/a".into(), vec![write(0), read_of(0), write(3)])]
        );
    }
}

#[test]
fn posix_requests_count_and_mpi_io_where_there_are_none() {
    let log = Builder::default().posix(7, 0, &[WRITE], &[]).mpiio(7, 0, &[], &[READ, READ]).mpiio(8, 2, &[], &[READ]);
    let log = read(&log.build()).unwrap();
    assert_eq!(log.files["/scratch/a"], [write(0)]);
    assert_eq!(log.files["/scratch/b"], [read_of(2)]);
    assert_eq!(log.files.len(), 2);
}

#[test]
fn requests_that_move_nothing_are_counted_and_files_without_names_numbered() {
    let failed = (4096, -1, 0.5, 0.5);
    let log = Builder::default().posix(7, 0, &[WRITE, failed], &[(0, 0, 0.5, 0.5)]).posix(99, 0, &[WRITE], &[]);
    let log = read(&log.build()).unwrap();
    assert_eq!((log.left_out, log.files["/scratch/a"].len()), (2, 1));
    assert_eq!(log.files["record 99 without a name"], [write(0)]);
}

#[test]
fn a_log_may_say_that_it_is_incomplete() {
    for (version, bit) in [("3.10", 8), ("3.21", 9), ("3.41", 10)] {
        for is_big_endian in [false, true] {
            let builder = Builder { version, is_big_endian, ..Builder::default() }.posix(7, 0, &[WRITE], &[]);
            let is_incomplete = |partial| read(&Builder { partial, ..builder.clone() }.build()).unwrap().is_incomplete;
            assert!(is_incomplete(1 << bit), "{version}");
            // Another module.
            assert!(!is_incomplete(1 << 1), "{version}");
        }
    }
}

#[test]
fn logs_that_cannot_be_read_say_what_to_do() {
    let builder = Builder::default().posix(7, 0, &[WRITE], &[]);
    let with = |change: fn(&mut Builder)| {
        let mut builder = builder.clone();
        change(&mut builder);
        problem(&builder.build())
    };
    assert!(with(|log| log.compression = 9).starts_with("byte 16: compression 9 is not known"));
    assert!(with(|log| log.version = "3.42").starts_with("byte 0: version \"3.42\" of Darshan logs is not supported"));
    assert!(with(|log| log.posix.0 = 3).contains("version 3 of DXT_POSIX is not supported; give the output of"));
    let without = problem(&Builder::default().build());
    assert_eq!(
        without,
        "byte 0: the log has counters only, not the requests that DXT traces; run the job with \
         DARSHAN_MOD_ENABLE=DXT_POSIX"
    );
    let old = Builder { mpiio: (1, Vec::new()), ..Builder::default() }.mpiio(7, 0, &[WRITE], &[]);
    assert!(problem(&old.build()).contains("DXT_MPIIO, version 1) has no offsets"));
}

#[test]
fn damage_is_reported_with_its_place() {
    // What is not compressed can be changed at a known place: region of names at 360 + 1080, then records.
    let builder = Builder { version: "3.20", compression: 2, ..Builder::default() };
    let whole = builder.clone().posix(7, 0, &[WRITE], &[]).build();
    let record = whole.len() - 136;
    let changed = |at: usize, number: u64| {
        let mut log = whole.clone();
        log[at..at + 8].copy_from_slice(&number.to_le_bytes());
        problem(&log)
    };
    assert!(changed(8, 1).starts_with("byte 8: the magic number is not that of a Darshan log"));
    assert!(changed(40 + 9 * 16, 5).contains("byte 184: DXT_POSIX: 136 bytes from byte 5 are not in this log"));
    assert!(
        changed(40 + 9 * 16, u64::MAX).starts_with("byte 184: DXT_POSIX: 136 bytes from byte 18446744073709551615")
    );
    assert!(changed(40 + 9 * 16 + 8, 1 << 60).contains("are not in this log of"));
    assert_eq!(
        changed(record + 8, u64::MAX),
        format!("byte {record}: DXT_POSIX: rank -1 is below 0; is the log damaged? (byte 0 after decompression)")
    );
    assert!(changed(record + 88, 1 << 63).contains("the number of writes -9223372036854775808 is below 0"));
    assert!(changed(record + 88, 1 << 62).contains("DXT_POSIX ends within an item (byte 136 after decompression)"));
    assert!(changed(record + 104, 1 << 62).contains("ends beyond the largest file"));
    assert!(changed(record + 120, f64::NAN.to_bits()).contains("start NaN is not a number of seconds from 0 to 10^10"));
    assert!(changed(record + 128, 0).contains("a request ends before it begins"));
}

/// HDF5's data sets have names of their own, of any length; they used to refuse the whole log.
#[test]
fn long_names_are_left_out_and_counted() {
    let names = vec![(7, "/scratch/a"), (3, LONG), (4, LONG), (8, "/scratch/b")];
    for version in ["3.00", "3.10", "3.41"] {
        let builder = Builder { version, names: names.clone(), ..Builder::default() };
        let log = builder.posix(7, 0, &[WRITE], &[]).posix(8, 0, &[WRITE], &[]).build();
        let log = read(&log).unwrap();
        assert_eq!(log.files.keys().collect::<Vec<_>>(), ["/scratch/a", "/scratch/b"], "{version}");
        assert_eq!(log.notes, ["names of more than 4096 bytes, which no file has, are left out: 2"]);
    }
}

#[test]
fn damage_to_names_leaves_the_requests() {
    let whole = Builder::default().posix(7, 0, &[WRITE], &[]).posix(8, 0, &[WRITE], &[]);
    let log = whole.build();
    let place = |at: usize| u64::from_le_bytes(log[at..at + 8].try_into().unwrap()) as usize;
    let (names, length) = (place(32), place(40));
    let numbers = ["record 7 without a name", "record 8 without a name"];
    let damaged = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut log = log.clone();
        change(&mut log);
        let log = read(&log).unwrap();
        assert_eq!(log.files.len(), 2);
        assert!(log.notes[0].ends_with("files without a name are called by their number"), "{:?}", log.notes);
        (log.files.into_keys().collect::<Vec<_>>(), log.notes)
    };
    assert_eq!(damaged(&|log| log[names] ^= 0xff).0, numbers, "no zlib");
    assert_eq!(damaged(&|log| log[32 + 7] = 0x7f).0, numbers, "not in the log");
    let (files, notes) = damaged(&|log| log[40] -= 6);
    assert!(files.contains(&"/scratch/a".into()) && notes[0].contains("ends within an item"), "{files:?} {notes:?}");
    assert!(length > 6);
    // A length that is wrong takes the names after it.
    let first = Builder { version: "3.00", compression: 2, ..whole };
    let mut log = first.build();
    log[360 + 1080 + 8] = 0xff;
    log[360 + 1080 + 10] = 0xff;
    assert_eq!(read(&log).unwrap().files.into_keys().collect::<Vec<_>>(), numbers);
}

#[test]
fn logs_of_killed_jobs_and_of_old_versions_say_what_they_are() {
    let mut log = Builder::default().posix(7, 0, &[WRITE], &[]).build();
    log[..1328].fill(0);
    assert!(DarshanReader::is_darshan(&log));
    assert!(problem(&log).starts_with("byte 0: the header is of zeros: the job was killed before Darshan wrote it"));
    for (version, major) in [(b"1.21\0\0\0\0", 1), (b"1.24\0\0\0\0", 1), (b"2.06\0\0\0\0", 2)] {
        let log = [version, &[0x37; 2000][..]].concat();
        assert!(DarshanReader::is_darshan(&log));
        let expected =
            format!("byte 0: this is a log of Darshan {major}, which has counters only; requests are traced");
        assert!(problem(&log).starts_with(&expected), "{}", problem(&log));
    }
    assert!(!DarshanReader::is_darshan(b"rank,op,offset,size"));
    assert!(!DarshanReader::is_darshan(&[0; 100]));
}

const LONG: &str = {
    const BYTES: [u8; 5000] = [b'n'; 5000];
    match str::from_utf8(&BYTES) {
        Ok(text) => text,
        Err(_) => panic!(),
    }
};

#[test]
fn a_log_that_is_cut_off_is_refused_at_every_length() {
    for entry in fs::read_dir(corpus("darshan")).unwrap() {
        let log = fs::read(entry.unwrap().path()).unwrap();
        for length in 0..log.len() {
            // What is cut off by a few bytes may have lost names only.
            let read = read(&log[..length]);
            assert!(
                read.as_ref().is_ok_and(|log| !log.notes.is_empty()) || read.is_err_and(|e| e.offset <= length as u64)
            );
        }
        // A file that shrinks while it is read.
        let mut reader = DarshanReader::new(&log[..log.len().min(DarshanReader::HEADER)], log.len() as u64).unwrap();
        assert!(reader.push(&[]).unwrap_err().to_string().contains("the log ends within DXT_POSIX"));
    }
}

#[test]
fn small_compressed_data_may_become_much() {
    // 100,000 requests of one kind take 3 MB, and a few KB compressed.
    let log = Builder::default().posix(7, 0, &vec![WRITE; 100_000], &[]).build();
    assert!(log.len() < 40_000, "{}", log.len());
    assert_eq!(read(&log).unwrap().files["/scratch/a"].len(), 100_000);
}

#[test]
fn fuzz_corpus() {
    replay("darshan", fuzz::darshan, &[0x81]);
}

proptest! {
    #[test]
    fn any_change_is_read_or_refused(
        form in 0..6_usize,
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
        length in any::<prop::sample::Index>(),
    ) {
        let mut log = forms()[form].1.build();
        for (at, byte) in changes {
            let at = at.index(log.len());
            log[at] = byte;
        }
        fuzz::darshan(&log);
        fuzz::darshan(&log[..length.index(log.len())]);
    }
}

// Logs of real runs, see `darshan/recorded/README.md`.

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

// Writes Darshan logs as documented in darshan-log-format.h and darshan-dxt-log-format.h.

/// A request as DXT records it.
type Segment = (i64, i64, f64, f64);

/// A log to write. Only what a test sets differs from a log of Darshan 3.5.0.
#[derive(Clone)]
struct Builder {
    version: &'static str,
    is_big_endian: bool,
    compression: u8,
    partial: u64,
    names: Vec<(u64, &'static str)>,
    /// The version of DXT_POSIX, and its streams, one for each process.
    posix: (u32, Vec<Vec<u8>>),
    mpiio: (u32, Vec<Vec<u8>>),
}

impl Default for Builder {
    fn default() -> Self {
        Self {
            version: "3.41",
            is_big_endian: false,
            compression: 0,
            partial: 0,
            names: vec![(7, "/scratch/a"), (8, "/scratch/b"), (9, "/only/opened")],
            posix: (1, Vec::new()),
            mpiio: (2, Vec::new()),
        }
    }
}

impl Builder {
    /// Adds a stream of a process to DXT_POSIX: a record with writes, then reads.
    fn posix(mut self, file: u64, rank: i64, writes: &[Segment], reads: &[Segment]) -> Self {
        let has_thread = self.posix.0 > 1;
        let record = self.record(file, rank, writes, reads, has_thread);
        self.posix.1.push(record);
        self
    }

    /// The same for DXT_MPIIO.
    fn mpiio(mut self, file: u64, rank: i64, writes: &[Segment], reads: &[Segment]) -> Self {
        let has_thread = self.mpiio.0 > 2;
        let record = self.record(file, rank, writes, reads, has_thread);
        self.mpiio.1.push(record);
        self
    }

    fn record(&self, file: u64, rank: i64, writes: &[Segment], reads: &[Segment], has_thread: bool) -> Vec<u8> {
        let mut out = self.number(file).to_vec();
        out.extend(self.number(rank.cast_unsigned()));
        out.extend(self.number(u64::MAX));
        out.extend([b'h'; 64]);
        out.extend(self.number(writes.len() as u64));
        out.extend(self.number(reads.len() as u64));
        for (offset, length, start, end) in writes.iter().chain(reads) {
            let numbers = [offset.cast_unsigned(), length.cast_unsigned(), start.to_bits(), end.to_bits(), 0x1234];
            numbers.iter().take(if has_thread { 5 } else { 4 }).for_each(|number| out.extend(self.number(*number)));
        }
        out
    }

    fn number(&self, number: u64) -> [u8; 8] {
        if self.is_big_endian { number.to_be_bytes() } else { number.to_le_bytes() }
    }

    fn small(&self, number: u32) -> [u8; 4] {
        if self.is_big_endian { number.to_be_bytes() } else { number.to_le_bytes() }
    }

    fn region(&self, streams: &[Vec<u8>]) -> Vec<u8> {
        let zlib = |stream: &Vec<u8>| {
            let mut encoder = ZlibEncoder::new(Vec::new(), Compression::best());
            encoder.write_all(stream).expect("memory");
            encoder.finish().expect("memory")
        };
        let bzip2 = |stream: &Vec<u8>| {
            let mut encoder = BzEncoder::new(Vec::new(), bzip2::Compression::best());
            encoder.write_all(stream).expect("memory");
            encoder.finish().expect("memory")
        };
        match self.compression {
            0 => streams.iter().flat_map(zlib).collect(),
            1 => streams.iter().flat_map(bzip2).collect(),
            _ => streams.concat(),
        }
    }

    fn name(&self, (file, name): (u64, &str)) -> Vec<u8> {
        match self.version {
            "3.00" => [&self.number(file)[..], &self.small(name.len() as u32), name.as_bytes()].concat(),
            _ => [&self.number(file)[..], name.as_bytes(), &[0]].concat(),
        }
    }

    /// The bytes of the log.
    fn build(&self) -> Vec<u8> {
        let (modules, dxt) = match self.version {
            "3.00" | "3.10" => (16, 8),
            "3.20" | "3.21" => (16, 9),
            _ => (64, 10),
        };
        let header = if modules == 16 { 360 } else { 1328 };
        let job = self.region(&[vec![b'j'; 1080]]);
        let names: Vec<u8> = self.names.iter().flat_map(|name| self.name(*name)).collect();
        let regions = [self.region(&[names]), self.region(&self.posix.1), self.region(&self.mpiio.1)];
        let mut log = self.version.as_bytes().to_vec();
        log.resize(8, 0);
        log.extend(self.number(6_567_223));
        log.push(self.compression);
        if modules == 16 {
            log.extend([0; 3]);
            log.extend(self.small(self.partial as u32));
        } else {
            log.extend([0; 7]);
            log.extend(self.number(self.partial));
        }
        let mut tables = vec![(0, 0); 1 + modules];
        let mut place = header + job.len();
        for (region, table) in regions.iter().zip([0, 1 + dxt, 2 + dxt]) {
            tables[table] = (place, region.len());
            place += region.len();
        }
        tables.iter().for_each(|(place, length)| {
            log.extend(self.number(*place as u64));
            log.extend(self.number(*length as u64));
        });
        for module in 0..modules {
            let version = [self.posix.0, self.mpiio.0].get(module.wrapping_sub(dxt)).copied().unwrap_or(0);
            log.extend(self.small(version));
        }
        assert_eq!(log.len(), header);
        [log, job, regions.concat()].concat()
    }
}
