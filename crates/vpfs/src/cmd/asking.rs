//! Asking the proxies of a configuration that run on this host, at their sockets.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use clap_complete::engine::{ArgValueCandidates, CompletionCandidate};
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use serde::de::DeserializeOwned;
use tokio::net::UnixStream;
use tokio::time::timeout;
use vpfs_config::{Config, Peers, Server, read_text};
use vpfs_core::ServerId;
use vpfs_proxy::admin::api::{History, Sample, Status};
use vpfs_proxy::admin::events::EventsReport;
use vpfs_proxy::admin::{
    Change, EVENTS, Failure, HISTORY, PEERS, PushedSets, SETS, STATUS, api, change_by, get_by, kept_history,
    route_of_history, socket_path,
};
use vpfs_proxy::{PeersReport, StateDir, connect_to_ask};

use super::{CONFIG, load_config, runtime};
use crate::print::Exit;

/// Which proxies are asked.
#[derive(clap::Args)]
pub(crate) struct Asking {
    /// The configuration, see docs/config.md
    #[arg(long, value_name = "FILE", default_value = super::CONFIG)]
    config: PathBuf,

    /// Only the proxy of this server, by its name in the file; may be given several times [default: all that run here]
    #[arg(long = "server", value_name = "NAME", add = servers())]
    servers: Vec<String>,

    /// Ask the proxies of all hosts at their addresses in `[peers]`, with its key or certificate, instead of those of
    /// this host at their sockets
    #[arg(long)]
    remote: bool,
}

/// How long a proxy may take to say what it has in memory: one that hangs is worth no longer wait.
pub(super) const PATIENCE: Duration = Duration::from_secs(2);

/// The same for what it has on a disk.
const PATIENCE_WITH_DISKS: Duration = Duration::from_secs(10);

pub(super) trait Answer: DeserializeOwned {
    const ROUTE: &str;
    const PATIENCE: Duration;

    fn servers(&self) -> Vec<&str>;
}

macro_rules! answers {
    ($($answer:ty => $route:expr, $patience:expr;)*) => {
        $(impl Answer for $answer {
            const ROUTE: &str = $route;
            const PATIENCE: Duration = $patience;

            fn servers(&self) -> Vec<&str> {
                self.servers.iter().map(String::as_str).collect()
            }
        })*
    };
}

answers! {
    PushedSets => SETS, PATIENCE;
    History => HISTORY, PATIENCE_WITH_DISKS;
    EventsReport => EVENTS, PATIENCE;
    PeersReport => PEERS, PATIENCE;
}

impl Answer for Status {
    const ROUTE: &str = STATUS;
    const PATIENCE: Duration = PATIENCE;

    fn servers(&self) -> Vec<&str> {
        self.servers.iter().map(|server| server.server.as_str()).collect()
    }
}

/// The paths that the socket of the proxy of a server may have.
pub(super) fn sockets(config: &Config, server: &str) -> Vec<PathBuf> {
    runtime_dir_of(config).iter().map(|directory| socket_path(directory, server)).collect()
}

/// What proxies say, and why others that should do not.
#[derive(Debug)]
pub(super) struct Answers<A> {
    pub(super) list: Vec<A>,
    pub(super) silent: Vec<String>,
}

impl<A> Answers<A> {
    /// The answers; writes to standard error who says nothing.
    pub(super) fn told(self) -> Vec<A> {
        self.silent.iter().for_each(|silent| eprintln!("vpfs: {silent}"));
        self.list
    }
}

impl Asking {
    pub(super) fn of(config: PathBuf, servers: Vec<String>, remote: bool) -> Self {
        Self { config, servers, remote }
    }

    pub(super) fn file(&self) -> String {
        self.config.display().to_string()
    }

    pub(super) fn config(&self) -> Result<Config, Exit> {
        load_config(&self.config)
    }

    pub(super) fn is_wanted(&self, server: &str) -> bool {
        self.servers.is_empty() || self.servers.iter().any(|name| name == server)
    }

    /// Whether all that are named exist, and can be asked.
    fn check(&self, config: &Config) -> Result<(), Exit> {
        for name in &self.servers {
            config.server(name).map_err(Exit::Usage)?;
        }
        match self.remote && config.peers.is_none() {
            true => Err(Exit::Usage("--remote needs a [peers] table".to_owned())),
            false => Ok(()),
        }
    }

