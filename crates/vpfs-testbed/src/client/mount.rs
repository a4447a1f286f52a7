//! State shared by all operations of a client, its setup, and the requests that they consist of; open files, with their
//! layouts and the capabilities to use them.

use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use bytes::Bytes;
use futures_util::future::BoxFuture;
use vpfs_core::stripe::Stripe;
use vpfs_protocol::wire::bmi::MAX_MESSAGE;
use vpfs_protocol::wire::pvfs2::attr::{Datafiles, Mirrors, mask};
use vpfs_protocol::wire::pvfs2::{
    Attr, Capability, Credential, Dist, Errno, Handle, HandleRanges, Hint, Layout as Placement, ObjType, Op, Padded,
    Reply, ReplyBody, Request, RequestBody, Status, reply, request,
};

use super::link::{Exchange, Link, LinkError, Tags};
use super::{ClientError, ClientOptions, CreateOptions, Result};
use crate::fsconfig::{FsConfig, FsConfigError, FsServer};
use crate::transport::Outgoing;

pub(super) const FILE_MASK: u32 = mask::COMMON | mask::DIST | mask::DATAFILES | mask::MIRRORS | mask::CAPABILITY;

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
    pub(super) retries: u32,
    /// Pause before an attempt on a lost connection; none after a time-out.
    delay: Duration,
    pub(super) reply_wait: Duration,
    pub(super) flow_wait: Duration,
}

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
pub fn fetch_config(address: &str, wait: Duration) -> BoxFuture<'_, Result<Vec<u8>>> {
    Box::pin(async move {
        let policy = Policy { retries: 0, reply_wait: wait, ..CONFIG_POLICY };
        let (link, tags) = (Link::new(address, None), Tags::default());
        let asked = get_config(&link, &tags, policy);
        let silent = || failure(address, Op::GetConfig, LinkError::Silent(wait));
        tokio::time::timeout(wait, asked).await.map_err(|_| silent())?
    })
}

impl Mount {
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

    pub(super) fn ends(&self) -> impl Iterator<Item = (IpAddr, SocketAddr)> {
        self.links.iter().filter_map(Link::ends)
    }

    fn uid(&self) -> u32 {
        self.options.uid
    }

    fn gid(&self) -> u32 {
        self.options.gids.first().copied().unwrap_or(0)
    }

    /// A request whose hint names `subject`, the file or directory that the operation is for.
    pub(super) fn request(&self, capability: Capability, subject: Handle, body: impl Into<RequestBody>) -> Request {
        let named = self.options.hints.iter();
        let named = named.map(|(name, value)| Hint::Named { name: name.as_str().into(), value: value.as_str().into() });
        let hints = std::iter::once(Hint::Handle(subject)).chain(named).collect();
        Request { capability, hints, body: body.into() }
    }

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

    pub(super) fn unexpected(&self, server: usize, op: Op) -> ClientError {
        ClientError::Protocol { server: self.address(server).to_owned(), what: format!("unexpected reply to {op}") }
    }

    /// The error of an operation that will not be retried.
    pub(super) fn failure(&self, server: usize, op: Op, error: LinkError) -> ClientError {
        failure(self.address(server), op, error)
    }

    pub(super) async fn get_attr(&self, handle: Handle, mask: u32) -> Result<Attr> {
        let body = request::GetAttr { handle, fs: self.config.fs_id, mask, credential: self.credential() };
        let reply: reply::GetAttr = self.ask(self.owner(handle)?, &Capability::default(), handle, body).await?;
        Ok(reply.attr)
    }

    pub(super) async fn fetch_layout(&self, handle: Handle) -> Result<Layout> {
        Layout::new(self, self.get_attr(handle, FILE_MASK).await?, None)
    }

    pub(super) async fn refresh(&self, file: &File) -> Result<Arc<Layout>> {
        Ok(file.set_layout(self.fetch_layout(file.metafile()).await?))
    }

    /// The layout, with a capability that does not expire soon.
    async fn usable_layout(&self, file: &File) -> Result<Arc<Layout>> {
        let layout = file.layout();
        if layout.valid_capability().is_some() { Ok(layout) } else { self.refresh(file).await }
    }

