//! An open file: its layout and the capability to use it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use vpfs_core::stripe::Stripe;
use vpfs_wire::pvfs2::attr::mask;
use vpfs_wire::pvfs2::{Attr, Capability, Dist, Errno, Handle, ObjType, Op, Request, reply, request};

use super::mount::{Mount, unix_seconds};
use super::{ClientError, Result};

/// The attributes requested before I/O.
pub(super) const FILE_MASK: u32 = mask::COMMON | mask::DIST | mask::DATAFILES | mask::MIRRORS | mask::CAPABILITY;
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

/// A file's layout and capability as last fetched.
#[derive(Clone, Debug)]
pub(super) struct Layout {
    pub(super) dist: Dist,
    pub(super) datafiles: Vec<Handle>,
    /// The owners of the datafiles, by index in the configuration.
    pub(super) owners: Vec<usize>,
    /// Only the first datafile is in use yet.
    pub(super) stuffed: bool,
    /// Bytes of a stuffed file.
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

    pub(super) fn set_layout(&self, layout: Layout) -> Arc<Layout> {
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
    pub(super) fn valid_capability(&self) -> Option<&Capability> {
        self.capability.as_ref().filter(|capability| capability.timeout > unix_seconds() + RENEW_SECONDS)
    }

    /// Whether an access that ends at byte `end` goes beyond what a stuffed file can hold: the first strip, that is,
    /// all bytes before the first one that belongs to a second server.
    pub(super) fn leaves_first_strip(&self, end: u64) -> bool {
        let boundary = self.dist.stripe(2).ok().and_then(|stripe| stripe.logical_of(1, 0));
        self.stuffed && boundary.is_some_and(|boundary| end > boundary)
    }
}

impl Mount {
    pub(super) async fn get_attr(&self, handle: Handle, mask: u32) -> Result<Attr> {
        let body = request::GetAttr { handle, fs: self.config.fs_id, mask, credential: self.credential() };
        let reply: reply::GetAttr = self.ask(self.owner(handle)?, &Capability::default(), handle, body).await?;
        Ok(reply.attr)
    }

    /// Fetches a file's layout and capability.
    pub(super) async fn fetch_layout(&self, handle: Handle) -> Result<Layout> {
        Layout::new(self, self.get_attr(handle, FILE_MASK).await?, None)
    }

    /// Fetches them again.
    pub(super) async fn refresh(&self, file: &File) -> Result<Arc<Layout>> {
        Ok(file.set_layout(self.fetch_layout(file.metafile()).await?))
    }

    /// The layout, with a capability that does not expire soon.
    pub(super) async fn usable_layout(&self, file: &File) -> Result<Arc<Layout>> {
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
}
