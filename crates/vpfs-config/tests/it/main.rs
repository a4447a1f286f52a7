//! The integration tests of vpfs-config, in one program: linking dozens takes longer than running them.

#![allow(
    clippy::unwrap_used,
    reason = "a panic is the report of a test, sizes are small, and measurements are for people"
)]

mod files;
#[path = "../../../../fuzz/src/config.rs"]
#[expect(unreachable_pub, reason = "public in the crate of the fuzz targets")]
mod fuzz;
mod identify;
mod problems;
mod sections;
mod slurm;

/// A server and a listener, in lines 1 to 5.
const SITE: &str = "[[server]]\nname = \"s1\"\naddress = \"tcp://n1:3334\"\n[[listener]]\nport = 5334\n";

/// Calls `check` with each of the files, at least `least`, in a folder of the repository.
fn for_each_file(folder: &str, least: usize, check: impl Fn(&[u8])) {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(folder);
    let paths = std::fs::read_dir(folder).expect("in the repository").map(|entry| entry.expect("readable").path());
    let files: Vec<_> = paths.filter(|path| path.is_file()).collect();
    assert!(files.len() >= least, "{} files", files.len());
    files.iter().for_each(|file| check(&std::fs::read(file).expect("readable")));
}

/// Pairs of lines: a text, in which `\n` stands for the end of a line, and what is said of it.
fn pairs(text: &str) -> Vec<(String, &str)> {
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    lines.chunks(2).map(|pair| (pair[0].replace("\\n", "\n"), pair[1])).collect()
}