    /// The layout for an access up to byte `end`: a stuffed file is unstuffed before a write beyond its first strip,
    /// and fetched again before a read beyond it, as another client may have unstuffed it.
    pub(super) async fn layout_up_to(&self, file: &File, end: u64, writes: bool) -> Result<Arc<Layout>> {
        let layout = self.usable_layout(file).await?;
        match (layout.leaves_first_strip(end), writes) {
            (false, _) => Ok(layout),
            (true, false) => self.refresh(file).await,
            (true, true) => self.unstuff(file, &layout).await,
        }
    }

    async fn unstuff(&self, file: &File, layout: &Layout) -> Result<Arc<Layout>> {
        let (handle, fs) = (file.metafile(), self.config.fs_id);
        let body = request::Unstuff { handle, fs, mask: FILE_MASK, credential: self.credential() };
        let capability = layout.capability.clone().unwrap_or_default();
        // UNSTUFF is the only request that never carries hints.
        let request = Request { capability, ..Request::bare(body.into()) };
        let reply: reply::Unstuff = self.call(self.owner(handle)?, &request).await?;
        Ok(file.set_layout(Layout::new(self, reply.attr, None)?))
    }

    pub(super) fn new_file_attr(&self, options: &CreateOptions) -> Attr {
        Attr {
            stuffed_size: Some(0),
            dist: Some(options.distribution.clone()),
            datafiles: Some(Datafiles::default()),
            mirrors: Some(Mirrors::default()),
            ..self.new_attr(ObjType::METAFILE, options.mode)
        }
    }

    pub(super) fn new_attr(&self, objtype: ObjType, perms: u32) -> Attr {
        Attr { owner: self.uid(), group: self.gid(), perms, mask: mask::COMMON, objtype, ..Attr::default() }
    }

    pub(super) fn datafile_count(&self, options: &CreateOptions) -> Result<i32> {
        let servers = self.config.servers.iter().filter(|server| !server.data_handles.is_empty()).count();
        let wanted = options.datafiles.map_or(i32::try_from(servers), i32::try_from);
        match wanted {
            Ok(count @ 1..) => Ok(count),
            _ => Err(ClientError::Argument("a file has at least one datafile")),
        }
    }

    pub(super) fn placement(&self, options: &CreateOptions) -> Result<Placement> {
        let Some(indexes) = &options.servers else {
            return Ok(Placement { algorithm: Placement::ROUND_ROBIN, servers: Padded::default() });
        };
        let address = |index: &usize| self.config.servers.get(*index).map(|server| server.address.as_str().into());
        let servers: Option<Vec<_>> = indexes.iter().map(address).collect();
        let servers =
            servers.ok_or(ClientError::Argument("a file cannot be placed on a server that does not exist"))?;
        Ok(Placement { algorithm: Placement::LIST, servers: Padded(servers) })
    }

    pub(super) fn metadata_handles(&self, server: usize) -> HandleRanges {
        let ranges = &self.config.servers[server].meta_handles;
        HandleRanges { ranges: ranges.iter().map(|range| (Handle(*range.start()), Handle(*range.end()))).collect() }
    }

    pub(super) async fn name_or_remove(&self, directory: &Directory, name: &str, handle: Handle) -> Result<()> {
        let added = self.add_entry(directory, name, handle).await;
        if added.is_err() {
            // As for files, the first error is the one to report.
            let _ = self.remove_object(directory, handle, &[]).await;
        }
        added
    }

    pub(super) async fn add_entry(&self, directory: &Directory, name: &str, new_handle: Handle) -> Result<()> {
        let body = request::CrDirent {
            credential: self.credential(),
            name: name.into(),
            new_handle,
            parent: directory.handle,
            dirdata: directory.dirdata,
            fs: self.config.fs_id,
        };
        match self.tell(directory.dirdata, &directory.capability, directory.handle, body).await {
            Err(error) if error.is_already_exists() => match self.entry(directory, name).await {
                Ok(handle) if handle == new_handle => Ok(()),
                _ => Err(error),
            },
            added => added,
        }
    }

    pub(super) async fn remove_entry(&self, directory: &Directory, name: &str) -> Result<Handle> {
        let body = request::RmDirent { name: name.into(), dirdata: directory.dirdata, fs: self.config.fs_id };
        let server = self.owner(directory.dirdata)?;
        let removed: reply::RmDirent = self.ask(server, &directory.capability, directory.handle, body).await?;
        Ok(removed.handle)
    }

