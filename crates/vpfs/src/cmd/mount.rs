//! `vpfs mount`: the overlay.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use clap::value_parser;
use serde::Deserialize;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::Notify;
use tokio::task::JoinSet;
use vpfs_config::tunables::{Kind, Section, Tunable};
use vpfs_config::{Config, LogFormat, LogLevel, RunWeight, Table, read_file, read_text};
use vpfs_core::ServerId;
use vpfs_harl::{RegionStripeTable, Row};
use vpfs_overlay::{Class, MountError, Mounted, Options, Recorder, Rule, Writer, is_class, prepare_process};
use vpfs_proxy::admin::events::Events;
use vpfs_proxy::{Daemon, Environment, Resolver, StateDir, Turns};

use super::{load_config, proxy};
use crate::print::{Exit, now};
use crate::service;
use crate::service::{LogSwitch, Stop};

/// Show a directory under another path: with regions of files in several directories, traces, and shares
///
/// Programs use MOUNTPOINT as they would use SOURCE. As root it serves all users, each with their own rights; otherwise
/// only the user who runs it, without regions. Runs until SIGTERM, SIGINT or `umount`; files that are open then
/// still work, and a second signal ends it at once. What a killed one left at MOUNTPOINT is taken away.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  \
    vpfs mount /mnt/pfs /scratch                            the same files under another path\n  \
    vpfs mount /mnt/pfs /scratch --trace /var/tmp/traces    and a log for `vpfs layout advise`\n  \
    vpfs mount /mnt/pfs /scratch --regions regions.toml     new files get advised regions\n  \
    vpfs mount /mnt/pfs /scratch --config vpfs.toml         programs get their shares")]
pub(crate) struct Mount {
    /// The directory to show
    source: PathBuf,

    /// Where to show it: an existing directory outside of SOURCE, or SOURCE itself
    mountpoint: PathBuf,

    /// Where regions of files lie, and which new files get them; see docs/guide/layouts.md
    #[arg(long, value_name = "FILE")]
    regions: Option<PathBuf>,

    /// Record all reads and writes in a new file in this directory
    #[arg(long, value_name = "DIR")]
    trace: Option<PathBuf>,

    /// Let requests take turns as this file says, which has a mount:// server for each host; see docs/config.md. SIGHUP
    /// reads it again
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    /// Which of its servers this mount is, by name [default: the only one, or the one with the name of this host]
    #[arg(long, value_name = "NAME", requires = "config")]
    server: Option<String>,
}

impl Mount {
    pub(crate) fn run(&self) -> Result<(), Exit> {
        prepare_process().map_err(|error| Exit::Failed(format!("cannot drop capabilities: {error}")))?;
        let regions = self.regions.as_deref().map(Regions::read).transpose()?;
        let config = self.config.as_deref().map(|path| load_shares(path, self.server.as_deref())).transpose()?;
        let events = Events::default();
        let (level, is_json) = config
            .as_ref()
            .map_or((LogLevel::Info, false), |(config, _)| (config.log.level, config.log.format == LogFormat::Json));
        let log = service::start_log(level, is_json, &events)?;
        let (recorder, writer) = self.trace.as_deref().map(record).transpose()?.unzip();
        let (classes, rules) = regions.map_or_else(Default::default, |regions| (regions.classes, regions.rules));
        super::runtime()?.block_on(async {
            let mut shares = match config {
                Some((config, server)) => Some(Shares::start(config, server, &events).await?),
                None => None,
            };
            let turns = shares.as_ref().map(Shares::turns);
            let served = self.serve(Options { classes, rules, recorder, turns }, &mut shares, &log).await;
            if let Some(shares) = shares {
                shares.end().await;
            }
            served
        })?;
        writer.map_or(Ok(()), Writer::finish).map_err(|error| Exit::Failed(format!("cannot write the trace: {error}")))
    }

