//! Everything that a scenario file can say.

use vpfs_config::tunables::{Kind, Section, Tunable};

const NAME: Kind = Kind::Text("a name");
const SWITCH: Kind = Kind::Choice(&["off", "on"]);
const COUNT: Kind = Kind::Count;
const SIZE: Kind = Kind::Size;
const RATE: Kind = Kind::Rate;
const TIME: Kind = Kind::Duration;
/// Numbers of servers.
const SERVERS: Kind = Kind::List("server numbers from 0, such as \"0-3\" or [\"0\", \"4-7\"]");

const fn key(key: &'static str, kind: Kind, doc: &'static str) -> Tunable {
    Tunable::new(key, kind, doc)
}

/// An amount from 1 to a million.
const fn some(name: &'static str, default: &'static str, doc: &'static str) -> Tunable {
    key(name, COUNT, doc).default(default).range("1", "1000000")
}

/// Every section, in the order of the manual.
pub(super) const SECTIONS: &[&Section] = &[
    &ROOT,
    &SERVER_GROUP,
    &HDD,
    &SSD,
    &VOLUME,
    &CACHE,
    &NODE_LINK,
    &PEERS,
    &PARTITION,
    &RESTART,
    &POLICY,
    &APP,
    &IOR,
    &BTIO,
    &MD,
    &WRF,
    &PIO,
    &TILE,
    &NONCONTIG,
    &PACED,
    &INTERACTIVE,
];

pub(super) const ROOT: Section = Section {
    name: "",
    header: "a file of tables",
    doc: "What is simulated.",
    keys: &[
        key("name", NAME, "For tables and files.").absent_means("the name of the file"),
        key("seed", COUNT, "All that is random comes from it.").default("1"),
        key("duration", TIME, "The run ends here at the latest.")
            .absent_means("when all applications but those in the background are finished")
            .range("1ms", "365d"),
        key("interval", TIME, "One value of each time series for so long.").default("1s").range("1ms", "1d"),
        key("wait_limit", TIME, "A request that waits longer for its dispatch is an error.")
            .default("10min")
            .range("1ms", "365d"),
        key("by_server", SWITCH, "Results tell what each application got at each server.").default("off"),
        key("trace", SWITCH, "Results list each call that moved data.").default("off"),
        key("servers", Kind::List("[[servers]]"), "The servers."),
        key("jitter", TIME, "A request takes up to so much longer on its way to a server, by lot for each.")
            .default("0s")
            .range("0s", "10s"),
        key("node_link", Kind::Table("[node_link]"), "The link of each client node.")
            .absent_means("only the servers' links limit"),
        key("peers", Kind::Table("[peers]"), "Between the servers.").absent_means("a network without faults"),
        key("policy", Kind::List("[[policy]]"), "What to compare."),
        key("app", Kind::List("[[app]]"), "Who asks for service."),
    ],
};

pub(super) const SERVER_GROUP: Section = Section {
    name: "servers",
    header: "[[servers]]",
    doc: "Servers that are alike, numbered in the order of the file.",
    keys: &[
        key("count", COUNT, "How many.").default("1").range("1", "100000"),
        key("device", Kind::Text("a device model such as \"hdd\""), "What holds the data.").default("hdd"),
        key("hdd", Kind::Table("[servers.hdd]"), "A disk with parameters of its own.").absent_means("that of `device`"),
        key("ssd", Kind::Table("[servers.ssd]"), "Flash with parameters of its own.").absent_means("that of `device`"),
        key("volume", Kind::Table("[servers.volume]"), "A volume with limits, with parameters of its own.")
            .absent_means("that of `device`"),
        key("cache", Kind::Table("[servers.cache]"), "A write-back cache before it.").absent_means("that of `device`"),
        key("role", Kind::Choice(&["both", "data", "metadata"]), "What is kept on them.").default("both"),
        key("link_rate", RATE, "Payload of its link in each direction.").default("117MB/s").range("1KB/s", "1PB/s"),
        key("link_latency", TIME, "From a client to the server.").default("50us").range("0s", "10s"),
        key("metadata_parallel", COUNT, "Metadata operations served at once.").default("1").range("1", "1000"),
    ],
};

