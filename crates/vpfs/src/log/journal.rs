//! Lines of the log as entries of the journal of systemd (systemd.journal-fields(7), "Journal Native Protocol").
//! `VPFS_APP` there is the field `app` here.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixDatagram;

use serde_json::{Map, Value};

const SOCKET: &str = "/run/systemd/journal/socket";

/// Takes one line of JSON with each write, and makes one entry of it.
pub(super) struct Journal(UnixDatagram);

impl Journal {
    /// The journal, if standard error goes there and it can be reached.
    pub(super) fn of_standard_error() -> Option<Self> {
        let stream = std::env::var("JOURNAL_STREAM").ok()?;
        let error = File::from(io::stderr().as_fd().try_clone_to_owned().ok()?).metadata().ok()?;
        // It is inherited by whatever a service starts, also with standard error elsewhere.
        if stream != format!("{}:{}", error.dev(), error.ino()) {
            return None;
        }
        let socket = UnixDatagram::unbound().ok()?;
        // The journal discards an empty one.
        socket.send_to(&[], SOCKET).ok()?;
        Some(Self(socket))
    }
}

impl Write for Journal {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        // By its path each time, so that a journal that is started again gets what follows.
        self.0.send_to(&entry(&serde_json::from_slice(line)?), SOCKET)?;
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn entry(line: &Map<String, Value>) -> Vec<u8> {
    let priority = match line.get("level").and_then(Value::as_str) {
        Some("ERROR") => "3",
        Some("WARN") => "4",
        Some("INFO") => "5",
        Some("DEBUG") => "6",
        _ => "7",
    };
    let mut entry = Vec::new();
    put(&mut entry, "SYSLOG_IDENTIFIER", "vpfs");
    put(&mut entry, "PRIORITY", priority);
    for (name, value) in line.get("fields").and_then(Value::as_object).into_iter().flatten() {
        let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        match name.as_str() {
            "message" => put(&mut entry, "MESSAGE", &value),
            _ => put(&mut entry, &format!("VPFS_{}", name.to_uppercase()), &value),
        }
    }
    entry
}

/// With its length, so that nothing in a value can begin another field.
fn put(entry: &mut Vec<u8>, name: &str, value: &str) {
    entry.extend_from_slice(name.as_bytes());
    entry.push(b'\n');
    entry.extend_from_slice(&(value.len() as u64).to_le_bytes());
    entry.extend_from_slice(value.as_bytes());
    entry.push(b'\n');
}
