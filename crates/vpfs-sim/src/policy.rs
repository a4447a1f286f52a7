//! What the simulator must know of policies to check them.

use vpfs_core::PolicyKind;

/// Whether the policy promises never to use more slots than its depth.
pub(crate) fn has_slots(kind: PolicyKind) -> bool {
    matches!(kind, PolicyKind::SfqD | PolicyKind::SfqDPlus)
}
