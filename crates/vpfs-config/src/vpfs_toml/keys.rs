//! The one table of all settings in vpfs.toml. `docs/config.md` is printed from it.

use vpfs_core::PolicyKind;

pub(crate) use super::app_keys::{APP, MATCH};
use super::kinds::{HOSTS, NAME, TWO_LEVEL};
pub(crate) use super::limit_keys::LIMITS;
pub(crate) use super::owner_keys::OWNER;
pub use super::share_keys::SHARE;
use super::share_keys::WEIGHTS;
use crate::schema::tunables::{Kind, Section, Tunable};

/// The directory of the sockets of processes.
pub(crate) const SOCKETS: &str = "/run/vpfs";

/// Every section of the file, in the order of the manual.
pub const SECTIONS: &[&Section] = &[
    &SERVER,
    &LISTENER,
    &SCHEDULER,
    &SLOT_COST,
    &DEVICE_TIME,
    &APPS,
    &SHARE,
    &APP,
    &MATCH,
    &OWNER,
    &PEERS,
    &METRICS,
    &WEB,
    &HISTORY,
    &TRUST,
    &LIMITS,
    &LOG,
];

/// The file itself.
pub(crate) const ROOT: Section = Section {
    name: "",
    header: "a file of tables",
    doc: "",
    keys: &[
        Tunable::new("server", Kind::List("[[server]]"), ""),
        Tunable::new("listener", Kind::List("[[listener]]"), ""),
        Tunable::new("scheduler", Kind::Table("[scheduler]"), ""),
        Tunable::new("apps", Kind::Table("[apps]"), ""),
        Tunable::new("share", Kind::List("[[share]]"), ""),
        Tunable::new("app", Kind::List("[[app]]"), ""),
        Tunable::new("match", Kind::List("[[match]]"), ""),
        Tunable::new("owner", Kind::List("[[owner]]"), ""),
        Tunable::new("peers", Kind::Table("[peers]"), ""),
        Tunable::new("metrics", Kind::Table("[metrics]"), ""),
        Tunable::new("web", Kind::Table("[web]"), ""),
        Tunable::new("history", Kind::Table("[history]"), ""),
        Tunable::new("trust", Kind::Table("[trust]"), ""),
        Tunable::new("limits", Kind::Table("[limits]"), ""),
        Tunable::new("log", Kind::Table("[log]"), ""),
    ],
};

const ADDRESS: Kind = Kind::Text("an address such as \"tcp://10.0.0.1:3334\"");

const SHARING: &[PolicyKind] =
    &[PolicyKind::SfqD, PolicyKind::SfqDPlus, PolicyKind::Isolation, PolicyKind::Proportional];
const SLOTS: &[PolicyKind] = &[PolicyKind::SfqD, PolicyKind::SfqDPlus, PolicyKind::TwoLevel, PolicyKind::Ioco];
const ADAPTING: &[PolicyKind] = &[PolicyKind::SfqD, PolicyKind::SfqDPlus];
const SFQ_D_PLUS: &[PolicyKind] = &[PolicyKind::SfqDPlus];
const IOCO: &[PolicyKind] = &[PolicyKind::Ioco];
const DEVICE_TIME_POLICIES: &[PolicyKind] = &[PolicyKind::Isolation, PolicyKind::TwoLevel];

pub(crate) const SERVER: Section = Section {
    name: "server",
    header: "[[server]]",
    doc: "One for every server of the file system, in any order. Every proxy of a cluster reads the same file, \
          and `--server NAME` selects the servers that a process serves.",
    keys: &[
        Tunable::new("name", NAME, "The server's alias, for listeners, logs, `vpfs peers` and `--server`.")
            .at_restart(),
        Tunable::new(
            "address",
            ADDRESS,
            "The address at which it listens. Its scheme is the protocol. `tcp://` is OrangeFS, written exactly as in the \
             servers' own configuration file, where the proxy replaces it with a listener's address for clients. `nfs://` \
             is NFS, or another program of a server of NFS that clients need, such as its mount daemon. `mount://` with \
             nothing but a host is what `vpfs mount` shows there; a file has either such ones or servers, and no \
             listeners then.",
        )
        .at_restart(),
        Tunable::new(
            "data",
            Kind::Text("a directory such as \"/srv/export\""),
            "A directory of its host with its data, which says what disk is behind it (`limits.write_back`).",
        )
        .absent_means(
            "OrangeFS is asked, and what Ganesha or the kernel's NFS server export is read, if the address is this host's",
        )
        .at_restart(),
    ],
};

