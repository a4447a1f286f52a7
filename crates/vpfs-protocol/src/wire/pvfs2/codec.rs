//! The "little-endian bytefield" encoding: readers and writers of its primitives (docs/protocols/orangefs.md,
//! message encoding).
//!
//! Integers are little-endian and unaligned. Only `align8` looks at the offset from the start of the payload, so
//! readers and writers always start at the payload's first byte.

use crate::wire::DecodeError;

/// A type that is encoded in one place of a message.
pub(crate) trait Wire: Sized {
    /// A lower bound of the encoded length, to check array counts before allocating.
    const MIN_LEN: usize;
    fn read(r: &mut Reader<'_>) -> Result<Self, DecodeError>;
    fn write(&self, w: &mut Writer);
}

/// Takes fields off a payload, front to back.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(payload: &'a [u8]) -> Self {
        Self { bytes: payload, at: 0 }
    }

    pub(crate) fn at(payload: &'a [u8], at: usize) -> Self {
        Self { bytes: payload, at: at.min(payload.len()) }
    }

    pub(crate) fn offset(&self) -> usize {
        self.at
    }

    pub(crate) fn remaining(&self) -> usize {
        self.bytes.len() - self.at
    }

    pub(crate) fn malformed(&self, what: &'static str) -> DecodeError {
        DecodeError::Malformed { offset: self.at, what }
    }

    pub(crate) fn take(&mut self, len: usize) -> Result<&'a [u8], DecodeError> {
        debug_assert!(self.at <= self.bytes.len(), "a reader never leaves its payload");
        let rest = &self.bytes[self.at..];
        let Some(taken) = rest.get(..len) else { return Err(self.malformed("the message ends inside a field")) };
        self.at += len;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        let taken = self.take(N)?;
        let mut array = [0; N];
        array.copy_from_slice(taken);
        Ok(array)
    }

    pub(crate) fn u32(&mut self) -> Result<u32, DecodeError> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    pub(crate) fn i32(&mut self) -> Result<i32, DecodeError> {
        Ok(i32::from_le_bytes(self.array()?))
    }

    pub(crate) fn u64(&mut self) -> Result<u64, DecodeError> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    pub(crate) fn i64(&mut self) -> Result<i64, DecodeError> {
        Ok(i64::from_le_bytes(self.array()?))
    }

    /// An `i64` that must not be negative.
    pub(crate) fn size(&mut self) -> Result<u64, DecodeError> {
        let start = *self;
        u64::try_from(self.i64()?).map_err(|_| start.malformed("a negative size"))
    }

    pub(crate) fn pad4(&mut self) -> Result<(), DecodeError> {
        self.take(4).map(|_| ())
    }

    pub(crate) fn align8(&mut self) -> Result<(), DecodeError> {
        self.take(self.at.next_multiple_of(8) - self.at).map(|_| ())
    }

    /// A `u32` length; that many bytes must remain.
    fn len(&mut self) -> Result<usize, DecodeError> {
        let start = *self;
        match usize::try_from(self.u32()?) {
            Ok(len) if len <= self.remaining() => Ok(len),
            _ => Err(start.malformed("a length exceeds the message")),
        }
    }

    /// A `u32` count of elements, each at least `min_len` bytes, that the rest of the message can hold.
    ///
    /// Signed counts on the wire are read the same way: a negative one is too large.
    pub(crate) fn count(&mut self, min_len: usize) -> Result<usize, DecodeError> {
        let start = *self;
        let count = self.u32()?;
        self.fits(u64::from(count), min_len).ok_or_else(|| start.malformed("an array exceeds the message"))
    }

    pub(crate) fn fits(&self, count: u64, min_len: usize) -> Option<usize> {
        let count = usize::try_from(count).ok()?;
        (count <= self.remaining() / min_len.max(1)).then_some(count)
    }

    /// A `str`: length, bytes, NUL, padded as a whole to a multiple of 8.
    ///
    /// The NUL of an empty string is not checked, because senders leave it uninitialised.
    pub(crate) fn str(&mut self) -> Result<&'a [u8], DecodeError> {
        let start = *self;
        let len = self.len()?;
        let field = self.take((4 + len + 1).next_multiple_of(8) - 4)?;
        let (text, rest) = field.split_at(len);
        if len > 0 && rest.first() != Some(&0) {
            return Err(start.malformed("a string lacks its final NUL"));
        }
        Ok(text)
    }

    /// A `kv`: length and bytes, padded as a whole to a multiple of 8.
    pub(crate) fn kv(&mut self) -> Result<&'a [u8], DecodeError> {
        let len = self.len()?;
        let field = self.take((4 + len).next_multiple_of(8) - 4)?;
        Ok(&field[..len])
    }

    /// Length, bytes, then alignment to a multiple of 8 in the payload (signatures, certificates).
    pub(crate) fn blob(&mut self) -> Result<&'a [u8], DecodeError> {
        let len = self.len()?;
        let bytes = self.take(len)?;
        self.align8()?;
        Ok(bytes)
    }

    /// A message must be consumed exactly.
    pub(crate) fn finish(&self) -> Result<(), DecodeError> {
        if self.remaining() == 0 { Ok(()) } else { Err(self.malformed("extra bytes after the end of the message")) }
    }

    pub(crate) fn read<T: Wire>(&mut self) -> Result<T, DecodeError> {
        T::read(self)
    }

    pub(crate) fn elements<T: Wire>(&mut self, count: usize) -> Result<Vec<T>, DecodeError> {
        (0..count).map(|_| T::read(self)).collect()
    }
}

