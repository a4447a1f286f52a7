//! Small types that many messages share: handles, texts, status codes.

use std::fmt;

use super::codec::{Reader, Wire, Writer};
use crate::DecodeError;

/// The number of an object in one file system.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Handle(pub u64);

impl fmt::Display for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Wire for Handle {
    const MIN_LEN: usize = 8;
    fn read(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        r.u64().map(Self)
    }
    fn write(&self, w: &mut Writer) {
        self.0.write(w);
    }
}

/// The number of a file system, as given in the configuration.
pub type FsId = i32;

macro_rules! byte_text {
    ($(#[$meta:meta])* $name:ident, $codec:ident, $min:expr) => {
        $(#[$meta])*
        #[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub Vec<u8>);

        impl $name {
            /// The text with anything that is not UTF-8 replaced.
            pub fn to_string_lossy(&self) -> std::borrow::Cow<'_, str> {
                String::from_utf8_lossy(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "\"{}\"", self.0.escape_ascii())
            }
        }

        impl AsRef<[u8]> for $name {
            fn as_ref(&self) -> &[u8] {
                &self.0
            }
        }

        impl From<&str> for $name {
            fn from(text: &str) -> Self {
                Self(text.as_bytes().to_vec())
            }
        }

        impl From<String> for $name {
            fn from(text: String) -> Self {
                Self(text.into_bytes())
            }
        }

        impl From<&[u8]> for $name {
            fn from(bytes: &[u8]) -> Self {
                Self(bytes.to_vec())
            }
        }

        impl Wire for $name {
            const MIN_LEN: usize = $min;
            fn read(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
                r.$codec().map(Self::from)
            }
            fn write(&self, w: &mut Writer) {
                w.$codec(&self.0);
            }
        }
    };
}

byte_text! {
    /// A name, path or address: bytes without their final NUL, not necessarily UTF-8.
    Text, str, 8
}
byte_text! {
    /// A key or value of an extended attribute; keys and textual values usually end in a NUL of their own.
    KeyVal, kv, 8
}

/// Rows of a table that is sent column by column: the count, all first items, all second items.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Columns<A, B>(pub Vec<(A, B)>);

impl<A: Wire, B: Wire> Wire for Columns<A, B> {
    const MIN_LEN: usize = 4;
    fn read(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let count = r.count(A::MIN_LEN + B::MIN_LEN)?;
        let first = r.elements::<A>(count)?;
        let second = r.elements::<B>(count)?;
        Ok(Self(first.into_iter().zip(second).collect()))
    }
    fn write(&self, w: &mut Writer) {
        w.count(self.0.len());
        self.0.iter().for_each(|row| row.0.write(w));
        self.0.iter().for_each(|row| row.1.write(w));
    }
}

/// Like [`Columns`] with three columns.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Columns3<A, B, C>(pub Vec<(A, B, C)>);

impl<A: Wire, B: Wire, C: Wire> Wire for Columns3<A, B, C> {
    const MIN_LEN: usize = 4;
    fn read(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let count = r.count(A::MIN_LEN + B::MIN_LEN + C::MIN_LEN)?;
        let first = r.elements::<A>(count)?;
        let second = r.elements::<B>(count)?;
        let third = r.elements::<C>(count)?;
        Ok(Self(first.into_iter().zip(second).zip(third).map(|((a, b), c)| (a, b, c)).collect()))
    }
    fn write(&self, w: &mut Writer) {
        w.count(self.0.len());
        self.0.iter().for_each(|row| row.0.write(w));
        self.0.iter().for_each(|row| row.1.write(w));
        self.0.iter().for_each(|row| row.2.write(w));
    }
}

/// An array with padding between its count and its elements.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Padded<T>(pub Vec<T>);

impl<T: Wire> Wire for Padded<T> {
    const MIN_LEN: usize = 8;
    fn read(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let count = r.count(T::MIN_LEN)?;
        r.pad4()?;
        r.elements(count).map(Self)
    }
    fn write(&self, w: &mut Writer) {
        w.count(self.0.len());
        w.pad4();
        w.elements(&self.0);
    }
}

/// The kind of an object; one of the constants.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ObjType(pub i32);

impl ObjType {
    /// Not specified.
    pub const NONE: Self = Self(0);
    /// Metadata of a file.
    pub const METAFILE: Self = Self(1);
    /// One server's share of a file's data.
    pub const DATAFILE: Self = Self(2);
    /// A directory.
    pub const DIRECTORY: Self = Self(4);
    /// A symbolic link.
    pub const SYMLINK: Self = Self(8);
    /// One server's share of a directory's entries.
    pub const DIRDATA: Self = Self(16);
    /// Internal to servers.
    pub const INTERNAL: Self = Self(32);
}

impl Wire for ObjType {
    const MIN_LEN: usize = 4;
    fn read(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        r.i32().map(Self)
    }
    fn write(&self, w: &mut Writer) {
        self.0.write(w);
    }
}

/// The direction of a data operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum IoType {
    /// Data from the server.
    Read = 1,
    /// Data to the server.
    Write = 2,
}

impl Wire for IoType {
    const MIN_LEN: usize = 4;
    fn read(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let start = *r;
        match r.i32()? {
            1 => Ok(Self::Read),
            2 => Ok(Self::Write),
            _ => Err(start.malformed("an I/O that is neither a read nor a write")),
        }
    }
    fn write(&self, w: &mut Writer) {
        w.u32(*self as u32);
    }
}
