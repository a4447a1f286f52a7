//! Profiles of storage.

mod class;
mod measure;
