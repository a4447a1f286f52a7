//! Layouts of whole files: regions, limited space, several runs, concurrency.

use proptest::prelude::*;
use vpfs_harl::{
    AdviceError, Candidates, Choice, Cluster, Model, Op, Question, Request, Round, ServerClass, Trace, advise, fit,
};

use crate::paper as cluster;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

fn question(model: Model) -> Question {
    Question::new(model, 1 << 22)
}

fn sequence(op: Op, start: u64, count: u64, size: u64) -> impl Iterator<Item = Request> {
    (0..count).map(move |index| Request { rank: 0, op, offset: start + index * size, size, start: 0, end: 0 })
}

fn trace(requests: impl IntoIterator<Item = Request>) -> Trace {
    Trace::new(requests.into_iter().collect()).unwrap()
}

#[test]
fn each_region_gets_its_own_stripes() {
    let small = sequence(Op::Read, 0, 1600, 128 * KIB);
    let large = sequence(Op::Read, 200 * MIB, 400, 512 * KIB);
    let runs = [(trace(small.chain(large)), 1)];
    let advice = advise(&cluster(6, 2, None), &runs, &question(Model::Paper)).unwrap();
    let rows: Vec<_> = advice.table.rows().iter().map(|row| (row.bytes.clone(), row.stripes.clone())).collect();
    assert_eq!(rows, [(0..200 * MIB, vec![0, 64 * KIB]), (200 * MIB..400 * MIB, vec![32 * KIB, 160 * KIB])]);
    let (now, then) = advice.times();
    assert!(advice.is_worth_it() && then < now);
}

#[test]
fn equal_servers_gain_nothing_from_unequal_stripes() {
    let class = |name: &str| ServerClass { name: name.into(), ..cluster(4, 1, None).classes()[0].clone() };
    let equal = Cluster::new(vec![class("one"), class("two")], 1_000_000_000).unwrap();
    let runs = [(trace(sequence(Op::Write, 0, 1000, 512 * KIB)), 1)];
    let advice = advise(&equal, &runs, &question(Model::Paper)).unwrap();
    assert!(!advice.is_worth_it(), "{advice:?}");
    assert_eq!(advice.table.rows()[0].stripes, [64 * KIB, 64 * KIB]);
}

#[test]
fn a_trace_without_requests_is_refused() {
    let found = advise(&cluster(6, 2, None), &[(Trace::default(), 1)], &question(Model::Paper));
    assert_eq!(found, Err(AdviceError::NoRequests));
}

/// The paper's cost asks for parts that finish together. With 16 requests at once the shares of devices count as well,
/// and so do start-ups: the paper's stripes are slower than what this finds.
#[test]
fn concurrent_requests_change_the_stripes() {
    let cluster = cluster(6, 2, None);
    let spread = |index: u64, request: Request| Request { rank: u32::try_from(index % 16).unwrap(), ..request };
    let requests = (0..).zip(sequence(Op::Read, 0, 4096, 512 * KIB)).map(|(index, request)| spread(index, request));
    let runs = [(trace(requests), 1)];
    assert_eq!(runs[0].0.outstanding_milli(), 16_000);
    let paper = advise(&cluster, &runs, &question(Model::Paper)).unwrap();
    let concurrent = advise(&cluster, &runs, &question(Model::Concurrent)).unwrap();
    assert_eq!(paper.table.rows()[0].stripes, [32 * KIB, 160 * KIB]);
    let alone = Question { outstanding_milli: Some(1000), ..question(Model::Concurrent) };
    assert_eq!(advise(&cluster, &runs, &alone).unwrap().table, paper.table);
    let prices_with = |stripes: &[u64]| {
        let demand = vpfs_harl::Demand::new(vec![vpfs_harl::Run::new(runs[0].0.requests(), 0, 1, 16_000)]);
        let round = Round::new([6, 2], stripes).unwrap();
        demand.time(&mut vpfs_harl::Pricing::new(&cluster), &round, u128::MAX).unwrap()
    };
    let papers = prices_with(&paper.table.rows()[0].stripes);
    let best = prices_with(&concurrent.table.rows()[0].stripes);
    assert!(papers * 100 > best * 110, "the paper's stripes cost {papers}, these {best}");
}

/// As in HDF5 files: a header of 40 and 2,064 bytes, data, and something small in between and behind.
#[test]
fn what_one_stripe_holds_is_no_region() {
    for data in [512 * KIB, 4 * MIB] {
        let header = [sequence(Op::Write, 0, 1, 40), sequence(Op::Write, 40, 1, 2064)].into_iter().flatten();
        let first = sequence(Op::Write, 2104, 200, data);
        let middle = 2104 + 200 * data;
        let small = sequence(Op::Write, middle, 3, 900);
        let second = sequence(Op::Write, middle + 2700, 200, data);
        let end = sequence(Op::Write, middle + 2700 + 200 * data, 20, 96);
        let runs = [(trace(header.chain(first).chain(small).chain(second).chain(end)), 1)];
        for model in [Model::Paper, Model::Concurrent] {
            let advice = advise(&cluster(6, 2, None), &runs, &question(model)).unwrap();
            assert_eq!(advice.regions.len(), 1, "{:?}", advice.table);
        }
    }
}