    /// Removes an object that no longer has a name, and its datafiles.
    pub(super) async fn remove_object(&self, parent: &Directory, handle: Handle, datafiles: &[Handle]) -> Result<()> {
        let (fs, capability) = (self.config.fs_id, &parent.capability);
        if let Some(first) = datafiles.first() {
            let (credential, handles) = (self.credential(), datafiles.to_vec());
            let body = request::TreeRemove { fs, credential, caller_index: 0, handles };
            self.tell(*first, capability, parent.handle, body).await?;
        }
        let body = request::Remove { handle, fs, credential: self.credential() };
        match self.tell(handle, capability, parent.handle, body).await {
            // Repeated after a lost reply.
            Err(error) if error.is_not_found() => Ok(()),
            removed => removed,
        }
    }

    /// Removes a file or link that no longer has a name.
    pub(super) async fn remove_nameless(&self, parent: &Directory, handle: Handle) -> Result<()> {
        let attr = self.get_attr(handle, FILE_MASK).await?;
        self.remove_object(parent, handle, &datafiles_of(attr)).await
    }

    pub(super) async fn is_directory(&self, handle: Handle) -> Result<bool> {
        Ok(self.get_attr(handle, mask::COMMON).await?.objtype == ObjType::DIRECTORY)
    }

    /// Makes an existing name refer to `new_handle` and returns the handle it referred to before.
    pub(super) async fn change_entry(&self, directory: &Directory, name: &str, new_handle: Handle) -> Result<Handle> {
        let (dirdata, fs) = (directory.dirdata, self.config.fs_id);
        let body = request::ChDirent { name: name.into(), new_handle, dirdata, fs };
        let server = self.owner(dirdata)?;
        let changed: reply::ChDirent = self.ask(server, &directory.capability, directory.handle, body).await?;
        Ok(changed.old_handle)
    }

    /// A directory by its handle; ENOTDIR for anything else.
    pub(super) async fn directory(&self, handle: Handle) -> Result<Arc<Directory>> {
        if let Some(known) = self.directories.get(handle) {
            return Ok(known);
        }
        let attr = self.get_attr(handle, mask::COMMON | mask::DISTDIR | mask::CAPABILITY).await?;
        let (Some(distdir), Some(capability)) = (attr.distdir, attr.capability) else {
            return Err(ClientError::refused(Op::GetAttr, Errno::ENOTDIR));
        };
        let in_use: u32 = distdir.bitmap.iter().map(|word| word.count_ones()).sum();
        let (1, Some(dirdata)) = (in_use, distdir.handles.first().copied()) else {
            let server = self.address(self.owner(handle)?).to_owned();
            return Err(ClientError::Protocol {
                server,
                what: "a directory is spread over several servers".to_owned(),
            });
        };
        let directory = Arc::new(Directory { handle, dirdata, capability, fetched: Instant::now() });
        self.directories.put(&directory);
        Ok(directory)
    }

    /// The object that `path` names. Links are not followed.
    pub(super) async fn resolve(&self, path: &str) -> Result<Handle> {
        self.walk(&components(path)?).await
    }

