//! The Unix socket of a daemon. The owner and its group may ask there; the directory says who can reach it.

use std::fs::{self, DirBuilder, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

use tokio::net::UnixListener;

/// Of the owner and the group: a program that connects to a socket writes to it.
const MODE: u32 = 0o660;

/// The socket of the daemon whose first server is `server`.
pub fn path(directory: &Path, server: &str) -> PathBuf {
    directory.join(format!("{server}.sock"))
}

/// Listens at `path`. Replaces a socket at which nobody answers, and with `take_over` that of a predecessor, which goes
/// on answering those who have connected. Call within a tokio runtime.
///
/// # Errors
/// If another process answers there, or it cannot be created.
pub fn bind(path: &Path, take_over: bool) -> io::Result<UnixListener> {
    if !take_over && std::os::unix::net::UnixStream::connect(path).is_ok() {
        return Err(io::Error::new(io::ErrorKind::AddrInUse, "another proxy of this server answers there"));
    }
    if let Some(directory) = path.parent().filter(|directory| !directory.exists()) {
        DirBuilder::new().mode(0o755).create(directory)?;
    }
    // Nobody else can connect before it has its permissions.
    let unfinished = path.with_extension("new");
    match fs::remove_file(&unfinished) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let listener = UnixListener::bind(&unfinished)?;
    fs::set_permissions(&unfinished, Permissions::from_mode(MODE))?;
    fs::rename(&unfinished, path)?;
    Ok(listener)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_socket_belongs_to_its_owner_and_group_and_one_process() {
        let folder = tempfile::tempdir().unwrap();
        let path = path(&folder.path().join("vpfs"), "s1");
        let _first = bind(&path, false).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o660);
        assert_eq!(bind(&path, false).err().map(|error| error.kind()), Some(io::ErrorKind::AddrInUse));
        drop(bind(&path, true).unwrap());
        bind(&path, false).expect("nobody answers there");
    }
}
