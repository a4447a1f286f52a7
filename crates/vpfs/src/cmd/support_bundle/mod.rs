//! `vpfs support-bundle`: one file for people who help.

mod secrets;

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::GzEncoder;
use futures_util::future::join_all;
use serde::Serialize;
use tokio::time::timeout;
use vpfs_admin::api::Status;
use vpfs_admin::events::EventsReport;
use vpfs_admin::{METRICS, get_by};
use vpfs_config::Config;
use vpfs_proxy::PeersReport;

use super::asking::silence::connect;
use super::asking::{Answer, PATIENCE, sockets};
use super::doctor::{Patient, table};
use super::runtime;
use crate::exit::Exit;
use crate::print::{now, print};
use secrets::Secrets;

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

/// A name and a text.
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
            ("doctor.txt".to_owned(), table(&findings).to_string()),
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
