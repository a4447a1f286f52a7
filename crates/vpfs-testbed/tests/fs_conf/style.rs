//! Writes a configuration in one of the many ways that servers read alike.

use rand::rngs::Xoshiro256PlusPlus;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use vpfs_testbed::fsconfig::FsConfig;

/// The same seed writes the same text.
pub(crate) struct Style {
    rng: Xoshiro256PlusPlus,
    /// Line ends of Windows, behind which no line can be continued.
    is_crlf: bool,
    text: String,
}

impl Style {
    pub(crate) fn new(seed: u64) -> Self {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
        Self { is_crlf: rng.random_bool(0.2), rng, text: String::new() }
    }

    pub(crate) fn write(mut self, fs: &FsConfig) -> Vec<u8> {
        // Aliases have to precede file systems; defaults may be anywhere.
        let defaults_at = self.rng.random_range(0..3);
        for part in 0..3 {
            if part == defaults_at {
                self.defaults(fs);
            }
            match part {
                0 => self.aliases(fs),
                1 => self.server_options(fs),
                _ => self.file_system(fs),
            }
        }
        let newline = if self.is_crlf { "\r\n" } else { "\n" };
        self.text.replace('\n', newline).into_bytes()
    }

    fn defaults(&mut self, fs: &FsConfig) {
        self.tag("<Defaults>");
        // Plain, so that a test can put a directory of its own there.
        for (name, file) in [("DataStorageSpace", "data"), ("MetadataStorageSpace", "meta"), ("LogFile", "log")] {
            self.text += &format!("{name} /srv/orangefs/{file}\n");
        }
        self.option("BMIModules", &["bmi_tcp"]);
        self.option("ClientJobBMITimeoutSecs", &[&fs.reply_timeout.as_secs().to_string()]);
        self.option("ClientJobFlowTimeoutSecs", &[&fs.flow_timeout.as_secs().to_string()]);
        self.option("ClientRetryLimit", &[&fs.retry_limit.to_string()]);
        self.option("ClientRetryDelayMilliSecs", &[&fs.retry_delay.as_millis().to_string()]);
        if self.rng.random_bool(0.5) {
            self.tag("<Security>");
            self.option("TurnOffTimeouts", &["yes"]);
            self.tag("</Security>");
        }
        self.tag("</Defaults>");
    }

    fn aliases(&mut self, fs: &FsConfig) {
        self.tag("<Aliases>");
        for server in &fs.servers {
            let other = "ib://oss:3335";
            match self.rng.random_range(0..5) {
                0 => self.option("Alias", &[&server.alias, &server.address, other]),
                1 => self.option("Alias", &[&server.alias, &format!("{other},"), &server.address]),
                2 => self.option("Alias", &[&server.alias, &format!("{other},{}", server.address)]),
                _ => self.option("Alias", &[&server.alias, &server.address]),
            }
        }
        self.tag("</Aliases>");
    }

    fn server_options(&mut self, fs: &FsConfig) {
        if self.rng.random_bool(0.5) {
            self.tag("<ServerOptions>");
            self.option("Server", &[&fs.servers[0].alias]);
            self.option("TroveMaxConcurrentIO", &["32"]);
            self.tag("</ServerOptions>");
        }
    }

