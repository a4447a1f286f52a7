//! `vpfs app`: applications of a configuration, and those that are pushed to running proxies.

mod list;
mod set;
mod which;

use std::path::PathBuf;

use clap::Subcommand;
use vpfs_admin::Change;
use vpfs_config::sets::SetName;

use super::asking::Asking;
use super::asking::changing::{Changed, read_token};
use super::runtime;
use crate::exit::Exit;
use crate::print::print;

pub(super) use list::{some, users};

/// Give clients a share for some time, without a change of the configuration
///
/// Proxies hold such applications until their time is over, also over restarts and upgrades. Rules of `[[app]]` in the
/// configuration go first. Root may change them on the proxies' own hosts; everybody else, and --remote, needs the
/// token of an `[[owner]]`.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  \
    vpfs app set ior --weight 4 --clients c0[12-15] --for 2h\n  \
    vpfs app set alice --uid 3001 --share physics/alice --for 1d --remote --token admin.token\n  \
    vpfs app ls --remote             all applications of all servers, and what differs\n  \
    vpfs app rm ior\n  \
    vpfs app which --host c012 --uid 3001   to which application a client belongs, and why")]
pub(crate) struct App {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Set(set::Set),
    Rm(Rm),
    Ls(list::Ls),
    Which(which::Which),
}

/// Take an application away before its time is over
#[derive(clap::Args)]
struct Rm {
    /// Its name, as given to `vpfs app set`; with --set, that of a whole set as `vpfs app ls` shows it
    #[arg(add = super::asking::candidates::apps())]
    name: String,

    /// Remove the whole set of this name, no matter who pushed it
    #[arg(long)]
    set: bool,

    #[command(flatten)]
    owner: Owner,

    #[command(flatten)]
    asking: Asking,
}

/// The name of a set, if it says more than that of the application: a set of one has that of its owner and of it.
fn of_several<'a>(set: &'a SetName, app: &str) -> Option<&'a str> {
    let is_own = set.as_str().split_once('.') == Some((set.owner(), app));
    (!is_own).then(|| set.as_str())
}

/// The owner whose name need not be written.
const ADMIN: &str = "admin";

/// What all but its owner call an application that `vpfs app set` made under this name; `None` if it names its owner.
pub(super) fn of_admin(app: &str) -> Option<String> {
    (!app.contains(':')).then(|| format!("{ADMIN}:{app}"))
}

/// In whose name something is changed.
#[derive(clap::Args)]
struct Owner {
    /// The owner, for which the configuration has an `[[owner]]`
    #[arg(long, value_name = "NAME", default_value = ADMIN)]
    owner: String,

    /// The file with the owner's token [default: none, for root on a proxy's own host]
    #[arg(long, value_name = "FILE")]
    token: Option<PathBuf>,
}

impl Owner {
    /// The set that consists of the application of this name, so that setting one leaves all others alone.
    fn set_of(&self, app: &str) -> Result<SetName, Exit> {
        SetName::parse(&format!("{}.{}", self.owner, self.own(app)?)).map_err(Exit::Usage)
    }

    /// What the owner calls an application; everybody else calls it `OWNER:NAME`.
    fn own<'a>(&self, app: &'a str) -> Result<&'a str, Exit> {
        match app.split_once(':') {
            None => Ok(app),
            Some((owner, name)) if owner == self.owner => Ok(name),
            Some((owner, _)) => Err(Exit::Usage(format!("{app} belongs to {owner}; add --owner {owner}"))),
        }
    }

    /// Pushes a set, or removes it, and says where that failed.
    fn change(&self, asking: &Asking, name: SetName, json: Option<Vec<u8>>) -> Result<(), Exit> {
        let token = self.token.as_deref().map(read_token).transpose()?;
        let config = asking.config()?;
        let change = Change { name, json: json.map(Into::into), token };
        let is_removal = change.json.is_none();
        let Changed { done, is_different, failed } = runtime()?.block_on(asking.change(&config, &change))?;
        failed.iter().for_each(|(server, silence)| eprintln!("vpfs: the proxy of {server} {silence}"));
        if is_removal && failed.is_empty() && !is_different {
            let reason = format!("there is no set {} at {}; `vpfs app ls` shows all", change.name, done.join(", "));
            return Err(Exit::Failed(reason));
        }
        match failed.is_empty() {
            true => print(format_args!("done at {}", done.join(", "))),
            false if done.is_empty() => Err(Exit::Failed("nothing was changed".to_owned())),
            false => Err(Exit::Failed(format!("changed only at {}; try again", done.join(", ")))),
        }
    }
}

impl App {
    pub(crate) fn run(&self) -> Result<(), Exit> {
        match &self.command {
            Command::Set(set) => set.run(),
            Command::Rm(rm) => rm.run(),
            Command::Ls(ls) => ls.run(),
            Command::Which(which) => which.run(),
        }
    }
}

impl Rm {
    fn run(&self) -> Result<(), Exit> {
        let name = match self.set {
            true => SetName::parse(&self.name).map_err(Exit::Usage)?,
            false => self.owner.set_of(&self.name)?,
        };
        self.owner.change(&self.asking, name, None)
    }
}
