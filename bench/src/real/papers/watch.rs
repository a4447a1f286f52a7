//! What the first server's proxy says each second.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::path::Path;
use std::time::Duration;

/// Values of each second.
#[derive(Debug, Default)]
pub(super) struct Watched {
    /// The depth, if the policy has found one.
    pub(super) depths: Vec<f64>,
    /// Metadata requests that have ended so far, by application.
    ended: BTreeMap<String, Vec<u64>>,
}

impl Watched {
    /// Asks the proxy at `socket` each second.
    pub(super) async fn watch(&mut self, socket: Option<&Path>) -> Infallible {
        let Some(socket) = socket else { return std::future::pending().await };
        let mut seconds = tokio::time::interval(Duration::from_secs(1));
        seconds.tick().await;
        loop {
            seconds.tick().await;
            let metrics = vpfs_proxy::admin::get(socket, vpfs_proxy::admin::METRICS).await.unwrap_or_default();
            self.add(&String::from_utf8_lossy(&metrics));
        }
    }

    fn add(&mut self, metrics: &str) {
        for (series, value) in metrics.lines().filter_map(|line| line.rsplit_once(' ')) {
            let labels: Vec<&str> = series.split('"').collect();
            match labels[..] {
                ["vpfs_server_depth{server=", ..] => self.depths.extend(value.parse::<f64>()),
                ["vpfs_app_requests_total{server=", _, ",app=", app, ",op=", "metadata", _] => {
                    let whole = value.split('.').next().and_then(|whole| whole.parse::<u64>().ok());
                    self.ended.entry(app.to_owned()).or_default().extend(whole);
                }
                _ => {}
            }
        }
    }

    /// The metadata requests of an application that ended in each second.
    pub(super) fn requests(&self, app: &str) -> Vec<u64> {
        let ended = self.ended.get(app).map(Vec::as_slice).unwrap_or_default();
        let before = [0].iter().chain(ended);
        ended.iter().zip(before).map(|(now, before)| now.saturating_sub(*before)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_become_values_of_seconds() {
        let mut watched = Watched::default();
        let metadata = "vpfs_app_requests_total{server=\"s0\",app=\"a\",op=\"metadata\"}";
        watched.add(&format!("vpfs_server_depth{{server=\"s0\"}} 8.0\n{metadata} 5\n{metadata}x\n"));
        let reads = metadata.replace("metadata", "read");
        watched.add(&format!("# TYPE vpfs_server_depth gauge\n{reads} 9\n{metadata} 7\n"));
        assert_eq!(
            (&watched.depths[..], watched.requests("a"), watched.requests("b")),
            (&[8.0][..], vec![5, 2], vec![])
        );
    }
}