    async fn serve(&self, options: Options, shares: &mut Option<Shares>, log: &LogSwitch) -> Result<(), Exit> {
        let failed = |error: std::io::Error| Exit::Failed(error.to_string());
        let mut stop = Stop::new().map_err(failed)?;
        let ended = Arc::new(Notify::new());
        let tell = Arc::clone(&ended);
        let mounted = Mounted::new(&self.source, &self.mountpoint, options, move || tell.notify_one());
        let mut mounted = mounted.map_err(|error| match error {
            MountError::Io { .. } | MountError::NoProc(_) => Exit::Failed(error.to_string()),
            _ => Exit::Usage(error.to_string()),
        })?;
        let what = format!("{} at {}", self.source.display(), self.mountpoint.display());
        tracing::info!("showing {what}");
        service::ready(&what, false);
        let mut hangup = signal(SignalKind::hangup()).map_err(failed)?;
        loop {
            tokio::select! {
                () = stop.asked() => break,
                () = ended.notified() => return mounted.end().map_err(failed),
                _ = hangup.recv() => if let Some((shares, path)) = shares.as_mut().zip(self.config.as_deref()) {
                    shares.reload(path, log).await;
                },
            }
        }
        service::stopping();
        tracing::info!("unmounting; files that are open still work until they are closed");
        mounted.unmount().map_err(failed)?;
        tokio::select! {
            () = stop.asked() => Err(Exit::Failed("ended before all files were closed".to_owned())),
            () = ended.notified() => mounted.end().map_err(failed),
        }
    }
}

fn record(directory: &Path) -> Result<(Recorder, Writer), Exit> {
    let path = directory.join(format!("trace-{}-{}.csv", now(), std::process::id()));
    Recorder::create(&path).map_err(|error| Exit::Failed(format!("cannot create {}: {error}", path.display())))
}

/// A daemon without listeners, and those who may ask it.
pub(super) struct Shares {
    daemon: Daemon,
    _admin: JoinSet<()>,
}

/// Reads a file, and chooses the mount that this host or `name` is.
fn load_shares(path: &Path, name: Option<&str>) -> Result<(Config, ServerId), Exit> {
    let config = load_config(path)?;
    let path = path.display();
    if !config.servers.iter().all(vpfs_config::Server::is_mount) {
        let message = format!("{path} is for proxies; a mount needs a [[server]] with address = \"mount://HOST\"");
        return Err(Exit::Usage(message));
    }
    let own = rustix::system::uname();
    let own = own.nodename().to_string_lossy();
    let here = || config.servers().find(|(_, server)| server.address.host() == own).map(|(id, _)| id);
    let server = match (name, config.servers.len()) {
        (Some(name), _) => config.server(name).map_err(Exit::Usage)?,
        (None, 1) => ServerId(0),
        (None, _) => here().ok_or_else(|| {
            Exit::Usage(format!(
                "{path} has no mount://{own}; add a [[server]] for this host, or name one with --server"
            ))
        })?,
    };
    Ok((config, server))
}

impl Shares {
    pub(super) async fn start(config: Config, server: ServerId, events: &Events) -> Result<Self, Exit> {
        if !config.warnings.list.is_empty() {
            tracing::warn!(warnings = %config.warnings, "the configuration is valid, but probably not as intended");
        }
        let environment = Environment { resolver: Resolver::default(), state: StateDir::of_service() };
        let daemon = Daemon::start_in(&environment, config, &[server]).await;
        let mut daemon = daemon.map_err(|error| Exit::Failed(error.to_string()))?;
        let askers = daemon.take_askers();
        let admin = proxy::serve_admin(
            daemon.config(),
            &[server],
            false,
            (&daemon.observer(), daemon.pushes()),
            (events, askers),
        );
        tracing::info!(policy = daemon.config().scheduler.policy.kind.name(), "requests take turns");
        Ok(Self { daemon, _admin: admin })
    }

    pub(super) fn turns(&self) -> Turns {
        self.daemon.turns(0)
    }

    /// Reads the file again; one with problems changes nothing.
    pub(super) async fn reload(&mut self, path: &Path, log: &LogSwitch) {
        proxy::run_reload(&mut self.daemon, path, log).await;
    }

    /// Ends when nobody uses the mount any more.
    pub(super) async fn end(self) {
        self.daemon.drain().await;
    }
}

pub(crate) struct Regions {
    pub(crate) classes: Vec<Class>,
    pub(crate) rules: Vec<Rule>,
}

const fn key(key: &'static str, kind: Kind, doc: &'static str) -> Tunable {
    Tunable::new(key, kind, doc)
}