pub(crate) const LISTENER: Section = Section {
    name: "listener",
    header: "[[listener]]",
    doc: "An entry point for clients: one address in front of every server. Servers refer clients to each other by \
          address, and clients refuse to mount if two servers give different addresses, so a listener covers every \
          server. Give either `port` or `addresses`.",
    keys: &[
        Tunable::new(
            "app",
            NAME,
            "All clients of this listener belong to this application; it overrides all other rules.",
        )
        .absent_means("the rules of `[[app]]` identify clients")
        .at_restart(),
        Tunable::new("port", Kind::Count, "The port at which proxies that run on the servers' own hosts listen.")
            .absent_means("`addresses` are given")
            .range("1", "65535")
            .at_restart(),
        Tunable::new(
            "addresses",
            Kind::Table("a table such as { s1 = \"tcp://10.0.0.1:5334\", s2 = \"tcp://10.0.0.2:5334\" }"),
            "The addresses of the proxies, by server name.",
        )
        .absent_means("`port` is given")
        .at_restart(),
        Tunable::new("bind", Kind::Text("an IP address such as \"0.0.0.0\""), "The local address to listen at.")
            .absent_means("the host of the listener's address")
            .at_restart(),
        Tunable::new(
            "advertise",
            Kind::Choice(&["listener", "server"]),
            "The addresses that clients are told. `listener`: those of this listener. `server`: the servers' own, since \
             a packet filter redirects clients from there to this listener.",
        )
        .default("listener")
        .at_restart(),
    ],
};

