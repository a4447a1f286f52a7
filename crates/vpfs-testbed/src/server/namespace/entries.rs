//! The entries of a directory: found by name, listed in order of insertion.

use std::collections::{BTreeMap, HashMap};

use vpfs_wire::pvfs2::request::TOKEN_START;
use vpfs_wire::pvfs2::{Handle, Text};

/// The first token of a later page, above all special tokens of the protocol.
const FIRST_PLACE: u64 = TOKEN_START + 1;

/// Names and handles. Each entry keeps its position for its lifetime, so a listing stays correct while entries come and
/// go.
#[derive(Debug, Default)]
pub(crate) struct Entries {
    by_name: HashMap<Text, DirEntry>,
    by_place: BTreeMap<u64, Text>,
    next_place: u64,
    /// Number of changes so far.
    version: u64,
}

#[derive(Clone, Copy, Debug)]
struct DirEntry {
    place: u64,
    handle: Handle,
}

/// A page of a listing.
#[derive(Debug)]
pub(crate) struct Page {
    pub(crate) entries: Vec<(Text, Handle)>,
    /// Where the next page starts; `None` after the last entry.
    pub(crate) next: Option<u64>,
}

impl Entries {
    pub(crate) fn len(&self) -> usize {
        self.by_name.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.by_name.is_empty()
    }

    pub(crate) fn version(&self) -> u64 {
        self.version
    }

    pub(crate) fn get(&self, name: &Text) -> Option<Handle> {
        self.by_name.get(name).map(|entry| entry.handle)
    }

    /// Adds or replaces an entry and returns the handle that the name referred to before.
    pub(crate) fn set(&mut self, name: &Text, handle: Handle) -> Option<Handle> {
        self.version += 1;
        if let Some(entry) = self.by_name.get_mut(name) {
            return Some(std::mem::replace(&mut entry.handle, handle));
        }
        let place = self.next_place.max(FIRST_PLACE);
        self.next_place = place + 1;
        self.by_name.insert(name.clone(), DirEntry { place, handle });
        self.by_place.insert(place, name.clone());
        None
    }

    pub(crate) fn remove(&mut self, name: &Text) -> Option<Handle> {
        let entry = self.by_name.remove(name)?;
        self.version += 1;
        self.by_place.remove(&entry.place);
        Some(entry.handle)
    }

    /// Up to `count` entries starting at `token` ([`TOKEN_START`]: at the first).
    pub(crate) fn page(&self, token: u64, count: usize) -> Page {
        let mut rest = self.by_place.range(token..);
        let entries = rest.by_ref().take(count).map(|(_, name)| (name.clone(), self.by_name[name].handle)).collect();
        Page { entries, next: rest.next().map(|(place, _)| *place) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(n: u64) -> Text {
        Text::from(format!("n{n}"))
    }

    #[test]
    fn a_listing_survives_changes_between_its_pages() {
        let mut entries = Entries::default();
        for n in 0..10 {
            assert_eq!(entries.set(&name(n), Handle(n)), None);
        }
        let first = entries.page(TOKEN_START, 4);
        assert_eq!(first.entries.iter().map(|(_, handle)| handle.0).collect::<Vec<_>>(), [0, 1, 2, 3]);
        assert_eq!(entries.remove(&name(4)), Some(Handle(4)));
        assert_eq!(entries.set(&name(5), Handle(50)), Some(Handle(5)));
        entries.set(&name(99), Handle(99));
        let second = entries.page(first.next.unwrap(), 100);
        assert_eq!(second.entries.iter().map(|(_, handle)| handle.0).collect::<Vec<_>>(), [50, 6, 7, 8, 9, 99]);
        assert_eq!(second.next, None);
        assert_eq!((entries.len(), entries.get(&name(4))), (10, None));
    }
}
