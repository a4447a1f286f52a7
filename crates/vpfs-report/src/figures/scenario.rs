//! The scenario files of figures, in `scenarios/figures/` of the repository, and the papers' clusters, each described
//! once.

use std::time::Duration;

use vpfs_sim::model::device::{DeviceProfile, HddProfile, PageCacheProfile};
use vpfs_sim::{LinkProfile, PolicySpec, Results, Scenario, ServerGroup, SimError, Simulation};

use crate::{Section, Table};

/// Seeds of the runs of which a row has the median.
pub(crate) const SEEDS: [u64; 5] = [1, 2, 3, 4, 5];

/// Parses the scenario file of a figure; the figure then changes the parameters that it sweeps.
pub(crate) fn parse(file: &str, text: &str) -> Result<Scenario, SimError> {
    Scenario::parse(file, text).map_err(|problems| SimError::Scenario(problems.to_string()))
}

pub(crate) fn run(scenario: &Scenario, policy: &str) -> Result<Results, SimError> {
    let missing = || SimError::Scenario(format!("{}: there is no policy {policy:?}", scenario.name));
    let policy: &PolicySpec = scenario.policies.iter().find(|found| found.name == policy).ok_or_else(missing)?;
    Simulation::new(scenario, policy)?.run()
}

pub(crate) fn seeded(scenario: &Scenario, seed: u64) -> Scenario {
    Scenario { seed, ..scenario.clone() }
}

/// What a scenario file says of its assumptions and sources, as a table: the comments at its head, an item for each "-
/// ".
pub(crate) fn assumptions(section: Section, text: &str) -> Section {
    let head = text.lines().map_while(|line| line.strip_prefix('#')).map(str::trim);
    let mut items: Vec<String> = Vec::new();
    for line in head {
        match line.strip_prefix("- ") {
            Some(item) => items.push(item.to_owned()),
            None => match items.last_mut() {
                Some(item) if !line.is_empty() => *item = format!("{item} {line}"),
                _ => {}
            },
        }
    }
    let heading = Table::new(["assumptions and sources, with the hardware of the testbed"]);
    section.table(items.into_iter().fold(heading, |table, item| table.row([item])))
}

/// The eight storage nodes of [vPFS §IV-A] and [vPFS+ §V-A]: one 500 GB 7200 rpm SAS disk each for data, EXT3 in data
/// journalling mode, gigabit Ethernet.
pub(crate) fn vpfs_servers() -> ServerGroup {
    ServerGroup::new(8, DeviceProfile::Hdd(HddProfile::SAS_7200))
}

/// Servers of [IOCO §5.1]: 7200 rpm SATA disks behind gigabit Ethernet, with PVFS2.
pub(crate) fn ioco_disks(count: u32) -> ServerGroup {
    let disk = Box::new(DeviceProfile::Hdd(HddProfile::SATA_7200));
    ServerGroup::new(count, DeviceProfile::PageCache(PageCacheProfile::LINUX_8_GB, disk))
}

/// The eight servers of [IOCO §2], with the same disks behind 4X InfiniBand.
pub(crate) fn ioco_disks_on_infiniband() -> ServerGroup {
    ServerGroup { link: LinkProfile::INFINIBAND_4X, ..ioco_disks(8) }
}

/// Servers of [IOCO §5.1] with PCI-E X4 flash behind 4X InfiniBand, with PVFS2.
pub(crate) fn ioco_flash(count: u32) -> ServerGroup {
    let device = DeviceProfile::PageCache(PageCacheProfile::LINUX_8_GB_FLASH, Box::new(DeviceProfile::ssd()));
    ServerGroup { link: LinkProfile::INFINIBAND_4X, ..ServerGroup::new(count, device) }
}

/// The spread of simultaneous requests on gigabit Ethernet, **assumed**: a dozen full frames of other traffic in front
/// of them at each of a few places, and the time slices of client processes: a third of a millisecond each for the
/// application, the process and the request. [IOCO §5.2] says only that delays are not uniform.
pub(crate) const ETHERNET_JITTER: Duration = Duration::from_micros(333);

/// The same on InfiniBand, **assumed**: client processes only.
pub(crate) const INFINIBAND_JITTER: Duration = Duration::from_micros(33);

/// Changes of a scenario that take away what conclusions are about.
#[cfg(test)]
pub(crate) mod changes {
    use vpfs_core::{PolicyKind, Sharing, SlotCostTable, Weight};
    use vpfs_sim::Scenario;

    /// The scenario with a change by name; other names are those of changes that a figure makes itself.
    pub(crate) fn apply(scenario: &Scenario, change: &str) -> Scenario {
        let mut scenario = scenario.clone();
        match change {
            "fifo" => with_policies(&mut scenario, |policy| {
                policy.settings.kind = PolicyKind::Fifo;
                policy.settings.metadata_depth = None;
            }),
            "halved" => scenario.apps.iter_mut().for_each(|app| {
                app.weight = Weight::new((app.weight.get() / 2).max(1)).unwrap_or(Weight::ONE);
            }),
            "unsynchronised" => with_policies(&mut scenario, |policy| policy.settings.sharing = Sharing::default()),
            "one-slot" => with_policies(&mut scenario, |policy| policy.settings.slot_costs = SlotCostTable::uniform()),
            _ => {}
        }
        scenario
    }

    fn with_policies(scenario: &mut Scenario, change: impl Fn(&mut vpfs_sim::PolicySpec)) {
        scenario.policies.iter_mut().for_each(change);
    }
}
