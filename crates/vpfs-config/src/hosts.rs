//! Lists of hosts: addresses, networks and names, as written in the file and as resolved.

use std::collections::HashSet;
use std::net::{IpAddr, Ipv4Addr};

use ipnet::{IpNet, IpSubnets, Ipv4Net, Ipv4Subnets, Ipv6Subnets, ipv4_mask_to_prefix};
use toml::de::DeValue;

use crate::schema::{Table, quoted};
use crate::units::quote;

/// Hosts as written in the file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostList {
    /// Networks and single addresses.
    pub nets: Vec<IpNet>,
    /// Host names, each with the line where it appears.
    pub names: Vec<(String, usize)>,
}

/// A set of addresses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostSet {
    addresses: HashSet<IpAddr>,
    nets: Vec<IpNet>,
}

impl HostSet {
    /// O(number of networks), no allocation.
    pub fn contains(&self, ip: IpAddr) -> bool {
        // A dual-stack socket reports IPv4 clients as ::ffff:10.1.2.3.
        let ip = ip.to_canonical();
        self.addresses.contains(&ip) || self.nets.iter().any(|net| net.contains(&ip))
    }

    pub(crate) fn add(&mut self, ips: impl IntoIterator<Item = IpAddr>) {
        self.addresses.extend(ips.into_iter().map(|ip| ip.to_canonical()));
    }
}

impl HostList {
    /// Reads the list at `key`; `hosts_left` is the number of hosts that the file may still name.
    pub(crate) fn read(table: &Table<'_>, key: &str, hosts_left: &mut usize) -> Self {
        let mut list = Self::default();
        let mut texts = Vec::new();
        for value in table.list(key) {
            let line = table.cx.line_of(value);
            let DeValue::String(text) = value.get_ref() else {
                table.cx.refuse(line, table.path(key), table.mismatch(key, value.get_ref()));
                continue;
            };
            match Self::parse(text, *hosts_left) {
                Ok(hosts) => {
                    *hosts_left -= hosts.len();
                    list.nets.extend(hosts.nets);
                    list.names.extend(hosts.names.into_iter().map(|(name, _)| (name, line)));
                }
                Err(message) => table.cx.refuse(line, table.path(key), message),
            }
            texts.push(text.trim());
        }
        let elements: Vec<String> = texts.iter().map(|text| quoted(text)).collect();
        table.set_list(key, &elements, texts.join(", "));
        list
    }

    /// The hosts denoted by `text`, as cluster tools write them: `c[001-064],login1`, `10.1.0.0/16`,
    /// `10.1.0.31-10.1.0.38`; at most `limit`, where a range of addresses counts as the networks that cover it.
    /// An error says what is no host, why, and what to write instead.
    pub fn parse(text: &str, limit: usize) -> Result<Self, String> {
        let mut list = Self::default();
        for host in read_hosts(text, limit)? {
            match host {
                Host::Net(net) => list.nets.push(net),
                Host::Name(name) => list.names.push((name, 0)),
            }
        }
        Ok(list)
    }

    fn len(&self) -> usize {
        self.nets.len() + self.names.len()
    }

    /// The addresses of the list; `known` has those of each host name, or none.
    pub fn resolve(&self, known: &dyn Fn(&str) -> Vec<IpAddr>) -> HostSet {
        let (single, nets): (Vec<IpNet>, _) =
            self.nets.iter().partition(|net| net.prefix_len() == net.max_prefix_len());
        let mut set = HostSet { nets, ..HostSet::default() };
        set.add(single.iter().map(IpNet::addr));
        self.names.iter().for_each(|(name, _)| set.add(known(name)));
        set
    }
}

// The hosts of a list: which items it has, and what each denotes: addresses, networks, names.
//
// Own parser: the only crate for it (hostlist 0.3.1) has had no release since 2020 and does not limit its output.

#[derive(Clone, Debug, PartialEq, Eq)]
enum Host {
    Net(IpNet),
    Name(String),
}

