//! Files with secrets that a configuration names: whether they can be used, and who can read them.

use std::fs::Metadata;
use std::io::Read;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::{fmt, fs, io};

use vpfs_config::{Account, Config, PeerSecurity};

use crate::names::account_id;

/// What lets the service read a file, and nobody else: its user and group are called so by the package.
const PERMIT: &str = "chgrp vpfs and chmod 640 it";

const SERVICE: &str = "vpfs";

/// The user that has to read the files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reader {
    /// What it is called.
    pub name: String,
    /// Its user,
    pub uid: u32,
    /// and all its groups.
    pub gids: Vec<u32>,
}

impl Reader {
    /// The user of the packaged service, if this process is root's and the host has that user: what root can read, the
    /// service need not. `None` otherwise: this process itself. Blocks.
    pub fn of_service() -> Option<Self> {
        let id = |account| account_id(&account).ok().flatten();
        let uid = id(Account::User(SERVICE.to_owned())).filter(|_| rustix::process::geteuid().is_root())?;
        let gids = id(Account::Group(SERVICE.to_owned())).into_iter().collect();
        Some(Self { name: format!("user {SERVICE} of the packaged service"), uid, gids })
    }

    /// The process whose `/proc/PID/status` this is.
    pub fn of_process(pid: u32, status: &str) -> Option<Self> {
        let ids = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
            Some(line.split_whitespace().filter_map(|id| id.parse().ok()).collect::<Vec<u32>>())
        };
        // Real, effective, saved, and for files.
        let (uid, gid) = (*ids("Uid")?.get(3)?, *ids("Gid")?.get(3)?);
        let gids = [vec![gid], ids("Groups").unwrap_or_default()].concat();
        Some(Self { name: format!("process {pid}"), uid, gids })
    }

    fn may_read(&self, file: &Metadata) -> bool {
        let bit = match file {
            _ if self.uid == 0 => return true,
            file if file.uid() == self.uid => 0o400,
            file if self.gids.contains(&file.gid()) => 0o040,
            _ => 0o004,
        };
        file.mode() & bit != 0
    }
}

/// What is wrong with a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecretProblem {
    /// What it is for, and what to do.
    text: String,
    /// It opens nothing as it is.
    pub is_useless: bool,
}

impl fmt::Display for SecretProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

struct Secret {
    key: String,
    path: PathBuf,
    shortest: usize,
    without: &'static str,
    must_be_private: bool,
}

/// What is wrong with the files of secrets that `config` names, for `reader`, or for this process, which does not start
/// at all without its keys of peers, and says so then. Blocks.
pub fn check_secrets(config: &Config, reader: Option<&Reader>) -> Vec<SecretProblem> {
    let is_told = |secret: &Secret, problem: &SecretProblem| {
        reader.is_some() || !(problem.is_useless && secret.key.starts_with("peers."))
    };
    of(config).iter().filter_map(|secret| secret.problem(reader).filter(|problem| is_told(secret, problem))).collect()
}

fn of(config: &Config) -> Vec<Secret> {
    let mut secrets = Vec::new();
    let mut add = |key: &str, path: &Path, (shortest, without, must_be_private)| {
        secrets.push(Secret { key: key.to_owned(), path: path.to_owned(), shortest, without, must_be_private });
    };
    match config.peers.as_ref().map(|peers| &peers.security) {
        Some(PeerSecurity::SharedKey(path)) => add("peers.shared_key", path, (64, "a proxy does not start", true)),
        Some(PeerSecurity::Certificates { private_key, .. }) => {
            add("peers.private_key", private_key, (1, "a proxy does not start", false));
        }
        Some(PeerSecurity::None) | None => {}
    }
    if let Some(token) = config.metrics.as_ref().and_then(|metrics| metrics.token.as_ref()) {
        add("metrics.token", token, (1, "nobody can read metrics", false));
    }
    if let Some(web) = &config.web {
        add("web.key", &web.key, (16, "nobody can see the page", false));
    }
    for owner in &config.owners {
        let key = format!("the token of [[owner]] {:?}", owner.name);
        add(&key, &owner.token, (16, "this owner cannot push anything", true));
    }
    secrets
}

impl Secret {
    fn problem(&self, reader: Option<&Reader>) -> Option<SecretProblem> {
        let Self { key, path, shortest, without, must_be_private } = self;
        let place = shown(path);
        let useless = |reason: String| {
            let text = format!("{key}: {place} {reason}; until then {without}");
            Some(SecretProblem { text, is_useless: true })
        };
        let file = match fs::metadata(path) {
            Ok(file) => file,
            Err(error) => return useless(unusable(path, &error)),
        };
        if !file.is_file() {
            return useless("is not a file: write the secret into one".to_owned());
        }
        if let Some(reader) = reader.filter(|reader| !reader.may_read(&file)) {
            return useless(format!("cannot be read by {}: {PERMIT}", reader.name));
        }
        let mode = file.permissions().mode() & 0o777;
        if mode & 0o007 != 0 {
            let text = format!(
                "{key}: all users of this host can read {place} (mode {mode:o}), so it proves nothing: {PERMIT}"
            );
            return Some(SecretProblem { text, is_useless: *must_be_private });
        }
        match read(path) {
            Err(error) => useless(unusable(path, &error)),
            Ok(text) if text.trim().len() < *shortest => {
                useless(format!("has fewer than {shortest} characters: openssl rand -hex 32 prints enough"))
            }
            Ok(_) => None,
        }
    }
}

