//! Reads the file of server classes.

use std::path::Path;

use vpfs_config::tunables::{Kind, Section, Tunable};
use vpfs_config::{Table, read_file, read_text};
use vpfs_harl::{Access, Cluster, ServerClass};

use crate::exit::Exit;

/// Servers that a file may be placed on.
pub(super) struct Classes {
    pub(super) cluster: Cluster,
    /// The addresses of each class's servers; empty if the file has none.
    pub(super) addresses: Vec<Vec<String>>,
}

const fn key(key: &'static str, kind: Kind, doc: &'static str) -> Tunable {
    Tunable::new(key, kind, doc)
}

const ROOT: Section = Section {
    name: "",
    header: "",
    doc: "Classes of servers that are equal to each other, and their network.",
    keys: &[
        key("network", Kind::Rate, "The rate of the link of each server."),
        key("class", Kind::List("[[class]] tables"), "The classes."),
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
    pub(super) fn read(path: &Path) -> Result<Self, Exit> {
        let text = read_text(path).map_err(|error| Exit::Usage(format!("{}: {error}", path.display())))?;
        Self::parse(&path.display().to_string(), &text)
    }

    fn parse(file: &str, text: &str) -> Result<Self, Exit> {
        let read = read_file(file, text, &ROOT, Self::of);
        let read = read.map_err(|problems| Exit::Usage(problems.to_string()))?;
        read.ok_or_else(|| Exit::Usage(format!("{file}: is not complete")))
    }

    /// `None` after a problem, which has been reported.
    fn of(root: &Table<'_>) -> Option<Self> {
        let tables = root.tables("class", &CLASS);
        let read: Vec<_> = tables.iter().map(class).collect();
        let (classes, addresses) = read.into_iter().collect::<Option<(Vec<_>, Vec<_>)>>()?;
        match Cluster::new(classes, root.number("network")?) {
            Ok(cluster) => Some(Self { cluster, addresses }),
            Err(error) => {
                root.refuse("class", error.to_string());
                None
            }
        }
    }
}

fn class(table: &Table<'_>) -> Option<(ServerClass, Vec<String>)> {
    let addresses: Vec<String> = table.texts("addresses").into_iter().map(str::to_owned).collect();
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

    #[test]
    fn problems_name_the_place_and_the_fix() {
        assert!(problem("network = \"1GB/s\"").contains("class"), "{}", problem("network = \"1GB/s\""));
        let no_servers = problem(&TWO.replace("servers = 6", ""));
        assert!(no_servers.contains("give the number of servers"), "{no_servers}");
        let differ = problem(&TWO.replace("servers = 6", "servers = 6\naddresses = \"tcp://oss1:3334\""));
        assert!(differ.contains("has 1 of them for 6 servers"), "{differ}");
        let exchanged = problem(&TWO.replace("\"1200us\"", "\"1us\""));
        assert!(exchanged.contains("exchange them"), "{exchanged}");
        let slow = problem(&TWO.replace("25MB/s", "25B/s"));
        assert!(slow.contains("is its unit right"), "{slow}");
    }
}
