//! Coordinators of several servers, on a network with faults in virtual time.

mod bounds;
mod changes;
mod common;
mod contact;
mod faults;
mod hostile;
mod late;
mod tree;
