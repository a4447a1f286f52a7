//! The history that proxies of this host have kept.

use std::time::Duration;

use vpfs_admin::api::{History, Sample};
use vpfs_admin::{kept_history, route_of_history};
use vpfs_config::Config;
use vpfs_proxy::StateDir;

use super::Asking;
use crate::cmd::runtime;
use crate::exit::Exit;

/// What several proxies have kept.
pub(in super::super) struct Kept {
    /// When the earliest sample of any began, in seconds since 1970; `None` if there is none.
    pub(in super::super) begins: Option<u64>,
    /// Oldest first.
    pub(in super::super) samples: Vec<Sample>,
}

impl Asking {
    /// All samples of `app` of the latest time, or of all applications the sum of each.
    pub(in super::super) fn history(&self, app: Option<&str>, since: Duration) -> Result<Kept, Exit> {
        let config: Config = self.config()?;
        let route = route_of_history(app, since.as_secs());
        let (mut answers, failure) = match runtime()?.block_on(self.answers_to::<History>(&route, &config)) {
            Ok(answers) => (answers.told(), None),
            Err(failure) => (Vec::new(), Some(failure)),
        };
        if !self.remote {
            let kept = self.of_the_ended(&config, &answers, (app, since));
            answers.extend(kept);
        }
        if let Some(failure) = failure.filter(|_| answers.is_empty()) {
            return Err(failure);
        }
        let begins = answers.iter().filter_map(|history| history.begins).min();
        let samples = answers.into_iter().flat_map(|history| history.samples);
        let mut samples: Vec<Sample> = samples.filter(|sample| self.is_wanted(&sample.server)).collect();
        samples.sort_by_key(|sample| sample.at);
        Ok(Kept { begins, samples })
    }

    /// What proxies of this host have kept that do not answer.
    fn of_the_ended(
        &self,
        config: &Config,
        answers: &[History],
        (app, since): (Option<&str>, Duration),
    ) -> Vec<History> {
        let is_missing = |name: &str| answers.iter().all(|answer| answer.servers.iter().all(|server| server != name));
        let missing = config.servers.iter().map(|server| &server.name).filter(|name| is_missing(name));
        let kept = missing.filter_map(|name| {
            let path = StateDir::of_service().file(&format!("{name}.history.sqlite")).filter(|path| path.exists())?;
            match kept_history(&path, app, since.as_secs()) {
                Ok(kept) => {
                    eprintln!("vpfs: the proxy of {name} does not answer; this is what it kept in {}", path.display());
                    Some(kept)
                }
                Err(error) => {
                    eprintln!("vpfs: what the proxy of {name} kept in {} cannot be read: {error}", path.display());
                    None
                }
            }
        });
        kept.collect()
    }
}
