//! What must not leave this host: the values of keys in the configuration, and the content of the files they name.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use toml::{Table, Value};

/// What stands for a secret.
const REMOVED: &str = "<removed>";
/// Settings whose names have one of these are secret.
const WORDS: [&str; 6] = ["key", "secret", "token", "passw", "credential", "auth"];
/// Shorter lines of a file are no secret that anybody would use, and may be words of a sentence.
const SHORTEST: usize = 8;
/// The largest file of a key that is read.
const LARGEST: u64 = 64 << 10;

/// The secrets of a configuration.
#[derive(Debug, Default)]
pub(super) struct Secrets(Vec<String>);

impl Secrets {
    /// Those of a configuration in `folder`. The text need not be valid.
    pub(super) fn of(text: &str, folder: &Path) -> Self {
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
        // Who cannot read it does not know the secret.
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
    pub(super) fn removed_from(&self, text: &str) -> String {
        self.0.iter().fold(text.to_owned(), |text, secret| text.replace(secret, REMOVED))
    }
}

fn is_secret(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    WORDS.iter().any(|word| name.contains(word))
}