/// The hosts of a list such as `c[001-064],login1 10.1.0.0/16`, in the order written; at most `limit`, where a range of
/// addresses counts as many as the networks that it consists of. An error message states the problem and the remedy.
fn read_hosts(text: &str, limit: usize) -> Result<Vec<Host>, String> {
    if text.chars().all(|c| c == ',' || c.is_whitespace()) {
        return Err("is empty; remove it, or write hosts such as \"c[001-064]\"".into());
    }
    if is_placeholder(text) {
        return Err(no_host(text));
    }
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
        match rest {
            "" => hosts = denoted(address)?,
            _ if rest.starts_with(':') => return Err(with_port(item, address)),
            _ => return Err(no_address(item)),
        }
    } else {
        // A list excludes nothing; and numbers in brackets are decimal, those of IPv6 addresses are not.
        if item.starts_with(['-', '[']) || item.split_once('[').is_some_and(|(start, _)| start.contains(':')) {
            return Err(no_host(item));
        }
        for text in expand(without_network_of_lnet(item)?, limit)? {
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
        _ => Err(no_host(item)),
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
    match text.split_once(':') {
        Some((host, port)) if is_host_name(host) && port.bytes().all(|b| b.is_ascii_digit()) => {
            Err(with_port(text, host))
        }
        Some(_) => Err(no_address(text)),
        None if text.bytes().all(|b| b.is_ascii_digit() || b == b'.') => Err(no_address(text)),
        None if text.starts_with('.') => Err(pattern_of_names(text)),
        None if is_host_name(text) && !text.contains("..") => Ok(vec![Host::Name(text.to_owned())]),
        None => Err(no_host(text)),
    }
}

fn address(ip: IpAddr) -> Result<IpNet, String> {
    let ip = ip.to_canonical();
    let is_mask = matches!(ip, IpAddr::V4(mask) if mask.octets()[0] == 255);
    match ip {
        ip if ip.is_unspecified() => Err(every_host(&ip.to_string())),
        ip if ip.is_multicast() || is_mask => Err(format!("no host connects from {ip}; write its own address")),
        ip => Ok(ip.into()),
    }
}

/// A network: `10.1.0.0/16`, `10.1.0.0/255.255.0.0`, `fd00::/8`.
fn network(text: &str) -> Result<IpNet, String> {
    let (address, prefix) =
        text.split_once('/').map_or((text, ""), |(address, prefix)| (address.trim(), prefix.trim()));
    let ip = address.parse::<IpAddr>().map_err(|_| no_address(text))?;
    let bits = match (ip, prefix.parse::<Ipv4Addr>()) {
        (IpAddr::V4(_), Ok(mask)) => ipv4_mask_to_prefix(mask).map_err(|_| no_address(text))?,
        _ => prefix.parse().map_err(|_| no_address(text))?,
    };
    let net = IpNet::new(ip, bits).map_err(|_| no_address(text))?;
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
        _ => high.parse().map_err(|_| no_address(text))?,
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
        _ if numbers.iter().all(|number| *number == "*") => Err(every_host(text)),
        _ if text.contains(char::is_alphabetic) => Err(pattern_of_names(text)),
        _ => Err(no_address(text)),
    }
}

/// The longest name in DNS; also keeps a short list from expanding to gigabytes.
const NAME_LIMIT: usize = 253;

pub(crate) fn is_host_name(name: &str) -> bool {
    !name.is_empty() && name.len() <= NAME_LIMIT && name.bytes().all(is_legal)
}

fn is_legal(b: u8) -> bool {
    b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.' | b'_')
}

/// The texts denoted by `item`, in the order written; at most `limit`. Brackets must match.
///
/// Numbers have at least as many digits as the start of their range, as in Slurm: `[01-100]` gives `01`, `99` and
/// `100`. `/2` after a range takes every second number, as in ClusterShell. Several brackets give all combinations.
fn expand(item: &str, limit: usize) -> Result<Vec<String>, String> {
    let mut texts = vec![String::new()];
    let mut rest = item;
    while !rest.is_empty() {
        let endings;
        (endings, rest) = next_part(rest)?;
        if texts.len().saturating_mul(endings.len()) > limit {
            return Err(too_many(item, limit));
        }
        texts = product(&texts, &endings)?;
    }
    Ok(texts)
}

fn too_many(item: &str, limit: usize) -> String {
    format!("{} names too many hosts; {limit} more are allowed", quote(item))
}

/// The texts denoted by the next part (a bracket, or the text before one), and the rest.
fn next_part(text: &str) -> Result<(Endings<'_>, &str), String> {
    match text.strip_prefix('[').and_then(|inner| inner.split_once(']')) {
        Some((ranges, rest)) => Ok((Endings::numbers(ranges)?, rest)),
        None => {
            let (literal, rest) = text.split_at(text.find('[').unwrap_or(text.len()));
            Ok((Endings::Literal(literal), rest))
        }
    }
}

/// Possible continuations of a text, not yet expanded: their number is checked before they take memory.
enum Endings<'a> {
    Literal(&'a str),
    Numbers(Vec<Numbers>),
}

