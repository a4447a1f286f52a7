//! Record marking (RFC 5531, section 11): a message is one or more fragments, each with its length in front.

use std::borrow::Cow;

use crate::DecodeError;

/// The longest record in bytes, with its marks: 4 MiB of data, which clients ask for at most, and what is around it.
pub const MAX_RECORD: usize = (4 << 20) + (64 << 10);

/// The largest number of fragments in a record: those of the longest one if a fragment is as small as libraries have
/// their buffers. Every fragment is looked at again when more bytes arrive.
const MAX_FRAGMENTS: usize = 2048;

/// Bytes gathered from the fragments of a record: headers, names and handles fit, data need not.
const GATHERED: usize = 8 << 10;

const MARK: usize = 4;
const IS_LAST: u32 = 1 << 31;

/// Where a record ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// Bytes in it, with all marks.
    pub len: usize,
    fragments: usize,
}

impl Record {
    /// Reads the marks of the record at the start of `bytes`. For a record of one fragment the first mark is enough,
    /// for others all must have arrived; otherwise it is *incomplete*. *Malformed* if it is longer than [`MAX_RECORD`]
    /// or has too many fragments. O(n) in fragments.
    pub fn parse(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut len = 0;
        for fragments in 1..=MAX_FRAGMENTS {
            let offset = len;
            let (is_last, fragment) = mark(bytes, offset)?;
            len += MARK + fragment;
            if len > MAX_RECORD {
                return Err(DecodeError::Malformed { offset, what: "an RPC record of more than 4 MiB" });
            }
            if is_last {
                return Ok(Self { len, fragments });
            }
        }
        Err(DecodeError::Malformed { offset: len, what: "an RPC record of too many fragments" })
    }

    /// Bytes of the message, without marks.
    pub fn message_len(&self) -> usize {
        self.len - self.fragments * MARK
    }

    /// Whether the message is contiguous.
    pub fn is_contiguous(&self) -> bool {
        self.fragments == 1
    }

    /// Where a word of the message that is `at` bytes behind its start is in `bytes`, which start with this record;
    /// `None` if it is not in the first fragment.
    pub fn place(&self, bytes: &[u8], at: usize) -> Option<usize> {
        let (_, fragment) = mark(bytes, 0).ok()?;
        (at + MARK <= fragment).then_some(MARK + at)
    }

    /// The message as far as it is in `bytes`, which start with this record, without marks. If it has several
    /// fragments, no more than its start, copied.
    pub fn message<'a>(&self, bytes: &'a [u8]) -> Cow<'a, [u8]> {
        let bytes = &bytes[..bytes.len().min(self.len)];
        if self.is_contiguous() {
            return Cow::Borrowed(bytes.get(MARK..).unwrap_or_default());
        }
        let (mut gathered, mut at) = (Vec::new(), 0);
        while let Ok((is_last, fragment)) = mark(bytes, at) {
            let (start, room) = (at + MARK, GATHERED - gathered.len());
            let end = (start + fragment.min(room)).min(bytes.len());
            gathered.extend_from_slice(&bytes[start..end]);
            at = start + fragment;
            if is_last || gathered.len() == GATHERED {
                break;
            }
        }
        Cow::Owned(gathered)
    }
}

/// Whether the fragment at this offset is the last one, and its length.
fn mark(bytes: &[u8], at: usize) -> Result<(bool, usize), DecodeError> {
    match bytes.get(at..).and_then(|rest| rest.first_chunk::<MARK>()) {
        Some(mark) => {
            let mark = u32::from_be_bytes(*mark);
            Ok((mark & IS_LAST != 0, (mark & !IS_LAST) as usize))
        }
        None => Err(DecodeError::Incomplete { needed: at + MARK - bytes.len() }),
    }
}
