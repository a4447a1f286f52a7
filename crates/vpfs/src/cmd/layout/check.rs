//! `vpfs layout check`: maps and region files.

use std::path::PathBuf;

use crate::cmd::regions::Regions;
use crate::exit::Exit;
use crate::print::{plain, print};

/// Find region files without a file, and files whose regions are not as they should be
///
/// For a source of `vpfs mount --regions`, after a crash of the daemon or the host. What a crash leaves costs space
/// only, and --fix removes it, unless some map cannot be read. Exits with 1 if anything is left to be done.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  vpfs layout check /mnt/pfs --regions regions.toml --fix")]
pub(crate) struct Check {
    /// The directory that is mounted
    source: PathBuf,

    /// Where regions of files lie
    #[arg(long, value_name = "FILE")]
    regions: PathBuf,

    /// Fix what can be fixed; nobody may have it mounted, on any host
    #[arg(long)]
    fix: bool,
}

impl Check {
    pub(crate) fn run(&self) -> Result<(), Exit> {
        let regions = Regions::read(&self.regions)?;
        let report = vpfs_overlay::check(&self.source, &regions.classes, self.fix)
            .map_err(|error| Exit::Failed(format!("cannot check {}: {error}", self.source.display())))?;
        for (finding, is_fixed) in &report.findings {
            print(format!("{}{}", plain(&finding.to_string()), if *is_fixed { "; fixed" } else { "" }))?;
        }
        print(format!("{} files with regions, {} findings", report.maps, report.findings.len()))?;
        match report.findings.iter().filter(|(_, is_fixed)| !is_fixed).count() {
            0 => Ok(()),
            left if self.fix => Err(Exit::Failed(format!("{left} findings must be fixed by hand"))),
            left => Err(Exit::Failed(format!("{left} findings; --fix fixes what can be fixed"))),
        }
    }
}
