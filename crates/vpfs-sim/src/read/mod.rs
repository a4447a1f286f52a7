//! Reads scenario files, and prints `docs/scenarios.md` from the table of their keys.

mod keys;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use std::{fmt, io};

use vpfs_config::units::parse_size;
use vpfs_config::{Problems, Table, read_file};
use vpfs_core::stripe::{Distribution, VarStrip};
use vpfs_core::{Bytes, Cap, Weight};
use vpfs_harl::{Log, Op, Request};

use crate::bounds::{self, APPS, Misfit};
use crate::layout::{Layout, Region, Start};
use crate::model::device::{
    DeviceProfile, HddProfile, MetadataProfile, PageCacheProfile, SsdProfile, StallProfile, UniformAccess,
    UniformProfile, VolumeProfile,
};
use crate::model::plan::{
    Btio, BtioClass, Call, Dir, Extent, FileId, FileMode, Interactive, Ior, Md, MdData, MpiTileIo, Noncontig, Order,
    Pace, Paced, Phase, PioBench, PioPattern, PlanError, Replay, Step, Wrf,
};
use crate::network::{LinkProfile, Partition, PeerNetwork, Restart};
use crate::scenario::{App, PolicySpec, RequestTime, Role, Scenario, ServerGroup, Workload};

impl Scenario {
    /// Reads the text of a scenario file that refers to no other file; `file` is its name for messages.
    ///
    /// # Errors
    /// All problems that were found, each with its line.
    pub fn parse(file: &str, text: &str) -> Result<Self, Problems> {
        const NONE: &str = "a scenario without a directory cannot name files";
        let files = Files { text: &|_| Err(io::Error::other(NONE)), log: &|_| Err(NONE.into()) };
        Self::parse_with(file, text, &files, |scenario| scenario)
    }

    /// [`Scenario::parse`] for a file that may name `files`; `change` makes changes that others have asked for, before
    /// the whole is checked.
    pub fn parse_with(
        file: &str,
        text: &str,
        files: &Files<'_>,
        change: impl FnOnce(Self) -> Self,
    ) -> Result<Self, Problems> {
        read_file(file, text, &keys::ROOT, |root| checked(root, change(read(root, file, files))))
    }
}

/// The files that a scenario names, by their names in it.
pub struct Files<'a> {
    /// The text of a profile of `vpfs profile`, which policies may name.
    pub text: &'a dyn Fn(&str) -> io::Result<String>,
    /// A log of requests, which applications may replay; or why it cannot be read.
    pub log: &'a dyn Fn(&str) -> Result<Log, String>,
}

impl fmt::Debug for Files<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Files").finish_non_exhaustive()
    }
}

fn read(root: &Table<'_>, file: &str, files: &Files<'_>) -> Scenario {
    let file_name = || Path::new(file).file_stem().map_or(file.into(), |stem| stem.to_string_lossy().into_owned());
    let groups = root.tables("servers", &keys::SERVER_GROUP);
    let apps = read_apps(root, &read_classes(&groups), files);
    let policies = read_policies(root, files);
    let servers: Vec<_> = groups.iter().map(read_group).collect();
    let minima = apps.iter().filter_map(|app| Some((app.share.as_deref(), app.minimum?)));
    let shares = root.shares(minima, servers.iter().map(|group| group.count as usize).sum());
    Scenario {
        name: root.text("name").map_or_else(file_name, str::to_owned),
        seed: root.number("seed").unwrap_or(1),
        duration: root.duration("duration"),
        interval: root.duration("interval").unwrap_or(Duration::from_secs(1)),
        wait_limit: root.duration("wait_limit").unwrap_or(Duration::MAX),
        by_server: is_on(root, "by_server"),
        trace: is_on(root, "trace"),
        servers,
        jitter: root.duration("jitter").unwrap_or_default(),
        skew: root.duration("skew").unwrap_or_default(),
        node_link: root.has("node_link").then(|| read_node_link(root)),
        peers: read_peers(&root.table("peers", &keys::PEERS)),
        policies,
        shares,
        apps,
    }
}

fn checked(root: &Table<'_>, scenario: Scenario) -> Scenario {
    // What is missing after another problem would be misleading.
    if !root.has_problems() {
        let parts = scenario.policies.iter().map(|policy| bounds::check_parts(&scenario, policy));
        let misfits = parts.chain([bounds::check_end(&scenario)]).filter_map(Result::err);
        misfits.for_each(|misfit| refuse(root, &misfit));
    }
    scenario
}

fn refuse(root: &Table<'_>, misfit: &Misfit) {
    match misfit.app().and_then(|number| app_of_number(root, number)) {
        Some(table) => table.refuse(misfit.key, &misfit.problem),
        None => root.refuse(misfit.key, &misfit.problem),
    }
}