const ROOT: Section = Section {
    name: "",
    header: "",
    doc: "Where regions of files lie, and which files get them.",
    keys: &[
        key("class", Kind::List("[[class]] tables"), "Classes of servers."),
        key("rule", Kind::List("[[rule]] tables"), "Which new files get regions.").absent_means("none"),
    ],
};

const CLASS: Section = Section {
    name: "class",
    header: "[[class]]",
    doc: "A directory whose file system spreads files over servers that are equal to each other.",
    keys: &[
        key("name", Kind::Text("a name such as \"flash\""), "Its name, which maps have."),
        key("class", Kind::Text("a name of the advice"), "The servers' class, which may have several directories.")
            .absent_means("`name`"),
        key("strip", Kind::Size, "What files in it have on one server before the next; each region takes the nearest.")
            .absent_means("that of all regions"),
        key("directory", Kind::Text("a directory"), "Where its region files lie; nothing else should lie there."),
        key("servers", Kind::Count, "Their number, by which stripes are multiplied.")
            .absent_means("1")
            .range("1", "10000"),
    ],
};

const RULE: Section = Section {
    name: "rule",
    header: "[[rule]]",
    doc: "Files that get the advised regions when they are created; the first rule counts.",
    keys: &[
        key(
            "files",
            Kind::Text("a pattern such as \"out/*.h5\""),
            "Paths below the source; * and ? within a name, ** for any directories; not for hidden names.",
        ),
        key("advice", Kind::Text("a file"), "What `vpfs layout advise --json` wrote."),
        key("file", Kind::Text("a file's name in the advice"), "Whose advice.")
            .absent_means("that of the only file with regions"),
    ],
};

struct Place {
    name: String,
    class: String,
    directory: PathBuf,
    servers: u64,
    /// In bytes; only among several directories of a class.
    strip: Option<u64>,
}

impl Place {
    /// By which factor the strips of the directory are off those of a region, as a fraction.
    fn misfit(&self, stripe: u64) -> (u128, u128) {
        let strip = self.strip.unwrap_or(stripe);
        (strip.max(stripe).into(), strip.min(stripe).max(1).into())
    }
}

#[derive(Deserialize)]
struct Advised {
    file: String,
    regions: Vec<AdvisedRegion>,
}

#[derive(Deserialize)]
struct AdvisedRegion {
    begin: u64,
    end: u64,
    stripes: BTreeMap<String, u64>,
}

impl Regions {
    pub(crate) fn read(path: &Path) -> Result<Self, Exit> {
        let text = read_text(path).map_err(|error| Exit::Usage(format!("{}: {error}", path.display())))?;
        let base = path.parent().unwrap_or(Path::new("."));
        let read = read_file(&path.display().to_string(), &text, &ROOT, |root| {
            let mut places = Vec::new();
            for table in root.tables("class", &CLASS) {
                let place = place(&table, base, &places)?;
                places.push(place);
            }
            let rules = root.tables("rule", &RULE);
            let rules = rules.iter().map(|table| rule(table, base, &places)).collect::<Option<Vec<_>>>()?;
            let open =
                |place: Place| Class::open(place.name, &place.directory).map_err(|error| (place.directory, error));
            Some((places.into_iter().map(open).collect::<Result<Vec<_>, _>>(), rules))
        });
        let read = read.map_err(|problems| Exit::Usage(problems.to_string()))?;
        let (classes, rules) = read.ok_or_else(|| Exit::Usage(format!("{}: is not complete", path.display())))?;
        let classes = classes.map_err(|(directory, error)| {
            Exit::Failed(format!("cannot open the directory {} of a class: {error}", directory.display()))
        })?;
        Ok(Self { classes, rules })
    }
}

/// `None` after a problem, which has been reported.
fn place(table: &Table<'_>, base: &Path, before: &[Place]) -> Option<Place> {
    let (name, directory) = (table.text("name")?, table.text("directory")?);
    let problem = match before.iter().any(|place| place.name == name) {
        true => Some("is that of another class"),
        false if !is_class(name) => Some("must be of letters, digits, - and _"),
        false => None,
    };
    if let Some(problem) = problem {
        table.refuse("name", problem);
        return None;
    }
    let class = table.text("class").unwrap_or(name);
    let strip = table.size("strip").map(|strip| strip.0);
    if before.iter().any(|place| place.class == class && (place.strip.is_none() || strip.is_none())) {
        table.refuse("class", "has several directories; say the `strip` of each");
        return None;
    }
    let servers = table.count("servers").unwrap_or(1).into();
    Some(Place { name: name.to_owned(), class: class.to_owned(), directory: base.join(directory), servers, strip })
}

