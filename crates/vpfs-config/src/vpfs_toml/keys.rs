//! The one table of everything that can be set in vpfs.toml. `docs/config.md` is printed from it.

use vpfs_core::PolicyKind;

use crate::schema::tunables::{Kind, Section, Tunable};

/// Every section of the file, in the order of the manual.
pub const SECTIONS: &[&Section] =
    &[&SERVER, &LISTENER, &SCHEDULER, &SLOT_COST, &DEVICE_TIME, &APPS, &APP, &LIMITS, &LOG];

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
        Tunable::new("app", Kind::List("[[app]]"), ""),
        Tunable::new("limits", Kind::Table("[limits]"), ""),
        Tunable::new("log", Kind::Table("[log]"), ""),
    ],
};

const NAME: Kind = Kind::Text("a name of letters, digits, \"-\", \"_\" and \".\", at most 64 of them");
const ADDRESS: Kind = Kind::Text("an address such as \"tcp://10.0.0.1:3334\"");
const IDS: Kind = Kind::List("a list of numbers and ranges such as [1000, \"2000-2999\"]");

pub(crate) const SERVER: Section = Section {
    name: "server",
    header: "[[server]]",
    doc: "One for every OrangeFS server of the file system, in any order. Every proxy of a cluster reads the same file, \
          and `--server NAME` picks the ones it stands before.",
    keys: &[
        Tunable::new("name", NAME, "The server's alias, for listeners, logs, metrics and `--server`.").at_restart(),
        Tunable::new(
            "address",
            ADDRESS,
            "Where it listens, written exactly as in the servers' own configuration file: clients are told a \
             listener's address in its place.",
        )
        .at_restart(),
    ],
};

pub(crate) const LISTENER: Section = Section {
    name: "listener",
    header: "[[listener]]",
    doc: "A door for clients: one address before every server. Clients are sent from server to server by the addresses \
          they are told, and refuse to mount if two servers tell different ones, so a listener names every server. \
          Give either `port` or `addresses`.",
    keys: &[
        Tunable::new("app", NAME, "Whoever comes in here belongs to this application, whatever other rules say.")
            .absent_means("clients are told apart by the rules of `[[app]]`")
            .at_restart(),
        Tunable::new("port", Kind::Count, "The proxies run on the servers' own hosts and listen at this port of each.")
            .absent_means("`addresses` are given")
            .range("1", "65535")
            .at_restart(),
        Tunable::new(
            "addresses",
            Kind::Table("a table such as { s1 = \"tcp://10.0.0.1:5334\", s2 = \"tcp://10.0.0.2:5334\" }"),
            "What clients are told, for each server by its name.",
        )
        .absent_means("`port` is given")
        .at_restart(),
        Tunable::new("bind", Kind::Text("an IP address such as \"0.0.0.0\""), "The local address to listen at.")
            .absent_means("the host that clients are told")
            .at_restart(),
    ],
};

