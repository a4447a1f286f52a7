//! The parts of messages that a proxy changes: server addresses and time-outs (docs/protocols/orangefs.md,
//! configuration and its rewriting).
//!
//! All other bytes stay as they are, in particular the rest of the configuration text: clients compare the texts of all
//! servers, so equal texts must stay equal, and every proxy must use the same map.

use std::ops::Range;

use super::attr::Layout;
use super::codec::{Reader, Wire, Writer};
use super::dotconf::{Line, Lines, Word};
use super::reply::{GetConfig, ReplyBody};
use super::types::{Op, Text};
use super::{Reply, RequestView};
use crate::wire::DecodeError;
use crate::wire::bmi::{MAX_UNEXPECTED, TooLong};

/// The longest configuration text that clients accept, in bytes.
pub const MAX_CONFIG_TEXT: usize = 65536;

/// Why a message cannot be rewritten.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RewriteError {
    /// The message cannot be decoded.
    #[error(transparent)]
    Decode(#[from] DecodeError),
    /// The result is too long to be sent.
    #[error("rewritten addresses make the message too long: {0}")]
    TooLong(#[from] TooLong),
}

/// Client time-outs to announce, in seconds; `None` keeps the servers' values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClientTimeouts {
    /// `ClientJobBMITimeoutSecs`: how long a client waits for a reply.
    pub bmi_secs: Option<u32>,
    /// `ClientJobFlowTimeoutSecs`: how long a client waits for a transfer to make progress.
    pub flow_secs: Option<u32>,
}

/// Rewrites a GETCONFIG reply: each address of each `Alias` line through `map` (`None` keeps it), and the client
/// time-outs. Error replies are returned unchanged.
///
/// A time-out that is missing from the text is added at the start of `<Defaults>`.
pub fn config_text(
    payload: &[u8],
    timeouts: ClientTimeouts,
    mut map: impl FnMut(&str) -> Option<String>,
) -> Result<Vec<u8>, RewriteError> {
    let reply = Reply::decode(payload)?;
    let text = match reply.body {
        ReplyBody::GetConfig(GetConfig { text }) => text.0,
        _ if reply.op == Op::GetConfig => return Ok(payload.to_vec()),
        _ => return Err(DecodeError::Malformed { offset: 8, what: "not a GETCONFIG reply" }.into()),
    };
    let text = rewrite(&text, timeouts, &mut map);
    if text.len() > MAX_CONFIG_TEXT {
        return Err(TooLong { size: text.len() as u64, limit: MAX_CONFIG_TEXT as u64 }.into());
    }
    Ok(Reply::from(GetConfig { text: Text(text) }).encode())
}

/// Rewrites the server addresses of a CREATE or MKDIR with an explicit server list through `map` (`None` keeps the
/// address). `None` if there is nothing to change.
pub fn layout(payload: &[u8], mut map: impl FnMut(&str) -> Option<String>) -> Result<Option<Vec<u8>>, RewriteError> {
    let Some(at) = RequestView::parse(payload)?.layout_offset()? else { return Ok(None) };
    let mut r = Reader::at(payload, at);
    let mut layout = Layout::read(&mut r)?;
    r.finish()?;
    if layout.algorithm != Layout::LIST {
        return Ok(None);
    }
    let mut is_changed = false;
    for server in &mut layout.servers.0 {
        if let Some(address) = str::from_utf8(&server.0).ok().and_then(&mut map) {
            is_changed |= address.as_bytes() != server.0;
            *server = address.into();
        }
    }
    if !is_changed {
        return Ok(None);
    }
    let mut w = Writer::default();
    w.put(&payload[..at]);
    layout.write(&mut w);
    let rewritten = w.into_payload();
    match rewritten.len() as u64 {
        size if size > MAX_UNEXPECTED => Err(TooLong { size, limit: MAX_UNEXPECTED }.into()),
        _ => Ok(Some(rewritten)),
    }
}