/// Nobody's secret is longer; whatever else is there is not read.
const LONGEST: u64 = 64 << 10;

fn read(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    fs::File::open(path)?.take(LONGEST).read_to_string(&mut text)?;
    Ok(text)
}

pub(crate) fn unusable(path: &Path, error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound if is_secret_itself(path) => {
            "was given where the path of a file belongs: write a new secret into a file that only the service can read, \
             and its name here"
                .to_owned()
        }
        io::ErrorKind::NotFound => format!("does not exist: write the secret into it, then {PERMIT}"),
        io::ErrorKind::PermissionDenied => format!("cannot be read by this process: {PERMIT}"),
        io::ErrorKind::InvalidData => "is not a text".to_owned(),
        _ => format!("cannot be read ({error})"),
    }
}

/// The path for a log or a terminal, unless it is no path but a secret.
pub(crate) fn shown(path: &Path) -> String {
    if is_secret_itself(path) && !path.exists() { "a secret".to_owned() } else { path.display().to_string() }
}

/// Whether the last part of `path` looks like what belongs into the file: long, and random.
fn is_secret_itself(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let is_secret =
        |text: &str| text.chars().all(|character| character.is_ascii_alphanumeric() || "+/=-_".contains(character));
    name.len() >= 16 && is_secret(name) && name.bytes().any(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is told of `[metrics] token` and the token of an owner, both at `name` in `folder`.
    fn told(folder: &Path, name: &str, reader: Option<&Reader>) -> Vec<SecretProblem> {
        let path = folder.join("vpfs.toml");
        let text = format!(
            "[[server]]\nname = \"s1\"\naddress = \"tcp://127.0.0.1:3334\"\n[[listener]]\nport = 5334\n\
             [metrics]\nlisten = \"127.0.0.1:9334\"\ntoken = {name:?}\n[[owner]]\nname = \"slurm\"\ntoken = {name:?}\n"
        );
        fs::write(&path, text).unwrap();
        check_secrets(&Config::load(&path).unwrap(), reader)
    }

    #[test]
    fn each_fault_is_told_with_its_fix_and_no_secret_is() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("token");
        let write = |text: &str, mode: u32| {
            fs::write(&file, text).unwrap();
            fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
        };
        let secret = "0123456789abcdef0123456789abcdef";
        let missing = told(folder.path(), "token", None);
        assert!(missing.len() == 2 && missing.iter().all(|problem| problem.is_useless), "{missing:?}");
        assert!(missing[0].text.starts_with("metrics.token: ") && missing[0].text.contains("does not exist"));
        let itself = told(folder.path(), secret, None);
        assert!(itself.len() == 2 && !itself[0].text.contains(secret), "{itself:?}");
        assert!(itself[0].text.contains("where the path of a file belongs"), "{itself:?}");
        write(secret, 0o640);
        assert_eq!(told(folder.path(), "token", None), []);
        write(secret, 0o644);
        let open = told(folder.path(), "token", None);
        assert_eq!(open.iter().map(|problem| problem.is_useless).collect::<Vec<_>>(), [false, true]);
        assert!(open[0].text.contains("mode 644") && open[0].text.contains("chmod 640"), "{open:?}");
        write("short", 0o640);
        let short = told(folder.path(), "token", None);
        assert!(short.len() == 1 && short[0].text.contains("fewer than 16"), "{short:?}");
        assert_eq!(told(folder.path(), ".", None).len(), 2, "a directory");
    }

    #[test]
    fn what_the_service_cannot_read_is_told_to_root() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("token");
        fs::write(&file, "0123456789abcdef").unwrap();
        let owner = fs::metadata(&file).unwrap();
        let reader = |uid, gids| Some(Reader { name: "user vpfs".to_owned(), uid, gids });
        let problems = |mode, reader: Option<Reader>| {
            fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
            told(folder.path(), "token", reader.as_ref()).len()
        };
        let other = owner.uid() + 1;
        assert_eq!(problems(0o600, reader(other, vec![owner.gid()])), 2);
        assert_eq!(problems(0o640, reader(other, vec![owner.gid() + 1])), 2);
        assert_eq!(problems(0o640, reader(other, vec![7, owner.gid()])), 0);
        assert_eq!(problems(0o600, reader(owner.uid(), vec![])), 0);
        let status = "Name:\tvpfs\nUid:\t1\t1\t1\t101\nGid:\t2\t2\t2\t102\nGroups:\t103 104\n";
        let expected = Reader { name: "process 7".to_owned(), uid: 101, gids: vec![102, 103, 104] };
        assert_eq!(Reader::of_process(7, status), Some(expected));
    }
}
