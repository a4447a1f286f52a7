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
    doc: "What the agent asks, and whom it tells. Files are relative to this file.",
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
            "The `[[owner]]` in whose name jobs are pushed. Applications are shown as `slurm:4711`.",
        )
        .default("slurm"),
        Tunable::new("token", FILE, "That owner's token.").absent_means("none, for root with `reach = \"sockets\"`"),
        Tunable::new(
            "reach",
            Kind::Choice(&["peers", "sockets"]),
            "`peers`: all proxies at their addresses in `[peers]`. `sockets`: those of this host.",
        )
        .default("peers"),
        Tunable::new(
            "clients",
            Kind::Text("a text with {node} or {address}, such as \"{node}-ib\""),
            "The host that a node's requests come from: its `NodeAddr` or `NodeName`. The agent looks names up.",
        )
        .default("{address}"),
        Tunable::new("interval", Kind::Duration, "How often jobs are read without a wake-up.")
            .default("30s")
            .range("1s", "10min"),
        Tunable::new(
            "ttl",
            Kind::Duration,
            "How long proxies keep jobs after the agent's last message; at least three times `interval`.",
        )
        .default("5min")
        .range("3s", "1d"),
        Tunable::new("timeout", Kind::Duration, "The time limit of `squeue`.").default("20s").range("1s", "5min"),
        Tunable::new("wake", Kind::Text("the path of a socket"), "Where `vpfs slurm wake` wakes the agent.")
            .default("/run/vpfs-slurm/wake.sock"),
    ],
};

pub(crate) const RULE: Section = Section {
    name: "rule",
    header: "[[rule]]",
    doc: "What a job gets. The first rule whose conditions all match counts; without conditions it matches every \
          job. In names, `*` stands for any part and `?` for a character. A job without a rule has weight 1. \
          Users choose a job's name and comment themselves, so combine these with an account, QOS or users; \
          licences are limited by slurm.conf.",
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
            "The job's place; `{account}`, `{user}`, `{qos}`, `{partition}` and `{job}` (an array's number for \
             its tasks) are the job's. Characters that no name may have become `_`. Without \
             AccountingStorageEnforce=associations users choose their accounts: then a top-level `{account}` \
             without a `[[share]]` becomes `none`, unless the rule has `account`.",
        )
        .absent_means("at the top"),
        Tunable::new("cap", Kind::Rate, "The job's maximum rate, as the sum over all servers.").absent_means("none"),
    ],
};
