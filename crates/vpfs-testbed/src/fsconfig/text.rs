//! Writes a configuration.

use std::fmt::Write as _;
use std::ops::RangeInclusive;

use super::{FsConfig, FsServer};

impl FsConfig {
    /// The text for GETCONFIG. Equal configurations give equal bytes.
    pub fn to_text(&self) -> String {
        let mut text = String::new();
        self.write_defaults(&mut text);
        line(&mut text, 0, "<Aliases>");
        for server in &self.servers {
            line(&mut text, 1, &format!("Alias {} {}", word(&server.alias), word(&server.address)));
        }
        line(&mut text, 0, "</Aliases>\n");
        self.write_file_system(&mut text);
        text
    }

    fn write_defaults(&self, text: &mut String) {
        line(text, 0, "<Defaults>");
        line(text, 1, "UnexpectedRequests 50");
        line(text, 1, "EventLogging none");
        line(text, 1, "LogStamp datetime");
        line(text, 1, "BMIModules bmi_tcp");
        line(text, 1, "FlowModules flowproto_multiqueue");
        line(text, 1, "PerfUpdateInterval 1000");
        line(text, 1, "ServerJobBMITimeoutSecs 30");
        line(text, 1, "ServerJobFlowTimeoutSecs 30");
        line(text, 1, &format!("ClientJobBMITimeoutSecs {}", self.reply_timeout.as_secs()));
        line(text, 1, &format!("ClientJobFlowTimeoutSecs {}", self.flow_timeout.as_secs()));
        line(text, 1, &format!("ClientRetryLimit {}", self.retry_limit));
        line(text, 1, &format!("ClientRetryDelayMilliSecs {}", self.retry_delay.as_millis()));
        line(text, 0, "</Defaults>\n");
    }

    fn write_file_system(&self, text: &mut String) {
        line(text, 0, "<FileSystem>");
        line(text, 1, &format!("Name {}", word(&self.name)));
        line(text, 1, &format!("ID {}", self.fs_id));
        line(text, 1, &format!("RootHandle {}", self.root_handle));
        line(text, 1, "FileStuffing yes");
        line(text, 1, &format!("FlowBufferSizeBytes {}", self.flow_buffer_bytes));
        line(text, 1, &format!("FlowBuffersPerFlow {}", self.flow_buffers));
        for (section, handles) in [
            ("MetaHandleRanges", (|server| &server.meta_handles) as fn(&FsServer) -> &Vec<RangeInclusive<u64>>),
            ("DataHandleRanges", |server| &server.data_handles),
        ] {
            line(text, 1, &format!("<{section}>"));
            for server in &self.servers {
                for range in handles(server) {
                    line(text, 2, &format!("Range {} {}-{}", word(&server.alias), range.start(), range.end()));
                }
            }
            line(text, 1, &format!("</{section}>"));
        }
        line(text, 0, "</FileSystem>");
    }
}

fn line(text: &mut String, indent: usize, content: &str) {
    // Writing to a string cannot fail.
    let _ = writeln!(text, "{}{content}", "\t".repeat(indent));
}

/// A word that is read as `value`.
fn word(value: &str) -> String {
    let is_plain = |c: char| !c.is_whitespace() && !matches!(c, '"' | '\'' | '\\' | '#' | '<');
    match value.chars().all(is_plain) {
        true => value.to_owned(),
        false => format!("\"{}\"", value.replace('\\', "\\\\").replace('"', "\\\"")),
    }
}
