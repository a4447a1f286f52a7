//! Every key of a scenario file.

use vpfs_config::SHARE;
use vpfs_config::tunables::{Kind, Section, Tunable};

const NAME: Kind = Kind::Text("a name");
const PATH: Kind = Kind::Text("a name or a path such as \"physics/alice\"");
const SWITCH: Kind = Kind::Choice(&["off", "on"]);
const COUNT: Kind = Kind::Count;
const SIZE: Kind = Kind::Size;
const RATE: Kind = Kind::Rate;
const TIME: Kind = Kind::Duration;
const SERVERS: Kind = Kind::List("server numbers from 0, such as \"0-3\" or [\"0\", \"4-7\"]");

const fn key(key: &'static str, kind: Kind, doc: &'static str) -> Tunable {
    Tunable::new(key, kind, doc)
}

const fn some(name: &'static str, default: &'static str, doc: &'static str) -> Tunable {
    key(name, COUNT, doc).default(default).range("1", "1000000")
}

/// Every section, in the order of the manual.
pub(super) const SECTIONS: &[&Section] = &[
    &ROOT,
    &SERVER_GROUP,
    &HDD,
    &SSD,
    &UNIFORM,
    &VOLUME,
    &CACHE,
    &STALLS,
    &NODE_LINK,
    &PEERS,
    &PARTITION,
    &RESTART,
    &POLICY,
    &SHARE,
    &APP,
    &REGION,
    &IOR,
    &BTIO,
    &MD,
    &WRF,
    &PIO,
    &TILE,
    &NONCONTIG,
    &PACED,
    &INTERACTIVE,
    &REPLAY,
];

pub(super) const ROOT: Section = Section {
    name: "",
    header: "a file of tables",
    doc: "The simulation.",
    keys: &[
        key("name", NAME, "The name in tables and files.").absent_means("the name of the file"),
        key("seed", COUNT, "The seed of everything random.").default("1"),
        key("duration", TIME, "The latest end of the run.")
            .absent_means("when all applications that are not in the background have finished")
            .range("1ms", "365d"),
        key("interval", TIME, "The interval between values of a time series.").default("1s").range("1ms", "1d"),
        key("wait_limit", TIME, "A request that waits longer for its dispatch is an error.")
            .default("10min")
            .range("1ms", "365d"),
        key("by_server", SWITCH, "Results per server and application.").default("off"),
        key("trace", SWITCH, "Results list each call that moved data.").default("off"),
        key("servers", Kind::List("[[servers]]"), "The servers."),
        key("jitter", TIME, "The largest random delay of a request on its way to a server.")
            .default("0s")
            .range("0s", "10s"),
        key(
            "skew",
            TIME,
            "The largest delay that all requests of an application share, and those of each \
                           process.",
        )
        .default("0s")
        .range("0s", "10s"),
        key("node_link", Kind::Table("[node_link]"), "The link of each client node.")
            .absent_means("only the servers' links are a limit"),
        key("peers", Kind::Table("[peers]"), "The network between the servers' proxies.")
            .absent_means("a network without faults"),
        key("policy", Kind::List("[[policy]]"), "The policies to compare."),
        key("share", Kind::List("[[share]]"), "The tree in which applications stand.").absent_means("none"),
        key("app", Kind::List("[[app]]"), "The applications."),
    ],
};

