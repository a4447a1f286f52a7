//! BeeGFS: stripe patterns of directories, with storage pools.

use vpfs_harl::{Component, Rules};

use super::super::classes::Classes;
use super::{Limited, UNIT, pool, servers, short};
use crate::exit::Exit;

pub(super) const SYSTEM: Limited = Limited {
    name: "BeeGFS",
    rules: Rules {
        unit: UNIT,
        is_power_of_two: true,
        stripe_max: 2 << 30,
        servers_max: u32::MAX,
        has_pools: true,
        has_regions: false,
    },
    reason: "# A file has one chunk size, a power of two from 64 KiB, on the targets of one storage pool; so neither classes nor\n\
             # regions can have stripes of their own.\n",
    commands,
};

/// The longest alias of a pool.
const POOL_MAX: usize = 32;

fn commands(classes: &Classes, components: &[Component]) -> Result<String, Exit> {
    let mut text = String::new();
    for component in components {
        let (number, chunk) = (servers(classes, component), short(component.stripe));
        let (pool, seven) = match pool(classes, component, POOL_MAX)? {
            Some(pool) => {
                text += &format!("# A storage pool {pool:?} must have the {number} targets of this class.\n");
                (format!(" --pool {pool}"), " --storagepoolid=ID")
            }
            None => {
                text += &format!("# All {number} targets must be in the storage pool of the directory.\n");
                (String::new(), "")
            }
        };
        text += "# New files in the directory get this layout.\n";
        text += &format!("beegfs entry set --num-targets {number} --chunk-size {chunk}i{pool} \"$DIRECTORY\"\n");
        let seven = format!("--numtargets={number} --chunksize={}{seven}", chunk.to_lowercase());
        text += &format!("# BeeGFS 7: beegfs-ctl --setpattern {seven} \"$DIRECTORY\"\n");
    }
    Ok(text)
}
