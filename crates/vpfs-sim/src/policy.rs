//! Builds nodes as a scenario specifies.

use vpfs_core::{AppId, AppPolicy, ServerId, Time};
use vpfs_node::coordination::Members;
use vpfs_node::{AppName, Node, NodeSettings, PeerSettings};

use crate::peer_network::PeerNetwork;
use crate::scenario::{App, PolicySpec, RequestTime};

/// The settings from which the nodes of all servers are built.
#[derive(Clone, Debug)]
pub(crate) struct NodePlan {
    policy: PolicySpec,
    apps: Vec<PlannedApp>,
    servers: Members,
    coordination: vpfs_node::coordination::CoordinationSettings,
}

#[derive(Clone, Debug)]
struct PlannedApp {
    name: String,
    group: Option<String>,
    policy: AppPolicy,
}

impl NodePlan {
    pub(crate) fn new(policy: PolicySpec, apps: &[App], servers: u32, network: &PeerNetwork) -> Self {
        let plan = |app: &App| PlannedApp { name: app.name.clone(), group: app.group.clone(), policy: app_policy(app) };
        let apps = apps.iter().map(plan).collect();
        let servers = (0..servers).map(ServerId).collect();
        Self { policy, apps, servers, coordination: network.settings }
    }

    /// The node of a server for its start number `incarnation`; it knows all applications but members of groups.
    pub(crate) fn build(&self, now: Time, server: u32, incarnation: u64) -> Node<u32> {
        let servers = self.servers.clone();
        let peers = PeerSettings { incarnation, servers, coordination: self.coordination };
        let settings = NodeSettings {
            policy: self.policy.settings.clone(),
            metadata_cost: self.policy.metadata_cost,
            peers: Some(peers),
        };
        let mut node = Node::new(now, ServerId(server), &settings);
        for (app, planned) in (0..).map(AppId).zip(&self.apps).filter(|(_, app)| app.group.is_none()) {
            node.set_app(now, app, planned.name.as_str(), &planned.policy);
        }
        node
    }

    /// What a proxy knows of when a request was issued.
    pub(crate) fn known_issue(&self, issued: Time) -> Option<Time> {
        (self.policy.request_time == RequestTime::Issue).then_some(issued)
    }

    /// A request of `app` arrives. A member of a group is not known before its first one: in the daemon it is created
    /// for its first connection.
    pub(crate) fn introduce(&self, now: Time, node: &mut Node<u32>, app: AppId) {
        if !node.knows(app) {
            let PlannedApp { name, group, policy } = &self.apps[app.index()];
            node.set_app(now, app, AppName { name, group: group.as_deref() }, policy);
        }
    }
}

/// Whether servers exchange messages with these applications.
pub(crate) fn needs_peers(policy: &PolicySpec, apps: &[App]) -> bool {
    policy
        .settings
        .needs_peers(apps.iter().flat_map(|app| app_policy(app).totals().map(|(kind, _)| kind).collect::<Vec<_>>()))
}

fn app_policy(app: &App) -> AppPolicy {
    let App { weight, cap, target, minimum, latency, order, .. } = *app;
    AppPolicy { weight, cap, target, minimum, latency, order, ..AppPolicy::default() }
}
