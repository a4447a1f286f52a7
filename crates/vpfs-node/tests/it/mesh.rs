//! Processes that connect to each other over a simulated network, in virtual time.

use std::collections::BTreeMap;
use std::time::Duration;

use vpfs_core::{ServerId, Time};
use vpfs_node::PeerMessage;
use vpfs_node::coordination::{Message, Position, Standing};
use vpfs_node::frames::{Frame, Hello, Report};
use vpfs_node::mesh::{Action, Event, LinkId, Mesh, MeshSettings, Origin, Refusal};

const STEP: Duration = Duration::from_millis(10);

fn settings(servers: usize, own: &[u32], incarnation: u64) -> MeshSettings {
    MeshSettings {
        cluster: "scratch".into(),
        incarnation,
        servers: (1..=servers).map(|number| format!("s{number}")).collect(),
        own: own.iter().map(|&id| ServerId(id)).collect(),
        ping: Duration::from_secs(1),
        lost_after: Duration::from_secs(5),
        redial_max: Duration::from_secs(2),
        clock_limit: Duration::from_millis(50),
    }
}

fn message(version: u64) -> PeerMessage {
    let (ack, at) = (Position::default(), Position { horizon: 0, version });
    let standing = Standing { members: 0, group: ServerId(0), side: ServerId(0), stream: 1, to_stream: 0, live: 1 };
    PeerMessage::Service(Message {
        incarnation: 1,
        age: Duration::ZERO,
        to: None,
        standing,
        ack,
        base: 0,
        at,
        more: false,
        entries: [].into(),
    })
}

/// A process, what it was told, and how far its clock is ahead.
struct Process {
    mesh: Mesh,
    own: Vec<u32>,
    events: Vec<Event>,
    delivered: Vec<(u32, u32, u64)>,
    ahead: Duration,
    /// By how much it was told that the cluster's clock is ahead of its own.
    told_ns: i64,
    runs: bool,
}

/// Connections are numbered; both ends use the same number.
struct Network {
    now: Time,
    processes: Vec<Process>,
    /// The two processes of each connection.
    links: BTreeMap<LinkId, [usize; 2]>,
    /// Pairs of processes between which nothing passes.
    cut: Vec<[usize; 2]>,
    /// Processes that cannot open connections.
    cannot_dial: Vec<usize>,
    opened: u64,
}

impl Network {
    fn new(owns: &[&[u32]]) -> Self {
        let now = Time::from_millis(1_000_000);
        let servers = owns.concat().len();
        let process = |own: &&[u32]| Process {
            mesh: Mesh::new(now, settings(servers, own, 1)).unwrap(),
            own: own.to_vec(),
            events: vec![],
            delivered: vec![],
            ahead: Duration::ZERO,
            told_ns: 0,
            runs: true,
        };
        let processes = owns.iter().map(process).collect();
        Self { now, processes, links: BTreeMap::new(), cut: vec![], cannot_dial: vec![], opened: 0 }
    }

    fn restart(&mut self, index: usize, incarnation: u64) {
        let servers = self.processes.iter().map(|process| process.own.len()).sum();
        self.restart_with(index, incarnation, servers);
    }

    /// With a file that has the first `servers` only.
    fn restart_with(&mut self, index: usize, incarnation: u64, servers: usize) {
        let own = self.processes[index].own.clone();
        self.processes[index].mesh = Mesh::new(self.now, settings(servers, &own, incarnation)).unwrap();
        let gone: Vec<LinkId> =
            self.links.iter().filter(|(_, ends)| ends.contains(&index)).map(|(id, _)| *id).collect();
        gone.into_iter().for_each(|id| self.close(id, index));
    }

    fn time_of(&self, index: usize) -> Time {
        self.now + self.processes[index].ahead
    }

    fn passes(&self, a: usize, b: usize) -> bool {
        let is_cut = self.cut.iter().any(|pair| *pair == [a, b] || *pair == [b, a]);
        self.processes[a].runs && self.processes[b].runs && !is_cut
    }

    /// `by` closed it; the other end notices if it can.
    fn close(&mut self, id: LinkId, by: usize) {
        let Some(ends) = self.links.get(&id).copied() else { return };
        let other = ends[usize::from(ends[0] == by)];
        if self.passes(by, other) {
            self.links.remove(&id);
            let now = self.time_of(other);
            self.processes[other].mesh.closed(now, id);
        }
    }

