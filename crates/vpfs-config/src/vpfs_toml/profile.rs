//! The file of `vpfs profile` that `[scheduler]` may name: measured depth, slot costs and device times [vPFS+ §III-B].

use std::io;

use vpfs_core::settings::DeviceTime;
use vpfs_core::{Depth, SlotCostTable};

use super::device_times;
use super::keys::{PROFILE, PROFILE_ROOT};
use super::slot_costs::{self, Shown};
use crate::schema::problem::Problems;
use crate::schema::table::{Table, read_file};

/// Returns the text of a file, by its name in the configuration.
pub(crate) type Files<'a> = &'a dyn Fn(&str) -> io::Result<String>;

/// The measured values.
pub(crate) struct MeasuredProfile {
    pub(crate) depth: Option<Depth>,
    pub(crate) slot_costs: SlotCostTable,
    /// The slot costs as text.
    pub(crate) shown: Shown,
    pub(crate) device_times: Vec<DeviceTime>,
}

/// The profile that `[scheduler]` names; `None` if it names none, or one with a problem, which is reported.
pub(crate) fn load(scheduler: &Table<'_>, files: Files<'_>) -> Option<MeasuredProfile> {
    const KEY: &str = "profile";
    let name = scheduler.text(KEY)?;
    scheduler.set(KEY, name);
    let read = files(name).map_err(|error| format!("{name} cannot be read: {error}; create it with `vpfs profile`"));
    match read.and_then(|text| parse(name, &text).map_err(|problems| problems.to_string())) {
        Ok(profile) => Some(profile),
        Err(message) => {
            scheduler.refuse(KEY, message);
            None
        }
    }
}

fn parse(file: &str, text: &str) -> Result<MeasuredProfile, Problems> {
    read_file(file, text, &PROFILE_ROOT, |root| {
        let table = root.table("scheduler", &PROFILE);
        let depth = slot_costs::depth(&table);
        let (slot_costs, shown) = slot_costs::read_table(&table, depth);
        let device_times = device_times::read(&table);
        MeasuredProfile { depth: table.has("depth").then_some(depth), slot_costs, shown, device_times }
    })
}
