//! The keys of `[[owner]]`, for the table in `keys.rs`.

use crate::schema::tunables::{Kind, Section, Tunable};

pub(crate) const OWNER: Section = Section {
    name: "owner",
    header: "[[owner]]",
    doc: "An owner may push applications at runtime ([jobs](guide/cluster.md), `vpfs app`). Root and the proxy's user \
          always may, at its socket. An owner changes only its own sets. Rules of `[[app]]` go first, then sets \
          of unlisted owners, then owners in the order of the file.",
    keys: &[
        Tunable::new(
            "name",
            Kind::Text("a name of letters, digits, \"-\" and \"_\", at most 64 of them"),
            "Its sets have this name, or this name, a dot and a part of their own.",
        ),
        Tunable::new(
            "token",
            Kind::Text("a file, relative to this one"),
            "A secret of at least 16 characters. Nobody else may read the file, which is read per request.",
        ),
    ],
};
