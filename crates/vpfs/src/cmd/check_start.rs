//! `vpfs proxy --check`: whether a proxy can start on this host.

use vpfs_config::Config;
use vpfs_core::ServerId;
use vpfs_proxy::{Reader, check_secrets, check_serving, check_start, shortage_of_descriptors};

use crate::exit::Exit;

/// An error if a process for these servers cannot start here. Without a choice among servers of several hosts the file
/// is checked, wherever that is: then it is a warning.
pub(super) async fn run(config: &Config, servers: &[ServerId], are_chosen: bool) -> Result<(), Exit> {
    if let Some(shortage) = shortage_of_descriptors(config.limits.connections) {
        eprintln!("warning: {shortage}");
    }
    check_serving(config).iter().for_each(|reason| eprintln!("warning: {reason}"));
    let mut reasons: Vec<String> = check_start(config, servers).await.iter().map(ToString::to_string).collect();
    let can_start = reasons.is_empty();
    let mut open = Vec::new();
    for problem in check_secrets(config, None) {
        if problem.is_useless { &mut reasons } else { &mut open }.push(problem.to_string());
    }
    // Root can read what the packaged service cannot; whether that is what runs here is not known.
    if let Some(reader) = Reader::of_service() {
        let problems = check_secrets(config, Some(&reader)).into_iter().map(|problem| problem.to_string());
        open.extend(problems.filter(|text| text.contains(&reader.name)));
    }
    open.iter().for_each(|reason| eprintln!("warning: {reason}"));
    let hosts = |server: &vpfs_config::Server| server.address.host().to_ascii_lowercase();
    let mut hosts: Vec<String> = config.servers.iter().map(hosts).collect();
    hosts.sort_unstable();
    hosts.dedup();
    if are_chosen || hosts.len() == 1 {
        return refuse(&reasons);
    }
    if !can_start {
        eprintln!("warning: a process for all servers cannot start here; --server NAME checks one for those of a host");
    }
    reasons.iter().for_each(|reason| eprintln!("warning: {reason}"));
    Ok(())
}

fn refuse(reasons: &[String]) -> Result<(), Exit> {
    if reasons.is_empty() {
        return Ok(());
    }
    Err(Exit::Usage(format!(
        "a proxy cannot start here with this configuration, or not do all that it says\n{}",
        reasons.join("\n")
    )))
}
