//! Models of storage.

mod cache;
mod models;
mod volume;
