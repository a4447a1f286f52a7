//! Checks of the files and lists that users write, on any text. Each panics if an invariant is violated, never because
//! the text is invalid.

use vpfs_config::{Config, HostList, Problems};

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

/// Each line is a list, which denotes no more hosts than allowed, or has a reason that can be shown.
pub fn hosts(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    for line in text.lines() {
        [0, 1, 100].into_iter().for_each(|limit| host_list(line, limit));
    }
}

/// A list denotes at most `limit` hosts, and what it denotes denotes itself.
pub fn host_list(text: &str, limit: usize) {
    match HostList::parse(text, limit) {
        Ok(list) => {
            assert!(list.nets.len() + list.names.len() <= limit, "{} hosts", list.names.len());
            let names: Vec<&str> = list.names.iter().map(|(name, _)| name.as_str()).collect();
            let nets: Vec<String> = list.nets.iter().map(ToString::to_string).collect();
            for (same, text) in [(names.is_empty(), nets.join(",")), (nets.is_empty(), names.join(","))] {
                if same && !text.is_empty() {
                    assert_eq!(HostList::parse(&text, limit).as_ref(), Ok(&list), "{text}");
                }
            }
        }
        Err(reason) => assert!(!reason.is_empty() && reason.len() < 2000, "{reason}"),
    }
}