    /// The directory that holds the last component of `path`, and that component.
    pub(super) async fn parent<'a>(&self, path: &'a str) -> Result<(Arc<Directory>, &'a str)> {
        let components = components(path)?;
        let Some((name, parents)) = components.split_last() else {
            return Err(ClientError::Path { path: path.to_owned(), what: "the root directory has no name to change" });
        };
        let parent = self.walk(parents).await?;
        Ok((self.directory(parent).await?, name))
    }

    pub(super) async fn entry(&self, directory: &Directory, name: &str) -> Result<Handle> {
        let handles = self.lookup(directory, name.to_owned()).await?;
        handles.first().copied().ok_or(ClientError::refused(Op::LookupPath, Errno::ENOENT))
    }

    /// Resolves from the root, as many components at a time as one server knows.
    async fn walk(&self, components: &[&str]) -> Result<Handle> {
        let mut at = Handle(self.config.root_handle);
        let mut rest = components;
        while !rest.is_empty() {
            let directory = self.directory(at).await?;
            let handles = self.lookup(&directory, rest.join("/")).await?;
            at = handles.last().copied().ok_or(ClientError::refused(Op::LookupPath, Errno::ENOENT))?;
            rest = rest.get(handles.len()..).unwrap_or(&[]);
        }
        Ok(at)
    }

    /// The objects along `path` below a directory, as far as this server knows them. A server returns attributes for
    /// its own objects only, so the attributes are not used.
    async fn lookup(&self, directory: &Directory, path: String) -> Result<Vec<Handle>> {
        let (parent, credential) = (directory.handle, self.credential());
        let body =
            request::LookupPath { path: path.into(), fs: self.config.fs_id, parent, mask: mask::COMMON, credential };
        let found: reply::LookupPath = self.ask(self.owner(parent)?, &directory.capability, parent, body).await?;
        Ok(found.handles)
    }

    pub(super) async fn set_attr(&self, path: &str, attr: Attr) -> Result<()> {
        let handle = self.resolve(path).await?;
        let body = request::SetAttr { handle, fs: self.config.fs_id, attr, credential: self.credential() };
        self.tell(handle, &self.capability(handle).await?, handle, body).await
    }

    pub(super) async fn capability(&self, handle: Handle) -> Result<Capability> {
        Ok(self.get_attr(handle, mask::COMMON | mask::CAPABILITY).await?.capability.unwrap_or_default())
    }

    pub(super) async fn size(&self, file: &File) -> Result<u64> {
        let layout = file.layout();
        // A stuffed file may have grown or been unstuffed since its layout was fetched.
        let layout = if layout.stuffed { self.refresh(file).await? } else { layout };
        self.size_of(file.metafile(), &layout).await
    }

    pub(super) async fn size_of(&self, metafile: Handle, layout: &Layout) -> Result<u64> {
        let (false, Some(first)) = (layout.stuffed, layout.datafiles.first()) else { return Ok(layout.stuffed_size) };
        let (fs, credential, handles) = (self.config.fs_id, self.credential(), layout.datafiles.clone());
        let body = request::TreeGetFileSize { fs, caller_index: 0, retry_at_leaf: 0, credential, handles };
        let server = self.owner(*first)?;
        let reply: reply::TreeGetFileSize = self.ask(server, &Capability::default(), metafile, body).await?;
        let stripe = layout.stripe()?;
        let mut end = 0;
        for (number, (size, error)) in (0..).zip(reply.sizes.0) {
            if error != 0 {
                return Err(ClientError::Refused { op: Op::TreeGetFileSize, status: Status(error) });
            }
            let known = u64::try_from(size).ok().and_then(|size| stripe.logical_size(number, size));
            end = end.max(known.ok_or_else(|| self.unexpected(server, Op::TreeGetFileSize))?);
        }
        Ok(end)
    }
}

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

fn unix_seconds() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |elapsed| elapsed.as_secs())
}

/// How long a directory's attributes are cached: the stock client's attribute cache time.
const LIFE: Duration = Duration::from_secs(5);

/// Number of directories cached; beyond it, the cache is cleared.
const KNOWN_MAX: usize = 4096;

#[derive(Debug)]
pub(super) struct Directory {
    pub(super) handle: Handle,
    /// The object that holds its entries.
    pub(super) dirdata: Handle,
    pub(super) capability: Capability,
    fetched: Instant,
}

/// The directories used lately.
#[derive(Debug, Default)]
pub(super) struct Directories(Mutex<HashMap<Handle, Arc<Directory>>>);

impl Directories {
    fn get(&self, handle: Handle) -> Option<Arc<Directory>> {
        self.lock().get(&handle).filter(|directory| directory.fetched.elapsed() < LIFE).cloned()
    }

    fn put(&self, directory: &Arc<Directory>) {
        let mut known = self.lock();
        if known.len() >= KNOWN_MAX {
            known.clear();
        }
        known.insert(directory.handle, Arc::clone(directory));
    }

