//! `vpfs app ls`.

use std::collections::BTreeMap;
use std::time::Duration;

use comfy_table::Table;
use comfy_table::presets::NOTHING;
use vpfs_admin::PushedSets;
use vpfs_config::sets::{AppText, IdText, SetName};

use super::of_several;
use crate::cmd::asking::Asking;
use crate::cmd::runtime;
use crate::exit::Exit;
use crate::print::{plain, print, print_json, roughly};

/// Show the applications that were pushed, and where servers differ
#[derive(clap::Args)]
pub(super) struct Ls {
    #[command(flatten)]
    asking: Asking,

    /// Print JSON: a list with an object for each proxy
    #[arg(long)]
    json: bool,
}

impl Ls {
    pub(super) fn run(&self) -> Result<(), Exit> {
        let config = self.asking.config()?;
        let told: Vec<PushedSets> = runtime()?.block_on(self.asking.answers(&config))?.told();
        if self.json {
            return print_json(&told);
        }
        print(text(&told))
    }
}

/// An application as some servers have it.
struct Seen<'a> {
    app: &'a AppText,
    /// The least at any of them.
    left_seconds: f64,
    /// By position in what was told.
    at: Vec<usize>,
}

/// A row for each application; several where servers have different ones of the same name.
fn text(told: &[PushedSets]) -> String {
    let mut apps = BTreeMap::<(&SetName, &str), Vec<Seen<'_>>>::new();
    for (place, pushed) in told.iter().enumerate() {
        for set in &pushed.sets {
            for app in &set.text.apps {
                let seen = apps.entry((&set.set, &app.name)).or_default();
                match seen.iter_mut().find(|seen| seen.app == app) {
                    Some(seen) => {
                        seen.left_seconds = seen.left_seconds.min(set.left_seconds);
                        seen.at.push(place);
                    }
                    None => seen.push(Seen { app, left_seconds: set.left_seconds, at: vec![place] }),
                }
            }
        }
    }
    if apps.is_empty() {
        return "no application was pushed".to_owned();
    }
    let mut table = Table::new();
    table
        .load_style(NOTHING)
        .set_header(["app", "set", "share", "weight", "cap", "clients", "users", "left", "servers"]);
    let mut differ = 0;
    for ((set, name), seen) in apps {
        // The jobs of a mount are those of its host.
        let is_lacking = |seen: &Seen<'_>| seen.app.jobs.is_empty() && seen.at.len() < told.len();
        differ += usize::from(seen.len() > 1 || seen.iter().any(is_lacking));
        for seen in seen {
            table.add_row(row(set, name, &seen, told));
        }
    }
    match differ {
        0 => table.to_string(),
        _ => format!("{table}\n{differ} differ between servers: their owner has not reached all of them lately"),
    }
}

fn row(set: &SetName, name: &str, Seen { app, left_seconds, at }: &Seen<'_>, told: &[PushedSets]) -> [String; 9] {
    let servers: Vec<&str> = at.iter().flat_map(|place| told[*place].servers.iter().map(String::as_str)).collect();
    [
        format!("{}:{name}", set.owner()),
        of_several(set, name).unwrap_or_default().to_owned(),
        app.share.clone().unwrap_or_default(),
        app.weight.unwrap_or(1).to_string(),
        app.cap.clone().unwrap_or_default(),
        some(&app.clients),
        some(&users(app)),
        roughly(Duration::try_from_secs_f64(*left_seconds).unwrap_or_default()),
        if at.len() == told.len() { "all".to_owned() } else { format!("only {}", servers.join(", ")) },
    ]
    .map(|cell| plain(&cell))
}

/// Users, then groups, then jobs.
pub(in super::super) fn users(app: &AppText) -> Vec<String> {
    let id = |id: &IdText| match id {
        IdText::One(id) => id.to_string(),
        IdText::Range(range) => range.clone(),
    };
    let groups = app.gids.iter().map(|gid| format!("group {}", id(gid)));
    let jobs = app.jobs.iter().map(|job| format!("job {job}"));
    app.uids.iter().map(id).chain(groups).chain(jobs).collect()
}

/// The first two, and how many more.
pub(in super::super) fn some(all: &[String]) -> String {
    let shown = all.iter().take(2).map(String::as_str).collect::<Vec<_>>().join(", ");
    match all.len().saturating_sub(2) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

#[cfg(test)]
mod tests {
    use vpfs_admin::PushedSet;
    use vpfs_config::sets::SetText;

    use super::*;

    fn told(server: &str, left_seconds: f64, apps: &[(&str, u32)]) -> PushedSets {
        let app = |&(name, weight): &(&str, u32)| AppText {
            name: name.into(),
            weight: Some(weight),
            uids: vec![IdText::One(7)],
            ..AppText::default()
        };
        let text = SetText { version: 1, ttl: "2min".into(), apps: apps.iter().map(app).collect() };
        let set = PushedSet { set: SetName::parse("slurm").unwrap(), left_seconds, text };
        PushedSets { servers: vec![server.to_owned()], sets: vec![set] }
    }

    #[test]
    fn what_differs_between_servers_is_shown() {
        let same = text(&[told("s1", 90.0, &[("1", 4)]), told("s2", 80.0, &[("1", 4)])]);
        let rows: Vec<&str> = same.lines().collect();
        assert!(rows.len() == 2 && rows[1].contains("80 s") && rows[1].trim_end().ends_with("all"), "{same}");
        let differ = text(&[told("s1", 90.0, &[("1", 4), ("2", 1)]), told("s2", 80.0, &[("1", 3)])]);
        assert_eq!(differ.lines().count(), 5, "{differ}");
        assert!(differ.contains("only s1") && differ.contains("only s2"), "{differ}");
        assert!(differ.contains("2 differ"), "{differ}");
        assert!(same.contains("slurm:1 ") && same.contains(" slurm "), "the name that all commands use: {same}");
        let mut own = told("s1", 90.0, &[("ior", 1)]);
        own.sets[0].set = SetName::parse("admin.ior").unwrap();
        assert!(text(&[own.clone()]).contains("admin:ior ") && !text(&[own]).contains("admin.ior"));
        assert_eq!(text(&[]), "no application was pushed");
        let job = |server: &str, weight| {
            let mut told = told(server, 90.0, &[("7", weight)]);
            told.sets[0].text.apps[0].jobs = vec![7];
            told
        };
        let elsewhere = text(&[job("c1", 4), told("c2", 90.0, &[])]);
        assert!(elsewhere.contains("only c1") && !elsewhere.contains("differ"), "{elsewhere}");
        assert!(text(&[job("c1", 4), job("c2", 3)]).contains("1 differ"));
    }
}
