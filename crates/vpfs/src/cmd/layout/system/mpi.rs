//! MPI-IO: hints of ROMIO, with which its drivers for Lustre and OrangeFS create files.

use vpfs_harl::{Component, Rules};

use super::super::classes::Classes;
use super::{Limited, UNIT, servers};
use crate::exit::Exit;

pub(super) const SYSTEM: Limited = Limited {
    name: "MPI-IO hints",
    rules: Rules {
        unit: UNIT,
        is_power_of_two: false,
        // Hints are 32-bit integers.
        stripe_max: 1 << 30,
        servers_max: 2000,
        has_pools: false,
        has_regions: false,
    },
    reason: "# Hints give a file one stripe size on a number of servers, not which; so neither classes nor regions can have stripes\n\
             # of their own. A file that is created before with the layout for its file system keeps that.\n",
    commands,
};

fn commands(classes: &Classes, components: &[Component]) -> Result<String, Exit> {
    let mut text =
        "# Name this file in the environment variable ROMIO_HINTS. Only ROMIO reads it, not OMPIO of Open MPI.\n"
            .to_owned();
    for component in components {
        text += &format!("striping_unit {}\nstriping_factor {}\n", component.stripe, servers(classes, component));
    }
    Ok(text)
}
