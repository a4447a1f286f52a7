//! Object attributes (docs/protocols/orangefs.md, object attributes).

use vpfs_core::stripe::{Distribution, Stripe, StripeError, VarStrip};

use super::codec::{Reader, Wire, Writer, wire_structs};
use super::types::{Capability, Handle, ObjType, Padded, Text};
use crate::wire::DecodeError;

/// Bits of an attribute mask: what is asked for, or what is present.
#[expect(missing_docs, reason = "each names the attribute it stands for")]
pub mod mask {
    pub const UID: u32 = 1;
    pub const GID: u32 = 1 << 1;
    pub const PERMS: u32 = 1 << 2;
    pub const ATIME: u32 = 1 << 3;
    pub const CTIME: u32 = 1 << 4;
    pub const MTIME: u32 = 1 << 5;
    pub const TYPE: u32 = 1 << 6;
    pub const ATIME_SET: u32 = 1 << 7;
    pub const MTIME_SET: u32 = 1 << 8;
    pub const DIST: u32 = 1 << 10;
    pub const DATAFILES: u32 = 1 << 11;
    pub const UNSTUFFED: u32 = 1 << 12;
    pub const MIRRORS: u32 = 1 << 13;
    pub const SIZE: u32 = 1 << 15;
    pub const SYMLINK_TARGET: u32 = 1 << 18;
    pub const DIRENT_COUNT: u32 = 1 << 19;
    pub const DIR_HINT: u32 = 1 << 20;
    pub const DISTDIR: u32 = 1 << 21;
    pub const CAPABILITY: u32 = 1 << 22;
    /// Owner, group, permissions, times and type.
    pub const COMMON: u32 = 0x7f;
}

/// The attributes of an object. When encoding, the presence of each optional part decides its mask bits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Attr {
    /// The owner's user id.
    pub owner: u32,
    /// The owner's group id.
    pub group: u32,
    /// Nine permission bits, set-group-id (1<<10), set-user-id (1<<11); no file type.
    pub perms: u32,
    /// Last access, in seconds since 1970.
    pub atime: u64,
    /// Last change of content, in seconds since 1970; where a server sends the time as stored: seconds << 32 | counter.
    pub mtime: u64,
    /// Last change of attributes, in seconds since 1970.
    pub ctime: u64,
    /// Which fields are valid, see [`mask`].
    pub mask: u32,
    /// What the object is.
    pub objtype: ObjType,
    /// Present if asked for.
    pub capability: Option<Capability>,
    /// For stuffed metafiles (one datafile, on the metadata server): the size limit of the first strip in bytes. `Some`
    /// exactly for metafiles without [`mask::UNSTUFFED`].
    pub stuffed_size: Option<i32>,
    /// How the file is striped.
    pub dist: Option<Dist>,
    /// The file's datafiles.
    pub datafiles: Option<Datafiles>,
    /// The file's mirrors.
    pub mirrors: Option<Mirrors>,
    /// Bytes in this datafile.
    pub size: Option<i64>,
    /// Where a symbolic link points.
    pub target: Option<Text>,
    /// How a directory is spread over servers.
    pub distdir: Option<DistDir>,
    /// Entry count and defaults of a directory.
    pub dir: Option<DirInfo>,
}

wire_structs! {
    /// The datafiles of a file, in server order.
    #[derive(Default)]
    pub struct Datafiles {
        /// One handle for each server of the distribution.
        pub handles: Padded<Handle>,
        /// Flags of the file (immutable, append only, ...).
        pub hint_flags: u64,
    }
}

/// Mirror copies of a file's datafiles.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mirrors {
    /// Copies of each datafile.
    pub copies: u32,
    /// The handles of all copies: `copies` for each datafile.
    pub handles: Vec<Handle>,
}

/// How the entries of a directory are spread over servers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DistDir {
    /// Levels of the tree of servers.
    pub tree_height: i32,
    /// Entries in one directory data object before it splits.
    pub split_size: i32,
    /// The server index of the object whose attributes these are.
    pub server_no: i32,
    /// Its level in the tree.
    pub branch_level: i32,
    /// Which of the objects are in use, 32 to a word.
    pub bitmap: Vec<u32>,
    /// The directory data objects.
    pub handles: Vec<Handle>,
}

