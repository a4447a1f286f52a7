//! The check of the servers' configuration, on any bytes: it panics if an invariant is violated, never because of an
//! invalid text.

use std::collections::HashSet;

use vpfs_testbed::fsconfig::{Configuration, FsConfig, FsConfigError};

/// What is read can be used, and written and read again; or its error has a line of it.
pub fn fs_conf(data: &[u8]) {
    match Configuration::parse(data) {
        Ok(configuration) => {
            let names: HashSet<&str> = configuration.file_systems.iter().map(|fs| fs.name.as_str()).collect();
            assert_eq!(names.len(), configuration.file_systems.len(), "no name twice");
            for name in names {
                check(&configuration, name);
            }
        }
        Err(error) => check_error(data, &error),
    }
}

fn check(configuration: &Configuration, name: &str) {
    let fs = match configuration.file_system(name) {
        Ok(fs) => fs,
        Err(error) => return assert!(matches!(error, FsConfigError::Line { .. }), "a server without TCP: {error}"),
    };
    assert!(fs.fs_id != 0 && fs.flow_buffer_bytes > 0 && fs.flow_buffers >= 2);
    assert!(fs.owner_of(fs.root_handle).is_some());
    for server in &fs.servers {
        let alias = configuration.alias(&server.alias).expect("each server has an Alias");
        assert_eq!(alias.tcp(), Some(server.address.as_str()));
        assert!(server.address.contains(server.host_and_port()));
    }
    // A line end can be in a name, but cannot be written into one; and lines have a maximum length.
    let mut texts = fs.servers.iter().flat_map(|server| [&server.alias, &server.address]).chain([&fs.name]);
    if texts.all(|text| text.len() < 400 && !text.contains(char::is_control)) {
        let mut again = FsConfig::parse(fs.to_text().as_bytes(), name).expect("our own text");
        let mut fs = fs.clone();
        // Servers for data may have come first.
        again.servers.sort_by(|a, b| a.alias.cmp(&b.alias));
        fs.servers.sort_by(|a, b| a.alias.cmp(&b.alias));
        assert_eq!(again, fs);
    }
}

/// What is shown is bounded, and a terminal acts on none of it.
fn check_error(data: &[u8], error: &FsConfigError) {
    let text = error.to_string();
    assert!(!text.chars().any(char::is_control) && text.len() < 2000, "{text:?}");
    if let FsConfigError::Line { line, .. } = error {
        assert!((1..=data.split(|byte| *byte == b'\n').count()).contains(line), "line {line}");
    }
}