pub(crate) const SCHEDULER: Section = Section {
    name: "scheduler",
    header: "[scheduler]",
    doc: "How requests are scheduled in front of each server.",
    keys: &[
        Tunable::new(
            "policy",
            Kind::Choice(&PolicyKind::NAMES),
            "`isolation` needs no tuning: an application that asks for less than its share gets nearly what it gets alone, \
             and the others share the storage's time by weight. `fifo` keeps the order of arrival. `sfq-d` shares by \
             weight. `sfq-d-plus` also accounts for the greater load of large requests, and fills gaps with small \
             ones. `two-level` keeps each application's `deadline` while it stays within its `target_rate`. `ioco` \
             serves one application after another in each `window`, in the same order on all servers. `proportional` is \
             an experiment for single servers: it learns no costs, but moves the rate of the large applications to \
             where one percent more for them costs the others one percent.",
        )
        .default("isolation")
        .paper("vPFS+ §III; Two-level; IOCO §3"),
        Tunable::new(
            "mode",
            Kind::Choice(&["manage", "observe"]),
            "`observe` holds nothing, whatever the policy and the caps are: requests go on in the order of arrival. All is \
             measured, so that `vpfs top`, metrics and `vpfs events` show what applications do to each other, and what \
             would be due to them, before anything is changed.",
        )
        .default("manage"),
        Tunable::new(
            "profile",
            Kind::Text("a file written by `vpfs profile`, relative to this one"),
            "The file that supplies `depth`, `small_threshold`, `slot_cost` and `device_time`, unless they are set here.",
        )
        .absent_means("no profile")
        .paper("vPFS+ §III-B"),
        DEPTH,
        Tunable::new(
            "adaptive",
            Kind::Choice(&["off", "on"]),
            "`on` finds depth and slot costs from the storage's behaviour, starting from \
             `depth` and `slot_cost`.",
        )
.used_by(ADAPTING)
        .default("off"),
        Tunable::new(
            "backfill",
            Kind::Choice(&["bounded", "paper"]),
            "Which requests may pass a blocked large one. `bounded`: only those whose start tag is not above \
             its finish tag, so that weights hold for large and small requests. `paper`: all that fit; a flow of large \
             requests with a much larger weight then gets less than its share.",
        )
.used_by(SFQ_D_PLUS)
        .default("bounded")
        .paper("vPFS+ §III-C"),
        Tunable::new(
            "cost",
            Kind::Choice(&["device-time", "bytes"]),
            "What `isolation` shares by weight. `device-time`: the storage's time that requests take, learned at runtime; \
             an application that makes the storage seek pays for it. `bytes`: bytes, as in all other policies.",
        )
.used_by(DEVICE_TIME_POLICIES)
        .default("device-time"),
        Tunable::new(
            "sharing",
            Kind::Choice(&["local", "threshold", "layout"]),
            "Scope of the shares. `local`: each server separately. `threshold`: the sum \
             over all servers, which report their service to each other. `layout`: the same, but derived without \
             messages from how a request's file is striped, if the request reveals that.",
        )
.used_by(SHARING)
        .default("local")
        .paper("vPFS §III-B"),
        Tunable::new(
            "broadcast_threshold",
            Kind::Size,
            "The amount of accepted service after which a server reports to the others (`sharing`). A smaller value \
             is fairer in the short run but causes more traffic.",
        )
.used_by(SHARING)
        .default("10MiB")
        .range("4KiB", "1TiB")
        .paper("vPFS §III-B1"),
        Tunable::new("metadata_threshold", Kind::Count, "The same threshold for metadata, in operations; one on several objects counts for each.")
.used_by(SHARING)
            .default("1000")
            .range("1", "1000000000")
            .paper("vPFS+ §IV"),
        Tunable::new(
            "min_local_share",
            Kind::Text("a share such as \"1%\""),
            "The minimum part of its share that an application keeps on a server, however much service it gets elsewhere.",
        )
.used_by(SHARING)
        .default("1%")
        .paper("vPFS §III-B"),
        Tunable::new(
            "metadata_depth",
            Kind::Count,
            "The number of slots of a separate queue for metadata, for servers that store metadata on other devices.",
        )
        .absent_means("data and metadata share one queue")
        .range("1", "65536")
        .paper("vPFS+ §IV"),
        Tunable::new(
            "deadlines",
            Kind::Choice(&["paced", "paper"]),
            "How deadlines are kept. `paced`: the storage's time that the others' requests take is limited, as under \
             `isolation`, so that deadlines hold beside large requests, too. `paper`: the number of outstanding \
             requests is limited, with the three settings that follow and `depth`.",
        )
        .used_by(TWO_LEVEL)
        .default("paced"),
        Tunable::new("replenish_period", Kind::Duration, "The interval at which credits are replenished.")
.used_by(TWO_LEVEL)
            .default("200ms")
            .range("1ms", "1min")
            .paper("Two-level"),
        Tunable::new(
            "control_window",
            Kind::Duration,
            "The interval at which the limit of outstanding requests is recomputed.",
        )
.used_by(TWO_LEVEL)
        .default("1s")
        .range("10ms", "1min")
        .paper("Two-level"),
        Tunable::new(
            "outstanding_max",
            Kind::Count,
            "The upper limit of outstanding requests, however many the storage completes before the shortest deadline.",
        )
.used_by(TWO_LEVEL)
            .default("100")
            .range("1", "65536")
            .paper("Two-level"),
        Tunable::new(
            "window",
            Kind::Duration,
            "The length of a window, in which requests are served application by application: `1s` for disks, `250ms` for flash.",
        )
.used_by(IOCO)
        .default("1s")
        .range("1ms", "1h")
        .paper("IOCO §3, §5.2"),
        Tunable::new(
            "window_order",
            Kind::Choice(&["fair", "paper"]),
            "The order of applications in a window. `fair`: a different one in each window. `paper`: the same in \
             all windows, by a number derived from the name; the first applications then finish early, and the last \
             ones wait.",
        )
.used_by(IOCO)
        .default("fair")
        .paper("IOCO §3.1"),
        SMALL_THRESHOLD,
        Tunable::new(
            "metadata_cost",
            Kind::Size,
            "The cost of a metadata operation, for each of its objects: files, entries or names.",
        )
            .default("10KiB")
            .range("1B", "1GiB")
            .paper("vPFS+ §IV"),
        Tunable::new("capacity", Kind::Rate, "The throughput of one server; required if a cap is given as a percentage, of one server or of all.")
            .absent_means("unknown")
            .range("1B/s", "1PB/s"),
        SLOT_COSTS,
        DEVICE_TIMES,
    ],
};

