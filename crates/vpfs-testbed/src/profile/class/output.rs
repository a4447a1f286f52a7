//! A class as a file for `vpfs layout advise`, and for people.

use super::{AccessFit, ClassFit, Figure};

/// What is not measured of a class.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClassLabels {
    /// Its name: letters, digits, "-" and "_".
    pub name: String,
    /// The number of its servers.
    pub servers: u32,
    /// Their addresses, or none; without quotation marks, backslashes and control characters.
    pub addresses: Vec<String>,
    /// The rate of each server's link, if it was given, such as `112MB/s`.
    pub network: Option<String>,
    /// What may be placed on each server, such as `100GiB`.
    pub free: Option<String>,
}

/// The file, with the keys of the classes of servers of `vpfs layout advise`. `measured` says what was measured, in one
/// line.
pub fn class_toml(fit: &ClassFit, labels: &ClassLabels, measured: &str) -> String {
    let mut text = format!("# {measured}\n# Mean and standard deviation of all repetitions:\n");
    class_summary(fit).lines().for_each(|line| text += &format!("#   {line}\n"));
    if let Some(network) = &labels.network {
        text += &format!("network = \"{network}\"\n");
    }
    text += &format!("\n[[class]]\nname = \"{}\"\n", labels.name);
    if labels.addresses.is_empty() {
        text += &format!("servers = {}\n", labels.servers);
    } else {
        let quoted: Vec<String> = labels.addresses.iter().map(|address| format!("\"{address}\"")).collect();
        text += &format!("addresses = [{}]\n", quoted.join(", "));
    }
    text += &format!("read = {}\nwrite = {}\n", access(&fit.read), access(&fit.write));
    if let Some(free) = &labels.free {
        text += &format!("free = \"{free}\"\n");
    }
    text
}

/// The network's rate as a file that goes with those of classes. `measured` says what was measured, in one line.
pub fn network_toml(network: Figure, measured: &str) -> String {
    let rate = rate(network.mean);
    format!(
        "# {measured}\n# Mean and standard deviation of all repetitions: {}\nnetwork = \"{rate}\"\n",
        spread(network)
    )
}

/// The rate, with the spread among repetitions.
pub fn network_summary(network: Figure) -> String {
    format!("network: {}\n{}", spread(network), unsteady("network", network))
}

/// A line for reads and writes each, with the spread among repetitions, and warnings.
pub fn class_summary(fit: &ClassFit) -> String {
    let mut text = String::new();
    for (name, access) in [("read", &fit.read), ("write", &fit.write)] {
        let startup = [access.startup_min_ns, access.startup_max_ns]
            .map(|figure| format!("{} ± {}", micros(figure.mean), micros(figure.deviation)));
        let [least, most] = startup;
        text += &format!("{name}: startup_min {least}, startup_max {most}, rate {}\n", spread(access.ns_per_byte));
        if access.is_hidden_by_network {
            text += &format!("{name}: the storage is hardly slower than the network, so its rate is a guess\n");
        }
        if access.ns_per_byte.deviation > access.ns_per_byte.mean * MUCH_SPREAD {
            text +=
                &format!("{name}: repetitions differ much; measure longer, and while nothing else uses the storage\n");
        }
        if access.off_the_line > OFF_THE_LINE {
            let percent = access.off_the_line * 100.0;
            text += &format!(
                "{name}: times are off those of a constant rate by up to {percent:.0} % (a cache, a limit, other load?)\n"
            );
        }
    }
    text
}

fn unsteady(name: &str, figure: Figure) -> String {
    match figure.deviation > figure.mean * MUCH_SPREAD {
        true => {
            format!("{name}: repetitions differ much; measure for longer (--time), and while nothing else uses it\n")
        }
        false => String::new(),
    }
}

/// A standard deviation of a larger part of the mean is worth a warning.
const MUCH_SPREAD: f64 = 0.2;
/// Medians that are off by more are worth a warning.
const OFF_THE_LINE: f64 = 0.25;

fn access(fit: &AccessFit) -> String {
    let (least, most) = (micros(fit.startup_min_ns.mean), micros(fit.startup_max_ns.mean));
    let rate = rate(fit.ns_per_byte.mean);
    format!("{{ startup_min = \"{least}\", startup_max = \"{most}\", rate = \"{rate}\" }}")
}

fn micros(nanos: f64) -> String {
    format!("{:.1}us", nanos / 1e3)
}

fn spread(ns_per_byte: Figure) -> String {
    let percent = ns_per_byte.deviation / ns_per_byte.mean * 100.0;
    format!("{} ± {percent:.1} %", rate(ns_per_byte.mean))
}

/// Bytes per second, within what the cost model takes.
fn rate(ns_per_byte: f64) -> String {
    match 1e9 / ns_per_byte.max(0.01) {
        slow if slow < 1e6 => format!("{:.0}KB/s", (slow / 1e3).max(100.0)),
        fast => format!("{:.2}MB/s", fast / 1e6),
    }
}