pub(super) const NODE_LINK: Section = Section {
    name: "node_link",
    header: "[node_link]",
    doc: "The link of each client node, both directions alike.",
    keys: &[key("rate", RATE, "Payload in each direction.").default("117MB/s").range("1KB/s", "1PB/s")],
};

pub(super) const PEERS: Section = Section {
    name: "peers",
    header: "[peers]",
    doc: "Coordination between servers, and its faults.",
    keys: &[
        key("latency", TIME, "From one server to another.").default("100us").range("0s", "1h"),
        key(
            "message_work",
            TIME,
            "Work of a server for each message that it sends or receives; `null-aio` waits for it.",
        )
        .default("0s")
        .range("0s", "1s"),
        key("message_overhead", SIZE, "Bytes that carry a message.").default("0B").range("0B", "1MiB"),
        key("extra_delay", TIME, "Each message takes longer by a random time up to this.")
            .default("0s")
            .range("0s", "1h"),
        key("loss_ppm", COUNT, "Messages that do not arrive, in parts of a million.")
            .default("0")
            .range("0", "1000000"),
        key("duplicate_ppm", COUNT, "Messages that arrive twice, in parts of a million.")
            .default("0")
            .range("0", "1000000"),
        key("partition", Kind::List("[[peers.partition]]"), "When servers do not hear of each other.")
            .absent_means("never"),
        key("restart", Kind::List("[[peers.restart]]"), "When proxies start anew.").absent_means("never"),
    ],
};

pub(super) const PARTITION: Section = Section {
    name: "peers.partition",
    header: "[[peers.partition]]",
    doc: "For some time no message passes between these servers and all others.",
    keys: &[
        key("from", TIME, "Its begin."),
        key("to", TIME, "Its end."),
        key("servers", SERVERS, "Those on one side."),
    ],
};

pub(super) const RESTART: Section = Section {
    name: "peers.restart",
    header: "[[peers.restart]]",
    doc: "A proxy starts anew.",
    keys: &[key("at", TIME, "When."), key("server", COUNT, "Which, from 0.").range("0", "1000000")],
};

pub(super) const POLICY: Section = Section {
    name: "policy",
    header: "[[policy]]",
    doc: "A policy to compare.",
    keys: &[
        key("name", NAME, "For tables."),
        key("scheduler", Kind::Table("[policy.scheduler]"), "As `[scheduler]` in vpfs.toml."),
    ],
};

