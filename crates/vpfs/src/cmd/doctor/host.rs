//! Checks of this host: descriptors, the state directory, who is connected to the servers here, the packet filter, how
//! much of what clients wrote is not stored yet.

use std::collections::BTreeMap;
use std::fs;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Command;

use futures_util::future::join_all;
use vpfs_config::{Config, Server};
use vpfs_core::{Bytes, ServerId};
use vpfs_proxy::{Reader, SecretProblem, StateDir, check_secrets, descriptors_needed};

use super::finding::{Check, Finding};
use super::sockets;
use crate::cmd::names::{Names, is_own};
use crate::cmd::write_back::{self, Device, DeviceError, Storage};

/// History takes up to 256 MiB; with what is needed to write it anew, no more than this.
const SPACE: u64 = 512 << 20;
/// From 32 MiB on, small writes were measured to wait behind what a disk of 60 MB/s stores at once
/// (docs/measurements.md). This is what the guide recommends for disks of 1 GB/s.
const GATHERED: Bytes = Bytes::mib(16);

/// Whether proxies with these process ids may open enough files.
pub(super) fn descriptors(config: &Config, processes: &[u32]) -> Vec<Finding> {
    let mut check = Check::new("descriptors");
    let needed = descriptors_needed(config.limits.connections);
    for process in processes {
        let Some(limit) = fs::read_to_string(format!("/proc/{process}/limits")).ok().and_then(|text| open_files(&text))
        else {
            return check.skip(format!("the limits of process {process} cannot be read"), "run this as root");
        };
        if limit < needed {
            let fix = "raise LimitNOFILE= of the service, or lower limits.connections; then restart it";
            check.fail(format!("process {process} may open {limit} files; limits.connections needs {needed}"), fix);
        }
    }
    if processes.is_empty() {
        return check.skip("no proxy was asked", "");
    }
    check.or(format!("enough for limits.connections ({needed})"))
}

