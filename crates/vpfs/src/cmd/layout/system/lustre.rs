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

/// The same as a file that `lfs` reads.
pub(super) const YAML: Limited = Limited { commands: template, ..SYSTEM };

/// The longest name of a pool.
const POOL_MAX: usize = 15;

/// Components from here on need 64-bit numbers, which the YAML reader of old versions has not.
const LARGE: u64 = 1 << 31;

fn commands(classes: &Classes, components: &[Component]) -> Result<String, Exit> {
    let pools = Pools::of(classes, components)?;
    let mut text = pools.preparation();
    text += "# Creates a file, or sets the layout of new files in a directory.\nlfs setstripe";
    for (index, component) in components.iter().enumerate() {
        if components.len() > 1 {
            let is_last = index + 1 == components.len();
            text += &format!(" -E {}", if is_last { "-1".into() } else { short(component.bytes.end) });
        }
        text += &format!(" -S {} -c {}", short(component.stripe), servers(classes, component));
        if let Some(pool) = pools.of_component(index) {
            text += &format!(" -p {pool}");
        }
    }
    Ok(text + " \"$FILE\"\n")
}

/// A template as `lfs getstripe --yaml` prints it, without what is decided when the file is created
/// [Lustre: lustre/utils/lfs.c, build_layout_from_yaml_node].
fn template(classes: &Classes, components: &[Component]) -> Result<String, Exit> {
    let pools = Pools::of(classes, components)?;
    let mut text = pools.preparation();
    text += "# lfs setstripe --yaml=TEMPLATE \"$FILE\" creates a file with this layout.\n";
    let (last, indent) = (components.len().saturating_sub(1), if components.len() > 1 { "    " } else { "" });
    if components[..last].iter().any(|component| component.bytes.end >= LARGE) {
        text +=
            "# Old versions of lfs misread ends from 2 GiB on; compare with what `lfs getstripe \"$FILE\"` shows.\n";
    }
    for (index, component) in components.iter().enumerate() {
        if last > 0 {
            let end = if index == last { "EOF".to_owned() } else { component.bytes.end.to_string() };
            text += &format!("component{index}:\n  lcme_extent.e_start: {}\n", component.bytes.start);
            text += &format!("  lcme_extent.e_end: {end}\n  sub_layout:\n");
        }
        text += &format!("{indent}lmm_stripe_count: {}\n", servers(classes, component));
        text += &format!("{indent}lmm_stripe_size: {}\n", component.stripe);
        if let Some(pool) = pools.of_component(index) {
            text += &format!("{indent}lmm_pool: {pool}\n");
        }
    }
    Ok(text)
}

/// The pool of each component.
struct Pools<'a>(Vec<Option<&'a str>>);

impl<'a> Pools<'a> {
    fn of(classes: &'a Classes, components: &[Component]) -> Result<Self, Exit> {
        components.iter().map(|component| pool(classes, component, POOL_MAX)).collect::<Result<_, _>>().map(Self)
    }

    /// What must exist.
    fn preparation(&self) -> String {
        let mut named: Vec<&str> = self.0.iter().flatten().copied().collect();
        named.sort_unstable();
        named.dedup();
        let line =
            |pool| format!("# Once: lctl pool_new \"$FSNAME.{pool}\"; lctl pool_add \"$FSNAME.{pool}\" OST...\n");
        named.into_iter().map(line).collect()
    }

    /// A component without a pool would take that of the one before it.
    fn of_component(&self, index: usize) -> Option<&'a str> {
        self.0[index].or_else(|| self.0.iter().any(Option::is_some).then_some("ignore"))
    }
}
