//! The file system behind the server of `nfs3_server`: what takes a device's time waits for the device.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use nfs3_server::vfs::{
    DirEntryPlus, FileHandleU64, NextResult, NfsFileSystem, NfsReadFileSystem, ReadDirPlusIterator,
};
use nfs3_types::nfs3::{
    Nfs3Option, createverf3, fattr3, filename3, ftype3, nfspath3, nfsstat3, nfstime3, sattr3, stable_how,
};
use nfs3_types::xdr_codec::Opaque;
use vpfs_model::device::{Io, IoKind};

use super::tree::{Kind, ROOT, Tree};
use crate::server::Storage;
use crate::store::StoreError;

/// The largest READ, as FSINFO says.
const READ_MAX: u32 = 1 << 20;

type Result<T> = std::result::Result<T, nfsstat3>;

/// Files in memory, on a device. Reading metadata is free, as it would be in memory; changing it writes to a log.
///
/// Everybody may do everything: `nfs3_server` does not say who calls. There are no links and no exclusive creation.
#[derive(Debug)]
pub(super) struct Files {
    storage: Storage,
    tree: Arc<Mutex<Tree>>,
}

impl Files {
    pub(super) fn new(storage: Storage) -> Self {
        Self { storage, tree: Arc::new(Mutex::new(Tree::new(now()))) }
    }

    fn tree(&self) -> MutexGuard<'_, Tree> {
        lock(&self.tree)
    }

    fn attr(&self, id: u64) -> Result<fattr3> {
        let mut attr = self.tree().attr(id)?.clone();
        if attr.type_ == ftype3::NF3REG {
            attr.size = self.storage.store.size(id);
            attr.used = attr.size;
        }
        Ok(attr)
    }

    async fn access(&self, kind: IoKind, object: u64, offset: u64, len: u64) {
        if len > 0 {
            self.storage.device.submit(Io { kind, object, offset, len }).await;
        }
    }

    async fn set(&self, id: u64, new: &sattr3) -> Result<()> {
        self.tree().set(id, new, now())?;
        if let Nfs3Option::Some(size) = new.size {
            self.tree().file(id)?;
            self.storage.store.truncate(id, size).map_err(|error| status(&error))?;
            self.tree().touch(id, now())?;
        }
        self.storage.log_metadata().await;
        Ok(())
    }
}

impl NfsReadFileSystem for Files {
    type Handle = FileHandleU64;

    fn root_dir(&self) -> FileHandleU64 {
        ROOT.into()
    }

    async fn lookup(&self, dir: &FileHandleU64, name: &filename3<'_>) -> Result<FileHandleU64> {
        self.tree().lookup(dir.as_u64(), name.as_ref()).map(FileHandleU64::new)
    }

    async fn getattr(&self, id: &FileHandleU64) -> Result<fattr3> {
        self.attr(id.as_u64())
    }

    async fn read(&self, id: &FileHandleU64, offset: u64, count: u32) -> Result<(Vec<u8>, bool)> {
        let id = id.as_u64();
        self.tree().file(id)?;
        let end = offset.saturating_add(count.min(READ_MAX).into()).min(self.storage.store.size(id));
        self.access(IoKind::Read, id, offset, end.saturating_sub(offset)).await;
        let len = usize::try_from(end.saturating_sub(offset)).unwrap_or(0);
        let data = self.storage.store.read(id, offset, len);
        let is_end = offset + data.len() as u64 >= self.storage.store.size(id);
        Ok((data.into(), is_end))
    }

    async fn readdirplus(&self, dir: &FileHandleU64, cookie: u64) -> Result<impl ReadDirPlusIterator<FileHandleU64>> {
        self.tree().entry_after(dir.as_u64(), cookie)?;
        Ok(Listing { tree: Arc::clone(&self.tree), dir: dir.as_u64(), cookie })
    }

    async fn readlink(&self, _id: &FileHandleU64) -> Result<nfspath3<'_>> {
        Err(nfsstat3::NFS3ERR_NOTSUPP)
    }
}

impl NfsFileSystem for Files {
    async fn setattr(&self, id: &FileHandleU64, new: sattr3) -> Result<fattr3> {
        self.set(id.as_u64(), &new).await?;
        self.attr(id.as_u64())
    }

