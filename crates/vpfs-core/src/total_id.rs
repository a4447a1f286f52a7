//! Which of the totals of all applications.

use crate::request::ServiceClass;
use crate::total::TotalKind;
use crate::units::AppId;

/// One total at one server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TotalId {
    /// Whose.
    pub app: AppId,
    /// Which.
    pub kind: TotalKind,
    /// Metadata has totals of its own if it has a queue of its own; otherwise this is [`ServiceClass::Data`], whatever
    /// the requests. A cap limits all requests together.
    pub class: ServiceClass,
}
