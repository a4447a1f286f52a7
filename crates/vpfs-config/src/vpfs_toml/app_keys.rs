//! The keys of `[[app]]`, for the table in `keys.rs`.

use super::kinds::{ACCOUNTS, HOSTS, IDS, ISOLATION, MINIMA, NAME, NAMES, PATHS, TWO_LEVEL};
use super::share_keys::{PATH, WEIGHTS};
use crate::schema::tunables::{Kind, Section, Tunable};

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
            Kind::Text("a rate such as \"100MB/s\" or a share of the capacity such as \"25%\""),
            "Its maximum rate, **sum over all servers**, even if the storage is idle. Several processes need \
             `[peers]`; without news from the others each allows its even part.",
        )
        .instead_of(&["limit", "max", "max_rate", "bandwidth", "rate"])
        .absent_means("no cap")
        .paper("vPFS §IV-C3"),
        Tunable::new(
            "server_cap",
            Kind::Text("a rate such as \"100MB/s\" or a share of the capacity such as \"25%\""),
            "Its maximum rate **on each server**; not with `cap`.",
        )
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
        Tunable::new("server_min_rate", Kind::Rate, "The same **on each server**; not with `min_rate`.")
            .used_by(MINIMA)
            .absent_means("its share by weight")
            .range("1B/s", "1PB/s"),
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
