//! Stock NFS clients through the proxy to a real server: libnfs's tools and nfs-ganesha, in a network namespace,
//! because NFSv3 needs a port mapper. Skipped with a message where these are missing.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use vpfs_e2e::requirements::are_present;
use vpfs_e2e::{Daemon, Hosts, ours, output, run, write_file};

const PROGRAMS: [&str; 6] = ["ganesha.nfsd", "rpcbind", "unshare", "nfs-ls", "nfs-cp", "nfs-cat"];

/// An export, its server, and a proxy in front of it.
struct Site {
    dir: tempfile::TempDir,
    hosts: Hosts,
    proxy: Daemon,
    _server: Daemon,
}

impl Site {
    /// `None`, which is reported, if something is missing. `rest` is the end of the proxy's configuration.
    fn start(rest: &str) -> Option<Self> {
        Self::with(0, |config| write_file(config, format!("{}{rest}", Self::NETWORK)))
    }

    /// The same with a proxy on this host of the configuration that `configure` writes.
    fn with(host: u16, configure: impl FnOnce(&Path)) -> Option<Self> {
        if !are_present("nfs", &PROGRAMS) {
            return None;
        }
        let hosts = Hosts::new()?;
        let dir = tempfile::tempdir().expect("a directory");
        let _server = Self::server(&hosts, dir.path());
        let config = dir.path().join("vpfs.toml");
        configure(&config);
        let mut proxy = Daemon::start(dir.path(), "proxy", hosts.on(host).args(["proxy", "--config"]).arg(&config));
        proxy.await_log("ready");
        Some(Self { dir, hosts, proxy, _server })
    }

    const NETWORK: &str = "[[server]]\nname = \"nfs\"\naddress = \"nfs://127.0.0.1:2049\"\n\
                           [[server]]\nname = \"mountd\"\naddress = \"nfs://127.0.0.1:20048\"\n\
                           [[listener]]\naddresses = { nfs = \"nfs://127.0.0.1:12049\", mountd = \"nfs://127.0.0.1:12048\" }\n";

    fn server(hosts: &Hosts, dir: &Path) -> Daemon {
        let at = dir.display();
        for export in ["export", "scratch"] {
            std::fs::create_dir(dir.join(export)).expect("a directory");
            std::fs::set_permissions(dir.join(export), std::fs::Permissions::from_mode(0o777)).expect("its mode");
        }
        let config = format!(
            "NFS_CORE_PARAM {{ Protocols = 3, 4; NFS_Port = 2049; MNT_Port = 20048; Enable_NLM = false;\n\
             Enable_RQUOTA = false; Enable_UDP = false; mount_path_pseudo = true; }}\n\
             NFSv4 {{ RecoveryRoot = \"{at}/recovery\"; Graceless = true; Only_Numeric_Owners = true; }}\n\
             EXPORT_DEFAULTS {{ SecType = sys, none; Squash = None; Access_Type = RW; }}\n\
             EXPORT {{ Export_Id = 1; Path = \"{at}/export\"; Pseudo = \"/vfs\"; Protocols = 3, 4; Transports = TCP;\n\
             MaxRead = 1048576; MaxWrite = 1048576; FSAL {{ Name = VFS; }} }}\n\
             EXPORT {{ Export_Id = 2; Path = \"{at}/scratch\"; Pseudo = \"/scratch\"; Protocols = 3, 4; Transports = TCP;\n\
             FSAL {{ Name = VFS; }} }}\n"
        );
        write_file(dir.join("ganesha.conf"), config);
        std::fs::create_dir(dir.join("recovery")).expect("a directory");
        // The port mapper has its files in /run, and ends with the server.
        let script = format!(
            "mount -t tmpfs none /run; mkdir /run/rpcbind; rpcbind -f & until [ -e /run/rpcbind.sock ]; do sleep 0.05; \
             done; exec ganesha.nfsd -F -f {at}/ganesha.conf -L {at}/ganesha.log -p {at}/ganesha.pid"
        );
        let mut command = hosts.program(0, Path::new("unshare"));
        command.args(["--pid", "--mount", "--fork", "--kill-child", "sh", "-c", &script]);
        let server = Daemon::start(dir, "server", &mut command);
        let up = "until ss -Htln | grep -q :20048; do sleep 0.05; done";
        run(hosts.program(0, Path::new("timeout")).args(["20", "sh", "-c", up]));
        server
    }

