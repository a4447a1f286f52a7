//! A client: one mount, as one user.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use nfs3_types::mount::{self, MOUNT_PROGRAM, dirpath, mountres3};
use nfs3_types::nfs3::{self, *};
use nfs3_types::rpc::{auth_unix, opaque_auth};
use nfs3_types::xdr_codec::{Opaque, Pack, Unpack, Void};

use super::NfsError;
use super::rpc::{Connection, DATA_MAX, Pending};
use super::url::Url;
use crate::client::ClientOptions;

/// How long to wait for a reply, unless the options say otherwise: as long as with OrangeFS.
const REPLY_WAIT: Duration = Duration::from_secs(300);
/// Bytes of a part of a listing.
const LISTING_BYTES: u32 = 64 << 10;
/// Groups besides the primary one [RFC 5531 §8.2].
const GROUPS_MAX: usize = 16;

type Result<T> = std::result::Result<T, NfsError>;

/// A mounted export. Clones share its one connection; safe to use from many tasks at once.
///
/// Paths are absolute below the export, and are looked up anew each time: there is no cache.
#[derive(Clone, Debug)]
pub struct Client {
    mount: Arc<Mount>,
}

#[derive(Debug)]
struct Mount {
    connection: Connection,
    root: nfs_fh3,
    read_max: u32,
    write_max: u32,
}

/// An open file.
#[derive(Clone, Debug)]
pub struct File(nfs_fh3);

impl Client {
    /// Mounts `options.url`. Names, groups, address and the time to wait for replies count, and nothing is repeated.
    pub async fn connect(options: &ClientOptions) -> Result<Self> {
        let Url { host, port, mount_port, export } = Url::parse(&options.url)?;
        let (mount_daemon, server) = (format!("{host}:{mount_port}"), format!("{host}:{port}"));
        let (credential, wait) = (credential(options)?, options.reply_timeout.unwrap_or(REPLY_WAIT));
        let open = |server| Connection::open(server, options.local_address, credential.clone(), wait);
        let path = dirpath(Opaque::borrowed(export.as_bytes()));
        let procedure = (mount::PROGRAM, mount::VERSION, MOUNT_PROGRAM::MOUNTPROC3_MNT as u32);
        let root = match open(&mount_daemon).await?.call(procedure, &path).await? {
            mountres3::Ok(found) => nfs_fh3 { data: found.fhandle.0 },
            mountres3::Err(status) => {
                return Err(NfsError::Mount { server: mount_daemon, export, status });
            }
        };
        let connection = open(&server).await?;
        let args = FSINFO3args { fsroot: root.clone() };
        let info = connection.call(procedure_of(NFS_PROGRAM::NFSPROC3_FSINFO), &args).await?;
        let info = done::<FSINFO3resok, FSINFO3resfail>(info)?;
        if info.rtmax == 0 || info.wtmax == 0 {
            return Err(connection.violated(&"moves no bytes"));
        }
        let [read_max, write_max] = [info.rtmax, info.wtmax].map(|most| most.min(DATA_MAX));
        let mount = Mount { connection, root, read_max, write_max };
        Ok(Self { mount: Arc::new(mount) })
    }

    /// The address that its connection comes from, and that of the server or proxy at its other end.
    pub fn ends(&self) -> (IpAddr, SocketAddr) {
        self.mount.connection.ends
    }

    /// Opens an existing file.
    pub async fn open(&self, path: &str) -> Result<File> {
        self.resolve(path).await.map(File)
    }

    /// Creates a file of mode 0644, which must not exist.
    pub async fn create(&self, path: &str) -> Result<File> {
        let how = createhow3::GUARDED(sattr3 { mode: set_mode3::Some(0o644), ..sattr3::default() });
        let args = CREATE3args { where_: self.place(path).await?, how };
        match self.call::<CREATE3resok, CREATE3resfail>(NFS_PROGRAM::NFSPROC3_CREATE, &args).await?.obj {
            Nfs3Option::Some(handle) => Ok(File(handle)),
            // A server need not return it.
            Nfs3Option::None => self.open(path).await,
        }
    }

