//! Harness of the end-to-end tests: programs are started and stopped as by a user, on loopback or in namespaces.
//!
//! Everything panics if it fails, with what the programs printed. What takes a moment is waited for, 20 s at most.

mod machine;
pub mod requirements;

use std::borrow::BorrowMut;
use std::fs::File;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

pub use machine::{Disk, Hosts, Machine};

/// How long is waited for what takes a moment.
const PATIENCE: Duration = Duration::from_secs(20);

/// The directory of a service's sockets.
const RUNTIME: &str = "RUNTIME_DIRECTORY";

/// The vpfs command that was built along with the tests.
pub fn vpfs() -> PathBuf {
    let mut path = std::env::current_exe().expect("the path of this test");
    // target/debug/deps/test-1234 -> target/debug/vpfs
    path.pop();
    path.pop();
    path.push("vpfs");
    assert!(path.exists(), "{} is missing; run `cargo build` first", path.display());
    path
}

/// `count` consecutive ports of 127.0.0.1 that no other test gets, in this process or another one; the first one. They
/// are below those that clients get, and nothing else listens at them.
pub fn free_ports(count: u16) -> u16 {
    /// Each span belongs to the process that has bound its last port.
    const SPAN: u16 = 50;
    static CLAIMED: Mutex<Vec<TcpListener>> = Mutex::new(Vec::new());
    assert!(count < SPAN, "{count} ports at a time");
    let is_free = |port| TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_err();
    for start in (10_000..32_000 - SPAN).step_by(usize::from(SPAN)) {
        let Ok(claim) = TcpListener::bind((Ipv4Addr::LOCALHOST, start + SPAN - 1)) else { continue };
        // A span with a port that is not free stays claimed, so that it is not tried again.
        CLAIMED.lock().unwrap_or_else(PoisonError::into_inner).push(claim);
        if (start..start + count).all(is_free) {
            return start;
        }
    }
    panic!("no free ports")
}

/// Writes a program. Another process does it: a file that this one has open for writing is also open in what other
/// threads start at that moment, and cannot be executed ("Text file busy").
pub fn write_program(path: &Path, text: &str) {
    let draft = path.with_extension("draft");
    write_file(&draft, text);
    run(Command::new("install").args(["-m", "755"]).args([&draft, path]));
    std::fs::remove_file(draft).expect("our own");
}

/// The lines of a log that complain; not that storage has become slower, which the model of a disk does on a machine
/// with other work.
pub fn complaints(log: &str) -> Vec<&str> {
    let complains = |line: &&str| ["WARN", "ERROR"].iter().any(|level| line.contains(level));
    log.lines().filter(complains).filter(|line| !line.contains("the storage is slower than it was")).collect()
}

