//! What keys of several tables have in common.

use vpfs_core::PolicyKind;

use crate::schema::tunables::Kind;

pub(super) const NAME: Kind = Kind::Text("a name of letters, digits, \"-\", \"_\" and \".\", at most 64 of them");
pub(super) const HOSTS: Kind =
    Kind::List("a list of addresses, networks, host names and host lists such as [\"10.1.0.0/16\", \"c[001-064]\"]");
pub(super) const PATHS: Kind = Kind::List("a list of patterns such as [\"/opt/climate/**\"]");
pub(super) const NAMES: Kind = Kind::List("a list of patterns such as [\"hub-*\"]");
pub(super) const ACCOUNTS: Kind = Kind::List("a list of names such as [\"alice\", \"bob\"]");
pub(super) const IDS: Kind = Kind::List("a list of numbers and ranges such as [1000, \"2000-2999\"]");
pub(super) const TWO_LEVEL: &[PolicyKind] = &[PolicyKind::TwoLevel];
pub(super) const ISOLATION: &[PolicyKind] = &[PolicyKind::Isolation];
pub(super) const MINIMA: &[PolicyKind] = &[PolicyKind::Isolation, PolicyKind::Proportional];
