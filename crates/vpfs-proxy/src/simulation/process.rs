//! One process of the daemon: what connections share, and the way to its successor.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use rand::RngExt;
use tokio::sync::mpsc;
use vpfs_config::{AppTable, Config, Protocol};
use vpfs_session::nfs::Nfs;
use vpfs_session::orangefs::{AddressMap, OrangeFs};

use crate::accept::Acceptor;
use crate::clock::Clock;
use crate::connection::Newcomer;
use crate::connection_permits::ConnectionPermits;
use crate::gate::Gate;
use crate::listener::Listener;
use crate::log_limit::LogLimit;
use crate::names::Names;
use crate::shared::{Rules, Shared, Stage};
use crate::stream::simulated::{Randomness, Socket};

pub(super) const PROXY: ([u8; 4], u16) = ([127, 0, 0, 1], 5334);
pub(super) const SERVER: ([u8; 4], u16) = ([127, 0, 0, 1], 3334);

pub(super) struct Process {
    shared: Arc<Shared>,
    acceptor: Arc<Acceptor>,
    permits: Arc<ConnectionPermits>,
}

impl Process {
    pub(super) fn new(clock: &Clock, config: &Config) -> Self {
        let apps = AppTable::new(config);
        let gate = Arc::new(Gate::alone(clock.clone(), config, &apps));
        let listener = Listener {
            server: "s".to_owned(),
            address: PROXY.into(),
            upstream: ("127.0.0.1".to_owned(), SERVER.1),
            names: Names::unknown(clock),
            index: 0,
            interposer: match config.servers[0].address.protocol().expect("simulated servers have one") {
                Protocol::OrangeFs => Arc::new(OrangeFs::new(AddressMap::default())),
                Protocol::Nfs => Arc::new(Nfs),
            },
            gate: Arc::clone(&gate),
            down: false.into(),
            log: LogLimit::default(),
        };
        let shared = Arc::new(Shared::new(clock.clone(), vec![gate], Rules::resolved(config), apps));
        let permits = Arc::new(ConnectionPermits::new(config.limits.connections));
        let acceptor =
            Acceptor { listener: Arc::new(listener), shared: Arc::clone(&shared), permits: Arc::clone(&permits) };
        Self { shared, acceptor: Arc::new(acceptor), permits }
    }

    pub(super) fn gate(&self) -> &Arc<Gate> {
        &self.shared.gates[0]
    }

    pub(super) fn admit(&self, client: Socket, server: Socket, address: SocketAddr) {
        let permit = self.permits.try_take().unwrap();
        if let Some((newcomer, counted)) = self.acceptor.count(Newcomer::Simulated(client, server), address) {
            self.acceptor.admit(newcomer, address, counted, permit);
        }
    }

    pub(super) fn reload(&self, config: &Config) {
        self.shared.replace(Rules::resolved(config), |apps, gates| {
            apps.reload(config);
            gates.iter().for_each(|gate| gate.reconfigure(config));
        });
    }

    /// Gives every connection to `successor`, each after a random time on its way. Returns how many were cut off.
    pub(super) async fn hand_over(&self, successor: &Self, random: &Randomness) -> usize {
        let (sender, mut given) = mpsc::unbounded_channel();
        self.shared.set_successor(Some(sender));
        self.shared.enter(Stage::HandingOver);
        let giving = async {
            let cut_off = self.shared.end_connections(&self.permits).await;
            self.shared.set_successor(None);
            cut_off
        };
        let taking = async {
            while let Some(handed) = given.recv().await {
                let us = random.lock().unwrap().random_range(0..2_000);
                tokio::time::sleep(Duration::from_micros(us)).await;
                assert!(successor.acceptor.take_over(handed), "there is room");
            }
        };
        tokio::join!(giving, taking).0
    }

    /// Waits until all connections have ended, which must have given back everything, and stops.
    pub(super) async fn end(&self) {
        self.permits.all_free().await;
        assert!(self.gate().is_idle(), "slots are left");
        assert_eq!(self.shared.memory.held(), 0, "memory is left");
        self.shared.enter(Stage::Stopped);
    }
}
