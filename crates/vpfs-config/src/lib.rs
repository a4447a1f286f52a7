//! vpfs.toml to validated types.
