//! The one table of all settings in slurm.toml. `docs/slurm.md` is printed from it.

use vpfs_config::tunables::{Kind, Section, Tunable};

pub(crate) const ROOT: Section = Section {
    name: "",
    header: "a file of tables",
    doc: "",
    keys: &[
        Tunable::new("agent", Kind::Table("[agent]"), "").absent_means("all defaults"),
        Tunable::new("rule", Kind::List("[[rule]]"), "").absent_means("each job has the weight 1"),
    ],
};

pub(crate) const SECTIONS: [&Section; 2] = [&AGENT, &RULE];

const FILE: Kind = Kind::Text("the name of a file");
const NAMES: Kind = Kind::List("a list of names and patterns such as [\"high\", \"gpu-*\"]");

pub(crate) const AGENT: Section = Section {
    name: "agent",
    header: "[agent]",
    doc: "What the agent asks, and whom it tells. Names of files are relative to this file's directory.",
    keys: &[
        Tunable::new(
            "config",
            FILE,
            "The configuration of the proxies or mounts: their servers, and the key of `[peers]`.",
        )
        .default("/etc/vpfs/vpfs.toml"),
        Tunable::new(
            "owner",
            Kind::Text("the name of an [[owner]]"),
            "In whose name jobs are pushed: the name of an `[[owner]]` there. Applications are shown as `slurm:4711`.",
        )
        .default("slurm"),
        Tunable::new("token", FILE, "The file with that owner's token.")
            .absent_means("none, for root with `reach = \"sockets\"`"),
        Tunable::new(
            "reach",
            Kind::Choice(&["peers", "sockets"]),
            "`peers`: all proxies at their addresses in `[peers]`. `sockets`: those of this host at their sockets.",
        )
        .default("peers"),
        Tunable::new(
            "clients",
            Kind::Text("a text with {node} or {address}, such as \"{node}-ib\""),
            "The host that a node's requests come from: `{address}` is its `NodeAddr` in slurm.conf, `{node}` its \
             `NodeName`. The agent looks names up.",
        )
        .default("{address}"),
        Tunable::new("interval", Kind::Duration, "How often jobs are read and pushed without being woken.")
            .default("30s")
            .range("1s", "10min"),
        Tunable::new(
            "ttl",
            Kind::Duration,
            "How long proxies keep the jobs after they heard from the agent last; at least three times `interval`.",
        )
        .default("5min")
        .range("3s", "1d"),
        Tunable::new("timeout", Kind::Duration, "How long `squeue` may take before it is ended.")
            .default("20s")
            .range("1s", "5min"),
        Tunable::new("wake", Kind::Text("the path of a socket"), "Where `vpfs slurm wake` wakes the agent.")
            .default("/run/vpfs-slurm/wake.sock"),
    ],
};

pub(crate) const RULE: Section = Section {
    name: "rule",
    header: "[[rule]]",
    doc: "What a job gets. The first rule counts of which all given conditions match; a rule without conditions matches \
          every job. In names, `*` stands for any part of one and `?` for a character. A job that no rule matches has \
          the weight 1. Users choose the name and the comment of a job themselves, so give a weight for one only together \
          with an account, a QOS or users that may have it; licences are limited by slurm.conf.",
    keys: &[
        Tunable::new("account", NAMES, "Accounts.").absent_means("not checked"),
        Tunable::new("partition", NAMES, "Partitions.").absent_means("not checked"),
        Tunable::new("qos", NAMES, "Qualities of service.").absent_means("not checked"),
        Tunable::new("user", NAMES, "Names of users.").absent_means("not checked"),
        Tunable::new("license", NAMES, "Licences, one of which the job has.").absent_means("not checked"),
        Tunable::new("comment", NAMES, "Words, one of which is in the job's comment (`sbatch --comment`).")
            .absent_means("not checked"),
        Tunable::new("name", NAMES, "The job's name (`sbatch --job-name`).").absent_means("not checked"),
        Tunable::new("weight", Kind::Count, "The job's weight.").default("1").range("1", "1000000"),
        Tunable::new(
            "share",
            Kind::Text("a place such as \"{account}/{user}\""),
            "The job's place among the shares; `{account}`, `{user}`, `{qos}`, `{partition}` and `{job}` (the number of \
             the array for its tasks) are the job's. Characters that no name may have become `_`. Unless slurm.conf has \
             AccountingStorageEnforce=associations, users choose their accounts: then a top-level `{account}` that is no \
             `[[share]]` becomes `none`, except in a rule with `account`, such as `account = \"*\"` to permit all.",
        )
        .absent_means("beside all other applications"),
        Tunable::new("cap", Kind::Rate, "The job's maximum rate, as the sum over all servers.").absent_means("none"),
    ],
};
