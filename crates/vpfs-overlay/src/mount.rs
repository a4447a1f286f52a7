//! Mounting, and coming to an end.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;

use fuser::{Config, INodeNo, MountOption, Notifier, Session, SessionACL, SessionUnmounter};
use rustix::fs::{CWD, Mode, OFlags, fstat, openat, statfs};
use rustix::io::Errno;
use rustix::mount::{UnmountFlags, unmount};

use crate::caller::Rights;
use crate::fd::{inodes_max, path};
use crate::fuse::Fuse;
use crate::inodes::Inodes;
use crate::join::claim;
use crate::overlay::{Options, Overlay, Table};
use crate::shares::{Shares, THREADS, Workers};
use crate::stored::{Class, InUse};

/// What the name of a mount begins with.
const NAME: &str = "vpfs:";

/// Why nothing was mounted.
#[derive(Debug, thiserror::Error)]
pub enum MountError {
    /// Something could not be opened or mounted.
    #[error("cannot {what} {}: {why}", path.display())]
    Io {
        /// A verb.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's reason.
        why: io::Error,
    },
    /// The overlay would show itself.
    #[error("{} lies in {}; mount it elsewhere, or over the source itself", mountpoint.display(), source_directory.display())]
    Inside {
        /// Where to mount.
        mountpoint: PathBuf,
        /// What to show.
        source_directory: PathBuf,
    },
    /// Descriptors cannot be opened by path.
    #[error("/proc does not show the open files of this process ({0}), which a mount needs; mount -t proc proc /proc")]
    NoProc(io::Error),
    /// A mount hides another one.
    #[error("{} is a mount of vpfs already; unmount it first", .0.display())]
    Twice(PathBuf),
}

