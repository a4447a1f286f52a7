//! Checks of the files that users write, on any text. Each panics if an invariant is violated, never because of an
//! invalid file.

use vpfs_config::{Config, Problems};

/// Text is a configuration or has problems; the former is equal to itself and can be resolved without names.
pub fn configuration(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    match Config::parse("f", text) {
        Ok(config) => {
            let again = Config::parse("f", text).expect("it was valid");
            assert!(config.diff(&again).is_empty(), "reading is repeatable");
            check(&config.warnings);
            let _ = config.resolve(&|_| Vec::new());
            let _ = vpfs_config::AppTable::new(&config);
        }
        Err(problems) => {
            assert!(!problems.list.is_empty(), "an error says what is wrong");
            check(&problems);
        }
    }
}

/// What is shown is bounded, and a terminal acts on none of it.
pub fn check(problems: &Problems) {
    assert!(problems.list.len() <= 50, "{} problems", problems.list.len());
    let text = problems.to_string();
    assert!(!text.chars().any(|c| c.is_control() && c != '\n'), "{text:?}");
}
