//! `vpfs support-bundle`: one file for people who help.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::{fs, io};

use flate2::Compression;
use flate2::write::GzEncoder;
use futures_util::future::join_all;
use serde::Serialize;
use tokio::time::timeout;
use toml::{Table, Value};
use vpfs_config::Config;
use vpfs_proxy::PeersReport;
use vpfs_proxy::admin::api::Status;
use vpfs_proxy::admin::events::EventsReport;
use vpfs_proxy::admin::{METRICS, get_by};

use super::asking::{Answer, PATIENCE, connect, sockets};
use super::doctor::{Patient, findings_table};
use super::runtime;
use crate::print::{Exit, now, print};

/// Write what others need to help: configuration, findings of vpfs doctor, status, metrics, events
///
/// Keys and passwords are removed, and so is what their files have. Names of hosts, users' ids and applications are
/// not: look at the files before you send them.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  \
    vpfs support-bundle && tar -tzf vpfs-support.tar.gz")]
pub(crate) struct SupportBundle {
    #[command(flatten)]
    patient: Patient,

    /// The archive, of tar and gzip; must not exist
    #[arg(long, value_name = "FILE", default_value = "vpfs-support.tar.gz")]
    output: PathBuf,
}

type Entry = (String, String);

impl SupportBundle {
    pub(crate) fn run(&self) -> Result<(), Exit> {
        let runtime = runtime()?;
        let entries = runtime.block_on(self.entries());
        runtime.shutdown_background();
        let entries = entries?;
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&self.output);
        let written = file.and_then(|file| archive(file, &entries));
        written.map_err(|error| Exit::cannot_write(&self.output, &error))?;
        print(format_args!("wrote {}; look at it before you send it", self.output.display()))
    }

    /// All files of the archive, without secrets.
    async fn entries(&self) -> Result<Vec<Entry>, Exit> {
        let path = &self.patient.config;
        let text = fs::read_to_string(path).unwrap_or_else(|error| format!("# cannot be read: {error}\n"));
        let secrets = Secrets::of(&text, path.parent().unwrap_or(Path::new("")));
        let findings = self.patient.examine().await?;
        let mut entries = vec![
            ("version.txt".to_owned(), version()),
            ("vpfs.toml".to_owned(), text),
            ("doctor.txt".to_owned(), findings_table(&findings).to_string()),
            ("doctor.json".to_owned(), json(&findings)),
        ];
        if let Ok(config) = Config::load(path) {
            entries.push(("settings.toml".to_owned(), config.to_toml()));
            entries.extend(self.answers(&config).await);
        }
        entries.iter_mut().for_each(|(_, text)| *text = secrets.removed_from(text));
        Ok(entries)
    }

    /// What the proxies say, or why they do not.
    async fn answers(&self, config: &Config) -> Vec<Entry> {
        let metrics = join_all(config.servers.iter().map(|server| async {
            let metrics = async { get_by(connect(&sockets(config, &server.name)).await.ok()?, METRICS).await.ok() };
            let text = timeout(PATIENCE, metrics).await.ok()??;
            Some((format!("metrics-{}.txt", server.name), String::from_utf8_lossy(text.as_ref()).into_owned()))
        }));
        let (status, peers, events, metrics) = tokio::join!(
            self.answer::<Status>(config),
            self.answer::<PeersReport>(config),
            self.answer::<EventsReport>(config),
            metrics
        );
        let answers = [("status.json", status), ("peers.json", peers), ("events.json", events)];
        answers.map(|(name, text)| (name.to_owned(), text)).into_iter().chain(metrics.into_iter().flatten()).collect()
    }

    async fn answer<A: Answer + Serialize>(&self, config: &Config) -> String {
        let (answers, failure) = self.patient.ask::<A>(config).await;
        match failure {
            Some(failure) => json(&[failure]),
            None => json(&answers.list),
        }
    }
}

fn version() -> String {
    let read = |path| fs::read_to_string(path).unwrap_or_default();
    format!("vpfs {}\n{}{}", env!("CARGO_PKG_VERSION"), read("/proc/version"), read("/etc/os-release"))
}

fn json(value: &impl Serialize) -> String {
    serde_json::to_string_pretty(value).unwrap_or_else(|error| error.to_string())
}

fn archive(file: impl Write, entries: &[Entry]) -> io::Result<()> {
    let mut archive = tar::Builder::new(GzEncoder::new(file, Compression::default()));
    for (name, text) in entries {
        let mut header = tar::Header::new_gnu();
        header.set_size(text.len() as u64);
        header.set_mode(0o600);
        header.set_mtime(now());
        archive.append_data(&mut header, format!("vpfs-support/{name}"), text.as_bytes())?;
    }
    archive.into_inner()?.finish()?.flush()
}

// What must not leave this host: the values of keys in the configuration, and the content of the files they name.

/// What stands for a secret.
const REMOVED: &str = "<removed>";

/// Settings whose names have one of these are secret.
const WORDS: [&str; 6] = ["key", "secret", "token", "passw", "credential", "auth"];

/// Shorter lines of a file are no secret that anybody would use, and may be words of a sentence.
const SHORTEST: usize = 8;

/// The largest file of a key that is read.
const LARGEST: u64 = 64 << 10;

#[derive(Debug, Default)]
struct Secrets(Vec<String>);

