//! Builds nodes as a scenario specifies.

use vpfs_config::Share;
use vpfs_core::{AppId, AppPolicy, ServerId, Time, Weight};
use vpfs_node::coordination::Members;
use vpfs_node::{AppName, NamedShare, Node, NodeSettings, PeerSettings};

use crate::scenario::{App, PolicySpec, RequestTime, Scenario};

/// The settings from which the nodes of all servers are built.
#[derive(Clone, Debug)]
pub(crate) struct NodePlan {
    policy: PolicySpec,
    shares: Vec<Share>,
    apps: Vec<PlannedApp>,
    servers: Members,
    coordination: vpfs_node::coordination::CoordinationSettings,
}

#[derive(Clone, Debug)]
struct PlannedApp {
    name: String,
    share: Option<String>,
    policy: AppPolicy,
}

impl NodePlan {
    pub(crate) fn new(policy: PolicySpec, scenario: &Scenario, servers: u32) -> Self {
        let plan = |app: &App| PlannedApp { name: app.name.clone(), share: app.share.clone(), policy: app_policy(app) };
        let apps = scenario.apps.iter().map(plan).collect();
        let servers = (0..servers).map(ServerId).collect();
        Self { policy, shares: scenario.shares.clone(), apps, servers, coordination: scenario.peers.settings }
    }

    /// The node of a server for its start number `incarnation`; it knows all applications but those in shares.
    pub(crate) fn build(&self, now: Time, server: u32, incarnation: u64) -> Node<u32> {
        let servers = self.servers.clone();
        let peers = PeerSettings { incarnation, servers, coordination: self.coordination };
        let settings = NodeSettings {
            policy: self.policy.settings.clone(),
            metadata_cost: self.policy.metadata_cost,
            peers: Some(peers),
        };
        let mut node = Node::new(now, ServerId(server), &settings).without_accounts();
        node.set_shares(now, self.shares.iter().map(|Share { path, policy }| NamedShare { path, policy: *policy }));
        for (app, planned) in (0..).map(AppId).zip(&self.apps).filter(|(_, app)| app.share.is_none()) {
            node.set_app(now, app, planned.name.as_str(), &planned.policy);
        }
        node
    }

    /// What a proxy knows of when a request was issued.
    pub(crate) fn known_issue(&self, issued: Time) -> Option<Time> {
        (self.policy.request_time == RequestTime::Issue).then_some(issued)
    }

    /// A request of `app` arrives. One in a share is not known before its first one: in the daemon, automatic ones are
    /// created for their first connection.
    pub(crate) fn introduce(&self, now: Time, node: &mut Node<u32>, app: AppId) {
        if !node.knows(app) {
            let PlannedApp { name, share, policy } = &self.apps[app.index()];
            let share = share.as_deref().map(|path| NamedShare::new(path, Weight::ONE));
            node.set_app(now, app, AppName { name, share }, policy);
        }
    }
}

/// Whether servers exchange messages in this scenario.
pub(crate) fn needs_peers(policy: &PolicySpec, scenario: &Scenario) -> bool {
    let of_apps = scenario.apps.iter().flat_map(|app| app_policy(app).totals().collect::<Vec<_>>());
    let all = of_apps.chain(scenario.shares.iter().flat_map(|share| share.policy.totals()));
    policy.settings.needs_peers(all.map(|(kind, _)| kind))
}

fn app_policy(app: &App) -> AppPolicy {
    let App { weight, cap, target, minimum, latency, order, .. } = *app;
    AppPolicy { weight, cap, target, minimum, latency, order, ..AppPolicy::default() }
}
