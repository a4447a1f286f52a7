//! `vpfs status`: the deployment on one screen.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::time::Duration;

use serde::Serialize;
use vpfs_config::Config;
use vpfs_proxy::admin::api::{self, Span};

use super::asking::{Answers, Asking};
use super::{count, runtime, why};
use crate::print::{Exit, plain, print, print_json, roughly};

/// Show servers, proxies, health, load, and what matters most now, on one screen
///
/// Asks the proxies on this host at their sockets, twice, and with --remote those of all hosts. Health is `warn` with
/// the reasons if a proxy is silent, runs another version or policy than it should, or is near a limit; `vpfs doctor`
/// looks further. What matters most are the applications whose requests wait most, and for whom; `vpfs why` and an
/// application says more.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  \
    vpfs status                      what the proxies here do in the next 2 seconds\n  \
    vpfs status --remote             of all hosts\n  \
    vpfs status --json               the same for programs")]
pub(crate) struct Status {
    #[command(flatten)]
    asking: Asking,

    /// Seconds between two looks
    #[arg(long, value_name = "SECONDS", default_value_t = 2, value_parser = clap::value_parser!(u64).range(1..=3600))]
    interval: u64,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Serialize)]
struct Screen {
    config: String,
    /// Why something is not as it should be; nothing if all is well.
    warnings: Vec<String>,
    /// Those of the configuration, ...
    servers: Vec<String>,
    /// ... and those whose proxy answered.
    answering: Vec<String>,
    proxies: usize,
    versions: BTreeSet<String>,
    /// How long the youngest proxy has run.
    up_seconds: f64,
    policy: String,
    mode: &'static str,
    load: Load,
    /// What matters most, the worst first.
    facts: Vec<String>,
}

#[derive(Debug, Default, Serialize)]
struct Load {
    seconds: f64,
    /// The part of the time in which the storage had anything to do; of several servers, the mean and the most.
    busy: f64,
    busiest: f64,
    bytes_per_second: f64,
    requests_per_second: f64,
    /// Those that had requests.
    apps: usize,
    clients: u64,
    /// Requests that wait in vpfs now, ...
    queued: u64,
    /// ... and that are in the storage.
    outstanding: u64,
}

impl Status {
    pub(crate) fn run(&self) -> Result<(), Exit> {
        let (config, runtime) = (self.asking.config()?, runtime()?);
        let look = || runtime.block_on(self.asking.answers::<api::Status>(&config));
        let before = look()?.list;
        std::thread::sleep(Duration::from_secs(self.interval));
        let screen = Screen::of(self.asking.file(), &config, &before, &look()?);
        if self.json { print_json(&screen) } else { print(screen.text().trim_end()) }
    }
}

impl Screen {
    fn of(
        file: String,
        config: &Config,
        before: &[api::Status],
        Answers { list: after, silent }: &Answers<api::Status>,
    ) -> Self {
        let policy = config.scheduler.observed.unwrap_or(config.scheduler.policy.kind);
        let span = Span::between(before, after);
        let servers = || after.iter().flat_map(|status| &status.servers);
        Self {
            config: file,
            warnings: silent.iter().cloned().chain(warnings(config, before, after)).collect(),
            servers: config.servers.iter().map(|server| server.name.clone()).collect(),
            answering: servers().map(|server| server.server.clone()).collect(),
            proxies: after.len(),
            versions: after.iter().map(|status| status.version.clone()).collect(),
            up_seconds: after.iter().map(|status| status.up_seconds).fold(f64::INFINITY, f64::min),
            policy: policy.name().to_owned(),
            mode: if config.scheduler.observed.is_some() { "observe" } else { "manage" },
            load: Load::of(&span, before, after),
            facts: why::facts(&span, FACTS),
        }
    }