fn read_node_link(root: &Table<'_>) -> LinkProfile {
    let rate = root.table("node_link", &keys::NODE_LINK).number("rate");
    // The latency between a client and a server is that of the server's link.
    LinkProfile { bytes_per_second: rate.unwrap_or(u64::MAX), latency: Duration::ZERO }
}

fn read_policies(root: &Table<'_>, files: &Files<'_>) -> Vec<PolicySpec> {
    let mut policies: Vec<PolicySpec> = Vec::new();
    for table in root.tables("policy", &keys::POLICY) {
        let scheduler = table.scheduler(files.text);
        if scheduler.observed.is_some() {
            table.refuse("scheduler", "mode = \"observe\" is for a proxy; compare with policy = \"fifo\" here");
        }
        let name = read_name(&table);
        if policies.iter().any(|policy| policy.name == name) {
            table.refuse("name", format!("another policy is called {name:?}"));
        }
        let request_time =
            if table.choice("request_time") == Some(1) { RequestTime::Issue } else { RequestTime::Arrival };
        let metadata_cost = scheduler.metadata_cost;
        policies.push(PolicySpec { metadata_cost, request_time, ..PolicySpec::new(name, scheduler.policy) });
    }
    if !root.has("policy") {
        root.refuse("policy", "is missing; add [[policy]] with a name and [policy.scheduler]");
    }
    policies
}

fn read_name<'a>(table: &'a Table<'_>) -> &'a str {
    let name = table.text("name").unwrap_or_default();
    if name.trim().is_empty() && table.has("name") {
        table.refuse("name", "is empty; tables and charts need one");
    }
    name
}

fn is_on(table: &Table<'_>, key: &str) -> bool {
    table.choice(key) == Some(1)
}

/// Numbers and ranges such as `0-3`.
fn read_numbers(table: &Table<'_>, key: &str) -> Vec<u32> {
    const MOST: u32 = 1_000_000;
    let mut numbers = Vec::new();
    for text in table.texts(key) {
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        match (first.trim().parse::<u32>(), last.trim().parse::<u32>()) {
            (Ok(first), Ok(last)) if first <= last && last < MOST => numbers.extend(first..=last),
            _ => table.refuse(key, format!("{text:?} is not a number or a range such as \"0-3\", below {MOST}")),
        }
    }
    numbers
}

const INTRODUCTION: &str = r#"# Scenario files

<!-- Printed from crates/vpfs-sim/src/read/keys.rs; do not edit. UPDATE=1 cargo test -p vpfs-sim rewrites it. -->

Servers, a network, policies to compare, and applications, for `vpfs sim`. [`scenarios/`](../scenarios) has files to
start from; the [guide](guide/simulate.md) explains one. Units, `[[share]]`, and the keys of a policy's `scheduler` are
those of [vpfs.toml](config.md). An unknown key is an error. An application has exactly one workload, with its parameters
in a table.
"#;

/// The text of `docs/scenarios.md`.
pub fn scenario_manual() -> String {
    let phases = PHASES.map(|phase| format!("`{phase}`")).join(", ");
    let models: String = DeviceProfile::NAMED.iter().map(|(name, what)| format!("|`{name}`|{what}|\n")).collect();
    let keys = {
        let own: Vec<_> = keys::SECTIONS.iter().copied().filter(|section| section.name != "share").collect();
        vpfs_config::manual(INTRODUCTION, &own)
    };
    format!(
        "{keys}\n## Device models\n\nValues of `device`; most represent the hardware of a paper.\n\n|name|description|\n|---|---|\n{models}\n\
         ## Phases\n\nFor `phases`: {phases}. Each workload has some of them.\n"
    )
}

const ROLES: [Role; 3] = [Role::Both, Role::Data, Role::Metadata];

fn read_group(table: &Table<'_>) -> ServerGroup {
    let parallel = table.count("metadata_parallel").unwrap_or(1) as usize;
    ServerGroup {
        count: table.count("count").unwrap_or(1),
        device: read_device(table),
        metadata: MetadataProfile { parallel, ..MetadataProfile::PVFS2_BDB },
        role: table.choice("role").map_or(Role::Both, |index| ROLES[index]),
        link: LinkProfile {
            bytes_per_second: table.number("link_rate").unwrap_or(1),
            latency: table.duration("link_latency").unwrap_or_default(),
        },
        flow_buffers: table.count("flow_buffers").unwrap_or(0),
        stalls: table.has("stalls").then(|| read_stalls(&table.table("stalls", &keys::STALLS))),
        shared_device: false,
    }
}

