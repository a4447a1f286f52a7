//! A file of regions in real directories against a flat array of bytes.

use proptest::prelude::*;
use rustix::fs::{FallocateFlags, fstat};
use tempfile::TempDir;
use vpfs_harl::{RegionStripeTable, Row};

use super::*;
use crate::caller::User;

/// One step of a program.
#[derive(Clone, Debug)]
enum Step {
    Write(u64, usize),
    Append(usize),
    Truncate(u64),
    Punch(u64, u64),
    Allocate(u64, u64, bool),
    Read(u64, usize),
    /// Another descriptor from here on.
    Reopen,
}

fn step() -> impl Strategy<Value = Step> {
    let (at, size) = (0_u64..2000, 1_usize..700);
    prop_oneof![
        4 => (at.clone(), size.clone()).prop_map(|(at, size)| Step::Write(at, size)),
        1 => size.clone().prop_map(Step::Append),
        1 => at.clone().prop_map(Step::Truncate),
        1 => (at.clone(), 1_u64..900).prop_map(|(at, size)| Step::Punch(at, size)),
        1 => (at.clone(), 1_u64..900, any::<bool>()).prop_map(|(at, size, keep)| Step::Allocate(at, size, keep)),
        4 => (at, size).prop_map(|(at, size)| Step::Read(at, size)),
        1 => Just(Step::Reopen),
    ]
}

struct Place {
    _folder: TempDir,
    stored: Arc<Stored>,
    map: File,
}

fn place(regions: &[(u64, [u64; 2])]) -> Place {
    let folder = tempfile::tempdir().unwrap();
    let classes = ["disk", "flash"].map(|name| {
        std::fs::create_dir(folder.path().join(name)).unwrap();
        Class::open(name.into(), &folder.path().join(name)).unwrap()
    });
    let mut begin = 0;
    let rows = regions.iter().map(|(length, stripes)| {
        begin += length;
        Row { bytes: begin - length..begin, stripes: stripes.to_vec() }
    });
    let table = RegionStripeTable::new(rows);
    let map = RegionMap::new(new_id().unwrap(), vec!["disk".into(), "flash".into()], table).unwrap();
    let stored = Arc::new(Stored::of(map, &classes).unwrap());
    let map = File::create(folder.path().join("map")).unwrap();
    Place { _folder: folder, stored, map }
}

fn opened(place: &Place) -> Opened {
    Opened::new(Arc::clone(&place.stored), &place.map).unwrap()
}

fn clear(flat: &mut [u8], at: u64, size: u64) {
    let end = flat.len().min(usize::try_from(at + size).unwrap());
    flat[usize::try_from(at).unwrap().min(end)..end].fill(0);
}

/// Does a step to both, and compares what they tell.
fn run(step: &Step, number: u8, file: &Opened, flat: &mut Vec<u8>) {
    match *step {
        Step::Write(at, size) => write(file, flat, at, &vec![number; size]),
        Step::Append(size) => write(file, flat, flat.len() as u64, &vec![number; size]),
        Step::Truncate(size) => {
            file.truncate(size).unwrap();
            flat.resize(usize::try_from(size).unwrap(), 0);
        }
        Step::Punch(at, size) => {
            file.allocate(User::OURSELVES, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, at, size).unwrap();
            clear(flat, at, size);
        }
        Step::Allocate(at, size, keep) => {
            let mode = if keep { FallocateFlags::KEEP_SIZE } else { FallocateFlags::empty() };
            file.allocate(User::OURSELVES, mode, at, size).unwrap();
            let end = usize::try_from(at + size).unwrap();
            flat.resize(if keep { flat.len() } else { flat.len().max(end) }, 0);
        }
        Step::Read(at, size) => {
            let from = flat.len().min(usize::try_from(at).unwrap());
            assert_eq!(file.read(at, size).unwrap(), flat[from..flat.len().min(from + size)]);
        }
        Step::Reopen => {}
    }
}