/// The hard limit in the text of `/proc/PID/limits`: proxies raise the soft one to it.
fn open_files(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

/// Whether tokens and keys open what they are for, to nobody else, and can be read by the proxies with these process
/// ids.
pub(super) fn secrets(config: &Config, processes: &[u32]) -> Vec<Finding> {
    let mut check = Check::new("secrets");
    let status = |process: &u32| Some((*process, fs::read_to_string(format!("/proc/{process}/status")).ok()?));
    let running = processes.iter().filter_map(status);
    let mut readers: Vec<Reader> = running.filter_map(|(process, text)| Reader::of_process(process, &text)).collect();
    if readers.is_empty() {
        readers.extend(Reader::of_service());
    }
    let mut problems: Vec<SecretProblem> =
        readers.iter().flat_map(|reader| check_secrets(config, Some(reader))).collect();
    if readers.is_empty() {
        problems = check_secrets(config, None);
    }
    problems.dedup();
    for problem in problems {
        let fix = "let the user of the proxy read it (systemctl show --property=User vpfs-proxy), and no other user";
        if problem.is_useless { check.fail(problem, fix) } else { check.warn(problem, fix) }
    }
    check.or("tokens and keys can be read by the proxies, and not by all users")
}

/// Whether what outlives a restart can be written.
pub(super) fn state() -> Vec<Finding> {
    let check = Check::new("state");
    let Some(path) = StateDir::of_service().file("") else {
        let fix = "the packaged service makes it (StateDirectory=)";
        return check.skip("there is no /var/lib/vpfs: nothing outlives a restart, and there is no history", fix);
    };
    state_at(check, &path)
}

fn state_at(mut check: Check, path: &Path) -> Vec<Finding> {
    let place = path.display();
    match rustix::fs::statvfs(path) {
        Err(error) => check.fail(format!("{place}: {error}"), "look at the file system that it is on"),
        Ok(status) => {
            let free = status.f_bavail.saturating_mul(status.f_frsize);
            if status.f_flag.contains(rustix::fs::StatVfsMountFlags::RDONLY) {
                check.fail(format!("{place} is read-only"), "mount it so that it can be written, or repair it");
            } else if free < SPACE {
                let fix = "make space there, or write enabled = \"off\" under [history]";
                check.warn(format!("{place} has {} MiB free; history takes up to 256 MiB", free >> 20), fix);
            }
        }
    }
    check.or(format!("{place} has space"))
}

/// Whether clients are connected to the servers of this host past their proxies.
pub(super) fn bypass(config: &Config, here: &[ServerId], names: &Names) -> Vec<Finding> {
    let mut check = Check::new("bypass");
    let tables = ["/proc/net/tcp", "/proc/net/tcp6"].map(|path| fs::read_to_string(path).unwrap_or_default());
    let connections: Vec<_> = tables.iter().flat_map(|table| sockets::established(table)).collect();
    let servers = config.resolve_servers(&|name| names.of(name));
    // A proxy may run on another host than its server.
    let proxies: Vec<IpAddr> = super::proxies(config).flat_map(|address| names.of(address.host())).collect();
    let may = |ip| is_own(ip) || servers.contains(ip) || proxies.contains(&ip);
    for id in here {
        let Server { name, address, .. } = &config.servers[id.index()];
        for ip in names.of(address.host()) {
            let place = SocketAddr::new(ip, address.port());
            let past = sockets::past(&connections, place, may);
            if past.is_empty() {
                continue;
            }
            let some: Vec<String> = past.iter().take(5).map(|(ip, count)| format!("{ip} ({count})")).collect();
            let text = format!("{name}: {} hosts are connected past the proxy: {}", past.len(), some.join(", "));
            let fix = format!(
                "let them mount the proxy, or redirect them (vpfs init --redirect), then close port {} to them; if they \
                 are servers, list them in trust.servers",
                address.port()
            );
            check.fail(text, fix);
        }
    }
    if here.is_empty() {
        return check.skip("no server of the file is on this host", "run this on the servers' hosts, too");
    }
    check.or("no client is connected to a server here past its proxy")
}

/// Whether the packet filter sends clients to the proxies, or keeps them from the servers.
pub(super) fn firewall(config: &Config, here: &[ServerId]) -> Vec<Finding> {
    let check = Check::new("firewall");
    if here.iter().all(|id| config.servers[id.index()].address.host().parse().is_ok_and(|ip: IpAddr| ip.is_loopback()))
    {
        return check.or("other hosts cannot reach the servers of this one");
    }
    if here.iter().all(|id| config.servers[id.index()].is_mount()) {
        return check.or("nobody connects to a mount");
    }
    let rules = Command::new("nft").args(["list", "ruleset"]).output();
    match rules {
        Ok(output) if output.status.success() => {
            rules_for(check, config, here, &String::from_utf8_lossy(&output.stdout))
        }
        Ok(_) => check.skip("the rules of nftables cannot be read", "run this as root"),
        Err(error) => check.skip(format!("nft: {error}"), "if there is another packet filter, look at its rules"),
    }
}

fn rules_for(mut check: Check, config: &Config, here: &[ServerId], rules: &str) -> Vec<Finding> {
    let is_redirected = config.listeners.iter().any(|listener| listener.is_redirected);
    for id in here {
        let Server { name, address, .. } = &config.servers[id.index()];
        let port = address.port().to_string();
        let has_port = rules.split(|c: char| !c.is_ascii_digit()).any(|word| word == port);
        if has_port {
            continue;
        }
        if is_redirected {
            let text =
                format!("{name}: clients are told port {port}, and no rule of nftables redirects it to the proxy");
            check.fail(text, "nft -f vpfs.nft, as `vpfs init --redirect` has written it");
        } else {
            let text = format!("{name}: no rule of nftables names port {port}, so clients may pass by the proxy");
            check.warn(text, "once all clients have moved, let only servers reach that port");
        }
    }
    check.or("rules name the ports of all servers here")
}

/// Whether little of what clients wrote is in the memory of this host and not on the disks of its servers.
pub(super) async fn write_back(config: &Config, here: &[ServerId]) -> Vec<Finding> {
    let mut check = Check::new("write-back");
    let servers: Vec<&Server> = here.iter().map(|id| &config.servers[id.index()]).collect();
    if servers.iter().all(|server| server.is_mount()) {
        return Vec::new();
    }
    if write_back::in_force(config).is_none() {
        return check.skip("limits.write_back is off, or vpfs only observes", "");
    }
    let mut disks: BTreeMap<Device, (PathBuf, bool)> = BTreeMap::new();
    // All at once, as each may have to wait for one that hangs.
    for Storage { directories, answers_from_memory } in join_all(servers.into_iter().map(Storage::of)).await {
        for directory in directories {
            match Device::of(&directory) {
                Ok(device) => disks.entry(device).or_insert((directory, false)).1 |= answers_from_memory,
                Err(_) if !answers_from_memory => {}
                Err(error) => unlimited(&mut check, &error, gathered(|path| fs::read_to_string(path).ok())),
            }
        }
    }
    let fix = "systemctl enable --now vpfs-write-back, or run vpfs proxy as root";
    let is_open = |(device, (_, from_memory)): &(&Device, &(PathBuf, bool))| device.limit().is_none() && *from_memory;
    for (device, (directory, _)) in disks.iter().filter(is_open) {
        let text =
            format!("{} is on disk {device}: nothing limits what is written and not stored", directory.display());
        check.warn(text, fix);
    }
    let limited = |(device, _): (&Device, _)| Some(format!("{device}: {} MiB", device.limit()?.div_ceil(1 << 20)));
    let limits: Vec<String> = disks.iter().filter_map(limited).collect();
    if disks.is_empty() {
        let fix = "if one is on this host, write its data = \"/srv/export\" under [[server]]";
        check.note("nothing says which disks the servers here have", fix);
    }
    if limits.is_empty() {
        return check.or("the servers here store a write before they answer it");
    }
    check.or(format!("what is written and not stored is limited (disk {})", limits.join(", ")))
}

/// A disk that the kernel cannot limit by itself. It begins to store when it has gathered this much for all disks.
fn unlimited(check: &mut Check, error: &DeviceError, gathered: Option<Bytes>) {
    let Some(most) = gathered else { return };
    if most > GATHERED {
        let mib = most.0.div_ceil(1 << 20);
        let text = format!("{error}; it gathers {mib} MiB of writes until it stores any: small ones wait behind them");
        let fix = "set vm.dirty_bytes and vm.dirty_background_bytes (docs/guide/servers.md, The server's memory)";
        check.warn(text, fix);
    }
}

/// How much may be dirty until the kernel begins to store it; `read` reads a file.
fn gathered(read: impl Fn(&str) -> Option<String>) -> Option<Bytes> {
    let setting = |name: &str| read(&format!("/proc/sys/vm/{name}"))?.trim().parse::<u64>().ok();
    // Of the two of each, the one that was not set last is 0.
    let bytes = |name: &str, available: u64| match setting(&format!("{name}_bytes"))? {
        0 => Some(available / 100 * setting(&format!("{name}_ratio"))?),
        bytes => Some(bytes),
    };
    let memory = read("/proc/meminfo")?;
    let line = memory.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let available = line.trim().strip_suffix(" kB")?.parse::<u64>().ok()? * 1024;
    let (background, limit) = (bytes("dirty_background", available)?, bytes("dirty", available)?);
    // So the kernel does if the first is not below the second.
    Some(Bytes(if background < limit { background } else { limit / 2 }))
}

#[cfg(test)]
mod tests {
    use super::super::finding::Verdict;
    use super::*;

    #[test]
    fn the_limit_that_counts_is_the_hard_one() {
        let text = "Limit                     Soft Limit           Hard Limit           Units     \n\
                    Max processes             1                    2                    processes \n\
                    Max open files            1024                 65536                files     \n";
        assert_eq!(open_files(text), Some(65536));
        assert_eq!(open_files("Max open files  unlimited unlimited"), None);
    }

    #[test]
    fn rules_are_found_by_whole_ports() {
        let text = |more: &str| {
            let text = format!(
                "[[server]]\nname = \"s1\"\naddress = \"tcp://192.0.2.1:3334\"\n[[listener]]\nport = 5334\n{more}"
            );
            Config::parse("f", &text).unwrap_or_else(|problems| panic!("{problems}"))
        };
        let verdict = |config: &Config, rules: &str| rules_for(Check::new(""), config, &[ServerId(0)], rules)[0].result;
        let (plain, redirected) = (text(""), text("advertise = \"server\"\n"));
        assert_eq!(verdict(&plain, "tcp dport 3334 drop"), Verdict::Ok);
        assert_eq!(verdict(&plain, "tcp dport 33340 drop"), Verdict::Warning);
        assert_eq!(verdict(&redirected, ""), Verdict::Failed);
        assert_eq!(verdict(&redirected, "192.0.2.1 . 3334 : 5334"), Verdict::Ok);
    }

    #[test]
    fn a_server_that_gathers_writes_is_warned_of() {
        let gathered = |settings: [u64; 4]| {
            let names = ["dirty_background_bytes", "dirty_background_ratio", "dirty_bytes", "dirty_ratio"];
            let read = |path: &str| match path.strip_prefix("/proc/sys/vm/") {
                Some(name) => Some(format!("{}\n", settings[names.iter().position(|known| *known == name)?])),
                None => Some("MemTotal:  9 kB\nMemAvailable:    1024000 kB\n".to_owned()),
            };
            super::gathered(read).map(|Bytes(bytes)| bytes)
        };
        assert_eq!(gathered([0, 10, 0, 20]), Some(104_857_600), "of 1,000 MiB");
        assert_eq!(gathered([1 << 20, 0, 0, 20]), Some(1 << 20));
        assert_eq!(gathered([0, 10, 8 << 20, 0]), Some(4 << 20), "half of a limit that is lower");
        let verdict = |bytes| {
            let mut check = Check::new("");
            unlimited(&mut check, &DeviceError::OldKernel, bytes);
            check.or("")[0].result
        };
        assert_eq!(verdict(Some(Bytes::mib(1))), Verdict::Ok);
        assert_eq!(
            verdict(gathered([0, 10, 64 << 20, 0]).map(Bytes)),
            Verdict::Warning,
            "where small writes were slow"
        );
        assert_eq!(super::gathered(|_| None), None);
    }

    #[test]
    fn a_state_directory_that_is_gone_fails() {
        let folder = tempfile::tempdir().unwrap();
        let state = |path: &Path| state_at(Check::new(""), path)[0].result;
        assert_eq!(state(&folder.path().join("missing")), Verdict::Failed);
        assert_ne!(state(folder.path()), Verdict::Failed);
    }
}
