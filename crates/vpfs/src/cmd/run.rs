//! `vpfs run`: a weight for one's own commands.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::Command;

use clap::value_parser;
use vpfs_config::RunWeight;

use crate::exit::Exit;

/// Run a command with a weight among one's own
///
/// Below a `vpfs mount` that lets programs take turns (docs/guide/layouts.md), this command and all that it starts get
/// that many times what one's other programs get, of one's own share: nobody else gets less. All commands of a user, or
/// of a Slurm job, with the same weight are one application. mpiexec and srun pass it on to other hosts, as the
/// variable VPFS_WEIGHT of the environment. It has no effect on what `[[app]]` rules name.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  \
    vpfs run --weight 4 -- make -j8             four times what my other programs get\n  \
    vpfs run --weight 4 -- srun ./model         all ranks of it")]
pub(crate) struct Run {
    /// Its weight; programs without one have 1
    #[arg(long, value_name = "1-10", value_parser = value_parser!(u8).range(1..=i64::from(RunWeight::MAX)))]
    weight: u8,

    /// The command and its arguments
    #[arg(required = true, trailing_var_arg = true, value_name = "CMD")]
    command: Vec<OsString>,
}

impl Run {
    /// Becomes the command.
    pub(crate) fn run(&self) -> Result<(), Exit> {
        let (program, args) = self.command.split_first().expect("it is required");
        let error = Command::new(program).args(args).env(RunWeight::VARIABLE, self.weight.to_string()).exec();
        Err(Exit::Failed(format!("cannot run {}: {error}", program.display())))
    }
}
