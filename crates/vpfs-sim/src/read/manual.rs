//! Prints `docs/scenarios.md` from the table of keys.

use vpfs_model::device::DeviceProfile;

use super::{app, keys};

const INTRODUCTION: &str = r#"# Scenario files

<!-- Printed from crates/vpfs-sim/src/read/keys.rs; do not edit. UPDATE=1 cargo test -p vpfs-sim rewrites it. -->

What `vpfs sim` simulates: servers, the network, policies to compare, and applications. [`scenarios/`](../scenarios) has files
to begin with, and [Will it help my cluster?](guide/will-it-help.md) leads through one. Units are those of
[vpfs.toml](config.md), and a policy's `scheduler` is its `[scheduler]`. An unknown key is an error.

An application has one workload: one of `ior`, `btio`, `md`, `wrf`, `pio`, `tile`, `noncontig`, `paced` and `interactive`, each
with its parameters in a table.
"#;

/// The text of `docs/scenarios.md`.
pub fn scenario_manual() -> String {
    let phases = app::PHASES.map(|phase| format!("`{phase}`")).join(", ");
    let models: String = DeviceProfile::NAMED.iter().map(|(name, what)| format!("| `{name}` | {what} |\n")).collect();
    let keys = vpfs_config::manual(INTRODUCTION, keys::SECTIONS);
    format!(
        "{keys}\n## Device models\n\nFor `device`; most stand for the hardware of a paper.\n\n| name | what it is |\n|---|---|\n{models}\n\
         ## Phases\n\nFor `phases`: {phases}. A workload has some of them.\n"
    )
}