pub(super) const SERVER_GROUP: Section = Section {
    name: "servers",
    header: "[[servers]]",
    doc: "A group of equal servers, numbered in the order of the file.",
    keys: &[
        key("name", NAME, "The class of servers, for the stripes of regions.").absent_means("none"),
        key("count", COUNT, "The number of servers.").default("1").range("1", "100000"),
        key("device", Kind::Text("a device model such as \"hdd\""), "The device that holds the data.").default("hdd"),
        key("hdd", Kind::Table("[servers.hdd]"), "A disk with custom parameters.").absent_means("that of `device`"),
        key("ssd", Kind::Table("[servers.ssd]"), "Flash with custom parameters.").absent_means("that of `device`"),
        key("uniform", Kind::Table("[servers.uniform]"), "Storage in HARL's terms with custom parameters.")
            .absent_means("that of `device`"),
        key("volume", Kind::Table("[servers.volume]"), "A volume with limits and custom parameters.")
            .absent_means("that of `device`"),
        key("cache", Kind::Table("[servers.cache]"), "A page cache in front of the device.")
            .absent_means("that of `device`"),
        key("stalls", Kind::Table("[servers.stalls]"), "Moments in which the device stands still.")
            .absent_means("none"),
        key("role", Kind::Choice(&["both", "data", "metadata"]), "What the servers store.").default("both"),
        key("link_rate", RATE, "The payload rate of a server's link in each direction.")
            .default("117MB/s")
            .range("1KB/s", "1PB/s"),
        key("link_latency", TIME, "The latency from a client to a server.").default("50us").range("0s", "10s"),
        key("flow_buffers", COUNT, "Buffers of 256 KiB per request, each an access to the device; OrangeFS has 8.")
            .default("0")
            .range("0", "1024"),
        key("metadata_parallel", COUNT, "Metadata operations served at once.").default("1").range("1", "1000"),
    ],
};

pub(super) const STALLS: Section = Section {
    name: "servers.stalls",
    header: "[servers.stalls]",
    doc: "Moments in which a device stands still, as on a shared host: half to one and a half of these times, \
          from the seed.",
    keys: &[
        key("every", TIME, "The mean time between two.").range("1ms", "1d"),
        key("length", TIME, "The mean length.").range("1us", "1h"),
    ],
};

pub(super) const NODE_LINK: Section = Section {
    name: "node_link",
    header: "[node_link]",
    doc: "The link of each client node, equal in both directions.",
    keys: &[key("rate", RATE, "The payload rate in each direction.").default("117MB/s").range("1KB/s", "1PB/s")],
};

pub(super) const PEERS: Section = Section {
    name: "peers",
    header: "[peers]",
    doc: "Coordination between servers, and its faults.",
    keys: &[
        key("latency", TIME, "The latency from one server to another.").default("100us").range("0s", "1h"),
        key("message_work", TIME, "A server's processor time per message; the device `null-aio` waits for it.")
            .default("0s")
            .range("0s", "1s"),
        key("message_overhead", SIZE, "Extra bytes per message.").default("0B").range("0B", "1MiB"),
        key("extra_delay", TIME, "The largest random extra delay of a message.").default("0s").range("0s", "1h"),
        key("loss_ppm", COUNT, "Messages that are lost, in parts per million.").default("0").range("0", "1000000"),
        key("duplicate_ppm", COUNT, "Messages that arrive twice, in parts per million.")
            .default("0")
            .range("0", "1000000"),
        key("partition", Kind::List("[[peers.partition]]"), "Periods in which servers do not hear of each other.")
            .absent_means("never"),
        key("restart", Kind::List("[[peers.restart]]"), "Restarts of proxies.").absent_means("never"),
        key("random_restarts", COUNT, "Further restarts, of random servers at random times until `duration`.")
            .default("0")
            .range("0", "1000000"),
    ],
};

pub(super) const PARTITION: Section = Section {
    name: "peers.partition",
    header: "[[peers.partition]]",
    doc: "A period in which no message passes between these servers and all others.",
    keys: &[
        key("from", TIME, "Its start."),
        key("to", TIME, "Its end."),
        key("servers", SERVERS, "The servers on one side."),
    ],
};

pub(super) const RESTART: Section = Section {
    name: "peers.restart",
    header: "[[peers.restart]]",
    doc: "A proxy restarts.",
    keys: &[key("at", TIME, "When."), key("server", COUNT, "Which, from 0.").range("0", "1000000")],
};