fn read_peers(table: &Table<'_>) -> PeerNetwork {
    PeerNetwork {
        latency: table.duration("latency").unwrap_or_default(),
        message_work: table.duration("message_work").unwrap_or_default(),
        message_overhead: table.size("message_overhead").unwrap_or_default(),
        loss_ppm: table.count("loss_ppm").unwrap_or(0),
        duplicate_ppm: table.count("duplicate_ppm").unwrap_or(0),
        extra_delay: table.duration("extra_delay").unwrap_or_default(),
        partitions: table.tables("partition", &keys::PARTITION).iter().map(read_partition).collect(),
        restarts: table.tables("restart", &keys::RESTART).iter().map(read_restart).collect(),
        random_restarts: table.count("random_restarts").unwrap_or(0),
        ..PeerNetwork::default()
    }
}

fn read_partition(table: &Table<'_>) -> Partition {
    let time = |key| table.duration(key).unwrap_or(Duration::ZERO);
    let mut servers = read_numbers(table, "servers");
    servers.sort_unstable();
    Partition { from: time("from"), to: time("to"), servers }
}

fn read_restart(table: &Table<'_>) -> Restart {
    Restart { at: table.duration("at").unwrap_or_default(), server: table.count("server").unwrap_or(0) }
}

/// Tables with device parameters; a group has at most one of them.
const KINDS: [&str; 4] = ["hdd", "ssd", "uniform", "volume"];

/// The device of a group; missing parameters are those of the model named by `device`.
fn read_device(group: &Table<'_>) -> DeviceProfile {
    let named = DeviceProfile::by_name(group.text("device").unwrap_or("hdd")).unwrap_or_else(|error| {
        group.refuse("device", error.to_string());
        DeviceProfile::None
    });
    let given: Vec<&str> = KINDS.into_iter().filter(|kind| group.has(kind)).collect();
    let device = match given[..] {
        [] => named,
        [kind] => read_own(group, kind, &named),
        [first, second, ..] => {
            group.refuse(second, format!("there is also [servers.{first}]; remove one of them"));
            named
        }
    };
    if !group.has("cache") {
        return device;
    }
    let (base, device) = match device {
        DeviceProfile::PageCache(base, device) => (base, device),
        // Linux does not read ahead of scattered requests.
        device => (PageCacheProfile { read_ahead_bytes: 0, ..PageCacheProfile::LINUX_24_GB }, Box::new(device)),
    };
    DeviceProfile::PageCache(read_cache(&group.table("cache", &keys::CACHE), &base), device)
}

fn read_own(group: &Table<'_>, kind: &str, named: &DeviceProfile) -> DeviceProfile {
    let own = match kind {
        "hdd" => DeviceProfile::Hdd(read_hdd(&group.table(kind, &keys::HDD), named)),
        "ssd" => DeviceProfile::Ssd(read_ssd(&group.table(kind, &keys::SSD), named)),
        "uniform" => DeviceProfile::Uniform(read_uniform(&group.table(kind, &keys::UNIFORM), named)),
        _ => DeviceProfile::Volume(read_volume(&group.table(kind, &keys::VOLUME), named)),
    };
    let fits = std::mem::discriminant(&own) == std::mem::discriminant(named);
    if group.has("device") && !fits {
        let device = group.text("device").unwrap_or_default();
        group.refuse(kind, format!("does not match device = {device:?}; remove one of them"));
    }
    own
}

fn read_hdd(table: &Table<'_>, named: &DeviceProfile) -> HddProfile {
    let base = if let DeviceProfile::Hdd(base) = named { base.clone() } else { HddProfile::SAS_7200 };
    HddProfile {
        capacity_bytes: table.number("capacity").unwrap_or(base.capacity_bytes),
        seek_min: table.duration("seek_min").unwrap_or(base.seek_min),
        seek_span: table.duration("seek_span").unwrap_or(base.seek_span),
        rotation: table.duration("rotation").unwrap_or(base.rotation),
        bytes_per_second: table.number("rate").unwrap_or(base.bytes_per_second),
        command_queue: table.count("command_queue").map_or(base.command_queue, |commands| commands as usize),
        batch_bytes: table.number("batch").unwrap_or(base.batch_bytes),
        extent_bytes: table.number("extent").unwrap_or(base.extent_bytes),
        ..base
    }
}

fn read_ssd(table: &Table<'_>, named: &DeviceProfile) -> SsdProfile {
    let base = if let DeviceProfile::Ssd(base) = named { base.clone() } else { SsdProfile::PCIE_X4 };
    SsdProfile {
        channels: table.count("channels").map_or(base.channels, |channels| channels as usize),
        stripe_bytes: table.number("stripe").unwrap_or(base.stripe_bytes),
        read_base: table.duration("read_base").unwrap_or(base.read_base),
        write_base: table.duration("write_base").unwrap_or(base.write_base),
        read_bytes_per_second: table.number("read_rate").unwrap_or(base.read_bytes_per_second),
        write_bytes_per_second: table.number("write_rate").unwrap_or(base.write_bytes_per_second),
    }
}

