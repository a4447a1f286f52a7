//! The manual of vpfs.toml.

use super::keys::SECTIONS;
use crate::schema::manual;

const INTRODUCTION: &str = r#"# vpfs.toml

<!-- Printed from crates/vpfs-config/src/vpfs_toml/keys.rs; do not edit. UPDATE=1 cargo test -p vpfs-config rewrites it. -->

Every proxy of a cluster reads the same file; `vpfs proxy --server NAME` selects the servers that a process serves.
[`examples/`](../examples) has files to start from; the smallest is

```toml
[[server]]
name = "s1"
address = "tcp://127.0.0.1:3334"

[[listener]]
addresses = { s1 = "tcp://127.0.0.1:5334" }
```

- Sizes are `64KiB` or `64K` (1024), or `64KB` (1000), rates `100MB/s` or `800Mbit/s`, durations `250ms`, `30s`, `5min`,
  `1h`. Numbers need their unit. A name has at most 64 letters, digits, `-`, `_` and `.`. Files are relative to this one.
- An unknown key is an error. All problems of a file are reported at once, each with its line.
- A running proxy applies changes when it reads the file again, except those of keys marked *Restart*. Policies in
  parentheses are the ones that use a key.
- Host lists are those of Slurm, pdsh and ClusterShell: `c[001-064,070]`, `r[1-2]n[01-16]-ib`, `c[36-400/2]`; addresses,
  networks (`10.1.0.0/16`, `10.1.*`), ranges (`10.1.0.31-10.1.0.38`) and NIDs of LNet (`10.1.0.[1-8]@tcp`), also several
  with commas or blanks; at most 65536 hosts in a file. For groups (`@compute`), write what `nodeset -f @compute` prints.
  Names are looked up in the background every five minutes and at a reload.
"#;

/// The text of `docs/config.md`.
pub fn config_manual() -> String {
    manual::print_with_live(INTRODUCTION, SECTIONS)
}