    fn dial(&mut self, from: usize, server: ServerId) {
        let now = self.time_of(from);
        let to = self.processes.iter().position(|process| process.own.contains(&server.0));
        let Some(to) = to.filter(|to| self.passes(from, *to) && !self.cannot_dial.contains(&from)) else {
            return self.processes[from].mesh.dial_failed(now, server);
        };
        let id = LinkId(self.opened);
        self.opened += 1;
        let hellos = [to, from].map(|end| self.processes[end].mesh.hello().clone());
        self.links.insert(id, [from, to]);
        let theirs = self.time_of(to);
        let outcomes = [
            self.processes[from].mesh.connected(now, id, Origin::Dialed(server), &hellos[0]),
            self.processes[to].mesh.connected(theirs, id, Origin::Accepted, &hellos[1]),
        ];
        for (refusal, other) in
            outcomes.into_iter().zip([to, from]).filter_map(|(end, other)| Some((end.err()?, other)))
        {
            self.links.remove(&id);
            let (now, mesh) = (self.time_of(other), &mut self.processes[other].mesh);
            if let Some(farewell) = refusal.farewell() {
                mesh.receive(now, id, farewell).unwrap();
            }
            mesh.closed(now, id);
        }
    }

    fn drain(&mut self, index: usize) {
        let now = self.time_of(index);
        let process = &mut self.processes[index];
        if process.mesh.poll_timeout().is_some_and(|at| at <= now) {
            process.mesh.handle_timeout(now);
        }
        while let Some(action) = self.processes[index].mesh.poll_action() {
            match action {
                Action::Dial(server) => self.dial(index, server),
                Action::Close(id) => self.close(id, index),
                Action::Deliver { from, to, message } => {
                    let PeerMessage::Service(message) = message else { panic!("nothing else was sent") };
                    self.processes[index].delivered.push((from.0, to.0, message.at.version));
                }
                Action::SetClock { ahead_ns } => self.processes[index].told_ns = ahead_ns,
            }
        }
        let process = &mut self.processes[index];
        process.events.extend(std::iter::from_fn(|| process.mesh.poll_event()));
        let ready: Vec<LinkId> = std::iter::from_fn(|| process.mesh.poll_ready()).collect();
        for id in ready {
            let mut bytes = Vec::new();
            self.processes[index].mesh.poll_transmit(now, id, &mut bytes);
            let Some(ends) = self.links.get(&id).copied() else { continue };
            let other = ends[usize::from(ends[0] == index)];
            if self.passes(index, other) {
                self.arrive(other, id, &bytes);
            }
        }
    }

    fn arrive(&mut self, at: usize, id: LinkId, mut bytes: &[u8]) {
        let now = self.time_of(at);
        while let Some((frame, len)) = Frame::decode(bytes).unwrap() {
            self.processes[at].mesh.receive(now, id, frame).unwrap();
            bytes = &bytes[len..];
        }
    }

    fn run(&mut self, time: Duration) {
        let end = self.now + time;
        while self.now < end {
            self.now = self.now + STEP;
            (0..self.processes.len())
                .filter(|&i| self.processes[i].runs)
                .collect::<Vec<_>>()
                .into_iter()
                .for_each(|i| self.drain(i));
        }
    }

    /// The servers to which each process has a link.
    fn reached(&self) -> Vec<Vec<u32>> {
        let of = |process: &Process| {
            let linked = process.mesh.status(self.now + process.ahead).filter(|peer| peer.link.is_some());
            linked.map(|peer| peer.server.0).collect()
        };
        self.processes.iter().map(of).collect()
    }

    fn send(&mut self, from: u32, to: u32, version: u64) {
        let process = self.processes.iter_mut().find(|process| process.own.contains(&from)).unwrap();
        process.mesh.send(ServerId(from), ServerId(to), message(version));
    }
}

fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

