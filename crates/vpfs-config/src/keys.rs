//! The one table of all settings in vpfs.toml. `docs/config.md` is printed from it.

use vpfs_core::PolicyKind;

use crate::schema::Table;
use crate::tunables::{Kind, Section, Tunable};

/// The directory of the sockets of processes.
pub(crate) const SOCKETS: &str = "/run/vpfs";

/// Every section of the file, in the order of the manual.
pub const SECTIONS: &[&Section] = &[
    &SERVER, &LISTENER, &SCHEDULER, &SLOT_COST, &APPS, &SHARE, &APP, &MATCH, &OWNER, &PEERS, &METRICS, &WEB, &HISTORY,
    &TRUST, &LIMITS, &LOG,
];

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

const SHARING: &[PolicyKind] = &[PolicyKind::SfqD, PolicyKind::SfqDPlus, PolicyKind::Isolation];

const SLOTS: &[PolicyKind] = &[PolicyKind::SfqD, PolicyKind::SfqDPlus, PolicyKind::TwoLevel, PolicyKind::Ioco];

const SFQ_D_PLUS: &[PolicyKind] = &[PolicyKind::SfqDPlus];

const IOCO: &[PolicyKind] = &[PolicyKind::Ioco];

pub(crate) const SERVER: Section = Section {
    name: "server",
    header: "[[server]]",
    doc: "One per server of the file system. Every proxy reads the same file; `--server NAME` selects the \
          servers of a process.",
    keys: &[
        Tunable::new("name", NAME, "Its alias in listeners, logs and `--server`.").at_restart(),
        Tunable::new(
            "address",
            ADDRESS,
            "Where it listens. `tcp://` is OrangeFS, exactly as in the servers' own configuration file; `nfs://` \
             is NFS or a mount daemon; `mount://HOST` is a `vpfs mount`, and such a file has no listeners.",
        )
        .at_restart(),
        Tunable::new(
            "data",
            Kind::Text("a directory such as \"/srv/export\""),
            "A directory with its data, which says what disk is behind it (`limits.write_back`).",
        )
        .absent_means("on this host: from OrangeFS, or from the exports of the NFS server")
        .at_restart(),
    ],
};

