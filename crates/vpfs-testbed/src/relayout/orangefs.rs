//! Executes the steps of a copy on OrangeFS, without a mounted client.
//!
//! A rename over an existing file changes its directory entry in one step, then removes the old name and the old file.
//! A process that ends in between leaves two names of the new file, which the next one finds and finishes, or the old
//! file's space, which `pvfs2-fsck` frees. There are no locks and there is no list of open files: nobody but this copy
//! may write to either file meanwhile.

use std::io;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use ring::digest::{Context, SHA256};

use crate::client::{ClientError, FileKind, Stat};
use crate::relayout::mounted::hex;
use crate::relayout::{Done, Found, Job, Options, Progress, Record, RelayoutError, Stage, Step, Summary, Version};
use crate::{Client, CreateOptions, File};

const BUFFER: u64 = 4 << 20;

const STATE_MAX: u64 = 1 << 20;

/// A copy of a file of OrangeFS into a new layout. [`Options::fill`] and [`Options::fill_holes`] do not apply: the new
/// file is created here, and without holes.
#[derive(Debug)]
pub struct OrangefsRelayout {
    client: Client,
    job: Job,
    options: Options,
    layout: CreateOptions,
    source: Option<Opened>,
    partial: String,
    state: String,
    summary: Summary,
}

/// The source, and its attributes before it was read.
#[derive(Debug)]
struct Opened {
    file: File,
    stat: Stat,
}

impl OrangefsRelayout {
    /// Prepares a copy of `source` to `target`, or goes on with one that did not end, which keeps its layout. Both are
    /// absolute paths; `target` is the new file, or a directory in which it gets the source's name.
    ///
    /// The partial file and the state are beside the target: `.NAME.vpfs-partial` and `.NAME.vpfs-copy.json`.
    ///
    /// # Errors
    /// If something would be overwritten, or a server refuses.
    pub async fn open(
        client: Client,
        source: &str,
        target: &str,
        layout: CreateOptions,
        options: Options,
    ) -> Result<Self, RelayoutError> {
        let source_path = plain(source);
        let target = target_file(&client, &source_path, &plain(target)).await?;
        let [partial, state] = [".vpfs-partial", ".vpfs-copy.json"].map(|suffix| beside(&target, suffix));
        let destination = if options.replace { source_path.clone() } else { target.clone() };
        let opened = Opened::open(&client, &source_path).await?;
        let version = opened.as_ref().map(|source| version(&source.stat));
        let found = stat(&client, &partial).await?;
        let has_its_name = found.is_some() && handle(&found) == handle(&stat(&client, &destination).await?);
        let earlier = read_state(&client, &state).await?;
        if let Some(earlier) = &earlier
            && (earlier.source != Path::new(&source_path) || earlier.destination != Path::new(&destination))
        {
            let (source_file, destination) = (earlier.source.clone(), earlier.destination.clone());
            return Err(RelayoutError::OtherCopy { path: state.into(), source_file, destination });
        }
        let fresh = || -> Result<Job, RelayoutError> {
            let missing = || RelayoutError::io("open", Path::new(&source_path))(io::ErrorKind::NotFound.into());
            let (source, destination) = (PathBuf::from(&source_path), PathBuf::from(&destination));
            let (format, version, stage) = (Record::FORMAT, version.ok_or_else(missing)?, Stage::Reserving);
            Ok(Job::new(Record { format, source, destination, fill: false, version, stage }, options.piece))
        };
        let found = Found { source: version, partial: found.map(|stat| stat.size) };
        let is_free = (target == destination && options.replace) || stat(&client, &target).await?.is_none();
        let job = match earlier {
            // With its final name already, the partial file must not be removed.
            Some(earlier) if !options.restart || has_its_name => Job::resume(earlier, found, options.piece)
                .map_err(|why| RelayoutError::Resume { path: PathBuf::from(&state), why })?,
            None if found.partial.is_some() => return Err(RelayoutError::ForeignPartial(partial.into())),
            _ if is_free => fresh()?,
            _ => return Err(RelayoutError::Exists(target.into())),
        };
        let summary = Summary { destination: destination.into(), ..Summary::default() };
        Ok(Self { client, job, options, layout, source: opened, partial, state, summary })
    }

