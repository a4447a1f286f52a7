//! Lustre: progressive file layouts, with pools of OSTs.

use vpfs_harl::{Component, Rules};

use super::super::classes::Classes;
use super::{Limited, UNIT, pool, servers, short};
use crate::exit::Exit;

pub(super) const SYSTEM: Limited = Limited {
    name: "Lustre",
    rules: Rules {
        unit: UNIT,
        is_power_of_two: false,
        // `lfs` reads stripes below 4 GiB.
        stripe_max: 2 << 30,
        servers_max: 2000,
        has_pools: true,
        has_regions: true,
    },
    reason: "# A component has one stripe size on one pool of OSTs, so classes cannot have stripes of their own within it.\n\
             # Stripes are multiples of 64 KiB, and a component ends at a multiple of its stripe.\n",
    commands,
};

/// The longest name of a pool.
const POOL_MAX: usize = 15;

fn commands(classes: &Classes, components: &[Component]) -> Result<String, Exit> {
    let pools = components.iter().map(|component| pool(classes, component, POOL_MAX));
    let pools = pools.collect::<Result<Vec<_>, _>>()?;
    let mut text = String::new();
    let mut named: Vec<&str> = pools.iter().flatten().copied().collect();
    named.sort_unstable();
    named.dedup();
    for pool in &named {
        text += &format!("# Once: lctl pool_new \"$FSNAME.{pool}\"; lctl pool_add \"$FSNAME.{pool}\" OST...\n");
    }
    text += "# Creates a file, or sets the layout of new files in a directory.\nlfs setstripe";
    for (index, (component, pool)) in components.iter().zip(&pools).enumerate() {
        if components.len() > 1 {
            let is_last = index + 1 == components.len();
            text += &format!(" -E {}", if is_last { "-1".into() } else { short(component.bytes.end) });
        }
        text += &format!(" -S {} -c {}", short(component.stripe), servers(classes, component));
        // A component without a pool takes that of the one before it.
        match pool {
            Some(pool) => text += &format!(" -p {pool}"),
            None if !named.is_empty() => text += " -p ignore",
            None => {}
        }
    }
    Ok(text + " \"$FILE\"\n")
}