pub(super) const APP: Section = Section {
    name: "app",
    header: "[[app]]",
    doc: "An application: what it does and what it is to get.",
    keys: &[
        key("name", NAME, "For tables."),
        key("copies", COUNT, "So many equal applications; their names get a number.").default("1").range("1", "10000"),
        key("weight", COUNT, "Its share.").default("1").range("1", "1000000"),
        key("cap", RATE, "The most it gets at each server.").absent_means("no cap").range("1B/s", "1PB/s"),
        key("burst", SIZE, "What it may do at once after it was idle, with `cap`.")
            .default("16MiB")
            .range("1B", "1TiB"),
        key("target_rate", RATE, "Promised to it at each server, with `deadline`.")
            .absent_means("no promise")
            .range("1B/s", "1PB/s"),
        key("latency", TIME, "Nine in ten of its requests at a server take no longer while it asks for less than its share (`isolation`).")
            .absent_means("as little as there is to have")
            .range("100us", "1h"),
        key("deadline", TIME, "Within `target_rate`, its requests take no longer.")
            .absent_means("no promise")
            .range("1ms", "1h"),
        key("order", COUNT, "Decides its place in windows of IOCO.").absent_means("from its name").range("0", "32767"),
        key("start", TIME, "When its processes begin.").default("0s").range("0s", "365d"),
        key("stagger", TIME, "Each copy begins so much after the one before.").default("0s").range("0s", "365d"),
        key("end", TIME, "When its processes begin no further step.").absent_means("never").range("0s", "365d"),
        key("background", SWITCH, "Starts over when it is finished, and the run does not wait for it.").default("off"),
        some("nodes", "1", "Client nodes that its processes run on."),
        key("outstanding", COUNT, "Calls that each process has outstanding at once.").default("1").range("1", "65536"),
        key("phases", Kind::List("phases such as [\"write\"]"), "Those of its workload that it does.")
            .absent_means("all"),
        key("servers", SERVERS, "Servers of its files.").absent_means("all that hold data"),
        key("start_server", Kind::Choice(&["first", "by-file"]), "On which of them a file begins.").default("by-file"),
        key(
            "distribution",
            Kind::Choice(&["simple-stripe", "basic", "varstrip", "twod-stripe"]),
            "How its files are cut.",
        )
        .default("simple-stripe"),
        key("strip", SIZE, "Bytes in a strip (`simple-stripe`, `twod-stripe`).").default("64KiB").range("1B", "1TiB"),
        key("strips", Kind::Text("strips such as \"0:64K;1:128K\""), "The strips of a round (`varstrip`).")
            .absent_means("none"),
        some("groups", "2", "Groups of servers (`twod-stripe`)."),
        some("factor", "256", "Strips of a server before the next group's turn (`twod-stripe`)."),
        key("ior", Kind::Table("[app.ior]"), "What it does.").absent_means("another workload is given"),
        key("btio", Kind::Table("[app.btio]"), "What it does.").absent_means("another workload is given"),
        key("md", Kind::Table("[app.md]"), "What it does.").absent_means("another workload is given"),
        key("wrf", Kind::Table("[app.wrf]"), "What it does.").absent_means("another workload is given"),
        key("pio", Kind::Table("[app.pio]"), "What it does.").absent_means("another workload is given"),
        key("tile", Kind::Table("[app.tile]"), "What it does.").absent_means("another workload is given"),
        key("noncontig", Kind::Table("[app.noncontig]"), "What it does.").absent_means("another workload is given"),
        key("paced", Kind::Table("[app.paced]"), "What it does.").absent_means("another workload is given"),
        key("interactive", Kind::Table("[app.interactive]"), "What it does.").absent_means("another workload is given"),
    ],
};

pub(super) const IOR: Section = Section {
    name: "app.ior",
    header: "[app.ior]",
    doc: "Large transfers back to back, as `vpfs workload ior`.",
    keys: &[
        key("processes", COUNT, "Number of processes.").default("4").range("1", "65536"),
        key("transfer", SIZE, "Bytes of one call.").default("1MiB").range("1B", "4294967295B"),
        key("block", SIZE, "Consecutive bytes of one process in one segment.").default("16MiB").range("1B", "1PiB"),
        some("segments", "1", "Blocks of each process."),
        key("file", Kind::Choice(&["shared", "per-process"]), "Who writes where.").default("shared"),
        key("order", Kind::Choice(&["sequential", "random"]), "The order of offsets.").default("sequential"),
        key("write", SWITCH, "Whether to write.").default("on"),
        key("read", SWITCH, "Whether to read.").default("off"),
        key("mixed", SWITCH, "Whether to end with a phase in which each call draws its offset, and whether it reads.")
            .default("off"),
        BARRIER,
        key("fsync", SWITCH, "Whether to make data durable after writing.").default("off"),
        key("time_limit", TIME, "Goes on for so long, starting over when all is done.")
            .absent_means("moves each byte once")
            .range("1ms", "365d"),
    ],
};

pub(super) const BTIO: Section = Section {
    name: "app.btio",
    header: "[app.btio]",
    doc: "Bursts of I/O with computation between them, as `vpfs workload btio`.",
    keys: &[
        key("class", Kind::Choice(&["a", "c"]), "Tiny calls of all, or large calls of one for each node."),
        key("processes", COUNT, "Number of processes.").default("64").range("1", "65536"),
        key("iterations", COUNT, "Bursts in each phase.").default("40").range("1", "1000000"),
        key("total", SIZE, "Bytes of all bursts together.").absent_means("that of the class").range("1B", "1PiB"),
        key("transfer", SIZE, "Bytes of one call.").absent_means("those of the class").range("1B", "4294967295B"),
        key("think_write", TIME, "Computation after each burst of writes.").default("6s").range("0s", "1d"),
        key("think_read", TIME, "Verification after each burst of reads.").default("1s").range("0s", "1d"),
        key("read", SWITCH, "Whether to read back.").default("on"),
    ],
};

