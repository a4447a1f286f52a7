//! The hosts of a list: which items it has, and what each denotes: addresses, networks, names.
//!
//! Own parser: the only crate for it (hostlist 0.3.1) has had no release since 2020 and does not limit its output.

use std::net::{IpAddr, Ipv4Addr};

use ipnet::{IpNet, IpSubnets, Ipv4Net, Ipv4Subnets, Ipv6Subnets, ipv4_mask_to_prefix};

use super::brackets::{self, too_many};
use super::host_refusals as refusals;
use crate::schema::units::quote;

/// What an item denotes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Host {
    Net(IpNet),
    Name(String),
}

/// The hosts of a list such as `c[001-064],login1 10.1.0.0/16`, in the order written; at most `limit`, where a range of
/// addresses counts as many as the networks that it consists of. An error message states the problem and the remedy.
pub(super) fn read(text: &str, limit: usize) -> Result<Vec<Host>, String> {
    refusals::of_list(text)?;
    let mut hosts = Vec::new();
    for item in items(text)? {
        hosts.extend(read_item(item, limit - hosts.len())?);
    }
    Ok(hosts)
}

/// The items of a list, which are separated by commas and blanks outside brackets.
fn items(text: &str) -> Result<Vec<&str>, String> {
    // A blank beside one of these is part of a range or a network.
    let joins = |c: char| matches!(c, '-' | '/');
    let (mut items, mut start, mut inside) = (Vec::new(), 0, false);
    // The last character that is not blank, and where the blanks after it begin.
    let (mut last, mut blank) = (' ', None);
    for (at, c) in text.char_indices() {
        match c {
            '[' if inside => return Err(format!("{} has brackets inside brackets", quote(text))),
            ']' if !inside => return Err(format!("{} has a \"]\" without \"[\"", quote(text))),
            _ if c.is_whitespace() && !inside => {
                blank = blank.or(Some(at));
                continue;
            }
            _ => {}
        }
        if let Some(end) = blank.take().filter(|_| !joins(last) && !joins(c)) {
            items.push(&text[start..end]);
            start = at;
        }
        if c == ',' && !inside {
            items.push(&text[start..at]);
            start = at + 1;
        }
        inside = if inside { c != ']' } else { c == '[' };
        last = c;
    }
    if inside {
        return Err(format!("{} has a \"[\" without \"]\"", quote(text)));
    }
    items.push(&text[start..]);
    Ok(items.into_iter().map(str::trim).filter(|item| !item.is_empty()).collect())
}

fn read_item(item: &str, limit: usize) -> Result<Vec<Host>, String> {
    let mut hosts = Vec::new();
    if let Some((address, rest)) = item.strip_prefix('[').and_then(|inner| inner.split_once(']'))
        && address.contains(':')
    {
        refusals::of_port(item, address, rest)?;
        hosts = denoted(address)?;
    } else {
        refusals::of_item(item)?;
        for text in brackets::expand(without_network_of_lnet(item)?, limit)? {
            hosts.extend(denoted(&text)?);
            if hosts.len() > limit {
                break;
            }
        }
    }
    if hosts.len() > limit { Err(too_many(item, limit)) } else { Ok(hosts) }
}

/// The address or name of a NID of LNet: `10.1.0.5@tcp`, `10.1.0.[1-8]@o2ib1`.
fn without_network_of_lnet(item: &str) -> Result<&str, String> {
    let Some((host, network)) = item.rsplit_once('@') else { return Ok(item) };
    match network.trim_end_matches(|c: char| c.is_ascii_digit()) {
        "tcp" | "o2ib" if !host.contains('@') => Ok(host),
        _ => Err(refusals::of_at_sign(item, host)),
    }
}

