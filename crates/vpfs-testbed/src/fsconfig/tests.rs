use super::*;

fn four() -> FsConfig {
    let addresses: Vec<_> = (1..=4).map(|n| format!("tcp://10.0.0.{n}:3334")).collect();
    FsConfig::new("pfs", &addresses)
}

/// A configuration of one server, with other lines in some places.
fn with(changes: &[(&str, &str)]) -> String {
    let text = "<Defaults>\nBMIModules bmi_tcp\n</Defaults>\n<Aliases>\nAlias a tcp://x:2\n</Aliases>\n<FileSystem>\n\
                Name f\nID 9\nRootHandle 4\n<MetaHandleRanges>\nRange a 3-5\n</MetaHandleRanges>\n\
                <DataHandleRanges>\nRange a 10-20\n</DataHandleRanges>\n</FileSystem>\n";
    changes.iter().fold(text.to_owned(), |text, (old, new)| {
        assert!(text.contains(old), "{old}");
        text.replacen(old, new, 1)
    })
}

fn changed(changes: &[(&str, &str)]) -> FsConfig {
    FsConfig::parse(with(changes).as_bytes(), "f").unwrap_or_else(|error| panic!("{error} in {}", with(changes)))
}

fn refused(changes: &[(&str, &str)]) -> String {
    FsConfig::parse(with(changes).as_bytes(), "f").expect_err(&with(changes)).to_string()
}

#[test]
fn text_round_trip() {
    assert_eq!(FsConfig::parse(four().to_text().as_bytes(), "pfs"), Ok(four()));
}

#[test]
fn every_handle_has_one_owner() {
    let fs = four();
    let bounds = fs.servers.iter().flat_map(|server| server.meta_handles.iter().chain(&server.data_handles));
    for bound in bounds.flat_map(|range| [*range.start(), *range.end()]) {
        assert_eq!(fs.servers.iter().filter(|server| server.owns(bound)).count(), 1, "{bound}");
    }
    assert_eq!(fs.owner_of(fs.root_handle), Some(0));
    assert_eq!(fs.owner_of(2), None);
    assert_eq!(fs.owner_of(u64::MAX), None);
}

#[test]
fn sections_have_options_of_their_own() {
    let distribution = "Name f\n<Distribution>\nName simple_stripe\nParam strip_size\nValue 1048576\n</Distribution>";
    assert_eq!(changed(&[("Name f", distribution)]), changed(&[]));
    let unknown = "<Defaults>\n<Unknown>\nNothing 1\nServerKey /k\n</Unknown>";
    assert_eq!(changed(&[("<Defaults>", unknown)]), changed(&[]), "servers skip what they do not know");
    let last = with(&[]).split_once("<Aliases>").map(|(defaults, rest)| format!("<Aliases>{rest}{defaults}"));
    assert_eq!(FsConfig::parse(last.unwrap_or_default().as_bytes(), "f"), Ok(changed(&[])));
    assert_eq!(changed(&[("</FileSystem>\n", "")]), changed(&[]), "the end of the text ends sections");
}

#[test]
fn options_can_be_given_twice() {
    let fs = changed(&[("Name f", "Name g\nName f"), ("Range a 3-5", "Range a 3-5\nRange a 7-9")]);
    assert_eq!((fs.name.as_str(), &fs.servers[0].meta_handles[..]), ("f", &[3..=5, 7..=9][..]));
    // Another <Defaults> starts from the servers' own defaults, wherever it stands.
    let again = "</FileSystem>\n<Defaults>\nClientRetryLimit 7\n</Defaults>\n";
    let fs = changed(&[("<Defaults>", "<Defaults>\nClientRetryDelayMilliSecs 9"), ("</FileSystem>\n", again)]);
    assert_eq!((fs.retry_limit, fs.retry_delay), (7, Duration::from_secs(2)));
}

#[test]
fn several_transports() {
    for list in ["ib://x:1,tcp://x:2", "ib://x:1 tcp://x:2", "ib://x:1, tcp://x:2,", "'ib://x:1 tcp://x:2'"] {
        let text = with(&[("tcp://x:2", list)]);
        let configuration = Configuration::parse(text.as_bytes()).expect("it is valid");
        let alias = &configuration.aliases[0];
        assert_eq!(
            (alias.tcp(), alias.others().collect::<Vec<_>>(), alias.line),
            (Some("tcp://x:2"), vec!["ib://x:1"], 5)
        );
        assert_eq!(configuration.file_systems[0].servers[0].address, "tcp://x:2");
    }
    assert_eq!(changed(&[("tcp://x:2", "tcp://x:2/")]).servers[0].host_and_port(), "x:2");
    for address in ["ib://x:1", "gm://x:1:0,mx://x:0:1", "portals://1:2"] {
        let error = refused(&[("tcp://x:2", address)]);
        assert!(error.starts_with(&format!("line 5: server `a` is reached at `{address}` only")), "{error}");
    }
}