    /// Creates a directory with permission bits `mode`.
    pub async fn mkdir(&self, path: &str, mode: u32) -> Result<()> {
        let attributes = sattr3 { mode: set_mode3::Some(mode), ..sattr3::default() };
        let args = MKDIR3args { where_: self.place(path).await?, attributes };
        self.call::<MKDIR3resok, MKDIR3resfail>(NFS_PROGRAM::NFSPROC3_MKDIR, &args).await.map(drop)
    }

    /// Removes a file.
    pub async fn remove(&self, path: &str) -> Result<()> {
        let args = REMOVE3args { object: self.place(path).await? };
        self.call::<REMOVE3resok, REMOVE3resfail>(NFS_PROGRAM::NFSPROC3_REMOVE, &args).await.map(drop)
    }

    /// Removes an empty directory.
    pub async fn rmdir(&self, path: &str) -> Result<()> {
        let args = RMDIR3args { object: self.place(path).await? };
        self.call::<RMDIR3resok, RMDIR3resfail>(NFS_PROGRAM::NFSPROC3_RMDIR, &args).await.map(drop)
    }

    /// The number of entries of a directory, all of which are read.
    pub async fn readdir(&self, path: &str) -> Result<usize> {
        let dir = self.resolve(path).await?;
        let (mut cookie, mut cookieverf, mut entries) = (0, cookieverf3::default(), 0);
        loop {
            let args = READDIR3args { dir: dir.clone(), cookie, cookieverf, count: LISTING_BYTES };
            let part = self.call::<READDIR3resok<'_>, READDIR3resfail>(NFS_PROGRAM::NFSPROC3_READDIR, &args).await?;
            let listed = part.reply.entries.into_inner();
            entries += listed.len();
            match listed.last() {
                Some(last) if !part.reply.eof => (cookie, cookieverf) = (last.cookie, part.cookieverf),
                _ => return Ok(entries),
            }
        }
    }

    /// Asks for the attributes of a file or directory.
    pub async fn stat(&self, path: &str) -> Result<()> {
        let args = GETATTR3args { object: self.resolve(path).await? };
        self.call::<GETATTR3resok, Void>(NFS_PROGRAM::NFSPROC3_GETATTR, &args).await.map(drop)
    }

    /// Sets the times of last access and change, in seconds since 1970.
    pub async fn set_times(&self, path: &str, accessed: u64, modified: u64) -> Result<()> {
        let time = |seconds| nfstime3 { seconds: u32::try_from(seconds).unwrap_or(u32::MAX), nseconds: 0 };
        let new_attributes = sattr3 {
            atime: set_atime::SET_TO_CLIENT_TIME(time(accessed)),
            mtime: set_mtime::SET_TO_CLIENT_TIME(time(modified)),
            ..sattr3::default()
        };
        let args = SETATTR3args { object: self.resolve(path).await?, new_attributes, guard: sattrguard3::None };
        self.call::<SETATTR3resok, SETATTR3resfail>(NFS_PROGRAM::NFSPROC3_SETATTR, &args).await.map(drop)
    }

    /// Writes, in as many calls at once as the server's largest one requires. What was written with `UNSTABLE` may be
    /// lost with the server's memory until [`Self::fsync`] returns.
    pub async fn write_at(&self, file: &File, offset: u64, data: &Bytes, stable: stable_how) -> Result<()> {
        let mut writes = Vec::new();
        let size = self.mount.write_max as usize;
        for (at, piece) in (offset..).step_by(size).zip(data.chunks(size)) {
            let args = WRITE3args {
                file: file.0.clone(),
                offset: at,
                count: count(piece.len()),
                stable,
                data: Opaque::borrowed(piece),
            };
            let write = self.begin::<WRITE3resok, WRITE3resfail>(NFS_PROGRAM::NFSPROC3_WRITE, &args).await?;
            writes.push((piece.len(), write));
        }
        for (len, write) in writes {
            let written = done(write.reply().await?)?.count;
            if written as usize != len {
                return Err(self.mount.connection.violated(&format!("wrote {written} of {len} bytes")));
            }
        }
        Ok(())
    }

