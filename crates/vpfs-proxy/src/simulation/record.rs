//! What passes each point of a connection, for comparison: the proxy may change the order of requests, but within an
//! operation not a byte.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex};

use vpfs_wire::bmi::Tag;

/// The bytes of each operation at one point in one direction.
#[derive(Clone, Debug, Default)]
pub(crate) struct Passed(Arc<Mutex<HashMap<Tag, Vec<u8>>>>);

impl Passed {
    pub(crate) fn add(&self, tag: Tag, bytes: &[u8]) {
        self.0.lock().unwrap().entry(tag).or_default().extend_from_slice(bytes);
    }

    /// Asserts that `tag` arrived here after those that were sent there before it and must stay before it.
    pub(crate) fn assert_in_order(&self, tag: Tag, sent: &Self, is_ordered: impl Fn(Tag, Tag) -> bool) {
        let (arrived, sent) = (self.0.lock().unwrap(), sent.0.lock().unwrap());
        let overtaken = sent.keys().find(|&&other| is_ordered(other, tag) && !arrived.contains_key(&other));
        assert_eq!(overtaken, None, "{tag:?} has overtaken it");
    }

    /// Asserts that everything that arrived here was sent there, in this order; `all`: and nothing is missing.
    pub(crate) fn assert_came_from(&self, sent: &Self, all: bool, what: &str) {
        let (arrived, sent) = (self.0.lock().unwrap(), sent.0.lock().unwrap());
        for (tag, bytes) in arrived.iter() {
            let known = sent.get(tag).unwrap_or_else(|| panic!("{what}: {tag:?} was never sent"));
            assert!(known.starts_with(bytes), "{what}: bytes of {tag:?} were changed, lost or reordered");
        }
        if all {
            let count = |map: &HashMap<Tag, Vec<u8>>| map.values().map(Vec::len).sum::<usize>();
            assert_eq!((arrived.len(), count(&arrived)), (sent.len(), count(&sent)), "{what}: some is missing");
        }
    }
}

/// Everything that happened, condensed, so that two runs can be compared.
#[derive(Clone, Debug, Default)]
pub(crate) struct Trace(Arc<Mutex<(DefaultHasher, u64)>>);

impl Trace {
    pub(crate) fn add(&self, event: impl Hash) {
        let mut trace = self.0.lock().unwrap();
        event.hash(&mut trace.0);
        trace.1 += 1;
    }

    /// The number of events, and their hash.
    pub(crate) fn digest(&self) -> (u64, u64) {
        let trace = self.0.lock().unwrap();
        (trace.1, trace.0.finish())
    }
}