fn read_uniform(table: &Table<'_>, named: &DeviceProfile) -> UniformProfile {
    let base = if let DeviceProfile::Uniform(base) = named { *base } else { UniformProfile::HARL_DISK };
    let access = |[min, max, rate]: [&str; 3], base: UniformAccess| {
        let startup_min = table.duration(min).unwrap_or(base.startup_min);
        let startup_max = table.duration(max).unwrap_or(base.startup_max);
        if startup_min > startup_max {
            let key = if table.has(min) { min } else { max };
            table.refuse(
                key,
                format!("{min} = {startup_min:?} exceeds {max} = {startup_max:?}; exchange or adjust them"),
            );
        }
        UniformAccess {
            startup_min,
            startup_max,
            bytes_per_second: table.number(rate).unwrap_or(base.bytes_per_second),
        }
    };
    UniformProfile {
        read: access(["read_startup_min", "read_startup_max", "read_rate"], base.read),
        write: access(["write_startup_min", "write_startup_max", "write_rate"], base.write),
    }
}

fn read_volume(table: &Table<'_>, named: &DeviceProfile) -> VolumeProfile {
    let base = if let DeviceProfile::Volume(base) = named { base.clone() } else { VolumeProfile::CLOUD };
    VolumeProfile {
        bytes_per_second: table.number("rate").unwrap_or(base.bytes_per_second),
        ios_per_second: table.number("ios").unwrap_or(base.ios_per_second),
        burst: table.duration("burst").unwrap_or(base.burst),
        io_bytes: table.number("io_size").unwrap_or(base.io_bytes),
        latency: table.duration("latency").unwrap_or(base.latency),
        backing_bytes_per_second: table.number("backing_rate").unwrap_or(base.backing_bytes_per_second),
    }
}

fn read_stalls(table: &Table<'_>) -> StallProfile {
    let time = |key| table.duration(key).unwrap_or_default();
    StallProfile { every: time("every"), length: time("length"), heavy: false }
}

fn read_cache(table: &Table<'_>, base: &PageCacheProfile) -> PageCacheProfile {
    let limit_bytes = table.number("limit").unwrap_or(base.limit_bytes);
    let flushed = table.number("stall").unwrap_or(0);
    let background = table.number("background").unwrap_or(limit_bytes / 2);
    if background > limit_bytes {
        table.refuse("background", "exceeds limit, at which writers already wait");
    }
    if flushed > limit_bytes {
        table.refuse("stall", "exceeds limit, which is all that there is to flush; give a smaller size");
    }
    // Memory is as many times as large as in the base.
    let kept = u128::from(base.kept_bytes) * u128::from(limit_bytes) / u128::from(base.limit_bytes);
    PageCacheProfile {
        kept_bytes: u64::try_from(kept).unwrap_or(u64::MAX),
        background_bytes: background,
        limit_bytes,
        resume_bytes: limit_bytes.saturating_sub(flushed),
        commit_interval: table.duration("commit_interval").unwrap_or(base.commit_interval),
        ..base.clone()
    }
}

fn read_apps(root: &Table<'_>, classes: &[Class], files: &Files<'_>) -> Vec<App> {
    let (mut apps, mut names) = (Vec::new(), BTreeSet::new());
    for table in root.tables("app", &keys::APP) {
        let copies = read_copies(&table, classes, files);
        if (apps.len() + copies.len()) as u64 > APPS {
            table.refuse("copies", format!("makes more than {APPS} applications"));
            break;
        }
        for app in copies {
            if !names.insert(app.name.clone()) {
                table.refuse("name", format!("another application is called {:?}", app.name));
            }
            apps.push(app);
        }
    }
    if !root.has("app") {
        root.refuse("app", "is missing; add [[app]] with a name and a workload such as [app.ior]");
    }
    apps
}

/// The table of the application of this number, of the file that was read.
fn app_of_number<'a>(root: &Table<'a>, number: usize) -> Option<Table<'a>> {
    let mut past = 0;
    root.tables("app", &keys::APP).into_iter().find(|table| {
        past += table.count("copies").unwrap_or(1) as usize;
        number < past
    })
}

fn read_copies(table: &Table<'_>, classes: &[Class], files: &Files<'_>) -> Vec<App> {
    let (copies, stagger) = (table.count("copies").unwrap_or(1), table.duration("stagger").unwrap_or_default());
    let Some(app) = read_app(table, classes, files) else { return Vec::new() };
    let name = |copy: u32| if copies == 1 { app.name.clone() } else { format!("{}-{}", app.name, copy + 1) };
    let copy = |copy: u32| App { name: name(copy), start: app.start + stagger.saturating_mul(copy), ..app.clone() };
    (0..copies).map(copy).collect()
}

