//! What rates are set for and counted of.

use alloc::vec::Vec;

use crate::app_policy::ShareId;
use crate::units::AppId;

/// A member of the tree of shares.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Member {
    /// An application.
    App(AppId),
    /// A share: all that is in it together.
    Share(ShareId),
}

impl Member {
    /// A dense number, for heaps.
    pub(crate) const fn owner(self) -> usize {
        match self {
            Self::App(app) => 2 * app.index(),
            Self::Share(share) => 2 * share.index() + 1,
        }
    }
}

impl From<AppId> for Member {
    fn from(app: AppId) -> Self {
        Self::App(app)
    }
}

impl From<ShareId> for Member {
    fn from(share: ShareId) -> Self {
        Self::Share(share)
    }
}

/// Values of some members, by number. O(1).
#[derive(Debug)]
pub(crate) struct ByMember<T> {
    apps: Vec<Option<T>>,
    shares: Vec<Option<T>>,
}

impl<T> ByMember<T> {
    pub(crate) const fn new() -> Self {
        Self { apps: Vec::new(), shares: Vec::new() }
    }

    pub(crate) fn get(&self, member: Member) -> Option<&T> {
        match member {
            Member::App(app) => self.apps.get(app.index())?.as_ref(),
            Member::Share(share) => self.shares.get(share.index())?.as_ref(),
        }
    }

    pub(crate) fn get_mut(&mut self, member: Member) -> Option<&mut T> {
        match member {
            Member::App(app) => self.apps.get_mut(app.index())?.as_mut(),
            Member::Share(share) => self.shares.get_mut(share.index())?.as_mut(),
        }
    }

    /// Sets or removes a value; returns the one before.
    pub(crate) fn set(&mut self, member: Member, value: Option<T>) -> Option<T> {
        let (values, index) = match member {
            Member::App(app) => (&mut self.apps, app.index()),
            Member::Share(share) => (&mut self.shares, share.index()),
        };
        if value.is_some() && index >= values.len() {
            values.resize_with(index + 1, || None);
        }
        core::mem::replace(values.get_mut(index)?, value)
    }

    /// Whether any share ever had a value.
    pub(crate) fn has_shares(&self) -> bool {
        !self.shares.is_empty()
    }

    /// Who has a value. O(members).
    pub(crate) fn members(&self) -> Vec<Member> {
        let apps = (0..).map(|app| Member::App(AppId(app))).zip(&self.apps);
        let shares = (0..).map(|share| Member::Share(ShareId(share))).zip(&self.shares);
        apps.chain(shares).filter_map(|(member, value)| value.as_ref().map(|_| member)).collect()
    }
}