    fn text(&self) -> String {
        let Load { seconds, busy, busiest, bytes_per_second, requests_per_second, apps, clients, queued, outstanding } =
            &self.load;
        let versions: Vec<&str> = self.versions.iter().map(String::as_str).collect();
        let up = roughly(Duration::try_from_secs_f64(self.up_seconds).unwrap_or_default());
        let health = if self.warnings.is_empty() { "ok" } else { "warn" };
        let missing: Vec<&str> =
            self.servers.iter().filter(|name| !self.answering.contains(name)).map(|name| &**name).collect();
        let elsewhere = match missing.is_empty() {
            true => String::new(),
            false => format!("; not asked or silent: {}", missing.join(", ")),
        };
        let mode = if self.mode == "observe" { "observe: nothing is held" } else { self.mode };
        let mut text = String::new();
        // Writing to a string cannot fail.
        let mut row = |name: &str, value: &str| _ = writeln!(text, "{}", format!("  {name:<12}{value}").trim_end());
        row("config", &self.config);
        row("health", health);
        self.warnings.iter().for_each(|warning| row("", &format!("- {}", plain(warning))));
        row("servers", &format!("{}{elsewhere}", plain(&self.answering.join(", "))));
        row("proxies", &format!("{} running, version {}, up {up}", self.proxies, versions.join(" and ")));
        row("policy", &format!("{}, mode {mode}", self.policy));
        row("", "");
        let most =
            if self.answering.len() > 1 { format!(", the busiest {:.0} %", busiest * 100.0) } else { String::new() };
        row("storage", &format!("busy {:.0} % of {seconds:.0} s{most}", busy * 100.0));
        row("load", &format!("{:.1} MB/s, {requests_per_second:.0} requests/s", bytes_per_second / 1e6));
        row(
            "clients",
            &format!(
                "{} with requests, {}",
                count(*apps, "application"),
                count(usize::try_from(*clients).unwrap_or(usize::MAX), "connection")
            ),
        );
        row("requests", &format!("{queued} wait in vpfs, {outstanding} are in the storage"));
        row("", "");
        match self.facts.as_slice() {
            [] => row("now", "no application waits for another"),
            facts => facts
                .iter()
                .enumerate()
                .for_each(|(at, fact)| row(if at == 0 { "now" } else { "" }, &format!("- {fact}"))),
        }
        text
    }
}

/// More would not be read.
const FACTS: usize = 3;
/// So much of a limit is near it.
const NEAR: f64 = 0.9;

fn warnings(config: &Config, before: &[api::Status], after: &[api::Status]) -> Vec<String> {
    let mut warnings = Vec::new();
    // What a proxy with this file runs: observing is done by letting everything pass.
    let expected = config.scheduler.policy.kind.name();
    for status in after {
        let names: Vec<&str> = status.servers.iter().map(|server| server.server.as_str()).collect();
        let names = names.join(", ");
        if status.version != env!("CARGO_PKG_VERSION") {
            let (theirs, ours) = (&status.version, env!("CARGO_PKG_VERSION"));
            warnings
                .push(format!("the proxy of {names} is version {theirs}, this command {ours}: upgrade it (SIGUSR2)"));
        }
        if let Some(server) = status.servers.iter().find(|server| server.policy != expected) {
            let (name, policy) = (&server.server, &server.policy);
            warnings.push(format!("{name} runs {policy}, not {expected} as in the file: reload its proxy (SIGHUP)"));
        }
        for (usage, what) in [(status.memory_bytes, "memory"), (status.connections, "connections")] {
            if usage.now as f64 >= NEAR * usage.limit as f64 && usage.limit > 0 {
                let part = 100 * usage.now / usage.limit;
                warnings.push(format!("the proxy of {names} uses {part} % of limits.{what}"));
            }
        }
    }
    let failed: fn(&[api::Status]) -> u64 = |status| {
        let apps = status.iter().flat_map(|status| &status.servers).flat_map(|server| &server.apps);
        apps.map(|app| app.work().failed).sum::<u64>()
    };
    let refused: fn(&[api::Status]) -> u64 =
        |status| status.iter().flat_map(|status| &status.servers).map(|server| server.refused_connections).sum::<u64>();
    let since = [failed, refused].map(|of| of(after).saturating_sub(of(before)));
    for (number, what) in since.into_iter().zip(["requests failed", "connections were refused"]) {
        if number > 0 {
            warnings.push(format!("{number} {what} in this time: `vpfs events` says why"));
        }
    }
    warnings
}