const DEPTH: Tunable =
    Tunable::new("depth", Kind::Count, "The number of slots: how many small requests one server handles at once.")
        .used_by(SLOTS)
        .default("14")
        .range("1", "65536")
        .paper("vPFS+ §III-B");

const SMALL_THRESHOLD: Tunable =
    Tunable::new("small_threshold", Kind::Size, "The largest request that occupies one slot.")
        .used_by(SFQ_D_PLUS)
        .default("128KiB")
        .range("1B", "1GiB")
        .paper("vPFS+ §III-B");

const SLOT_COSTS: Tunable = Tunable::new(
    "slot_cost",
    Kind::List("a list such as [{ op = \"write\", up_to = \"512KiB\", slots = 2 }]"),
    "The slots of larger requests, as profiled on this storage; see below.",
)
.used_by(SFQ_D_PLUS)
.absent_means("the paper's storage: 2 slots up to 512KiB, 3 up to 1MiB, 5 above")
.paper("vPFS+ §III-B");

const DEVICE_TIMES: Tunable = Tunable::new(
    "device_time",
    Kind::List("a list such as [{ op = \"write\", size = \"1MiB\", time = \"70ms\" }]"),
    "How much of the storage's time requests take, as profiled on this storage; learning starts from these values; see below.",
)
.used_by(DEVICE_TIME_POLICIES)
.absent_means("learned at runtime");

/// The file that the key `profile` of [`SCHEDULER`] names.
pub(crate) const PROFILE_ROOT: Section = Section {
    name: "",
    header: "a file of tables",
    doc: "",
    keys: &[Tunable::new("scheduler", Kind::Table("[scheduler]"), "")],
};

/// The keys of a profile.
pub(crate) const PROFILE: Section = Section {
    name: "scheduler",
    header: "[scheduler]",
    doc: "",
    keys: &[DEPTH, SMALL_THRESHOLD, SLOT_COSTS, DEVICE_TIMES],
};

pub(crate) const SLOT_COST: Section = Section {
    name: "scheduler.slot_cost",
    header: "[[scheduler.slot_cost]]",
    doc: "A row of the slot cost table; also written inline, `slot_cost = [{ ... }, ...]`. The row of \
          a request is the one for its operation with the smallest `up_to` that is not below its size, otherwise \
          the last one.",
    keys: &[
        Tunable::new("op", Kind::Choice(&["read", "write"]), "The operation that the row applies to.")
            .absent_means("both"),
        Tunable::new("up_to", Kind::Size, "The largest request that the row applies to.").range("1B", "1TiB"),
        Tunable::new("slots", Kind::Count, "The number of slots that such a request occupies; at most `depth`.")
            .range("1", "65536"),
    ],
};

pub(crate) const DEVICE_TIME: Section = Section {
    name: "scheduler.device_time",
    header: "[[scheduler.device_time]]",
    doc: "How much of the time of saturated storage a request of a given size takes; in that time the storage \
          cannot serve other requests. Sizes without a row are extrapolated from the nearest one.",
    keys: &[
        Tunable::new("op", Kind::Choice(&["read", "write"]), "The operation that the row applies to.").absent_means("both"),
        Tunable::new("size", Kind::Size, "The size of the requests. Sizes up to 4 KiB, then up to 8 KiB, 16 KiB ... 8 MiB, and all larger ones, are one class each; the largest row of a class counts.").range("1B", "1GiB"),
        Tunable::new("time", Kind::Duration, "The time of each of them.").range("1ns", "1min"),
    ],
};

