//! Keys that the policy in force ignores, by the table of keys.

use vpfs_core::PolicyKind;

use crate::schema::table::Table;

/// Warns about keys that `policy` does not use, unless they have their defaults; each once, at the first of these
/// tables that has it.
pub(crate) fn warn(tables: &[Table<'_>], policy: PolicyKind) {
    let Some(section) = tables.first().map(Table::section) else { return };
    for row in section.keys.iter().filter(|row| !row.is_used_by(policy)) {
        let mut having = tables.iter().filter(|table| table.differs(row.key));
        let Some(first) = having.next() else { continue };
        let others = match having.count() {
            0 => String::new(),
            count => format!(" (so do {count} more {})", section.header),
        };
        let policies = row.policies.iter().map(|policy| policy.name()).collect::<Vec<_>>().join(", ");
        let message =
            format!("has no effect with the policy {}, only with {policies}; remove it{others}", policy.name());
        first.cx.warn(first.line_of(row.key), first.path(row.key), message);
    }
}
