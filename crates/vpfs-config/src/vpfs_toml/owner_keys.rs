//! The keys of `[[owner]]`, for the table in `keys.rs`.

use crate::schema::tunables::{Kind, Section, Tunable};

pub(crate) const OWNER: Section = Section {
    name: "owner",
    header: "[[owner]]",
    doc: "Who may push applications to a running proxy ([jobs of Slurm](guide/slurm.md), `vpfs app`). Root and the proxy's \
          own user always may, at its socket; everybody else, and all who come by TCP, must be listed here. An owner \
          changes nothing but its own sets. Rules of `[[app]]` go before pushed ones. Of several owners whose \
          applications have the same client, the one that is listed first gets it; sets of owners that are not listed, \
          which root or the proxy's user has pushed, go before them. The log says so once, and `vpfs app which` for a \
          client.",
    keys: &[
        Tunable::new(
            "name",
            Kind::Text("a name of letters, digits, \"-\" and \"_\", at most 64 of them"),
            "What its sets are called: this name, or this name, a dot and a part of their own.",
        ),
        Tunable::new(
            "token",
            Kind::Text("a file, relative to this one"),
            "A secret of at least 16 characters that it must send. The file is read for each request. Nobody else may \
             read it: who has it decides about shares.",
        ),
    ],
};