pub(super) const POLICY: Section = Section {
    name: "policy",
    header: "[[policy]]",
    doc: "A policy to compare.",
    keys: &[
        key("name", NAME, "The name in tables."),
        key("scheduler", Kind::Table("[policy.scheduler]"), "As `[scheduler]` in vpfs.toml."),
        key(
            "request_time",
            Kind::Choice(&["arrival", "issue"]),
            "IOCO's windows go by `arrival`, as in the proxy, or by `issue`, as in the paper, whose clients send \
             it.",
        )
        .default("arrival"),
    ],
};

pub(super) const APP: Section = Section {
    name: "app",
    header: "[[app]]",
    doc: "An application: its load and its share.",
    keys: &[
        key("name", NAME, "The name in tables."),
        key("copies", COUNT, "The number of equal applications; a number is appended to their names.")
            .default("1")
            .range("1", "10000"),
        key("share", PATH, "The share that it is in.").absent_means("at the top"),
        key("weight", COUNT, "As in vpfs.toml.").default("1").range("1", "1000000"),
        key("cap", RATE, "As in vpfs.toml.").absent_means("no cap").range("1B/s", "1PB/s"),
        key("server_cap", RATE, "As in vpfs.toml.").absent_means("no cap").range("1B/s", "1PB/s"),
        key("burst", SIZE, "As in vpfs.toml.").default("16MiB").range("1B", "1TiB"),
        key("target_rate", RATE, "As in vpfs.toml.").absent_means("no promise").range("1B/s", "1PB/s"),
        key("server_target_rate", RATE, "As in vpfs.toml.").absent_means("no promise").range("1B/s", "1PB/s"),
        key("latency", TIME, "As in vpfs.toml.").absent_means("as low as possible").range("100us", "1h"),
        key("min_rate", RATE, "As in vpfs.toml.").absent_means("its share by weight").range("1B/s", "1PB/s"),
        key("server_min_rate", RATE, "As in vpfs.toml.").absent_means("its share by weight").range("1B/s", "1PB/s"),
        key("deadline", TIME, "As in vpfs.toml.").absent_means("no promise").range("1ms", "1h"),
        key("order", COUNT, "Determines its place in the windows of IOCO.")
            .absent_means("from its name")
            .range("0", "32767"),
        key("start", TIME, "When its processes start.").default("0s").range("0s", "365d"),
        key("stagger", TIME, "The time from the start of one copy to the start of the next.")
            .default("0s")
            .range("0s", "365d"),
        key("end", TIME, "When its processes stop starting new steps.").absent_means("never").range("0s", "365d"),
        key("background", SWITCH, "Restart when finished, without the run waiting for it.").default("off"),
        key("stable", SWITCH, "Whether its writes wait for the device, also where a cache is in front of it.")
            .default("off"),
        some("nodes", "1", "Client nodes that its processes run on."),
        key("outstanding", COUNT, "Calls that each process has outstanding at once.").default("1").range("1", "65536"),
        key("phases", Kind::List("phases such as [\"write\"]"), "The phases of its workload that it runs.")
            .absent_means("all"),
        key("servers", SERVERS, "Servers of its files.").absent_means("all that hold data"),
        key("start_server", Kind::Choice(&["first", "by-file"]), "The server on which a file starts.")
            .default("by-file"),
        key(
            "distribution",
            Kind::Choice(&["simple-stripe", "basic", "varstrip", "twod-stripe"]),
            "How its files are striped.",
        )
        .default("simple-stripe"),
        key("strip", SIZE, "Bytes in a strip (`simple-stripe`, `twod-stripe`).").default("64KiB").range("1B", "1TiB"),
        key("strips", Kind::Text("strips such as \"0:64K;1:128K\""), "The strips of a round (`varstrip`).")
            .absent_means("none"),
        key(
            "region",
            Kind::List("[[app.region]]"),
            "Regions of each file with their own stripes for each class of server.",
        )
        .absent_means("all of a file is striped in the same way"),
        some("groups", "2", "Groups of servers (`twod-stripe`)."),
        some("factor", "256", "Strips of a server before the next group's turn (`twod-stripe`)."),
        key("ior", Kind::Table("[app.ior]"), "Its workload.").absent_means("another one"),
        key("btio", Kind::Table("[app.btio]"), "Its workload.").absent_means("another one"),
        key("md", Kind::Table("[app.md]"), "Its workload.").absent_means("another one"),
        key("wrf", Kind::Table("[app.wrf]"), "Its workload.").absent_means("another one"),
        key("pio", Kind::Table("[app.pio]"), "Its workload.").absent_means("another one"),
        key("tile", Kind::Table("[app.tile]"), "Its workload.").absent_means("another one"),
        key("noncontig", Kind::Table("[app.noncontig]"), "Its workload.").absent_means("another one"),
        key("paced", Kind::Table("[app.paced]"), "Its workload.").absent_means("another one"),
        key("interactive", Kind::Table("[app.interactive]"), "Its workload.").absent_means("another one"),
        key("replay", Kind::Table("[app.replay]"), "Its workload.").absent_means("another one"),
    ],
};