#[test]
fn every_pair_of_processes_has_one_link() {
    for owns in [&[&[0][..], &[1], &[2], &[3]][..], &[&[0, 3], &[1, 2]], &[&[2, 3], &[0], &[1]], &[&[3], &[0, 1, 2]]] {
        let mut network = Network::new(owns);
        network.run(secs(3));
        for (index, reached) in network.reached().into_iter().enumerate() {
            let others = (0..4).filter(|id| !owns[index].contains(id)).collect::<Vec<_>>();
            assert_eq!(reached, others, "{owns:?}");
        }
        assert_eq!(network.links.len(), owns.len() * (owns.len() - 1) / 2, "{owns:?}");
        let opened = network.opened;
        network.run(secs(20));
        assert_eq!(network.opened, opened, "no link is replaced: {owns:?}");
    }
}

#[test]
fn reports_reach_the_server_they_are_for() {
    let mut network = Network::new(&[&[0, 3], &[1, 2]]);
    network.run(secs(1));
    for (from, to, version) in [(0, 2, 1), (3, 1, 2), (2, 0, 3), (1, 3, 4), (0, 1, 5)] {
        network.send(from, to, version);
    }
    network.run(secs(1));
    let [first, second] = [0, 1].map(|index| {
        network.processes[index].delivered.sort_unstable();
        network.processes[index].delivered.clone()
    });
    assert_eq!((first, second), (vec![(1, 3, 4), (2, 0, 3)], vec![(0, 1, 5), (0, 2, 1), (3, 1, 2)]));
    let traffic: Vec<_> =
        network.processes[0].mesh.status(network.now).map(|peer| (peer.sent, peer.received)).collect();
    assert!(traffic.iter().all(|(sent, received)| sent.messages > 0 && received.messages > 0), "{traffic:?}");
}

/// A cut is noticed by silence, told once, and over at most three seconds after it is healed; the latest report waits.
#[test]
fn a_cut_link_comes_back() {
    let mut network = Network::new(&[&[0], &[1]]);
    network.run(secs(2));
    network.cut.push([0, 1]);
    network.run(secs(60));
    assert_eq!(network.reached(), [vec![], vec![]]);
    for version in 1..=100 {
        network.send(0, 1, version);
    }
    network.cut.clear();
    network.run(secs(3));
    assert_eq!(network.processes[1].delivered, [(0, 1, 100)]);
    for (process, other) in network.processes.iter().zip([1, 0]) {
        let (servers, server) = (vec![ServerId(other)], ServerId(other));
        let up = |again| Event::Up { servers: servers.clone(), again };
        assert_eq!(process.events, [up(false), Event::Absent { server }, up(true)]);
    }
}

/// A link that ends is replaced at once, and nobody is told.
#[test]
fn a_reset_is_not_an_absence() {
    let mut network = Network::new(&[&[0], &[1]]);
    network.run(secs(6));
    let ended = LinkId(0);
    for index in 0..2 {
        let now = network.now;
        network.processes[index].mesh.closed(now, ended);
    }
    network.links.clear();
    network.run(Duration::from_millis(200));
    assert_eq!(network.reached(), [vec![1], vec![0]]);
    assert!(
        network
            .processes
            .iter()
            .all(|process| !process.events.iter().any(|event| matches!(event, Event::Absent { .. })))
    );
}

#[test]
fn a_hung_process_is_told_once_and_comes_back() {
    let mut network = Network::new(&[&[0], &[1], &[2]]);
    network.run(secs(2));
    network.processes[1].runs = false;
    network.run(secs(30));
    assert_eq!([network.reached()[0].clone(), network.reached()[2].clone()], [vec![2], vec![0]]);
    network.processes[1].runs = true;
    network.run(secs(3));
    assert_eq!(network.reached(), [vec![1, 2], vec![0, 2], vec![0, 1]]);
    let absences = network.processes[0].events.iter().filter(|event| matches!(event, Event::Absent { .. })).count();
    assert_eq!(absences, 1);
}

/// Symptom: a process that was stopped for 10 s might count others' reports of these, although they shared locally
/// meanwhile. Cause: frames in the socket's buffer that it read before its timer made the link look alive.
#[test]
fn what_waited_while_this_process_was_stopped_is_not_news() {
    let begin = Time::from_millis(1);
    let mut mesh = Mesh::new(begin, settings(2, &[0], 1)).unwrap();
    mesh.connected(begin, LinkId(1), Origin::Dialed(ServerId(1)), &hello("scratch", 1, &["s2"])).unwrap();
    while mesh.poll_action().is_some() {}
    let report = || Frame::Report(Report { from: 0, to: 0, message: message(1) });
    let later = begin + secs(10);
    assert_eq!([(); 2].map(|()| mesh.receive(later, LinkId(1), report())), [Ok(()), Ok(())]);
    let actions: Vec<Action> = std::iter::from_fn(|| mesh.poll_action()).collect();
    assert!(matches!(actions[..], [Action::Close(LinkId(1))]), "{actions:?}");
}

