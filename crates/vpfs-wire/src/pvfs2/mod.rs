//! OrangeFS messages of protocol version 7000 (docs/protocols/orangefs.md).

mod codec;

pub mod attr;
pub mod auth;
pub mod dist;
pub mod dotconf;
pub mod head;
pub mod hints;
pub mod layout;
pub mod op;
pub mod preq;
pub mod reply;
pub mod request;
pub mod rewrite;
pub mod status;
pub mod transfer;
pub mod types;
pub mod view;

pub use attr::Attr;
pub use auth::{Capability, Credential};
pub use dist::{Dist, DistView};
pub use hints::{Hint, HintView};
pub use layout::{HandleRanges, Layout};
pub use op::{Op, OpClass};
pub use preq::{Preq, PreqView};
pub use reply::{Reply, ReplyBody};
pub use request::{Request, RequestBody};
pub use status::{Errno, Status};
pub use transfer::{Transfer, TransferError};
pub use types::{Columns, Columns3, FsId, Handle, IoType, KeyVal, ObjType, Padded, Text};
pub use view::{ReplyHead, RequestView};