wire_structs! {
    /// Attributes that only directories have.
    #[derive(Default)]
    pub struct DirInfo {
        /// Number of entries.
        pub dirent_count: i64,
        /// Defaults for new files in it.
        pub hint: DirHint,
    }

    /// Defaults for new files in a directory.
    #[derive(Default)]
    pub struct DirHint {
        /// Length of `dist_name` in the sender's memory, in bytes.
        pub dist_name_len: u32,
        /// Name of the distribution; may be empty.
        [pad4] pub dist_name: Text,
        /// Length of `dist_params` in the sender's memory, in bytes.
        pub dist_params_len: u32,
        /// Parameters of the distribution.
        [pad4] pub dist_params: Text,
        /// Number of datafiles.
        pub dfile_count: u32,
        /// See [`super::Layout`].
        pub layout_algorithm: u32,
        /// Number of servers in `servers`.
        pub server_count: i32,
        /// Size of the sender's buffer for `servers`, in bytes.
        pub bufsize: i32,
        /// Server addresses as the client knows them.
        pub servers: Text,
    }
}

impl Wire for DistDir {
    const MIN_LEN: usize = 28;
    fn read(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let tree_height = r.i32()?;
        let start = *r;
        let (servers, words) = (r.u32()?, r.u32()?);
        let (split_size, server_no, branch_level) = (r.i32()?, r.i32()?, r.i32()?);
        let too_many = || start.malformed("an array exceeds the message");
        let words = r.fits(u64::from(words), 4).ok_or_else(too_many)?;
        let bitmap = r.elements(words)?;
        r.pad4()?;
        let servers = r.fits(u64::from(servers), Handle::MIN_LEN).ok_or_else(too_many)?;
        let handles = r.elements(servers)?;
        Ok(Self { tree_height, split_size, server_no, branch_level, bitmap, handles })
    }
    fn write(&self, w: &mut Writer) {
        self.tree_height.write(w);
        w.count(self.handles.len());
        w.count(self.bitmap.len());
        self.split_size.write(w);
        self.server_no.write(w);
        self.branch_level.write(w);
        w.elements(&self.bitmap);
        w.pad4();
        w.elements(&self.handles);
    }
}

impl Attr {
    /// The mask as it is sent: [`Attr::mask`] with the bits of all optional parts set by their presence.
    pub fn wire_mask(&self) -> u32 {
        let mut wire = self.mask;
        let mut put = |bit: u32, present: bool| wire = if present { wire | bit } else { wire & !bit };
        put(mask::CAPABILITY, self.capability.is_some());
        put(mask::DIST, self.dist.is_some());
        put(mask::DATAFILES, self.datafiles.is_some());
        put(mask::MIRRORS, self.mirrors.is_some());
        put(mask::SIZE, self.size.is_some());
        put(mask::SYMLINK_TARGET, self.target.is_some());
        put(mask::DISTDIR, self.distdir.is_some());
        if self.objtype == ObjType::METAFILE {
            put(mask::UNSTUFFED, self.stuffed_size.is_none());
        }
        match (&self.dir, wire & (mask::DIRENT_COUNT | mask::DIR_HINT)) {
            (None, _) => wire & !(mask::DIRENT_COUNT | mask::DIR_HINT),
            (Some(_), 0) => wire | mask::DIRENT_COUNT,
            _ => wire,
        }
    }
}