pub(crate) const SCHEDULER: Section = Section {
    name: "scheduler",
    header: "[scheduler]",
    doc: "How requests are ordered before each server.",
    keys: &[
        Tunable::new(
            "policy",
            Kind::Choice(&PolicyKind::NAMES),
            "`isolation` gives who asks for less than its share nearly what it gets alone and shares the storage's time \
             among the others by weight, without any tuning; `fifo` keeps the order of arrival, `sfq-d` shares by weight, `sfq-d-plus` also knows that large requests \
             load the storage more and fills gaps with small ones, `two-level` keeps each application's `deadline` \
             while it stays within its `target_rate`, `ioco` serves one application after another in each `window`, in \
             the same order on all servers.",
        )
        .default("isolation")
        .paper("vPFS+ §III; Two-level; IOCO §3"),
        Tunable::new(
            "profile",
            Kind::Text("a file that `vpfs profile` wrote, relative to this one"),
            "Takes `depth`, `small_threshold`, `slot_cost` and `device_time` from there, unless they stand here.",
        )
        .absent_means("no profile")
        .paper("vPFS+ §III-B"),
        DEPTH,
        Tunable::new(
            "adaptive",
            Kind::Choice(&["off", "on"]),
            "`on` finds depth and slot costs from how the storage behaves (`sfq-d`, `sfq-d-plus`); `depth` and \
             `slot_cost` are where it begins.",
        )
        .default("off"),
        Tunable::new(
            "backfill",
            Kind::Choice(&["bounded", "paper"]),
            "Which requests may pass a blocked large one (`sfq-d-plus`). `bounded`: those whose turn comes no later than that \
             one's end, so that weights hold for large and small requests. `paper`: all that fit; then the flow of large \
             requests falls short of a much larger weight.",
        )
        .default("bounded")
        .paper("vPFS+ §III-C"),
        Tunable::new(
            "cost",
            Kind::Choice(&["device-time", "bytes"]),
            "What `isolation` shares by weight. `device-time`: the time that requests take of the storage, learned while \
             it runs; whoever makes it seek pays for that. `bytes`: bytes, as all other policies do.",
        )
        .default("device-time"),
        Tunable::new(
            "sharing",
            Kind::Choice(&["local", "threshold", "layout"]),
            "Scope of the shares (`sfq-d`, `sfq-d-plus`, `isolation`). `local`: each server for itself. `threshold`: the sum over \
             all servers, which tell each other what they served. `layout`: the same, but from how a request's file is \
             striped wherever that tells it, without a message.",
        )
        .default("local")
        .paper("vPFS §III-B"),
        Tunable::new(
            "broadcast_threshold",
            Kind::Size,
            "A server tells the others when it has accepted so much (`sharing`). Less is fairer in the short run and \
             more traffic.",
        )
        .default("10MiB")
        .range("4KiB", "1TiB")
        .paper("vPFS §III-B1"),
        Tunable::new("metadata_threshold", Kind::Count, "The same for metadata, in operations.")
            .default("1000")
            .range("1", "1000000000")
            .paper("vPFS+ §IV"),
        Tunable::new(
            "min_local_share",
            Kind::Text("a share such as \"1%\""),
            "An application keeps at least this part of its share on a server, however much it gets elsewhere.",
        )
        .default("1%")
        .paper("vPFS §III-B"),
        Tunable::new(
            "metadata_depth",
            Kind::Count,
            "Gives metadata a queue of its own with so many slots, for servers whose metadata lies on other devices.",
        )
        .absent_means("data and metadata share one queue")
        .range("1", "65536")
        .paper("vPFS+ §IV"),
        Tunable::new("replenish_period", Kind::Duration, "Credits are renewed after so long (`two-level`).")
            .default("200ms")
            .range("1ms", "1min")
            .paper("Two-level"),
        Tunable::new(
            "control_window",
            Kind::Duration,
            "The limit of outstanding requests is computed anew after so long (`two-level`).",
        )
        .default("1s")
        .range("10ms", "1min")
        .paper("Two-level"),
        Tunable::new(
            "outstanding_max",
            Kind::Count,
            "The most outstanding requests, however much the storage completes before the shortest deadline (`two-level`).",
        )
            .default("100")
            .range("1", "65536")
            .paper("Two-level"),
        Tunable::new(
            "window",
            Kind::Duration,
            "Requests of one window are served application by application (`ioco`): `1s` for disks, `250ms` for flash.",
        )
        .default("1s")
        .range("1ms", "1h")
        .paper("IOCO §3, §5.2"),
        Tunable::new(
            "window_order",
            Kind::Choice(&["fair", "paper"]),
            "Which application is served first in a window (`ioco`). `fair`: another one in each window. `paper`: the \
             same in all of them, by a number from its name; then the first ones finish early, and the last ones wait.",
        )
        .default("fair")
        .paper("IOCO §3.1"),
        SMALL_THRESHOLD,
        Tunable::new("metadata_cost", Kind::Size, "What a metadata operation is charged.")
            .default("10KiB")
            .range("1B", "1GiB")
            .paper("vPFS+ §IV"),
        Tunable::new("capacity", Kind::Rate, "What one server can do; needed if a cap is given in percent.")
            .absent_means("not known")
            .range("1B/s", "1PB/s"),
        SLOT_COSTS,
        DEVICE_TIMES,
    ],
};

const DEPTH: Tunable = Tunable::new("depth", Kind::Count, "Slots: small requests that one server handles at once.")
    .default("14")
    .range("1", "65536")
    .paper("vPFS+ §III-B");

const SMALL_THRESHOLD: Tunable =
    Tunable::new("small_threshold", Kind::Size, "Requests up to this size occupy one slot (`sfq-d-plus`).")
        .default("128KiB")
        .range("1B", "1GiB")
        .paper("vPFS+ §III-B");

const SLOT_COSTS: Tunable = Tunable::new(
    "slot_cost",
    Kind::List("a list such as [{ op = \"write\", up_to = \"512KiB\", slots = 2 }]"),
    "Slots of larger requests (`sfq-d-plus`), as profiled on this storage; see below.",
)
.absent_means("the paper's storage: 2 slots up to 512KiB, 3 up to 1MiB, 5 above")
.paper("vPFS+ §III-B");