fn write(file: &Opened, flat: &mut Vec<u8>, at: u64, data: &[u8]) {
    assert_eq!(file.write(User::OURSELVES, at, data).unwrap(), data.len());
    let at = usize::try_from(at).unwrap();
    flat.resize(flat.len().max(at + data.len()), 0);
    flat[at..at + data.len()].copy_from_slice(data);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn a_file_of_regions_is_a_flat_array(
        regions in prop::collection::vec((1_u64..500, (0_u64..90, 0_u64..90).prop_filter("used", |(h, s)| h + s > 0)), 1..5),
        steps in prop::collection::vec(step(), 1..30),
    ) {
        let regions: Vec<_> = regions.into_iter().map(|(length, (h, s))| (length, [h, s])).collect();
        let place = place(&regions);
        let (mut file, mut flat) = (opened(&place), Vec::new());
        for (step, number) in steps.iter().zip(1..) {
            if matches!(step, Step::Reopen) {
                file = opened(&place);
            }
            run(step, number, &file, &mut flat);
            prop_assert_eq!(place.stored.usage().unwrap().size, flat.len() as u64, "after {:?}", step);
        }
        prop_assert_eq!(file.read(0, flat.len() + 99).unwrap(), &flat[..]);
        file.sync(false).unwrap();
        // Data is never in what is called a hole.
        let mut at = 0;
        while let Ok(hole) = file.seek(at, false) {
            let data = file.seek(hole, true).unwrap_or(flat.len() as u64);
            let is_empty = flat[usize::try_from(hole).unwrap()..usize::try_from(data).unwrap()].iter().all(|byte| *byte == 0);
            prop_assert!(hole >= at && data >= hole && is_empty);
            if data == flat.len() as u64 || data == hole { break }
            at = data;
        }
    }
}

#[test]
fn holes_are_found_where_they_are() {
    // Blocks of 4 KiB: what is smaller may count as data.
    let place = place(&[(1 << 20, [65536, 65536]), (1 << 20, [0, 4096])]);
    let file = opened(&place);
    assert_eq!(file.seek(0, true), Err(Errno::NXIO), "it is empty");
    file.write(User::OURSELVES, 1_500_000, b"x").unwrap();
    let data = file.seek(0, true).unwrap();
    assert!((1 << 20..=1_500_000).contains(&data), "{data}");
    assert_eq!((file.seek(0, false), file.seek(1_500_000, false)), (Ok(0), Ok(1_500_001)));
    assert_eq!(file.seek(1_500_001, false), Err(Errno::NXIO));
    file.write(User::OURSELVES, 200_000, &[1; 65536]).unwrap();
    let first = file.seek(0, true).unwrap();
    assert!((196_608..=200_000).contains(&first), "{first}");
}

#[test]
fn deleted_files_leave_nothing_once_they_are_closed() {
    let place = place(&[(100, [10, 10])]);
    let file = opened(&place);
    file.write(User::OURSELVES, 0, &[1; 100]).unwrap();
    let count = |place: &Place| (0..2).filter(|number| place.stored.stat(*number).unwrap().is_some()).count();
    place.stored.doom();
    assert_eq!((file.read(0, 200).unwrap().len(), count(&place)), (100, 2));
    let folder = place._folder;
    drop((file, place.stored));
    assert_eq!(std::fs::read_dir(folder.path().join("disk")).unwrap().count(), 0);
}

#[test]
fn region_files_have_the_owner_and_nobody_else_may_read_them() {
    let place = place(&[(100, [0, 10])]);
    opened(&place).write(User::OURSELVES, 0, b"x").unwrap();
    let (stat, map) = (place.stored.stat(0).unwrap().unwrap(), fstat(&place.map).unwrap());
    assert_eq!((stat.st_mode & 0o777, stat.st_uid, stat.st_gid), (0o600, map.st_uid, map.st_gid));
}
