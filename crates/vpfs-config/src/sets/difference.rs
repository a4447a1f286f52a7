//! How the applications of two sets differ, in words.

use std::collections::BTreeMap;

use super::set::{AppText, IdText};

/// The most applications to name.
const NAMED: usize = 8;

/// For example `4711 added (weight 4, share bio), 4712 (weight 1 -> 4), 4713 removed`; empty if nothing differs. The
/// first eight, and how many more. O(n log n) in applications.
pub fn difference(before: &[AppText], after: &[AppText]) -> String {
    let by_name = |apps: &[AppText]| apps.iter().map(|app| (app.name.clone(), values(app))).collect::<BTreeMap<_, _>>();
    let (mut before, mut differing) = (by_name(before), Vec::new());
    for (name, new) in by_name(after) {
        match before.remove(&name) {
            Some(old) if old == new => {}
            Some(old) => differing.push(format!("{name} ({})", changes(&old, &new))),
            None => differing.push(format!("{name} added ({})", given(&new))),
        }
    }
    differing.extend(before.into_keys().map(|name| format!("{name} removed")));
    let more = differing.len().saturating_sub(NAMED);
    differing.truncate(NAMED);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{}{more}", differing.join(", "))
}

/// What an application gets, and then whose requests.
type Values = [(&'static str, String); 6];

fn values(app: &AppText) -> Values {
    let ids = |ids: &[IdText]| {
        let id = |id: &IdText| match id {
            IdText::One(id) => id.to_string(),
            IdText::Range(range) => range.clone(),
        };
        ids.iter().map(id).collect::<Vec<_>>().join(" ")
    };
    [
        ("weight", app.weight.unwrap_or(1).to_string()),
        ("share", app.share.clone().unwrap_or_default()),
        ("cap", app.cap.clone().unwrap_or_default()),
        ("clients", app.clients.join(" ")),
        ("users and groups", format!("{};{}", ids(&app.uids), ids(&app.gids))),
        ("jobs", app.jobs.iter().map(u32::to_string).collect::<Vec<_>>().join(" ")),
    ]
}

/// Lists of clients have any length, so they are only said to differ.
fn changes(old: &Values, new: &Values) -> String {
    let shown = |text: &str| if text.is_empty() { "none".to_owned() } else { text.to_owned() };
    let differing = (0..old.len()).filter(|at| old[*at] != new[*at]);
    let change = |at: usize| match (old[at].0, at) {
        (key, 0..3) => format!("{key} {} -> {}", shown(&old[at].1), shown(&new[at].1)),
        (key, _) => format!("other {key}"),
    };
    differing.map(change).collect::<Vec<_>>().join(", ")
}

fn given(values: &Values) -> String {
    let given = values.iter().take(3).filter(|(_, value)| !value.is_empty());
    given.map(|(key, value)| format!("{key} {value}")).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_differs_is_named() {
        let app = |name: &str, weight| AppText { name: name.into(), weight: Some(weight), ..AppText::default() };
        let before = [app("1", 1), app("2", 1), app("3", 1), app("4", 1)];
        let share = Some("bio".to_owned());
        let [clients, others] = [vec!["10.0.0.1".to_owned()], vec!["10.0.0.2".to_owned()]];
        let after = [
            app("1", 1),
            AppText { share: share.clone(), ..app("2", 4) },
            AppText { clients, ..app("3", 1) },
            AppText { share, clients: others, ..app("9", 2) },
        ];
        let said = "2 (weight 1 -> 4, share none -> bio), 3 (other clients), 9 added (weight 2, share bio), 4 removed";
        assert_eq!(difference(&before, &after), said);
        assert_eq!(difference(&before, &before), "");
        let many: Vec<AppText> = (10..30).map(|name| app(&name.to_string(), 1)).collect();
        assert!(difference(&[], &many).ends_with("17 added (weight 1) and 12 more"));
    }
}
