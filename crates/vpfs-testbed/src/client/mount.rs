//! State shared by all operations of a client, its setup, and how requests are sent and repeated.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use vpfs_wire::bmi::MAX_MESSAGE;
use vpfs_wire::pvfs2::{Capability, Credential, Errno, Handle, Hint, Op, Reply, ReplyBody, Request, RequestBody};

use super::connection::{Exchange, LinkError};
use super::directory_cache::Directories;
use super::link::{Link, Tags};
use super::{ClientError, ClientOptions, Result};
use crate::fsconfig::{FsConfig, FsConfigError, FsServer};
use crate::transport::Outgoing;

/// GETCONFIG is sent before the configuration is known, so it uses the stock client's fixed values.
const CONFIG_POLICY: Policy = Policy {
    retries: 5,
    delay: Duration::from_secs(2),
    reply_wait: Duration::from_secs(30),
    flow_wait: Duration::ZERO,
};
/// Lifetime of a credential in seconds. Credentials are not signed, so a new one is made for every request.
const CREDENTIAL_SECONDS: u64 = 3600;
/// Class of status codes for transport errors; only these are retried.
const TRANSPORT_CLASS: i32 = 1;

/// When to wait, when to repeat (docs/protocols/orangefs.md, time-outs and retries).
#[derive(Clone, Copy, Debug)]
pub(super) struct Policy {
    /// Attempts after the first one.
    pub(super) retries: u32,
    /// Pause before an attempt on a lost connection; none after a time-out.
    pub(super) delay: Duration,
    pub(super) reply_wait: Duration,
    pub(super) flow_wait: Duration,
}

/// A mounted file system.
#[derive(Debug)]
pub(super) struct Mount {
    pub(super) config: FsConfig,
    pub(super) policy: Policy,
    pub(super) directories: Directories,
    links: Vec<Link>,
    tags: Tags,
    options: ClientOptions,
    /// The metadata server for the next new object.
    next_server: AtomicU64,
}

/// The configuration text of one server, asked once: what clients get there, or why they get none.
///
/// `address` is `host:port`; each step may take `wait`.
pub async fn fetch_config(address: &str, wait: Duration) -> Result<Vec<u8>> {
    let policy = Policy { retries: 0, reply_wait: wait, ..CONFIG_POLICY };
    let (link, tags) = (Link::new(address, None), Tags::default());
    let asked = get_config(&link, &tags, policy);
    let silent = || failure(address, Op::GetConfig, LinkError::Silent(wait));
    tokio::time::timeout(wait, asked).await.map_err(|_| silent())?
}

impl Mount {
    /// Fetches the configuration from all servers and checks that the copies are equal.
    pub(super) async fn new(options: ClientOptions) -> Result<Self> {
        let (address, fs_name) = options.split_url()?;
        let tags = Tags::default();
        let policy = overridden(CONFIG_POLICY, &options);
        let first = Link::new(address, options.local_address);
        let text = get_config(&first, &tags, policy).await?;
        let config = FsConfig::parse(&text, fs_name).map_err(|error| unusable(error, address))?;
        let mut first = Some(first);
        let link = |address: &str| {
            let known = first.take_if(|first| first.address == address);
            known.unwrap_or_else(|| Link::new(address, options.local_address))
        };
        let links = config.servers.iter().map(FsServer::host_and_port).map(link).collect::<Vec<_>>();
        for link in &links {
            if get_config(link, &tags, policy).await? != text {
                return Err(ClientError::ConfigsDiffer { first: address.to_owned(), server: link.address.clone() });
            }
        }
        let policy = Policy {
            retries: config.retry_limit,
            delay: config.retry_delay,
            reply_wait: config.reply_timeout,
            flow_wait: config.flow_timeout,
        };
        // Different clients should not all start with the same server.
        let next_server = AtomicU64::new(RandomState::new().hash_one(address));
        let policy = overridden(policy, &options);
        Ok(Self { config, policy, directories: Directories::default(), links, tags, options, next_server })
    }

    pub(super) fn credential(&self) -> Credential {
        Credential {
            uid: self.options.uid,
            gids: self.options.gids.clone(),
            issuer: format!("C:{}", self.options.host_name).into(),
            timeout: unix_seconds() + CREDENTIAL_SECONDS,
            ..Credential::default()
        }
    }

    /// The ends of all open connections.
    pub(super) fn ends(&self) -> impl Iterator<Item = (IpAddr, SocketAddr)> {
        self.links.iter().filter_map(Link::ends)
    }

    pub(super) fn uid(&self) -> u32 {
        self.options.uid
    }

    pub(super) fn gid(&self) -> u32 {
        self.options.gids.first().copied().unwrap_or(0)
    }

    /// A request whose hint names `subject`, the file or directory that the operation is for.
    pub(super) fn request(&self, capability: Capability, subject: Handle, body: impl Into<RequestBody>) -> Request {
        let named = self.options.hints.iter();
        let named = named.map(|(name, value)| Hint::Named { name: name.as_str().into(), value: value.as_str().into() });
        let hints = std::iter::once(Hint::Handle(subject)).chain(named).collect();
        Request { capability, hints, body: body.into() }
    }

    /// The server that owns `handle`.
    pub(super) fn owner(&self, handle: Handle) -> Result<usize> {
        self.config.owner_of(handle.0).ok_or(ClientError::refused(Op::GetAttr, Errno::ENOENT))
    }

    /// A server for the metadata of a new object, round robin.
    pub(super) fn pick_metadata_server(&self) -> usize {
        let servers = self.config.servers.iter().enumerate();
        let with_metadata: Vec<_> = servers.filter(|(_, server)| !server.meta_handles.is_empty()).collect();
        let turn = self.next_server.fetch_add(1, Ordering::Relaxed) % with_metadata.len() as u64;
        // A configuration without metadata servers is rejected when it is parsed.
        usize::try_from(turn).map_or(0, |turn| with_metadata[turn].0)
    }