    /// A tool of libnfs in the network of the proxy.
    fn tool(&self, name: &str) -> Command {
        self.hosts.program(0, Path::new(name))
    }

    /// A file of the export as its user, through the proxy.
    fn url(&self, file: &str, uid: u32) -> String {
        format!("nfs://127.0.0.1/vfs/{file}?nfsport=12049&mountport=12048&uid={uid}&gid={uid}")
    }

    /// Copies a file of this size to the export as this user, reads it there, and compares.
    fn copy(&self, name: &str, bytes: usize, uid: u32) {
        self.copy_from(0, name, bytes, &self.url(name, uid));
    }

    /// The same by a client on this host.
    fn copy_from(&self, host: u16, name: &str, bytes: usize, url: &str) {
        let local = self.dir.path().join(name);
        let content: Vec<u8> = (0..bytes).map(|at| (at * 7 + at / 253).to_le_bytes()[0]).collect();
        write_file(&local, &content);
        run(self.hosts.program(host, Path::new("nfs-cp")).arg(&local).arg(url));
        let copy = output(self.hosts.program(host, Path::new("nfs-cat")).arg(url));
        assert!(copy.status.success() && copy.stdout == content, "{name}");
    }

    /// Ends the proxy in order; data bytes that it has served to this application.
    fn served(&mut self, app: &str) -> u64 {
        if self.proxy.ended().is_none() {
            self.proxy.signal("TERM");
            self.proxy.wait();
        }
        let log = self.proxy.log();
        let line =
            log.lines().find(|line| line.contains(&format!("served app={app} "))).unwrap_or_else(|| panic!("{log}"));
        let bytes = line.split(' ').find_map(|field| field.strip_prefix("bytes=")).expect("its bytes");
        bytes.parse().expect("a number")
    }
}

#[test]
fn files_are_the_same_after_copies_through_the_proxy() {
    let Some(mut site) = Site::start("") else { return };
    let files = [("empty", 0), ("small", 100), ("large", 5_000_000)];
    for (name, bytes) in files {
        site.copy(name, bytes, 0);
    }
    for round in 0..20 {
        let version = 3 + round % 2;
        let listing = run(site.tool("nfs-ls").arg(format!("{}&version={version}", site.url("", 0))));
        assert!(files.iter().all(|(name, _)| listing.contains(name)), "{listing}");
    }
    // What was written and read, and nothing else, is charged as data.
    assert_eq!(site.served("host:127.0.0.1"), 2 * 5_000_100);
}

#[test]
fn every_call_belongs_to_its_user() {
    let Some(mut site) = Site::start("[[app]]\nname = \"alice\"\nuids = 1000\n[apps]\nauto = \"uid\"\n") else {
        return;
    };
    std::thread::scope(|scope| {
        scope.spawn(|| site.copy("alices", 3_000_000, 1000));
        scope.spawn(|| site.copy("bobs", 2_000_000, 1001));
    });
    let [alice, bob] = [site.served("alice"), site.served("uid:1001")];
    assert_eq!([alice, bob], [6_000_000, 4_000_000]);
}

