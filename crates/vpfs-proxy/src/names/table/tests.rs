//! A table beside name servers that hang, fail and change, in virtual time.

use proptest::prelude::*;

use super::*;

/// What the name server says about a name that is asked at this time, and how long it takes.
type Server<'a> = &'a dyn Fn(&str, Duration) -> (Duration, Result<Vec<IpAddr>, String>);

struct World<'a> {
    table: Table,
    now: Time,
    server: Server<'a>,
    /// Answers that are on their way.
    coming: BTreeMap<(Time, String), Result<Vec<IpAddr>, String>>,
    /// When each name was asked.
    asked: Vec<(Duration, String)>,
    most_at_once: usize,
    /// When rules were replaced and when something was to be reported.
    changes: Vec<Duration>,
    reports: Vec<Duration>,
}

impl<'a> World<'a> {
    fn new(names: usize, server: Server<'a>) -> Self {
        let table = Table::new(BTreeMap::new());
        let (coming, asked) = (BTreeMap::new(), Vec::new());
        let (changes, reports) = (Vec::new(), Vec::new());
        let mut world = Self { table, now: Time::ZERO, server, coming, asked, most_at_once: 0, changes, reports };
        world.table.want(world.now, (0..names).map(name).collect());
        world
    }

    fn elapsed(&self) -> Duration {
        self.now.since(Time::ZERO)
    }

    fn run_until(&mut self, end: Duration) {
        let end = Time::ZERO + end;
        loop {
            self.poll();
            let answer = self.coming.first_key_value().map(|((at, _), _)| *at);
            let next = [answer, self.table.poll_timeout()].into_iter().flatten().min();
            let Some(next) = next.filter(|next| *next <= end) else { break };
            assert!(next > self.now || answer == Some(next), "nothing is left to do now");
            self.now = next.max(self.now);
            while let Some(entry) = self.coming.first_entry().filter(|entry| entry.key().0 <= self.now) {
                let ((_, name), answer) = entry.remove_entry();
                self.table.answered(self.now, &name, answer);
            }
        }
        self.now = end;
    }

    fn poll(&mut self) {
        while let Some(name) = self.table.poll_lookup(self.now) {
            let (takes, answer) = (self.server)(&name, self.elapsed());
            assert!(!self.coming.keys().any(|(_, other)| *other == name), "{name} is asked twice at once");
            self.asked.push((self.elapsed(), name.clone()));
            self.coming.insert((self.now + takes, name), answer);
            self.most_at_once = self.most_at_once.max(self.coming.len());
        }
        if self.table.take_changed(self.now) {
            self.changes.push(self.elapsed());
        }
        if self.table.take_settled(self.now) {
            self.reports.push(self.elapsed());
        }
    }

    fn resolved(&self) -> usize {
        self.table.known().count()
    }

    fn asked_about(&self, name: &str) -> Vec<u64> {
        self.asked.iter().filter(|(_, asked)| asked == name).map(|(at, _)| at.as_secs()).collect()
    }
}

fn name(number: usize) -> String {
    format!("c{number:05}")
}

fn ip(last: u8) -> IpAddr {
    IpAddr::from([10, 0, 0, last])
}

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);
/// As long as the C library waits for a dead name server by default.
const DEAD: Duration = Duration::from_secs(10);

fn dead() -> (Duration, Result<Vec<IpAddr>, String>) {
    (DEAD, Err("no answer".to_owned()))
}

#[test]
fn a_thousand_slow_names_take_seconds_and_few_changes() {
    let mut world = World::new(1000, &|_, _| (100 * MS, Ok(vec![ip(1)])));
    world.run_until(4 * SECOND);
    assert_eq!((world.resolved(), world.asked.len(), world.most_at_once), (1000, 1000, PROMPT_MAX));
    assert_eq!(world.reports, [3200 * MS], "when the last one is known");
    assert!(world.changes.len() <= 33, "{:?}", world.changes);
}

/// Names that are not answered must not hold up the others.
#[test]
fn names_that_hang_do_not_delay_others() {
    let mut world = World::new(200, &|name, _| if name < "c00064" { dead() } else { (MS, Ok(vec![ip(1)])) });
    world.run_until(5 * SECOND);
    assert_eq!(world.resolved(), 136);
    world.run_until(11 * SECOND);
    assert_eq!(world.reports, [PATIENCE], "waiting for an answer has an end");
    assert!(world.table.answer("c00000").is_some_and(|answer| answer == Err("no answer")));
}

#[test]
fn look_ups_that_hang_are_bounded() {
    let mut world = World::new(5000, &|_, _| (1000 * SECOND, Err("no answer".to_owned())));
    world.run_until(500 * SECOND);
    assert_eq!((world.asked.len(), world.most_at_once), (ASKED_MAX, ASKED_MAX));
}

#[test]
fn failures_are_repeated_after_growing_pauses() {
    let mut world = World::new(1, &|_, _| (Duration::ZERO, Err("no such host".to_owned())));
    world.run_until(300 * SECOND);
    assert_eq!(world.asked_about("c00000"), [0, 5, 15, 35, 75, 135, 195, 255]);
    assert_eq!(world.reports, [Duration::ZERO], "nothing has changed since");
}

