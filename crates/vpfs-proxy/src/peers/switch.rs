//! The task that owns the state of all links.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use vpfs_core::ServerId;
use vpfs_peer::mesh::{Action, Event, LinkId, Mesh, Origin, Refusal};

use super::handshake::{self, Introduced};
use super::input::Input;
use super::{Cluster, PeerState, connection};
use crate::gate::Gate;
use crate::log_limit::{Kind, LogLimit};
use crate::outbox::{Outbox, Outgoing};

/// The tasks of a connection; they end with it.
struct Connection {
    address: String,
    batches: mpsc::Sender<Vec<u8>>,
    /// A batch is under way.
    is_writing: bool,
    _tasks: JoinSet<()>,
}

/// All links of a process. Dropping it closes them.
pub(super) struct Switch {
    mesh: Mesh,
    cluster: Arc<Cluster>,
    outbox: Outbox,
    gates: Vec<Arc<Gate>>,
    inputs: mpsc::Sender<Input>,
    connections: BTreeMap<LinkId, Connection>,
    opened: u64,
    /// Attempts to connect, and farewells.
    dials: JoinSet<()>,
    log: LogLimit,
}

impl Switch {
    pub(super) fn new(
        mesh: Mesh,
        cluster: Arc<Cluster>,
        outbox: Outbox,
        gates: Vec<Arc<Gate>>,
        inputs: mpsc::Sender<Input>,
    ) -> Self {
        let (connections, dials, log) = (BTreeMap::new(), JoinSet::new(), LogLimit::default());
        Self { mesh, cluster, outbox, gates, inputs, connections, opened: 0, dials, log }
    }

