//! The manual of vpfs.toml.

use super::keys::SECTIONS;
use crate::schema::manual;

const INTRODUCTION: &str = r#"# vpfs.toml

<!-- Printed from crates/vpfs-config/src/vpfs_toml/keys.rs; do not edit. UPDATE=1 cargo test -p vpfs-config rewrites it. -->

One file for the whole cluster: every proxy reads the same file, and `vpfs proxy --server NAME` selects the servers
that a process serves. [`examples/`](../examples) has files to start from; the smallest is

```toml
[[server]]
name = "s1"
address = "tcp://127.0.0.1:3334"

[[listener]]
addresses = { s1 = "tcp://127.0.0.1:5334" }
```

- Sizes are `64KiB` (1024) or `64KB` (1000), rates `100MB/s` or `800Mbit/s`, durations `250ms`, `30s`, `5min`, `1h`.
  A number without its unit is refused.
- An unknown key is an error. All problems of a file are reported at once, each with its line.
- *Live* settings are applied when a running proxy reads the file again; changes of all others need a restart.
- Host lists are those of LLNL and Slurm: `c[001-064,070]`, `r[1-2]n[01-16]`; at most 65536 hosts in a file. Host names
  are looked up in the background, again every five minutes, and at once when the file is read again
  ([names](guide/orangefs.md#host-names)).
"#;

/// The text of `docs/config.md`.
pub fn config_manual() -> String {
    manual::print_with_live(INTRODUCTION, SECTIONS)
}
