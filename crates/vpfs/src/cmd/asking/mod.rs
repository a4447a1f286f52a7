//! Asking the proxies of a configuration that run on this host, at their sockets.

pub(super) mod candidates;
pub(super) mod changing;
mod history;
pub(super) mod silence;

use std::path::PathBuf;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use serde::de::DeserializeOwned;
use vpfs_admin::api::{History, Status};
use vpfs_admin::events::EventsReport;
use vpfs_admin::{EVENTS, HISTORY, PEERS, PushedSets, SETS, STATUS, socket};
use vpfs_config::{Config, Server};
use vpfs_core::ServerId;
use vpfs_proxy::PeersReport;

use super::{load_config, runtime_dir};
use crate::exit::Exit;
use silence::{Silence, ask, ask_remote};

/// Which proxies are asked.
#[derive(clap::Args)]
pub(crate) struct Asking {
    /// The configuration, see docs/config.md
    #[arg(long, value_name = "FILE", default_value = super::CONFIG)]
    config: PathBuf,

    /// Only the proxy of this server, by its name in the file; may be given several times [default: all that run here]
    #[arg(long = "server", value_name = "NAME", add = candidates::servers())]
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

/// What a proxy says.
pub(super) trait Answer: DeserializeOwned {
    /// What it is asked for.
    const ROUTE: &str;
    /// How long it may take, with the way there.
    const PATIENCE: Duration;

    /// The names of its servers.
    fn servers(&self) -> Vec<&str>;
}

/// Answers that name their servers.
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
    runtime_dir::of(config).iter().map(|directory| socket::path(directory, server)).collect()
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
    /// These proxies.
    pub(super) fn of(config: PathBuf, servers: Vec<String>, remote: bool) -> Self {
        Self { config, servers, remote }
    }

    /// The name of its file.
    pub(super) fn file(&self) -> String {
        self.config.display().to_string()
    }

    /// The configuration.
    pub(super) fn config(&self) -> Result<Config, Exit> {
        load_config(&self.config)
    }

    /// Whether this server was asked for.
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

    /// What the proxies say that were asked for.
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
            let directories = runtime_dir::of(config);
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
}

#[cfg(test)]
pub(super) mod tests {
    use std::fs;
    use std::io::{Read, Write};
    use std::os::unix::fs::PermissionsExt;
    use std::os::unix::net::UnixListener;
    use std::path::Path;

    use vpfs_proxy::PeersReport;

    use super::*;
    use crate::cmd::runtime;

    /// The configuration of two servers whose proxies were stopped: nobody takes what is sent to them.
    pub(in crate::cmd) fn stopped(folder: &Path) -> (PathBuf, [UnixListener; 2], std::net::TcpListener) {
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
}