pub(crate) const APPS: Section = Section {
    name: "apps",
    header: "[apps]",
    doc: "The treatment of clients that no rule of an `[[app]]` matches.",
    keys: &[
        Tunable::new("default", NAME, "The application of clients that match nothing else.")
            .absent_means("`other`, with weight 1 unless there is an `[[app]]` of that name"),
        Tunable::new(
            "auto",
            Kind::Choice(&["off", "client-host", "uid", "job"]),
            "Whether to create an application for each client host or user that no rule matches. For mounts `uid` is the \
             default, and `job` is one for each Slurm job, and for each user outside of jobs.",
        )
        .default("client-host"),
        Tunable::new(
            "auto_limit",
            Kind::Count,
            "The maximum number of such applications; further clients get the default one.",
        )
        .default("1000")
        .range("0", "100000"),
        Tunable::new(
            "auto_weight",
            Kind::Count,
            "The weight that these applications share, or that each of them has, see `auto_share`.",
        )
        .used_by(WEIGHTS)
        .default("1")
        .range("1", "1000000"),
        Tunable::new(
            "auto_share",
            Kind::Choice(&["together", "network", "each"]),
            "Whether all these applications together have one weight, those of each client network, or each of them. \
             They are fair among themselves in any case. A client can easily have many names: addresses, and uids \
             that nothing verifies. With `each`, every name is worth a weight.",
        )
        .used_by(WEIGHTS)
        .default("together"),
        Tunable::new(
            "auto_prefix",
            Kind::Count,
            "The length of the prefix that the IPv4 addresses of a network have in common, with \
             `auto_share = \"network\"`. IPv6 networks have 64 bits.",
        )
        .used_by(WEIGHTS)
        .default("24")
        .range("1", "32"),
    ],
};

pub(crate) const PEERS: Section = Section {
    name: "peers",
    header: "[peers]",
    doc: "How the proxies of different processes tell each other what service applications got, so that `sharing` holds \
          for the sum over all servers; agents and `--remote` come to the same port, also if one process serves all \
          servers. Without this table nothing listens, and shares hold among the servers of one process. Give either `port` or `addresses`, and the files of one kind of `security`; when a proxy reads its \
          file again, it reads these, too.",
    keys: &[
        Tunable::new("port", Kind::Count, "The port at which proxies listen for each other, on the hosts of their servers.")
            .absent_means("`addresses` are given")
            .range("1", "65535")
            .at_restart(),
        Tunable::new(
            "addresses",
            Kind::Table("a table such as { s1 = \"10.0.0.1:7334\", s2 = \"10.0.0.2:7334\" }"),
            "Where the proxy of each server listens for other proxies. The servers of one process may have one address.",
        )
        .absent_means("`port` is given")
        .at_restart(),
        Tunable::new("bind", Kind::Text("an IP address such as \"0.0.0.0\""), "The local address to listen at.")
            .absent_means("the host of the address")
            .at_restart(),
        Tunable::new("cluster", NAME, "The cluster's name. Processes of another cluster are refused.")
            .default("vpfs")
            .at_restart(),
        Tunable::new(
            "security",
            Kind::Choice(&["shared-key", "certificates", "none"]),
            "How processes recognise each other; all but `none` use TLS 1.3. `shared-key`: who has the key belongs to \
             the cluster, and may speak for every server. `certificates`: who has a certificate of the authority, for the \
             host of each server that it speaks for. `none`: anybody who reaches the port can change shares, and \
             everything is sent in the clear.",
        )
        .default("shared-key")
        .at_restart(),
        Tunable::new("shared_key", FILE, "A file with 64 hexadecimal digits, the same at all processes, as `vpfs init` writes it.")
            .absent_means("`security` is another one")
            .at_restart(),
        Tunable::new("authority", FILE, "The certificates of the authorities that sign those of peers, in PEM.")
            .absent_means("`security` is another one")
            .at_restart(),
        Tunable::new("certificate", FILE, "The certificate of this process, for the hosts of its servers, in PEM.")
            .absent_means("`security` is another one")
            .at_restart(),
        Tunable::new("private_key", FILE, "The certificate's private key, in PEM.")
            .absent_means("`security` is another one")
            .at_restart(),
        Tunable::new("clock_limit", Kind::Duration, "The difference between the clocks of two processes beyond which the log has a warning.")
            .default("50ms")
            .range("1ms", "1h")
            .at_restart(),
        Tunable::new(
            "sockets",
            Kind::Text("a directory such as \"/run/vpfs\""),
            "Where each process has its socket, named after its first server: `vpfs peers` asks there. Its owner and its \
             group may; who else must not know what applications do, should not get into this directory.",
        )
        .default(SOCKETS)
        .at_restart(),
    ],
};

const ENDPOINT: Kind = Kind::Text("an IP address and a port such as \"127.0.0.1:9334\"");
const FILE: Kind = Kind::Text("a file, relative to this one");

