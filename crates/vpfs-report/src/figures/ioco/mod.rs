//! Figures of [IOCO].

mod analysis;
pub(crate) mod apps;
mod cluster;
pub(crate) mod finish;
pub(crate) mod formulas;
pub(crate) mod servers;
pub(crate) mod windows;

use crate::figures::Figure;

pub(crate) const FIGURES: &[Figure] = &[
    Figure::new("ioco-3", "IOCO Fig. 3 and 5: when servers are done with each application", finish::run),
    Figure::new("ioco-6", "IOCO Fig. 6: completion time by number of applications", apps::run),
    Figure::new("ioco-7", "IOCO Fig. 7: completion time by number of servers", servers::run),
    Figure::new("ioco-8", "IOCO Fig. 8: completion time and bandwidth by window", windows::run),
    Figure::new("ioco-formulas", "IOCO §3.2: formulas against simulation", formulas::run),
];
