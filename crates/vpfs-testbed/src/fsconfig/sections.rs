//! The sections of a configuration and where each may stand: the servers' table, apart from what does not matter here.

/// A section, or the text outside of all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Section {
    Outside,
    Defaults,
    Security,
    Ldap,
    Aliases,
    ServerOptions,
    FileSystem,
    ExportOptions,
    StorageHints,
    MetaHandleRanges,
    DataHandleRanges,
    Distribution,
}

use Section::*;

/// Each section's name, and those in which it may stand.
const SECTIONS: [(Section, &str, &[Section]); 11] = [
    (Defaults, "Defaults", &[Outside]),
    (Security, "Security", &[Defaults, ServerOptions]),
    (Ldap, "LDAP", &[Security]),
    (Aliases, "Aliases", &[Outside]),
    (ServerOptions, "ServerOptions", &[Outside]),
    (FileSystem, "FileSystem", &[Outside]),
    (ExportOptions, "ExportOptions", &[FileSystem]),
    (StorageHints, "StorageHints", &[FileSystem]),
    (MetaHandleRanges, "MetaHandleRanges", &[FileSystem]),
    (DataHandleRanges, "DataHandleRanges", &[FileSystem]),
    (Distribution, "Distribution", &[FileSystem]),
];

impl Section {
    /// The section that a tag starts or ends. Others than these mean nothing to servers.
    pub(super) fn of_tag(tag: &[u8]) -> Option<Tag> {
        let name = tag.strip_prefix(b"<")?.strip_suffix(b">")?;
        let end = name.strip_prefix(b"/");
        let name = end.unwrap_or(name);
        let (section, ..) = SECTIONS.iter().find(|(_, known, _)| name.eq_ignore_ascii_case(known.as_bytes()))?;
        Some(if end.is_some() { Tag::End(*section) } else { Tag::Start(*section) })
    }

    /// Whether this section may stand in `outer`.
    pub(super) fn may_be_in(self, outer: Self) -> bool {
        SECTIONS.iter().any(|(section, _, outers)| *section == self && outers.contains(&outer))
    }

    /// Its name, empty outside of all.
    pub(super) fn name(self) -> &'static str {
        SECTIONS.iter().find(|(section, ..)| *section == self).map_or("", |(_, name, _)| name)
    }

    /// Where it may stand, in words.
    pub(super) fn places(self) -> String {
        let outers = SECTIONS.iter().find(|(section, ..)| *section == self).map_or(&[][..], |(.., outers)| outers);
        places(outers)
    }
}

/// Where something may stand, in words.
pub(super) fn places(sections: &[Section]) -> String {
    let place = |section: &Section| match section {
        Outside => "outside of all sections".to_owned(),
        section => format!("in <{}>", section.name()),
    };
    sections.iter().map(place).collect::<Vec<_>>().join(" or ")
}

/// A line that starts or ends a section.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tag {
    Start(Section),
    End(Section),
}