/// What one text without brackets denotes: several networks if it is a range of addresses.
fn denoted(text: &str) -> Result<Vec<Host>, String> {
    if let Ok(ip) = text.parse() {
        return address(ip).map(|net| vec![Host::Net(net)]);
    }
    if text.contains('/') {
        return network(text).map(|net| vec![Host::Net(net)]);
    }
    if let Some((low, high)) = text.split_once('-')
        && let Ok(low) = low.trim().parse()
    {
        return range(text, low, high.trim()).map(|nets| nets.map(Host::Net).collect());
    }
    if text.contains(['*', '?']) {
        return pattern(text).map(|net| vec![Host::Net(net)]);
    }
    refusals::of_text(text)?;
    Ok(vec![Host::Name(text.to_owned())])
}

fn address(ip: IpAddr) -> Result<IpNet, String> {
    let ip = ip.to_canonical();
    refusals::of_address(ip).map(|()| ip.into())
}

/// A network: `10.1.0.0/16`, `10.1.0.0/255.255.0.0`, `fd00::/8`.
fn network(text: &str) -> Result<IpNet, String> {
    let (address, prefix) =
        text.split_once('/').map_or((text, ""), |(address, prefix)| (address.trim(), prefix.trim()));
    let Ok(ip) = address.parse::<IpAddr>() else { return Err(refusals::of_network(text, address, prefix)) };
    let bits = match (ip, prefix.parse::<Ipv4Addr>()) {
        (IpAddr::V4(_), Ok(mask)) => ipv4_mask_to_prefix(mask).map_err(|_| refusals::of_mask(text, ip, mask))?,
        _ => prefix.parse().map_err(|_| refusals::of_prefix(text, ip, prefix))?,
    };
    let net = IpNet::new(ip, bits).map_err(|_| refusals::of_prefix(text, ip, prefix))?;
    if net != net.trunc() {
        return Err(format!("{text} has bits set beyond its prefix; write \"{}\"", net.trunc()));
    }
    Ok(canonical(net))
}

/// IPv4 clients are never known by the form of their addresses in IPv6.
fn canonical(net: IpNet) -> IpNet {
    match (net.addr().to_canonical(), net.prefix_len().checked_sub(96)) {
        (IpAddr::V4(ip), Some(bits)) if net.addr().is_ipv6() => Ipv4Net::new_assert(ip, bits).into(),
        _ => net,
    }
}

/// The networks that cover `10.1.0.31-10.1.0.38`, or `10.1.0.31-38`, exactly.
fn range(text: &str, low: IpAddr, high: &str) -> Result<IpSubnets, String> {
    let last = match (low, high.parse::<u8>()) {
        (IpAddr::V4(low), Ok(last)) => {
            let [a, b, c, _] = low.octets();
            IpAddr::from([a, b, c, last])
        }
        _ => high.parse().map_err(|_| refusals::of_range(text, low, high))?,
    };
    let (low, last) = (low.to_canonical(), last.to_canonical());
    if low > last {
        return Err(format!("{} is a descending range; write \"{last}-{low}\"", quote(text)));
    }
    match (low, last) {
        (IpAddr::V4(low), IpAddr::V4(last)) => Ok(IpSubnets::V4(Ipv4Subnets::new(low, last, 0))),
        (IpAddr::V6(low), IpAddr::V6(last)) => Ok(IpSubnets::V6(Ipv6Subnets::new(low, last, 0))),
        _ => Err(format!("{} begins with an IPv4 and ends with an IPv6 address", quote(text))),
    }
}

/// The network of `10.1.0.*` or `10.1.*`.
fn pattern(text: &str) -> Result<IpNet, String> {
    let numbers: Vec<&str> = text.split('.').collect();
    let known = numbers.iter().take_while(|number| **number != "*").count();
    let all_after = numbers[known..].iter().all(|number| *number == "*");
    let octets = numbers[..known].iter().map(|number| number.parse::<u8>()).collect::<Result<Vec<_>, _>>();
    match octets {
        Ok(octets) if (1..4).contains(&known) && all_after && numbers.len() <= 4 => {
            let mut address = [0; 4];
            address[..known].copy_from_slice(&octets);
            let bits = u8::try_from(8 * known).expect("at most 24");
            Ok(Ipv4Net::new_assert(address.into(), bits).into())
        }
        _ => Err(refusals::of_pattern(text)),
    }
}
