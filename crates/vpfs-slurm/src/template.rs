//! Texts with fields of a job, such as `{account}/{user}`.

use crate::jobs::Job;

/// What may stand in braces.
pub(crate) const FIELDS: [&str; 5] = ["account", "user", "qos", "partition", "job"];

/// A text with fields.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Template(String);

impl Template {
    /// # Errors
    /// What is wrong in it.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let template = Self(text.to_owned());
        let filled = template.fill(&Job::default());
        if filled.contains(['{', '}']) {
            let fields = FIELDS.map(|field| format!("{{{field}}}")).join(", ");
            return Err(format!("{text:?} has braces that are no field; there are {fields}"));
        }
        vpfs_config::sets::check_share(&filled)?;
        Ok(template)
    }

    pub(crate) fn has_account(&self) -> bool {
        self.0.contains("{account}")
    }

    /// Whether the account decides about the top-level share.
    pub(crate) fn begins_with_account(&self) -> bool {
        self.0.split('/').next().is_some_and(|top| top.contains("{account}"))
    }

    /// The text for a job. Whatever a field has, its place stays one name.
    pub(crate) fn fill(&self, job: &Job) -> String {
        let family = job.family.to_string();
        let values = [&job.account, &job.user, &job.qos, &job.partition, &family];
        FIELDS
            .iter()
            .zip(values)
            .fold(self.0.clone(), |text, (field, value)| text.replace(&format!("{{{field}}}"), &name_of(value)))
    }
}

/// A name that is permitted everywhere; `none` for a text without any.
pub(crate) fn name_of(text: &str) -> String {
    let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let name: String = text.chars().take(64).map(|c| if legal(c) { c } else { '_' }).collect();
    if name.is_empty() { "none".to_owned() } else { name }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_a_field_has_the_place_is_valid() {
        let template = Template::parse("batch/{account}/{user}").unwrap();
        let fill =
            |account: &str| template.fill(&Job { account: account.into(), user: "alice".into(), ..Job::default() });
        assert_eq!(fill("physics"), "batch/physics/alice");
        assert_eq!(fill(""), "batch/none/alice");
        for hostile in ["a/b", "../..", "{user}", "\u{1b}[31m", "\n", "é", &"x".repeat(999)] {
            assert!(vpfs_config::sets::check_share(&fill(hostile)).is_ok(), "{}", fill(hostile));
            assert_eq!(fill(hostile).matches('/').count(), 2);
        }
        for wrong in ["{acount}", "a b", "", "/x", "{user", "a//b"] {
            assert!(Template::parse(wrong).is_err(), "{wrong}");
        }
    }
}
