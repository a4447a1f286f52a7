//! No text makes the reader of scenarios panic: the check of the fuzz target, on its corpus and our scenarios.

use std::path::Path;

#[path = "../../../../fuzz/src/files.rs"]
#[expect(unreachable_pub, dead_code, reason = "public in the crate of the fuzz targets, which has more of them")]
mod files;
#[path = "../../../../fuzz/src/scenario.rs"]
#[expect(unreachable_pub, reason = "public in the crate of the fuzz targets")]
mod scenario;

#[test]
fn fuzz_corpus() {
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut count = 0;
    for folder in ["fuzz/corpus/scenario", "scenarios", "scenarios/figures"] {
        for entry in std::fs::read_dir(repository.join(folder)).expect("in the repository") {
            let path = entry.expect("readable").path();
            if path.is_file() {
                let data = std::fs::read(path).expect("readable");
                // Whole, and cut off at some places.
                (0..=data.len()).step_by(7).chain([data.len()]).for_each(|len| scenario::scenario(&data[..len]));
                count += 1;
            }
        }
    }
    assert!(count > 10, "{count} files");
}