/// `None` after a problem that prevents reading further.
fn read_app(table: &Table<'_>, classes: &[Class], files: &Files<'_>) -> Option<App> {
    let name = read_name(table);
    let nodes = table.count("nodes").unwrap_or(1);
    let (phases, layout, cap) = (read_phases(table), read_layout(table, classes), read_cap(table));
    let workload = read_workload(table, nodes, files)?;
    Some(App {
        weight: table.count("weight").and_then(Weight::new).unwrap_or(Weight::ONE),
        share: table.share_path("share"),
        cap,
        target: table.target(),
        minimum: table.minimum(cap),
        latency: table.duration("latency"),
        order: table.count("order").and_then(|order| u16::try_from(order).ok()),
        start: table.duration("start").unwrap_or(Duration::ZERO),
        end: table.duration("end"),
        background: is_on(table, "background"),
        stable: is_on(table, "stable"),
        phases,
        nodes,
        outstanding: table.count("outstanding").unwrap_or(1),
        layout,
        ..App::new(name, workload)
    })
}

fn read_cap(table: &Table<'_>) -> Option<Cap> {
    let (total, server) = (table.has("cap"), table.has("server_cap"));
    if table.has("burst") && !total && !server {
        table.refuse("burst", "has no effect without cap or server_cap; add one or remove this");
    }
    if total && server {
        table.refuse("server_cap", "cannot be together with cap, which is for the sum over all servers; remove one");
    }
    let burst = table.size("burst").unwrap_or(Bytes::mib(16));
    let total = table.number("cap").and_then(|rate| Cap::new(rate, burst)).map(Cap::over_all_servers);
    total.or_else(|| table.number("server_cap").and_then(|rate| Cap::new(rate, burst)))
}

/// Every phase of a workload; a new one must be added here so that files can name it.
const PHASES: [Phase; 14] = {
    use Phase::*;
    [Setup, MakeDir, Create, Open, Write, Sync, Read, Mixed, Stat, SetTimes, ListDir, Remove, RemoveDir, Cleanup]
};

fn read_phases(table: &Table<'_>) -> Vec<Phase> {
    let names = || PHASES.map(|phase| phase.to_string()).join(", ");
    let phase = |text: &str| {
        let found = PHASES.into_iter().find(|phase| phase.to_string() == text);
        if found.is_none() {
            table.refuse("phases", format!("{text:?} is not a phase; the phases are {}", names()));
        }
        found
    };
    table.texts("phases").into_iter().filter_map(phase).collect()
}

#[derive(Clone, Debug)]
struct Class {
    name: String,
    servers: Range<u32>,
}

fn read_classes(groups: &[Table<'_>]) -> Vec<Class> {
    let (mut classes, mut first): (Vec<Class>, u32) = (Vec::new(), 0);
    for group in groups {
        let servers = first..first.saturating_add(group.count("count").unwrap_or(1));
        first = servers.end;
        let Some(name) = group.text("name") else { continue };
        if name.is_empty() || name.contains(':') {
            group.refuse("name", "is empty or contains \":\"; give a plain name such as \"disk\"");
        } else if classes.iter().any(|class| class.name == name) {
            group.refuse("name", format!("another group of servers is called {name:?}"));
        } else {
            classes.push(Class { name: name.to_owned(), servers });
        }
    }
    classes
}

fn read_layout(table: &Table<'_>, classes: &[Class]) -> Layout {
    let starts = [Start::First, Start::ByFile];
    Layout {
        regions: read_regions(table, classes),
        distribution: read_distribution(table),
        servers: read_numbers(table, "servers"),
        start: table.choice("start_server").map_or(Start::ByFile, |index| starts[index]),
    }
}

fn read_distribution(table: &Table<'_>) -> Distribution {
    let strip = table.number("strip").unwrap_or(1);
    let count = |key| table.count(key).unwrap_or(1);
    match table.choice("distribution") {
        Some(1) => Distribution::Basic,
        Some(2) => match VarStrip::parse(table.text("strips").unwrap_or_default()) {
            Ok(strips) => Distribution::VarStrip(strips),
            Err(error) => {
                table.refuse("strips", error.to_string());
                Distribution::Basic
            }
        },
        Some(3) => Distribution::TwoDStripe { groups: count("groups"), strip, factor: count("factor") },
        _ => Distribution::SimpleStripe { strip },
    }
}

fn read_regions(table: &Table<'_>, classes: &[Class]) -> Vec<Region> {
    let mut regions: Vec<Region> = Vec::new();
    for region in table.tables("region", &keys::REGION) {
        let start = region.number("start").unwrap_or(0);
        let follows = regions.last().map_or(start == 0, |last| start > last.start);
        if !follows {
            region.refuse("start", "regions must be in the order of the file, the first one at 0B");
        }
        regions.push(Region { start, stripes: read_stripes(&region, classes) });
    }
    if table.has("region") {
        for key in ["distribution", "strip", "strips", "servers", "start_server", "groups", "factor"] {
            if table.has(key) {
                table.refuse(key, "has no effect together with region; remove one of them");
            }
        }
    }
    regions
}

fn read_stripes(region: &Table<'_>, classes: &[Class]) -> Vec<(u32, u64)> {
    let (mut stripes, mut seen) = (Vec::new(), BTreeSet::new());
    for text in region.texts("stripes") {
        match read_stripe(text, classes) {
            Ok((class, _)) if !seen.insert(&class.name) => {
                region.refuse("stripes", format!("{:?} has two stripes; remove one", class.name));
            }
            Ok((_, 0)) => {}
            Ok((class, bytes)) => stripes.extend(class.servers.clone().map(|server| (server, bytes))),
            Err(problem) => region.refuse("stripes", format!("{text:?}: {problem}")),
        }
    }
    if stripes.is_empty() {
        region.refuse("stripes", "no class of servers holds any byte; give one a stripe, such as \"disk:64KiB\"");
    }
    stripes
}

/// `class:size`.
fn read_stripe<'a>(text: &str, classes: &'a [Class]) -> Result<(&'a Class, u64), String> {
    let (name, size) = text.split_once(':').ok_or("is not a class and a size such as \"disk:64KiB\"")?;
    let names = || classes.iter().map(|class| class.name.as_str()).collect::<Vec<_>>().join(", ");
    let class = classes.iter().find(|class| class.name == name.trim()).ok_or_else(|| match classes {
        [] => "no group of servers has a name; add name to [[servers]]".to_owned(),
        _ => format!("no group of servers has this name; the names are {}", names()),
    })?;
    let bytes = parse_size(size.trim()).map_err(|error| error.to_string())?.0;
    if bytes > 1 << 40 { Err("a stripe is at most 1TiB".into()) } else { Ok((class, bytes)) }
}

