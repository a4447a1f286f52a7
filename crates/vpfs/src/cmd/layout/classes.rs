//! Reads the files of server classes.

use std::path::{Path, PathBuf};

use vpfs_config::tunables::{Kind, Section, Tunable};
use vpfs_config::units::Rate;
use vpfs_config::{Table, read_file, read_text};
use vpfs_harl::{Access, Cluster, ServerClass};

use crate::exit::Exit;

/// Servers that a file may be placed on.
pub(super) struct Classes {
    pub(super) cluster: Cluster,
    /// The addresses of each class's servers; empty if the file has none.
    pub(super) addresses: Vec<Vec<String>>,
}

/// What one file says.
struct Part {
    file: String,
    network: Option<u64>,
    classes: Vec<(ServerClass, Vec<String>)>,
}

const fn key(key: &'static str, kind: Kind, doc: &'static str) -> Tunable {
    Tunable::new(key, kind, doc)
}

const ROOT: Section = Section {
    name: "",
    header: "",
    doc: "Classes of servers that are equal to each other, and their network.",
    keys: &[
        key("network", Kind::Rate, "The rate of the link of each server.").absent_means("that of another file"),
        key("class", Kind::List("[[class]] tables"), "The classes.").absent_means("those of other files"),
    ],
};

const CLASS: Section = Section {
    name: "class",
    header: "[[class]]",
    doc: "Servers that are equal to each other.",
    keys: &[
        key("name", Kind::Text("a name such as \"flash\""), "Its name."),
        key("servers", Kind::Count, "Their number.").absent_means("that of addresses").range("1", "10000"),
        key("addresses", Kind::List("addresses such as \"tcp://oss1:3334\""), "Their addresses.")
            .absent_means("unknown"),
        key("read", ACCESS_SHAPE, "The times of reads."),
        key("write", ACCESS_SHAPE, "The times of writes."),
        key("free", Kind::Size, "What may be placed on each server.").absent_means("as much as the file needs"),
    ],
};

const ACCESS_SHAPE: Kind =
    Kind::Table("a table such as { startup_min = \"1ms\", startup_max = \"12ms\", rate = \"150MB/s\" }");

const ACCESS: Section = Section {
    name: "access",
    header: "",
    doc: "The times of one kind of access.",
    keys: &[
        key("startup_min", Kind::Duration, "The shortest time until the first byte."),
        key("startup_max", Kind::Duration, "The longest."),
        key("rate", Kind::Rate, "The rate from then on."),
    ],
};

impl Classes {
    /// The classes of all files, in the order given.
    pub(super) fn read(paths: &[PathBuf]) -> Result<Self, Exit> {
        Self::join(paths.iter().map(|path| Part::read(path)).collect::<Result<_, _>>()?)
    }

    /// One file after the other. The network's rate is in any of them, or the same in several.
    fn join(parts: Vec<Part>) -> Result<Self, Exit> {
        let files = parts.iter().map(|part| part.file.as_str()).collect::<Vec<_>>().join(", ");
        let network = network(&parts)?.ok_or_else(|| {
            let measured = "`vpfs profile network` measures it";
            Exit::Usage(format!("{files}: network is missing: the rate of the link of each server; {measured}"))
        })?;
        let mut origins: Vec<(String, String)> = Vec::new();
        let (mut classes, mut addresses) = (Vec::new(), Vec::new());
        for part in parts {
            for (class, own) in part.classes {
                if let Some((_, other)) = origins.iter().find(|(name, _)| *name == class.name) {
                    let problem = format!("there is a class {:?} in {other} already; rename one of them", class.name);
                    return Err(Exit::Usage(format!("{}: {problem}", part.file)));
                }
                origins.push((class.name.clone(), part.file.clone()));
                classes.push(class);
                addresses.push(own);
            }
        }
        let cluster = Cluster::new(classes, network).map_err(|error| Exit::Usage(format!("{files}: {error}")))?;
        Ok(Self { cluster, addresses })
    }

    #[cfg(test)]
    pub(super) fn parse(file: &str, text: &str) -> Result<Self, Exit> {
        Self::join(vec![Part::parse(file, text)?])
    }
}

fn network(parts: &[Part]) -> Result<Option<u64>, Exit> {
    let mut given = parts.iter().filter_map(|part| Some((&part.file, part.network?)));
    let Some((first, rate)) = given.next() else { return Ok(None) };
    match given.find(|(_, other)| *other != rate) {
        Some((file, other)) => Err(Exit::Usage(format!(
            "{file}: network is {}, but {} in {first}; keep one of them",
            Rate(other),
            Rate(rate)
        ))),
        None => Ok(Some(rate)),
    }
}

impl Part {
    fn read(path: &Path) -> Result<Self, Exit> {
        let text = read_text(path).map_err(|error| Exit::Usage(format!("{}: {error}", path.display())))?;
        Self::parse(&path.display().to_string(), &text)
    }

    fn parse(file: &str, text: &str) -> Result<Self, Exit> {
        let read = read_file(file, text, &ROOT, |root| {
            let classes = root.tables("class", &CLASS).iter().map(class).collect::<Option<Vec<_>>>()?;
            Some(Self { file: file.to_owned(), network: root.number("network"), classes })
        });
        let read = read.map_err(|problems| Exit::Usage(problems.to_string()))?;
        read.ok_or_else(|| Exit::Usage(format!("{file}: is not complete")))
    }
}

