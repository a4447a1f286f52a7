//! What tests need of other packages. Where it is missing, a test is skipped and says so; it fails if `VPFS_MUST_RUN`
//! names the package, so that nothing is skipped unnoticed where it is installed.

use std::io::Write;

/// Names for `VPFS_MUST_RUN`, and what to install.
const KNOWN: [(&str, &str); 18] = [
    ("orangefs", "OrangeFS 2.10"),
    ("nfs", "nfs-ganesha, nfs-ganesha-vfs, rpcbind and libnfs-utils"),
    ("ip", "iproute2"),
    ("nft", "nftables"),
    ("slurm", "slurmctld, slurmd, slurm-client and munge"),
    ("clustershell", "clustershell"),
    ("prometheus", "prometheus"),
    ("chromium", "chromium"),
    ("systemd", "systemd"),
    ("fuse", "the kernel's module fuse"),
    ("bindfs", "bindfs"),
    ("mergerfs", "mergerfs"),
    ("loop", "util-linux, e2fsprogs and loop devices"),
    ("setpriv", "util-linux, and run the tests as root"),
    ("python", "python3"),
    ("jq", "jq"),
    ("deb", "dpkg, and cargo-deb with `cargo install`"),
    ("rpm", "rpm, and cargo-generate-rpm with `cargo install`"),
];

/// Whether all programs of a package are on PATH; reports the missing ones as [`missing`] does.
pub fn are_present(package: &str, programs: &[&str]) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let is_absent = |program: &&str| !std::env::split_paths(&path).any(|dir| dir.join(program).is_file());
    let absent: Vec<&str> = programs.iter().copied().filter(is_absent).collect();
    if !absent.is_empty() {
        missing(package, &format!("not on PATH: {}; install {}", absent.join(", "), known(package)));
    }
    absent.is_empty()
}

/// Reports that a test is skipped.
///
/// # Panics
/// If `VPFS_MUST_RUN` names the package, or one that does not exist.
pub fn missing(package: &str, why: &str) {
    let must_run = std::env::var("VPFS_MUST_RUN").unwrap_or_default();
    assert!(!names(&must_run).contains(&package), "VPFS_MUST_RUN has {package}, but {why}");
    // Past the harness, which hides the output of tests that pass. Without standard error there is no place for it.
    let _ = writeln!(std::io::stderr(), "SKIPPED: {why}");
}

fn names(must_run: &str) -> Vec<&str> {
    let names: Vec<&str> = must_run.split(',').map(str::trim).filter(|name| !name.is_empty()).collect();
    names.iter().for_each(|name| {
        known(name);
    });
    names
}

fn known(name: &str) -> &'static str {
    let found = KNOWN.into_iter().find(|(known, _)| *known == name);
    found.unwrap_or_else(|| panic!("VPFS_MUST_RUN: {name:?} is none of {}", KNOWN.map(|(name, _)| name).join(", "))).1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_has_known_names() {
        assert_eq!(names(" nft,orangefs,"), ["nft", "orangefs"]);
        assert_eq!(names(""), [""; 0]);
        // That of this run, too: also if nothing is missing.
        names(&std::env::var("VPFS_MUST_RUN").unwrap_or_default());
    }

    #[test]
    #[should_panic(
        expected = "\"orangfs\" is none of orangefs, nfs, ip, nft, slurm, clustershell, prometheus, chromium, systemd, fuse, bindfs, mergerfs, loop, setpriv, python, jq, deb, rpm"
    )]
    fn a_misspelt_name_is_an_error() {
        names("nft,orangfs");
    }
}
