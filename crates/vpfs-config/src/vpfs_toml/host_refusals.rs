//! Why a part of a host list denotes no host, and what to write instead.

use std::net::{IpAddr, Ipv4Addr};

use ipnet::ipv4_mask_to_prefix;

use super::host_name::{is_host_name, is_legal};
use crate::schema::units::quote;

/// What job schedulers print instead of hosts.
pub(super) fn of_list(text: &str) -> Result<(), String> {
    let text = text.trim();
    if text.is_empty() || text.chars().all(|c| c == ',' || c.is_whitespace()) {
        return Err("is empty; remove it, or write hosts such as \"c[001-064]\"".into());
    }
    let placeholder = ["none assigned", "none", "null", "n/a"].iter().any(|word| text.eq_ignore_ascii_case(word));
    if placeholder || (text.starts_with('(') && text.ends_with(')')) {
        return Err(format!(
            "{} is what Slurm shows for a job without hosts; write hosts such as \"c[001-064]\"",
            quote(text)
        ));
    }
    Ok(())
}

/// Notations that other tools expand, and that this file does not have.
pub(super) fn of_item(item: &str) -> Result<(), String> {
    let quoted = quote(item);
    let first = item.chars().next().unwrap_or(' ');
    let reason = if let Some(group) = item.strip_prefix('@') {
        format!(
            "{quoted} is a group, which only ClusterShell's own files or a netgroup define; write the hosts that \
             `nodeset -f @{group}` or `getent netgroup {group}` prints"
        )
    } else if item.contains("://") {
        format!("{quoted} is a URL; write its host only")
    } else if first == '-' {
        format!(
            "{quoted} would exclude hosts, which a list cannot; write those that remain, as `nodeset -f` prints them"
        )
    } else if first == '[' {
        format!("{quoted} has no name before its numbers; write it without a blank, for example \"c[001-064]\"")
    } else if item.contains(['!', '&', '^']) {
        format!("{quoted} combines sets of hosts; write the result, as `nodeset -f` prints it")
    } else if item.contains(['{', '}']) {
        format!("{quoted} has braces, which only shells expand; write brackets such as \"c[001-064]\"")
    } else if item.contains('%') {
        let address = item.split('%').next().unwrap_or_default();
        format!(
            "{quoted} is for one network interface, which a list cannot tell apart; write \"{address}\" for all of \
             them, or an address that is valid beyond one link"
        )
    } else if item.split_once('[').is_some_and(|(start, _)| start.contains(':')) {
        format!(
            "{quoted} has numbers in brackets, which are decimal, in an IPv6 address, which is hexadecimal; write a \
             range such as \"fd00::1-fd00::8\", or a network"
        )
    } else {
        return Ok(());
    };
    Err(reason)
}

/// The part of an address in brackets after them.
pub(super) fn of_port(item: &str, address: &str, rest: &str) -> Result<(), String> {
    match rest {
        "" => Ok(()),
        _ if rest.starts_with(':') => Err(with_port(item, address)),
        _ => Err(format!("{} is not an address; write \"{address}\"", quote(item))),
    }
}

fn with_port(item: &str, host: &str) -> String {
    format!("{} has a port, but a list is of hosts; write \"{host}\"", quote(item))
}

/// An `@` that does not begin one of the networks of LNet with IP addresses.
pub(super) fn of_at_sign(item: &str, host: &str) -> String {
    if host.contains('@') {
        return format!("{} has several NIDs; separate them by commas", quote(item));
    }
    format!(
        "{} is neither a host nor a NID with an IP address (@tcp, @o2ib); write the address from which the host \
         connects by TCP",
        quote(item)
    )
}

/// Addresses that no host has.
pub(super) fn of_address(ip: IpAddr) -> Result<(), String> {
    let everything = if ip.is_ipv4() { "0.0.0.0/0" } else { "::/0" };
    match ip {
        ip if ip.is_unspecified() => {
            Err(format!("{ip} is not the address of a host; \"{everything}\" means all of them"))
        }
        IpAddr::V4(mask) if mask.octets()[0] == 255 && ipv4_mask_to_prefix(mask).is_ok() => {
            Err(format!("{ip} is a netmask; write it behind its network, for example \"10.1.0.0/{ip}\""))
        }
        ip if ip.is_multicast() || ip == Ipv4Addr::BROADCAST => {
            Err(format!("{ip} is an address of many hosts, from which none connects"))
        }
        _ => Ok(()),
    }
}

/// Something with a `/` that does not begin with an address.
pub(super) fn of_network(text: &str, address: &str, prefix: &str) -> String {
    let quoted = quote(text);
    if let Some(start) = start_of_address(address).filter(|_| prefix.parse::<u8>().is_ok_and(|bits| bits <= 32)) {
        return format!("{quoted} has only a part of its address; write \"{start}/{prefix}\"");
    }
    if is_numeric(address) {
        return format!("{quoted} does not begin with an address: {}", numeric(address));
    }
    if is_host_name(address) {
        return format!("{quoted} has a \"/\", which belongs to networks, behind a host name; write \"{address}\"");
    }
    format!("{quoted} is not a network; write for example \"10.1.0.0/16\"")
}

pub(super) fn of_mask(text: &str, ip: IpAddr, mask: Ipv4Addr) -> String {
    match ipv4_mask_to_prefix(Ipv4Addr::from_bits(!mask.to_bits())) {
        Ok(bits) => format!("{} has an inverted mask; write \"{ip}/{bits}\"", quote(text)),
        Err(_) => format!("{} has a mask with gaps, which no network has", quote(text)),
    }
}

