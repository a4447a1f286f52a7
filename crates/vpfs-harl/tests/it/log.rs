//! The corpus of the fuzz target of logs in lines, and changes of it.

use std::fs;
use std::path::Path;

use crate::fuzz;

#[test]
fn fuzz_corpus() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/log");
    let logs: Vec<_> = fs::read_dir(corpus).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(logs.len() >= 4);
    for log in logs {
        let log = fs::read(log).unwrap();
        fuzz::log(&log);
        for at in 0..log.len() {
            fuzz::log(&log[..at]);
            for change in [1, 0x10, 0x80] {
                let mut log = log.clone();
                log[at] ^= change;
                fuzz::log(&log);
            }
        }
    }
}