    /// The step that [`OrangefsRelayout::advance`] executes next, `None` when all is done.
    pub fn step(&self) -> Option<&Step> {
        self.job.step()
    }

    /// Executes one step.
    ///
    /// # Errors
    /// If it fails; then the source's name has its content still. The same copy can be opened again.
    pub async fn advance(&mut self, on_progress: &mut dyn FnMut(Progress)) -> Result<(), RelayoutError> {
        let Some(step) = self.job.step().cloned() else { return Ok(()) };
        let done = self.execute(&step, on_progress).await?;
        self.job.done(done);
        Ok(())
    }

    /// Executes all steps.
    pub async fn run(mut self, mut on_progress: impl FnMut(Progress)) -> Result<Summary, RelayoutError> {
        while self.job.step().is_some() {
            self.advance(&mut on_progress).await?;
        }
        Ok(self.summary)
    }

    async fn execute(&mut self, step: &Step, on_progress: &mut dyn FnMut(Progress)) -> Result<Done, RelayoutError> {
        match step {
            Step::Save => self.save().await?,
            Step::Reserve => self.reserve().await?,
            Step::Copy { begin, end } => self.copy(*begin, *end, on_progress).await?,
            Step::Sync(size) => self.sync(*size).await?,
            Step::Verify => return self.verify(on_progress).await,
            Step::Attributes => self.attributes().await?,
            Step::Check => self.check_version().await?,
            Step::Switch => self.switch().await?,
            Step::Confirm(sha256) => self.confirm(sha256, on_progress).await?,
            // Servers have stored a directory entry when they answer.
            Step::SyncDirectory => {}
            Step::Forget => self.client.remove(&self.state).await.map_err(failed("remove", &self.state))?,
        }
        Ok(Done::Ok)
    }

    async fn save(&self) -> Result<(), RelayoutError> {
        let text = serde_json::to_vec_pretty(self.job.record())
            .map_err(|why| RelayoutError::BadState { path: PathBuf::from(&self.state), why: why.to_string() })?;
        let new = format!("{}.new", self.state);
        let write = async {
            let file = self.client.create(&new, &CreateOptions::default().mode(0o600)).await?;
            self.client.write_at(&file, 0, text.into()).await?;
            self.client.fsync(&file).await?;
            self.client.rename(&new, &self.state).await
        };
        write.await.map_err(failed("write", &self.state))
    }

    /// A copy that begins again may have another layout.
    async fn reserve(&self) -> Result<(), RelayoutError> {
        if stat(&self.client, &self.partial).await?.is_some() {
            self.client.remove(&self.partial).await.map_err(failed("remove", &self.partial))?;
        }
        let layout = self.layout.clone().mode(0o600);
        self.client.create(&self.partial, &layout).await.map(drop).map_err(failed("create", &self.partial))
    }

    /// Reads a buffer while the one before it is written.
    async fn copy(&self, begin: u64, end: u64, on_progress: &mut dyn FnMut(Progress)) -> Result<(), RelayoutError> {
        let (from, to, all) = (&self.source()?.file, self.open_partial().await?, self.size());
        let read = |at| read(&self.client, from, at, end);
        let mut at = begin;
        let mut ready = read(at).await.map_err(failed("read", self.source_path()))?;
        while !ready.is_empty() {
            let next_at = at + ready.len() as u64;
            let (next, written) = tokio::join!(read(next_at), self.client.write_at(&to, at, ready));
            written.map_err(failed("write", &self.partial))?;
            ready = next.map_err(failed("read", self.source_path()))?;
            at = next_at;
            on_progress(Progress { verifying: false, done: at, all });
        }
        Ok(())
    }