pub(crate) const METRICS: Section = Section {
    name: "metrics",
    header: "[metrics]",
    doc: "Metrics for Prometheus, at `/metrics` ([what to scrape and what to alert on](guide/metrics.md)). The socket of \
          each process always has them; they are served to the network only if `listen` says so. A proxy whose address \
          is in use works without, says so in its log, and tries again.",
    keys: &[
        Tunable::new(
            "listen",
            ENDPOINT,
            "Where metrics are served over HTTP. The address must be one of the loopback, unless there is a `token`.",
        )
        .absent_means("not by TCP")
        .at_restart(),
        Tunable::new(
            "token",
            FILE,
            "A secret that whoever reads metrics must send (`Authorization: Bearer`; `authorization` with \
             `credentials_file` in the configuration of Prometheus). The file is read for each request. HTTP does not \
             encrypt it: use networks that you trust.",
        )
        .absent_means("whoever reaches `listen` may read")
        .at_restart(),
    ],
};

pub(crate) const WEB: Section = Section {
    name: "web",
    header: "[web]",
    doc: "The live page of this process for a browser: what [`vpfs web`](guide/metrics.md#can-i-see-it-in-a-browser) shows, \
          served as long as the proxy runs. A proxy whose address is in use works without, says so in its log, and tries \
          again.",
    keys: &[
        Tunable::new(
            "listen",
            ENDPOINT,
            "Where the page is served over HTTP. It needs a `key`, on the loopback, too: other users of the host could \
             connect.",
        )
        .absent_means("no page")
        .at_restart(),
        Tunable::new(
            "key",
            FILE,
            "A secret of at least 16 letters and digits, which is the path of the page: `http://oss1:9335/KEY/`. Who does \
             not know it gets nothing. The file is read for each request. HTTP does not encrypt it: use networks that you \
             trust.",
        )
        .absent_means("no page")
        .at_restart(),
    ],
};

pub(crate) const HISTORY: Section = Section {
    name: "history",
    header: "[history]",
    doc: "What applications did and waited for, for `vpfs history` and `vpfs why --since`: by ten seconds for an hour, by \
          minutes for a day, and by ten minutes for thirty days ([how to read it](guide/metrics.md)). It is kept in the \
          state directory, at most 256 MiB for each process, and survives restarts; without such a directory there is \
          none. A disk that is full or fails costs history and nothing else.",
    keys: &[Tunable::new("enabled", Kind::Choice(&["off", "on"]), "Whether it is kept.").default("on").at_restart()],
};

pub(crate) const TRUST: Section = Section {
    name: "trust",
    header: "[trust]",
    doc: "Which hosts a proxy trusts. Requests between servers are never held nor charged, because a client's operation \
          waits for them inside a server; so only hosts that are known to be servers may send them. A change applies to \
          later requests of open connections, too.",
    keys: &[
        Tunable::new(
            "servers",
            HOSTS,
            "The addresses that servers connect from: requests that look as if a server sent them are trusted there, \
             and scheduled and charged like a client's anywhere else. List every address of a server that has several, \
             and no host where users run programs. `[]`: nobody is trusted, which is right if servers do not connect \
             to each other through proxies.",
        )
        .absent_means("the addresses of all `[[server]]` tables, except loopback ones"),
        Tunable::new(
            "management",
            Kind::Choice(&["allow", "refuse"]),
            "Whether clients may administer servers (all `MGMT_` operations but the question whether a server is there). \
             Servers without key security permit that to everybody, and some of these requests can crash them. With \
             `refuse` clients are told that permission is denied; administrators then connect to the servers \
             themselves.",
        )
        .default("allow"),
    ],
};

/// The position of `refuse` in the list of `management`.
pub(crate) const REFUSE: usize = 1;

pub(crate) const LOG: Section = Section {
    name: "log",
    header: "[log]",
    doc: "The log, on standard error.",
    keys: &[
        Tunable::new(
            "level",
            Kind::Choice(&["error", "warn", "info", "debug", "trace"]),
            "The least severe level shown.",
        )
        .default("info"),
        Tunable::new("format", Kind::Choice(&["text", "json"]), "The format: readable text, or JSON for programs. The journal of systemd gets text with its fields, or lines of \
             JSON.")
            .default("text")
            .at_restart(),
    ],
};
