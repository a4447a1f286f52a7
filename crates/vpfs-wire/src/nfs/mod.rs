//! ONC RPC over TCP (RFC 5531) and NFS, as borrowed views.
//!
//! A view decodes what a proxy needs to schedule a call and to know what its reply moved, without allocation; the
//! original bytes are forwarded, with their record marks, except for one word of a WRITE. Views of the start of a
//! message return *incomplete* where it ends, so that the caller, who knows whether more of it follows, decides what
//! that means.

mod record;
mod rpc;
mod v3;
mod v4;
mod xdr;

pub use record::{MAX_RECORD, Record};
pub use rpc::{Call, Credential, GssCredential, Message, Protection, Reply, SysCredential, program};
pub use v3::{Access, DATA_SYNC, Moved, listed, moved, status};
pub use v4::{Compound, compound_listed, compound_moved, compound_stored};
