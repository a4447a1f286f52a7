//! What this host has in memory of files that were written, and on no disk yet.

use std::fs;
use std::path::Path;

/// Where Linux shows the memory of each node.
const NODES: &str = "/sys/devices/system/node";

/// Bytes; 0 where the kernel does not show it. A few files of the kernel are read, which never waits for a disk.
pub(crate) fn unstored() -> u64 {
    let nodes = fs::read_dir(NODES).into_iter().flatten().flatten();
    nodes.map(|node| of_node(&node.path())).sum()
}

fn of_node(node: &Path) -> u64 {
    fs::read_to_string(node.join("meminfo")).map_or(0, |text| text.lines().filter_map(dirty_kib).sum::<u64>() << 10)
}

/// Of a line such as `Node 0 Dirty:   332 kB`.
fn dirty_kib(line: &str) -> Option<u64> {
    let (name, value) = line.split_once(':')?;
    let is_unstored = ["Dirty", "Writeback"].contains(&name.split_whitespace().nth(2)?);
    is_unstored.then(|| value.split_whitespace().next()?.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dirty_pages_and_those_on_their_way_are_unstored() {
        let folder = tempfile::tempdir().unwrap();
        let text =
            "Node 0 MemTotal: 9 kB\nNode 0 Dirty:   332 kB\nNode 0 Writeback:  4 kB\nNode 0 WritebackTmp: 7 kB\n";
        fs::write(folder.path().join("meminfo"), text).unwrap();
        assert_eq!(of_node(folder.path()), 336 << 10);
        assert_eq!(of_node(&folder.path().join("none")), 0);
    }
}
