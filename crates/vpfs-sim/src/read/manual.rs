//! Prints `docs/scenarios.md` from the table of keys.

use crate::model::device::DeviceProfile;

use super::{app, keys};

const INTRODUCTION: &str = r#"# Scenario files

<!-- Printed from crates/vpfs-sim/src/read/keys.rs; do not edit. UPDATE=1 cargo test -p vpfs-sim rewrites it. -->

Servers, a network, policies to compare, and applications, for `vpfs sim`. [`scenarios/`](../scenarios) has files to
start from; the [guide](guide/simulate.md) explains one. Units, `[[share]]`, and the keys of a policy's `scheduler` are
those of [vpfs.toml](config.md). An unknown key is an error. An application has exactly one workload, with its parameters
in a table.
"#;

/// The text of `docs/scenarios.md`.
pub fn scenario_manual() -> String {
    let phases = app::PHASES.map(|phase| format!("`{phase}`")).join(", ");
    let models: String = DeviceProfile::NAMED.iter().map(|(name, what)| format!("|`{name}`|{what}|\n")).collect();
    let keys = {
        let own: Vec<_> = keys::SECTIONS.iter().copied().filter(|section| section.name != "share").collect();
        vpfs_config::manual(INTRODUCTION, &own)
    };
    format!(
        "{keys}\n## Device models\n\nValues of `device`; most represent the hardware of a paper.\n\n|name|description|\n|---|---|\n{models}\n\
         ## Phases\n\nFor `phases`: {phases}. Each workload has some of them.\n"
    )
}