    async fn sync(&self, size: u64) -> Result<(), RelayoutError> {
        let (partial, wanted) = (self.open_partial().await?, self.size());
        self.client.fsync(&partial).await.map_err(failed("write", &self.partial))?;
        if size < wanted {
            return Ok(());
        }
        let has = self.client.size(&partial).await.map_err(failed("look at", &self.partial))?;
        if has != wanted {
            // A source that became shorter is the likely cause.
            self.check_version().await?;
            return Err(RelayoutError::WrongSize { path: PathBuf::from(&self.partial), has, wanted });
        }
        Ok(())
    }

    async fn verify(&mut self, on_progress: &mut dyn FnMut(Progress)) -> Result<Done, RelayoutError> {
        let (from, to, all) = (&self.source()?.file, self.open_partial().await?, self.size());
        let mut digest = Context::new(&SHA256);
        let mut at = 0;
        while at < all {
            let both = tokio::join!(read(&self.client, from, at, all), read(&self.client, &to, at, all));
            let (one, other) = (both.0.map_err(failed("read", self.source_path()))?, both.1);
            let other = other.map_err(failed("read", &self.partial))?;
            if let Some(at) = first_difference(&one, &other, at, all) {
                self.check_version().await?;
                let (partial, source_file) = (PathBuf::from(&self.partial), self.job.record().source.clone());
                return Err(RelayoutError::Differs { partial, source_file, at });
            }
            digest.update(&one);
            at += one.len() as u64;
            on_progress(Progress { verifying: true, done: at, all });
        }
        self.check_version().await?;
        let sha256 = hex(digest);
        if matches!(&self.job.record().stage, Stage::Switching { sha256: earlier } if *earlier != sha256) {
            return Err(RelayoutError::Changed(self.job.record().source.clone()));
        }
        (self.summary.size, self.summary.sha256) = (all, sha256.clone());
        Ok(Done::Equal(sha256))
    }

    async fn attributes(&mut self) -> Result<(), RelayoutError> {
        let stat = self.source()?.stat.clone();
        let names = self.client.xattr_names(self.source_path()).await;
        let names = names.map(|names| names.iter().filter(|name| is_a_users(name)).count());
        let (uid, gid, mode) = (stat.uid, stat.gid, stat.mode);
        let owner = self.client.set_owner(&self.partial, uid, gid, mode).await;
        // Last, because other changes may set them.
        let times = self.client.set_times(&self.partial, seconds(stat.accessed), seconds(stat.modified)).await;
        let extended = match names {
            Ok(0) => Ok(()),
            Ok(some) => Err(format!("this copy cannot take over its {some}")),
            Err(error) => Err(error.to_string()),
        };
        let text = |result: Result<(), ClientError>| result.map_err(|error| error.to_string());
        for (attribute, result) in
            [("owner and mode", text(owner)), ("times", text(times)), ("extended attributes", extended)]
        {
            match result {
                Err(why) if self.options.allow_loss => {
                    self.summary.warnings.push(format!("the new file did not get the {attribute} ({why})"));
                }
                Err(why) => {
                    let (path, attribute) = (PathBuf::from(&self.partial), attribute.to_owned());
                    return Err(RelayoutError::Attribute { path, attribute, why: io::Error::other(why) });
                }
                Ok(()) => {}
            }
        }
        let partial = self.open_partial().await?;
        self.client.fsync(&partial).await.map_err(failed("write", &self.partial))
    }

    /// The file that has the source's name now must be the one that was copied.
    async fn check_version(&self) -> Result<(), RelayoutError> {
        let now = stat(&self.client, self.source_path()).await?;
        let same = |now: Stat| version(&now) == self.job.record().version && Some(now.handle) == self.source_handle();
        if now.is_some_and(same) { Ok(()) } else { Err(RelayoutError::Changed(self.job.record().source.clone())) }
    }