pub(super) const MD: Section = Section {
    name: "app.md",
    header: "[app.md]",
    doc: "Metadata operations back to back, as `vpfs workload md`.",
    keys: &[
        key("processes", COUNT, "Number of processes.").default("4").range("1", "65536"),
        some("items", "100", "Directories, and files, of each process."),
        key("listings", COUNT, "How often each process lists its directory.").default("10").range("0", "1000000"),
        key("shared_directory", SWITCH, "All processes work in one directory.").default("off"),
        key("data", SIZE, "Bytes that each process writes and reads between making and removing its files.")
            .absent_means("it looks at files and sets their times instead")
            .range("1B", "1PiB"),
        key("transfer", SIZE, "Bytes of one call, with `data`.").default("512KiB").range("1B", "4294967295B"),
    ],
};

const CALL: Tunable = key("request", SIZE, "Bytes of one call.").default("128KiB").range("1B", "4294967295B");
const READ: Tunable = key("read", SWITCH, "Whether to read.").default("on");
const WRITE: Tunable = key("write", SWITCH, "Whether to write.").default("on");
const BARRIER: Tunable = key("barrier", SWITCH, "All processes wait for each other after each call.").default("off");

pub(super) const WRF: Section = Section {
    name: "app.wrf",
    header: "[app.wrf]",
    doc: "Forecasts with restart files and many looks at attributes; the paper's amounts by default [vPFS §V].",
    keys: &[
        key("processes", COUNT, "Number of processes.").default("64").range("1", "65536"),
        some("minutes", "60", "Minutes of the forecast, each with its part of the paper's output."),
        key("think", TIME, "Computation for each minute.").default("5s").range("0s", "1d"),
        key("stats", COUNT, "Looks at attributes before each call that moves data.").default("6").range("0", "1000"),
    ],
};

pub(super) const PIO: Section = Section {
    name: "app.pio",
    header: "[app.pio]",
    doc: "PIO-Bench: requests of one size in a shared file [IOCO §5.2].",
    keys: &[
        key("processes", COUNT, "Number of processes.").default("8").range("1", "65536"),
        CALL,
        some("requests", "64", "Calls of each process in each phase."),
        key("pattern", Kind::Choice(&["segmented", "strided"]), "Where they lie.").default("strided"),
        WRITE,
        READ,
        BARRIER,
    ],
};

pub(super) const TILE: Section = Section {
    name: "app.tile",
    header: "[app.tile]",
    doc: "MPI-TILE-IO: a two-dimensional array, one tile for each process [IOCO §5.2].",
    keys: &[
        some("tiles_x", "4", "Tiles beside each other."),
        some("tiles_y", "2", "Tiles below each other."),
        key("collective", SWITCH, "One process of each node moves the data of all.").default("off"),
        WRITE,
        READ,
        BARRIER,
    ],
};

pub(super) const NONCONTIG: Section = Section {
    name: "app.noncontig",
    header: "[app.noncontig]",
    doc: "Noncontig: each process moves a column of an array with strided calls [IOCO §5.2].",
    keys: &[key("processes", COUNT, "Number of processes.").default("8").range("1", "65536"), WRITE, READ, BARRIER],
};

pub(super) const PACED: Section = Section {
    name: "app.paced",
    header: "[app.paced]",
    doc: "Calls at a rate, whether the storage keeps up or not: a service, an instrument, the load of [Two-level].",
    keys: &[
        key("processes", COUNT, "Number of processes, which take turns.").default("32").range("1", "65536"),
        key("transfer", SIZE, "Bytes of a call.").default("256KiB").range("1B", "1GiB"),
        key("rate", RATE, "What all processes together ask for; with `to`, at the begin.").range("1B/s", "1PB/s"),
        key("to", RATE, "The rate grows or falls evenly to this one at the end.")
            .absent_means("the rate stays")
            .range("1B/s", "1PB/s"),
        key("on", TIME, "The rate holds for so long at a time.").absent_means("always").range("1ms", "365d"),
        key("off", TIME, "Nothing is asked for so long in between, with `on`.")
            .absent_means("as long as `on`")
            .range("0s", "365d"),
        key("time", TIME, "How long it goes on.").range("1ms", "365d"),
        key("read", SWITCH, "Whether to read, else to write.").default("off"),
    ],
};