pub(super) const REGION: Section = Section {
    name: "app.region",
    header: "[[app.region]]",
    doc: "A region of each file, striped as a file of its own [HARL §III]; it ends where the next one starts.",
    keys: &[
        key("start", SIZE, "Its first byte in the file; 0 for the first region.").default("0B").range("0B", "1PiB"),
        key(
            "stripes",
            Kind::List("classes with their stripes, such as [\"disk:32KiB\", \"flash:160KiB\"]"),
            "Bytes per server of each class in a round; classes without a stripe hold nothing.",
        ),
    ],
};

pub(super) const IOR: Section = Section {
    name: "app.ior",
    header: "[app.ior]",
    doc: "Large transfers back to back, like `vpfs workload ior`.",
    keys: &[
        key("processes", COUNT, "Number of processes.").default("4").range("1", "65536"),
        key("transfer", SIZE, "Bytes of one call.").default("1MiB").range("1B", "4294967295B"),
        key("block", SIZE, "Consecutive bytes of one process in one segment.").default("16MiB").range("1B", "1PiB"),
        some("segments", "1", "Blocks of each process."),
        key("file", Kind::Choice(&["shared", "per-process"]), "One shared file, or one per process.").default("shared"),
        key("order", Kind::Choice(&["sequential", "random"]), "The order of offsets.").default("sequential"),
        key("write", SWITCH, "Whether to write.").default("on"),
        key("read", SWITCH, "Whether to read.").default("off"),
        key("mixed", SWITCH, "Whether to end with a phase of calls at random offsets that read or write at random.")
            .default("off"),
        BARRIER,
        key("fsync", SWITCH, "Whether to make data durable after writing.").default("off"),
        key("time_limit", TIME, "How long it runs, starting over when all bytes are moved.")
            .absent_means("it moves each byte once")
            .range("1ms", "365d"),
    ],
};

pub(super) const BTIO: Section = Section {
    name: "app.btio",
    header: "[app.btio]",
    doc: "Bursts of I/O with computation between them, like `vpfs workload btio`.",
    keys: &[
        key(
            "class",
            Kind::Choice(&["a", "c"]),
            "`a`: tiny calls of all processes; `c`: large calls of one process per node.",
        ),
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
            .absent_means("it reads attributes of files and sets their times instead")
            .range("1B", "1PiB"),
        key("transfer", SIZE, "Bytes of one call, if `data` is given.").default("512KiB").range("1B", "4294967295B"),
    ],
};

const CALL: Tunable = key("request", SIZE, "Bytes of one call.").default("128KiB").range("1B", "4294967295B");
const READ: Tunable = key("read", SWITCH, "Whether to read.").default("on");
const WRITE: Tunable = key("write", SWITCH, "Whether to write.").default("on");
const BARRIER: Tunable = key("barrier", SWITCH, "All processes wait for each other after each call.").default("off");

