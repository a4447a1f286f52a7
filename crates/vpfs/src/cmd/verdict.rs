//! The first line: is the storage busy, who is slowed by whom, and is anybody below what it is entitled to.

use serde::Serialize;

use super::why::Breakdown;
use crate::print::{percent, plain};

/// What to know first.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(super) struct Verdict {
    pub(super) level: Level,
    /// One each for the three questions.
    pub(super) sentences: Vec<String>,
}

/// How well applications fare.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Level {
    /// None waits for another for long.
    #[default]
    Good,
    /// Some do, and get what they are entitled to.
    Slowed,
    /// Some get less.
    Below,
}

impl Level {
    /// A sign for people who do not see colours, and a word.
    pub(super) fn sign(self) -> &'static str {
        match self {
            Self::Good => "OK",
            Self::Slowed => "~ slowed",
            Self::Below => "! below",
        }
    }
}

impl Verdict {
    /// In one line.
    pub(super) fn text(&self) -> String {
        format!("{}: {}", self.level.sign(), self.sentences.join(" "))
    }

    pub(super) fn of<'a>(utilisation: f64, apps: impl Iterator<Item = &'a Breakdown> + Clone) -> Self {
        let mut slowed: Vec<(&Breakdown, &str, f64)> =
            apps.clone().filter_map(|app| app.slowed_most_by().map(|(by, part)| (app, by, part))).collect();
        slowed.sort_by(|one, other| other.2.total_cmp(&one.2));
        let mut below: Vec<&Breakdown> = apps.clone().filter(|app| app.is_below_entitled()).collect();
        below.sort_by(|one, other| (one.used - one.entitled).total_cmp(&(other.used - other.entitled)));
        let level = match (slowed.is_empty(), below.is_empty()) {
            (_, false) => Level::Below,
            (false, true) => Level::Slowed,
            (true, true) => Level::Good,
        };
        let mut sentences = vec![busy(utilisation, apps.count() == 0)];
        sentences.push(slowed.first().map_or_else(
            || "No application waits long for another.".to_owned(),
            |(app, by, part)| {
                let (app, more) = (plain(&app.app), more(slowed.len()));
                format!(
                    "{by} slows {app}: {part} of the time of its requests{more}.",
                    by = plain(by),
                    part = percent(*part)
                )
            },
        ));
        sentences.push(below.first().map_or_else(
            || "All get what they are entitled to.".to_owned(),
            |app| {
                let [used, entitled] = [app.used, app.entitled].map(percent);
                format!("{} used {used} of the {entitled} it is entitled to{}.", plain(&app.app), more(below.len()))
            },
        ));
        Self { level, sentences }
    }
}

fn busy(utilisation: f64, is_idle: bool) -> String {
    let word = match utilisation {
        _ if is_idle => return "The storage is idle.".to_owned(),
        0.8.. => "busy",
        0.3.. => "in use",
        _ => "lightly used",
    };
    format!("The storage is {word} ({}).", percent(utilisation))
}

fn more(count: usize) -> String {
    if count > 1 { format!(" (and {} more)", count - 1) } else { String::new() }
}

#[cfg(test)]
mod tests {
    use super::super::why::{example, example_span};
    use super::*;

    fn verdict(times: [f64; 3], used: f64) -> Verdict {
        let mut apps = vec![example("small", times, "large"), example("large", [0.0, 1.0, 1.0], "large")];
        apps[0].used_seconds = used;
        let span = example_span(apps);
        let all: Vec<Breakdown> = ["small", "large"].iter().filter_map(|app| Breakdown::of(&span, app)).collect();
        Verdict::of(0.93, all.iter())
    }

    #[test]
    fn the_three_questions_are_answered() {
        let below = verdict([0.0, 20.0, 1.0], 1.0);
        let expected = [
            "The storage is busy (93%).",
            "large slows small: 95% of the time of its requests.",
            "small used 10% of the 50% it is entitled to.",
        ];
        assert_eq!((below.level, &below.sentences[..]), (Level::Below, &expected.map(str::to_owned)[..]));
        let slowed = verdict([0.0, 20.0, 1.0], 5.0);
        assert_eq!((slowed.level, slowed.sentences[2].as_str()), (Level::Slowed, "All get what they are entitled to."));
        let good = verdict([0.0, 1.0, 1.0], 1.0);
        assert_eq!((good.level, good.sentences[1].as_str()), (Level::Good, "No application waits long for another."));
        let idle = Verdict::of(0.0, [].iter());
        assert_eq!((idle.level, idle.sentences[0].as_str()), (Level::Good, "The storage is idle."));
    }
}
