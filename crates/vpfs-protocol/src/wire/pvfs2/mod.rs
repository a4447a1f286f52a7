//! OrangeFS messages of protocol version 7000 (docs/protocols/orangefs.md).

pub mod attr;
mod codec;
pub mod dotconf;
pub mod reply;
pub mod request;
pub mod rewrite;
pub mod transfer;
pub mod types;
pub mod view;

pub use attr::{Attr, Dist, DistView, HandleRanges, Layout};
pub use reply::{Reply, ReplyBody};
pub use request::{Hint, HintView, Request, RequestBody};
pub use transfer::{Preq, PreqView, Transfer, TransferError};
pub use types::{
    Capability, Columns, Columns3, Credential, Errno, FsId, Handle, IoType, KeyVal, ObjType, Op, OpClass, Padded,
    Status, Text,
};
pub use view::{ReplyHead, RequestView};
