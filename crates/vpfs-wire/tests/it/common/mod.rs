//! Loads the golden frames.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;
use vpfs_wire::pvfs2::Op;

/// One captured message.
pub(crate) struct Frame {
    pub(crate) name: String,
    pub(crate) json: Value,
    pub(crate) header: Vec<u8>,
    pub(crate) payload: Vec<u8>,
    pub(crate) is_request: bool,
}

fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden")
}

fn load(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

pub(crate) fn hex(text: &str) -> Vec<u8> {
    assert_eq!(text.len() % 2, 0);
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap()).collect()
}

impl Frame {
    fn load(path: &Path) -> Self {
        let json = load(path);
        Self {
            name: path.file_stem().unwrap().to_str().unwrap().to_owned(),
            header: hex(json["bmi_header_hex"].as_str().unwrap()),
            payload: hex(json["payload_hex"].as_str().unwrap()),
            is_request: json["kind"] == "request",
            json,
        }
    }

    pub(crate) fn named(name: &str) -> Self {
        Self::load(&directory().join(name).with_extension("json"))
    }

    pub(crate) fn op(&self) -> Option<Op> {
        Op::from_code(i32::try_from(self.json["op_code"].as_i64().unwrap()).unwrap())
    }

    pub(crate) fn body(&self) -> &Value {
        &self.json["decoded"]["body"]
    }

    /// The bytes with those that have no meaning zeroed.
    pub(crate) fn masked(&self, payload: &[u8]) -> Vec<u8> {
        let mut bytes = payload.to_vec();
        for range in self.json["pad_ranges"].as_array().into_iter().flatten() {
            let at = usize::try_from(range[0].as_u64().unwrap()).unwrap();
            let len = usize::try_from(range[1].as_u64().unwrap()).unwrap();
            bytes[at..at + len].fill(0);
        }
        bytes
    }

    /// All values of the capture's decoding, as the `Debug` output of the same fields writes them.
    pub(crate) fn scalars(&self) -> Vec<String> {
        let mut values = Vec::new();
        collect(&self.json["decoded"], "", &mut values);
        assert!(!values.is_empty(), "{}", self.name);
        values
    }
}

/// How often each number and quoted text occurs in a `Debug` output.
pub(crate) fn scalars(debug: &str) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    let mut rest = debug;
    while let Some(at) = rest.find(|c: char| c == '"' || c.is_ascii_digit()) {
        let is_negative = rest[..at].ends_with('-');
        rest = &rest[at..];
        let len = if let Some(text) = rest.strip_prefix('"') {
            let mut escaped = false;
            let end = |c: char| {
                let is_end = c == '"' && !escaped;
                escaped = c == '\\' && !escaped;
                is_end
            };
            2 + text.find(end).unwrap()
        } else {
            rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len())
        };
        let sign = if is_negative { "-" } else { "" };
        *counts.entry(format!("{sign}{}", &rest[..len])).or_default() += 1;
        rest = &rest[len..];
    }
    counts
}

fn collect(value: &Value, key: &str, out: &mut Vec<String>) {
    // Lengths and names that the decoded types express by their enums, and values in another notation.
    const SKIPPED: &str = "proto_version encoding op op_name body_offset sig_size certificate_size data_offset num_servers \
        bitmap_size nkey nentries handle_count nhandles target_len fs_config_buf_size config_len_field_offset value_type \
        io_type result_size total_bytes type signature entry_count num_nested_req";
    const VARIANTS: &str =
        "handle request_id client_id rank server_id simple_stripe basic_dist varstrip_dist twod_stripe";
    if SKIPPED.split(' ').any(|name| name == key) {
        return;
    }
    match value {
        Value::Number(number) => out.push(number.to_string()),
        Value::String(text) => match text.strip_prefix("0x") {
            Some(digits) => out.push(u64::from_str_radix(digits, 16).unwrap().to_string()),
            None if key == "perms" => out.push(u32::from_str_radix(text, 8).unwrap().to_string()),
            None if key == "name" && VARIANTS.split(' ').any(|name| name == text) => {}
            None => out.push(format!("\"{}\"", text.as_bytes().escape_ascii())),
        },
        Value::Array(list) => list.iter().for_each(|value| collect(value, key, out)),
        Value::Object(map) => map.iter().for_each(|(key, value)| collect(value, key, out)),
        Value::Bool(_) | Value::Null => {}
    }
}

/// All single captured messages.
pub(crate) fn frames() -> Vec<Frame> {
    paths("op").iter().map(|path| Frame::load(path)).collect()
}

/// All captured sequences: name and messages.
pub(crate) fn sequences() -> Vec<(String, Vec<Value>)> {
    let load = |path: &PathBuf| {
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        (name, load(path)["messages"].as_array().unwrap().clone())
    };
    paths("seq_").iter().map(load).collect()
}

fn paths(prefix: &str) -> Vec<PathBuf> {
    let mut paths: Vec<_> = fs::read_dir(directory())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.file_name().unwrap().to_str().unwrap().starts_with(prefix))
        .collect();
    paths.sort();
    paths
}
