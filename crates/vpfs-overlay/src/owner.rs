//! Which source the region files in a directory belong to: a check of another one would take them for left over.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::Path;

use rustix::fs::{XattrFlags, fstat, getxattr, setxattr};
use rustix::io::Errno;

use crate::class::Class;
use crate::stored::{ATTRIBUTE, new_id};

/// The file in a class's directory that has the id of its source. The source's root has it as an attribute.
const NAME: &str = "vpfs-source";
const ID_MAX: usize = 64;

/// Whose a directory of a class is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owned {
    This,
    Another,
    Nobody,
}

pub(crate) fn owned(source: &Path, class: &Class) -> io::Result<Owned> {
    let mut id = String::new();
    match File::open(class.path.join(NAME)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Owned::Nobody),
        file => file?.take(ID_MAX as u64).read_to_string(&mut id)?,
    };
    Ok(if source_id(source)?.as_deref() == Some(id.trim()) { Owned::This } else { Owned::Another })
}

/// Makes sure that the directory belongs to this source, and that nobody else can put files into it.
pub(crate) fn claim(source: &Path, class: &Class) -> io::Result<()> {
    if fstat(&class.directory)?.st_mode & 0o022 != 0 {
        return Err(io::Error::other("others may write to it, and so to region files; chmod it to 700"));
    }
    match owned(source, class)? {
        Owned::This => Ok(()),
        Owned::Another => Err(io::Error::other("it has region files of another source; give each source its own")),
        Owned::Nobody => {
            let id = match source_id(source)? {
                Some(id) => id,
                None => {
                    let id = new_id()?;
                    setxattr(source, ATTRIBUTE, id.as_bytes(), XattrFlags::CREATE)?;
                    id
                }
            };
            let path = class.path.join(NAME);
            let mut file = File::create_new(&path)?;
            writeln!(file, "{id}").and_then(|()| file.sync_all()).inspect_err(|_| drop(fs::remove_file(&path)))
        }
    }
}

fn source_id(source: &Path) -> io::Result<Option<String>> {
    let mut id = [0_u8; ID_MAX];
    match getxattr(source, ATTRIBUTE, &mut id[..]) {
        Err(Errno::NODATA) => Ok(None),
        size => Ok(Some(String::from_utf8_lossy(&id[..size?]).into_owned())),
    }
}
