//! vpfs-e2e.
fn main() {}