    pub(super) fn address(&self, server: usize) -> &str {
        &self.links[server].address
    }

    /// Sends one request and returns the body of its one reply, repeating it on transport errors.
    pub(super) async fn call<R: TryFrom<ReplyBody>>(&self, server: usize, request: &Request) -> Result<R> {
        let reply = call(&self.links[server], &self.tags, self.policy, request).await?;
        R::try_from(reply).map_err(|_| self.unexpected(server, request.body.op()))
    }

    /// [`Mount::call`] with a [`Mount::request`].
    pub(super) async fn ask<R: TryFrom<ReplyBody>>(
        &self,
        server: usize,
        capability: &Capability,
        subject: Handle,
        body: impl Into<RequestBody>,
    ) -> Result<R> {
        self.call(server, &self.request(capability.clone(), subject, body)).await
    }

    /// [`Mount::ask`] at the owner of `handle`, if the reply has no fields of interest.
    pub(super) async fn tell(
        &self,
        handle: Handle,
        capability: &Capability,
        subject: Handle,
        body: impl Into<RequestBody>,
    ) -> Result<()> {
        self.ask::<ReplyBody>(self.owner(handle)?, capability, subject, body).await.map(drop)
    }

    /// Starts an exchange of several messages; repeating it is up to the caller.
    pub(super) async fn begin(
        &self,
        server: usize,
        payload: &Bytes,
        allowance: u64,
    ) -> std::result::Result<Exchange, LinkError> {
        begin(&self.links[server], &self.tags, self.policy, payload, allowance).await
    }

    /// The error for a reply of the wrong kind.
    pub(super) fn unexpected(&self, server: usize, op: Op) -> ClientError {
        ClientError::Protocol { server: self.address(server).to_owned(), what: format!("unexpected reply to {op}") }
    }

    /// The error of an operation that will not be retried.
    pub(super) fn failure(&self, server: usize, op: Op, error: LinkError) -> ClientError {
        failure(self.address(server), op, error)
    }
}

/// The error for a configuration that the server at `address` returned.
fn unusable(error: FsConfigError, address: &str) -> ClientError {
    let address = address.to_owned();
    match &error {
        FsConfigError::UnknownFileSystem { known, .. } => {
            let name = known.first().cloned().unwrap_or_default();
            ClientError::FileSystem { error, address, name }
        }
        _ => ClientError::Config { address, error },
    }
}

async fn get_config(link: &Link, tags: &Tags, policy: Policy) -> Result<Vec<u8>> {
    match call(link, tags, policy, &Request::bare(RequestBody::GetConfig)).await? {
        ReplyBody::GetConfig(body) => Ok(body.text.0),
        _ => Err(ClientError::Protocol { server: link.address.clone(), what: "no configuration".to_owned() }),
    }
}

async fn call(link: &Link, tags: &Tags, policy: Policy, request: &Request) -> Result<ReplyBody> {
    let (op, payload) = (request.body.op(), Bytes::from(request.encode()));
    let mut attempts_left = policy.retries;
    loop {
        let error = match attempt(link, tags, policy, &payload).await {
            Ok(reply) if reply.status.is_ok() => return Ok(reply.body),
            Ok(Reply { status, .. }) if status.class() != TRANSPORT_CLASS => {
                return Err(ClientError::Refused { op, status });
            }
            Ok(Reply { status, .. }) => ClientError::Refused { op, status },
            Err(error @ LinkError::Protocol(_)) => return Err(failure(&link.address, op, error)),
            Err(error) => failure(&link.address, op, error),
        };
        if attempts_left == 0 {
            return Err(error);
        }
        attempts_left -= 1;
        pause_before_retry(&error, policy).await;
    }
}

/// Waits after a lost connection, but not after a time-out.
pub(super) async fn pause_before_retry(error: &ClientError, policy: Policy) {
    if !matches!(error, ClientError::Timeout { .. }) {
        tokio::time::sleep(policy.delay).await;
    }
}

async fn attempt(link: &Link, tags: &Tags, policy: Policy, payload: &Bytes) -> std::result::Result<Reply, LinkError> {
    let mut exchange = begin(link, tags, policy, payload, MAX_MESSAGE).await?;
    let reply = exchange.receive(policy.reply_wait).await?;
    Reply::decode(&reply).map_err(|error| exchange.fail(format!("reply {error}")))
}

async fn begin(
    link: &Link,
    tags: &Tags,
    policy: Policy,
    payload: &Bytes,
    allowance: u64,
) -> std::result::Result<Exchange, LinkError> {
    let tag = tags.next();
    let message = Outgoing::request(tag, payload.clone()).map_err(|error| LinkError::Protocol(error.to_string()))?;
    link.connection().await?.begin(tag, message, allowance, policy.reply_wait).await
}

fn failure(server: &str, op: Op, error: LinkError) -> ClientError {
    let server = server.to_owned();
    match error {
        LinkError::Lost { kind, reason } => ClientError::Connection { server, kind, reason },
        LinkError::Silent(waited) => ClientError::Timeout { server, op, waited },
        LinkError::Protocol(what) => ClientError::Protocol { server, what },
    }
}

fn overridden(policy: Policy, options: &ClientOptions) -> Policy {
    Policy {
        retries: options.retry_limit.unwrap_or(policy.retries),
        delay: options.retry_delay.unwrap_or(policy.delay),
        reply_wait: options.reply_timeout.unwrap_or(policy.reply_wait),
        flow_wait: options.flow_timeout.unwrap_or(policy.flow_wait),
    }
}

pub(super) fn unix_seconds() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |elapsed| elapsed.as_secs())
}
