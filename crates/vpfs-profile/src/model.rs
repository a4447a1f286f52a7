//! A device model as storage to measure: known results, without waiting.

use std::time::Duration;

use vpfs_core::{Bytes, OpKind};
use vpfs_model::device::{DeviceProfile, IoKind};

use crate::fit::Measurement;
use crate::measure::measure;
use crate::{Point, ProfileError, Storage};

/// A device model, newly created for each point and measured in its own time.
#[derive(Clone, Debug)]
pub struct ModelStorage(
    /// The model.
    pub DeviceProfile,
);

/// Accesses for each point: with fixed seeds, enough to locate the knee of the papers' disk.
const ACCESSES: u32 = 2_000;
/// Range of the accesses in bytes.
const SPAN: Bytes = Bytes::mib(64 << 10);

impl Storage for ModelStorage {
    fn is_writable(&self) -> bool {
        true
    }

    fn measure(&mut self, point: Point, _time: Duration) -> Result<Measurement, ProfileError> {
        let kind = if point.op == OpKind::Read { IoKind::Read } else { IoKind::Write };
        Ok(measure(&self.0, kind, point.size, point.outstanding, ACCESSES, SPAN))
    }
}
