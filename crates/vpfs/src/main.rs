//! The vpfs command.
fn main() {}
