//! How the gates of one daemon tell each other what applications got at their servers [vPFS §III-B].

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use tokio::sync::mpsc;
use vpfs_config::{AppTable, Config};
use vpfs_coord::{Coordinator, Event, FlowKey, Message, MessageError, Settings};
use vpfs_core::{AppId, Scheduler, ServerId, ServiceReport, SharingMode, Time};

use crate::gate::Gate;
use crate::policy::ServerScheduler;

/// Messages for one gate that it has not looked at yet; more are dropped, which the protocol mends.
const LETTERS_MAX: usize = 1024;

/// A message and who sent it.
pub(crate) type Letter = (ServerId, Message);

/// The way to the other gates.
#[derive(Clone, Default)]
pub(crate) struct Post(BTreeMap<ServerId, mpsc::Sender<Letter>>);

impl Post {
    /// The way to all gates of these servers, and for each what comes in.
    pub(crate) fn between(servers: &[ServerId]) -> (Self, Vec<mpsc::Receiver<Letter>>) {
        let boxes = servers.iter().map(|&server| (server, mpsc::channel(LETTERS_MAX)));
        let (senders, letters) = boxes.map(|(server, (sender, letters))| ((server, sender), letters)).unzip();
        (Self(senders), letters)
    }

    pub(crate) fn send(&self, from: ServerId, messages: Vec<(ServerId, Message)>) {
        for (to, message) in messages {
            if let Some(peer) = self.0.get(&to) {
                // A full box is a lost message: the next one tells the same and more.
                let _ = peer.try_send((from, message));
            }
        }
    }

    fn servers(&self) -> impl Iterator<Item = ServerId> {
        self.0.keys().copied()
    }
}

/// Gives a gate what its peers send, for ever.
pub(crate) async fn deliver(gate: Arc<Gate>, mut letters: mpsc::Receiver<Letter>) {
    while let Some((from, message)) = letters.recv().await {
        gate.receive(from, &message);
    }
}

/// What one gate knows of the others, while shares hold over all servers.
pub(crate) struct Peers {
    coordinator: Coordinator,
    /// By application.
    keys: Vec<FlowKey>,
    apps: HashMap<FlowKey, AppId>,
}

impl Peers {
    /// `None` if shares hold at each server for itself, or there is no other one.
    pub(crate) fn new(now: Time, me: ServerId, post: &Post, config: &Config) -> Option<Self> {
        let alone = post.servers().all(|server| server == me);
        if alone || config.scheduler.policy.sharing.mode == SharingMode::Local {
            return None;
        }
        // The daemon's table of applications bounds the flows of all its gates, and may grow when it is reloaded.
        let settings = Settings { max_flows: usize::MAX, ..Settings::default() };
        let coordinator = Coordinator::new(now, me, now.as_nanos(), post.servers(), settings);
        Some(Self { coordinator, keys: Vec::new(), apps: HashMap::new() })
    }

    /// The applications have names that all servers know; their numbers are this daemon's.
    pub(crate) fn name(&mut self, app: AppId, name: &str) {
        let key = FlowKey::of(name);
        if app.index() >= self.keys.len() {
            self.keys.resize(app.index() + 1, FlowKey(0));
        }
        self.keys[app.index()] = key;
        self.apps.insert(key, app);
    }

    pub(crate) fn name_all(&mut self, apps: &AppTable) {
        for (app, entry) in apps.iter() {
            self.name(app, &entry.name);
        }
    }

    /// Takes a message in; what is wrong with it if it makes no sense.
    pub(crate) fn receive(&mut self, now: Time, from: ServerId, message: &Message) -> Result<(), MessageError> {
        self.coordinator.handle_message(now, from, message)
    }

    /// Tells the coordinator what the scheduler reports, and the scheduler what peers did. What is to be sent.
    pub(crate) fn exchange(&mut self, now: Time, scheduler: &mut ServerScheduler) -> Vec<(ServerId, Message)> {
        while let Some(ServiceReport { app, class, bytes }) = scheduler.poll_report(now) {
            let told = self.coordinator.report(self.keys[app.index()], class, bytes);
            told.expect("flows are bounded by the applications, not by the coordinator");
        }
        while let Some((key, class, bytes)) = self.coordinator.poll_service() {
            if let Some(&app) = self.apps.get(&key) {
                scheduler.handle_peer(now, ServiceReport { app, class, bytes });
            }
        }
        std::iter::from_fn(|| self.coordinator.poll_transmit(now)).collect()
    }

    /// The next thing that happened between servers.
    pub(crate) fn poll_event(&mut self) -> Option<(Time, Event)> {
        self.coordinator.poll_event()
    }

    pub(crate) fn poll_timeout(&self) -> Option<Time> {
        self.coordinator.poll_timeout()
    }

    pub(crate) fn handle_timeout(&mut self, now: Time) {
        self.coordinator.handle_timeout(now);
    }
}

#[cfg(test)]
mod tests {
    use vpfs_core::{Bytes, OpKind, Request, RequestId, ServiceClass};

    use super::*;

    const CONFIG: &str = r#"
        [[server]]
        name = "s1"
        address = "tcp://10.0.0.1:3334"
        [[server]]
        name = "s2"
        address = "tcp://10.0.0.2:3334"
        [[listener]]
        port = 5334
        [scheduler]
        policy = "sfq-d"
        sharing = "threshold"
        broadcast_threshold = "4KiB"
        [apps]
        auto_limit = 10
    "#;

    /// Symptom: after a reload that allows more automatic applications, what the new ones get is told to no other server.
    /// Cause: the coordinator's bound on flows was that of the configuration at its start. Proof: all are told.
    #[test]
    fn applications_that_a_reload_allows_are_told_to_other_servers() {
        const APPS: u32 = 5000;
        let config = Config::parse("test", CONFIG).unwrap();
        let (post, _letters) = Post::between(&[ServerId(0), ServerId(1)]);
        let now = Time::from_millis(1);
        let mut peers = Peers::new(now, ServerId(0), &post, &config).expect("there is another server");
        let mut scheduler = crate::policy::scheduler(&config);
        for app in 0..APPS {
            peers.name(AppId(app), &format!("host:{app}"));
            scheduler.enqueue(now, Request::new(RequestId(app), AppId(app), OpKind::Write, Bytes::kib(4)));
            peers.exchange(now, &mut scheduler);
        }
        let told = |app: u32| {
            let key = FlowKey::of(&format!("host:{app}"));
            peers.coordinator.own_service(key, ServiceClass::Data)
        };
        assert!((0..APPS).all(|app| told(app) == Some(4096)));
    }
}
