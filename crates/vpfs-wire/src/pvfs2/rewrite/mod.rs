//! The parts of messages that a proxy changes: server addresses and time-outs (docs/protocols/orangefs.md,
//! configuration and its rewriting).
//!
//! All other bytes stay as they are, in particular the rest of the configuration text: clients compare the texts of all
//! servers, so equal texts must stay equal, and every proxy must use the same map.

mod text;

use super::codec::{Reader, Wire, Writer};
use super::layout::Layout;
use super::op::Op;
use super::reply::{GetConfig, ReplyBody};
use super::types::Text;
use super::{Reply, RequestView};
use crate::DecodeError;
use crate::bmi::{MAX_UNEXPECTED, TooLong};

/// The longest configuration text that clients accept, in bytes.
pub const MAX_CONFIG_TEXT: usize = 65536;

/// Why a message cannot be rewritten.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RewriteError {
    /// The message cannot be decoded.
    #[error(transparent)]
    Decode(#[from] DecodeError),
    /// The result is too long to be sent.
    #[error("rewritten addresses make the message too long: {0}")]
    TooLong(#[from] TooLong),
}

/// Client time-outs to announce, in seconds; `None` keeps the servers' values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClientTimeouts {
    /// `ClientJobBMITimeoutSecs`: how long a client waits for a reply.
    pub bmi_secs: Option<u32>,
    /// `ClientJobFlowTimeoutSecs`: how long a client waits for a transfer to make progress.
    pub flow_secs: Option<u32>,
}

/// Rewrites a GETCONFIG reply: each address of each `Alias` line through `map` (`None` keeps it), and the client
/// time-outs. Error replies are returned unchanged.
///
/// A time-out that is missing from the text is added at the start of `<Defaults>`.
pub fn config_text(
    payload: &[u8],
    timeouts: ClientTimeouts,
    mut map: impl FnMut(&str) -> Option<String>,
) -> Result<Vec<u8>, RewriteError> {
    let reply = Reply::decode(payload)?;
    let text = match reply.body {
        ReplyBody::GetConfig(GetConfig { text }) => text.0,
        _ if reply.op == Op::GetConfig => return Ok(payload.to_vec()),
        _ => return Err(DecodeError::Malformed { offset: 8, what: "not a GETCONFIG reply" }.into()),
    };
    let text = text::rewrite(&text, timeouts, &mut map);
    if text.len() > MAX_CONFIG_TEXT {
        return Err(TooLong { size: text.len() as u64, limit: MAX_CONFIG_TEXT as u64 }.into());
    }
    Ok(Reply::from(GetConfig { text: Text(text) }).encode())
}

/// Rewrites the server addresses of a CREATE or MKDIR with an explicit server list through `map` (`None` keeps the
/// address). `None` if there is nothing to change.
pub fn layout(payload: &[u8], mut map: impl FnMut(&str) -> Option<String>) -> Result<Option<Vec<u8>>, RewriteError> {
    let Some(at) = RequestView::parse(payload)?.layout_offset()? else { return Ok(None) };
    let mut r = Reader::at(payload, at);
    let mut layout = Layout::read(&mut r)?;
    r.finish()?;
    if layout.algorithm != Layout::LIST {
        return Ok(None);
    }
    let mut is_changed = false;
    for server in &mut layout.servers.0 {
        if let Some(address) = str::from_utf8(&server.0).ok().and_then(&mut map) {
            is_changed |= address.as_bytes() != server.0;
            *server = address.into();
        }
    }
    if !is_changed {
        return Ok(None);
    }
    let mut w = Writer::default();
    w.put(&payload[..at]);
    layout.write(&mut w);
    let rewritten = w.into_payload();
    match rewritten.len() as u64 {
        size if size > MAX_UNEXPECTED => Err(TooLong { size, limit: MAX_UNEXPECTED }.into()),
        _ => Ok(Some(rewritten)),
    }
}
