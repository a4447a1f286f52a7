//! Numbers in the byte order of a log.

/// Bytes with numbers at known places, in either byte order.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bytes<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) is_big_endian: bool,
}

impl Bytes<'_> {
    /// The number at `at`, which the caller knows to be there.
    pub(super) fn u64(&self, at: usize) -> u64 {
        let mut number = [0; 8];
        number.copy_from_slice(&self.bytes[at..at + 8]);
        if self.is_big_endian { u64::from_be_bytes(number) } else { u64::from_le_bytes(number) }
    }

    pub(super) fn i64(&self, at: usize) -> i64 {
        self.u64(at).cast_signed()
    }

    pub(super) fn f64(&self, at: usize) -> f64 {
        f64::from_bits(self.u64(at))
    }

    pub(super) fn u32(&self, at: usize) -> u32 {
        let mut number = [0; 4];
        number.copy_from_slice(&self.bytes[at..at + 4]);
        if self.is_big_endian { u32::from_be_bytes(number) } else { u32::from_le_bytes(number) }
    }
}
