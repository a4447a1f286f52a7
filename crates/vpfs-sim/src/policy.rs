//! Builds nodes as a scenario specifies.

use vpfs_core::ioco::order_of;
use vpfs_core::{AppId, AppPolicy, ServerId, Time};
use vpfs_node::coordination::Members;
use vpfs_node::{Node, NodeSettings, PeerSettings};

use crate::peer_network::PeerNetwork;
use crate::scenario::{App, PolicySpec};

/// The settings from which the nodes of all servers are built.
#[derive(Clone, Debug)]
pub(crate) struct NodePlan {
    policy: PolicySpec,
    apps: Vec<(String, AppPolicy)>,
    servers: Members,
    coordination: vpfs_node::coordination::CoordinationSettings,
}

impl NodePlan {
    pub(crate) fn new(policy: PolicySpec, apps: &[App], servers: u32, network: &PeerNetwork) -> Self {
        let apps = apps.iter().map(|app| (app.name.clone(), app_policy(app))).collect();
        let servers = (0..servers).map(ServerId).collect();
        Self { policy, apps, servers, coordination: network.settings }
    }

    /// The node of a server for its start number `incarnation`; it knows all applications.
    pub(crate) fn build(&self, now: Time, server: u32, incarnation: u64) -> Node {
        let servers = self.servers.clone();
        let peers = PeerSettings { incarnation, servers, coordination: self.coordination };
        let settings = NodeSettings {
            policy: self.policy.settings.clone(),
            metadata_cost: self.policy.metadata_cost,
            peers: Some(peers),
        };
        let mut node = Node::new(now, ServerId(server), &settings);
        for (app, (name, policy)) in (0..).map(AppId).zip(&self.apps) {
            node.set_app(now, app, name, policy);
        }
        node
    }
}

/// Whether servers exchange messages with these applications.
pub(crate) fn needs_peers(policy: &PolicySpec, apps: &[App]) -> bool {
    policy
        .settings
        .needs_peers(apps.iter().flat_map(|app| app_policy(app).totals().map(|(kind, _)| kind).collect::<Vec<_>>()))
}

fn app_policy(app: &App) -> AppPolicy {
    let order = Some(app.order.unwrap_or_else(|| order_of(&app.name)));
    AppPolicy {
        weight: app.weight,
        group: None,
        cap: app.cap,
        target: app.target,
        minimum: app.minimum,
        latency: app.latency,
        order,
    }
}
