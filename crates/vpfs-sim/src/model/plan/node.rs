//! Placement of processes on nodes: nodes are filled in blocks, as MPI launchers do by default.

/// The node of `process`; the first nodes take one more if there is a remainder.
pub fn of_process(process: u32, nodes: u32, processes: u32) -> u32 {
    let share = u64::from(process) * u64::from(nodes) / u64::from(processes);
    u32::try_from(share).expect("below the number of nodes")
}

/// The first process of `node`.
pub fn first_process(node: u32, nodes: u32, processes: u32) -> u32 {
    let first = (u64::from(node) * u64::from(processes)).div_ceil(u64::from(nodes));
    u32::try_from(first).expect("at most the number of processes")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_node_begins_where_the_one_before_it_ends() {
        for processes in 1..20 {
            for nodes in 1..=processes {
                let placed: Vec<u32> = (0..processes).map(|process| of_process(process, nodes, processes)).collect();
                assert!(placed.is_sorted());
                for node in 0..nodes {
                    let first = placed.iter().position(|&n| n == node).unwrap();
                    assert_eq!(first, first_process(node, nodes, processes) as usize);
                }
            }
        }
    }
}