/// `None` after a problem, which has been reported.
fn class(table: &Table<'_>) -> Option<(ServerClass, Vec<String>)> {
    let addresses: Vec<String> = table.texts("addresses").into_iter().map(str::to_owned).collect();
    if let Some(wrong) = addresses.iter().find(|address| !is_plain(address)) {
        table.refuse("addresses", format!("{wrong:?} is no address; write tcp://HOST:PORT"));
    }
    let known = u32::try_from(addresses.len()).ok().filter(|number| *number > 0);
    let servers = table.count("servers").or(known);
    match (servers, known) {
        (None, _) => table.refuse("servers", "is missing; give the number of servers, or their addresses"),
        (Some(servers), Some(known)) if servers != known => {
            table.refuse("addresses", format!("has {known} of them for {servers} servers"));
        }
        _ => {}
    }
    let (read, write) = (access(table, "read"), access(table, "write"));
    let name = table.text("name")?.to_owned();
    let free = table.size("free").map(|size| size.0);
    Some((ServerClass { name, servers: servers?, read: read?, write: write?, free }, addresses))
}

/// Addresses become parts of commands and of lists.
fn is_plain(address: &str) -> bool {
    let may_occur = |letter: char| letter.is_ascii_alphanumeric() || ":/.-_[]%".contains(letter);
    address.strip_prefix("tcp://").is_some_and(|rest| !rest.is_empty() && rest.chars().all(may_occur))
}

fn access(class: &Table<'_>, key: &str) -> Option<Access> {
    if !class.has(key) {
        return None;
    }
    let table = class.table(key, &ACCESS);
    let (min, max) = (table.duration("startup_min")?, table.duration("startup_max")?);
    let access = Access::new(min, max, table.number("rate")?);
    access.map_err(|error| class.refuse(key, error.to_string())).ok()
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in crate::cmd::layout) const TWO: &str = r#"
        network = "112MB/s"
        [[class]]
        name = "disk"
        servers = 6
        read = { startup_min = "300us", startup_max = "1200us", rate = "25MB/s" }
        write = { startup_min = "300us", startup_max = "1200us", rate = "25MB/s" }
        [[class]]
        name = "flash"
        addresses = ["tcp://oss7:3334", "tcp://oss8:3334"]
        read = { startup_min = "50us", startup_max = "100us", rate = "133MB/s" }
        write = { startup_min = "80us", startup_max = "200us", rate = "107MB/s" }
        free = "100GiB"
    "#;

    fn problem(text: &str) -> String {
        match Classes::parse("classes.toml", text) {
            Err(Exit::Usage(message)) => message,
            _ => panic!("{text} was read"),
        }
    }

    #[test]
    fn classes_are_read() {
        let classes = Classes::parse("classes.toml", TWO).unwrap();
        let numbers: Vec<_> = classes.cluster.classes().iter().map(|class| (class.servers, class.free)).collect();
        assert_eq!(numbers, [(6, None), (2, Some(100 << 30))]);
        assert_eq!(classes.addresses[1], ["tcp://oss7:3334", "tcp://oss8:3334"]);
    }

    fn joined(files: &[(&str, &str)]) -> Result<Classes, Exit> {
        Classes::join(files.iter().map(|(file, text)| Part::parse(file, text).unwrap()).collect())
    }

    #[test]
    fn files_are_joined() {
        let (network, classes) = TWO.trim().split_once('\n').unwrap();
        let (disk, flash) = classes.rsplit_once("[[class]]").unwrap();
        let flash = format!("[[class]]{flash}");
        let all = joined(&[("disk.toml", disk), ("flash.toml", &flash), ("network.toml", network)]).unwrap();
        assert_eq!(all.cluster, Classes::parse("classes.toml", TWO).unwrap().cluster);
        let problem = |files: &[(&str, &str)]| match joined(files) {
            Err(Exit::Usage(message)) => message,
            _ => panic!("{files:?} were joined"),
        };
        let absent = problem(&[("disk.toml", disk), ("flash.toml", &flash)]);
        assert!(absent.starts_with("disk.toml, flash.toml: network is missing"), "{absent}");
        let twice = problem(&[("a.toml", TWO), ("b.toml", &flash)]);
        assert_eq!(twice, "b.toml: there is a class \"flash\" in a.toml already; rename one of them");
        let differ = problem(&[("a.toml", TWO), ("b.toml", "network = \"1GB/s\"")]);
        assert_eq!(differ, "b.toml: network is 1GB/s, but 112MB/s in a.toml; keep one of them");
        let none = problem(&[("a.toml", network)]);
        assert_eq!(none, "a.toml: there must be one to four classes of servers");
    }

    #[test]
    fn problems_name_the_place_and_the_fix() {
        assert!(problem("network = \"1GB/s\"").contains("class"), "{}", problem("network = \"1GB/s\""));
        let no_servers = problem(&TWO.replace("servers = 6", ""));
        assert!(no_servers.contains("give the number of servers"), "{no_servers}");
        let differ = problem(&TWO.replace("servers = 6", "servers = 6\naddresses = \"tcp://oss1:3334\""));
        assert!(differ.contains("has 1 of them for 6 servers"), "{differ}");
        let address = problem(&TWO.replace("tcp://oss7:3334", "tcp://oss7:3334; rm x"));
        assert!(address.contains("is no address; write tcp://HOST:PORT"), "{address}");
        let swapped = problem(&TWO.replace("\"1200us\"", "\"1us\""));
        assert!(swapped.contains("swap them"), "{swapped}");
        let slow = problem(&TWO.replace("25MB/s", "25B/s"));
        assert!(slow.contains("is its unit right"), "{slow}");
    }
}
