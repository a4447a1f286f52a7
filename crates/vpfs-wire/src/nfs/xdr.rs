//! XDR (RFC 4506): big-endian words, and opaque data padded to them.

use crate::DecodeError;

/// A cursor over the bytes of a message. Whatever reaches beyond them is *incomplete*.
#[derive(Clone, Debug)]
pub(super) struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// Bytes that were read.
    pub(super) fn at(&self) -> usize {
        self.at
    }

    /// The bytes that were not read yet.
    pub(super) fn rest(&self) -> &'a [u8] {
        &self.bytes[self.at..]
    }

    pub(super) fn malformed(&self, what: &'static str) -> DecodeError {
        DecodeError::Malformed { offset: self.at, what }
    }

    pub(super) fn take(&mut self, count: usize) -> Result<&'a [u8], DecodeError> {
        let rest = self.rest();
        let taken = rest.get(..count).ok_or(DecodeError::Incomplete { needed: count - rest.len().min(count) })?;
        self.at += count;
        Ok(taken)
    }

    pub(super) fn u32(&mut self) -> Result<u32, DecodeError> {
        let word = self.take(4)?;
        Ok(u32::from_be_bytes([word[0], word[1], word[2], word[3]]))
    }

    pub(super) fn u64(&mut self) -> Result<u64, DecodeError> {
        Ok(u64::from(self.u32()?) << 32 | u64::from(self.u32()?))
    }

    pub(super) fn bool(&mut self) -> Result<bool, DecodeError> {
        match self.u32()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(self.malformed("a boolean that is neither 0 nor 1")),
        }
    }

    /// Opaque data of at most `most` bytes, without its padding.
    pub(super) fn opaque(&mut self, most: usize) -> Result<&'a [u8], DecodeError> {
        let len = self.u32()? as usize;
        if len > most {
            return Err(self.malformed("opaque data longer than its limit"));
        }
        Ok(&self.take(len.next_multiple_of(4))?[..len])
    }
}