fn rewrite(text: &[u8], timeouts: ClientTimeouts, map: &mut dyn FnMut(&str) -> Option<String>) -> Vec<u8> {
    let mut settings = vec![
        Setting { key: b"ClientJobBMITimeoutSecs", secs: timeouts.bmi_secs },
        Setting { key: b"ClientJobFlowTimeoutSecs", secs: timeouts.flow_secs },
    ];
    settings.retain(|setting| setting.secs.is_some());
    let mut missing: Vec<&Setting> = settings.iter().filter(|setting| !setting.is_in(text)).collect();
    let mut edited = Edited { text, done: 0, out: Vec::with_capacity(text.len() + 1024) };
    for line in Lines::new(text) {
        let words = line.words();
        let Some((name, arguments)) = words.split_first() else { continue };
        if name.value.eq_ignore_ascii_case(b"Alias") {
            for list in arguments.iter().skip(1) {
                edited.addresses(list, &mut *map);
            }
        } else if let Some(setting) = settings.iter().find(|setting| setting.is_named(name)) {
            if let Some(secs) = arguments.first() {
                edited.replace(secs.range.clone(), setting.value().as_bytes());
            }
        } else if name.value.eq_ignore_ascii_case(b"<Defaults>") {
            edited.insert(&line, &mut missing);
        }
    }
    edited.finish()
}

struct Edited<'a> {
    text: &'a [u8],
    done: usize,
    out: Vec<u8>,
}

impl Edited<'_> {
    fn replace(&mut self, range: Range<usize>, new: &[u8]) {
        self.out.extend_from_slice(&self.text[self.done..range.start]);
        self.out.extend_from_slice(new);
        self.done = range.end;
    }

    fn addresses(&mut self, list: &Word, map: &mut dyn FnMut(&str) -> Option<String>) {
        let is_separator = |byte: &u8| matches!(byte, b',' | b' ' | b'\t' | b'\n');
        let mut new = Vec::new();
        for part in list.value.split_inclusive(is_separator) {
            let len = part.len() - usize::from(part.last().is_some_and(is_separator));
            let (address, separator) = part.split_at(len);
            let mapped = if address.is_empty() { None } else { str::from_utf8(address).ok().and_then(&mut *map) };
            new.extend_from_slice(mapped.as_deref().map_or(address, str::as_bytes));
            new.extend_from_slice(separator);
        }
        if new == list.value {
            return;
        }
        if self.text[list.range.clone()] == list.value {
            self.replace(list.range.clone(), &new);
        } else if !list.is_verbatim {
            // A quote that is left open takes the line end with it.
            let (value, end) = new.strip_suffix(b"\n").map_or((&new[..], ""), |value| (value, "\n"));
            self.replace(list.range.clone(), &[&quoted(value), end.as_bytes()].concat());
        }
    }

    fn insert(&mut self, line: &Line, settings: &mut Vec<&Setting>) {
        self.replace(line.range.end..line.range.end, b"");
        for setting in settings.drain(..) {
            while !is_line_end(&self.out) {
                self.out.push(b'\n');
            }
            self.out.extend_from_slice(format!("\t{} {}\n", setting.key.escape_ascii(), setting.value()).as_bytes());
        }
    }

    fn finish(mut self) -> Vec<u8> {
        self.out.extend_from_slice(&self.text[self.done..]);
        self.out
    }
}

/// Whether what follows `text` is a line of its own, and no continuation.
fn is_line_end(text: &[u8]) -> bool {
    text.strip_suffix(b"\n").is_some_and(|line| !line.strip_suffix(b"\r").unwrap_or(line).ends_with(b"\\"))
}

struct Setting {
    key: &'static [u8],
    secs: Option<u32>,
}

impl Setting {
    fn is_named(&self, name: &Word) -> bool {
        name.value.eq_ignore_ascii_case(self.key)
    }

    fn is_in(&self, text: &[u8]) -> bool {
        Lines::new(text).any(|line| line.words().first().is_some_and(|name| self.is_named(name)))
    }