    pub(super) async fn answers<A: Answer>(&self, config: &Config) -> Result<Answers<A>, Exit> {
        self.answers_to(A::ROUTE, config).await
    }

    /// The same with a query after the route.
    pub(super) async fn answers_to<A: Answer>(&self, route: &str, config: &Config) -> Result<Answers<A>, Exit> {
        self.check(config)?;
        // A process has the socket of its first server, so another one here may answer for a server that was named.
        let asked: Vec<_> =
            config.servers().filter(|(_, server)| !self.remote || self.is_wanted(&server.name)).collect();
        let (mut answers, silent) = self.gather(&asked, config, route).await;
        let here: Vec<&str> = answers.iter().flat_map(A::servers).collect();
        match self.servers.iter().find(|name| !here.contains(&name.as_str())) {
            Some(name) => return Err(self.missing(config, &format!("the proxy of {name}"), &here, &silent)),
            None if answers.is_empty() => return Err(self.missing(config, "any proxy", &here, &silent)),
            None => {}
        }
        let silent = silent.iter().map(|(server, silence)| format!("the proxy of {server} {silence}")).collect();
        answers.retain(|answer| answer.servers().iter().any(|server| self.is_wanted(server)));
        Ok(Answers { list: answers, silent })
    }

    /// Asks all at once: one that hangs, or whose host is down, takes two seconds, and may not matter. Returns the
    /// answers and who gave none, in the order of `asked`, as soon as all servers that were named have answered.
    async fn gather<'a, A: Answer>(
        &self,
        asked: &[(ServerId, &'a Server)],
        config: &Config,
        route: &str,
    ) -> (Vec<A>, Vec<(&'a str, Silence)>) {
        let (mut answers, mut silent) = (Vec::<(usize, A)>::new(), Vec::new());
        let has =
            |answers: &[(usize, A)], name: &str| answers.iter().any(|(_, answer)| answer.servers().contains(&name));
        let mut asking: FuturesUnordered<_> = (0..).zip(asked).map(|at| self.ask_one(config, at, route)).collect();
        while let Some((place, server, answer)) = asking.next().await {
            match answer {
                // One process, which answered for another of its servers.
                Ok(_) if has(&answers, server) => {}
                Ok(answer) => answers.push((place, answer)),
                Err(Silence::Absent) => {}
                Err(silence) => silent.push((place, server, silence)),
            }
            if !self.servers.is_empty() && self.servers.iter().all(|name| has(&answers, name)) {
                silent.clear();
                break;
            }
        }
        silent.retain(|(_, server, _)| !has(&answers, server));
        answers.sort_by_key(|(place, _)| *place);
        silent.sort_by_key(|(place, ..)| *place);
        let silent = silent.into_iter().map(|(_, server, silence)| (server, silence)).collect();
        (answers.into_iter().map(|(_, answer)| answer).collect(), silent)
    }

    async fn ask_one<'a, A: Answer>(
        &self,
        config: &Config,
        (place, (id, server)): (usize, &(ServerId, &'a Server)),
        route: &str,
    ) -> (usize, &'a str, Result<A, Silence>) {
        let answer = async {
            match &config.peers {
                Some(peers) if self.remote => ask_remote(peers, *id, route).await,
                _ => ask(&sockets(config, &server.name), route).await,
            }
        };
        let answer = tokio::time::timeout(A::PATIENCE, answer).await;
        (place, &server.name, answer.unwrap_or_else(|_| Err(Silence::late(A::PATIENCE))))
    }

    /// Why `wanted` cannot be asked.
    fn missing(&self, config: &Config, wanted: &str, here: &[&str], silent: &[(&str, Silence)]) -> Exit {
        let mut text = format!("cannot ask {wanted} of {}", self.config.display());
        if self.remote {
            silent.iter().for_each(|(server, silence)| text += &format!("\n  the proxy of {server} {silence}"));
            return Exit::Failed(text);
        }
        text += " on this host";
        for (server, silence) in silent {
            let sockets = sockets(config, server);
            let path = sockets.iter().find(|path| path.exists()).unwrap_or(&sockets[0]);
            text += &format!("\n  the proxy of {server} {silence} ({})", path.display());
        }
        if !here.is_empty() {
            text += &format!("\n  the proxies here are those of {}", here.join(", "));
        } else if silent.is_empty() {
            let directories = runtime_dir_of(config);
            let directories = directories.iter().map(|path| path.display().to_string()).collect::<Vec<_>>();
            text += &format!(
                "\n  no socket of its servers is in {}\n  \
                 either no proxy runs here (vpfs proxy --config {} starts one), or its log says at the start where its socket \
                 is: with another configuration, or in XDG_RUNTIME_DIR of another user",
                directories.join(" or "),
                self.config.display(),
            );
        }
        Exit::Failed(text)
    }

    /// Changes a set at once at all proxies that would be asked: those of this host at their sockets, or with `remote`
    /// at their ports. Each takes ten seconds at most.
    pub(super) async fn change(&self, config: &Config, to: &Change) -> Result<Changed, Exit> {
        self.check(config)?;
        let wanted = config.servers().filter(|(_, server)| self.is_wanted(&server.name));
        let one = |(id, server): (ServerId, _)| async move { (server, change_one(config, self.remote, id, to).await) };
        let mut asking: FuturesUnordered<_> = wanted.map(|(id, server)| one((id, server.name.as_str()))).collect();
        let mut changed = Changed::default();
        while let Some((server, result)) = asking.next().await {
            match result {
                Ok(is_different) => {
                    changed.done.push(server.to_owned());
                    changed.is_different |= is_different;
                }
                // Of several servers of one process, the first one has the socket.
                Err(NotChanged { silence: Silence::Absent, .. }) => {}
                Err(NotChanged { silence, .. }) => drop(changed.failed.insert(server.to_owned(), silence.to_string())),
            }
        }
        changed.done.sort();
        match (changed.done.is_empty() && changed.failed.is_empty(), &self.servers[..]) {
            (true, [name, ..]) => Err(self.missing(config, &format!("the proxy of {name}"), &[], &[])),
            (true, []) => Err(self.missing(config, "any proxy", &[], &[])),
            _ => Ok(changed),
        }
    }

    /// All samples of `app` of the latest time, or of all applications the sum of each.
    pub(super) fn history(&self, app: Option<&str>, since: Duration) -> Result<Kept, Exit> {
        let config: Config = self.config()?;
        let route = route_of_history(app, since.as_secs());
        let (mut answers, failure) = match runtime()?.block_on(self.answers_to::<History>(&route, &config)) {
            Ok(answers) => (answers.told(), None),
            Err(failure) => (Vec::new(), Some(failure)),
        };
        if !self.remote {
            let kept = self.of_the_ended(&config, &answers, (app, since));
            answers.extend(kept);
        }
        if let Some(failure) = failure.filter(|_| answers.is_empty()) {
            return Err(failure);
        }
        let begins = answers.iter().filter_map(|history| history.begins).min();
        let samples = answers.into_iter().flat_map(|history| history.samples);
        let mut samples: Vec<Sample> = samples.filter(|sample| self.is_wanted(&sample.server)).collect();
        samples.sort_by_key(|sample| sample.at);
        Ok(Kept { begins, samples })
    }

    /// What proxies of this host have kept that do not answer.
    fn of_the_ended(
        &self,
        config: &Config,
        answers: &[History],
        (app, since): (Option<&str>, Duration),
    ) -> Vec<History> {
        let is_missing = |name: &str| answers.iter().all(|answer| answer.servers.iter().all(|server| server != name));
        let missing = config.servers.iter().map(|server| &server.name).filter(|name| is_missing(name));
        let kept = missing.filter_map(|name| {
            let path = StateDir::of_service().file(&format!("{name}.history.sqlite")).filter(|path| path.exists())?;
            match kept_history(&path, app, since.as_secs()) {
                Ok(kept) => {
                    eprintln!("vpfs: the proxy of {name} does not answer; this is what it kept in {}", path.display());
                    Some(kept)
                }
                Err(error) => {
                    eprintln!("vpfs: what the proxy of {name} kept in {} cannot be read: {error}", path.display());
                    None
                }
            }
        });
        kept.collect()
    }
}

/// Why there is no report.
#[derive(Debug)]
pub(super) enum Silence {
    /// There is no socket.
    Absent,
    /// There is a socket, but nobody listens.
    Ended,
    /// Only others may use the socket.
    Denied,
    /// Something answered, but not with a report.
    Unclear(String),
}

impl Silence {
    fn of(error: &std::io::Error) -> Self {
        match error.kind() {
            ErrorKind::NotFound | ErrorKind::NotADirectory => Self::Absent,
            // A proxy leaves its socket behind.
            ErrorKind::ConnectionRefused => Self::Ended,
            ErrorKind::PermissionDenied => Self::Denied,
            _ => Self::Unclear(format!("cannot be asked: {error}")),
        }
    }

    /// It may hang, or be stopped.
    fn late(patience: Duration) -> Self {
        Self::Unclear(format!("does not answer within {patience:?}"))
    }
}

/// A connection to the first of these sockets at which a proxy listens; if there is none, why not at the first one that
/// is there.
pub(super) async fn connect(sockets: &[PathBuf]) -> Result<UnixStream, Silence> {
    let mut why = Silence::Absent;
    for path in sockets {
        match UnixStream::connect(path).await {
            Ok(stream) => return Ok(stream),
            Err(error) if matches!(why, Silence::Absent) => why = Silence::of(&error),
            Err(_) => {}
        }
    }
    Err(why)
}

/// The answer to `route` of the proxy that has one of these sockets.
async fn ask<T: DeserializeOwned>(sockets: &[PathBuf], route: &str) -> Result<T, Silence> {
    understood(get_by(connect(sockets).await?, route).await)
}

/// The same of the proxy of a server, anywhere, by `[peers]`.
async fn ask_remote<T: DeserializeOwned>(peers: &Peers, server: ServerId, route: &str) -> Result<T, Silence> {
    let (host, port) = &peers.addresses[server.index()];
    let place = format!("{host}:{port}");
    let stream = connect_to_ask(peers, server).await.map_err(|error| unreachable(&place, &error))?;
    match get_by(stream, route).await {
        Err(Failure::Closed) => Err(without_answer(&place)),
        other => understood(other),
    }
}

fn unreachable(place: &str, error: &std::io::Error) -> Silence {
    Silence::Unclear(format!("cannot be asked at {place}: {error}"))
}

/// With TLS 1.3, a refusal comes when the connection is open already.
fn without_answer(place: &str) -> Silence {
    let why = "it has another key, does not accept this certificate, or is stopping; its log says which";
    Silence::Unclear(format!("sends no answer at {place}: {why}"))
}

fn understood<T: DeserializeOwned>(answer: Result<impl AsRef<[u8]>, Failure>) -> Result<T, Silence> {
    let another = "sends an answer of another version; upgrade it (SIGUSR2)";
    let answer = answer.map_err(|failure| match failure {
        Failure::Connect(error) => Silence::of(&error),
        Failure::Closed => {
            let what = "sends no answer: it is stopping or handing over to a newer one; try again";
            Silence::Unclear(what.to_owned())
        }
        Failure::Late => Silence::late(Duration::from_secs(10)),
        Failure::Refused(reason) => Silence::Unclear(format!("says: {reason}")),
        Failure::Newer(version) => {
            Silence::Unclear(format!("has version {version} of this set already, which is not older"))
        }
        Failure::Unknown(error) => Silence::Unclear(format!("{another} ({error})")),
    })?;
    serde_json::from_slice(answer.as_ref()).map_err(|error| Silence::Unclear(format!("{another} ({error})")))
}

/// What is said of the proxy before "at" and its socket's path.
impl fmt::Display for Silence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Absent => "has no socket",
            Self::Ended => "has ended: start it, or remove the socket that it left if it is not to run here",
            Self::Denied => {
                "can only be asked by root, the user that it runs as, and the group of its socket; try sudo"
            }
            Self::Unclear(what) => what,
        })
    }
}