impl Load {
    fn of(span: &Span, before: &[api::Status], after: &[api::Status]) -> Self {
        let servers = || after.iter().flat_map(|status| &status.servers);
        let busy: Vec<f64> = span
            .servers
            .iter()
            .map(|at| {
                let at_end = |status: &[api::Status]| {
                    let found =
                        status.iter().flat_map(|status| &status.servers).find(|server| server.server == at.name);
                    found.map_or(0.0, |server| server.busy_seconds)
                };
                ((at_end(after) - at_end(before)) / at.seconds.max(f64::MIN_POSITIVE)).clamp(0.0, 1.0)
            })
            .collect();
        let seconds = span.seconds.max(f64::MIN_POSITIVE);
        let works: Vec<_> = span.servers.iter().flat_map(|server| &server.apps).map(api::App::work).collect();
        Self {
            seconds: span.seconds,
            busy: busy.iter().sum::<f64>() / busy.len().max(1) as f64,
            busiest: busy.iter().copied().fold(0.0, f64::max),
            bytes_per_second: works.iter().map(|work| work.bytes).sum::<u64>() as f64 / seconds,
            requests_per_second: works.iter().map(|work| work.requests).sum::<u64>() as f64 / seconds,
            apps: span.apps().len(),
            clients: after.iter().map(|status| status.connections.now).sum(),
            queued: servers().map(|server| server.queued).sum(),
            outstanding: servers().map(|server| server.outstanding).sum(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(policy: &str, up_seconds: f64, busy_seconds: f64) -> api::Status {
        let json = serde_json::json!({
            "version": env!("CARGO_PKG_VERSION"), "up_seconds": up_seconds,
            "memory_bytes": { "now": 95, "limit": 100 }, "connections": { "now": 2, "limit": 4096 },
            "servers": [{
                "server": "s1", "policy": policy, "queued": 3, "outstanding": 4, "busy_seconds": busy_seconds,
                "pace_bytes_per_second": null, "refused_connections": 0, "apps": [],
            }],
        });
        serde_json::from_value(json).expect("a status")
    }

    fn screen(settings: &str, policy: &str) -> String {
        let text = format!(
            "[[server]]\nname = \"s1\"\naddress = \"tcp://h1:1\"\n[[server]]\nname = \"s2\"\naddress = \"tcp://h2:1\"\n\
             [[listener]]\nport = 5334\n{settings}"
        );
        let config = Config::parse("vpfs.toml", &text).unwrap();
        let silent = vec!["the proxy of s2 has ended".to_owned()];
        let after = Answers { list: vec![status(policy, 7202.0, 11.5)], silent };
        Screen::of("vpfs.toml".to_owned(), &config, &[status(policy, 7200.0, 10.0)], &after).text()
    }

    #[test]
    fn one_screen_says_what_is_there_and_what_is_wrong() {
        let text = screen("", "isolation");
        for line in [
            "  config      vpfs.toml\n  health      warn\n              - the proxy of s2 has ended\n",
            "- the proxy of s1 uses 95 % of limits.memory\n",
            "  servers     s1; not asked or silent: s2\n",
            &format!("  proxies     1 running, version {}, up 2 h\n", env!("CARGO_PKG_VERSION")),
            "  policy      isolation, mode manage\n",
            "  storage     busy 75 % of 2 s\n",
            "  requests    3 wait in vpfs, 4 are in the storage\n",
            "  now         no application waits for another\n",
        ] {
            assert!(text.contains(line), "{line} in\n{text}");
        }
        assert!(text.lines().all(|line| line.chars().count() <= 80) && text.lines().count() < 24, "{text}");
    }

    #[test]
    fn a_policy_that_is_not_the_one_of_the_file_is_a_reason() {
        assert!(screen("", "fifo").contains("- s1 runs fifo, not isolation as in the file: reload"));
        let observing = screen("[scheduler]\nmode = \"observe\"\n", "fifo");
        assert!(observing.contains("isolation, mode observe: nothing is held") && !observing.contains("reload"));
    }
}
