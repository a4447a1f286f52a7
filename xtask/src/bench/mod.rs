//! Measurements that need more than one program: `cargo xtask bench <what>`.

mod cluster;
mod faults;
mod fig6;
mod floods;
mod isolation;
mod local;
mod process;
mod program;
mod scratch;
mod target;

const USAGE: &str = "usage: cargo xtask bench <what>

  isolation                  a small application beside a large one, on simulated storage; `--help` lists its options
  isolation --orangefs DIR   a small application beside a large one, in front of a running OrangeFS cluster
  fig6                       vPFS Fig. 6: fairness while applications arrive, a proxy process for each embedded server
  fig6 --orangefs DIR        the same in front of a running OrangeFS cluster
  faults                     verified load while proxies and links between them fail; `--orangefs DIR` as above
  floods                     a small application beside floods of requests that are not held; `--orangefs DIR` as above
";

/// Runs the measurement that the first argument names.
pub(crate) fn run(args: &[&str]) -> Result<(), String> {
    match args {
        ["isolation", rest @ ..] => isolation::run(rest),
        ["fig6", rest @ ..] => fig6::run(rest),
        ["faults", rest @ ..] => faults::run(rest),
        ["floods", rest @ ..] => floods::run(rest),
        _ => Err(USAGE.to_owned()),
    }
}
