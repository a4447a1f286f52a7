//! `[metrics]` and `[web]`: off by default, and never open to other hosts by oversight.

use std::path::Path;

use vpfs_config::{Config, Metrics};

const SITE: &str = "[[server]]\nname = \"s1\"\naddress = \"tcp://10.0.0.1:3334\"\n[[listener]]\nport = 5334\n";

fn metrics(text: &str) -> Option<Metrics> {
    Config::parse("f", &format!("{SITE}{text}")).unwrap_or_else(|problems| panic!("{problems}")).metrics
}

fn problem(text: &str) -> String {
    Config::parse("f", &format!("{SITE}[metrics]\n{text}")).expect_err(text).to_string()
}

#[test]
fn metrics_are_off_by_default() {
    assert_eq!(metrics(""), None);
    assert_eq!(metrics("[metrics]\n"), None);
    let listen = metrics("[metrics]\nlisten = \"[::1]:9334\"\n").map(|metrics| metrics.listen.to_string());
    assert_eq!(listen.as_deref(), Some("[::1]:9334"));
}

#[test]
fn other_hosts_need_a_token() {
    for address in ["0.0.0.0:9334", "10.0.0.1:9334", "[::]:9334", "[::ffff:10.0.0.1]:9334"] {
        let text = format!("listen = {address:?}\n");
        let problem = problem(&text);
        let expected = format!("f:7: metrics.listen: \"{address}\" can be reached from other hosts");
        assert!(problem.starts_with(&expected) && problem.contains("add token ="), "{problem}");
        let found = metrics(&format!("[metrics]\n{text}token = \"a.token\"\n")).and_then(|metrics| metrics.token);
        assert_eq!(found.as_deref(), Some(Path::new("a.token")));
    }
}

#[test]
fn nonsense_is_refused_with_place_and_fix() {
    for text in ["listen = \"localhost:9334\"\n", "listen = \"127.0.0.1:0\"\n", "listen = \"127.0.0.1\"\n"] {
        assert!(problem(text).contains("write for example \"127.0.0.1:9334\""), "{}", problem(text));
    }
    assert!(problem("token = \"a\"\n").contains("has no effect without listen"));
}

/// The page shows more than metrics, and a browser sends no token: it needs its key everywhere.
#[test]
fn the_page_is_off_by_default_and_needs_a_key() {
    let web = |text: &str| Config::parse("f", &format!("{SITE}[web]\n{text}")).map(|config| config.web);
    assert_eq!(web("").ok(), Some(None));
    let found = web("listen = \"127.0.0.1:9335\"\nkey = \"web.key\"\n").ok().flatten().map(|web| web.key);
    assert_eq!(found.as_deref(), Some(Path::new("web.key")));
    for (text, fix) in [
        ("listen = \"127.0.0.1:9335\"\n", "openssl rand"),
        ("key = \"web.key\"\n", "add listen ="),
        ("listen = \"9335\"\nkey = \"k\"\n", "write for example"),
    ] {
        let problem = web(text).expect_err(text).to_string();
        assert!(problem.starts_with("f:7: web.") && problem.contains(fix), "{problem}");
    }
}
