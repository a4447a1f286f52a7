//! Turns vpfs.toml into validated types.
//!
//! [`Config::parse`] is pure and reports all problems at once. Host names are resolved in a second step,
//! [`Config::resolve`], which returns an [`Identify`]. That decides to which application a client belongs, and an
//! [`AppTable`] numbers applications for the schedulers. A [`Config`] is always valid.
//!
//! ```
//! use vpfs_config::{AppTable, Config};
//!
//! let text = r#"
//!     [[server]]
//!     name = "s1"
//!     address = "tcp://10.0.0.1:3334"
//!     [[listener]]
//!     port = 5334
//!     [[app]]
//!     name = "climate"
//!     weight = 4
//!     clients = ["10.1.0.0/16"]
//! "#;
//! let config = Config::parse("vpfs.toml", text)?;
//! let identify = config.resolve(|_name| Ok(vec![]))?;
//! let mut apps = AppTable::new(&config);
//!
//! let id = apps.assign(identify.identify(None, [10, 1, 2, 3].into(), None, &[]));
//! assert_eq!(apps.get(id).map(|app| app.name.as_str()), Some("climate"));
//! let id = apps.assign(identify.identify(None, [10, 2, 2, 2].into(), None, &[]));
//! assert_eq!(apps.get(id).map(|app| app.name.as_str()), Some("host:10.2.2.2"));
//!
//! let error = Config::parse("vpfs.toml", "[scheduler]\npolcy = 1").unwrap_err();
//! assert!(error.to_string().contains(r#"vpfs.toml:2: scheduler.polcy: unknown key; did you mean "policy"?"#));
//! # Ok::<(), vpfs_config::Problems>(())
//! ```

mod app_table;
mod apps;
mod clients;
mod config;
mod device_times;
pub mod hosts;
mod limits;
mod manual;
mod network;
mod problem;
mod profile;
mod reader;
mod scheduler;
mod slot_costs;
mod tables;
pub mod tunables;
pub mod units;

pub use app_table::{AppEntry, AppTable};
pub use apps::{App, Cap};
pub use clients::{AppIndex, Auto, AutoBy, AutoKey, Clients, HOSTS_LIMIT, Identify, Identity, Ids, Rule};
pub use config::{Change, Config, Diff, FILE_LIMIT};
pub use limits::{Limits, Log, LogFormat, LogLevel};
pub use manual::{config_manual, manual};
pub use network::{Address, Listener, Protocol, Server};
pub use problem::{Problem, Problems};
pub use scheduler::SchedulerConfig;
pub use tables::{Table, read_file};