impl Secrets {
    /// Those of a configuration in `folder`. The text need not be valid.
    fn of(text: &str, folder: &Path) -> Self {
        let mut secrets = Self::default();
        // By lines, as it may not be TOML.
        for line in text.lines() {
            if let Some((_, value)) = line.split_once('=').filter(|(name, _)| is_secret(name)) {
                value.split(['"', '\'']).for_each(|part| secrets.note(part, folder));
                let bare = value.split('#').next().unwrap_or_default();
                bare.split([' ', ',', '[', ']', '{', '}', '"', '\'']).for_each(|part| secrets.note(part, folder));
            }
        }
        if let Ok(table) = text.parse::<Table>() {
            secrets.note_all(&Value::Table(table), false, folder);
        }
        // A secret may be part of a longer one.
        secrets.0.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
        secrets
    }

    fn note_all(&mut self, value: &Value, is_named: bool, folder: &Path) {
        match value {
            Value::Table(table) => {
                table.iter().for_each(|(name, value)| self.note_all(value, is_named || is_secret(name), folder));
            }
            Value::Array(list) => list.iter().for_each(|value| self.note_all(value, is_named, folder)),
            Value::String(text) if is_named => self.note(text, folder),
            _ => {}
        }
    }

    /// Notes a value, or the lines of the file that it names.
    fn note(&mut self, value: &str, folder: &Path) {
        let path = folder.join(value);
        if value.is_empty() || !path.is_file() {
            // The name of a missing file is what somebody has to see; the root directory names anything.
            let is_missing =
                value.starts_with('/') && path.parent().is_some_and(|it| it != Path::new("/") && it.is_dir());
            if !is_missing {
                self.add(value);
            }
            return;
        }
        let mut content = Vec::new();
        // A user that cannot read it does not know the secret.
        if File::open(path).and_then(|file| file.take(LARGEST).read_to_end(&mut content)).is_ok() {
            String::from_utf8_lossy(&content).lines().for_each(|line| self.add(line));
        }
    }

    fn add(&mut self, secret: &str) {
        let secret = secret.trim();
        if secret.len() >= SHORTEST && !self.0.iter().any(|known| known == secret) {
            self.0.push(secret.to_owned());
        }
    }

    /// The text without them.
    fn removed_from(&self, text: &str) -> String {
        self.0.iter().fold(text.to_owned(), |text, secret| text.replace(secret, REMOVED))
    }
}

fn is_secret(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    WORDS.iter().any(|word| name.contains(word))
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use flate2::read::GzDecoder;

    use super::*;

    const KEY: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

    /// Everything that the archive for this configuration has.
    fn bundle(folder: &Path, text: &str) -> Vec<Entry> {
        fs::write(folder.join("vpfs.toml"), text).unwrap();
        let patient = Patient { config: folder.join("vpfs.toml"), servers: Vec::new() };
        let bundle = SupportBundle { patient, output: folder.join("support.tar.gz") };
        bundle.run().unwrap();
        let file = fs::File::open(&bundle.output).unwrap();
        let mut archive = tar::Archive::new(GzDecoder::new(file));
        let entries = archive.entries().unwrap().map(|entry| {
            let mut entry = entry.unwrap();
            let mut text = String::new();
            entry.read_to_string(&mut text).unwrap();
            (entry.path().unwrap().display().to_string(), text)
        });
        entries.collect()
    }

    const SERVER: &str = "[[server]]\nname = \"s1\"\naddress = \"tcp://127.0.0.1:1\"\n[[listener]]\nport = 5334\n";

    #[test]
    fn what_files_of_keys_have_stays_here() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("peers.key"), format!("{KEY}\n")).unwrap();
        let peers = "[peers]\nport = 7334\nbind = \"127.0.0.1\"\nshared_key = \"peers.key\"\nsockets = \"sockets\"\n";
        // As somebody may have kept it.
        let entries = bundle(folder.path(), &format!("# {KEY}\n{SERVER}{peers}"));
        let text = |name: &str| &entries.iter().find(|(entry, _)| entry.ends_with(name)).unwrap().1;
        for name in ["version.txt", "doctor.json", "status.json", "peers.json", "events.json"] {
            assert!(!text(name).is_empty(), "{name}");
        }
        assert!(text("vpfs.toml").contains("shared_key = \"peers.key\""), "where it lies is no secret");
        assert!(text("settings.toml").contains("peers.key"));
        assert!(entries.iter().all(|(_, text)| !text.contains(KEY)), "{entries:?}");
    }

    /// A file that is not valid is the one that help is needed for.
    #[test]
    fn what_was_written_in_place_of_a_path_stays_here() {
        for wrong in [
            format!("{SERVER}[peers]\nport = 7334\nbind = \"127.0.0.1\"\nshared_key = \"{KEY}\"\n"),
            format!("{SERVER}[admin]\ntokens = [\"other\", \"{KEY}\"]\n"),
            format!("{SERVER}[web]\nlisten = \"127.0.0.1:1\"\nkey = {KEY} # no quotes\n"),
            format!("{SERVER}[x]\npassword = {{ a = \"{KEY}\" }}\n"),
            format!("{SERVER}secret = '''{KEY}"),
        ] {
            let folder = tempfile::tempdir().unwrap();
            let entries = bundle(folder.path(), &wrong);
            assert!(entries.iter().all(|(_, text)| !text.contains(KEY)), "{entries:?}");
            assert!(entries.iter().any(|(name, text)| name.ends_with("vpfs.toml") && text.contains("<removed>")));
        }
    }
}