pub(super) const WRF: Section = Section {
    name: "app.wrf",
    header: "[app.wrf]",
    doc: "Forecasts with restart files and many reads of attributes; the paper's amounts by default [vPFS §V].",
    keys: &[
        key("processes", COUNT, "Number of processes.").default("64").range("1", "65536"),
        some("minutes", "60", "Minutes of the forecast."),
        key("data", SIZE, "Bytes of restart files and of output in each minute, in the paper's proportion.")
            .absent_means("the paper's")
            .range("1B", "1PiB"),
        key("think", TIME, "Computation for each minute of the forecast.").default("5s").range("0s", "1d"),
        key("stats", COUNT, "Reads of attributes before each call that moves data.").default("6").range("0", "1000"),
    ],
};

pub(super) const PIO: Section = Section {
    name: "app.pio",
    header: "[app.pio]",
    doc: "PIO-Bench: requests of equal size to a shared file [IOCO §5.2].",
    keys: &[
        key("processes", COUNT, "Number of processes.").default("8").range("1", "65536"),
        CALL,
        some("requests", "64", "Calls of each process in each phase."),
        key(
            "pattern",
            Kind::Choice(&["segmented", "strided"]),
            "Whether each process has a contiguous segment or strided requests.",
        )
        .default("strided"),
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
        some("tiles_x", "4", "Tiles in a row."),
        some("tiles_y", "2", "Tiles in a column."),
        key("collective", SWITCH, "One process on each node moves the data of all its processes.").default("off"),
        WRITE,
        READ,
        BARRIER,
    ],
};

pub(super) const NONCONTIG: Section = Section {
    name: "app.noncontig",
    header: "[app.noncontig]",
    doc: "Noncontig: each process reads or writes a column of an array with strided calls [IOCO §5.2].",
    keys: &[key("processes", COUNT, "Number of processes.").default("8").range("1", "65536"), WRITE, READ, BARRIER],
};

pub(super) const PACED: Section = Section {
    name: "app.paced",
    header: "[app.paced]",
    doc: "Calls at a given rate, whether or not the storage keeps up [Two-level].",
    keys: &[
        key("processes", COUNT, "The number of processes, which take turns.").default("32").range("1", "65536"),
        key("transfer", SIZE, "Bytes of a call.").default("256KiB").range("1B", "1GiB"),
        key("rate", RATE, "The rate of all processes together; with `to`, the initial rate.").range("1B/s", "1PB/s"),
        key("to", RATE, "The final rate, reached by a linear change.")
            .absent_means("the rate is constant")
            .range("1B/s", "1PB/s"),
        key("on", TIME, "The length of each active period.").absent_means("always").range("1ms", "365d"),
        key("off", TIME, "The length of each pause between active periods, with `on`.")
            .absent_means("as long as `on`")
            .range("0s", "365d"),
        key("time", TIME, "How long it runs.").range("1ms", "365d"),
        key("read", SWITCH, "Whether to read instead of writing.").default("off"),
    ],
};

pub(super) const INTERACTIVE: Section = Section {
    name: "app.interactive",
    header: "[app.interactive]",
    doc: "Small random calls with think time, like `vpfs workload interactive`.",
    keys: &[
        key("processes", COUNT, "Number of processes, each with a file.").default("4").range("1", "65536"),
        key("transfer", SIZE, "Bytes of a call.").default("4KiB").range("1B", "1GiB"),
        key("file", SIZE, "Bytes of each file, which `setup` fills.").default("64MiB").range("1B", "1PiB"),
        key("think", TIME, "The mean think time before each call (0.5 to 1.5 times that).")
            .default("10ms")
            .range("0s", "1d"),
        key("time", TIME, "How long it runs.").absent_means("until the run ends").range("1ms", "365d"),
        key("read", SWITCH, "Whether to read instead of writing.").default("off"),
    ],
};