    /// Stable in any case, so that a write takes the device's time when it is made.
    async fn write(
        &self,
        id: &FileHandleU64,
        offset: u64,
        data: &[u8],
        _stable: stable_how,
    ) -> Result<(fattr3, stable_how)> {
        let id = id.as_u64();
        self.tree().file(id)?;
        self.access(IoKind::Write, id, offset, data.len() as u64).await;
        self.storage.store.write(id, offset, data).map_err(|error| status(&error))?;
        let touched = self.tree().touch(id, now());
        if touched.is_err() {
            // The file was removed meanwhile, so nothing else will free what was just written.
            self.storage.store.remove(id);
        }
        touched?;
        Ok((self.attr(id)?, stable_how::FILE_SYNC))
    }

    async fn create(
        &self,
        dir: &FileHandleU64,
        name: &filename3<'_>,
        attributes: sattr3,
    ) -> Result<(FileHandleU64, fattr3)> {
        let id = {
            let mut tree = self.tree();
            match tree.lookup(dir.as_u64(), name.as_ref()) {
                Ok(id) => tree.file(id).map(|()| id).map_err(|_| nfsstat3::NFS3ERR_EXIST)?,
                Err(_) => tree.add(dir.as_u64(), name.as_ref(), Kind::File, now())?,
            }
        };
        self.set(id, &attributes).await?;
        Ok((id.into(), self.attr(id)?))
    }

    async fn create_exclusive(
        &self,
        _dir: &FileHandleU64,
        _name: &filename3<'_>,
        _verifier: createverf3,
    ) -> Result<FileHandleU64> {
        Err(nfsstat3::NFS3ERR_NOTSUPP)
    }

    async fn mkdir(&self, dir: &FileHandleU64, name: &filename3<'_>) -> Result<(FileHandleU64, fattr3)> {
        let id = self.tree().add(dir.as_u64(), name.as_ref(), Kind::Directory, now())?;
        self.storage.log_metadata().await;
        Ok((id.into(), self.attr(id)?))
    }

    async fn remove(&self, dir: &FileHandleU64, name: &filename3<'_>) -> Result<()> {
        let removed = self.tree().remove(dir.as_u64(), name.as_ref(), now())?;
        self.storage.store.remove(removed);
        self.storage.log_metadata().await;
        Ok(())
    }

    async fn rename<'a>(
        &self,
        from: &FileHandleU64,
        old: &filename3<'a>,
        to: &FileHandleU64,
        new: &filename3<'a>,
    ) -> Result<()> {
        let (old, new) = ((from.as_u64(), old.as_ref()), (to.as_u64(), new.as_ref()));
        let replaced = self.tree().rename(old, new, now())?;
        replaced.into_iter().for_each(|replaced| self.storage.store.remove(replaced));
        self.storage.log_metadata().await;
        Ok(())
    }

    async fn symlink<'a>(
        &self,
        _dir: &FileHandleU64,
        _name: &filename3<'a>,
        _target: &nfspath3<'a>,
        _attributes: &sattr3,
    ) -> Result<(FileHandleU64, fattr3)> {
        Err(nfsstat3::NFS3ERR_NOTSUPP)
    }

    async fn commit(&self, id: &FileHandleU64, _offset: u64, _count: u32) -> Result<()> {
        self.tree().file(id.as_u64())
    }
}

/// The entries of a directory behind a cookie.
struct Listing {
    tree: Arc<Mutex<Tree>>,
    dir: u64,
    cookie: u64,
}

impl ReadDirPlusIterator<FileHandleU64> for Listing {
    /// Without attributes: callers ask for those of the entries that interest them.
    async fn next(&mut self) -> NextResult<DirEntryPlus<FileHandleU64>> {
        match lock(&self.tree).entry_after(self.dir, self.cookie) {
            Ok(Some((id, name))) => {
                self.cookie = id;
                let (name, name_handle) = (filename3(Opaque::owned(name.to_vec())), Some(id.into()));
                NextResult::Ok(DirEntryPlus { fileid: id, name, cookie: id, name_attributes: None, name_handle })
            }
            Ok(None) => NextResult::Eof,
            Err(status) => NextResult::Err(status),
        }
    }
}

fn status(error: &StoreError) -> nfsstat3 {
    match error {
        StoreError::Full { .. } => nfsstat3::NFS3ERR_NOSPC,
        StoreError::TooLarge { .. } => nfsstat3::NFS3ERR_FBIG,
    }
}

fn now() -> nfstime3 {
    let since_1970 = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    nfstime3 { seconds: u32::try_from(since_1970.as_secs()).unwrap_or(u32::MAX), nseconds: since_1970.subsec_nanos() }
}

fn lock(tree: &Mutex<Tree>) -> MutexGuard<'_, Tree> {
    tree.lock().unwrap_or_else(PoisonError::into_inner)
}