    pub(super) fn forget(&self, handle: Handle) {
        self.lock().remove(&handle);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Handle, Arc<Directory>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub(super) fn datafiles_of(attr: Attr) -> Vec<Handle> {
    attr.datafiles.map_or_else(Vec::new, |datafiles| datafiles.handles.0)
}

fn components(path: &str) -> Result<Vec<&str>> {
    let bad = |what| Err(ClientError::Path { path: path.to_owned(), what });
    let Some(relative) = path.strip_prefix('/') else { return bad("not absolute") };
    let components: Vec<_> = relative.split('/').filter(|component| !component.is_empty()).collect();
    match components.iter().find(|component| matches!(**component, "." | "..")) {
        Some(_) => bad("`.` and `..` are not resolved"),
        None if path.contains('\0') => bad("contains a NUL"),
        None => Ok(components),
    }
}

/// A capability is renewed when it expires within this many seconds.
const RENEW_SECONDS: u64 = 30;

/// An open file: its layout and the capability to use it. Clones are the same file; it need not be closed.
#[derive(Clone, Debug)]
pub struct File(Arc<Opened>);

#[derive(Debug)]
struct Opened {
    handle: Handle,
    layout: Mutex<Arc<Layout>>,
}

#[derive(Clone, Debug)]
pub(super) struct Layout {
    pub(super) dist: Dist,
    pub(super) datafiles: Vec<Handle>,
    pub(super) owners: Vec<usize>,
    pub(super) stuffed: bool,
    pub(super) stuffed_size: u64,
    /// `None` until the first I/O needs it.
    pub(super) capability: Option<Capability>,
}

impl File {
    /// The file's handle.
    pub fn handle(&self) -> u64 {
        self.0.handle.0
    }

    /// The servers that hold its datafiles, in the order of the distribution, by index in the configuration.
    /// One server as long as the file is small and not yet striped.
    pub fn servers(&self) -> Vec<usize> {
        self.layout().owners.clone()
    }

    pub(super) fn new(handle: Handle, layout: Layout) -> Self {
        Self(Arc::new(Opened { handle, layout: Mutex::new(Arc::new(layout)) }))
    }

    pub(super) fn metafile(&self) -> Handle {
        self.0.handle
    }

    pub(super) fn layout(&self) -> Arc<Layout> {
        Arc::clone(&self.slot())
    }

    fn set_layout(&self, layout: Layout) -> Arc<Layout> {
        let layout = Arc::new(layout);
        *self.slot() = Arc::clone(&layout);
        layout
    }

    fn slot(&self) -> MutexGuard<'_, Arc<Layout>> {
        self.0.layout.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Layout {
    /// A layout from a file's attributes; `dist` is used if they contain no distribution.
    pub(super) fn new(mount: &Mount, attr: Attr, dist: Option<Dist>) -> Result<Self> {
        if attr.objtype != ObjType::METAFILE {
            let is_directory = attr.objtype == ObjType::DIRECTORY;
            let errno = if is_directory { Errno::EISDIR } else { Errno::EINVAL };
            return Err(ClientError::refused(Op::GetAttr, errno));
        }
        let incomplete = ClientError::refused(Op::GetAttr, Errno::EINVAL);
        let (Some(dist), Some(datafiles)) = (attr.dist.or(dist), attr.datafiles) else { return Err(incomplete) };
        let datafiles = datafiles.handles.0;
        let owners = datafiles.iter().map(|datafile| mount.owner(*datafile)).collect::<Result<_>>()?;
        let stuffed_size = attr.stuffed_size.and_then(|size| u64::try_from(size).ok()).unwrap_or(0);
        let (stuffed, capability) = (attr.stuffed_size.is_some(), attr.capability);
        Ok(Self { dist, datafiles, owners, stuffed, stuffed_size, capability })
    }

    /// The arithmetic of the distribution over the datafiles in use.
    pub(super) fn stripe(&self) -> Result<Stripe> {
        let servers = u32::try_from(self.datafiles.len()).unwrap_or(u32::MAX);
        self.dist.stripe(servers).map_err(|_| ClientError::Argument("the file's distribution is invalid"))
    }

    /// The capability to use the file, if it does not expire soon.
    fn valid_capability(&self) -> Option<&Capability> {
        self.capability.as_ref().filter(|capability| capability.timeout > unix_seconds() + RENEW_SECONDS)
    }

    /// Whether an access that ends at byte `end` goes beyond what a stuffed file can hold: the first strip, that is,
    /// all bytes before the first one that belongs to a second server.
    fn leaves_first_strip(&self, end: u64) -> bool {
        let boundary = self.dist.stripe(2).ok().and_then(|stripe| stripe.logical_of(1, 0));
        self.stuffed && boundary.is_some_and(|boundary| end > boundary)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths() {
        assert_eq!(components("/a//b/").unwrap(), ["a", "b"]);
        assert!(components("/").unwrap().is_empty());
        for bad in ["", "a", "/a/../b", "/.", "/a\0b"] {
            assert!(matches!(components(bad), Err(ClientError::Path { .. })), "{bad:?}");
        }
    }
}
