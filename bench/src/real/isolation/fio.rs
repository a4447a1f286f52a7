//! The small application: fio with calls of 8 KiB, one at a time on each mount.

use std::path::PathBuf;
use std::process::Command;

use super::super::process::Running;
use super::super::scratch::{PREFIX, Scratch};
use super::{Access, Figures};

/// Bytes of a call.
const CALL: u32 = 8 << 10;

/// Writes the files once, so that the measurement does not allocate space.
pub(super) fn lay_out(scratch: &Scratch, dirs: &[PathBuf]) -> Result<(), String> {
    run(scratch, dirs, &["--rw=write", "--bs=1m"]).map(drop)
}

/// Runs for `seconds` at random offsets.
pub(super) fn measure(scratch: &Scratch, dirs: &[PathBuf], small: Access, seconds: u32) -> Result<Figures, String> {
    let runtime = format!("--runtime={seconds}");
    let size = format!("--bs={CALL}");
    let mut args = vec![&*size, "--thinktime=2000", "--time_based", &runtime];
    args.extend(match small {
        Access::Write => &["--rw=randwrite", "--fsync=1"][..],
        Access::Read => &["--rw=randread"],
    });
    figures(&run(scratch, dirs, &args)?, small)
}

/// Runs fio and returns its JSON. Its jobs form one group, so that percentiles are those of all requests.
fn run(scratch: &Scratch, dirs: &[PathBuf], args: &[&str]) -> Result<String, String> {
    let out = scratch.path("fio.json");
    let mut command = Command::new("fio");
    command.args(["--output-format=json", "--ioengine=psync", "--size=16m", "--fallocate=none", "--group_reporting"]);
    command.arg(format!("--output={}", out.display())).args(args);
    for (i, dir) in dirs.iter().enumerate() {
        command.args([format!("--name=small{i}"), format!("--filename={}/{PREFIX}small-{i}", dir.display())]);
    }
    Running::start(scratch, "fio", &mut command)?.finish(|| false)?;
    std::fs::read_to_string(&out).map_err(|error| format!("{}: {error}; is this fio 3?", out.display()))
}

fn figures(json: &str, small: Access) -> Result<Figures, String> {
    let json: serde_json::Value =
        serde_json::from_str(json).map_err(|error| format!("fio wrote no JSON: {error}; is this fio 3?"))?;
    let part = &json["jobs"][0][small.name()];
    let calls_per_second = part["iops"].as_f64().ok_or("fio's JSON has no IOPS; is this fio 3?")?;
    // They are missing if nothing was done at all.
    let ms = |value: &serde_json::Value| value.as_f64().unwrap_or(0.0) / 1e6;
    let p99_ms = ms(&part["clat_ns"]["percentile"]["99.000000"]);
    Ok(Figures { calls_per_second, mean_ms: ms(&part["lat_ns"]["mean"]), p99_ms })
}

#[cfg(test)]
mod tests {
    use super::*;

    const JSON: &str = r#"{"fio version": "fio-3.33", "jobs": [{"jobname": "small0",
        "read": {"iops": 0.0, "lat_ns": {"mean": 0.0}, "clat_ns": {"min": 0}},
        "write": {"iops": 1145.5, "lat_ns": {"mean": 1200000.0}, "clat_ns": {"percentile": {"95.000000": 1, "99.000000": 7400000}}},
        "sync": {"lat_ns": {"mean": 9.0}}}]}"#;

    #[test]
    fn figures_are_those_of_the_calls_themselves() {
        assert_eq!(figures(JSON, Access::Write), Ok(Figures { calls_per_second: 1145.5, mean_ms: 1.2, p99_ms: 7.4 }));
    }

    #[test]
    fn nothing_done_is_no_error() {
        assert_eq!(figures(JSON, Access::Read), Ok(Figures { calls_per_second: 0.0, mean_ms: 0.0, p99_ms: 0.0 }));
    }

    #[test]
    fn other_text_is_an_error() {
        assert!(figures("fio: oops", Access::Read).unwrap_err().contains("fio 3"));
        assert!(figures("{}", Access::Read).unwrap_err().contains("fio 3"));
    }
}
