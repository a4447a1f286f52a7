//! One case of an experiment: a scenario with one policy, as the simulator and the proxies need it.

use std::collections::BTreeMap;

use toml::{Table, Value};
use vpfs_sim::{PolicySpec, Scenario};

use crate::real::proxies::AppConfig;

/// The policy of a scenario that stands for no proxy at all; it is simulated as `fifo`.
pub(super) const NO_PROXY: &str = "no proxy";

/// Keys that an application has in scenarios and in vpfs.toml.
const APP_KEYS: [&str; 10] = [
    "weight",
    "cap",
    "server_cap",
    "burst",
    "target_rate",
    "server_target_rate",
    "deadline",
    "latency",
    "min_rate",
    "server_min_rate",
];

/// A scenario with one policy.
#[derive(Clone, Debug)]
pub(super) struct Trial {
    /// Experiment, variant and policy.
    pub(super) key: String,
    pub(super) scenario: Scenario,
    pub(super) policy: PolicySpec,
    /// The applications of the scenario, in its order.
    pub(super) apps: Vec<AppConfig>,
    /// The `strips` of each application's files, where they are not simple stripes.
    pub(super) strips: Vec<Option<String>>,
    /// The table `[scheduler]`; `None` without a proxy.
    pub(super) scheduler: Option<String>,
}

/// The trials of a scenario's text, one for each policy, with other values at some paths such as `app.1.weight`, and
/// without what is at others.
pub(super) fn trials(
    prefix: &str,
    file: &str,
    text: &str,
    set: &BTreeMap<String, Value>,
    without: &[String],
) -> Result<Vec<Trial>, String> {
    let mut table: Table = text.parse().map_err(|error| format!("{file}: {error}"))?;
    for (path, value) in set {
        let edited = place(&mut table, path).and_then(|(place, last)| {
            place.as_table_mut()?.insert(last.to_owned(), value.clone());
            Some(())
        });
        edited.ok_or_else(|| format!("{file}: {path} = {value} does not fit"))?;
    }
    for path in without {
        let removed = place(&mut table, path).and_then(|(place, last)| match place {
            Value::Array(array) => {
                let index: usize = last.parse().ok()?;
                (index < array.len()).then(|| array.remove(index))
            }
            place => place.as_table_mut()?.remove(last),
        });
        removed.ok_or_else(|| format!("{file}: there is no {path}"))?;
    }
    let text = toml::to_string(&table).map_err(|error| format!("{file}: {error}"))?;
    let scenario = Scenario::parse(file, &text).map_err(|error| error.to_string())?;
    let apps: Vec<AppConfig> = tables(&table, "app").flat_map(configs).collect();
    let strips: Vec<_> = tables(&table, "app").flat_map(strips).collect();
    let of = |(table, policy): (&Table, &PolicySpec)| {
        let scheduler = Table::from_iter([("scheduler".to_owned(), table["scheduler"].clone())]);
        Trial {
            key: format!("{prefix}, {}", policy.name),
            scenario: scenario.clone(),
            policy: policy.clone(),
            apps: apps.clone(),
            strips: strips.clone(),
            scheduler: (policy.name != NO_PROXY).then(|| scheduler.to_string()),
        }
    };
    Ok(tables(&table, "policy").zip(&scenario.policies).map(of).collect())
}

/// What the last part of a path is in, and that part.
fn place<'t, 'p>(table: &'t mut Table, path: &'p str) -> Option<(&'t mut Value, &'p str)> {
    let (parent, last) = path.rsplit_once('.')?;
    let mut parts = parent.split('.');
    let first = table.get_mut(parts.next()?)?;
    let place = parts.try_fold(first, |place, part| match part.parse::<usize>() {
        Ok(index) => place.get_mut(index),
        Err(_) => place.get_mut(part),
    });
    Some((place?, last))
}

fn tables<'a>(table: &'a Table, key: &str) -> impl Iterator<Item = &'a Table> {
    table.get(key).and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_table)
}

/// An `[[app]]` of a scenario as `[[app]]`s of vpfs.toml, one for each copy.
fn configs(app: &Table) -> Vec<AppConfig> {
    let name = app.get("name").and_then(Value::as_str).unwrap_or_default();
    let kept = APP_KEYS.iter().filter_map(|key| Some(((*key).to_owned(), app.get(*key)?.clone())));
    let lines = Table::from_iter(kept).to_string();
    let config = |name: String| AppConfig { name, lines: lines.clone() };
    match copies(app) {
        1 => vec![config(name.to_owned())],
        copies => (1..=copies).map(|copy| config(format!("{name}-{copy}"))).collect(),
    }
}

fn strips(app: &Table) -> impl Iterator<Item = Option<String>> + use<> {
    let strips = app.get("strips").and_then(Value::as_str).map(str::to_owned);
    std::iter::repeat_n(strips, copies(app))
}

fn copies(app: &Table) -> usize {
    app.get("copies").and_then(Value::as_integer).and_then(|copies| copies.try_into().ok()).unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "[[servers]]\n[[policy]]\nname = \"no proxy\"\nscheduler = { policy = \"fifo\" }\n\
        [[policy]]\nname = \"ours\"\nscheduler = { policy = \"sfq-d-plus\", slot_cost = [{ up_to = \"2MiB\", slots = 5 }] }\n\
        [[app]]\nname = \"a\"\nweight = 3\nior = { processes = 1, transfer = \"1MiB\", block = \"1MiB\" }\n\
        [[app]]\nname = \"b\"\ncopies = 2\nior = { processes = 1, transfer = \"1MiB\", block = \"1MiB\" }\n";

    #[test]
    fn proxies_and_simulator_get_the_same() {
        let trials = trials("x", "x.toml", TEXT, &[("app.0.weight".to_owned(), 7.into())].into(), &[]).unwrap();
        let [none, ours] = &trials[..] else { panic!("two policies") };
        assert_eq!((none.key.as_str(), &none.scheduler), ("x, no proxy", &None));
        let scheduler = ours.scheduler.as_deref().unwrap();
        assert!(scheduler.starts_with("[scheduler]\n") && scheduler.contains("slots = 5"), "{scheduler}");
        let names: Vec<_> = ours.apps.iter().map(|app| app.name.as_str()).collect();
        assert_eq!(names, ["a", "b-1", "b-2"]);
        assert_eq!(ours.scenario.apps.iter().map(|app| app.name.as_str()).collect::<Vec<_>>(), names);
        assert_eq!((ours.apps[0].lines.as_str(), ours.scenario.apps[0].weight.get()), ("weight = 7\n", 7));
    }

    #[test]
    fn an_application_can_be_left_out() {
        let without = |path: &str| trials("x", "x.toml", TEXT, &BTreeMap::new(), &[path.to_owned()]);
        assert_eq!(without("app.1").unwrap()[0].apps.len(), 1);
        assert!(without("app.7").unwrap_err().contains("app.7"));
    }
}