/// What became of a change at the proxies of a configuration.
#[derive(Debug, Default)]
pub(super) struct Changed {
    /// Servers whose proxy has it now.
    pub(super) done: Vec<String>,
    /// Whether anything is different there than before.
    pub(super) is_different: bool,
    pub(super) failed: BTreeMap<String, String>,
}

#[derive(Debug)]
pub(super) struct NotChanged {
    /// The version that it has instead.
    pub(super) newer: Option<u64>,
    pub(super) silence: Silence,
}

impl From<Silence> for NotChanged {
    fn from(silence: Silence) -> Self {
        Self { newer: None, silence }
    }
}

/// Changes a set at the proxy of a server; whether its applications were others before.
pub(super) async fn change_one(
    config: &Config,
    remote: bool,
    server: ServerId,
    to: &Change,
) -> Result<bool, NotChanged> {
    let result = match config.peers.as_ref().filter(|_| remote) {
        None => change_by(connect(&sockets(config, &config.servers[server.index()].name)).await?, to).await,
        Some(peers) => {
            let (host, port) = &peers.addresses[server.index()];
            let place = format!("{host}:{port}");
            let stream = connect_to_ask(peers, server).await.map_err(|error| unreachable(&place, &error))?;
            match change_by(stream, to).await {
                Err(Failure::Closed) => return Err(without_answer(&place).into()),
                other => other,
            }
        }
    };
    let newer = if let Err(Failure::Newer(version)) = result { Some(version) } else { None };
    understood(result).map_err(|silence| NotChanged { newer, silence })
}