pub(crate) const LISTENER: Section = Section {
    name: "listener",
    header: "[[listener]]",
    doc: "An entry point for clients, in front of every server: servers refer clients to each other by address. \
          Give `port` or `addresses`.",
    keys: &[
        Tunable::new("app", NAME, "All clients of this listener belong to this application, whatever other rules say.")
            .absent_means("the rules of `[[app]]` identify clients")
            .at_restart(),
        Tunable::new("port", Kind::Count, "The port, where each proxy runs on its server's host.")
            .absent_means("`addresses` are given")
            .range("1", "65535")
            .at_restart(),
        Tunable::new(
            "addresses",
            Kind::Table("a table such as { s1 = \"tcp://10.0.0.1:5334\", s2 = \"tcp://10.0.0.2:5334\" }"),
            "The addresses of the proxies, by server.",
        )
        .absent_means("`port` is given")
        .at_restart(),
        Tunable::new("bind", Kind::Text("an IP address such as \"0.0.0.0\""), "The local address.")
            .absent_means("the host of the listener's address")
            .at_restart(),
        Tunable::new(
            "advertise",
            Kind::Choice(&["listener", "server"]),
            "The addresses that clients are told: those of this `listener`, or the `server`'s own where a packet \
             filter redirects clients.",
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
            "[Which policy?](guide/policies.md) `isolation` needs no tuning: small users are protected, the \
             others share by weight. `fifo` keeps the order of arrival. `sfq-d` shares by \
             weight. `sfq-d-plus` also counts the load of large requests. `two-level` keeps deadlines. `ioco` \
             serves application after application in each `window`.",
        )
        .default("isolation")
        .paper("vPFS+ §III; Two-level; IOCO §3"),
        Tunable::new(
            "mode",
            Kind::Choice(&["manage", "observe"]),
            "`observe` holds nothing and measures everything, so that you see what applications do to each other \
             before you change anything.",
        )
        .default("manage"),
        Tunable::new(
            "profile",
            Kind::Text("a file written by `vpfs profile`, relative to this one"),
            "A file of `vpfs profile` with `depth`, `small_threshold` and `slot_cost`, unless they are set here.",
        )
        .absent_means("no profile")
        .paper("vPFS+ §III-B"),
        DEPTH,
        Tunable::new(
            "backfill",
            Kind::Choice(&["bounded", "paper"]),
            "Which requests may pass a blocked large one. `bounded` keeps the weights. `paper` lets all pass \
             that fit; large requests then get less than their share.",
        )
        .used_by(SFQ_D_PLUS)
        .default("bounded")
        .paper("vPFS+ §III-C"),
        Tunable::new(
            "protection",
            Kind::Choice(&["balanced", "strong"]),
            "What 1 % for an interactive application is worth to bulk: 1 % of its weight's part, or 2 %.",
        )
        .used_by(ISOLATION)
        .default("balanced"),
        Tunable::new(
            "sharing",
            Kind::Choice(&["local", "threshold", "layout"]),
            "Shares per server (`local`), or of the sum over all servers: `threshold` by reports, `layout` by \
             the stripes of each file, without messages where these are known.",
        )
        .used_by(SHARING)
        .default("local")
        .paper("vPFS §III-B"),
        Tunable::new(
            "broadcast_threshold",
            Kind::Size,
            "Service after which a server reports (`sharing`). Smaller is fairer in the short run and causes \
             more traffic.",
        )
        .used_by(SHARING)
        .default("10MiB")
        .range("4KiB", "1TiB")
        .paper("vPFS §III-B1"),
        Tunable::new("metadata_threshold", Kind::Count, "The same for metadata, in objects.")
            .used_by(SHARING)
            .default("1000")
            .range("1", "1000000000")
            .paper("vPFS+ §IV"),
        Tunable::new(
            "min_local_share",
            Kind::Text("a share such as \"1%\""),
            "The part of its share that an application keeps on each server, however much it gets elsewhere.",
        )
        .used_by(SHARING)
        .default("1%")
        .paper("vPFS §III-B"),
        Tunable::new(
            "metadata_depth",
            Kind::Count,
            "Slots of a separate queue for metadata, where metadata is on other devices.",
        )
        .absent_means("data and metadata share one queue")
        .range("1", "65536")
        .paper("vPFS+ §IV"),
        Tunable::new(
            "deadlines",
            Kind::Choice(&["paced", "paper"]),
            "`paced` limits the storage's time of other requests. `paper` limits the number of outstanding \
             requests, with the next three keys and `depth`.",
        )
        .used_by(TWO_LEVEL)
        .default("paced"),
        Tunable::new("replenish_period", Kind::Duration, "How often credits are replenished.")
            .used_by(TWO_LEVEL)
            .default("200ms")
            .range("1ms", "1min")
            .paper("Two-level"),
        Tunable::new("control_window", Kind::Duration, "How often the limit of outstanding requests is computed.")
            .used_by(TWO_LEVEL)
            .default("1s")
            .range("10ms", "1min")
            .paper("Two-level"),
        Tunable::new("outstanding_max", Kind::Count, "The upper limit of outstanding requests.")
            .used_by(TWO_LEVEL)
            .default("100")
            .range("1", "65536")
            .paper("Two-level"),
        Tunable::new("window", Kind::Duration, "The length of a window: `1s` for disks, `250ms` for flash.")
            .used_by(IOCO)
            .default("1s")
            .range("1ms", "1h")
            .paper("IOCO §3, §5.2"),
        Tunable::new(
            "window_order",
            Kind::Choice(&["fair", "paper"]),
            "The order in a window: `fair` changes it each time; `paper` keeps it, so that the same applications \
             finish first.",
        )
        .used_by(IOCO)
        .default("fair")
        .paper("IOCO §3.1"),
        SMALL_THRESHOLD,
        Tunable::new("metadata_cost", Kind::Size, "The cost of a metadata operation per object.")
            .default("10KiB")
            .range("1B", "1GiB")
            .paper("vPFS+ §IV"),
        Tunable::new("capacity", Kind::Rate, "The throughput of one server; required for caps in percent.")
            .absent_means("unknown")
            .range("1B/s", "1PB/s"),
        SLOT_COSTS,
    ],
};

