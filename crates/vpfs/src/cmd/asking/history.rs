//! The history that proxies of this host have kept.

use std::time::Duration;

use vpfs_admin::api::{History, Sample};
use vpfs_admin::route_of_history;
use vpfs_config::Config;

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
        let answers = runtime()?.block_on(self.answers_to::<History>(&route, &config))?.told();
        let begins = answers.iter().filter_map(|history| history.begins).min();
        let samples = answers.into_iter().flat_map(|history| history.samples);
        let mut samples: Vec<Sample> = samples.filter(|sample| self.is_wanted(&sample.server)).collect();
        samples.sort_by_key(|sample| sample.at);
        Ok(Kept { begins, samples })
    }
}
