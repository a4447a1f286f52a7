//! Collects what was learned (`learned`), and keeps it.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use tokio::sync::oneshot;
use vpfs_config::Config;

use crate::gate::Gate;
use crate::learned::{Known, content, write};
use crate::shared::Shared;
use crate::state_dir::StateDir;

/// How much is lost if the process is killed. What is written is a few KiB.
const EVERY: Duration = Duration::from_secs(60);
/// How long the end of a daemon waits for the files: their disk may hang.
const PATIENCE: Duration = Duration::from_secs(1);

/// Keeps what was learned in front of each server. Copies share it.
#[derive(Clone)]
pub(crate) struct Keeper {
    shared: Arc<Shared>,
    state: StateDir,
    /// By gate: the server's name and address, which do not change while a daemon runs.
    servers: Arc<[(String, String)]>,
}

impl Keeper {
    pub(crate) fn new(shared: Arc<Shared>, state: StateDir, config: &Config) -> Self {
        let server = |index: usize| &config.servers[index];
        let servers = shared.gates.iter().map(|gate| server(gate.server().index()));
        let servers = servers.map(|server| (server.name.clone(), server.address.to_string())).collect();
        Self { shared, state, servers }
    }

    /// By the name of each server whose policy learns: what a file or a successor gets.
    pub(crate) fn contents(&self) -> Vec<(String, String)> {
        let of = |(gate, (name, address)): (&Arc<Gate>, &(String, String))| {
            let learned = gate.learned()?;
            let apps = self.shared.apps();
            let known = Known::of(address.clone(), &learned, |app| Some(apps.get(app)?.name.clone()));
            Some((name.clone(), content(known)))
        };
        self.shared.gates.iter().zip(&*self.servers).filter_map(of).collect()
    }

    /// Keeps it once a minute, for ever, if it has changed and there is a directory for it.
    pub(crate) async fn run(self) {
        let mut kept = self.contents();
        while self.state.is_there() {
            tokio::time::sleep(EVERY).await;
            let contents = self.contents();
            if contents != kept {
                kept.clone_from(&contents);
                // A disk that hangs holds up nothing but this.
                let _ = self.write(contents).await;
            }
        }
    }

    /// Keeps what is known now, while `until_done` runs, and returns the result of that; waits at most a second longer.
    pub(crate) async fn finish<R>(&self, until_done: impl Future<Output = R>) -> R {
        let writing = self.state.is_there().then(|| self.write(self.contents()));
        let result = until_done.await;
        if let Some(writing) = writing {
            let _ = tokio::time::timeout(PATIENCE, writing).await;
        }
        result
    }

    /// Writes the files in a thread that does not outlive the process; returns what tells of its end.
    fn write(&self, contents: Vec<(String, String)>) -> oneshot::Receiver<()> {
        let (done, writing) = oneshot::channel();
        let state = self.state.clone();
        thread::spawn(move || {
            contents.iter().for_each(|(name, content)| write(&state, name, content));
            let _ = done.send(());
        });
        writing
    }
}
