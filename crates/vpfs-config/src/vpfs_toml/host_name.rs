//! What a host name may consist of.

/// The longest name in DNS; also keeps a short list from expanding to gigabytes.
pub(super) const NAME_LIMIT: usize = 253;

/// Whether `name` consists of characters of host names and IPv4 addresses.
pub(super) fn is_host_name(name: &str) -> bool {
    !name.is_empty() && name.len() <= NAME_LIMIT && name.bytes().all(is_legal)
}

pub(super) fn is_legal(b: u8) -> bool {
    b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.' | b'_')
}