    async fn switch(&self) -> Result<(), RelayoutError> {
        let to = text(&self.summary.destination);
        let renamed = match self.options.replace {
            true => self.client.rename(&self.partial, to).await,
            false => self.client.rename_new(&self.partial, to).await,
        };
        match renamed {
            Err(error) if error.is_already_exists() => Err(RelayoutError::Exists(self.summary.destination.clone())),
            renamed => renamed.map_err(failed("give the new file the name", to)),
        }
    }

    async fn confirm(&mut self, sha256: &str, on_progress: &mut dyn FnMut(Progress)) -> Result<(), RelayoutError> {
        let (path, all) = (text(&self.summary.destination).to_owned(), self.size());
        let file = self.client.open(&path).await.map_err(failed("open", &path))?;
        let (mut digest, mut at) = (Context::new(&SHA256), 0);
        loop {
            let data = read(&self.client, &file, at, u64::MAX).await.map_err(failed("read", &path))?;
            if data.is_empty() {
                break;
            }
            digest.update(&data);
            at += data.len() as u64;
            on_progress(Progress { verifying: true, done: at, all });
        }
        if hex(digest) != sha256 {
            return Err(RelayoutError::NotConfirmed(path.into()));
        }
        (self.summary.size, self.summary.sha256) = (all, sha256.to_owned());
        Ok(())
    }

    fn source(&self) -> Result<&Opened, RelayoutError> {
        let path = &self.job.record().source;
        self.source.as_ref().ok_or_else(|| RelayoutError::io("open", path)(io::ErrorKind::NotFound.into()))
    }

    fn source_path(&self) -> &str {
        text(&self.job.record().source)
    }

    fn source_handle(&self) -> Option<u64> {
        self.source.as_ref().map(|source| source.stat.handle)
    }

    fn size(&self) -> u64 {
        self.job.record().version.size
    }

    async fn open_partial(&self) -> Result<File, RelayoutError> {
        self.client.open(&self.partial).await.map_err(failed("open", &self.partial))
    }
}

impl Opened {
    async fn open(client: &Client, path: &str) -> Result<Option<Self>, RelayoutError> {
        let Some(stat) = stat(client, path).await? else { return Ok(None) };
        if stat.kind != FileKind::File {
            return Err(RelayoutError::NotRegular(path.into()));
        }
        let file = client.open(path).await.map_err(failed("open", path))?;
        Ok(Some(Self { file, stat }))
    }
}

async fn read(client: &Client, file: &File, at: u64, end: u64) -> Result<Bytes, ClientError> {
    let len = usize::try_from(end.saturating_sub(at).min(BUFFER)).expect("a buffer is small");
    client.read_at(file, at, len).await
}

/// Where two buffers that begin at `at` differ; one that ends before its file should counts as different.
fn first_difference(one: &Bytes, other: &Bytes, at: u64, all: u64) -> Option<u64> {
    let wanted = usize::try_from((all - at).min(BUFFER)).expect("a buffer is small");
    let differs = |index: &usize| one.get(*index).is_none() || one.get(*index) != other.get(*index);
    if one.len() == wanted && one == other { None } else { (0..wanted).find(differs).map(|index| at + index as u64) }
}

/// For `map_err`.
fn failed(action: &'static str, path: &str) -> impl FnOnce(ClientError) -> RelayoutError {
    let path = PathBuf::from(path);
    move |source| RelayoutError::Orangefs { action, path, source: Box::new(source) }
}

async fn stat(client: &Client, path: &str) -> Result<Option<Stat>, RelayoutError> {
    match client.stat(path).await {
        Err(error) if error.is_not_found() => Ok(None),
        stat => stat.map(Some).map_err(failed("look at", path)),
    }
}

fn handle(stat: &Option<Stat>) -> Option<u64> {
    stat.as_ref().map(|stat| stat.handle)
}

