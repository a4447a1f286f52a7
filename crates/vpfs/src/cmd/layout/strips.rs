//! Strips of a new file in OrangeFS, as arguments.

use std::str::FromStr;

use vpfs_config::units::parse_size;
use vpfs_core::Bytes;
use vpfs_testbed::CreateOptions;
use vpfs_testbed::fsconfig::FsConfig;

use crate::cmd::workload::variable_strips;
use crate::exit::Exit;

/// The strip of a server: `36KiB`, or `tcp://oss1:3334=36KiB`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Strip {
    address: Option<String>,
    size: Bytes,
}

impl FromStr for Strip {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (address, size) = match text.rsplit_once('=') {
            Some((address, size)) => (Some(address.to_owned()), size),
            None => (None, text),
        };
        let size = parse_size(size).map_err(|error| error.to_string())?;
        if size.0 > 1 << 30 { Err("a strip is at most 1GiB".to_owned()) } else { Ok(Self { address, size }) }
    }
}

impl Strip {
    /// The layout of a file with these strips: equal ones on all servers, or one for each server of the list.
    pub(super) fn layout(strips: &[Self], config: &FsConfig) -> Result<CreateOptions, Exit> {
        if let [Self { address: None, size }] = strips
            && size.0 > 0
        {
            return Ok(CreateOptions::simple_stripe(size.0));
        }
        let placed = strips.iter().enumerate().map(|(index, strip)| Ok((strip.server(index, config)?, strip.size)));
        let placed = placed.collect::<Result<Vec<_>, Exit>>()?;
        let mut servers: Vec<usize> = placed.iter().filter(|(_, size)| size.0 > 0).map(|(server, _)| *server).collect();
        servers.sort_unstable();
        if servers.windows(2).any(|pair| pair[0] == pair[1]) {
            return Err(Exit::Usage("--strip: a server has two strips; give each server one".to_owned()));
        }
        variable_strips(placed)
    }

    /// The index of its server in the configuration.
    fn server(&self, index: usize, config: &FsConfig) -> Result<usize, Exit> {
        let known = || config.servers.iter().map(|server| server.address.as_str()).collect::<Vec<_>>().join(", ");
        let found = match &self.address {
            Some(address) => config.servers.iter().position(|server| server.address == *address),
            None => Some(index).filter(|index| *index < config.servers.len()),
        };
        found.ok_or_else(|| {
            let which = self.address.clone().unwrap_or_else(|| format!("number {}", index + 1));
            Exit::Usage(format!("--strip: there is no server {which}; the servers are {}", known()))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn strips(list: &str) -> Result<Vec<Strip>, String> {
        list.split(',').map(str::parse).collect()
    }

    fn layout(list: &str) -> Result<CreateOptions, String> {
        let config = FsConfig::new("pfs", &["tcp://127.0.0.1:1".to_owned(), "tcp://127.0.0.1:2".to_owned()]);
        Strip::layout(&strips(list)?, &config).map_err(|exit| match exit {
            Exit::Usage(message) => message,
            other => panic!("{other:?}"),
        })
    }

    #[test]
    fn servers_are_given_by_order_or_address() {
        let both = CreateOptions::variable_strips("0:36864;1:151552").on_servers(vec![0, 1]);
        assert_eq!(layout("36KiB,148KiB"), Ok(both.clone()));
        assert_eq!(layout("tcp://127.0.0.1:1=36KiB,tcp://127.0.0.1:2=148KiB"), Ok(both));
        let swapped = CreateOptions::variable_strips("0:151552;1:36864").on_servers(vec![1, 0]);
        assert_eq!(layout("tcp://127.0.0.1:2=148KiB,tcp://127.0.0.1:1=36KiB"), Ok(swapped));
        let one = CreateOptions::variable_strips("0:65536").on_servers(vec![1]);
        assert_eq!(layout("0B,64KiB"), Ok(one));
        assert_eq!(layout("64KiB"), Ok(CreateOptions::simple_stripe(65536)));
    }

    #[test]
    fn impossible_strips_say_what_would_help() {
        let problem = |list| layout(list).unwrap_err();
        assert!(problem("1KiB,1KiB,1KiB").contains("no server number 3; the servers are tcp://127.0.0.1:1"));
        assert!(problem("tcp://oss9:1=1KiB").contains("no server tcp://oss9:1"));
        assert!(problem("tcp://127.0.0.1:1=1KiB,tcp://127.0.0.1:1=1KiB").contains("two strips"));
        assert!(problem("0B").contains("at least one"));
        assert!(problem("2GiB").contains("at most 1GiB"));
        assert!(problem("tcp://127.0.0.1:1=").contains("write for example"), "{}", problem("tcp://127.0.0.1:1="));
    }
}
