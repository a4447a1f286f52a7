//! Calls and replies of NFSv3 for the operations of the model peers, of several users on each connection.

use vpfs_wire::bmi::Tag;

use super::operation::{Kind, meaning};

/// The window of a security context, as Ganesha has it.
const WINDOW: u32 = 32;
pub(super) const IS_LAST: u32 = 1 << 31;

fn number(tag: Tag) -> u32 {
    (tag.0 >> 16) as u32
}

/// A file for some operations in a row, then another one.
fn file(tag: Tag) -> u32 {
    number(tag) / 8 % 2
}

/// The call's number in its security context, which every third has. A client with several connections leaves gaps.
fn context_number(tag: Tag) -> Option<u32> {
    number(tag).is_multiple_of(3).then(|| 4 * number(tag))
}

/// What begins an operation.
pub(super) fn call(tag: Tag) -> Vec<u8> {
    let user = number(tag) % 3;
    let credential = match context_number(tag) {
        Some(number) => vec![6, 24, 1, 0, number, 1, 4, 9],
        None => vec![1, 20, 0, 0, user, 0, 0],
    };
    let (kind, len) = meaning(tag);
    let count = len as u32;
    let (procedure, arguments) = match kind {
        Kind::Metadata => (1, vec![]),
        Kind::Read => (6, vec![0, 0, count]),
        Kind::Write => (7, vec![0, 0, count, 0, count]),
        // A COMMIT.
        Kind::SmallWrite => (21, vec![0, 0, 0]),
    };
    let head = [tag.0 as u32, 0, 2, 100_003, 3, procedure];
    let file = [0, 0, 4, file(tag)];
    record(tag, &[&head[..], &credential, &file, &arguments].concat(), if kind == Kind::Write { len } else { 0 })
}

fn reply(tag: Tag) -> Vec<u8> {
    let (kind, len) = meaning(tag);
    let count = len as u32;
    let results = match kind {
        Kind::Metadata => vec![0; 22],
        Kind::Read => vec![0, 0, count, 1, count],
        Kind::Write => vec![0, 0, 0, count, 0, 0, 0],
        Kind::SmallWrite => vec![0; 5],
    };
    let head = [tag.0 as u32, 1, 0, 0, 0, 0];
    record(tag, &[&head[..], &results].concat(), if kind == Kind::Read { len } else { 0 })
}

/// A record of these words and so many bytes of data, of two fragments now and then.
fn record(tag: Tag, words: &[u32], data: usize) -> Vec<u8> {
    let mut message: Vec<u8> = words.iter().flat_map(|word| word.to_be_bytes()).collect();
    message.extend((0..data).map(|at| (at >> 8) as u8 ^ number(tag) as u8));
    let first = if number(tag).is_multiple_of(5) { 30 } else { 0 };
    let (first, last) = message.split_at(first);
    let mark = |fragment: &[u8], last: u32| (fragment.len() as u32 | last).to_be_bytes();
    let start = if first.is_empty() { Vec::new() } else { [&mark(first, 0), first].concat() };
    [&start, &mark(last, IS_LAST)[..], last].concat()
}

/// Whether `first` must stay before `second`, which its client sent later: one of them is a COMMIT of the same user and
/// file.
pub(super) fn is_ordered(first: Tag, second: Tag) -> bool {
    let [(one, _), (other, _)] = [first, second].map(meaning);
    number(first) < number(second)
        && number(first) % 3 == number(second) % 3
        && file(first) == file(second)
        && one != Kind::Metadata
        && other != Kind::Metadata
        && (one == Kind::SmallWrite || other == Kind::SmallWrite)
}

/// A server, which answers every call but those whose turn comes too late in their security context (RFC 2203).
#[derive(Default)]
pub(super) struct Server {
    newest: u32,
}

impl Server {
    pub(super) fn answer(&mut self, tag: Tag) -> Option<Vec<u8>> {
        let number = context_number(tag).unwrap_or(self.newest);
        self.newest = self.newest.max(number);
        (number + WINDOW > self.newest).then(|| reply(tag))
    }
}
