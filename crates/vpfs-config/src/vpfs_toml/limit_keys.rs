//! The keys of `[limits]`, for the table in `keys.rs`.

use crate::schema::tunables::{Kind, Section, Tunable};

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