    /// Runs for ever.
    pub(super) async fn run(
        mut self,
        mut outgoing: mpsc::Receiver<Outgoing>,
        mut inputs: mpsc::Receiver<Input>,
        mut asked: mpsc::Receiver<oneshot::Sender<Vec<PeerState>>>,
    ) {
        loop {
            self.drain();
            let due = self.mesh.poll_timeout().map(|time| self.cluster.clock.instant(time));
            let timer = async {
                match due {
                    Some(due) => tokio::time::sleep_until(due).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                Some((from, to, message)) = outgoing.recv() => {
                    self.mesh.send(from, to, message);
                    // All that wait go into one batch.
                    while let Ok((from, to, message)) = outgoing.try_recv() {
                        self.mesh.send(from, to, message);
                    }
                }
                Some(input) = inputs.recv() => self.take(input),
                Some(answer) = asked.recv() => {
                    // Who asked may be gone.
                    let _ = answer.send(self.state());
                }
                () = timer => self.mesh.handle_timeout(self.cluster.clock.now()),
                Some(_) = self.dials.join_next() => {}
            }
        }
    }

    fn take(&mut self, input: Input) {
        let now = self.cluster.clock.now();
        match input {
            Input::Connected(origin, introduced) => self.connected(origin, introduced),
            Input::DialFailed(server, error) => {
                tracing::debug!(server = %self.cluster.names[server.index()], %error, "peer cannot be reached");
                if matches!(error.kind(), io::ErrorKind::InvalidData | io::ErrorKind::InvalidInput) {
                    self.refused(Kind::Malformed, &self.cluster.names[server.index()], &error);
                }
                self.mesh.dial_failed(now, server);
            }
            Input::Frame(id, frame) => {
                if let Err(refusal) = self.mesh.receive(now, id, frame) {
                    self.cut(id, &refusal);
                }
            }
            Input::Malformed(id, error) => {
                self.mesh.closed(now, id);
                self.cut(id, &error);
            }
            Input::Closed(id, error) => {
                tracing::debug!(link = id.0, %error, "a connection to a peer ended");
                self.mesh.closed(now, id);
                self.connections.remove(&id);
            }
            Input::Written(id) => {
                if let Some(connection) = self.connections.get_mut(&id) {
                    connection.is_writing = false;
                    self.transmit(id);
                }
            }
        }
    }

    fn connected(&mut self, origin: Origin, introduced: Introduced) {
        let Introduced { stream, hello, rest, address } = introduced;
        let id = LinkId(self.opened);
        self.opened += 1;
        if let Err(refusal) = self.mesh.connected(self.cluster.clock.now(), id, origin, &hello) {
            let is_usual = matches!(refusal, Refusal::Duplicate | Refusal::Earlier);
            if !is_usual {
                self.refused(Kind::Violation, &address, &refusal);
            }
            if let Some(farewell) = refusal.farewell() {
                self.dials.spawn(handshake::part(stream, farewell));
            }
            return;
        }
        let (reading, writing) = tokio::io::split(stream);
        let (batches, taken) = mpsc::channel(1);
        let mut tasks = JoinSet::new();
        tasks.spawn(connection::read(id, reading, rest, self.inputs.clone()));
        tasks.spawn(connection::write(id, writing, taken, self.inputs.clone()));
        self.connections.insert(id, Connection { address, batches, is_writing: false, _tasks: tasks });
    }

    fn drain(&mut self) {
        while let Some(action) = self.mesh.poll_action() {
            match action {
                Action::Dial(server) => self.dial(server),
                Action::Close(id) => drop(self.connections.remove(&id)),
                Action::Deliver { from, to, message } => self.outbox.deliver(from, to, message),
                Action::SetClock { ahead_ns } => {
                    tracing::debug!(ahead_ms = ahead_ns / 1_000_000, "the median of all clocks, for ioco");
                    self.gates.iter().for_each(|gate| gate.set_clock(ahead_ns));
                }
            }
        }
        while let Some(event) = self.mesh.poll_event() {
            self.tell(&event);
        }
        while let Some(id) = self.mesh.poll_ready() {
            self.transmit(id);
        }
    }

    fn dial(&mut self, server: ServerId) {
        let (cluster, inputs) = (Arc::clone(&self.cluster), self.inputs.clone());
        self.dials.spawn(async move {
            let security = cluster.security();
            let input = match handshake::dial(&cluster, &security, server).await {
                Ok(introduced) => Input::Connected(Origin::Dialed(server), introduced),
                Err(error) => Input::DialFailed(server, error),
            };
            // Fails only if the process ends.
            let _ = inputs.send(input).await;
        });
    }

    /// Gives the writer of a connection what there is to send, unless it is busy; then it asks when it is not.
    fn transmit(&mut self, id: LinkId) {
        let Some(connection) = self.connections.get_mut(&id).filter(|connection| !connection.is_writing) else {
            return;
        };
        let mut batch = Vec::new();
        self.mesh.poll_transmit(self.cluster.clock.now(), id, &mut batch);
        if !batch.is_empty() {
            connection.is_writing = connection.batches.try_send(batch).is_ok();
        }
    }

    /// Closes a connection whose process does not follow the protocol.
    fn cut(&mut self, id: LinkId, reason: &dyn std::fmt::Display) {
        let address = self.connections.remove(&id).map(|connection| connection.address).unwrap_or_default();
        self.refused(Kind::Violation, &address, reason);
    }

    fn refused(&self, kind: Kind, peer: &str, reason: &dyn std::fmt::Display) {
        if let Some(suppressed) = self.log.due(kind, self.cluster.clock.now()) {
            let suppressed = (suppressed > 0).then_some(suppressed);
            tracing::warn!(peer, %reason, suppressed, "a peer was refused");
        }
    }

    fn tell(&self, event: &Event) {
        let names = |servers: &[ServerId]| {
            servers.iter().map(|id| self.cluster.names[id.index()].as_str()).collect::<Vec<_>>().join(",")
        };
        match event {
            Event::Up { servers, again: false } => tracing::info!(servers = names(servers), "peer connected"),
            Event::Up { servers, again: true } => {
                tracing::info!(servers = names(servers), "peer is back: shares count its service again");
            }
            Event::Absent { server } => tracing::warn!(
                server = names(&[*server]),
                "the proxy of this server cannot be reached: shares do not count what applications get there"
            ),
            Event::Unlisted { servers } => tracing::warn!(
                servers = names(servers),
                "the proxies of these servers do not have a server of this process in their configuration: nothing counts \
                 that applications get here or there. Was it removed, or do they have to read the file again?"
            ),
            Event::Clock { servers, offset, exceeds: true } => tracing::warn!(
                servers = names(servers),
                ahead_ms = offset.ahead_ns / 1_000_000,
                "the clock of this peer differs by more than peers.clock_limit: synchronise both hosts with NTP; until \
                 then ioco goes by the median of all clocks"
            ),
            Event::Clock { servers, .. } => {
                tracing::info!(servers = names(servers), "the clock of this peer agrees again")
            }
        }
    }

    fn state(&self) -> Vec<PeerState> {
        let address = |id| self.connections.get(&id).map(|connection| connection.address.clone());
        let status = self.mesh.status(self.cluster.clock.now());
        status.map(|status| PeerState { status, address: status.link.and_then(address) }).collect()
    }
}