pub(super) fn read_token(path: &Path) -> Result<String, Exit> {
    let text = read_text(path).map_err(|error| Exit::Failed(format!("cannot read {}: {error}", path.display())))?;
    Ok(text.trim().to_owned())
}

/// A version for a set: microseconds since 1970, so that the next one is larger also after a restart.
pub(super) fn version_now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
}

pub(super) struct Kept {
    /// When the earliest sample of any began, in seconds since 1970; `None` if there is none.
    pub(super) begins: Option<u64>,
    pub(super) samples: Vec<Sample>,
}

/// Nobody waits longer for a key.
const CANDIDATES_PATIENCE: Duration = Duration::from_millis(500);

pub(super) fn apps() -> ArgValueCandidates {
    ArgValueCandidates::new(|| {
        let Some(config) = config() else { return Vec::new() };
        let mut names: Vec<String> = config.apps.iter().map(|app| app.name.clone()).collect();
        names.extend(present(&config).into_iter().flatten());
        candidates(names)
    })
}

pub(super) fn servers() -> ArgValueCandidates {
    ArgValueCandidates::new(|| {
        let servers = config().map(|config| config.servers).unwrap_or_default();
        candidates(servers.into_iter().map(|server| server.name).collect())
    })
}

/// Those that the proxies of this host know.
fn present(config: &Config) -> Option<Vec<String>> {
    let asking = Asking::of(path(), Vec::new(), false);
    let answers = async { timeout(CANDIDATES_PATIENCE, asking.answers::<api::Status>(config)).await };
    let answers = runtime().ok()?.block_on(answers).ok()?.ok()?;
    let servers = answers.list.into_iter().flat_map(|status| status.servers);
    Some(servers.flat_map(|server| server.apps).map(|app| app.app).collect())
}