struct Numbers {
    low: u64,
    high: u64,
    step: u64,
    width: usize,
}

impl<'a> Endings<'a> {
    fn numbers(ranges: &'a str) -> Result<Self, String> {
        let ranges = ranges.split(',').map(str::trim).filter(|range| !range.is_empty());
        let numbers = ranges.map(Numbers::read).collect::<Result<Vec<_>, _>>()?;
        if numbers.is_empty() {
            return Err("there is nothing between the brackets; write numbers such as [001-064]".into());
        }
        Ok(Self::Numbers(numbers))
    }

    fn len(&self) -> usize {
        let Self::Numbers(ranges) = self else { return 1 };
        let total = ranges.iter().fold(0_u64, |total, range| total.saturating_add(range.len()));
        usize::try_from(total).unwrap_or(usize::MAX)
    }

    fn for_each(&self, mut visit: impl FnMut(&str)) {
        match self {
            Self::Literal(text) => visit(text),
            Self::Numbers(ranges) => ranges.iter().for_each(|range| range.for_each(&mut visit)),
        }
    }
}

impl Numbers {
    fn read(text: &str) -> Result<Self, String> {
        let shown = text.escape_debug().take(60).collect::<String>();
        if let Some((range, step)) = text.split_once(':') {
            return Err(format!("[{shown}] has an unknown step; write [{range}/{step}]"));
        }
        let (range, step) = text.split_once('/').map_or((text, "1"), |(range, step)| (range.trim(), step.trim()));
        let (low, high) = range.split_once('-').map_or((range, range), |(low, high)| (low.trim(), high.trim()));
        if [low, high, step].iter().any(|digits| digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit())) {
            return Err(format!("[{shown}] is not a number or a range such as [001-064]"));
        }
        // Enough for any cluster, and keeps the arithmetic from overflowing.
        const DIGITS: usize = 9;
        let number = |digits: &str| digits.parse::<u64>().ok().filter(|_| digits.len() <= DIGITS);
        let (Some(first), Some(last), Some(by)) = (number(low), number(high), number(step)) else {
            return Err(format!("[{shown}] has a number of more than {DIGITS} digits"));
        };
        if first > last {
            return Err(format!("[{shown}] is a descending range; write [{high}-{low}]"));
        }
        if by == 0 {
            return Err(format!("[{shown}] has a step of 0; write [{range}]"));
        }
        Ok(Self { low: first, high: last, step: by, width: low.len() })
    }

    fn len(&self) -> u64 {
        (self.high - self.low) / self.step + 1
    }

    fn for_each(&self, visit: &mut impl FnMut(&str)) {
        let width = self.width;
        (0..self.len()).for_each(|index| visit(&format!("{:0width$}", self.low + index * self.step)));
    }
}

fn product(texts: &[String], endings: &Endings<'_>) -> Result<Vec<String>, String> {
    let mut longer = Vec::with_capacity(texts.len() * endings.len());
    for text in texts {
        endings.for_each(|ending| longer.push(format!("{text}{ending}")));
        if let Some(long) = longer.last().filter(|longer| longer.len() > NAME_LIMIT) {
            return Err(format!("{} is longer than the {NAME_LIMIT} characters of a host name", quote(long)));
        }
    }
    Ok(longer)
}

/// What job schedulers print instead of hosts.
fn is_placeholder(text: &str) -> bool {
    ["none assigned", "none", "null", "n/a"].iter().any(|word| text.trim().eq_ignore_ascii_case(word))
}

fn no_host(text: &str) -> String {
    format!("{} is not a host; write names as in \"c[001-064],login1\", addresses or networks", quote(text))
}

fn no_address(text: &str) -> String {
    format!(
        "{} is not an address; write for example \"10.1.2.3\", \"10.1.0.0/16\", \"10.1.0.31-10.1.0.38\" or \"fd00::/8\"",
        quote(text)
    )
}

fn with_port(text: &str, host: &str) -> String {
    format!("{} has a port, but a list is of hosts; write \"{host}\"", quote(text))
}

fn every_host(text: &str) -> String {
    format!("{} means every host; write \"0.0.0.0/0\", and \"::/0\" if there are IPv6 clients", quote(text))
}

fn pattern_of_names(text: &str) -> String {
    format!(
        "{} is a pattern of names, but a proxy knows its clients by address and does not look up the name of each; \
         write their network, or their names as \"c[001-064].example.org\"",
        quote(text)
    )
}
