//! The applications: weight, placement, size of calls.

use std::path::Path;
use std::process::Command;

use super::options::Options;
use crate::real::process::Running;
use crate::real::proxies::AppConfig;
use crate::real::scratch::Scratch;

/// An application of the figure. Its calls are striped over all servers that it uses.
#[derive(Clone, Copy, Debug)]
pub(super) struct App {
    /// Also its weight.
    number: usize,
    servers: usize,
    used: usize,
}

impl App {
    pub(super) fn new(number: usize, servers: usize) -> Self {
        Self { number, servers, used: if number % 2 == 1 { (servers / 2).max(1) } else { servers } }
    }

    pub(super) fn name(self) -> String {
        format!("app{}", self.number)
    }

    /// What the proxies know of it.
    pub(super) fn config(self) -> AppConfig {
        AppConfig { name: self.name(), lines: format!("weight = {}\n", self.number) }
    }

    /// For `--strip`: equal strips on the servers that it uses, which come first.
    fn strips(self) -> String {
        let strips: Vec<&str> = (0..self.servers).map(|id| if id < self.used { "64KiB" } else { "0B" }).collect();
        strips.join(",")
    }

    /// Starts its processes, which write until they are killed.
    pub(super) fn start(
        self,
        scratch: &Scratch,
        program: &Path,
        url: &str,
        options: &Options,
    ) -> Result<Running, String> {
        let call = options.call_kib * self.used;
        let mut command = Command::new(program);
        command.args(["workload", "ior", "--write", "--quiet", "--processes", "32", "--reply-timeout", "10min"]);
        command.args(["--transfer", &format!("{call}KiB"), "--block", &format!("{}KiB", 2 * call)]);
        command.args(["--strip", &self.strips(), "--time", "1d"]);
        command.args(["--directory", &format!("/vpfs-bench-{}", self.name()), "--overwrite"]);
        command.args(["--url", url]);
        Running::start(scratch, &self.name(), &mut command)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn odd_ones_use_half_of_the_servers() {
        assert_eq!(App::new(3, 4).strips(), "64KiB,64KiB,0B,0B");
        assert_eq!(App::new(4, 4).strips(), "64KiB,64KiB,64KiB,64KiB");
        assert_eq!(App::new(1, 1).strips(), "64KiB");
    }
}