fn read_workload(app: &Table<'_>, nodes: u32, files: &Files<'_>) -> Option<Workload> {
    const KINDS: [&str; 10] =
        ["ior", "btio", "md", "wrf", "pio", "tile", "noncontig", "paced", "interactive", "replay"];
    let given: Vec<&str> = KINDS.into_iter().filter(|kind| app.has(kind)).collect();
    let [kind] = given[..] else {
        app.refuse("name", format!("needs one workload: [app.{}]", KINDS.join("], [app.")));
        return None;
    };
    let section = match kind {
        "ior" => &keys::IOR,
        "btio" => &keys::BTIO,
        "md" => &keys::MD,
        "wrf" => &keys::WRF,
        "pio" => &keys::PIO,
        "tile" => &keys::TILE,
        "noncontig" => &keys::NONCONTIG,
        "paced" => &keys::PACED,
        "interactive" => &keys::INTERACTIVE,
        _ => &keys::REPLAY,
    };
    let table = app.table(kind, section);
    let workload: Workload = match kind {
        "ior" => read_ior(&table).into(),
        "btio" => read_btio(&table, nodes).into(),
        "md" => read_md(&table).into(),
        "wrf" => read_wrf(&table).into(),
        "pio" => read_pio(&table).into(),
        "tile" => read_tile(&table, nodes).into(),
        "noncontig" => read_noncontig(&table).into(),
        "paced" => read_paced(&table).into(),
        "interactive" => read_interactive(&table).into(),
        _ => Workload::Plan(Arc::new(read_replay(&table, files)?)),
    };
    if let Err(PlanError { option, problem }) = workload.validate() {
        table.refuse(option, problem);
    }
    Some(workload)
}

fn read_ior(table: &Table<'_>) -> Ior {
    let number = |key| table.number(key).unwrap_or(1);
    Ior {
        processes: table.count("processes").unwrap_or(1),
        transfer_bytes: call_bytes(number("transfer")),
        block_bytes: number("block"),
        segments: number("segments"),
        file_mode: if table.choice("file") == Some(1) { FileMode::PerProcess } else { FileMode::Shared },
        order: if table.choice("order") == Some(1) { Order::Random } else { Order::Sequential },
        write: is_on(table, "write"),
        read: is_on(table, "read"),
        mixed: is_on(table, "mixed"),
        start_offset_bytes: 0,
        barrier: is_on(table, "barrier"),
        read_shift: 0,
        fsync: is_on(table, "fsync"),
        keep: false,
        time_limit: table.duration("time_limit"),
        seed: 0,
    }
}

