//! What belongs to the accesses that a device has not finished.

use std::collections::VecDeque;

use super::IoId;

/// Something for each outstanding access, by its id. O(1), with a place for each id from the oldest one to the newest:
/// small where no access is passed by many others.
#[derive(Clone, Debug)]
pub struct Outstanding<T> {
    oldest: u64,
    places: VecDeque<Option<T>>,
    len: usize,
}

impl<T> Default for Outstanding<T> {
    fn default() -> Self {
        Self { oldest: 0, places: VecDeque::new(), len: 0 }
    }
}

impl<T> Outstanding<T> {
    /// Adds an access that is newer than all before.
    pub fn insert(&mut self, id: IoId, value: T) {
        if self.places.is_empty() {
            self.oldest = id.0;
        }
        let index = self.index(id).filter(|index| *index >= self.places.len()).expect("ids ascend");
        self.places.resize_with(index, || None);
        self.places.push_back(Some(value));
        self.len += 1;
    }

    /// Takes an access out.
    pub fn remove(&mut self, id: IoId) -> Option<T> {
        let removed = self.index(id).and_then(|index| self.places.get_mut(index)?.take())?;
        self.len -= 1;
        while let Some(None) = self.places.front() {
            self.places.pop_front();
            self.oldest += 1;
        }
        Some(removed)
    }

    /// What belongs to an access.
    pub fn get(&self, id: IoId) -> Option<&T> {
        self.places.get(self.index(id)?)?.as_ref()
    }

    /// What belongs to the oldest access.
    pub(super) fn oldest(&self) -> Option<&T> {
        self.places.front()?.as_ref()
    }

    pub(super) fn get_mut(&mut self, id: IoId) -> Option<&mut T> {
        let index = self.index(id)?;
        self.places.get_mut(index)?.as_mut()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    fn index(&self, id: IoId) -> Option<usize> {
        usize::try_from(id.0.checked_sub(self.oldest)?).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_freed_in_any_order() {
        let mut outstanding = Outstanding::default();
        for id in [3, 4, 6, 7] {
            outstanding.insert(IoId(id), id);
        }
        let removed = [4, 4, 5, 9, 0, 3].map(|id| outstanding.remove(IoId(id)));
        assert_eq!(removed, [Some(4), None, None, None, None, Some(3)]);
        assert_eq!((outstanding.places.len(), outstanding.len()), (2, 2), "it begins with the oldest");
        assert_eq!([6, 7, 8].map(|id| outstanding.get(IoId(id)).copied()), [Some(6), Some(7), None]);
        outstanding.remove(IoId(6));
        outstanding.remove(IoId(7));
        outstanding.insert(IoId(100), 100);
        assert_eq!((outstanding.places.len(), outstanding.is_empty()), (1, false), "earlier ids have no place");
    }
}