fn failed(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> MountError {
    let path = path.to_owned();
    move |why| MountError::Io { what, path, why }
}

/// A mount that serves requests.
#[derive(Debug)]
pub struct Mounted {
    mountpoint: PathBuf,
    unmounter: SessionUnmounter,
    /// Ends when nothing is mounted any more.
    session: JoinHandle<io::Result<()>>,
}

impl Mounted {
    /// Shows `source` at `mountpoint`. A dead mount of an earlier process there is taken away first. The process should
    /// have been prepared ([`prepare_process`](crate::prepare_process)).
    ///
    /// # Errors
    /// If something cannot be opened or mounted, or the mount point lies in the source.
    pub fn new(
        source: &Path,
        mountpoint: &Path,
        options: Options,
        on_end: impl FnOnce() + Send + 'static,
    ) -> Result<Self, MountError> {
        see_proc().map_err(|error| MountError::NoProc(error.into()))?;
        heal(mountpoint)?;
        let source = source.canonicalize().map_err(failed("open", source))?;
        let mountpoint = mountpoint.canonicalize().map_err(failed("open", mountpoint))?;
        if mountpoint.starts_with(&source) && mountpoint != source {
            return Err(MountError::Inside { mountpoint, source_directory: source });
        }
        if is_mounted(&mountpoint) {
            return Err(MountError::Twice(mountpoint));
        }
        options.classes.iter().try_for_each(|class| take(&source, class))?;
        let most = inodes_max();
        let (full, is_full) = sync_channel(1);
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root =
            openat(CWD, &source, flags, Mode::empty()).map_err(io::Error::from).map_err(failed("open", &source))?;
        let inodes = Inodes::new(root, most, full).map_err(io::Error::from).map_err(failed("look at", &source))?;
        let inodes = Arc::new(inodes);
        let rights = Rights::new();
        let config = config(&source, &rights);
        let may_pass = rights.are_roots() && options.recorder.is_none() && options.turns.is_none();
        let shares = options.turns.clone().map(Shares::new);
        let overlay = Overlay {
            source,
            mountpoint: mountpoint.clone(),
            options: Arc::new(options),
            inodes: Arc::clone(&inodes),
            in_use: InUse::default(),
            may_pass: AtomicBool::new(may_pass),
            rights,
            workers: Workers::default(),
            handles: Table::default(),
            listings: Table::default(),
            shares,
        };
        let mut session =
            Session::new(Fuse(Arc::new(overlay)), &mountpoint, &config).map_err(failed("mount at", &mountpoint))?;
        let (unmounter, notifier) = (session.unmount_callable(), session.notifier());
        let inodes = Arc::downgrade(&inodes);
        std::thread::spawn(move || forget(&is_full, &inodes, &notifier));
        let session = std::thread::spawn(move || {
            let ended = session.run();
            on_end();
            ended
        });
        Ok(Self { mountpoint, unmounter, session })
    }

    /// Takes the mount away. Files that are open still work, and the session ends when the last of them is closed.
    ///
    /// # Errors
    /// If that is not possible.
    pub fn unmount(&mut self) -> io::Result<()> {
        match self.unmounter.unmount() {
            Err(error) if Errno::from_io_error(&error) == Some(Errno::BUSY) => {
                Ok(unmount(&self.mountpoint, UnmountFlags::DETACH)?)
            }
            unmounted => unmounted,
        }
    }

    /// Waits until nothing is mounted any more.
    ///
    /// # Errors
    /// If the session ended for another reason.
    pub fn end(self) -> io::Result<()> {
        let ended = self.session.join().unwrap_or_else(|_| Err(io::Error::other("a thread panicked")));
        match ended {
            // Linux 6.18 may tell threads that wait for requests so when the last file is closed, instead of ENODEV.
            Err(error) if error.kind() == io::ErrorKind::ConnectionAborted && !is_mounted(&self.mountpoint) => Ok(()),
            ended => ended,
        }
    }
}

/// Makes sure that the directory of a class is for this source and is not being repaired.
fn take(source: &Path, class: &Class) -> Result<(), MountError> {
    let path = &class.path;
    claim(source, class).map_err(failed("use the class directory", path))?;
    match class.lock(false).map_err(io::Error::from).map_err(failed("lock", path))? {
        true => Ok(()),
        false => Err(failed("use the class directory", path)(io::Error::other("it is being repaired"))),
    }
}

fn config(source: &Path, rights: &Rights) -> Config {
    let mut config = Config::default();
    config.n_threads = Some(THREADS);
    config.acl = if rights.are_roots() { SessionACL::All } else { SessionACL::Owner };
    config.mount_options = vec![
        MountOption::FSName(format!("{NAME}{}", source.to_string_lossy().replace([',', '\\'], "_"))),
        MountOption::DefaultPermissions,
        MountOption::NoSuid,
        MountOption::NoDev,
    ];
    config
}

/// Files are opened by the paths of descriptors there; without them, nothing would be found.
fn see_proc() -> rustix::io::Result<()> {
    let root = openat(CWD, "/", OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
    let again = openat(CWD, path(&root), OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
    let (root, again) = (fstat(root)?, fstat(again)?);
    if (root.st_dev, root.st_ino) == (again.st_dev, again.st_ino) { Ok(()) } else { Err(Errno::NOENT) }
}

/// Takes away what killed daemons left.
fn heal(mountpoint: &Path) -> Result<(), MountError> {
    // Attributes of its root may still be believed.
    while statfs(mountpoint).err() == Some(Errno::NOTCONN) {
        tracing::warn!(mountpoint = %mountpoint.display(), "taking away the mount of a daemon that was killed");
        unmount(mountpoint, UnmountFlags::DETACH).map_err(io::Error::from).map_err(failed("unmount", mountpoint))?;
    }
    Ok(())
}

fn is_mounted(mountpoint: &Path) -> bool {
    let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    // Blanks and such are written as octal numbers there; a mount point that has any is not found.
    let mut lines = mounts.lines().map(|line| line.split(' ').collect::<Vec<_>>());
    lines.any(|words| words[0].starts_with(NAME) && words.get(1).is_some_and(|at| Path::new(at) == mountpoint))
}

/// Asks the kernel to forget files when it is told that there are too many, until the mount ends. Not in a thread that
/// serves requests, for which the kernel may wait meanwhile.
fn forget(is_full: &Receiver<()>, inodes: &Weak<Inodes>, notifier: &Notifier) {
    while let Ok(()) = is_full.recv() {
        let Some(spare) = inodes.upgrade().map(|inodes| inodes.spare()) else { return };
        for (parent, name) in spare {
            // What is in use, or has another name by now, stays.
            let _ = notifier.inval_entry(INodeNo(parent), &name);
        }
    }
}