#[test]
fn a_restarted_process_replaces_its_link() {
    let mut network = Network::new(&[&[0], &[1]]);
    network.run(secs(2));
    for incarnation in [5, 6] {
        network.restart(1, incarnation);
        network.run(secs(3));
        assert_eq!(network.reached(), [vec![1], vec![0]]);
    }
    assert_eq!(network.links.len(), 1);
}

/// Its incarnation is less than before. If the others did not notice that the earlier process ended, as when a virtual
/// machine is restored, its link must have been silent first.
#[test]
fn a_process_whose_clock_went_back_is_connected_within_seconds() {
    for [restarted, other] in [[0, 1], [1, 0]] {
        for (is_noticed, within) in [(true, secs(2)), (false, secs(8))] {
            let mut network = Network::new(&[&[0], &[1]]);
            network.restart(restarted, 9);
            network.run(secs(2));
            if !is_noticed {
                network.cut.push([0, 1]);
            }
            network.restart(restarted, 3);
            network.cut.clear();
            network.run(within);
            assert_eq!(network.reached(), [vec![1], vec![0]], "{restarted} restarted, {other} noticed: {is_noticed}");
        }
    }
}

fn count(process: &Process, what: fn(&Event) -> bool) -> usize {
    process.events.iter().filter(|event| what(event)).count()
}

/// The last server was removed from the file of all others, or is not in it yet. Whichever should connect, its process
/// is told once, and is a peer soon after it is in all files.
#[test]
fn a_process_that_others_do_not_list_is_told_so_once() {
    for owns in [[&[0][..], &[1], &[2]], [&[1][..], &[2], &[0, 3]]] {
        let mut network = Network::new(&owns);
        network.run(secs(2));
        let listed = owns.concat().len() - 1;
        (0..2).for_each(|index| network.restart_with(index, 2, listed));
        network.processes.iter_mut().for_each(|process| process.events.clear());
        network.run(secs(120));
        assert!(network.reached()[2].is_empty() && network.reached()[..2].iter().all(|reached| !reached.is_empty()));
        let unlisted = &network.processes[2];
        assert_eq!(count(unlisted, |event| matches!(event, Event::Unlisted { .. })), 2, "{:?}", unlisted.events);
        assert_eq!(count(unlisted, |event| matches!(event, Event::Up { .. })), 0, "{:?}", unlisted.events);
        (0..2).for_each(|index| network.restart(index, 3));
        network.run(secs(3));
        assert_eq!(network.reached()[2].len(), 2);
        assert_eq!(count(&network.processes[2], |event| matches!(event, Event::Up { again: true, .. })), 2);
    }
}

/// The process that should connect cannot, for example because of a packet filter: after a while the other one does.
#[test]
fn whoever_can_connect_does() {
    let mut network = Network::new(&[&[0], &[1]]);
    network.cannot_dial.push(0);
    network.run(secs(8));
    assert_eq!(network.reached(), [vec![1], vec![0]]);
    let opened = network.opened;
    network.cannot_dial.clear();
    network.run(secs(60));
    assert_eq!((network.reached(), network.opened), (vec![vec![1], vec![0]], opened));
}

#[test]
fn clocks_that_differ_are_told() {
    let mut network = Network::new(&[&[0], &[1]]);
    network.processes[1].ahead = Duration::from_millis(200);
    network.run(secs(10));
    let clock = network.processes[0].events.iter().filter(|event| matches!(event, Event::Clock { exceeds: true, .. }));
    assert_eq!(clock.count(), 1, "{:?}", network.processes[0].events);
    let offset = network.processes[0].mesh.status(network.now).next().unwrap().offset.unwrap();
    let wrong = (offset.ahead_ns - 200_000_000).unsigned_abs();
    assert!(u128::from(wrong) <= offset.error.as_nanos() && offset.error < STEP, "{offset:?}");
}