fn read_btio(table: &Table<'_>, nodes: u32) -> Btio {
    let class = Btio::class(if table.choice("class") == Some(1) { BtioClass::C } else { BtioClass::A });
    let transfer = table.number("transfer").map(call_bytes);
    Btio {
        processes: table.count("processes").unwrap_or(class.processes),
        nodes,
        iterations: table.count("iterations").unwrap_or(class.iterations),
        total_bytes: table.number("total").unwrap_or(class.total_bytes),
        transfer_min_bytes: transfer.unwrap_or(class.transfer_min_bytes),
        transfer_max_bytes: transfer.unwrap_or(class.transfer_max_bytes),
        think_write: table.duration("think_write").unwrap_or(class.think_write),
        think_read: table.duration("think_read").unwrap_or(class.think_read),
        read: is_on(table, "read"),
        ..class
    }
}

fn call_bytes(bytes: u64) -> u32 {
    u32::try_from(bytes).unwrap_or(u32::MAX)
}

fn read_md(table: &Table<'_>) -> Md {
    let transfer_bytes = call_bytes(table.number("transfer").unwrap_or(u64::MAX));
    Md {
        processes: table.count("processes").unwrap_or(1),
        items: table.count("items").unwrap_or(1),
        listings: table.count("listings").unwrap_or(0),
        shared_directory: is_on(table, "shared_directory"),
        data: table.number("data").map(|bytes| MdData { bytes, transfer_bytes }),
    }
}

fn read_wrf(table: &Table<'_>) -> Wrf {
    let mut all = Wrf::PAPER;
    if let Some(minute) = table.number("data") {
        let bytes = minute.saturating_mul(all.forecast_minutes.into());
        all.output_bytes = bytes / 11;
        all.restart_bytes = bytes - all.output_bytes;
    }
    let paper = all.with_minutes(table.count("minutes").unwrap_or(Wrf::PAPER.forecast_minutes));
    Wrf {
        processes: table.count("processes").unwrap_or(paper.processes),
        think: table.duration("think").unwrap_or(paper.think),
        stats_per_transfer: table.count("stats").unwrap_or(paper.stats_per_transfer),
        ..paper
    }
}

fn read_pio(table: &Table<'_>) -> PioBench {
    let paper = PioBench::paper(table.count("processes").unwrap_or(1));
    PioBench {
        request_bytes: call_bytes(table.number("request").unwrap_or(u64::MAX)),
        requests: table.number("requests").unwrap_or(paper.requests),
        pattern: if table.choice("pattern") == Some(0) { PioPattern::Segmented } else { PioPattern::Strided },
        write: is_on(table, "write"),
        read: is_on(table, "read"),
        barrier: is_on(table, "barrier"),
        ..paper
    }
}

fn read_tile(table: &Table<'_>, nodes: u32) -> MpiTileIo {
    let tiles = |key| table.count(key).unwrap_or(1);
    MpiTileIo {
        collective: is_on(table, "collective"),
        nodes,
        write: is_on(table, "write"),
        read: is_on(table, "read"),
        barrier: is_on(table, "barrier"),
        ..MpiTileIo::paper(tiles("tiles_x"), tiles("tiles_y"))
    }
}

fn read_paced(table: &Table<'_>) -> Paced {
    let rate = table.number("rate").unwrap_or(0);
    let on = table.duration("on");
    if on.is_some() && table.has("to") {
        table.refuse("to", "has no effect with on; remove one of them");
    }
    if on.is_none() && table.has("off") {
        table.refuse("off", "has no effect without on; add it or remove this");
    }
    let pace = match on {
        Some(on) => Pace::OnOff { rate, on, off: table.duration("off").unwrap_or(on) },
        None => Pace::Ramp { from: rate, to: table.number("to").unwrap_or(rate) },
    };
    Paced {
        processes: table.count("processes").unwrap_or(1),
        transfer_bytes: call_bytes(table.number("transfer").unwrap_or(1)),
        pace,
        time: table.duration("time").unwrap_or_default(),
        read: is_on(table, "read"),
    }
}

fn read_interactive(table: &Table<'_>) -> Interactive {
    Interactive {
        processes: table.count("processes").unwrap_or(1),
        transfer_bytes: call_bytes(table.number("transfer").unwrap_or(1)),
        file_bytes: table.number("file").unwrap_or(u64::MAX),
        think: table.duration("think").unwrap_or_default(),
        time: table.duration("time").unwrap_or(Duration::MAX),
        read: is_on(table, "read"),
        fills: true,
        seed: 0,
    }
}

/// `None` if there is no such log.
fn read_replay(table: &Table<'_>, files: &Files<'_>) -> Option<Replay> {
    let log = (files.log)(table.text("log")?).map_err(|problem| table.refuse("log", problem)).ok()?;
    Some(replay(&log))
}

fn read_noncontig(table: &Table<'_>) -> Noncontig {
    Noncontig {
        write: is_on(table, "write"),
        read: is_on(table, "read"),
        barrier: is_on(table, "barrier"),
        ..Noncontig::paper(table.count("processes").unwrap_or(1))
    }
}

