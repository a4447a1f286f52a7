//! vpfs-bench.
fn main() {}