/// The paper's cost of 128 KiB requests differs so little between the stripes of both regions.
#[test]
fn a_border_stays_only_if_it_gains_enough() {
    let runs =
        [(trace(sequence(Op::Read, 0, 1600, 128 * KIB).chain(sequence(Op::Read, 200 * MIB, 400, 512 * KIB))), 1)];
    let regions = |gain_percent| {
        let question = Question { gain_percent, ..question(Model::Paper) };
        advise(&cluster(6, 2, None), &runs, &question).unwrap().regions.len()
    };
    assert_eq!([0, 5, 20].map(regions), [2, 2, 1]);
}

/// A region that gains a lot, but hardly ever counts.
#[test]
fn a_file_keeps_its_layout_if_little_of_its_time_is_gained() {
    let regions = |small| {
        let many = sequence(Op::Read, 0, 32_000, 4 * KIB);
        let few = sequence(Op::Read, 125 * MIB, small, 512 * KIB);
        let disks = Cluster::new(cluster(6, 2, None).classes()[..1].to_vec(), 112_359_551).unwrap();
        advise(&disks, &[(trace(many.chain(few)), 1)], &question(Model::Concurrent)).unwrap()
    };
    assert!(!regions(4).is_worth_it());
    assert!(regions(4000).is_worth_it());
}

#[test]
fn runs_count_by_their_weights() {
    let small = trace(sequence(Op::Read, 0, 3200, 128 * KIB));
    let large = trace(sequence(Op::Read, 0, 800, 512 * KIB));
    let stripes = |small_weight, large_weight| {
        let runs = [(small.clone(), small_weight), (large.clone(), large_weight)];
        let advice =
            advise(&cluster(6, 2, None), &runs, &Question { chunk: u64::MAX, ..question(Model::Paper) }).unwrap();
        advice.table.rows()[0].stripes.clone()
    };
    assert_eq!(stripes(1000, 1), [0, 64 * KIB]);
    // All {h, 5h} are equal for the large requests; the small ones decide among them.
    assert_eq!(stripes(1, 1000), [16 * KIB, 80 * KIB]);
}

#[test]
fn full_flash_leaves_room_to_whom_it_helps_most() {
    let runs =
        [(trace(sequence(Op::Read, 0, 1600, 128 * KIB).chain(sequence(Op::Read, 200 * MIB, 400, 512 * KIB))), 1)];
    let free = 110 * MIB;
    let advice = advise(&cluster(6, 2, Some(free)), &runs, &question(Model::Paper)).unwrap();
    let held = advice.regions.iter().map(|region| {
        let round = Round::new([6, 2], &region.advised.stripes).unwrap();
        round.held(region.bytes.end - region.bytes.start)[1]
    });
    let held: u64 = held.sum();
    assert!(held <= free && held > free / 10 * 9, "{held}");
    assert!(advice.regions.iter().any(|region| region.is_limited));
    let (_, limited) = advice.times();
    let (_, free) = advise(&cluster(6, 2, None), &runs, &question(Model::Paper)).unwrap().times();
    assert!(limited > free);
}

#[test]
fn a_file_that_fits_nowhere_is_refused() {
    let tiny = |class: &ServerClass| ServerClass { free: Some(MIB), ..class.clone() };
    let cluster = Cluster::new(cluster(6, 2, None).classes().iter().map(tiny).collect(), 1_000_000_000).unwrap();
    let runs = [(trace(sequence(Op::Read, 0, 1600, 128 * KIB)), 1)];
    let error = advise(&cluster, &runs, &question(Model::Paper)).unwrap_err();
    assert!(matches!(error, AdviceError::NoSpace(_)), "{error}");
}

proptest! {
    #[test]
    fn what_fits_is_chosen_and_what_cannot_fit_is_refused(
        regions in prop::collection::vec((1_u64..200, prop::collection::vec((0_u64..100, 1_u128..1000), 1..5)), 1..5),
        free in 0_u64..500,
    ) {
        // The first class has room for all; a choice with a larger share of the second takes less time.
        let cluster = cluster(1, 1, Some(free * KIB));
        let candidates: Vec<Candidates> = regions.into_iter().map(|(length, choices)| {
            let mut choices: Vec<Choice> = choices.into_iter()
                .map(|(share, time)| Choice { stripes: vec![(101 - share) * KIB, share * KIB], time })
                .collect();
            choices.sort_by_key(|choice| choice.time);
            Candidates { length: length * KIB, choices }
        }).collect();
        let held = |region: &Candidates, choice: usize| {
            Round::new([1, 1], &region.choices[choice].stripes).unwrap().held(region.length)[1]
        };
        let least: u64 = candidates.iter().map(|r| (0..r.choices.len()).map(|c| held(r, c)).min().unwrap()).sum();
        match fit(&cluster, &candidates) {
            Ok(chosen) => {
                let total: u64 = candidates.iter().zip(&chosen).map(|(region, &choice)| held(region, choice)).sum();
                prop_assert!(total <= free * KIB);
            }
            Err(error) => prop_assert!(least > free * KIB && error.needed == least),
        }
    }
}
