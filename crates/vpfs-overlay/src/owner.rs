//! Which source and class the region files in a directory belong to. A region file that is not there is a hole, so a
//! class whose file system is not mounted, or is another one's, must not be taken for an empty one.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::Path;

use rustix::fs::{XattrFlags, fstat, getxattr, setxattr};
use rustix::io::Errno;

use crate::class::Class;
use crate::fd::sync_directory;
use crate::stored::{ATTRIBUTE, new_id};

/// The file in a class's directory that has the id of its source, and the name of the class.
const NAME: &str = "vpfs-source";
const TEXT_MAX: usize = 4096;

/// What the root of a source has as an attribute: its id, and the classes that may have region files.
struct Source {
    id: String,
    classes: Vec<String>,
}

impl Source {
    fn of(root: &Path) -> io::Result<Option<Self>> {
        let mut text = [0_u8; TEXT_MAX];
        match getxattr(root, ATTRIBUTE, &mut text[..]) {
            Err(Errno::NODATA) => Ok(None),
            size => {
                let text = String::from_utf8_lossy(&text[..size?]).into_owned();
                let mut words = text.split_ascii_whitespace().map(str::to_owned);
                Ok(Some(Self { id: words.next().unwrap_or_default(), classes: words.collect() }))
            }
        }
    }

    fn write(&self, root: &Path) -> io::Result<()> {
        let text = format!("{} {}", self.id, self.classes.join(" "));
        Ok(setxattr(root, ATTRIBUTE, text.as_bytes(), XattrFlags::empty())?)
    }

    /// Whether the directory has region files of this source and class; if not, nobody's.
    fn has(source: Option<&Self>, class: &Class) -> io::Result<bool> {
        let mut text = String::new();
        match File::open(class.path.join(NAME)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let is_missing = source.is_some_and(|source| source.classes.contains(&class.name));
                return if is_missing { Err(missing()) } else { Ok(false) };
            }
            file => file?.take(TEXT_MAX as u64).read_to_string(&mut text)?,
        };
        let mut words = text.split_ascii_whitespace();
        let (id, name) = (words.next(), words.next());
        if id.is_none() || id != source.map(|source| source.id.as_str()) {
            return Err(io::Error::other("it has region files of another source; give each source its own"));
        }
        if name != Some(&class.name) {
            let name = name.unwrap_or_default();
            return Err(io::Error::other(format!("it has the region files of class {name:?}")));
        }
        Ok(true)
    }
}

fn missing() -> io::Error {
    io::Error::other("the class has region files, but they are not there; is its file system mounted?")
}

/// Makes sure that the directory has the region files of this source and class.
pub(crate) fn verify(source: &Path, class: &Class) -> io::Result<()> {
    match Source::has(Source::of(source)?.as_ref(), class)? {
        true => Ok(()),
        false => Err(io::Error::other("it has no region files of this source")),
    }
}

/// The root of the source that a file is in.
pub(crate) fn source_of(file: &Path) -> io::Result<Option<std::path::PathBuf>> {
    let file = file.canonicalize()?;
    for directory in file.ancestors().skip(1) {
        if Source::of(directory)?.is_some() {
            return Ok(Some(directory.to_owned()));
        }
    }
    Ok(None)
}

/// Makes sure that the directory belongs to this source and class, and that nobody else can put files into it. A
/// directory that belongs to nobody is taken.
pub(crate) fn claim(root: &Path, class: &Class) -> io::Result<()> {
    if fstat(&class.directory)?.st_mode & 0o022 != 0 {
        return Err(io::Error::other("others may write to it, and so to region files; chmod it to 700"));
    }
    let mut source = match Source::of(root)? {
        Some(source) => source,
        None => Source { id: new_id()?, classes: Vec::new() },
    };
    if !Source::has(Some(&source), class)? {
        // The id first, so that what a crash leaves is not another source's.
        source.write(root)?;
        let path = class.path.join(NAME);
        let mut file = File::create_new(&path)?;
        let written = writeln!(file, "{} {}", source.id, class.name).and_then(|()| file.sync_all());
        written.inspect_err(|_| drop(fs::remove_file(&path)))?;
        sync_directory(&class.directory)?;
    }
    if !source.classes.contains(&class.name) {
        source.classes.push(class.name.clone());
        source.write(root)?;
    }
    Ok(())
}
