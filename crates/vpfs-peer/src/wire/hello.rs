//! Who is at the other end of a connection.

use super::fields::{Fields, put_text, put_u16, put_u64};
use super::{VERSION, WireError};

/// The most servers of one process: the limit of a configuration.
pub const SERVERS: usize = 1024;
/// The most bytes of a server's or cluster's name: the limit of a configuration.
pub const NAME_LEN: usize = 64;

/// Tells peers of vpfs from anything else that connects. It and the version after it never change.
const MAGIC: [u8; 4] = *b"vpfs";

/// The first frame of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hello {
    cluster: String,
    incarnation: u64,
    servers: Vec<String>,
}

impl Hello {
    /// A process that started at `incarnation` and has the proxies of these servers of this cluster.
    ///
    /// # Errors
    /// If there are no servers or more than [`SERVERS`], or a name is empty, repeated or longer than [`NAME_LEN`].
    pub fn new(cluster: String, incarnation: u64, servers: Vec<String>) -> Result<Self, WireError> {
        if servers.is_empty() || servers.len() > SERVERS {
            return Err(WireError::Value("a process has 1 to 1024 servers"));
        }
        let is_name = |name: &String| (1..=NAME_LEN).contains(&name.len());
        if !servers.iter().all(is_name) || !is_name(&cluster) {
            return Err(WireError::Value("a name has 1 to 64 bytes"));
        }
        let mut sorted: Vec<&String> = servers.iter().collect();
        sorted.sort_unstable();
        if sorted.windows(2).any(|pair| pair[0] == pair[1]) {
            return Err(WireError::Value("a process names a server twice"));
        }
        Ok(Self { cluster, incarnation, servers })
    }

    /// The name of its cluster.
    pub fn cluster(&self) -> &str {
        &self.cluster
    }

    /// Greater after each start of the process.
    pub fn incarnation(&self) -> u64 {
        self.incarnation
    }

    /// The servers whose proxies it runs; reports refer to them by position.
    pub fn servers(&self) -> &[String] {
        &self.servers
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&MAGIC);
        put_u16(out, VERSION);
        put_u64(out, self.incarnation);
        put_text(out, &self.cluster);
        put_u16(out, u16::try_from(self.servers.len()).expect("at most SERVERS"));
        self.servers.iter().for_each(|name| put_text(out, name));
    }

    pub(super) fn decode(fields: &mut Fields<'_>) -> Result<Self, WireError> {
        if fields.array().ok() != Some(MAGIC) {
            return Err(WireError::Magic);
        }
        match fields.u16()? {
            VERSION => {}
            other => return Err(WireError::Version(other)),
        }
        let incarnation = fields.u64()?;
        let cluster = fields.text()?.to_owned();
        let count = usize::from(fields.u16()?);
        // Each name has at least its length and one byte.
        fields.has(count, 2)?;
        let servers = (0..count).map(|_| fields.text().map(str::to_owned)).collect::<Result<_, _>>()?;
        Self::new(cluster, incarnation, servers)
    }
}
