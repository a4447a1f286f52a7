//! The requests in use, in a table indexed by their dense ids.

use alloc::vec::Vec;

use crate::list::{Links, Node};
use crate::units::RequestId;

/// A policy's data for each request, by id. O(1), no allocation once it has grown to the ids in use.
#[derive(Debug)]
pub(crate) struct Table<T>(Vec<Option<T>>);

impl<T> Table<T> {
    pub(crate) const fn new() -> Self {
        Self(Vec::new())
    }

    /// Panics if `id` is in use.
    #[inline]
    pub(crate) fn insert(&mut self, id: RequestId, entry: T) {
        if id.index() >= self.0.len() {
            self.0.resize_with(id.index() + 1, || None);
        }
        let place = &mut self.0[id.index()];
        assert!(place.is_none(), "request id {id} is in use");
        *place = Some(entry);
    }

    /// Panics if `id` is not in use.
    #[inline]
    pub(crate) fn get(&self, id: RequestId) -> &T {
        let entry = self.0.get(id.index()).and_then(Option::as_ref);
        entry.unwrap_or_else(|| panic!("request id {id} is not in use"))
    }

    /// Panics if `id` is not in use.
    #[inline]
    pub(crate) fn get_mut(&mut self, id: RequestId) -> &mut T {
        let entry = self.0.get_mut(id.index()).and_then(Option::as_mut);
        entry.unwrap_or_else(|| panic!("request id {id} is not in use"))
    }

    /// Frees `id`, which must be in use; returns its entry.
    pub(crate) fn remove(&mut self, id: RequestId) -> T {
        let entry = self.0.get_mut(id.index()).and_then(Option::take);
        entry.unwrap_or_else(|| panic!("request id {id} is not in use"))
    }

    /// The entries, for the lists threaded through them.
    pub(crate) fn nodes(&mut self) -> &mut [Option<T>] {
        &mut self.0
    }

    /// All entries in use, with their ids.
    pub(crate) fn iter_ids(&self) -> impl Iterator<Item = (RequestId, &T)> {
        (0..).map(RequestId).zip(&self.0).filter_map(|(id, entry)| Some((id, entry.as_ref()?)))
    }

    /// All entries in use, by id.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.0.iter().flatten()
    }
}

impl<T: Node> Node for Option<T> {
    fn links(&mut self) -> &mut Links {
        self.as_mut().unwrap_or_else(|| panic!("only requests in use are in lists")).links()
    }
}