/// Symptom of the former design: a name server that failed stopped everything. Now what was known stays, and the first
/// answer lets all others be asked.
#[test]
fn addresses_stay_while_the_name_server_fails_and_all_are_found_when_it_is_back() {
    let server = |name: &str, at: Duration| match at.as_secs() {
        0..100 if name < "c00050" => (MS, Ok(vec![ip(1)])),
        0..1000 => (MS, Err("no answer".to_owned())),
        _ => (MS, Ok(vec![ip(2)])),
    };
    let mut world = World::new(64, &server);
    world.run_until(999 * SECOND);
    assert_eq!((world.resolved(), world.table.stale().count()), (50, 50));
    assert_eq!(world.table.addresses("c00000"), [ip(1)]);
    world.run_until(1061 * SECOND);
    assert_eq!((world.resolved(), world.table.stale().count()), (64, 0));
    assert_eq!(world.table.addresses("c00000"), [ip(2)]);
    assert!(world.changes.len() <= 4, "{:?}", world.changes);
}

#[test]
fn an_address_that_changes_is_noticed_and_its_order_does_not_matter() {
    let server = |_: &str, at: Duration| match at.as_secs() {
        0..200 => (MS, Ok(vec![ip(1), ip(2)])),
        200..500 => (MS, Ok(vec![ip(2), ip(1)])),
        _ => (MS, Ok(vec![ip(3)])),
    };
    let mut world = World::new(1, &server);
    world.run_until(500 * SECOND);
    assert_eq!(world.changes.len(), 1);
    world.run_until(601 * SECOND);
    assert_eq!((world.changes.len(), world.table.addresses("c00000")), (2, &[ip(3)][..]));
}

#[test]
fn a_name_in_use_is_looked_up_again_but_not_more_often_than_asked() {
    let mut world = World::new(1, &|_, _| (MS, Ok(vec![ip(1)])));
    for tenth in 1..=100 {
        world.run_until(tenth * 100 * MS);
        world.table.hurry(world.now, "c00000", 2 * SECOND);
    }
    assert_eq!(world.asked_about("c00000"), [0, 2, 4, 6, 8]);
}

#[test]
fn a_reload_asks_again_and_forgets_what_is_not_wanted() {
    let mut world = World::new(3, &|_, _| (MS, Ok(vec![ip(1)])));
    world.run_until(SECOND);
    world.table.want(world.now, [name(1), name(7)].into());
    assert_eq!((world.table.answer("c00000"), world.table.answer("c00001")), (None, Some(Ok(&[ip(1)][..]))));
    assert!(!world.table.is_current("c00001"), "known, but looked up again");
    world.run_until(2 * SECOND);
    assert_eq!(world.asked.iter().map(|(_, name)| name.as_str()).collect::<Vec<_>>()[3..], ["c00001", "c00007"]);
    assert_eq!(world.reports.len(), 2);
    world.table.want(world.now, BTreeSet::new());
    world.run_until(3 * SECOND);
    assert_eq!((world.resolved(), world.reports.len(), world.table.poll_timeout()), (0, 3, None));
}

/// What an earlier process knew counts until the name server says otherwise.
#[test]
fn remembered_addresses_count_at_once() {
    let remembered = BTreeMap::from([(name(0), vec![ip(9)]), (name(1), vec![ip(9)])]);
    let mut world = World::new(0, &|name, _| if name == "c00000" { dead() } else { (MS, Ok(vec![ip(1)])) });
    world.table = Table::new(remembered);
    world.table.want(Time::ZERO, [name(0), name(1)].into());
    assert_eq!(world.resolved(), 2);
    world.run_until(60 * SECOND);
    assert_eq!([0, 1].map(|number| world.table.addresses(&name(number)).to_vec()), [[ip(9)], [ip(1)]]);
}

proptest! {
    /// Whatever the name server does, every name that it answers in the end is found, within its bounds.
    #[test]
    fn every_name_is_found_in_the_end(
        names in 1..300_usize,
        faults in prop::collection::vec((0..300_usize, 0..15_000_u64, any::<bool>()), 0..40),
        wanted in prop::collection::vec((0..100_000_u64, 1..300_usize), 0..3),
    ) {
        let server = |asked: &str, at: Duration| {
            let fault = faults.iter().find(|(number, _, _)| name(*number) == asked);
            match fault {
                Some(&(_, takes, fails)) if at < 150 * SECOND => {
                    let answer = if fails { Err("fails".to_owned()) } else { Ok(vec![ip(1)]) };
                    (Duration::from_millis(takes), answer)
                }
                _ => (MS, Ok(vec![ip(2)])),
            }
        };
        let mut world = World::new(names, &server);
        let mut last = names;
        let mut wanted = wanted;
        wanted.sort_unstable();
        for (at, count) in wanted {
            world.run_until(Duration::from_millis(at));
            world.table.want(world.now, (0..count).map(name).collect());
            last = count;
        }
        world.run_until(600 * SECOND);
        prop_assert_eq!(world.resolved(), last);
        prop_assert_eq!(world.table.stale().count(), 0);
        prop_assert!(world.most_at_once <= ASKED_MAX);
        prop_assert!((0..last).all(|number| world.table.addresses(&name(number)) == [ip(2)]));
    }
}
