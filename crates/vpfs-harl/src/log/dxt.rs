//! What `darshan-dxt-parser` prints: Darshan's extended traces (DXT) as text.

use std::collections::BTreeMap;

use super::{Requests, number, op, seconds, shown};
use crate::trace::Request;

/// Stands before the name of a file in the requests of MPI-IO; no file name contains it.
const MPIIO: char = '\0';

/// The file that the following lines are about.
#[derive(Debug, Default)]
pub(super) struct Dxt {
    file: String,
}

impl Dxt {
    pub(super) fn line(&mut self, text: &str, requests: &mut Requests) -> Result<(), String> {
        if let Some(comment) = text.strip_prefix('#') {
            if let Some((_, name)) = comment.split_once("file_name: ") {
                name.trim().clone_into(&mut self.file);
            }
            requests.is_incomplete |= comment.contains("incomplete data");
            return Ok(());
        }
        if text.is_empty() {
            return Ok(());
        }
        if !text.starts_with("X_") && text.split('\t').count() > 3 {
            return Err("this is what `darshan-parser` prints, which has counters only; give the log itself, or what \
                        `darshan-dxt-parser` prints of it"
                .into());
        }
        // What follows is a list of OSTs or a thread, depending on file system and version.
        let fields: Vec<&str> = text.split_ascii_whitespace().take(8).collect();
        let [module, rank, access, _segment, offset, length, start, end] = fields[..] else {
            return Err(format!("{} has {} fields instead of 8; is the log cut off?", shown(text), fields.len()));
        };
        let file = match module {
            "X_POSIX" => self.file.clone(),
            "X_MPIIO" => format!("{MPIIO}{}", self.file),
            other => return Err(format!("module {} is neither X_POSIX nor X_MPIIO", shown(other))),
        };
        let op = op(access).ok_or_else(|| format!("{} is neither read nor write", shown(access)))?;
        let rank = number("rank", rank)
            .and_then(|rank| u32::try_from(rank).map_err(|_| format!("rank {rank} is too large")))?;
        if offset == "-1" {
            // Darshan before 3.1.9 did not record offsets of MPI-IO.
            requests.left_out += 1;
            return Ok(());
        }
        let (offset, size) = (number("offset", offset)?, number("length", length)?);
        let (start, end) = (seconds("start", start)?, seconds("end", end)?);
        requests.add(&file, Request { rank, op, offset, size, start, end })
    }
}

/// The requests of each file on one layer: POSIX, which is what the file system sees, or MPI-IO where there is no
/// POSIX.
pub(super) fn one_layer(files: BTreeMap<String, Vec<Request>>) -> BTreeMap<String, Vec<Request>> {
    let mut chosen = BTreeMap::new();
    // Names with the mark of MPI-IO come first, so POSIX replaces them.
    for (name, requests) in files {
        chosen.insert(name.trim_start_matches(MPIIO).to_owned(), requests);
    }
    chosen
}

#[cfg(test)]
mod tests {
    use super::super::tests::{problem, read};
    use super::*;
    use crate::trace::Op;

    const SAMPLE: &str = "\
# darshan log version: 3.41
# DXT_POSIX module: 300 bytes (compressed), ver=1

# DXT, file_id: 5535098150127470308, file_name: /scratch/region 1.dat
# DXT, rank: 0, hostname: vm
# DXT, write_count: 2, read_count: 1
# DXT, mnt_pt: /, fs_type: ext4
# Module    Rank  Wt/Rd  Segment          Offset       Length    Start(s)      End(s)
 X_POSIX       0  write        3           12288            4096      0.0032      0.0032
 X_POSIX       1  write        4           16384          524288      0.0032      0.0033  [ 4] [ 5]
 X_POSIX       0   read        0           16384          100000      0.0038      0.0038  N/A
# DXT, file_id: 5535098150127470308, file_name: /scratch/region 1.dat
 X_MPIIO       0  write        0           0               9999999      0.0032      0.0032
# DXT, file_id: 6, file_name: /scratch/other
 X_MPIIO       0  write        0           0               10      0.0032      0.0032
 X_MPIIO       0  write        0           -1               10      0.0032      0.0032
";

    #[test]
    fn posix_requests_count_and_mpi_io_where_there_are_none() {
        let log = read(SAMPLE).unwrap();
        let request = |rank, op, offset, size, start, end| Request { rank, op, offset, size, start, end };
        let expected = [
            request(0, Op::Write, 12_288, 4096, 3_200_000, 3_200_000),
            request(1, Op::Write, 16_384, 524_288, 3_200_000, 3_300_000),
            request(0, Op::Read, 16_384, 100_000, 3_800_000, 3_800_000),
        ];
        assert_eq!(log.files["/scratch/region 1.dat"], expected);
        assert_eq!(log.files["/scratch/other"].len(), 1);
        assert_eq!((log.files.len(), log.left_out, log.is_incomplete), (2, 1, false));
    }

    #[test]
    fn a_log_may_say_that_it_is_incomplete() {
        let text = "# darshan log version: 3.41\n# *WARNING*: The DXT_POSIX module contains incomplete data!\n";
        assert!(read(text).unwrap().is_incomplete);
    }

    #[test]
    fn problems_name_their_line() {
        let after = |line: &str| problem(&format!("# DXT, file_id: 1, file_name: a\n{line}"));
        assert_eq!(
            after("X_POSIX 0 write 3"),
            "2: \"X_POSIX 0 write 3\" has 4 fields instead of 8; is the log cut off?"
        );
        assert!(after("POSIX\t-1\t123\tPOSIX_OPENS\t8\t/a\t/\text4").contains("this is what `darshan-parser` prints"));
        assert_eq!(after("X_STDIO 0 write 0 1 2 0.1 0.2"), "2: module \"X_STDIO\" is neither X_POSIX nor X_MPIIO");
        assert_eq!(after("X_POSIX 0 seek 0 1 2 0.1 0.2"), "2: \"seek\" is neither read nor write");
        assert_eq!(
            after("X_POSIX 0 read 0 1 2 0.2 0.1"),
            "2: a request ends before it begins; are the two times swapped?"
        );
    }
}
