//! What is measured: a directory, a block device or a model.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use vpfs_config::units::{parse_duration, parse_size};
use vpfs_core::Bytes;
use vpfs_model::device::{DeviceProfile, UnknownDevice};
use vpfs_profile::{ModelStorage, Options, RealStorage};

use crate::cmd::workload::progress::ProgressLine;
use crate::exit::Exit;

#[derive(clap::Args)]
pub(super) struct Subject {
    /// A directory on the storage to measure, or a block device
    #[arg(value_name = "PATH", required_unless_present = "model")]
    path: Option<PathBuf>,

    /// Measure this device model instead, in virtual time
    #[arg(long, value_name = "NAME", conflicts_with_all = ["path", "time", "size", "buffered", "destroy_data"], value_parser = model)]
    model: Option<Model>,

    /// Approximate time to measure
    #[arg(long, value_name = "TIME", default_value = "1min", value_parser = parse_duration)]
    time: Duration,

    /// Size of the test file; less if it cannot be filled within a quarter of the time
    #[arg(long, value_name = "SIZE", default_value = "4GiB", value_parser = parse_size)]
    size: Bytes,

    /// Use the page cache, for file systems without direct I/O
    #[arg(long)]
    buffered: bool,

    /// Also write to the block device PATH; repeat its name here. Refused if it is in use or has data at either end
    #[arg(long, value_name = "DEVICE")]
    destroy_data: Option<PathBuf>,
}

/// A device model and its name.
#[derive(Clone, Debug)]
struct Model {
    name: String,
    device: DeviceProfile,
}

fn model(name: &str) -> Result<Model, UnknownDevice> {
    Ok(Model { name: name.to_owned(), device: DeviceProfile::by_name(name)? })
}

impl Subject {
    /// The storage, for accesses of at most `largest`, and how long it may be measured.
    pub(super) fn open<S: ?Sized>(
        &self,
        largest: Bytes,
        line: &ProgressLine,
        modelled: impl FnOnce(ModelStorage) -> Box<S>,
        real: impl FnOnce(RealStorage) -> Box<S>,
    ) -> Result<(Box<S>, Option<Duration>), Exit> {
        if let Some(model) = &self.model {
            return Ok((modelled(ModelStorage(model.device.clone())), None));
        }
        let begin = Instant::now();
        let options = Options {
            size: self.size,
            largest_access: largest,
            fill_time: self.time / 4,
            buffered: self.buffered,
            destroy_data: self.destroy_data.clone(),
        };
        line.announce("filling the test file");
        let storage = RealStorage::open(self.path(), &options).map_err(|error| Exit::Failed(error.to_string()))?;
        Ok((real(storage), Some(self.time.saturating_sub(begin.elapsed()))))
    }

    /// For people.
    pub(super) fn describe(&self) -> String {
        match &self.model {
            Some(model) => format!("the device model {}", model.name),
            None => self.path().display().to_string(),
        }
    }

    fn path(&self) -> &Path {
        self.path.as_deref().unwrap_or(Path::new("."))
    }
}