const DEPTH: Tunable = Tunable::new("depth", Kind::Count, "Slots: how many small requests a server handles at once.")
    .used_by(SLOTS)
    .default("14")
    .range("1", "65536")
    .paper("vPFS+ §III-B");

const SMALL_THRESHOLD: Tunable =
    Tunable::new("small_threshold", Kind::Size, "The largest request that takes one slot.")
        .used_by(SFQ_D_PLUS)
        .default("128KiB")
        .range("1B", "1GiB")
        .paper("vPFS+ §III-B");

const SLOT_COSTS: Tunable = Tunable::new(
    "slot_cost",
    Kind::List("a list such as [{ op = \"write\", up_to = \"512KiB\", slots = 2 }]"),
    "Slots of larger requests, as profiled.",
)
.used_by(SFQ_D_PLUS)
.absent_means("the paper's storage: 2 slots up to 512KiB, 3 up to 1MiB, 5 above")
.paper("vPFS+ §III-B");

pub(crate) const PROFILE_ROOT: Section = Section {
    name: "",
    header: "a file of tables",
    doc: "",
    keys: &[Tunable::new("scheduler", Kind::Table("[scheduler]"), "")],
};

pub(crate) const PROFILE: Section = Section {
    name: "scheduler",
    header: "[scheduler]",
    doc: "How requests are scheduled in front of each server.",
    keys: &[DEPTH, SMALL_THRESHOLD, SLOT_COSTS],
};

pub(crate) const SLOT_COST: Section = Section {
    name: "scheduler.slot_cost",
    header: "[[scheduler.slot_cost]]",
    doc: "A row of the slot cost table, also inline: `slot_cost = [{ ... }, ...]`. The row with the smallest \
          `up_to` that fits counts, otherwise the last one.",
    keys: &[
        Tunable::new("op", Kind::Choice(&["read", "write"]), "The operation.").absent_means("both"),
        Tunable::new("up_to", Kind::Size, "The largest request of this row.").range("1B", "1TiB"),
        Tunable::new("slots", Kind::Count, "Its slots, at most `depth`.").range("1", "65536"),
    ],
};

pub(crate) const APPS: Section = Section {
    name: "apps",
    header: "[apps]",
    doc: "Clients that match no `[[app]]`.",
    keys: &[
        Tunable::new("default", NAME, "The application of clients that match nothing else.")
            .absent_means("`other`, with weight 1 unless there is an `[[app]]` of that name"),
        Tunable::new(
            "auto",
            Kind::Choice(&["off", "client-host", "uid", "job"]),
            "Create an application per client host or user. On mounts `uid` is the default; `job` is one per \
             Slurm job, and per user outside of jobs.",
        )
        .default("client-host"),
        Tunable::new("auto_limit", Kind::Count, "How many such applications; further clients get the default one.")
            .default("1000")
            .range("0", "100000"),
        Tunable::new("auto_weight", Kind::Count, "Their weight, see `auto_share`.")
            .used_by(WEIGHTS)
            .default("1")
            .range("1", "1000000"),
        Tunable::new(
            "auto_share",
            Kind::Choice(&["together", "network", "each"]),
            "The scope of that weight: all `together`, each client `network`, or `each` application. A client can \
             have many names, and nothing verifies a uid; with `each`, every name is worth a weight.",
        )
        .used_by(WEIGHTS)
        .default("together"),
        Tunable::new(
            "auto_prefix",
            Kind::Count,
            "The length of an IPv4 network's prefix for `auto_share = \"network\"`. IPv6 networks have 64 bits.",
        )
        .used_by(WEIGHTS)
        .default("24")
        .range("1", "32"),
    ],
};