/// An export by the port that it is mounted at, everything else by the name that clients state: libnfs's is its own.
#[test]
fn exports_and_machines_are_told_apart() {
    let rest = "[[listener]]\naddresses = { nfs = \"nfs://127.0.0.1:13049\", mountd = \"nfs://127.0.0.1:13048\" }\n\
                [[app]]\nname = \"scratch\"\nlisteners = 13049\n[[app]]\nname = \"tools\"\nmachines = \"lib*\"\n";
    let Some(mut site) = Site::start(rest) else { return };
    site.copy("file", 1_000_000, 0);
    site.copy_from(0, "other", 2_000_000, "nfs://127.0.0.1/scratch/other?nfsport=13049&mountport=13048");
    assert_eq!(["tools", "scratch"].map(|app| site.served(app)), [2_000_000, 4_000_000]);
}

#[test]
fn a_proxy_at_an_address_of_its_own_is_mounted_without_options() {
    let ports = [("nfs", 2049), ("mountd", 20048), ("portmapper", 111)];
    let server = |(name, port)| format!("[[server]]\nname = \"{name}\"\naddress = \"nfs://10.77.0.100:{port}\"\n");
    let addresses = ports.map(|(name, port)| format!("{name} = \"nfs://10.77.0.1:{port}\""));
    let listener = format!("[[listener]]\naddresses = {{ {} }}\n", addresses.join(", "));
    let config = ports.map(server).concat() + &listener;
    let Some(mut site) = Site::with(1, |path| write_file(path, &config)) else { return };
    let listing = run(site.hosts.program(2, Path::new("nfs-ls")).args(["-D", "nfs://10.77.0.1"]));
    assert!(listing.contains("nfs://10.77.0.1/vfs"), "{listing}");
    site.copy_from(2, "file", 3_000_000, "nfs://10.77.0.1/vfs/file");
    assert_eq!(site.served("host:10.77.0.2"), 6_000_000);
}

#[test]
fn clients_of_the_servers_address_are_redirected() {
    if !are_present("nft", &["nft"]) {
        return;
    }
    let init = |config: &Path| {
        let mut init = ours(&["init", "--nfs", "10.77.0.100:/vfs", "--redirect", "--output"]);
        init.arg(config.with_file_name("init"));
        run(&mut init);
        std::fs::rename(config.with_file_name("init/vpfs.toml"), config).expect("it was written");
    };
    let Some(mut site) = Site::with(0, init) else { return };
    let url = |name: &str| format!("nfs://10.77.0.100/vfs/{name}");
    site.copy_from(1, "direct", 1_000_000, &url("direct"));
    run(site.hosts.program(0, Path::new("nft")).arg("-f").arg(site.dir.path().join("init/vpfs.nft")));
    site.copy_from(1, "redirected", 2_000_000, &url("redirected"));
    // The server's own host reaches it directly.
    site.copy_from(0, "own", 1_000_000, &url("own"));
    assert_eq!(site.served("uid:0"), 4_000_000);
}

/// Bad input ends its own connection, and nobody else notices.
#[test]
fn what_is_not_nfs_is_cut_off() {
    let Some(mut site) = Site::start("") else { return };
    let bad = [
        "printf 'GET / HTTP/1.1\\r\\n\\r\\n'",
        "printf '\\177\\377\\377\\377'",
        "head -c 1000000 /dev/zero",
        "printf '\\26\\3\\1\\2\\0\\1\\0\\1\\374'",
    ];
    std::thread::scope(|scope| {
        scope.spawn(|| site.copy("file", 3_000_000, 0));
        for input in bad {
            // Ends when the proxy closes the connection.
            let script = format!("exec 3<>/dev/tcp/127.0.0.1/12049; {input} >&3; cat <&3; true");
            let ended = output(site.tool("timeout").args(["20", "bash", "-c", &script]));
            assert!(ended.status.success() && ended.stdout.is_empty(), "{input}: {ended:?}");
        }
    });
    assert_eq!(site.served("host:127.0.0.1"), 6_000_000);
    let log = site.proxy.log();
    assert!(log.contains("an RPC record of more than 4 MiB") && log.contains("NFS over TLS"), "{log}");
}
