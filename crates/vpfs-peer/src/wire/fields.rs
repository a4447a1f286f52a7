//! Numbers and texts in the body of a frame.

use vpfs_core::Time;

use super::WireError;

/// The rest of a body.
pub(super) struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    pub(super) fn new(body: &'a [u8]) -> Self {
        Self(body)
    }

    pub(super) fn u8(&mut self) -> Result<u8, WireError> {
        Ok(u8::from_be_bytes(self.array()?))
    }

    pub(super) fn u16(&mut self) -> Result<u16, WireError> {
        Ok(u16::from_be_bytes(self.array()?))
    }

    pub(super) fn u32(&mut self) -> Result<u32, WireError> {
        Ok(u32::from_be_bytes(self.array()?))
    }

    pub(super) fn u64(&mut self) -> Result<u64, WireError> {
        Ok(u64::from_be_bytes(self.array()?))
    }

    pub(super) fn i64(&mut self) -> Result<i64, WireError> {
        Ok(i64::from_be_bytes(self.array()?))
    }

    /// A time in nanoseconds.
    pub(super) fn time(&mut self) -> Result<Time, WireError> {
        Ok(Time::from_nanos(self.u64()?))
    }

    /// A text of at most 255 bytes, after its length.
    pub(super) fn text(&mut self) -> Result<&'a str, WireError> {
        let len = self.u8()?;
        let text = self.bytes(len.into())?;
        std::str::from_utf8(text).map_err(|_| WireError::Value("a name is not text"))
    }

    pub(super) fn array<const N: usize>(&mut self) -> Result<[u8; N], WireError> {
        let (array, rest) = self.0.split_first_chunk().ok_or(WireError::BodyLength)?;
        self.0 = rest;
        Ok(*array)
    }

    /// Refuses a body of which something is left.
    pub(super) fn end(&self) -> Result<(), WireError> {
        if self.0.is_empty() { Ok(()) } else { Err(WireError::BodyLength) }
    }

    /// Refuses a body that cannot have `count` more elements of `len` bytes, before any is allocated.
    pub(super) fn has(&self, count: usize, len: usize) -> Result<(), WireError> {
        if self.0.len() >= count.saturating_mul(len) { Ok(()) } else { Err(WireError::BodyLength) }
    }

    fn bytes(&mut self, len: usize) -> Result<&'a [u8], WireError> {
        let (bytes, rest) = self.0.split_at_checked(len).ok_or(WireError::BodyLength)?;
        self.0 = rest;
        Ok(bytes)
    }
}

pub(super) fn put_u16(out: &mut Vec<u8>, number: u16) {
    out.extend_from_slice(&number.to_be_bytes());
}

pub(super) fn put_u32(out: &mut Vec<u8>, number: u32) {
    out.extend_from_slice(&number.to_be_bytes());
}

pub(super) fn put_u64(out: &mut Vec<u8>, number: u64) {
    out.extend_from_slice(&number.to_be_bytes());
}

/// A text of at most 255 bytes, after its length.
pub(super) fn put_text(out: &mut Vec<u8>, text: &str) {
    out.push(u8::try_from(text.len()).expect("names are checked when they are made"));
    out.extend_from_slice(text.as_bytes());
}