fn version(stat: &Stat) -> Version {
    Version { size: stat.size, mtime_ns: i128::from(seconds(stat.modified)) * 1_000_000_000 }
}

fn seconds(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// Attributes of users and access lists. OrangeFS lists its own as `system.pvfs2.`, and hints are `user.pvfs2.`.
fn is_a_users(name: &[u8]) -> bool {
    let begins = |prefixes: &[&str]| prefixes.iter().any(|prefix| name.starts_with(prefix.as_bytes()));
    begins(&["user.", "trusted.", "system.posix_acl"]) && !begins(&["user.pvfs2."])
}

/// Without empty components, so that equal paths are equal texts.
fn plain(path: &str) -> String {
    let components = path.split('/').filter(|component| !component.is_empty());
    let joined: String = components.map(|component| format!("/{component}")).collect();
    match (path.starts_with('/'), joined.is_empty()) {
        (true, false) => joined,
        (true, true) => "/".to_owned(),
        // The client refuses it.
        (false, _) => path.to_owned(),
    }
}

async fn target_file(client: &Client, source: &str, target: &str) -> Result<String, RelayoutError> {
    let is_directory = stat(client, target).await?.is_some_and(|stat| stat.kind == FileKind::Directory);
    let name = source.rsplit('/').next().unwrap_or_default();
    Ok(if is_directory { format!("{}/{name}", target.trim_end_matches('/')) } else { target.to_owned() })
}

/// A hidden file beside `path`.
fn beside(path: &str, suffix: &str) -> String {
    let (directory, name) = path.rsplit_once('/').unwrap_or(("", path));
    format!("{directory}/.{name}{suffix}")
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap_or_default()
}

/// The state, after an interrupted rename of a new one was finished, or an incomplete new one removed.
async fn read_state(client: &Client, path: &str) -> Result<Option<Record>, RelayoutError> {
    let new = format!("{path}.new");
    let (state, newer) = (stat(client, path).await?, stat(client, &new).await?);
    if newer.is_some() {
        let finished = match handle(&state) == handle(&newer) {
            true => client.rename(&new, path).await,
            false => client.remove(&new).await,
        };
        finished.map_err(failed("remove", &new))?;
    }
    let bad = |why: String| RelayoutError::BadState { path: path.into(), why };
    match state.map(|state| state.size) {
        None => return Ok(None),
        Some(size) if size > STATE_MAX => return Err(bad("it is too large".to_owned())),
        Some(_) => {}
    }
    let file = client.open(path).await.map_err(failed("open", path))?;
    let text = read(client, &file, 0, STATE_MAX).await.map_err(failed("read", path))?;
    let record: Record = serde_json::from_slice(&text).map_err(|why| bad(why.to_string()))?;
    if record.format != Record::FORMAT {
        return Err(bad(format!("format {} of another version", record.format)));
    }
    Ok(Some(record))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_paths_are_equal_texts() {
        assert_eq!(["/a//b/", "/", "a/b"].map(plain), ["/a/b", "/", "a/b"]);
        assert_eq!([beside("/a", ".x"), beside("/d/a", ".x")], ["/.a.x", "/d/.a.x"]);
    }

    #[test]
    fn attributes_of_orangefs_are_no_loss() {
        let names = ["user.mime", "system.posix_acl_access", "system.pvfs2.dh", "user.pvfs2.num_dfiles", "security.x"];
        assert_eq!(names.map(|name| is_a_users(name.as_bytes())), [true, true, false, false, false]);
    }

    #[test]
    fn the_first_difference_is_found() {
        let find = |one: &'static str, other: &'static str| first_difference(&one.into(), &other.into(), 100, 104);
        assert_eq!([find("abcd", "abcd"), find("abcd", "abxd"), find("abc", "abc")], [None, Some(102), Some(103)]);
        assert_eq!([find("abcd", "ab"), find("", "")], [Some(102), Some(100)]);
    }
}