impl Wire for Attr {
    const MIN_LEN: usize = 48;
    fn read(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let (owner, group, perms) = (r.u32()?, r.u32()?, r.u32()?);
        r.pad4()?;
        let (atime, mtime, ctime) = (r.u64()?, r.u64()?, r.u64()?);
        let (mask, objtype) = (r.u32()?, r.read()?);
        let mut attr = Self { owner, group, perms, atime, mtime, ctime, mask, objtype, ..Self::default() };
        let has = |bit: u32| mask & bit != 0;
        if has(mask::CAPABILITY) {
            attr.capability = Some(r.read()?);
        }
        if objtype == ObjType::METAFILE && !has(mask::UNSTUFFED) {
            attr.stuffed_size = Some(r.i32()?);
            r.pad4()?;
        }
        if has(mask::DIST) {
            attr.dist = Some(r.read()?);
        }
        if has(mask::DATAFILES) {
            attr.datafiles = Some(r.read()?);
        }
        if has(mask::MIRRORS) {
            let datafiles = attr.datafiles.as_ref().map_or(0, |files| files.handles.0.len());
            attr.mirrors = Some(read_mirrors(r, datafiles)?);
        }
        if has(mask::SIZE) {
            attr.size = Some(r.i64()?);
        }
        if has(mask::SYMLINK_TARGET) {
            r.pad4()?; // the target's length again, with NUL
            r.pad4()?;
            attr.target = Some(r.read()?);
        }
        if has(mask::DISTDIR) {
            attr.distdir = Some(r.read()?);
        }
        if has(mask::DIRENT_COUNT | mask::DIR_HINT) {
            attr.dir = Some(r.read()?);
        }
        Ok(attr)
    }

    fn write(&self, w: &mut Writer) {
        self.owner.write(w);
        self.group.write(w);
        self.perms.write(w);
        w.pad4();
        self.atime.write(w);
        self.mtime.write(w);
        self.ctime.write(w);
        self.wire_mask().write(w);
        self.objtype.write(w);
        if let Some(capability) = &self.capability {
            capability.write(w);
        }
        if let (ObjType::METAFILE, Some(size)) = (self.objtype, self.stuffed_size) {
            size.write(w);
            w.pad4();
        }
        if let Some(dist) = &self.dist {
            dist.write(w);
        }
        if let Some(datafiles) = &self.datafiles {
            datafiles.write(w);
        }
        if let Some(mirrors) = &self.mirrors {
            mirrors.copies.write(w);
            w.pad4();
            w.elements(&mirrors.handles);
        }
        if let Some(size) = self.size {
            size.write(w);
        }
        if let Some(target) = &self.target {
            w.count(target.0.len() + 1);
            w.pad4();
            target.write(w);
        }
        if let Some(distdir) = &self.distdir {
            distdir.write(w);
        }
        if let Some(dir) = &self.dir {
            dir.write(w);
        }
    }
}

fn read_mirrors(r: &mut Reader<'_>, datafiles: usize) -> Result<Mirrors, DecodeError> {
    let start = *r;
    let copies = r.u32()?;
    r.pad4()?;
    let total = u64::from(copies).saturating_mul(datafiles as u64);
    let total = r.fits(total, Handle::MIN_LEN).ok_or_else(|| start.malformed("an array exceeds the message"))?;
    Ok(Mirrors { copies, handles: r.elements(total)? })
}

/// How a file is striped over its servers, as sent on the wire; parameters are checked only by [`Dist::stripe`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the comments of the variants explain the fields")]
pub enum Dist {
    /// Strips of this many bytes, 65536 by default, round robin.
    SimpleStripe { strip_size: i64 },
    /// Everything on one server.
    Basic,
    /// Strips of explicit sizes, for example `0:10K;1:1M;2:30000`.
    VarStrip { strips: Text },
    /// So many groups of servers, one after the other, with `factor` strips of so many bytes on each server before the
    /// next group's turn.
    TwoDStripe { groups: u32, strip_size: i64, factor: u32 },
}

/// [`Dist`] borrowed from a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "those of [`Dist`] explain the fields")]
pub enum DistView<'a> {
    /// See [`Dist::SimpleStripe`].
    SimpleStripe { strip_size: i64 },
    /// See [`Dist::Basic`].
    Basic,
    /// See [`Dist::VarStrip`].
    VarStrip { strips: &'a [u8] },
    /// See [`Dist::TwoDStripe`].
    TwoDStripe { groups: u32, strip_size: i64, factor: u32 },
}

impl<'a> DistView<'a> {
    pub(crate) fn read(r: &mut Reader<'a>) -> Result<Self, DecodeError> {
        let start = *r;
        let dist = match r.str()? {
            b"simple_stripe" => Self::SimpleStripe { strip_size: r.i64()? },
            b"basic_dist" => Self::Basic,
            b"varstrip_dist" => Self::VarStrip { strips: r.str()? },
            b"twod_stripe" => Self::TwoDStripe { groups: r.u32()?, strip_size: r.i64()?, factor: r.u32()? },
            _ => return Err(start.malformed("not a distribution of version 2.10")),
        };
        r.align8()?;
        Ok(dist)
    }

