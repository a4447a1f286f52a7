//! Directories: where their entries are stored, the capability to use them, and path resolution.

use std::sync::Arc;
use std::time::Instant;

use vpfs_wire::pvfs2::attr::mask;
use vpfs_wire::pvfs2::{Errno, Handle, Op, reply, request};

use super::directory_cache::Directory;
use super::mount::Mount;
use super::{ClientError, Result};

impl Mount {
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

    /// The object that the entry `name` of a directory names.
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
}

/// The components of an absolute path.
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
