//! Whole BMI messages over a byte stream, both directions (docs/protocols/orangefs.md, transport).

mod reader;
mod writer;

pub(crate) use reader::{Message, MessageReader, ReadError};
pub(crate) use writer::{Outgoing, write_messages};