#[test]
fn several_file_systems() {
    let second = with(&[("Name f", "Name g"), ("ID 9", "ID 10")]);
    let text = with(&[]) + second.split_once("</Aliases>\n").expect("aliases").1;
    let parsed = |name| FsConfig::parse(text.as_bytes(), name).map(|fs| fs.fs_id);
    assert_eq!((parsed("f"), parsed("g")), (Ok(9), Ok(10)));
    let error = parsed("orangefs").expect_err("there is no such file system");
    assert_eq!(error.to_string(), "no file system is called `orangefs`; there are `f`, `g`");
    let same = text.replace("Name g", "Name f");
    assert_eq!(FsConfig::parse(same.as_bytes(), "f").map(|fs| fs.fs_id), Ok(10), "clients find the last one");
}

#[test]
fn here_documents() {
    assert_eq!(changed(&[("Name f", "Name <<END\nf\nEND of it")]), changed(&[]));
    let hidden = "LogFile <<END\nName g\n</FileSystem>\nEND\nName f";
    assert_eq!(changed(&[("Name f", hidden)]), changed(&[]));
    assert!(refused(&[("Name f", "Name <<TOO_LONG_A_WORD\nf\nTOO_LONG_A_WORD")]).contains("has no ID"));
    assert!(refused(&[("ID 9", "ID <<END\n9\nEND")]).contains("`<<END` is not a number"));
}

#[test]
fn errors_name_line_reason_and_remedy() {
    for (old, new, expected) in [
        ("ID 9", "ID none", "line 9: ID: `none` is not a number"),
        ("ID 9", "", "line 17: file system `f`, which starts at line 7, has no ID"),
        ("Name f", "Name f#x", "line 8: Name has no value; a comment needs a blank before it"),
        (
            "Name f",
            "Name ${NAME}",
            "line 8: Name: `${NAME}` depends on a variable of the server's environment; write its value",
        ),
        ("Name f", "Include g", "line 8: servers refuse Include; put the text of that file here"),
        ("Name f", "FlowBuffersPerFlow 1", "line 8: FlowBuffersPerFlow must be at least 2"),
        (
            "BMIModules",
            "FlowBufferSizeBytes",
            "line 2: FlowBufferSizeBytes stands in <Defaults>, which starts at line 1, but belongs in <FileSystem>",
        ),
        (
            "</Defaults>",
            "",
            "line 4: <Aliases> stands in <Defaults>, which starts at line 1, but belongs outside of all sections",
        ),
        (
            "</MetaHandleRanges>\n",
            "",
            "line 13: <DataHandleRanges> stands in <MetaHandleRanges>, which starts at line 11, but belongs in <FileSystem>",
        ),
        ("</Aliases>", "</Defaults>", "line 6: </Defaults> stands in <Aliases>, which starts at line 4"),
        ("Alias a", "Alias b", "line 12: no Alias is called `a`"),
        ("Alias a", "Alias a tcp://x:2\nAlias a", "line 6: Alias `a` is already at line 5"),
        (
            " tcp://x:2",
            "",
            "line 5: Alias `a` has no address; write for example `Alias a tcp://a:3334`, any comment behind a blank",
        ),
        ("Range a 3-5", "Range a", "line 12: Range `a` has no handles"),
        ("Range a 3-5", "Range a 3-5 7-9 10-11", "line 12: no Alias is called `10-11`"),
        (
            "RootHandle 4",
            "RootHandle 6",
            "line 17: file system `f`, which starts at line 7, has no range in <MetaHandleRanges> for its RootHandle 6",
        ),
        ("Alias a tcp://x:2\n", "", "line 6: <FileSystem> comes before any Alias; put <Aliases> first"),
    ] {
        assert_eq!(refused(&[(old, new)]), expected, "{new}");
    }
    let long = "x".repeat(3000);
    assert!(refused(&[("Name f", &format!("# {long}\\\n{long}"))]).starts_with("line 8: joined lines of 6003 bytes"));
    let own = FsConfig::parse(b"StorageSpace /s\nHostID \"tcp://x:2\"\nLogFile /l\n", "f").expect_err("a half");
    assert!(own.to_string().contains("give the one that all servers have in common"), "{own}");
    let other = FsConfig::parse(b"[server]\nport = 1\n", "f").expect_err("another file");
    assert!(other.to_string().starts_with("there is no <FileSystem> section"), "{other}");
}