/// Clocks are up to 9 s apart; the process whose clock is the median ends.
#[test]
fn all_processes_go_by_one_clock() {
    let mut network = Network::new(&[&[0], &[1, 5], &[2], &[3], &[4]]);
    let clocks = [500, 3200, 40, 9000, 0];
    for (process, ahead) in network.processes.iter_mut().zip(clocks) {
        process.ahead = Duration::from_millis(ahead);
    }
    for (ended, median) in [(None, 500), (Some(0), 40)] {
        ended.into_iter().for_each(|index: usize| network.processes[index].runs = false);
        network.run(secs(15));
        for process in network.processes.iter().filter(|process| process.runs) {
            let own_ms = i64::try_from(process.ahead.as_millis()).unwrap();
            let off_ns = own_ms * 1_000_000 + process.told_ns - median * 1_000_000;
            assert!(u128::from(off_ns.unsigned_abs()) <= STEP.as_nanos(), "{own_ms} ms ahead: {off_ns} ns off");
        }
    }
}

fn hello(cluster: &str, incarnation: u64, servers: &[&str]) -> Hello {
    Hello::new(cluster.into(), incarnation, servers.iter().map(|&name| name.to_owned()).collect()).unwrap()
}

#[test]
fn foreign_processes_are_refused() {
    let now = Time::from_millis(1);
    let mut mesh = Mesh::new(now, settings(4, &[0], 1)).unwrap();
    let mut offer = |id, origin, hello: &Hello| mesh.connected(now, LinkId(id), origin, hello);
    let (accepted, dialed) = (Origin::Accepted, Origin::Dialed(ServerId(1)));
    assert_eq!(offer(1, accepted, &hello("x", 1, &["s2"])), Err(Refusal::Cluster("x".into())));
    assert_eq!(offer(2, accepted, &hello("scratch", 1, &["s2", "s9"])), Err(Refusal::UnknownServer("s9".into())));
    assert_eq!(offer(3, accepted, &hello("scratch", 1, &["s1"])), Err(Refusal::OwnServer("s1".into())));
    assert_eq!(offer(4, dialed, &hello("scratch", 1, &["s3"])), Err(Refusal::WrongServer("s2".into())));
    assert_eq!(offer(5, dialed, &hello("scratch", 7, &["s2"])), Ok(()));
    assert_eq!(offer(6, accepted, &hello("scratch", 6, &["s2", "s3"])), Err(Refusal::Earlier));
    assert_eq!(offer(7, accepted, &hello("scratch", 7, &["s2"])), Err(Refusal::Duplicate));
    assert_eq!(offer(8, accepted, &hello("scratch", 8, &["s2"])), Ok(()), "it was started again");
    let report = |from, to| Frame::Report(Report { from, to, message: message(1) });
    assert_eq!(mesh.receive(now, LinkId(8), report(0, 0)), Ok(()));
    assert_eq!(mesh.receive(now, LinkId(8), report(1, 0)), Err(Refusal::ForeignReport));
    assert_eq!(mesh.receive(now, LinkId(8), report(0, 0)), Ok(()), "ignored: it is no link any more");
    let delivered = std::iter::from_fn(|| mesh.poll_action()).filter(|action| matches!(action, Action::Deliver { .. }));
    assert_eq!(delivered.count(), 1);
}

/// A process that does not read: what waits for it stays bounded, and is mostly replaced by newer reports.
#[test]
fn what_waits_is_bounded() {
    let now = Time::from_millis(1);
    let mut mesh = Mesh::new(now, settings(4, &[0], 1)).unwrap();
    mesh.connected(now, LinkId(1), Origin::Dialed(ServerId(1)), &hello("scratch", 1, &["s2"])).unwrap();
    for version in 1..10_000 {
        mesh.send(ServerId(0), ServerId(1), message(version));
        mesh.receive(now, LinkId(1), Frame::Ping { sent: now }).unwrap();
    }
    let mut bytes = Vec::new();
    mesh.poll_transmit(now, LinkId(1), &mut bytes);
    let sent = bytes.len();
    mesh.poll_transmit(now, LinkId(1), &mut bytes);
    assert!(sent < 200 && bytes.len() == sent, "{sent} and then {}", bytes.len());
    assert_eq!(mesh.status(now).next().map(|peer| peer.dropped), Some(9998));
}