pub(super) fn of_prefix(text: &str, ip: IpAddr, prefix: &str) -> String {
    let (version, bits, example) = if ip.is_ipv4() { (4, 32, "10.1.0.0/16") } else { (6, 128, "fd00::/64") };
    match prefix {
        "" => format!("{} has no number after \"/\"; write for example \"{example}\"", quote(text)),
        _ if prefix.bytes().all(|b| b.is_ascii_digit()) => {
            format!("{} has more bits than an IPv{version} address, which has {bits}", quote(text))
        }
        _ => format!("{} has no number of bits after \"/\"; write for example \"{example}\"", quote(text)),
    }
}

pub(super) fn of_range(text: &str, low: IpAddr, high: &str) -> String {
    let example = if low.is_ipv4() { "10.1.0.31-10.1.0.38" } else { "fd00::1-fd00::8" };
    format!(
        "{} begins like a range, but {} is not an address; write for example \"{example}\"",
        quote(text),
        quote(high)
    )
}

/// A `*` or `?` that does not stand for the last numbers of an address.
pub(super) fn of_pattern(text: &str) -> String {
    let quoted = quote(text);
    if text.chars().all(|c| matches!(c, '*' | '.')) {
        return format!("{quoted} means every host; write \"0.0.0.0/0\", and \"::/0\" if there are IPv6 clients");
    }
    if text.chars().any(char::is_alphabetic) {
        return names_of_a_pattern(text);
    }
    format!("{quoted} has a \"*\" that is not the end of an address; write a network such as \"10.1.0.0/16\"")
}

fn names_of_a_pattern(text: &str) -> String {
    format!(
        "{} is a pattern of names, but a proxy knows its clients by address and does not ask a name server for each; \
         write their network, or their names as \"c[001-064].example.org\"",
        quote(text)
    )
}

/// A text that is neither an address nor a name.
pub(super) fn of_text(text: &str) -> Result<(), String> {
    let quoted = quote(text);
    let reason = if text.contains(':') {
        colon(text)
    } else if is_numeric(text) {
        format!("{quoted} is not an address: {}", numeric(text))
    } else if text.starts_with('.') {
        names_of_a_pattern(text)
    } else if text.contains("..") {
        format!("{quoted} has an empty part between two dots")
    } else if let Some(odd) = text.chars().find(|c| !u8::try_from(*c).is_ok_and(is_legal)) {
        odd_character(&quoted, odd)
    } else {
        // Its length was checked when it was expanded.
        return Ok(());
    };
    Err(reason)
}

fn odd_character(quoted: &str, odd: char) -> String {
    match odd {
        '\u{2010}'..='\u{2015}' | '\u{2212}' => format!("{quoted} has the typographic dash \"{odd}\"; write \"-\""),
        c if c.is_whitespace() => {
            format!("{quoted} has a blank beside \"-\"; write \"c[001-064]\" for a range, and commas between hosts")
        }
        ';' | '+' | '|' => format!("{quoted} has \"{odd}\" in it; separate hosts by commas"),
        c if c.is_alphabetic() => format!("{quoted} has \"{c}\" in it; write the name as DNS has it, \"xn--...\""),
        c => format!("{quoted} is not a host name: {c:?} cannot be in one"),
    }
}

fn colon(text: &str) -> String {
    let is_hex = |part: &str| part.len() == 2 && part.bytes().all(|b| b.is_ascii_hexdigit());
    match text.split_once(':') {
        Some((host, port)) if is_host_name(host) && port.bytes().all(|b| b.is_ascii_digit()) => with_port(text, host),
        _ if text.split(':').count() >= 6 && text.split(':').all(is_hex) => {
            format!("{} is a hardware address; write the IP address", quote(text))
        }
        _ => format!("{} is not an IPv6 address; write for example \"fd00::7\"", quote(text)),
    }
}

fn is_numeric(text: &str) -> bool {
    text.bytes().all(|b| b.is_ascii_digit() || b == b'.')
}

/// Why digits and dots are not an address.
fn numeric(text: &str) -> String {
    let parts: Vec<&str> = text.split('.').collect();
    let example = "write for example \"10.1.2.3\"";
    if parts.len() == 1 {
        return format!("it is only a number; write a whole name such as \"c{text}\"");
    }
    if let Some(start) = start_of_address(text) {
        let bits = 8 * parts.iter().filter(|part| !part.is_empty()).count();
        return format!("it has not all four numbers; write \"{start}/{bits}\" for the network");
    }
    if let Some(large) = parts.iter().find(|part| part.parse::<u32>().is_ok_and(|number| number > 255)) {
        return format!("{large} is more than 255; {example}");
    }
    if let Some(padded) = parts.iter().find(|part| part.len() > 1 && part.starts_with('0')) {
        return format!("{padded} begins with 0, which some programs read as octal; {example}");
    }
    example.to_owned()
}

/// The address that begins with these one to three numbers, and ends with zeros.
fn start_of_address(text: &str) -> Option<Ipv4Addr> {
    let parts: Vec<&str> = text.strip_suffix('.').unwrap_or(text).split('.').collect();
    let missing = 4_usize.checked_sub(parts.len()).filter(|missing| *missing > 0)?;
    format!("{}{}", parts.join("."), ".0".repeat(missing)).parse().ok()
}
