//! Status codes of replies: OrangeFS numbers, not those of the host (docs/protocols/orangefs.md, status codes).

use std::fmt;

/// The status of a reply: zero, or a negative OrangeFS error.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Status(pub i32);

/// Marks an OrangeFS error code.
const ERROR_BIT: i32 = 1 << 30;
/// Marks, in addition to [`ERROR_BIT`], codes that are not an errno.
const NON_ERRNO_BIT: i32 = 1 << 29;

impl Status {
    /// Success.
    pub const OK: Self = Self(0);

    /// The status that reports `errno` (class 0).
    pub const fn error(errno: Errno) -> Self {
        Self(-(ERROR_BIT | errno.0))
    }

    /// Whether the status is zero. Only such replies have a body.
    pub const fn is_ok(self) -> bool {
        self.0 == 0
    }

    /// The errno of an error; `None` for success and for codes that are not an errno.
    pub const fn errno(self) -> Option<Errno> {
        match self.0.checked_neg() {
            Some(code) if code > 0 && code & ERROR_BIT != 0 && code & NON_ERRNO_BIT == 0 => Some(Errno(code & 0x7f)),
            _ => None,
        }
    }

    /// The error class (bits 7 to 9); 1 is the transport, the only class that generic client code retries.
    pub const fn class(self) -> i32 {
        self.0.wrapping_neg() >> 7 & 7
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.is_ok(), self.errno().and_then(Errno::name)) {
            (true, _) => f.write_str("OK"),
            (_, Some(name)) => f.write_str(name),
            _ => write!(f, "status {}", self.0),
        }
    }
}

/// An OrangeFS error number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Errno(pub i32);

macro_rules! errnos {
    ($($name:ident = $code:expr),* $(,)?) => {
        #[expect(missing_docs, reason = "the names are those of POSIX")]
        impl Errno {
            $( pub const $name: Self = Self($code); )*

            /// The POSIX name, if the number is one of the constants here.
            pub const fn name(self) -> Option<&'static str> {
                match self.0 {
                    $( $code => Some(stringify!($name)), )*
                    _ => None,
                }
            }
        }
    };
}

errnos! {
    EPERM = 1, ENOENT = 2, EINTR = 3, EIO = 4, EBADF = 6, EAGAIN = 7, ENOMEM = 8, EBUSY = 10, EEXIST = 11,
    ENOTDIR = 13, EISDIR = 14, EINVAL = 15, EFBIG = 17, ENOSPC = 18, EROFS = 19, ENAMETOOLONG = 23, ENOSYS = 25,
    ENOTEMPTY = 26, EPROTO = 38, EOVERFLOW = 40, EOPNOTSUPP = 46, ETIMEDOUT = 53, ECONNREFUSED = 54, EACCES = 58,
    ECONNRESET = 59,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_of_the_wire() {
        let enoent = Status::error(Errno::ENOENT);
        assert_eq!(enoent.0, -1_073_741_826);
        assert_eq!(enoent.errno(), Some(Errno::ENOENT));
        assert_eq!(enoent.class(), 0);
        assert_eq!(enoent.to_string(), "ENOENT");
        assert_eq!(Status::OK.errno(), None);
        assert_eq!(Status(i32::MIN).errno(), None);
        assert_eq!(Status(-(ERROR_BIT | NON_ERRNO_BIT | 3)).errno(), None);
        assert_eq!(Status(-(ERROR_BIT | 1 << 7 | 53)).class(), 1);
    }
}
