//! Configuration and administration.

use vpfs_wire::pvfs2::{Errno, Handle, Op, Reply, reply, request};

use super::{Answer, Server};
use crate::server::namespace::{Kind, Object};

/// Parameters of MGMT_SETPARAM that `pvfs2-ping` sets.
const CHECK_FS_ID: i32 = 2;
const CHECK_ROOT: i32 = 3;
/// Largest number of handles in one reply of MGMT_ITERATE_HANDLES.
const HANDLES_MAX: usize = 4096;
/// The positions that start and end a listing of handles.
const POSITION_START: u64 = request::TOKEN_START;
const POSITION_END: u64 = request::TOKEN_END;

impl Server {
    pub(super) fn get_config(&self) -> Reply {
        reply::GetConfig { text: self.cluster.config_text.clone() }.into()
    }

    /// Only the two checks have an effect; the other parameters have no counterpart here and are accepted.
    pub(super) fn set_param(&self, body: &request::MgmtSetParam) -> Answer {
        let config = &self.cluster.config;
        let number = match &body.value {
            request::ParamValue::Number(number) => Some(*number),
            request::ParamValue::Text(_) => None,
        };
        match body.param {
            CHECK_FS_ID => self.same_fs(body.fs)?,
            CHECK_ROOT if number != Some(config.root_handle) => return Err(Errno::ENOENT),
            CHECK_ROOT => self.own(Handle(config.root_handle))?,
            _ => {}
        }
        Ok(Reply::done(Op::MgmtSetParam))
    }

    pub(super) fn stat_fs(&self, body: &request::StatFs) -> Answer {
        self.same_fs(body.fs)?;
        let usage = self.storage().store.usage();
        let signed = |bytes: u64| i64::try_from(bytes).unwrap_or(i64::MAX);
        // Tools sum over the servers, so each one reports its share of what the cluster can still hold.
        let (used, free) = self.cluster.namespace().usage(self.index);
        let free = (free / self.cluster.config.servers.len()) as u64;
        Ok(reply::StatFs {
            fs: body.fs,
            bytes_available: signed(usage.capacity.saturating_sub(usage.used)),
            bytes_total: signed(usage.capacity),
            ram_total: 0,
            ram_free: 0,
            load_1: 0,
            load_5: 0,
            load_15: 0,
            uptime_seconds: self.cluster.started.elapsed().as_secs(),
            handles_available: free,
            handles_total: free + used as u64,
        }
        .into())
    }

    /// This server's handles in ascending order, or only the reserved ones if the flags ask for them; the position is
    /// the first handle not returned yet.
    pub(super) fn iterate_handles(&self, body: &request::MgmtIterateHandles) -> Answer {
        self.same_fs(body.fs)?;
        let first = if body.position == POSITION_START { 0 } else { body.position };
        let count = usize::try_from(body.count).map_err(|_| Errno::EINVAL)?.min(HANDLES_MAX);
        let namespace = self.cluster.namespace();
        let reserved = |object: &Object| matches!(object.kind, Kind::Reserved);
        let own = namespace.objects_from(Handle(first)).filter(|(handle, _)| self.own(*handle).is_ok());
        let own = own.filter(|(_, object)| body.flags == 0 || reserved(object)).map(|(handle, _)| handle);
        let mut handles: Vec<Handle> = own.take(count.saturating_add(1)).collect();
        let position =
            if handles.len() > count { handles.pop().map_or(POSITION_END, |next| next.0) } else { POSITION_END };
        Ok(reply::MgmtIterateHandles { position, handles }.into())
    }
}
