//! Workload generators: what applications do to a parallel file system, run and measured.
//!
//! - [`vpfs_sim::model::plan`]: pure, seeded generators of each process's steps: IOR-like, BTIO-like,
//!   multi-md-test-like, interactive.
//! - [`Content`]: file content that any reader can verify.
//! - [`run`]: executes a plan with the client library, against embedded or real servers, directly or through proxies.
//! - [`measure`]: throughput, latency, I/O and think time of a run.
//! - [`table`]: these results in the formats customary in the field.

pub mod measure;
pub mod run;
pub mod table;

use vpfs_core::hash::mix;
use vpfs_sim::model::plan::{Dir, FileId};

// File content that any process can recompute: each byte follows from (seed, file, offset) alone.
//
// A reader can therefore verify its data without a copy of what was written, whichever process wrote it.

/// The content of every file of a run.
#[derive(Clone, Copy, Debug)]
pub struct Content {
    seed: u64,
}

/// The first wrong byte of a checked range, and how many more there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WrongBytes {
    /// Offset of the first wrong byte in the file.
    pub offset: u64,
    /// The expected byte.
    pub expected: u8,
    /// The byte found.
    pub found: u8,
    /// Wrong bytes in the range.
    pub count: u64,
}

const WORD: u64 = 8;

impl Content {
    /// The content for `seed`.
    pub const fn new(seed: u64) -> Self {
        Self { seed }
    }

    /// Fills `out` with the content of `file` from byte `offset` on. About a nanosecond for each 8 bytes.
    pub fn fill(self, file: FileId, offset: u64, out: &mut [u8]) {
        let words = self.words(file);
        let (head, body) = out.split_at_mut(head_len(offset, out.len()));
        let skip = usize::try_from(offset % WORD).expect("below 8");
        head.copy_from_slice(&words.at(offset / WORD)[skip..skip + head.len()]);
        let (whole, tail) = body.as_chunks_mut();
        let first = offset.div_ceil(WORD);
        for (number, word) in (first..).zip(&mut *whole) {
            *word = words.at(number);
        }
        tail.copy_from_slice(&words.at(first + whole.len() as u64)[..tail.len()]);
    }

    /// Compares `data`, read from byte `offset` of `file`, with the expected content.
    pub fn check(self, file: FileId, offset: u64, data: &[u8]) -> Result<(), WrongBytes> {
        let words = self.words(file);
        let (head, body) = data.split_at(head_len(offset, data.len()));
        let skip = usize::try_from(offset % WORD).expect("below 8");
        let mut equal = *head == words.at(offset / WORD)[skip..skip + head.len()];
        let (whole, tail) = body.as_chunks();
        let first = offset.div_ceil(WORD);
        for (number, word) in (first..).zip(whole) {
            equal &= *word == words.at(number);
        }
        equal &= *tail == words.at(first + whole.len() as u64)[..tail.len()];
        if equal { Ok(()) } else { Err(self.describe(file, offset, data)) }
    }

    fn describe(self, file: FileId, offset: u64, data: &[u8]) -> WrongBytes {
        let mut expected = vec![0; data.len()];
        self.fill(file, offset, &mut expected);
        let wrong = || expected.iter().zip(data).enumerate().filter(|(_, (expected, found))| expected != found);
        let (at, (&expected_byte, &found)) = wrong().next().expect("only called for unequal data");
        WrongBytes { offset: offset + at as u64, expected: expected_byte, found, count: wrong().count() as u64 }
    }

    fn words(self, file: FileId) -> Words {
        let (level, a, b) = match file.dir {
            Dir::Base => (0, 0, 0),
            Dir::Sub(a) => (1, a, 0),
            Dir::Nested(a, b) => (2, a, b),
        };
        let fields = [u64::from(file.number), level, u64::from(a), u64::from(b)];
        Words { key: fields.iter().fold(mix(self.seed), |key, field| mix(key ^ field)) }
    }
}

struct Words {
    key: u64,
}

impl Words {
    fn at(&self, number: u64) -> [u8; 8] {
        mix(self.key.wrapping_add(number)).to_le_bytes()
    }
}

/// Bytes up to the next word boundary, or all remaining ones.
fn head_len(offset: u64, len: usize) -> usize {
    let to_boundary = (WORD - offset % WORD) % WORD;
    usize::try_from(to_boundary).expect("below 8").min(len)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: FileId = FileId { dir: Dir::Base, number: 3 };

    #[test]
    fn any_cut_of_a_file_gives_the_same_bytes() {
        let content = Content::new(7);
        let mut whole = [0; 61];
        content.fill(FILE, 0, &mut whole);
        for begin in 0..whole.len() {
            for end in begin..=whole.len() {
                let mut cut = vec![0; end - begin];
                content.fill(FILE, begin as u64, &mut cut);
                assert_eq!(cut, whole[begin..end], "{begin}..{end}");
                assert_eq!(content.check(FILE, begin as u64, &cut), Ok(()));
            }
        }
    }

    #[test]
    fn a_wrong_byte_is_found_wherever_it_is() {
        let content = Content::new(7);
        let mut data = [0; 40];
        content.fill(FILE, 1003, &mut data);
        for at in 0..data.len() {
            let expected = data[at];
            data[at] ^= 0x10;
            let wrong = WrongBytes { offset: 1003 + at as u64, expected, found: data[at], count: 1 };
            assert_eq!(content.check(FILE, 1003, &data), Err(wrong));
            data[at] = expected;
        }
    }

    #[test]
    fn seed_file_and_offset_all_matter() {
        let read = |seed, file: FileId, offset| {
            let mut data = [0; 16];
            Content::new(seed).fill(file, offset, &mut data);
            data
        };
        let other = FileId { dir: Dir::Sub(0), ..FILE };
        let all = [read(1, FILE, 0), read(2, FILE, 0), read(1, other, 0), read(1, FILE, 16)];
        for (i, a) in all.iter().enumerate() {
            assert!(all[..i].iter().all(|b| a != b));
        }
    }
}