pub(crate) const PEERS: Section = Section {
    name: "peers",
    header: "[peers]",
    doc: "Connections between proxies of different processes, for `sharing` and totals over all servers; agents \
          and `--remote` use the same port. Without this table nothing listens. Give `port` or `addresses`, and \
          the files for one kind of `security`; they are read again at a reload.",
    keys: &[
        Tunable::new("port", Kind::Count, "Where proxies listen for each other, on their servers' hosts.")
            .absent_means("`addresses` are given")
            .range("1", "65535")
            .at_restart(),
        Tunable::new(
            "addresses",
            Kind::Table("a table such as { s1 = \"10.0.0.1:7334\", s2 = \"10.0.0.2:7334\" }"),
            "Where the proxy of each server listens. Servers of one process may share an address.",
        )
        .absent_means("`port` is given")
        .at_restart(),
        Tunable::new("bind", Kind::Text("an IP address such as \"0.0.0.0\""), "The local address.")
            .absent_means("the host of the address")
            .at_restart(),
        Tunable::new("cluster", NAME, "The cluster's name. Processes of another cluster are refused.")
            .default("vpfs")
            .at_restart(),
        Tunable::new(
            "security",
            Kind::Choice(&["shared-key", "certificates", "none"]),
            "`shared-key`: with the key, a process may speak for every server. `certificates`: only for the \
             hosts in its certificate. `none`: anyone who reaches the port can change shares, in the clear. The \
             first two use TLS 1.3.",
        )
        .default("shared-key")
        .at_restart(),
        Tunable::new("shared_key", FILE, "64 hexadecimal digits, the same everywhere; `vpfs init` writes it.")
            .absent_means("`security` is another one")
            .at_restart(),
        Tunable::new("authority", FILE, "Certificates of the authorities, PEM.")
            .absent_means("`security` is another one")
            .at_restart(),
        Tunable::new("certificate", FILE, "This process's certificate, for the hosts of its servers, PEM.")
            .absent_means("`security` is another one")
            .at_restart(),
        Tunable::new("private_key", FILE, "Its private key, PEM.")
            .absent_means("`security` is another one")
            .at_restart(),
        Tunable::new("clock_limit", Kind::Duration, "Log a warning if two clocks differ by more.")
            .default("50ms")
            .range("1ms", "1h")
            .at_restart(),
        Tunable::new(
            "sockets",
            Kind::Text("a directory such as \"/run/vpfs\""),
            "The directory of each process's socket, for its owner and group.",
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
    doc: "Prometheus metrics at `/metrics` ([guide](guide/watching.md)). The local socket always has them. A \
          proxy whose address is in use works without, and tries again.",
    keys: &[
        Tunable::new("listen", ENDPOINT, "Where metrics are served. Beyond the loopback a `token` is required.")
            .absent_means("not by TCP")
            .at_restart(),
        Tunable::new(
            "token",
            FILE,
            "A secret that readers send (`Authorization: Bearer`; `credentials_file` in Prometheus). Read per \
             request. HTTP does not encrypt it.",
        )
        .absent_means("none: anyone who reaches `listen` may read")
        .at_restart(),
    ],
};

pub(crate) const WEB: Section = Section {
    name: "web",
    header: "[web]",
    doc: "The live page of this process, as [`vpfs web`](guide/watching.md) shows it. A proxy whose address is \
          in use works without, and tries again.",
    keys: &[
        Tunable::new("listen", ENDPOINT, "Where the page is served. A `key` is required.")
            .absent_means("no page")
            .at_restart(),
        Tunable::new(
            "key",
            FILE,
            "At least 16 letters and digits, which are the path: `http://oss1:9335/KEY/`. Read per request. HTTP \
             does not encrypt it.",
        )
        .absent_means("no page")
        .at_restart(),
    ],
};

pub(crate) const HISTORY: Section = Section {
    name: "history",
    header: "[history]",
    doc: "For `vpfs history` and `vpfs why --since`: ten-second samples for an hour, minutes for a day, ten \
          minutes for thirty days. In the state directory, at most 256 MiB per process.",
    keys: &[Tunable::new("enabled", Kind::Choice(&["off", "on"]), "Whether it is kept.").default("on").at_restart()],
};

pub(crate) const TRUST: Section = Section {
    name: "trust",
    header: "[trust]",
    doc: "Requests between servers are never held or charged, because a client's operation waits for them inside \
          a server. So only known servers may send them.",
    keys: &[
        Tunable::new(
            "servers",
            HOSTS,
            "Where servers connect from. Requests that claim to be a server's are believed from there, and \
             scheduled like a client's from elsewhere. List every address of a server, and no host where users \
             run programs. `[]` believes nobody, which is right if servers do not connect to each other through \
             proxies.",
        )
        .absent_means("the addresses of all `[[server]]` tables, except loopback ones"),
        Tunable::new(
            "management",
            Kind::Choice(&["allow", "refuse"]),
            "Whether clients may administer servers. Servers without key security permit it to everybody, and \
             some requests can crash them. `refuse` answers that permission is denied; administrators then \
             connect directly.",
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
        Tunable::new("level", Kind::Choice(&["error", "warn", "info", "debug", "trace"]), "The least severe level.")
            .default("info"),
        Tunable::new(
            "format",
            Kind::Choice(&["text", "json"]),
            "Text, or JSON lines. systemd's journal gets the \
                                                                 fields in either case.",
        )
        .default("text")
        .at_restart(),
    ],
};

pub(crate) const NAME: Kind = Kind::Text("a name of letters, digits, \"-\", \"_\" and \".\", at most 64 of them");

const HOSTS: Kind =
    Kind::List("a list of addresses, networks, host names and host lists such as [\"10.1.0.0/16\", \"c[001-064]\"]");

const PATHS: Kind = Kind::List("a list of patterns such as [\"/opt/climate/**\"]");

pub(crate) const NAMES: Kind = Kind::List("a list of patterns such as [\"hub-*\"]");

const ACCOUNTS: Kind = Kind::List("a list of names such as [\"alice\", \"bob\"]");

const IDS: Kind = Kind::List("a list of numbers and ranges such as [1000, \"2000-2999\"]");

const TWO_LEVEL: &[PolicyKind] = &[PolicyKind::TwoLevel];

const ISOLATION: &[PolicyKind] = &[PolicyKind::Isolation];

const MINIMA: &[PolicyKind] = &[PolicyKind::Isolation];

pub(crate) const APP: Section = Section {
    name: "app",
    header: "[[app]]",
    doc: "An application: what gets a share. A client must match all given keys of `clients`, `uids` or `users`, \
          `gids` or `groups`, `machines`, `listeners` and `operations`, in any element of each; `[[match]]` adds \
          alternatives. The first match in the file counts; the listener's application goes first. Without such \
          keys only a listener or `default` leads to it.",
    keys: &[
        Tunable::new("name", NAME, "Its name."),
        Tunable::new("share", PATH, "The share that it is in.").used_by(WEIGHTS).absent_means("at the top"),
        Tunable::new(
            "weight",
            Kind::Count,
            "Its weight in its share: while both are busy, weight 4 gets twice what weight 2 gets.",
        )
        .instead_of(&["priority"])
        .used_by(WEIGHTS)
        .default("1")
        .range("1", "1000000")
        .paper("vPFS+ §III-A"),
        Tunable::new(
            "cap",
            CAP,
            "Its maximum rate, **sum over all servers**, even if the storage is idle. Several processes need \
             `[peers]`; without news from the others each allows its even part.",
        )
        .instead_of(&["limit", "max", "max_rate", "bandwidth", "rate"])
        .absent_means("no cap")
        .paper("vPFS §IV-C3"),
        Tunable::new("server_cap", CAP, "Its maximum rate **on each server**; not with `cap`.")
            .absent_means("no cap")
            .paper("vPFS §IV-C3"),
        Tunable::new(
            "target_rate",
            Kind::Rate,
            "The rate up to which its requests keep `deadline`, **sum over all servers**. Several processes need \
             `[peers]`.",
        )
        .used_by(TWO_LEVEL)
        .absent_means("no promise: it gets the capacity that the others leave")
        .range("1B/s", "1PB/s")
        .paper("Two-level"),
        Tunable::new("server_target_rate", Kind::Rate, "The same **on each server**; not with `target_rate`.")
            .used_by(TWO_LEVEL)
            .absent_means("no promise")
            .range("1B/s", "1PB/s")
            .paper("Two-level"),
        Tunable::new("deadline", Kind::Duration, "The longest time of a request, within the target rate.")
            .used_by(TWO_LEVEL)
            .absent_means("no promise")
            .range("1ms", "1h")
            .paper("Two-level"),
        Tunable::new(
            "min_rate",
            Kind::Rate,
            "The rate that it gets at least, **sum over all servers**, while it asks for it. Several processes \
             need `[peers]`.",
        )
        .used_by(MINIMA)
        .absent_means("its share by weight")
        .range("1B/s", "1PB/s"),
        SERVER_MIN_RATE,
        Tunable::new(
            "latency",
            Kind::Duration,
            "The latency to keep for nine in ten requests while it asks for less than its share; if that is \
             impossible, the log says why.",
        )
        .used_by(ISOLATION)
        .absent_means("as low as possible")
        .range("100us", "1h"),
        Tunable::new("burst", Kind::Size, "What it may transfer at once after it was idle, with a cap.")
            .default("16MiB")
            .range("1B", "1TiB"),
        Tunable::new(
            "exempt",
            Kind::Choice(&["off", "on"]),
            "Its requests pass at once and are counted. It \
                                                              takes from all others. Identify it by `clients` or \
                                                              a listener: anyone can state a user.",
        )
        .absent_means("`off`"),
        CLIENTS,
        UIDS,
        USERS,
        GIDS,
        GROUPS,
        MACHINES,
        LISTENERS,
        OPERATIONS,
        PROGRAMS,
        CGROUPS,
        FILES,
    ],
};

pub(crate) const MATCH: Section = Section {
    name: "match",
    header: "[[match]]",
    doc: "Another rule of an application, tried where its `[[app]]` stands.",
    keys: &[
        Tunable::new("app", NAME, "The application."),
        CLIENTS,
        UIDS,
        USERS,
        GIDS,
        GROUPS,
        MACHINES,
        LISTENERS,
        OPERATIONS,
        PROGRAMS,
        CGROUPS,
        FILES,
    ],
};

const CAP: Kind = Kind::Text("a rate such as \"100MB/s\" or a share of the capacity such as \"25%\"");

const SERVER_MIN_RATE: Tunable =
    Tunable::new("server_min_rate", Kind::Rate, "The same **on each server**; not with `min_rate`.")
        .used_by(MINIMA)
        .absent_means("its share by weight")
        .range("1B/s", "1PB/s");

const UNCHECKED: &str = "not checked";

const CLIENTS: Tunable = Tunable::new("clients", HOSTS, "The addresses that its clients connect from.")
    .instead_of(&["host", "hosts", "nodes", "addresses"])
    .absent_means(UNCHECKED);

const UIDS: Tunable = Tunable::new("uids", IDS, "The users it runs as, as stated by clients.").absent_means(UNCHECKED);

const USERS: Tunable =
    Tunable::new("users", ACCOUNTS, "The same by name; with `uids`, one of both must match.").absent_means(UNCHECKED);

const GIDS: Tunable = Tunable::new("gids", IDS, "Groups of the user, as stated by clients.").absent_means(UNCHECKED);

const GROUPS: Tunable =
    Tunable::new("groups", ACCOUNTS, "The same by name; with `gids`, one of both must match.").absent_means(UNCHECKED);

const MACHINES: Tunable =
    Tunable::new("machines", NAMES, "Names that client hosts state for themselves (NFS with `sec=sys`).")
        .absent_means(UNCHECKED);

const LISTENERS: Tunable = Tunable::new(
    "listeners",
    Kind::List("a list of ports such as [5335]"),
    "The ports of listeners that its clients connect to. Not for mounts.",
)
.absent_means(UNCHECKED);

const OPERATIONS: Tunable = Tunable::new(
    "operations",
    Kind::List("a list such as [\"metadata\"]"),
    "`read`, `write`, or `metadata`, which is everything else. Other requests of the same client belong to other \
     applications.",
)
.absent_means(UNCHECKED);

const PROGRAMS: Tunable = Tunable::new(
    "programs",
    PATHS,
    "Executables that use a mount; `*` stands for part of a name, `**` for any directories.",
)
.absent_means(UNCHECKED);

const CGROUPS: Tunable = Tunable::new(
    "cgroups",
    PATHS,
    "Control groups of programs that use a mount, such as \"/system.slice/backup.service\".",
)
.absent_means(UNCHECKED);

const FILES: Tunable = Tunable::new(
    "files",
    PATHS,
    "Files below a mount. Mounts only: requests of OrangeFS and NFS carry handles, which tell neither a path nor \
     an export. Give an export a port of its own, and write `listeners`.",
)
.instead_of(&["export", "exports", "path", "paths"])
.absent_means(UNCHECKED);

const WEIGHTS: &[PolicyKind] = &[PolicyKind::SfqD, PolicyKind::SfqDPlus, PolicyKind::TwoLevel, PolicyKind::Isolation];

const PATH: Kind = Kind::Text("a name or a path of at most 8 names such as \"physics/alice\"");

/// A share, in any file.
pub const SHARE: Section = Section {
    name: "share",
    header: "[[share]]",
    doc: "A share of the storage, divided among the applications that name it and the shares below it \
          (`physics/alice` is in `physics`). What a member does not use goes to its siblings first. A share \
          without a table has weight 1. At most 4096.",
    keys: &[
        Tunable::new("name", PATH, "Its name, after that of the share that it is in."),
        Tunable::new("weight", Kind::Count, "Its weight among the members of the same share.")
            .used_by(WEIGHTS)
            .default("1")
            .range("1", "1000000"),
        Tunable::new("cap", CAP, "The maximum rate of all its members, **sum over all servers**.")
            .absent_means("no cap"),
        Tunable::new("server_cap", CAP, "The same **on each server**; not with `cap`.").absent_means("no cap"),
        Tunable::new("burst", Kind::Size, "What they may transfer at once after all were idle.")
            .default("16MiB")
            .range("1B", "1TiB"),
        Tunable::new(
            "min_rate",
            Kind::Rate,
            "The rate that all its members get at least, **sum over all servers**. They divide it by weight; \
             minima of members count for it.",
        )
        .used_by(MINIMA)
        .absent_means("its share by weight")
        .range("1B/s", "1PB/s"),
        SERVER_MIN_RATE,
    ],
};

pub(crate) const OWNER: Section = Section {
    name: "owner",
    header: "[[owner]]",
    doc: "An owner may push applications at runtime ([jobs](guide/cluster.md), `vpfs app`). Root and the proxy's user \
          always may, at its socket. An owner changes only its own sets. Rules of `[[app]]` go first, then sets \
          of unlisted owners, then owners in the order of the file.",
    keys: &[
        Tunable::new(
            "name",
            Kind::Text("a name of letters, digits, \"-\" and \"_\", at most 64 of them"),
            "Its sets have this name, or this name, a dot and a part of their own.",
        ),
        Tunable::new(
            "token",
            Kind::Text("a file, relative to this one"),
            "A secret of at least 16 characters. Nobody else may read the file, which is read per request.",
        ),
    ],
};

pub(crate) const LIMITS: Section = Section {
    name: "limits",
    header: "[limits]",
    doc: "At a limit the peer waits and nothing is dropped, with two exceptions: connections beyond \
          `connections_per_host` are closed; and a connection that sends requests in front of the data of a \
          dispatched write may hold eight times `operations` (at least 4096 more) and twice `request_bytes` (at \
          least 1 MiB more), or what `memory` leaves, before it is closed.",
    keys: &[
        Tunable::new(
            "connections",
            Kind::Count,
            "Client connections per process. A further one replaces an idle one of a host that has more, or one \
             unused for a minute; otherwise it waits.",
        )
        .default("4096")
        .range("1", "1000000"),
        Tunable::new(
            "connections_per_host",
            Kind::Count,
            "Connections from one address; further ones are closed. A job has one per process and server; \
             clients behind a NAT gateway are one host.",
        )
        .absent_means("a quarter of `connections`, but not less than 64, or than `connections` if that is smaller")
        .range("1", "1000000"),
        Tunable::new("operations", Kind::Count, "Operations of one connection that are held or in progress.")
            .default("256")
            .range("1", "65536"),
        Tunable::new(
            "request_bytes",
            Kind::Size,
            "Bytes of one connection's requests, at least 512 each, with the data of held ones. With NFS it must \
             exceed what a client has in flight, or a writer stops other users of the connection.",
        )
        .absent_means("4MiB, or 80MiB if the address of a server begins with `nfs://`")
        .range("64KiB", "1GiB"),
        Tunable::new("buffer", Kind::Size, "Bytes of one connection that wait to be sent to one side.")
            .default("1MiB")
            .range("64KiB", "1GiB"),
        Tunable::new(
            "memory",
            Kind::Size,
            "Bytes that all connections of a process hold, each beyond 64 KiB. From seven eighths on, \
             connections that hold more than 32 KiB wait until three quarters.",
        )
        .default("1GiB")
        .range("16MiB", "1TiB"),
        Tunable::new("host_memory", Kind::Size, "The same per client host.")
            .absent_means("a quarter of `memory`")
            .range("4MiB", "1TiB"),
        Tunable::new(
            "reply_timeout",
            Kind::Duration,
            "An operation without an answer is abandoned with its connection after this time. Clients repeat \
             after 300 s.",
        )
        .default("330s")
        .range("1s", "1d"),
        Tunable::new(
            "max_hold",
            Kind::Duration,
            "A request that waits for its turn longer is sent only when its client repeats it, in its old place. \
             Between half of the clients' time-out and all of it, less what a server needs.",
        )
        .absent_means("nine tenths of `client_timeout`, 270 s without that")
        .range("500ms", "1d"),
        Tunable::new("flow_timeout", Kind::Duration, "The same time-out for a transfer without progress.")
            .default("60s")
            .range("1s", "1d"),
        Tunable::new(
            "stall_timeout",
            Kind::Duration,
            "The same for an operation that waits for its client. Its slots are free after a second in any case.",
        )
        .default("5min")
        .range("1s", "1d"),
        Tunable::new(
            "request_timeout",
            Kind::Duration,
            "The time to complete a request of which a part was sent. Idle connections and data of writes are \
             not affected.",
        )
        .default("10s")
        .range("1s", "1d"),
        Tunable::new(
            "client_timeout",
            Kind::Duration,
            "How long clients are told to wait for an answer. Raise it if caps hold requests for minutes: \
             clients repeat five times, then fail.",
        )
        .absent_means("the value in the servers' own configuration, 300 s by default")
        .range("1s", "1d")
        .at_restart(),
        Tunable::new("connect_timeout", Kind::Duration, "The time-out for connecting to a server.")
            .default("10s")
            .range("10ms", "10min"),
        Tunable::new(
            "write_back",
            Kind::Text("\"auto\", \"off\" or a size such as \"64MiB\""),
            "How much written data may be in the server host's memory and not on its disk, per disk: everything \
             unstored is ahead of a small write. `auto` is what the disk stores in an eighth of a second. Needs \
             Linux 6.2, and root or vpfs-write-back.service on that host; otherwise NFS servers are asked to store \
             at once what exceeds it. `off` in mode `observe`.",
        )
        .default("auto")
        .at_restart(),
        Tunable::new("drain_timeout", Kind::Duration, "The time that operations in progress get at shutdown.")
            .default("30s")
            .range("0s", "1h"),
    ],
};

/// Warns about keys that `policy` does not use, unless they have their defaults; each once, at the first of these
/// tables that has it.
pub(crate) fn warn(tables: &[Table<'_>], policy: PolicyKind) {
    let Some(section) = tables.first().map(Table::section) else { return };
    for row in section.keys.iter().filter(|row| !row.is_used_by(policy)) {
        let mut having = tables.iter().filter(|table| table.differs(row.key));
        let Some(first) = having.next() else { continue };
        let others = match having.count() {
            0 => String::new(),
            count => format!(" (so do {count} more {})", section.header),
        };
        let policies = row.policies.iter().map(|policy| policy.name()).collect::<Vec<_>>().join(", ");
        let message =
            format!("has no effect with the policy {}, only with {policies}; remove it{others}", policy.name());
        first.cx.warn(first.line_of(row.key), first.path(row.key), message);
    }
}