    fn file_system(&mut self, fs: &FsConfig) {
        self.tag("<FileSystem>");
        let distribution_at = self.rng.random_range(0..4);
        for part in 0..4 {
            if part == distribution_at {
                self.tag("<Distribution>");
                self.option("Name", &["simple_stripe"]);
                self.option("Param", &["strip_size"]);
                self.option("Value", &["65536"]);
                self.tag("</Distribution>");
            }
            match part {
                0 => self.option("Name", &[&fs.name]),
                1 => self.option("ID", &[&fs.fs_id.to_string()]),
                2 => self.option("RootHandle", &[&fs.root_handle.to_string()]),
                _ => {
                    self.option("FlowBufferSizeBytes", &[&fs.flow_buffer_bytes.to_string()]);
                    self.option("FlowBuffersPerFlow", &[&fs.flow_buffers.to_string()]);
                }
            }
        }
        for (section, is_meta) in [("MetaHandleRanges", true), ("DataHandleRanges", false)] {
            self.tag(&format!("<{section}>"));
            for server in &fs.servers {
                for range in if is_meta { &server.meta_handles } else { &server.data_handles } {
                    let dash = ["-", " - "].choose(&mut self.rng).unwrap();
                    self.option("Range", &[&server.alias, &format!("{}{dash}{}", range.start(), range.end())]);
                }
            }
            self.tag(&format!("</{section}>"));
        }
        self.tag("<StorageHints>");
        self.option("TroveSyncData", &["no"]);
        self.tag("</StorageHints>");
        self.tag("</FileSystem>");
    }

    /// A line that starts or ends a section. What follows the tag has no meaning.
    fn tag(&mut self, tag: &str) {
        self.between();
        self.indent();
        let tag = self.case(tag);
        self.text += &tag;
        if self.rng.random_bool(0.2) {
            self.text += " words";
        }
        self.end();
    }

    fn option(&mut self, name: &str, arguments: &[&str]) {
        self.between();
        self.indent();
        let name = self.case(name);
        self.text += &name;
        for argument in arguments {
            self.gap();
            self.word(argument);
        }
        self.end();
    }

    /// Lines without a meaning.
    fn between(&mut self) {
        match self.rng.random_range(0..12) {
            0 => self.text += "\n \t\n",
            1 => self.text += "  # <FileSystem>\n",
            2 => self.text += "MyOption 1 2\n<MySection> # unknown\n",
            3 if !self.is_crlf => self.text += "# this goes on \\\nName other\n",
            _ => {}
        }
    }

    fn indent(&mut self) {
        self.text += ["", "", "\t", "    ", " \t"].choose(&mut self.rng).unwrap();
    }

    fn gap(&mut self) {
        let gaps: &[&str] =
            if !self.may_continue() { &[" ", "\t "] } else { &[" ", " ", "\t", "   ", " \\\n\t", "\\\n "] };
        self.text += gaps.choose(&mut self.rng).unwrap();
    }

    /// Whether a backslash here lets the next line continue this one: two backslashes are one.
    fn may_continue(&self) -> bool {
        !self.is_crlf && !self.text.ends_with('\\')
    }

    fn end(&mut self) {
        self.text += ["", "", "", " ", "\t# 'a comment\"", " #"].choose(&mut self.rng).unwrap();
        self.text += "\n";
    }

    fn case(&mut self, name: &str) -> String {
        match self.rng.random_range(0..6) {
            0 => name.to_uppercase(),
            1 => name.to_lowercase(),
            _ => name.to_owned(),
        }
    }

    /// A word in quotes, with backslashes, in quotes in a part of it, or on two lines.
    fn word(&mut self, word: &str) {
        let characters: Vec<char> = word.chars().collect();
        let (before, after) = characters.split_at(self.rng.random_range(0..characters.len()));
        for part in [before, after] {
            let quote = *[None, None, Some('\''), Some('"')].choose(&mut self.rng).unwrap();
            self.text.extend(quote);
            for c in part {
                self.character(*c, quote);
            }
            self.text.extend(quote);
            if self.may_continue() && self.rng.random_bool(0.1) {
                self.text += "\\\n";
            }
        }
    }

    fn character(&mut self, c: char, quote: Option<char>) {
        let is_special = match quote {
            Some(quote) => c == quote || c == '\\',
            None => c.is_whitespace() || matches!(c, '\'' | '"' | '\\' | '#' | '<'),
        };
        if is_special || self.rng.random_bool(0.03) {
            self.text.push('\\');
        }
        self.text.push(c);
    }
}
