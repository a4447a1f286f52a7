//! The keys of `[[app]]`, for the table in `keys.rs`.

use super::kinds::{ACCOUNTS, HOSTS, IDS, ISOLATION, MINIMA, NAME, NAMES, PATHS, TWO_LEVEL};
use super::share_keys::{PATH, WEIGHTS};
use crate::schema::tunables::{Kind, Section, Tunable};

pub(crate) const APP: Section = Section {
    name: "app",
    header: "[[app]]",
    doc: "An application: the unit that gets shares. A client must match all of `clients`, `uids` or `users`, \
          `gids` or `groups`, `machines`, `listeners` and `operations` that are given, in each of them any element; `[[match]]` \
          adds alternatives. The first matching application in the file is used; the application of the client's \
          listener takes precedence. Without any of these keys, only a listener or `default` leads to it.",
    keys: &[
        Tunable::new("name", NAME, "Its name in logs and in `vpfs peers`."),
        Tunable::new("share", PATH, "The share that it is in, see `[[share]]`.")
            .used_by(WEIGHTS)
            .absent_means("beside the shares at the top"),
        Tunable::new(
            "weight",
            Kind::Count,
            "Its weight among those in the same share; while both are busy, weight 4 gets twice the share of weight 2.",
        )
        .used_by(WEIGHTS)
        .default("1")
        .range("1", "1000000")
        .paper("vPFS+ §III-A"),
        Tunable::new(
            "cap",
            Kind::Text("a rate such as \"100MB/s\" or a share of the capacity such as \"25%\""),
            "Its maximum rate **for the sum over all servers**, even if the storage is idle. Proxies in different \
             processes need `[peers]` for that; without news from the others, each allows its even part.",
        )
        .absent_means("no cap")
        .paper("vPFS §IV-C3"),
        Tunable::new(
            "server_cap",
            Kind::Text("a rate such as \"100MB/s\" or a share of the capacity such as \"25%\""),
            "Its maximum rate **on each server**, even if the storage is idle; not with `cap`.",
        )
        .absent_means("no cap")
        .paper("vPFS §IV-C3"),
        Tunable::new(
            "target_rate",
            Kind::Rate,
            "The rate **for the sum over all servers** up to which its requests keep their `deadline`. \
             Proxies in different processes need `[peers]` for that; without news from the others, each keeps its even \
             part.",
        )
        .used_by(TWO_LEVEL)
        .absent_means("no promise: it gets the capacity that the others leave")
        .range("1B/s", "1PB/s")
        .paper("Two-level"),
        Tunable::new(
            "server_target_rate",
            Kind::Rate,
            "The rate **on each server** up to which its requests keep their `deadline`; not with `target_rate`.",
        )
        .used_by(TWO_LEVEL)
        .absent_means("no promise")
        .range("1B/s", "1PB/s")
        .paper("Two-level"),
        Tunable::new(
            "deadline",
            Kind::Duration,
            "The longest time that its requests take; with `target_rate` or `server_target_rate`.",
        )
        .used_by(TWO_LEVEL)
        .absent_means("no promise")
        .range("1ms", "1h")
        .paper("Two-level"),
        Tunable::new(
            "min_rate",
            Kind::Rate,
            "The rate that it gets at least **for the sum over all servers**, as long as it asks for it, whatever its \
             weight. Proxies in different processes need `[peers]` for that; without news from the \
             others, each keeps its even part.",
        )
        .used_by(MINIMA)
        .absent_means("its share by weight")
        .range("1B/s", "1PB/s"),
        Tunable::new(
            "server_min_rate",
            Kind::Rate,
            "The rate that it gets at least **on each server**; not with `min_rate`.",
        )
        .used_by(MINIMA)
        .absent_means("its share by weight")
        .range("1B/s", "1PB/s"),
        Tunable::new(
            "latency",
            Kind::Duration,
            "The latency to keep for nine in ten of its requests while it asks for less than its share; if that is \
             impossible, the log says why.",
        )
        .used_by(ISOLATION)
        .absent_means("as low as possible")
        .range("100us", "1h"),
        Tunable::new(
            "burst",
            Kind::Size,
            "The amount that it may transfer at once after it was idle, with `cap` or `server_cap`.",
        )
        .default("16MiB")
        .range("1B", "1TiB"),
        Tunable::new("exempt", Kind::Choice(&["off", "on"]), "Whether its requests pass at once, counted as all are, whatever others are due. Anybody can state a user: identify it by `clients` or a listener. It takes from all others.")
            .absent_means("`off`"),
        CLIENTS, UIDS, USERS, GIDS, GROUPS, MACHINES, LISTENERS, OPERATIONS, PROGRAMS, CGROUPS, FILES,
    ],
};

pub(crate) const MATCH: Section = Section {
    name: "match",
    header: "[[match]]",
    doc: "Another rule of an application, beside that in its `[[app]]`: who matches any of them belongs to it. It is tried \
          where its application stands in the file.",
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

const UNCHECKED: &str = "not checked";
const CLIENTS: Tunable =
    Tunable::new("clients", HOSTS, "The addresses that its clients connect from.").absent_means(UNCHECKED);
const UIDS: Tunable = Tunable::new("uids", IDS, "The users it runs as, as stated by clients.").absent_means(UNCHECKED);
const USERS: Tunable =
    Tunable::new("users", ACCOUNTS, "The same by name; beside `uids`, one of both must match.").absent_means(UNCHECKED);
const GIDS: Tunable = Tunable::new("gids", IDS, "Groups, one of which the user must be in, as stated by clients.")
    .absent_means(UNCHECKED);
const GROUPS: Tunable = Tunable::new("groups", ACCOUNTS, "The same by name; beside `gids`, one of both must match.")
    .absent_means(UNCHECKED);
const MACHINES: Tunable = Tunable::new(
    "machines",
    NAMES,
    "The names that client hosts state for themselves; `*` stands for any part. Of NFS with `sec=sys` only.",
)
.absent_means(UNCHECKED);
const LISTENERS: Tunable = Tunable::new(
    "listeners",
    Kind::List("a list of ports such as [5335]"),
    "The ports of the listeners that its clients connect to. Not for mounts, which have none.",
)
.absent_means(UNCHECKED);
const OPERATIONS: Tunable = Tunable::new(
    "operations",
    Kind::List("a list such as [\"metadata\"]"),
    "What its requests do: `read`, `write`, or `metadata`, which is everything else. The same client belongs to other \
     applications with its other requests.",
)
.absent_means(UNCHECKED);
const PROGRAMS: Tunable = Tunable::new(
    "programs",
    PATHS,
    "The executables of programs that use a mount; `*` stands for any part of one name, `**` for any directories.",
)
.absent_means(UNCHECKED);
const CGROUPS: Tunable = Tunable::new(
    "cgroups",
    PATHS,
    "The control groups of programs that use a mount, such as \"/system.slice/backup.service\".",
)
.absent_means(UNCHECKED);
const FILES: Tunable = Tunable::new(
    "files",
    PATHS,
    "The files that programs use, as paths below a mount. For mounts only: requests of OrangeFS and NFS carry handles, \
     which tell neither a path nor an export. Give an export a port of its own, and write `listeners`.",
)
.instead_of(&["export", "exports", "path", "paths"])
.absent_means(UNCHECKED);
