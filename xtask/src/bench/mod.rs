//! Measurements that need more than one program: `cargo xtask bench <what>`.

mod isolation;

const USAGE: &str = "usage: cargo xtask bench <what>

  isolation                  a small application beside a large one, on simulated storage; `--help` lists its options
  isolation --orangefs DIR   a small application beside a large one, in front of a running OrangeFS cluster
";

/// Runs the measurement that the first argument names.
pub(crate) fn run(args: &[&str]) -> Result<(), String> {
    match args {
        ["isolation", rest @ ..] => isolation::run(rest),
        _ => Err(USAGE.to_owned()),
    }
}