fn rule(table: &Table<'_>, base: &Path, places: &[Place]) -> Option<Rule> {
    let (files, advice) = (table.text("files")?, base.join(table.text("advice")?));
    let stripes = match advised(&advice, table.text("file"), places) {
        Ok(stripes) => stripes,
        Err(problem) => {
            table.refuse("advice", format!("{}: {problem}", advice.display()));
            return None;
        }
    };
    let classes = places.iter().map(|place| place.name.clone()).collect();
    Rule::new(files, classes, stripes).map_err(|error| table.refuse("files", error.to_string())).ok()
}

/// The regions of a file in an advice, with stripes of whole classes.
fn advised(path: &Path, file: Option<&str>, places: &[Place]) -> Result<RegionStripeTable, String> {
    let text = read_text(path).map_err(|error| error.to_string())?;
    let advised: Vec<Advised> = serde_json::from_str(&text).map_err(|error| error.to_string())?;
    let mut with_regions = advised.iter().filter(|advised| !advised.regions.is_empty());
    let chosen = match file {
        Some(name) => with_regions.find(|advised| advised.file == name).ok_or(format!("has no regions of {name:?}"))?,
        None => match (with_regions.next(), with_regions.next()) {
            (Some(only), None) => only,
            (None, _) => return Err("has no file with regions".to_owned()),
            _ => return Err("has several files; choose one of them with `file`".to_owned()),
        },
    };
    let mut expected = 0;
    let mut rows = Vec::new();
    for AdvisedRegion { begin, end, stripes } in &chosen.regions {
        if let Some(unknown) = stripes.keys().find(|name| places.iter().all(|place| place.class != **name)) {
            return Err(format!("has stripes for class {unknown:?}, which has no directory"));
        }
        if *begin != expected || end <= begin || stripes.values().all(|stripe| *stripe == 0) {
            return Err(format!("the region at {begin} is empty, or does not follow the one before"));
        }
        expected = *end;
        rows.push(Row { bytes: *begin..*end, stripes: of_places(stripes, places) });
    }
    Ok(RegionStripeTable::new(rows))
}

/// What one round puts into each directory: of those of a class, the one whose strips are nearest has all.
fn of_places(stripes: &BTreeMap<String, u64>, places: &[Place]) -> Vec<u64> {
    let mut of_all = vec![0; places.len()];
    for (class, stripe) in stripes.iter().filter(|(_, stripe)| **stripe > 0) {
        let of_class = places.iter().enumerate().filter(|(_, place)| place.class == *class);
        let nearest = of_class.min_by(|(_, a), (_, b)| {
            let ((a, below_a), (b, below_b)) = (a.misfit(*stripe), b.misfit(*stripe));
            (a * below_b).cmp(&(b * below_a))
        });
        if let Some((number, place)) = nearest {
            of_all[number] = stripe.saturating_mul(place.servers);
        }
    }
    of_all
}

/// Run a command with a weight among one's own
///
/// Below a `vpfs mount` that lets programs take turns (docs/guide/layouts.md), this command and all that it starts get
/// that many times what one's other programs get, of one's own share: nobody else gets less. All commands of a user, or
/// of a Slurm job, with the same weight are one application. mpiexec and srun pass it on to other hosts, as the
/// variable VPFS_WEIGHT of the environment. It has no effect on what `[[app]]` rules name.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  \
    vpfs run --weight 4 -- make -j8             four times what my other programs get\n  \
    vpfs run --weight 4 -- srun ./model         all ranks of it")]
pub(crate) struct Run {
    /// Its weight; programs without one have 1
    #[arg(long, value_name = "1-10", value_parser = value_parser!(u8).range(1..=i64::from(RunWeight::MAX)))]
    weight: u8,

    /// The command and its arguments
    #[arg(required = true, trailing_var_arg = true, value_name = "CMD")]
    command: Vec<OsString>,
}