/// Asks again and again for something that other processes do by their own clocks, until `found` is `Ok`.
pub fn await_some<T>(limit: Duration, mut found: impl FnMut() -> Result<T, String>) -> T {
    let start = Instant::now();
    loop {
        match found() {
            Ok(found) => return found,
            Err(last) => assert!(start.elapsed() < limit, "not after {limit:?}: {last}"),
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// A background process that is stopped with the test.
#[derive(Debug)]
pub struct Daemon {
    child: Child,
    name: String,
    log: PathBuf,
}

impl Daemon {
    /// Starts `command` with its output going to `name`.log in `dir`. A proxy has its socket there, too, unless the
    /// command or its configuration says where: those of other tests have the same names.
    pub fn start(dir: &Path, name: &str, mut command: impl BorrowMut<Command>) -> Self {
        let command = command.borrow_mut();
        if !command.get_envs().any(|(variable, _)| variable == RUNTIME) {
            command.env(RUNTIME, dir);
        }
        let log = dir.join(format!("{name}.log"));
        let out = File::options().create(true).append(true).open(&log).expect("a log file");
        let err = out.try_clone().expect("a log file");
        let child = command.stdin(Stdio::null()).stdout(out).stderr(err).spawn();
        let child = child.unwrap_or_else(|error| panic!("cannot start {command:?}: {error}"));
        Self { child, name: name.to_owned(), log }
    }

    /// Starts `vpfs serve` at 127.0.0.1 with these ports, and waits until it listens.
    pub fn serve(dir: &Path, ports: std::ops::Range<u16>, args: &[&str]) -> Self {
        let (listen, servers) = (format!("127.0.0.1:{}", ports.start), ports.len().to_string());
        let mut serve = command(dir, &["serve", "--listen", &listen, "--servers", &servers]);
        let mut servers = Self::start(dir, "servers", serve.args(args));
        servers.await_port(ports.end - 1);
        servers
    }

    /// Starts a proxy with its state in `dir`, and waits until it is ready.
    pub fn proxy(dir: &Path, config: &Path) -> Self {
        let mut command = ours(&["proxy", "--config"]);
        let mut proxy = Self::start(dir, "proxy", command.arg(config).env("STATE_DIRECTORY", dir));
        proxy.await_log("ready");
        proxy
    }

    /// Waits until something listens at the port.
    pub fn await_port(&mut self, port: u16) {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        self.await_that(&format!("listen at {address}"), || TcpStream::connect(address).is_ok());
    }

    /// Waits until the log has `text`.
    pub fn await_log(&mut self, text: &str) {
        let log = self.log.clone();
        self.await_that(&format!("log {text:?}"), || std::fs::read_to_string(&log).is_ok_and(|log| log.contains(text)));
    }

    fn await_that(&mut self, what: &str, mut done: impl FnMut() -> bool) {
        await_some(PATIENCE, || {
            if done() {
                return Ok(());
            }
            let ended = self.ended();
            assert!(ended.is_none(), "{} ended ({ended:?}):\n{}", self.name, self.log());
            Err(format!("{} did not {what}:\n{}", self.name, self.log()))
        });
    }

    /// Everything it has printed.
    pub fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Sends a signal, for example "TERM".
    pub fn signal(&self, name: &str) {
        let status = Command::new("kill").arg(format!("-{name}")).arg(self.child.id().to_string()).status();
        assert!(status.expect("kill").success(), "cannot send {name} to {}", self.name);
    }

    /// Its process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// How it ended, if it has.
    pub fn ended(&mut self) -> Option<std::process::ExitStatus> {
        self.child.try_wait().expect("the state of a child")
    }

    /// Waits for its end.
    pub fn wait(&mut self) -> std::process::ExitStatus {
        await_some(PATIENCE, || self.ended().ok_or_else(|| format!("{} does not end:\n{}", self.name, self.log())))
    }

    /// Ends it in order, as a service manager does.
    pub fn terminate(&mut self) {
        self.signal("TERM");
        assert!(self.wait().success(), "{}", self.log());
    }

    /// Has a proxy hand over to a successor, and waits for its end.
    pub fn upgrade(&mut self) -> Successor {
        let mut successor = Successor::default();
        self.signal("USR2");
        self.await_log("connections are handed over");
        successor.follow(&self.log());
        assert!(self.wait().success(), "{}", self.log());
        successor
    }

    /// Ends it at once, as a crash would.
    pub fn kill(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        self.kill();
    }
}

/// The process that took over last, if any; killed with the test.
#[derive(Debug, Default)]
pub struct Successor(Option<String>);

impl Successor {
    /// It is the one that the log of its predecessors names last; they have handed everything over, and end by
    /// themselves.
    pub fn follow(&mut self, log: &str) {
        let ready = log.lines().rfind(|line| line.contains("the successor is ready"));
        self.0 = ready.and_then(|line| line.rsplit("pid=").next()).map(str::to_owned);
    }

    /// Sends it a signal.
    pub fn signal(&self, name: &str) {
        if let Some(pid) = &self.0 {
            let status = Command::new("kill").args([&format!("-{name}"), pid]).status();
            assert!(status.is_ok_and(|status| status.success()), "cannot send {name} to {pid}");
        }
    }
}

impl Drop for Successor {
    fn drop(&mut self) {
        self.signal("KILL");
    }
}

/// The vpfs command.
pub fn ours(args: &[&str]) -> Command {
    let mut command = Command::new(vpfs());
    command.args(args);
    command
}

/// The vpfs command in a directory.
pub fn command(dir: &Path, args: &[&str]) -> Command {
    let mut command = ours(args);
    command.current_dir(dir);
    command
}

/// Runs a command that succeeds to its end; all that it printed.
pub fn run(mut command: impl BorrowMut<Command>) -> String {
    let command = command.borrow_mut();
    let output = output(&mut *command);
    assert!(output.status.success(), "{command:?} failed with {}:\n{}", output.status, printed(&output));
    printed(&output)
}

/// Runs a command repeatedly until it succeeds.
pub fn run_until_it_succeeds(command: &mut Command) {
    await_some(Duration::from_secs(30), || {
        let last = output(&mut *command);
        if last.status.success() { Ok(()) } else { Err(format!("{command:?}: {last:?}")) }
    });
}

/// Runs a command to its end, whatever its result.
pub fn output(mut command: impl BorrowMut<Command>) -> Output {
    let command = command.borrow_mut();
    command.stdin(Stdio::null()).output().unwrap_or_else(|error| panic!("cannot run {command:?}: {error}"))
}

/// What it printed to standard output.
pub fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// What it printed to standard error.
pub fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// What it printed to both, standard output first.
pub fn printed(output: &Output) -> String {
    stdout(output) + &stderr(output)
}

/// Writes a file.
pub fn write_file(path: impl AsRef<Path>, content: impl AsRef<[u8]>) {
    std::fs::write(path, content).expect("a file");
}

/// A configuration for `servers` servers at consecutive ports from `server_port`, with proxies from `proxy_port`,
/// followed by `rest`.
pub fn proxy_config(servers: u16, server_port: u16, proxy_port: u16, rest: &str) -> String {
    let mut text = String::new();
    for i in 0..servers {
        text += &format!("[[server]]\nname = \"s{}\"\naddress = \"tcp://127.0.0.1:{}\"\n\n", i + 1, server_port + i);
    }
    let addresses: Vec<String> =
        (0..servers).map(|i| format!("s{} = \"tcp://127.0.0.1:{}\"", i + 1, proxy_port + i)).collect();
    text + &format!("[[listener]]\naddresses = {{ {} }}\n\n{rest}\n", addresses.join(", "))
}

/// Status and body of the answer to GET `path` of the server at `address`, with header lines that end in CRLF.
pub fn get(address: &str, path: &str, headers: &str) -> (u16, String) {
    let stream = TcpStream::connect(address).expect("somebody listens");
    stream.set_read_timeout(Some(Duration::from_secs(20))).expect("a time limit");
    get_by(stream, path, headers)
}

/// The same by a connection.
pub fn get_by(mut stream: impl Read + Write, path: &str, headers: &str) -> (u16, String) {
    write!(stream, "GET {path} HTTP/1.0\r\n{headers}\r\n").expect("a request");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
    (status, body.to_owned())
}

/// The cells after the first one of a row of a page's table below `heading`.
pub fn cells(page: &str, heading: &str, first: &str) -> Option<Vec<String>> {
    let (_, section) = page.split_once(&format!("<h2>{heading}</h2>"))?;
    let section = section.split_once("</section>").map_or(section, |(section, _)| section);
    let text = |cell: &str| Some(cell.split_once('>')?.1.split_once("</td>")?.0.to_owned());
    let rows = section.split("<tr>").map(|row| row.split("<td").filter_map(text).collect::<Vec<_>>());
    rows.into_iter().find(|row| row.first().is_some_and(|cell| cell == first)).map(|row| row[1..].to_vec())
}
