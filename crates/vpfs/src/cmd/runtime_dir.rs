//! Where the sockets of proxies are: one rule for the proxies, and for the commands that ask them.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use vpfs_config::Config;

/// Set by systemd for a service with `RuntimeDirectory=`; several directories are separated by colons.
const OF_SERVICE: &str = "RUNTIME_DIRECTORY";
/// Set for a user's session, who may not write to `/run`.
const OF_USER: &str = "XDG_RUNTIME_DIR";
const OF_SYSTEM: &str = "/run/vpfs";

/// The directories where a proxy with this configuration may have its socket; it takes the first one that it can.
///
/// That in `peers.sockets` if the file has another one than the default. Otherwise the first of `$RUNTIME_DIRECTORY`,
/// `/run/vpfs`, and `vpfs` in `$XDG_RUNTIME_DIR`.
pub(super) fn of(config: &Config) -> Vec<PathBuf> {
    match config.sockets() {
        chosen if chosen != Path::new(OF_SYSTEM) => vec![chosen.to_owned()],
        _ => all(),
    }
}

/// The same without a configuration.
pub(super) fn all() -> Vec<PathBuf> {
    among(std::env::var_os(OF_SERVICE), std::env::var_os(OF_USER))
}

fn among(of_service: Option<OsString>, of_user: Option<OsString>) -> Vec<PathBuf> {
    let of_service = of_service.and_then(|list| std::env::split_paths(&list).next());
    let of_user = of_user.map(|directory| Path::new(&directory).join("vpfs"));
    let all = [of_service, Some(OF_SYSTEM.into()), of_user];
    let mut all: Vec<PathBuf> = all.into_iter().flatten().filter(|path| path.is_absolute()).collect();
    all.dedup();
    all
}

/// Why there is no directory, and how to get one.
pub(super) const REMEDY: &str = "create one of these directories for the user that runs it, or name one: `sockets` in \
                                 a [peers] table, or XDG_RUNTIME_DIR in the environment of the proxy and of those who ask";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_service_goes_before_the_system_and_the_user() {
        let among = |of_service: &str, of_user: &str| {
            let set = |text: &str| (!text.is_empty()).then(|| text.into());
            among(set(of_service), set(of_user)).iter().map(|path| path.display().to_string()).collect::<Vec<_>>()
        };
        assert_eq!(among("", ""), ["/run/vpfs"]);
        assert_eq!(among("/run/vpfs:/run/b", ""), ["/run/vpfs"]);
        assert_eq!(among("/run/a:/run/b", "/run/user/7"), ["/run/a", "/run/vpfs", "/run/user/7/vpfs"]);
        assert_eq!(among("relative", "relative"), ["/run/vpfs"], "the XDG specification has relative ones ignored");
    }

    #[test]
    fn a_directory_in_the_file_is_the_only_one() {
        let config = |sockets: &str| {
            let text = format!(
                "[[server]]\nname = \"s1\"\naddress = \"tcp://127.0.0.1:1\"\n[[listener]]\nport = 5334\n\
                 [peers]\nport = 7334\nsecurity = \"none\"\n{sockets}"
            );
            of(&Config::parse("a", &text).unwrap())
        };
        assert_eq!(config("sockets = \"/srv/vpfs\""), [PathBuf::from("/srv/vpfs")]);
        assert_eq!(config(""), all());
    }
}