impl Run {
    pub(crate) fn run(&self) -> Result<(), Exit> {
        let (program, args) = self.command.split_first().expect("it is required");
        let error = Command::new(program).args(args).env(RunWeight::VARIABLE, self.weight.to_string()).exec();
        Err(Exit::Failed(format!("cannot run {}: {error}", program.display())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOML: &str = r#"
        [[class]]
        name = "disk"
        directory = "d"
        servers = 6
        [[class]]
        name = "flash"
        directory = "f"
        [[rule]]
        files = "*.h5"
        advice = "advice.json"
    "#;

    const ADVICE: &str = r#"[
        { "file": "a", "moved": 1, "regions": [
            { "begin": 0, "end": 100, "stripes": { "disk": 4096, "flash": 65536 }, "kept": false },
            { "begin": 100, "end": 200, "stripes": { "disk": 0, "flash": 4096 } } ] },
        { "file": "small", "regions": [] } ]"#;

    fn read(toml: &str, advice: &str) -> Result<Regions, String> {
        let folder = tempfile::tempdir().expect("a directory");
        for (name, text) in [("regions.toml", toml), ("advice.json", advice)] {
            std::fs::write(folder.path().join(name), text).expect("a file");
        }
        for name in ["d", "f"] {
            std::fs::create_dir(folder.path().join(name)).expect("a directory");
        }
        Regions::read(&folder.path().join("regions.toml")).map_err(|exit| exit.to_string())
    }

    #[test]
    fn stripes_are_those_of_whole_classes() {
        let regions = read(TOML, ADVICE).unwrap();
        let rows: Vec<_> =
            regions.rules[0].table.rows().iter().map(|row| (row.bytes.end, row.stripes.clone())).collect();
        assert_eq!(rows, [(100, vec![6 * 4096, 65536]), (200, vec![0, 4096])]);
        assert_eq!(regions.classes.iter().map(|class| class.name.as_str()).collect::<Vec<_>>(), ["disk", "flash"]);
    }

    #[test]
    fn each_region_lies_where_strips_are_nearest() {
        let several = TOML
            .replace("name = \"disk\"", "name = \"disk-4k\"\nclass = \"disk\"\nstrip = \"4KiB\"")
            .replace("name = \"flash\"", "name = \"disk-1m\"\nclass = \"disk\"\nstrip = \"1MiB\"\nservers = 6");
        let advice =
            ADVICE.replace(", \"flash\": 65536", "").replace("\"disk\": 0, \"flash\": 4096", "\"disk\": 131072");
        let regions = read(&several, &advice).unwrap();
        let rows: Vec<_> = regions.rules[0].table.rows().iter().map(|row| row.stripes.clone()).collect();
        assert_eq!(rows, [[6 * 4096, 0], [0, 6 * 131072]]);
        let without = several.replace("strip = \"1MiB\"", "");
        assert!(read(&without, &advice).err().unwrap().contains("say the `strip` of each"));
    }

    #[test]
    fn problems_name_the_place_and_the_fix() {
        let problem = |toml: &str, advice: &str| read(toml, advice).err().expect("a problem");
        assert!(
            problem(&TOML.replace("\"flash\"", "\"tape\""), ADVICE).contains("class \"flash\", which has no directory")
        );
        assert!(problem(&TOML.replace("\"flash\"", "\"a/b\""), ADVICE).contains("letters, digits"));
        assert!(problem(&TOML.replace("\"flash\"", "\"disk\""), ADVICE).contains("is that of another class"));
        assert!(
            problem(
                TOML,
                &ADVICE.replace("\"regions\": []", "\"regions\": [{\"begin\":0,\"end\":1,\"stripes\":{\"disk\":1}}]")
            )
            .contains("several files")
        );
        assert!(problem(TOML, &ADVICE.replace("\"begin\": 100", "\"begin\": 101")).contains("the region at 101"));
        assert!(problem(&TOML.replace("= \"f\"", "= \"none\""), ADVICE).contains("none of a class: No such file"));
        assert!(problem(&(TOML.to_owned() + "file = \"b\""), ADVICE).contains("no regions of \"b\""));
        assert!(problem(&TOML.replace("*.h5", "a**b"), ADVICE).contains("files"));
    }
}
