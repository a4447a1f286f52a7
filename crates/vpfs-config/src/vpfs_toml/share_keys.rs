//! The keys of `[[share]]`, for the table in `keys.rs`.

use vpfs_core::PolicyKind;

use super::kinds::MINIMA;
use crate::schema::tunables::{Kind, Section, Tunable};

/// The policies that have weights.
pub(super) const WEIGHTS: &[PolicyKind] =
    &[PolicyKind::SfqD, PolicyKind::SfqDPlus, PolicyKind::TwoLevel, PolicyKind::Isolation, PolicyKind::Proportional];

pub(super) const PATH: Kind = Kind::Text("a name or a path of at most 8 names such as \"physics/alice\"");

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
        Tunable::new(
            "cap",
            Kind::Text("a rate such as \"100MB/s\" or a share of the capacity such as \"25%\""),
            "The maximum rate of all its members, **sum over all servers**.",
        )
        .absent_means("no cap"),
        Tunable::new(
            "server_cap",
            Kind::Text("a rate such as \"100MB/s\" or a share of the capacity such as \"25%\""),
            "The same **on each server**; not with `cap`.",
        )
        .absent_means("no cap"),
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
        Tunable::new("server_min_rate", Kind::Rate, "The same **on each server**; not with `min_rate`.")
            .used_by(MINIMA)
            .absent_means("its share by weight")
            .range("1B/s", "1PB/s"),
    ],
};