    /// The arithmetic of this distribution over `servers` servers. Allocates for variable strips only.
    pub fn stripe(&self, servers: u32) -> Result<Stripe, StripeError> {
        let size = |bytes: i64| u64::try_from(bytes).map_err(|_| StripeError::Zero);
        let distribution = match *self {
            Self::SimpleStripe { strip_size } => Distribution::SimpleStripe { strip: size(strip_size)? },
            Self::Basic => Distribution::Basic,
            Self::VarStrip { strips } => {
                let strips = str::from_utf8(strips).map_err(|_| StripeError::Syntax)?;
                Distribution::VarStrip(VarStrip::parse(strips)?)
            }
            Self::TwoDStripe { groups, strip_size, factor } => {
                Distribution::TwoDStripe { groups, strip: size(strip_size)?, factor }
            }
        };
        Stripe::new(distribution, servers)
    }
}

impl Dist {
    /// The same, borrowed.
    pub fn view(&self) -> DistView<'_> {
        match self {
            Self::SimpleStripe { strip_size } => DistView::SimpleStripe { strip_size: *strip_size },
            Self::Basic => DistView::Basic,
            Self::VarStrip { strips } => DistView::VarStrip { strips: &strips.0 },
            Self::TwoDStripe { groups, strip_size, factor } => {
                DistView::TwoDStripe { groups: *groups, strip_size: *strip_size, factor: *factor }
            }
        }
    }

    /// The arithmetic of this distribution over `servers` servers.
    pub fn stripe(&self, servers: u32) -> Result<Stripe, StripeError> {
        self.view().stripe(servers)
    }

    /// The name on the wire.
    pub fn name(&self) -> &'static str {
        match self {
            Self::SimpleStripe { .. } => "simple_stripe",
            Self::Basic => "basic_dist",
            Self::VarStrip { .. } => "varstrip_dist",
            Self::TwoDStripe { .. } => "twod_stripe",
        }
    }
}

impl From<DistView<'_>> for Dist {
    fn from(view: DistView<'_>) -> Self {
        match view {
            DistView::SimpleStripe { strip_size } => Self::SimpleStripe { strip_size },
            DistView::Basic => Self::Basic,
            DistView::VarStrip { strips } => Self::VarStrip { strips: strips.into() },
            DistView::TwoDStripe { groups, strip_size, factor } => Self::TwoDStripe { groups, strip_size, factor },
        }
    }
}

impl Wire for Dist {
    const MIN_LEN: usize = 16;
    fn read(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        DistView::read(r).map(Self::from)
    }
    fn write(&self, w: &mut Writer) {
        w.str(self.name().as_bytes());
        match self {
            Self::SimpleStripe { strip_size } => strip_size.write(w),
            Self::Basic => {}
            Self::VarStrip { strips } => strips.write(w),
            Self::TwoDStripe { groups, strip_size, factor } => {
                groups.write(w);
                strip_size.write(w);
                factor.write(w);
            }
        }
        w.align8();
    }
}

wire_structs! {
    /// Handle ranges, both ends included.
    #[derive(Default)]
    pub struct HandleRanges {
        /// First and last handle of each range.
        [pad4] pub ranges: Vec<(Handle, Handle)>,
    }

    /// How servers are chosen for a new file or directory.
    #[derive(Default)]
    pub struct Layout {
        /// One of the constants.
        pub algorithm: i32,
        /// Full addresses (`tcp://host:port`) as the client knows them, for [`Layout::LIST`].
        [pad4] pub servers: Padded<Text>,
    }
}

impl Layout {
    /// Server list order.
    pub const NONE: i32 = 1;
    /// Round robin from a random start; the default.
    pub const ROUND_ROBIN: i32 = 2;
    /// Random servers.
    pub const RANDOM: i32 = 3;
    /// The servers that are listed.
    pub const LIST: i32 = 4;
    /// The local server.
    pub const LOCAL: i32 = 5;
}
