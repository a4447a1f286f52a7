//! Checks of the views of RPC and NFS on arbitrary bytes. Each panics if an invariant is violated, never because of
//! malformed bytes.

use vpfs_protocol::wire::DecodeError;
use vpfs_protocol::wire::nfs::{
    Access, Compound, Credential, MAX_RECORD, Message, Record, compound_listed, compound_moved, listed, moved, status,
};

/// A record is found in bytes that begin with it, and nothing in its message makes a view panic.
pub fn rpc(data: &[u8]) {
    let record = match Record::parse(data) {
        Ok(record) => record,
        Err(DecodeError::Incomplete { needed }) => return assert!(needed > 0 && needed <= MAX_RECORD),
        Err(_) => return,
    };
    assert!(record.len <= MAX_RECORD && record.message_len() < record.len);
    assert_eq!(Record::parse(&data[..data.len().min(record.len)]), Ok(record), "what follows does not matter");
    let message = record.message(data);
    assert!(message.len() <= record.message_len());
    match Message::parse(&message) {
        Ok(Message::Call(call)) => {
            if let Credential::Sys(user) = &call.credential {
                assert!((1..=17).contains(&user.gids().count()));
            }
            let Some(arguments) = call.arguments else { return };
            let _ = Access::parse(call.procedure, arguments);
            if let Ok(compound) = Compound::parse(arguments) {
                assert!(compound.reads as usize <= arguments.len() / 32);
                // Only the last WRITE may state more than there is.
                assert!(compound.is_cut || compound.written <= arguments.len() as u64 + u64::from(u32::MAX));
            }
        }
        Ok(Message::Reply(reply)) => {
            let Some(results) = reply.results else { return };
            let _ = (status(results), moved(false, results), moved(true, results), compound_moved(results));
            assert!(compound_listed(results) as usize <= results.len() / 24);
            for is_plus in [false, true] {
                assert!(listed(is_plus, results) as usize <= results.len() / 24);
            }
        }
        Err(_) => {}
    }
}
