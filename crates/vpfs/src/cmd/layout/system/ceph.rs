//! CephFS: layouts of files, with data pools.

use vpfs_harl::{Component, Rules};

use super::super::classes::Classes;
use super::{Limited, UNIT, pool, servers};
use crate::exit::Exit;

pub(super) const SYSTEM: Limited = Limited {
    name: "CephFS",
    rules: Rules {
        unit: UNIT,
        is_power_of_two: false,
        stripe_max: OBJECT_MAX,
        servers_max: u32::MAX,
        has_pools: true,
        has_regions: false,
    },
    reason: "# A file has one stripe unit, a multiple of 64 KiB, in one data pool; so neither classes nor regions can have stripes\n\
             # of their own. CRUSH places objects, so that an OSD may hold two of a round: expect less than is predicted.\n",
    commands,
};

/// Objects are at most this large unless the cluster is configured otherwise.
const OBJECT_MAX: u64 = 128 << 20;
/// The size of objects that a file has by default.
const OBJECT: u64 = 4 << 20;
/// The longest name of a pool that is accepted here.
const POOL_MAX: usize = 64;

fn commands(classes: &Classes, components: &[Component]) -> Result<String, Exit> {
    let mut text = String::new();
    for component in components {
        let unit = component.stripe;
        let object = unit * (OBJECT / unit).max(1);
        let mut fields = vec![
            // Any size of objects is a multiple of this, so that each step is a valid layout.
            ("stripe_unit", UNIT.to_string()),
            ("object_size", object.to_string()),
            ("stripe_unit", unit.to_string()),
            ("stripe_count", servers(classes, component).to_string()),
        ];
        if let Some(pool) = pool(classes, component, POOL_MAX)? {
            text += &format!(
                "# A data pool {pool:?} must place objects on the OSDs of this class (a rule with its device class).\n"
            );
            fields.push(("pool", pool.to_owned()));
        }
        text += "# The file must be empty; ceph.dir.layout for new files in a directory.\ntouch \"$FILE\"\n";
        for (field, value) in fields {
            text += &format!("setfattr -n ceph.file.layout.{field} -v {value} \"$FILE\"\n");
        }
    }
    Ok(text)
}