    /// Reads `len` bytes, fewer at the end of the file.
    pub async fn read_at(&self, file: &File, offset: u64, len: usize) -> Result<Bytes> {
        let mut reads = Vec::new();
        let (end, size) = (offset + len as u64, self.mount.read_max as usize);
        for at in (offset..end).step_by(size) {
            let len = usize::try_from(end - at).unwrap_or(size).min(size);
            reads.push((at, len, self.begin_read(file, at, len).await?));
        }
        let mut data = BytesMut::with_capacity(len);
        for (at, len, mut read) in reads {
            let mut left = len;
            loop {
                let part = done(read.reply().await?)?;
                data.extend_from_slice(&part.data);
                left = left.saturating_sub(part.data.len());
                if part.eof || (left > 0 && part.data.is_empty()) {
                    return Ok(data.freeze());
                }
                if left == 0 {
                    break;
                }
                // A server may return less than it was asked for.
                read = self.begin_read(file, at + (len - left) as u64, left).await?;
            }
        }
        Ok(data.freeze())
    }

    /// Returns when everything written is on stable storage.
    pub async fn fsync(&self, file: &File) -> Result<()> {
        let args = COMMIT3args { file: file.0.clone(), offset: 0, count: 0 };
        self.call::<COMMIT3resok, COMMIT3resfail>(NFS_PROGRAM::NFSPROC3_COMMIT, &args).await.map(drop)
    }

    async fn begin_read(
        &self,
        file: &File,
        offset: u64,
        len: usize,
    ) -> Result<Pending<'_, Nfs3Result<READ3resok<'static>, READ3resfail>>> {
        let args = READ3args { file: file.0.clone(), offset, count: count(len) };
        self.begin(NFS_PROGRAM::NFSPROC3_READ, &args).await
    }

    async fn resolve(&self, path: &str) -> Result<nfs_fh3> {
        let mut handle = self.mount.root.clone();
        for name in path.split('/').filter(|name| !name.is_empty()) {
            let args = LOOKUP3args { what: entry(handle, name) };
            handle = self.call::<LOOKUP3resok, LOOKUP3resfail>(NFS_PROGRAM::NFSPROC3_LOOKUP, &args).await?.object;
        }
        Ok(handle)
    }

    /// The directory of a path, and the name in it.
    async fn place<'a>(&self, path: &'a str) -> Result<diropargs3<'a>> {
        let (directory, name) = path.rsplit_once('/').ok_or(NfsError::Argument("the path is not absolute"))?;
        Ok(entry(self.resolve(directory).await?, name))
    }

    async fn call<T: Unpack, E: Unpack>(&self, procedure: NFS_PROGRAM, args: &impl Pack) -> Result<T> {
        done(self.begin::<T, E>(procedure, args).await?.reply().await?)
    }

    async fn begin<T: Unpack, E: Unpack>(
        &self,
        procedure: NFS_PROGRAM,
        args: &impl Pack,
    ) -> Result<Pending<'_, Nfs3Result<T, E>>> {
        self.mount.connection.begin(procedure_of(procedure), args).await
    }
}

fn credential(options: &ClientOptions) -> Result<opaque_auth<'static>> {
    let (gid, others) = options.gids.split_first().map_or((0, &[][..]), |(gid, others)| (*gid, others));
    if others.len() > GROUPS_MAX {
        return Err(NfsError::Argument("NFS allows 16 groups besides the primary one"));
    }
    let machinename = Opaque::owned(options.host_name.clone().into_bytes());
    Ok(opaque_auth::auth_unix(&auth_unix { stamp: 0, machinename, uid: options.uid, gid, gids: others.to_vec() }))
}

fn procedure_of(procedure: NFS_PROGRAM) -> (u32, u32, u32) {
    (nfs3::PROGRAM, nfs3::VERSION, procedure as u32)
}

fn entry(dir: nfs_fh3, name: &str) -> diropargs3<'_> {
    diropargs3 { dir, name: filename3(Opaque::borrowed(name.as_bytes())) }
}

fn done<T, E>(result: Nfs3Result<T, E>) -> Result<T> {
    match result {
        Nfs3Result::Ok(value) => Ok(value),
        Nfs3Result::Err((status, _)) => Err(NfsError::Refused(status)),
    }
}

/// A length that is at most a call's.
fn count(len: usize) -> u32 {
    u32::try_from(len).unwrap_or(u32::MAX)
}