pub(super) const REPLAY: Section = Section {
    name: "app.replay",
    header: "[app.replay]",
    doc: "The reads and writes of a recorded run; each rank is a process. It computes between calls as it did \
          then; without ends of calls in the log, calls are made at the log's times.",
    keys: &[key(
        "log",
        Kind::Text("the name of a file"),
        "A log that `vpfs layout advise` reads: a trace of `vpfs mount`, fio's iolog, Darshan's extended trace, \
         or a table; relative to the scenario.",
    )],
};

/// A size of a device; if absent, that of the named model.
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
        own_size("capacity", "The capacity."),
        own_time("seek_min", "The time of the shortest seek."),
        own_time("seek_span", "The additional time of a seek over the whole disk."),
        own_time("rotation", "The time of one rotation."),
        own_rate("rate", "The transfer rate once positioned."),
        own_count("command_queue", "The number of accesses that the disk reorders."),
        own_size("batch", "Bytes served in sequence before other accesses get a turn."),
        own_size("extent", "Contiguous bytes on the disk; extents are scattered."),
    ],
};

pub(super) const SSD: Section = Section {
    name: "servers.ssd",
    header: "[servers.ssd]",
    doc: "Flash: channels in parallel.",
    keys: &[
        own_count("channels", "The number of independent channels."),
        own_size("stripe", "Consecutive bytes on one channel."),
        own_time("read_base", "The fixed time of reading a piece."),
        own_time("write_base", "The fixed time of writing a piece."),
        own_rate("read_rate", "The read rate of one channel."),
        own_rate("write_rate", "The write rate of one channel."),
    ],
};

pub(super) const UNIFORM: Section = Section {
    name: "servers.uniform",
    header: "[servers.uniform]",
    doc: "One access at a time: a start-up time from a range, then a constant rate [HARL §III-D]; `harl-disk` \
          without a `device`.",
    keys: &[
        own_time("read_startup_min", "The shortest start-up time of a read."),
        own_time("read_startup_max", "The longest start-up time of a read."),
        own_rate("read_rate", "The rate of reads after the start-up."),
        own_time("write_startup_min", "The shortest start-up time of a write."),
        own_time("write_startup_max", "The longest start-up time of a write."),
        own_rate("write_rate", "The rate of writes after the start-up."),
    ],
};

pub(super) const VOLUME: Section = Section {
    name: "servers.volume",
    header: "[servers.volume]",
    doc: "A volume with limits on bytes and I/Os, as in clouds and with the kernel's throttling; `volume` \
          without a `device`.",
    keys: &[
        own_rate("rate", "The limit on bytes."),
        key("ios", COUNT, "The limit on I/Os per second.").absent_means("as `device`").range("1", "100000000"),
        own_time("burst", "For how long unused allowance of both limits accumulates."),
        own_size("io_size", "The size of an I/O; a larger access counts as several."),
        own_time("latency", "The latency of an admitted I/O besides its transfer."),
        own_rate("backing_rate", "The transfer rate of admitted I/Os."),
    ],
};

pub(super) const CACHE: Section = Section {
    name: "servers.cache",
    header: "[servers.cache]",
    doc: "A server's page cache: writes complete at memory speed until it is full, and reads come from it if it \
          has them. It keeps 3.75 times `limit`, or what `device` says.",
    keys: &[
        key("limit", SIZE, "The amount of dirty data at which writers wait.").range("1MiB", "1PiB"),
        key("stall", SIZE, "The amount to flush before waiting writers continue.")
            .default("512MiB")
            .range("4KiB", "1PiB"),
        key("background", SIZE, "The amount of dirty data above which the cache flushes.")
            .absent_means("half of `limit`")
            .range("4KiB", "1PiB"),
        key("commit_interval", TIME, "The age at which dirty data is flushed.").default("5s").range("1ms", "1h"),
    ],
};