fn candidates(mut names: Vec<String>) -> Vec<CompletionCandidate> {
    names.sort_unstable();
    names.dedup();
    names.into_iter().map(CompletionCandidate::new).collect()
}

fn config() -> Option<Config> {
    Config::load(&path()).ok()
}

/// That on the line that is completed, which is not parsed for this.
fn path() -> PathBuf {
    let mut words = std::env::args_os().skip_while(|word| word != "--").skip(1);
    while let Some(word) = words.next() {
        let text = word.to_string_lossy();
        if text == "--config" {
            return words.next().map_or_else(PathBuf::new, PathBuf::from);
        }
        if let Some(path) = text.strip_prefix("--config=") {
            return path.into();
        }
    }
    CONFIG.into()
}

// Where the sockets of proxies are: one rule for the proxies, and for the commands that ask them.

/// Set by systemd for a service with `RuntimeDirectory=`; several directories are separated by colons.
const OF_SERVICE: &str = "RUNTIME_DIRECTORY";

/// Set for a user's session, who may not write to `/run`.
const OF_USER: &str = "XDG_RUNTIME_DIR";

const OF_SYSTEM: &str = "/run/vpfs";

/// The directories where a proxy with this configuration may have its socket; it takes the first one that it can.
///
/// That in `peers.sockets` if the file has another one than the default. Otherwise the first of `$RUNTIME_DIRECTORY`,
/// `/run/vpfs`, and `vpfs` in `$XDG_RUNTIME_DIR`.
pub(super) fn runtime_dir_of(config: &Config) -> Vec<PathBuf> {
    match config.sockets() {
        chosen if chosen != Path::new(OF_SYSTEM) => vec![chosen.to_owned()],
        _ => runtime_dirs(),
    }
}

/// The same without a configuration.
pub(super) fn runtime_dirs() -> Vec<PathBuf> {
    among(std::env::var_os(OF_SERVICE), std::env::var_os(OF_USER))
}