pub(super) const INTERACTIVE: Section = Section {
    name: "app.interactive",
    header: "[app.interactive]",
    doc: "Small calls at random offsets with time to think before each, as `vpfs workload interactive`: a database, people.",
    keys: &[
        key("processes", COUNT, "Number of processes, each with a file.").default("4").range("1", "65536"),
        key("transfer", SIZE, "Bytes of a call.").default("4KiB").range("1B", "1GiB"),
        key("file", SIZE, "Bytes of each file, which `setup` fills.").default("64MiB").range("1B", "1PiB"),
        key("think", TIME, "Mean time before each call, drawn between half of it and one and a half.")
            .default("10ms")
            .range("0s", "1d"),
        key("time", TIME, "How long it goes on.").absent_means("until the run ends").range("1ms", "365d"),
        key("read", SWITCH, "Whether to read, else to write.").default("off"),
    ],
};

/// A size of a device that stays as it is if it is absent.
const fn own_size(name: &'static str, doc: &'static str) -> Tunable {
    key(name, SIZE, doc).absent_means("as `device`").range("4KiB", "1PiB")
}

const fn own_rate(name: &'static str, doc: &'static str) -> Tunable {
    key(name, RATE, doc).absent_means("as `device`").range("1KB/s", "1PB/s")
}

const fn own_time(name: &'static str, doc: &'static str) -> Tunable {
    key(name, TIME, doc).absent_means("as `device`").range("0s", "1min")
}

const fn own_count(name: &'static str, doc: &'static str) -> Tunable {
    key(name, COUNT, doc).absent_means("as `device`").range("1", "65536")
}

pub(super) const HDD: Section = Section {
    name: "servers.hdd",
    header: "[servers.hdd]",
    doc: "A disk with one head.",
    keys: &[
        own_size("capacity", "From the first to the last track."),
        own_time("seek_min", "Cost of the shortest seek."),
        own_time("seek_span", "What a seek over the whole disk costs more."),
        own_time("rotation", "Of the platter, once."),
        own_rate("rate", "Transfer once positioned."),
        own_count("command_queue", "Accesses the disk orders among."),
        own_size("batch", "Served in sequence before others get their turn."),
        own_size("extent", "Contiguous on the disk; each lies somewhere else."),
    ],
};

pub(super) const SSD: Section = Section {
    name: "servers.ssd",
    header: "[servers.ssd]",
    doc: "Flash: channels in parallel.",
    keys: &[
        own_count("channels", "Independent channels."),
        own_size("stripe", "Bytes on one channel before the next one follows."),
        own_time("read_base", "Fixed cost of reading a piece."),
        own_time("write_base", "Fixed cost of writing a piece."),
        own_rate("read_rate", "Transfer of one channel when reading."),
        own_rate("write_rate", "Transfer of one channel when writing."),
    ],
};

pub(super) const VOLUME: Section = Section {
    name: "servers.volume",
    header: "[servers.volume]",
    doc: "A volume with limits for bytes and I/Os, as clouds and the kernel's throttle have them; `volume` if there is no `device`.",
    keys: &[
        own_rate("rate", "Bytes that may pass."),
        key("ios", COUNT, "I/Os that may pass in a second.").absent_means("as `device`").range("1", "100000000"),
        own_time("burst", "What both limits allow in so long may be saved up."),
        own_size("io_size", "A larger access is several I/Os."),
        own_time("latency", "Of an I/O that may pass, besides its transfer."),
        own_rate("backing_rate", "Transfer of an I/O that may pass."),
    ],
};

pub(super) const CACHE: Section = Section {
    name: "servers.cache",
    header: "[servers.cache]",
    doc: "A server's write-back cache: writes are done at memory speed until it is full.",
    keys: &[
        key("limit", SIZE, "With so much dirty data, writers wait.").range("1MiB", "1PiB"),
        key("stall", SIZE, "They go on when so much is flushed.").default("512MiB").range("4KiB", "1PiB"),
        key("background", SIZE, "With more dirty data, the cache flushes.")
            .absent_means("half of `limit`")
            .range("4KiB", "1PiB"),
        key("commit_interval", TIME, "What was dirty for so long is flushed.").default("5s").range("1ms", "1h"),
    ],
};