/// The largest call; Linux moves no more than 2 GiB at once.
const CALL: u64 = 1 << 30;

/// A log of a run as a plan. Each rank is a process. Between its calls it computes as long as it did in the run; if the
/// log does not say when calls ended, it makes each of them at the time of the log, or later if those before it take
/// longer.
///
/// O(n log n) in requests.
fn replay(log: &Log) -> Replay {
    let mut ranks: BTreeMap<u32, Vec<(Request, u32)>> = BTreeMap::new();
    for (file, requests) in (0..).zip(log.files.values()) {
        requests.iter().for_each(|request| ranks.entry(request.rank).or_default().push((*request, file)));
    }
    let all = || log.files.values().flatten();
    let begin = all().map(|request| request.start).min().unwrap_or(0);
    let has_ends = all().any(|request| request.end > request.start);
    Replay::new(ranks.into_values().map(|mut requests| {
        requests.sort_by_key(|(request, file)| (request.start, request.end, *file, request.offset));
        steps(&requests, begin, has_ends)
    }))
}

fn steps(requests: &[(Request, u32)], begin: u64, has_ends: bool) -> Vec<Step> {
    let (mut steps, mut ended) = (Vec::with_capacity(2 * requests.len()), begin);
    for (index, (request, file)) in requests.iter().enumerate() {
        let pause = Duration::from_nanos(request.start.saturating_sub(ended));
        match has_ends && index > 0 {
            true if pause.is_zero() => {}
            true => steps.push(Step::Think(pause)),
            false => steps.push(Step::Until(Duration::from_nanos(request.start - begin))),
        }
        ended = ended.max(request.end);
        steps.extend(calls(request, FileId { dir: Dir::Base, number: *file }));
    }
    steps
}

fn calls(request: &Request, file: FileId) -> impl Iterator<Item = Step> {
    let Request { op, offset, size, .. } = *request;
    (0..size.div_ceil(CALL)).map(move |piece| {
        let bytes = u32::try_from(CALL.min(size - piece * CALL)).expect("at most a call");
        let extent = Extent { file, offset: offset + piece * CALL, bytes };
        Step::Call(if op == Op::Write { Call::Write(extent) } else { Call::Read(extent) })
    })
}

#[cfg(test)]
mod tests {
    use vpfs_harl::LogReader;

    use crate::model::plan::Plan;

    use super::*;

    fn replayed(text: &str) -> Vec<Vec<Step>> {
        let mut reader = LogReader::default();
        text.lines().for_each(|line| reader.line(line.as_bytes()).expect("a line of a log"));
        let replay = replay(&reader.finish().expect("a log"));
        (0..replay.processes()).map(|process| replay.steps(Phase::Mixed, process).collect()).collect()
    }

    fn call(number: u32, is_write: bool, offset: u64, bytes: u32) -> Step {
        let extent = Extent { file: FileId { dir: Dir::Base, number }, offset, bytes };
        Step::Call(if is_write { Call::Write(extent) } else { Call::Read(extent) })
    }

    const MS: fn(u64) -> Duration = Duration::from_millis;

    #[test]
    fn processes_compute_as_long_as_they_did() {
        let log = "rank,op,offset,size,time,end,file\n7,w,0,10,5.5,5.6,b\n2,r,4,6,5,5.1,a\n2,w,0,9,5.05,5.3,b\n2,r,1,2,5.4,5.5,a\n";
        let expected = [
            vec![
                Step::Until(MS(0)),
                call(0, false, 4, 6),
                call(1, true, 0, 9),
                Step::Think(MS(100)),
                call(0, false, 1, 2),
            ],
            vec![Step::Until(MS(500)), call(1, true, 0, 10)],
        ];
        assert_eq!(replayed(log), expected);
    }

    #[test]
    fn without_ends_calls_have_the_times_of_the_log() {
        let log =
            "fio version 3 iolog\n1000 a write 0 65536\n3000 a read 0 65536\nfio version 3 iolog\n2000 a read 7 9\n";
        let expected = [
            vec![Step::Until(MS(0)), call(0, true, 0, 65_536), Step::Until(MS(2)), call(0, false, 0, 65_536)],
            vec![Step::Until(MS(1)), call(0, false, 7, 9)],
        ];
        assert_eq!(replayed(log), expected);
    }

    #[test]
    fn larger_requests_are_several_calls() {
        let steps = &replayed("op,offset,size\nw,5,2147483650\n")[0];
        let expected = [call(0, true, 5, 1 << 30), call(0, true, 5 + CALL, 1 << 30), call(0, true, 5 + 2 * CALL, 2)];
        assert_eq!(steps[1..], expected);
    }
}
