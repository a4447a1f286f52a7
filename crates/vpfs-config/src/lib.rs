//! Turns vpfs.toml into validated types.
//!
//! [`Config::parse`] is pure and reports all problems at once. The caller passes addresses of host names to
//! [`Config::resolve`], which returns an [`Identify`]. That decides to which application a client belongs, and an
//! [`AppTable`] numbers applications for the schedulers. A [`Config`] is always valid.
//!
//! ```
//! use vpfs_config::{AppTable, Client, Config};
//! use vpfs_core::OpKind;
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
//! let identify = config.resolve(&|_name| vec![]);
//! let mut apps = AppTable::new(&config);
//!
//! let client = Client { listener: 0, ip: [10, 1, 2, 3].into(), uid: None, gids: &[], machine: "", op: OpKind::Read };
//! let (id, _) = apps.assign(identify.identify(&client));
//! assert_eq!(apps.get(id).map(|app| app.name.as_str()), Some("climate"));
//! let (id, _) = apps.assign(identify.identify(&Client { ip: [10, 2, 2, 2].into(), ..client }));
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
mod hosts;
mod keys;
mod network;
mod schema;
pub mod sets;
pub mod slurm;
pub mod tunables;
pub mod units;

pub use app_table::AppTable;
pub use apps::{App, Cap, Share};
pub use clients::{
    Account, AppEntry, AppIndex, Auto, AutoBy, AutoKey, AutoShare, Charge, Client, HOSTS_LIMIT, Identify, Identity,
    Ids, Patterns, Place, Program, PushedApps, Rule, RunOf, RunWeight, job_of,
};
pub use config::{Change, Config, Diff, Limits, Log, LogFormat, LogLevel, SchedulerConfig, WriteBack, config_manual};
pub use hosts::{HostList, HostSet};
pub use keys::{SECTIONS, SHARE};
pub use network::{Address, Listener, Metrics, Owner, PeerSecurity, Peers, Protocol, Server, Trust, Web};
pub use schema::{FILE_LIMIT, Problem, Problems, Table, read_bytes, read_file, read_text};
pub use tunables::manual;
