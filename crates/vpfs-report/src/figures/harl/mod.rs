//! Figures of [HARL].

pub(crate) mod balance;
pub(crate) mod btio;
mod cluster;
mod compare;
pub(crate) mod ior;
pub(crate) mod regions;

use crate::figures::Figure;

pub(crate) const FIGURES: &[Figure] = &[
    Figure::new("harl-1a", "HARL Fig. 1a: I/O time of each server", balance::run),
    Figure::new("harl-7", "HARL Fig. 7: IOR with different layouts", ior::layouts),
    Figure::new("harl-8", "HARL Fig. 8: IOR by number of processes", ior::processes),
    Figure::new("harl-9", "HARL Fig. 9: IOR by size of requests", ior::requests),
    Figure::new("harl-10", "HARL Fig. 10: IOR by numbers of disk and flash servers", ior::servers),
    Figure::new("harl-11", "HARL Fig. 11: a file of four regions", regions::run),
    Figure::new("harl-12", "HARL Fig. 12: BTIO", btio::run),
];
