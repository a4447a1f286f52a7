//! Edits the configuration text, which servers and clients read line by line: a key, then arguments.
//!
//! Keys are case-insensitive; arguments end at white space and may be quoted; `#` starts a comment.

use std::ops::Range;

use super::ClientTimeouts;

/// The text with new addresses and time-outs; all other bytes as they were.
pub(super) fn rewrite(text: &[u8], timeouts: ClientTimeouts, map: &mut dyn FnMut(&str) -> Option<String>) -> Vec<u8> {
    let mut settings = vec![
        Setting { key: b"ClientJobBMITimeoutSecs", secs: timeouts.bmi_secs },
        Setting { key: b"ClientJobFlowTimeoutSecs", secs: timeouts.flow_secs },
    ];
    settings.retain(|setting| setting.secs.is_some());
    let mut missing: Vec<&Setting> = settings.iter().filter(|setting| !setting.is_in(text)).collect();
    let mut out = Vec::with_capacity(text.len() + 1024);
    for line in lines(text) {
        let words = words(line);
        let word = |at: usize| words.get(at).map_or(&[][..], |word| &line[word.clone()]);
        if word(0).eq_ignore_ascii_case(b"Alias") {
            replace(line, words.get(2..).unwrap_or_default(), &mut out, |address| map(address));
        } else if let Some(setting) = settings.iter().find(|setting| setting.is_key(word(0))) {
            replace(line, words.get(1..2).unwrap_or_default(), &mut out, |_| setting.value());
        } else {
            out.extend_from_slice(line);
        }
        if word(0).eq_ignore_ascii_case(b"<Defaults>") {
            for setting in missing.drain(..) {
                setting.add(&mut out);
            }
        }
    }
    out
}

/// A setting in seconds that clients read from the text.
struct Setting {
    key: &'static [u8],
    secs: Option<u32>,
}

impl Setting {
    fn is_key(&self, word: &[u8]) -> bool {
        word.eq_ignore_ascii_case(self.key)
    }

    fn is_in(&self, text: &[u8]) -> bool {
        lines(text).any(|line| words(line).first().is_some_and(|word| self.is_key(&line[word.clone()])))
    }

    fn value(&self) -> Option<String> {
        self.secs.map(|secs| secs.to_string())
    }

    /// Appends a separate line.
    fn add(&self, out: &mut Vec<u8>) {
        while !out.ends_with(b"\n") || out.ends_with(b"\\\n") {
            out.push(b'\n');
        }
        out.push(b'\t');
        out.extend_from_slice(self.key);
        out.push(b' ');
        out.extend_from_slice(self.value().unwrap_or_default().as_bytes());
        out.push(b'\n');
    }
}

/// Lines with their line ends; a backslash before a line end joins the next line.
fn lines(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let end = |at: &usize| rest[*at] == b'\n' && (*at == 0 || rest[*at - 1] != b'\\');
        let len = (0..rest.len()).find(end).map_or(rest.len(), |at| at + 1);
        let (line, after) = rest.split_at(len);
        rest = after;
        (!line.is_empty()).then_some(line)
    })
}

/// Where the words of a line are: key and arguments, and the parts of arguments that are lists.
fn words(line: &[u8]) -> Vec<Range<usize>> {
    let is_gap = |byte: u8| byte.is_ascii_whitespace() || matches!(byte, b',' | b'"' | b'\'' | b'\\');
    let end = line.iter().position(|byte| *byte == b'#').unwrap_or(line.len());
    let mut words = Vec::new();
    let mut at = 0;
    while at < end {
        let len = line[at..end].iter().take_while(|byte| !is_gap(**byte)).count();
        if len > 0 {
            words.push(at..at + len);
        }
        at += len + 1;
    }
    words
}

/// Appends `line`, replacing each word for which `new` has a replacement.
fn replace(line: &[u8], words: &[Range<usize>], out: &mut Vec<u8>, mut new: impl FnMut(&str) -> Option<String>) {
    let mut done = 0;
    for word in words {
        if let Some(text) = str::from_utf8(&line[word.clone()]).ok().and_then(&mut new) {
            out.extend_from_slice(&line[done..word.start]);
            out.extend_from_slice(text.as_bytes());
            done = word.end;
        }
    }
    out.extend_from_slice(&line[done..]);
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
    fn timeouts_are_replaced_or_added() {
        let timeouts = ClientTimeouts { bmi_secs: Some(900), flow_secs: Some(600) };
        let text = "<Defaults>\n\tClientJobBMITimeoutSecs 300 # five minutes\n</Defaults>\n";
        let expected = "<Defaults>\n\tClientJobFlowTimeoutSecs 600\n\tClientJobBMITimeoutSecs 900 # five \
                        minutes\n</Defaults>\n";
        assert_eq!(rewritten(text, timeouts), expected);
        assert_eq!(rewritten(text, ClientTimeouts::default()), text);
        assert_eq!(rewritten("<Defaults>", timeouts).lines().count(), 3);
        // A line that ends in a continuation must not swallow the time-outs.
        for text in ["<Defaults> \\\n", "<Defaults> \\"] {
            let once = rewritten(text, timeouts);
            assert_eq!(rewritten(&once, timeouts), once);
        }
    }
}
