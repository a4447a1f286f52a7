//! The table of docs/measurements.md is printed from docs/measurements/claims.json, in which each claim has its origin.

use std::fmt::Write as _;
use std::path::Path;

use serde_json::Value;

use super::read;

const PAGE: &str = "docs/measurements.md";
const CLAIMS: &str = "docs/measurements/claims.json";
const BEGIN: &str = "<!-- claims -->\n";
const END: &str = "<!-- /claims -->";
/// What every claim states.
const FIELDS: [&str; 7] = ["claim", "goal", "by_hand", "value", "command", "commit", "machine"];

/// Checks the table, or writes it with `UPDATE=1`.
pub(super) fn check(root: &Path) -> Result<Vec<String>, String> {
    let claims: Value =
        serde_json::from_str(&read(&root.join(CLAIMS))?).map_err(|error| format!("{CLAIMS}: {error}"))?;
    let table = table(claims.as_array().ok_or("not a list")?)?;
    let page = read(&root.join(PAGE))?;
    let (before, rest) = page.split_once(BEGIN).ok_or("docs/measurements.md has no <!-- claims -->")?;
    let (_, after) = rest.split_once(END).ok_or("docs/measurements.md has no <!-- /claims -->")?;
    let new = format!("{before}{BEGIN}{table}{END}{after}");
    if new == page {
        return Ok(Vec::new());
    }
    if std::env::var_os("UPDATE").is_some() {
        return std::fs::write(root.join(PAGE), new).map(|()| Vec::new()).map_err(|error| format!("{PAGE}: {error}"));
    }
    Ok(vec![format!("{PAGE}: differs from {CLAIMS}; UPDATE=1 cargo xtask tidy writes the table")])
}

fn table(claims: &[Value]) -> Result<String, String> {
    let mut table = "|claim|goal|best by hand|vpfs|command|origin|\n|---|---|---|---|---|---|\n".to_owned();
    for claim in claims {
        if let Some(group) = claim["group"].as_str() {
            // Writing to a string cannot fail.
            let _ = writeln!(table, "|**{group}**|||||");
            continue;
        }
        let field = |name: &str| claim[name].as_str().ok_or_else(|| format!("{CLAIMS}: {claim} has no {name:?}"));
        let [what, goal, by_hand, value, command, commit, machine] = FIELDS.map(field);
        let command = command.map(|text| if text.contains('`') { text.to_owned() } else { format!("`{text}`") });
        let (what, goal, by_hand, value) = (what?, goal?, by_hand?, value?);
        let (command, commit, machine) = (command?, commit?, machine?);
        let day = field("day")?.rsplit('-').next().unwrap_or_default().trim_start_matches('0');
        let _ = writeln!(table, "|{what}|{goal}|{by_hand}|{value}|{command}|{commit}, {machine}, {day}|");
    }
    Ok(table)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claim_without_its_origin_is_refused() {
        let claim = serde_json::json!({ "claim": "a", "goal": "", "by_hand": "", "value": "1", "command": "c" });
        assert!(table(&[claim]).is_err_and(|error| error.contains("commit")));
    }
}