const DEVICE_TIMES: Tunable = Tunable::new(
    "device_time",
    Kind::List("a list such as [{ op = \"write\", size = \"1MiB\", time = \"70ms\" }]"),
    "What requests take of the storage's time (`isolation`), as profiled on this storage: where it begins to learn; see below.",
)
.absent_means("found while it runs");

/// The file that [`SCHEDULER`]'s `profile` names.
pub(crate) const PROFILE_ROOT: Section = Section {
    name: "",
    header: "a file of tables",
    doc: "",
    keys: &[Tunable::new("scheduler", Kind::Table("[scheduler]"), "")],
};

/// What a profile may say.
pub(crate) const PROFILE: Section = Section {
    name: "scheduler",
    header: "[scheduler]",
    doc: "",
    keys: &[DEPTH, SMALL_THRESHOLD, SLOT_COSTS, DEVICE_TIMES],
};

pub(crate) const SLOT_COST: Section = Section {
    name: "scheduler.slot_cost",
    header: "[[scheduler.slot_cost]]",
    doc: "A row of the slot cost table; also written inline, `slot_cost = [{ ... }, ...]`. A request takes the row of \
          its operation with the smallest `up_to` that is not below its size, the last row if all are.",
    keys: &[
        Tunable::new("op", Kind::Choice(&["read", "write"]), "For which requests the row holds.").absent_means("both"),
        Tunable::new("up_to", Kind::Size, "Largest request it holds for.").range("1B", "1TiB"),
        Tunable::new("slots", Kind::Count, "Slots that such a request occupies; counts as `depth` if larger.")
            .range("1", "65536"),
    ],
};

pub(crate) const DEVICE_TIME: Section = Section {
    name: "scheduler.device_time",
    header: "[[scheduler.device_time]]",
    doc: "What a request of a size takes of the storage's time while that is saturated: for so long it serves nobody else. Sizes \
          without a row are extrapolated from the nearest one.",
    keys: &[
        Tunable::new("op", Kind::Choice(&["read", "write"]), "For which requests the row holds.").absent_means("both"),
        Tunable::new("size", Kind::Size, "Their size. Sizes up to 4 KiB, then up to 8 KiB, 16 KiB ... 8 MiB, and all larger ones, are one class each; the largest row of a class counts.").range("1B", "1GiB"),
        Tunable::new("time", Kind::Duration, "What each of them takes.").range("1ns", "1min"),
    ],
};

pub(crate) const APPS: Section = Section {
    name: "apps",
    header: "[apps]",
    doc: "What becomes of clients that no rule of an `[[app]]` matches.",
    keys: &[
        Tunable::new("default", NAME, "The application of clients that nothing else matches.")
            .absent_means("`other`, which has weight 1 unless an `[[app]]` of that name says otherwise"),
        Tunable::new(
            "auto",
            Kind::Choice(&["off", "client-host", "uid"]),
            "Makes an application for each client host or user that no rule matches.",
        )
        .default("client-host"),
        Tunable::new("auto_limit", Kind::Count, "Applications made that way; further clients get the default one.")
            .default("1000")
            .range("0", "100000"),
        Tunable::new("auto_weight", Kind::Count, "The weight of each of them.").default("1").range("1", "1000000"),
    ],
};

pub(crate) const APP: Section = Section {
    name: "app",
    header: "[[app]]",
    doc: "An application: whom shares are given to. A client must match all of `clients`, `uids` and `gids` that are \
          given, in each of them any element. The first application in the file that matches is taken; the application \
          of the listener that a client came in by goes before all. Without any of the three, only a listener or \
          `default` leads to it.",
    keys: &[
        Tunable::new("name", NAME, "Its name in logs and metrics."),
        Tunable::new("weight", Kind::Count, "Its share; 4 gets twice of what 2 gets while both are busy.")
            .default("1")
            .range("1", "1000000")
            .paper("vPFS+ §III-A"),
        Tunable::new(
            "cap",
            Kind::Text("a rate such as \"100MB/s\" or a share of the capacity such as \"25%\""),
            "The most it gets **on each server**, even if the storage is idle.",
        )
        .absent_means("no cap")
        .paper("vPFS §IV-C3"),
        Tunable::new(
            "target_rate",
            Kind::Rate,
            "While it asks **each server** for no more than this, its requests keep their `deadline` (`two-level`).",
        )
        .absent_means("no promise: it gets what the others leave")
        .range("1B/s", "1PB/s")
        .paper("Two-level"),
        Tunable::new("deadline", Kind::Duration, "How long its requests take at most; with `target_rate`.")
            .absent_means("no promise")
            .range("1ms", "1h")
            .paper("Two-level"),
        Tunable::new(
            "latency",
            Kind::Duration,
            "Nine in ten of its requests take no longer while it asks for less than its share; the log says why if that cannot be \
             (`isolation`).",
        )
        .absent_means("as little as there is to have")
        .range("100us", "1h"),
        Tunable::new("burst", Kind::Size, "What it may do at once after it was idle; only with `cap`.")
            .default("16MiB")
            .range("1B", "1TiB"),
        Tunable::new(
            "clients",
            Kind::List(
                "a list of addresses, networks, host names and host lists such as [\"10.1.0.0/16\", \"c[001-064]\"]",
            ),
            "From where its clients connect.",
        )
        .absent_means("not looked at"),
        Tunable::new("uids", IDS, "Users it runs as, as clients state them.").absent_means("not looked at"),
        Tunable::new("gids", IDS, "Groups of which the user is in one, as clients state them.")
            .absent_means("not looked at"),
    ],
};

