//! The paths of a run.

use vpfs_model::plan::{Call, Dir, FileId};

/// Gives the paths of everything below the run's directory.
#[derive(Debug)]
pub(super) struct Names {
    base: String,
}

impl Names {
    pub(super) fn new(base: String) -> Self {
        Self { base }
    }

    pub(super) fn base(&self) -> &str {
        &self.base
    }

    pub(super) fn dir(&self, dir: Dir) -> String {
        let base = self.base.trim_end_matches('/');
        match dir {
            Dir::Base => self.base.clone(),
            Dir::Sub(a) => format!("{base}/dir.{a}"),
            Dir::Nested(a, b) => format!("{base}/dir.{a}/dir.{b}"),
        }
    }

    pub(super) fn file(&self, file: FileId) -> String {
        format!("{}/{file}", self.base.trim_end_matches('/'))
    }

    /// The path that a call refers to.
    pub(super) fn of(&self, call: Call) -> String {
        match call {
            Call::MakeDir(dir) | Call::RemoveDir(dir) | Call::ListDir(dir) => self.dir(dir),
            Call::Create(file) | Call::Open(file) | Call::Stat(file) => self.file(file),
            Call::SetTimes(file) | Call::Remove(file) | Call::Sync(file) => self.file(file),
            Call::Write(extent) | Call::Read(extent) => self.file(extent.file),
            Call::WriteStrided(strided) | Call::ReadStrided(strided) => self.file(strided.file),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_a_run() {
        let names = Names::new("/a/b".to_owned());
        assert_eq!(names.dir(Dir::Nested(3, 4)), "/a/b/dir.3/dir.4");
        assert_eq!(names.file(FileId { dir: Dir::Sub(3), number: 7 }), "/a/b/dir.3/file.7");
        assert_eq!(Names::new("/".to_owned()).file(FileId { dir: Dir::Base, number: 7 }), "/file.7");
    }
}
