//! Writes Darshan logs as documented in darshan-log-format.h and darshan-dxt-log-format.h.

use std::io::Write;

use bzip2::write::BzEncoder;
use flate2::Compression;
use flate2::write::ZlibEncoder;

/// A request as DXT records it.
pub(crate) type Segment = (i64, i64, f64, f64);

/// A log to write. Only what a test sets differs from a log of Darshan 3.5.0.
#[derive(Clone)]
pub(crate) struct Builder {
    pub(crate) version: &'static str,
    pub(crate) is_big_endian: bool,
    pub(crate) compression: u8,
    pub(crate) partial: u64,
    pub(crate) names: Vec<(u64, &'static str)>,
    /// The version of DXT_POSIX, and its streams, one for each process.
    pub(crate) posix: (u32, Vec<Vec<u8>>),
    pub(crate) mpiio: (u32, Vec<Vec<u8>>),
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
    pub(crate) fn posix(mut self, file: u64, rank: i64, writes: &[Segment], reads: &[Segment]) -> Self {
        let has_thread = self.posix.0 > 1;
        let record = self.record(file, rank, writes, reads, has_thread);
        self.posix.1.push(record);
        self
    }

    /// The same for DXT_MPIIO.
    pub(crate) fn mpiio(mut self, file: u64, rank: i64, writes: &[Segment], reads: &[Segment]) -> Self {
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

    pub(crate) fn number(&self, number: u64) -> [u8; 8] {
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
    pub(crate) fn build(&self) -> Vec<u8> {
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
