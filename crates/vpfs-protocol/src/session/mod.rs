//! Interposition of one client connection and the one server connection behind it, without I/O.
//!
//! A [`Session`] is fed the bytes that arrived from either side, and yields the bytes to send to either side and
//! [`Action`]s for the scheduler. It holds back *requests only*: acknowledgements, data and replies pass in order,
//! because holding them would cause timeouts on both sides (docs/protocols/orangefs.md, life of a proxied I/O). The
//! exception is the data of a write that was dispatched in pieces: its pieces are passed at intervals that the dispatch
//! specifies.
//!
//! The contract names no protocol. `shared` implements it for all of them; each protocol is a module that says what its
//! bytes mean: [`orangefs`] and [`nfs`].
//!
//! # How to drive it
//!
//! 1. Give an input: [`Session::handle_client`], [`Session::handle_server`], [`Session::dispatch`],
//!    [`Session::handle_client_eof`], [`Session::handle_server_eof`] or [`Session::handle_timeout`].
//! 2. Drain [`Session::poll_action`] until `None`, then send what [`Session::to_server`] and
//!    [`Session::to_client`] hold.
//! 3. Read from a side only while [`Session::wants_client`] or [`Session::wants_server`] returns true: this is the
//!    back-pressure on the connection that causes the load. Call [`Session::client_waited`] after the client was not
//!    read for a while.
//!    What [`Session::next`] says of them tells which bytes need not be read into memory.
//! 4. While [`Session::is_behind`], let others have their turn and call `handle_client` and `handle_server` again.
//! 5. Call `handle_timeout` at [`Session::poll_timeout`], and then `handle_client` with the bytes left in its buffer.
//!
//! After [`Action::Close`] for a fault of the server the session is over: every operation was returned to the scheduler
//! and further inputs are ignored. After a fault of the client, or [`Session::abandon`], only the server's bytes count:
//! feed them until [`Session::awaits_server`] is false or there was time enough, then [`Session::end`] it.
//!
//! After [`Session::suspend`], call `handle_client` with the bytes left in its buffer, and continue as before until
//! `suspend` returns something.

mod contract;
pub mod nfs;
pub mod orangefs;
mod outbound;
mod shared;

pub use contract::{
    Action, CloseReason, Completed, Interposer, Next, OpId, Outcome, Requester, Session, SessionLimits, Side,
    Submission, Suspended, User,
};
pub use outbound::Outbound;