#[derive(Debug, Default)]
pub(crate) struct Writer {
    bytes: Vec<u8>,
}

impl Writer {
    pub(crate) fn into_payload(self) -> Vec<u8> {
        self.bytes
    }

    pub(crate) fn put(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    pub(crate) fn u32(&mut self, value: u32) {
        self.put(&value.to_le_bytes());
    }

    pub(crate) fn pad4(&mut self) {
        self.u32(0);
    }

    pub(crate) fn align8(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(8), 0);
    }

    /// A length or count. A value beyond `u32` is cut off: a message of that size cannot be sent, and framing refuses
    /// it.
    pub(crate) fn count(&mut self, count: usize) {
        self.u32(u32::try_from(count).unwrap_or(u32::MAX));
    }

    pub(crate) fn str(&mut self, text: &[u8]) {
        self.padded(text, 1);
    }

    pub(crate) fn kv(&mut self, bytes: &[u8]) {
        self.padded(bytes, 0);
    }

    fn padded(&mut self, bytes: &[u8], extra: usize) {
        self.count(bytes.len());
        self.put(bytes);
        let pad = (4 + bytes.len() + extra).next_multiple_of(8) - 4 - bytes.len();
        self.bytes.resize(self.bytes.len() + pad, 0);
    }

    pub(crate) fn blob(&mut self, bytes: &[u8]) {
        self.count(bytes.len());
        self.put(bytes);
        self.align8();
    }

    pub(crate) fn elements<T: Wire>(&mut self, elements: &[T]) {
        for element in elements {
            element.write(self);
        }
    }
}

macro_rules! wire_integer {
    ($($int:ident),*) => { $(
        impl Wire for $int {
            const MIN_LEN: usize = size_of::<$int>();
            fn read(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
                r.$int()
            }
            fn write(&self, w: &mut Writer) {
                w.put(&self.to_le_bytes());
            }
        }
    )* };
}
wire_integer!(u32, i32, u64, i64);

/// A `u32` (or non-negative `i32`) count, then the elements.
impl<T: Wire> Wire for Vec<T> {
    const MIN_LEN: usize = 4;
    fn read(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let count = r.count(T::MIN_LEN)?;
        r.elements(count)
    }
    fn write(&self, w: &mut Writer) {
        w.count(self.len());
        w.elements(self);
    }
}

/// A signature or certificate, aligned at its end.
impl Wire for Vec<u8> {
    const MIN_LEN: usize = 4;
    fn read(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        r.blob().map(<[u8]>::to_vec)
    }
    fn write(&self, w: &mut Writer) {
        w.blob(self);
    }
}

impl<A: Wire, B: Wire> Wire for (A, B) {
    const MIN_LEN: usize = A::MIN_LEN + B::MIN_LEN;
    fn read(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok((r.read()?, r.read()?))
    }
    fn write(&self, w: &mut Writer) {
        self.0.write(w);
        self.1.write(w);
    }
}

/// Declares structs whose fields are encoded one after another; `[pad4]` or `[align8]` is written before a field, or
/// at the end after a semicolon.
macro_rules! wire_structs {
    ($(
        $(#[$meta:meta])*
        pub struct $name:ident {
            $( $(#[$field_meta:meta])* $([$pad:ident])* pub $field:ident: $ty:ty ),* $(,)? $(; $end:ident)?
        }
    )*) => { $(
        $(#[$meta])*
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub struct $name {
            $( $(#[$field_meta])* pub $field: $ty ),*
        }

        impl $crate::wire::pvfs2::codec::Wire for $name {
            const MIN_LEN: usize = 0 $( + <$ty as $crate::wire::pvfs2::codec::Wire>::MIN_LEN )*;
            fn read(r: &mut $crate::wire::pvfs2::codec::Reader<'_>) -> Result<Self, $crate::wire::DecodeError> {
                $( $( r.$pad()?; )* let $field = r.read()?; )*
                $( r.$end()?; )?
                Ok(Self { $($field),* })
            }
            fn write(&self, w: &mut $crate::wire::pvfs2::codec::Writer) {
                $( $( w.$pad(); )* $crate::wire::pvfs2::codec::Wire::write(&self.$field, w); )*
                $( w.$end(); )?
            }
        }
    )* };
}
pub(crate) use wire_structs;