fn among(of_service: Option<OsString>, of_user: Option<OsString>) -> Vec<PathBuf> {
    let of_service = of_service.and_then(|list| std::env::split_paths(&list).next());
    let of_user = of_user.map(|directory| Path::new(&directory).join("vpfs"));
    let all = [of_service, Some(OF_SYSTEM.into()), of_user];
    let mut all: Vec<PathBuf> = all.into_iter().flatten().filter(|path| path.is_absolute()).collect();
    all.dedup();
    all
}

/// Why there is no directory, and how to get one.
pub(super) const REMEDY: &str = "create one of these directories for the user that runs it, or name one: `sockets` in \
                                 a [peers] table, or XDG_RUNTIME_DIR in the environment of the proxy and of those who ask";

#[cfg(test)]
pub(super) mod tests {
    use std::fs;
    use std::io::{Read, Write};
    use std::os::unix::fs::PermissionsExt;
    use std::os::unix::net::UnixListener;
    use std::path::Path;

    use vpfs_proxy::PeersReport;
    use vpfs_proxy::admin::PEERS;

    use super::*;
    use crate::cmd::runtime;

    /// The configuration of two servers whose proxies were stopped: nobody takes what is sent to them.
    pub(crate) fn stopped(folder: &Path) -> (PathBuf, [UnixListener; 2], std::net::TcpListener) {
        let path = folder.join("vpfs.toml");
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let text = format!(
            "[[server]]\nname = \"s1\"\naddress = \"tcp://127.0.0.1:1\"\n\
             [[server]]\nname = \"s2\"\naddress = \"tcp://127.0.0.2:1\"\n[[listener]]\nport = 5334\n\
             [peers]\nshared_key = \"peers.key\"\nsockets = \"sockets\"\n\
             addresses = {{ s1 = \"127.0.0.1:{port}\", s2 = \"127.0.0.2:{port}\" }}\n"
        );
        fs::write(&path, text).unwrap();
        fs::create_dir(folder.join("sockets")).unwrap();
        let key = folder.join("peers.key");
        fs::write(&key, "0123456789abcdef".repeat(4)).unwrap();
        fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).unwrap();
        let sockets = ["s1", "s2"].map(|name| UnixListener::bind(folder.join(format!("sockets/{name}.sock"))).unwrap());
        (path, sockets, listener)
    }

    /// Symptom: with one proxy that was stopped, `vpfs top` took 22 s. Cause: each answer was waited for ten seconds,
    /// and the way to a proxy on another host counted apart.
    #[tokio::test(start_paused = true)]
    async fn proxies_that_hang_take_two_seconds_together() {
        let folder = tempfile::tempdir().unwrap();
        let (path, _sockets, _port) = stopped(folder.path());
        for remote in [false, true] {
            let asking = Asking::of(path.clone(), Vec::new(), remote);
            let began = tokio::time::Instant::now();
            let Err(Exit::Failed(text)) = asking.answers::<Status>(&asking.config().unwrap()).await else {
                panic!("they say nothing")
            };
            assert!(text.contains("the proxy of s1 does not answer within 2s"), "{text}");
            assert!(began.elapsed() < PATIENCE * 11 / 10, "{:?}", began.elapsed());
        }
    }

    /// Symptom: `vpfs top` showed the other servers, and not a word of one whose proxy had died.
    #[tokio::test]
    async fn one_that_has_ended_is_told_while_others_answer() {
        let folder = tempfile::tempdir().unwrap();
        let (path, [answering, ended], _port) = stopped(folder.path());
        drop(ended);
        let answer = std::thread::spawn(move || {
            let mut stream = answering.accept().unwrap().0;
            assert!(stream.read(&mut [0; 1024]).unwrap() > 0);
            let body = r#"{"servers": ["s1"], "sets": []}"#;
            write!(stream, "HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len()).unwrap();
        });
        let asking = Asking::of(path, Vec::new(), false);
        let answers = asking.answers::<PushedSets>(&asking.config().unwrap()).await.unwrap();
        answer.join().unwrap();
        assert_eq!(answers.list.len(), 1);
        assert!(answers.silent[0].starts_with("the proxy of s2 has ended"), "{:?}", answers.silent);
    }

    /// `vpfs peers` said that no proxy runs on the host whatever the reason was, also while one did.
    #[test]
    fn the_reason_is_said() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("vpfs.toml");
        let text = "[[server]]\nname = \"s1\"\naddress = \"tcp://127.0.0.1:3334\"\n[[listener]]\nport = 5334\n\
                    [peers]\nport = 7334\nsecurity = \"none\"\nsockets = \"sockets\"\n";
        fs::write(&path, text).unwrap();
        let config = Config::load(&path).unwrap();
        let why = |servers: &[&str]| {
            let servers = servers.iter().map(|name| (*name).to_owned()).collect();
            let asking = Asking { config: path.clone(), servers, remote: false };
            match runtime().unwrap().block_on(asking.answers::<PeersReport>(&config)) {
                Err(Exit::Failed(text) | Exit::Usage(text)) => text,
                other => panic!("{other:?}"),
            }
        };
        assert!(why(&[]).contains("vpfs proxy --config") && why(&[]).contains("/sockets\n"), "{}", why(&[]));
        fs::create_dir(folder.path().join("sockets")).unwrap();
        drop(UnixListener::bind(folder.path().join("sockets/s1.sock")).unwrap());
        assert!(why(&["s1"]).contains("the proxy of s1 has ended"), "{}", why(&["s1"]));
        assert!(why(&["s2"]).contains("s2"), "no such server: {}", why(&["s2"]));
    }

    async fn ask(path: &Path) -> Result<PeersReport, Silence> {
        super::ask(&[path.to_owned()], PEERS).await
    }

    /// The text for a socket at which somebody answers with `answer`.
    async fn text_for(answer: &'static [u8]) -> String {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s1.sock");
        let listener = UnixListener::bind(&path).unwrap();
        let answering = std::thread::spawn(move || {
            let mut stream = listener.accept().unwrap().0;
            assert!(stream.read(&mut [0; 1024]).unwrap() > 0);
            stream.write_all(answer).unwrap();
        });
        let silence = ask(&path).await.unwrap_err().to_string();
        answering.join().unwrap();
        silence
    }

    /// Symptom: where `/run/vpfs` was missing, a proxy had no socket, and every command failed.
    #[tokio::test]
    async fn the_first_socket_with_a_proxy_is_asked() {
        let folder = tempfile::tempdir().unwrap();
        let [absent, ended, live] = ["absent", "ended", "live"].map(|name| folder.path().join(name));
        drop(UnixListener::bind(&ended).unwrap());
        assert!(matches!(connect(&[absent.clone(), ended.clone()]).await, Err(Silence::Ended)));
        let _live = UnixListener::bind(&live).unwrap();
        assert!(connect(&[absent, ended, live]).await.is_ok());
        assert!(matches!(connect(&[]).await, Err(Silence::Absent)));
    }

    #[tokio::test]
    async fn each_reason_has_its_own_words() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s1.sock");
        assert!(matches!(ask(&path).await, Err(Silence::Absent)));
        drop(UnixListener::bind(&path).unwrap());
        assert!(matches!(ask(&path).await, Err(Silence::Ended)));
        assert!(text_for(b"").await.contains("try again"));
        let other = [
            &b"{\"servers\": [\"s1\"]}"[..],
            b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n",
            b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}",
        ];
        for answer in other {
            let text = text_for(answer).await;
            assert!(text.contains("another version"), "{text}");
        }
    }

    #[test]
    fn the_service_goes_before_the_system_and_the_user() {
        let among = |of_service: &str, of_user: &str| {
            let set = |text: &str| (!text.is_empty()).then(|| text.into());
            among(set(of_service), set(of_user)).iter().map(|path| path.display().to_string()).collect::<Vec<_>>()
        };
        assert_eq!(among("", ""), ["/run/vpfs"]);
        assert_eq!(among("/run/vpfs:/run/b", ""), ["/run/vpfs"]);
        assert_eq!(among("/run/a:/run/b", "/run/user/7"), ["/run/a", "/run/vpfs", "/run/user/7/vpfs"]);
        assert_eq!(among("relative", "relative"), ["/run/vpfs"], "the XDG specification has relative ones ignored");
    }

    #[test]
    fn a_directory_in_the_file_is_the_only_one() {
        let config = |sockets: &str| {
            let text = format!(
                "[[server]]\nname = \"s1\"\naddress = \"tcp://127.0.0.1:1\"\n[[listener]]\nport = 5334\n\
                 [peers]\nport = 7334\nsecurity = \"none\"\n{sockets}"
            );
            runtime_dir_of(&Config::parse("a", &text).unwrap())
        };
        assert_eq!(config("sockets = \"/srv/vpfs\""), [PathBuf::from("/srv/vpfs")]);
        assert_eq!(config(""), runtime_dirs());
    }
}
