//! The keys of `[limits]`, for the table in `keys.rs`.

use crate::schema::tunables::{Kind, Section, Tunable};

pub(crate) const LIMITS: Section = Section {
    name: "limits",
    header: "[limits]",
    doc: "Limits on the resources of a proxy. At a limit the peer must wait; nothing is dropped. There are two \
          exceptions. Connections beyond `connections_per_host` are closed at once. And requests in front of the data \
          of a dispatched write have to be read, as nothing but that data ends the write, so a connection may hold \
          eight times `operations` of them, and at least 4096 more, and twice `request_bytes`, and at least 1 MiB \
          more. Beyond that, or if more of them come when `memory` or `host_memory` is used up, it is closed. \
          `docs/guide/orangefs.md` says how much that is in all.",
    keys: &[
        Tunable::new(
            "connections",
            Kind::Count,
            "The maximum number of client connections of one proxy process. A further one gets the place of one on which \
             nothing is in progress, of a host that has more, or that is unused for a minute; otherwise it waits.",
        )
        .default("4096")
        .range("1", "1000000"),
        Tunable::new(
            "connections_per_host",
            Kind::Count,
            "The maximum number of connections from one address, at most `connections`; further ones are closed at \
             once. A job has one connection for each of its processes and each server behind this proxy, and clients \
             behind one gateway (NAT) are one host.",
        )
        .absent_means("a quarter of `connections`, but not less than 64, or than `connections` if that is smaller")
        .range("1", "1000000"),
        Tunable::new(
            "operations",
            Kind::Count,
            "The maximum number of operations of one connection that are held or in progress.",
        )
        .default("256")
        .range("1", "65536"),
        Tunable::new(
            "request_bytes",
            Kind::Size,
            "Bytes of the requests of one connection that are held or in progress: 512 and more for each operation, \
             and while it is held the whole request with the data in it. With NFS, whose writes carry their data, it must \
             be more than a client has in flight, or a user who writes stops others of the same connection.",
        )
        .absent_means("4MiB, or 80MiB if the address of a server begins with `nfs://`")
        .range("64KiB", "1GiB"),
        Tunable::new(
            "buffer",
            Kind::Size,
            "The maximum number of bytes of one connection that wait to be sent to one side.",
        )
        .default("1MiB")
        .range("64KiB", "1GiB"),
        Tunable::new(
            "memory",
            Kind::Size,
            "Bytes that all connections of one proxy process hold together: requests, also what is left of them in \
             sockets, and what waits to be sent, each beyond 64 KiB of a connection. When seven eighths are held, \
             connections that hold more than 32 KiB wait until it is three quarters.",
        )
        .default("1GiB")
        .range("16MiB", "1TiB"),
        Tunable::new("host_memory", Kind::Size, "The same for the connections of one client host; at most `memory`.")
            .absent_means("a quarter of `memory`")
            .range("4MiB", "1TiB"),
        Tunable::new(
            "reply_timeout",
            Kind::Duration,
            "The time after which an operation without an answer from the server is abandoned with its connection. \
             Longer than the clients' own timeout of 300 s, after which they repeat it.",
        )
        .default("330s")
        .range("1s", "1d"),
        Tunable::new(
            "max_hold",
            Kind::Duration,
            "A request that waits for its turn for longer than this is not sent any more, because its client is about to \
             repeat it, and it would be done twice. It keeps its place in the order, and the repeated one takes it. \
             Between half of the time that clients wait for an answer (`client_timeout`, or `ClientJobBMITimeoutSecs` of the \
             servers' configuration) and all of it, less what a server takes to answer.",
        )
        .absent_means("nine tenths of `client_timeout`, 270 s without that")
        .range("500ms", "1d"),
        Tunable::new("flow_timeout", Kind::Duration, "The same timeout for a transfer that makes no progress.")
            .default("60s")
            .range("1s", "1d"),
        Tunable::new(
            "stall_timeout",
            Kind::Duration,
            "The same timeout for an operation that waits for its client, which neither sends the data of its write nor \
             takes its replies. Its slots are freed after one second in any case, sooner if clients of its host stall again and again, so that others do not wait.",
        )
        .default("5min")
        .range("1s", "1d"),
        Tunable::new(
            "request_timeout",
            Kind::Duration,
            "The time that a client has to complete a request of which it has sent a part, before its connection is \
             closed, as real servers do it. Connections without such a part may be idle for ever, and the data of \
             writes is not covered.",
        )
        .default("10s")
        .range("1s", "1d"),
        Tunable::new(
            "client_timeout",
            Kind::Duration,
            "How long clients are told to wait for an answer before they repeat a request. Raise it if caps hold \
             requests for many minutes: clients repeat a request five times by default, and then fail.",
        )
        .absent_means("the value in the servers' own configuration, 300 s by default")
        .range("1s", "1d")
        .at_restart(),
        Tunable::new("connect_timeout", Kind::Duration, "The timeout for connecting to a server.")
            .default("10s")
            .range("10ms", "10min"),
        Tunable::new(
            "write_back",
            Kind::Text("\"auto\", \"off\" or a size such as \"64MiB\""),
            "How much of what was written may be in the memory of a server's host and not on its disk, for each disk, where \
             `vpfs proxy` runs as root on that host or vpfs-write-back.service does: everything that is not stored yet is \
             ahead of a small write. `auto` is what the disk stores in an eighth of a second. With \
             `scheduler.mode = \"observe\"` it is `off`. Needs Linux 6.2.",
        )
        .default("auto")
        .at_restart(),
        Tunable::new("drain_timeout", Kind::Duration, "The time that operations in progress get at shutdown.")
            .default("30s")
            .range("0s", "1h"),
    ],
};