pub(crate) const LIMITS: Section = Section {
    name: "limits",
    header: "[limits]",
    doc: "What clients and servers can make a proxy hold. At a bound the peer is made to wait; nothing is dropped. The \
          one exception is requests in front of the data of a dispatched write. They have to be read, as nothing but \
          that data ends the write, so a connection may hold eight times `operations` of them, and at least 4096 more, \
          and twice `request_bytes`, and at least 1 MiB more. Beyond that, or if more of them come when `memory` or \
          `host_memory` is used up, it is closed. `docs/guide/orangefs.md` says how much that is in all.",
    keys: &[
        Tunable::new("connections", Kind::Count, "Client connections of one proxy process; further ones wait.")
            .default("4096")
            .range("1", "1000000"),
        Tunable::new("operations", Kind::Count, "Operations of one connection that are held or in progress.")
            .default("256")
            .range("1", "65536"),
        Tunable::new(
            "request_bytes",
            Kind::Size,
            "Bytes of the requests of one connection that are held or in progress: 512 and more for each operation, \
             and while it is held the whole request with the data in it.",
        )
        .default("4MiB")
        .range("64KiB", "1GiB"),
        Tunable::new("buffer", Kind::Size, "Bytes of one connection waiting to be sent to one side.")
            .default("1MiB")
            .range("64KiB", "1GiB"),
        Tunable::new(
            "memory",
            Kind::Size,
            "Bytes that all connections of one proxy process hold together: requests, and what waits to be sent, each \
             beyond 64 KiB of a connection. When seven eighths are held, connections that hold more than 32 KiB wait \
             until it is three quarters.",
        )
        .default("1GiB")
        .range("16MiB", "1TiB"),
        Tunable::new("host_memory", Kind::Size, "The same for the connections of one client host; at most `memory`.")
            .absent_means("a quarter of `memory`")
            .range("4MiB", "1TiB"),
        Tunable::new(
            "reply_timeout",
            Kind::Duration,
            "An operation that the server has not answered for so long is given up with its connection. Longer than \
             the clients' own time-out of 300 s, after which they ask again.",
        )
        .default("330s")
        .range("1s", "1d"),
        Tunable::new("flow_timeout", Kind::Duration, "The same for a transfer that moves no byte.")
            .default("60s")
            .range("1s", "1d"),
        Tunable::new(
            "client_timeout",
            Kind::Duration,
            "How long clients are told to wait for an answer before they ask again. Raise it where caps hold requests \
             for minutes: a client that asks again makes its request run twice.",
        )
        .absent_means("what the servers' own configuration says, 300 s by default")
        .range("1s", "1d")
        .at_restart(),
        Tunable::new("connect_timeout", Kind::Duration, "For connecting to a server.")
            .default("10s")
            .range("10ms", "10min"),
        Tunable::new("drain_timeout", Kind::Duration, "What operations in progress get at shutdown.")
            .default("30s")
            .range("0s", "1h"),
    ],
};

pub(crate) const LOG: Section = Section {
    name: "log",
    header: "[log]",
    doc: "What is logged, on standard error.",
    keys: &[
        Tunable::new(
            "level",
            Kind::Choice(&["error", "warn", "info", "debug", "trace"]),
            "The least urgent level shown.",
        )
        .default("info"),
        Tunable::new("format", Kind::Choice(&["text", "json"]), "For people or for programs.")
            .default("text")
            .at_restart(),
    ],
};
