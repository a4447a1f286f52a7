//! `vpfs layout join`: a plain file instead of regions.

use std::path::PathBuf;

use crate::cmd::regions::Regions;
use crate::exit::Exit;
use crate::print::print;

/// Make a plain file of one that has regions
///
/// The file must not be open in a mount. It gets its new form in one step; if the command is interrupted, it is as
/// before.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  vpfs layout join /mnt/pfs/out/a.h5 --regions regions.toml")]
pub(crate) struct Join {
    /// The file, in the directory that is mounted, not in the mount
    file: PathBuf,

    /// Where regions of files lie
    #[arg(long, value_name = "FILE")]
    regions: PathBuf,
}

impl Join {
    pub(crate) fn run(&self) -> Result<(), Exit> {
        let regions = Regions::read(&self.regions)?;
        let file = self.file.display();
        let joined = vpfs_overlay::join(&self.file, &regions.classes, vpfs_relayout::copy_attributes);
        let size = joined.map_err(|error| Exit::Failed(format!("cannot join {file}: {error}")))?;
        print(format!("{file} is a plain file of {size} bytes"))
    }
}