    fn value(&self) -> String {
        self.secs.map(|secs| secs.to_string()).unwrap_or_default()
    }
}

/// An argument that is read as `value`.
fn quoted(value: &[u8]) -> Vec<u8> {
    let mut text = vec![b'"'];
    for byte in value {
        if matches!(byte, b'"' | b'\\') {
            text.push(b'\\');
        }
        text.push(*byte);
    }
    text.push(b'"');
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rewritten(text: &str, timeouts: ClientTimeouts) -> String {
        let mut map = |address: &str| address.strip_prefix("tcp://a").map(|rest| format!("tcp://proxy{rest}"));
        String::from_utf8(rewrite(text.as_bytes(), timeouts, &mut map)).unwrap()
    }

    #[test]
    fn every_address_of_every_alias_changes() {
        let text = "<Aliases>\n\tAlias s1 tcp://a1:3334,ib://b:3335\n\talias  s2\ttcp://x:1,tcp://a2:3334 # tcp://a3\n\
                    Alias a \"tcp://a4:1\"\r\nAlias s5 \\\n tcp://a5:1\n</Aliases>\n# Alias s6 tcp://a6:1\nName tcp://a7\n\
                    Alias s8 tcp://a8";
        let expected = "<Aliases>\n\tAlias s1 tcp://proxy1:3334,ib://b:3335\n\talias  s2\ttcp://x:1,tcp://proxy2:3334 # \
                        tcp://a3\nAlias a \"tcp://proxy4:1\"\r\nAlias s5 \\\n tcp://proxy5:1\n</Aliases>\n# Alias s6 \
                        tcp://a6:1\nName tcp://a7\nAlias s8 tcp://proxy8";
        assert_eq!(rewritten(text, ClientTimeouts::default()), expected);
    }

    #[test]
    fn addresses_are_found_as_servers_find_them() {
        for (list, expected) in [
            ("ib://b:1 tcp://a1:1", "ib://b:1 tcp://proxy1:1"),
            ("ib://b:1, tcp://a1:1", "ib://b:1, tcp://proxy1:1"),
            ("'ib://b:1 tcp://a1:1'", "\"ib://b:1 tcp://proxy1:1\""),
            ("tcp://a1\\:1", "\"tcp://proxy1:1\""),
            ("tcp://a\\\n1:1", "\"tcp://proxy1:1\""),
            ("ib://b:1 \"\" tcp://a1:1", "ib://b:1 \"\" tcp://proxy1:1"),
            // No address, as all of it is a comment.
            ("tcp://a1:1#x", "tcp://a1:1#x"),
            // Two backslashes do not join the next line.
            ("x\\\\\nAlias s2 tcp://a1:1", "x\\\\\nAlias s2 tcp://proxy1:1"),
        ] {
            assert_eq!(
                rewritten(&format!("Alias s {list}\n"), ClientTimeouts::default()),
                format!("Alias s {expected}\n")
            );
        }
    }

    #[test]
    fn timeouts_are_replaced_or_added() {
        let timeouts = ClientTimeouts { bmi_secs: Some(900), flow_secs: Some(600) };
        let text = "<Defaults>\n\tClientJobBMITimeoutSecs 300 # five minutes\n</Defaults>\n";
        let expected = "<Defaults>\n\tClientJobFlowTimeoutSecs 600\n\tClientJobBMITimeoutSecs 900 # five \
                        minutes\n</Defaults>\n";
        assert_eq!(rewritten(text, timeouts), expected);
        assert_eq!(rewritten(text, ClientTimeouts::default()), text);
        assert_eq!(rewritten("<Defaults>", timeouts).lines().count(), 3);
        // A line that ends in a continuation must not swallow the time-outs.
        for text in ["<Defaults> \\\n", "<Defaults> \\", "<Defaults> \\\r"] {
            let once = rewritten(text, timeouts);
            assert_eq!(rewritten(&once, timeouts), once);
        }
    }
}
