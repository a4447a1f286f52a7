//! What is printed for each system, for the paper's servers.

use vpfs_harl::{Model, Op, Question, Request, Trace, advise};

use super::super::classes::tests::TWO;
use super::*;

fn question(now: u64) -> Question {
    Question { now, ..Question::new(Model::Paper, 1 << 22) }
}

/// 200 MiB in requests of 128 KiB, then 200 MiB in requests of 512 KiB.
fn advised(classes: &Classes, now: u64) -> Advised {
    let request = |offset, size| Request { rank: 0, op: Op::Read, offset, size, start: 0, end: 0 };
    let small = (0..1600).map(|index| request(index << 17, 1 << 17));
    let large = (400..800).map(|index| request(index << 19, 1 << 19));
    let runs = vec![(Trace::new(small.chain(large).collect()).unwrap(), 1)];
    let advice = advise(&classes.cluster, &runs, &question(now)).unwrap();
    Advised { name: "/pfs/file".into(), runs, question: question(now), advice }
}

fn printed(system: System, now: u64) -> String {
    let classes = Classes::parse("classes.toml", TWO).unwrap();
    system.text(&classes, &advised(&classes, now)).unwrap()
}

#[test]
fn lustre_gets_components() {
    let expected = r#"
# Lustre: /pfs/file
# A component has one stripe size on one pool of OSTs, so classes cannot have stripes of their own within it.
# Stripes are multiples of 64 KiB, and a component ends at a multiple of its stripe.
# Advised:
#   0 B - 200 MiB: flash 64 KiB
#   200 MiB - 400 MiB: disk 32 KiB, flash 160 KiB
# The best that can be set:
#   0 B - 200 MiB: 64 KiB on flash
#   200 MiB - end: 64 KiB on all 8 servers
# Predicted time: +5.1 % against the advised stripes, -49.8 % against the layout now.
# Once: lctl pool_new "$FSNAME.flash"; lctl pool_add "$FSNAME.flash" OST...
# Creates a file, or sets the layout of new files in a directory.
lfs setstripe -E 200M -S 64K -c 2 -p flash -E -1 -S 64K -c 8 -p ignore "$FILE"
"#;
    assert_eq!(printed(System::Lustre, UNIT), expected);
}

#[test]
fn lustre_gets_a_template_with_the_same_components() {
    let text = printed(System::LustreYaml, UNIT);
    let (heading, template) = text.split_once("layout now.\n").unwrap();
    assert!(heading.starts_with("\n# Lustre: /pfs/file\n") && heading.contains("64 KiB on all 8 servers"), "{heading}");
    let expected = r#"# Once: lctl pool_new "$FSNAME.flash"; lctl pool_add "$FSNAME.flash" OST...
# lfs setstripe --yaml=TEMPLATE "$FILE" creates a file with this layout.
component0:
  lcme_extent.e_start: 0
  lcme_extent.e_end: 209715200
  sub_layout:
    lmm_stripe_count: 2
    lmm_stripe_size: 65536
    lmm_pool: flash
component1:
  lcme_extent.e_start: 209715200
  lcme_extent.e_end: EOF
  sub_layout:
    lmm_stripe_count: 8
    lmm_stripe_size: 65536
    lmm_pool: ignore
"#;
    assert_eq!(template, expected);
}

#[test]
fn a_template_for_one_layout_has_no_components() {
    let classes = Classes::parse("classes.toml", TWO).unwrap();
    let component = |bytes, class| Component { bytes, stripe: 320 << 10, class };
    let plain = (lustre::YAML.commands)(&classes, &[component(0..1 << 30, None)]).unwrap();
    assert!(
        plain.ends_with("\"$FILE\" creates a file with this layout.\nlmm_stripe_count: 8\nlmm_stripe_size: 327680\n")
    );
    let long = [component(0..5 << 30, None), component(5 << 30..6 << 30, None)];
    let long = (lustre::YAML.commands)(&classes, &long).unwrap();
    assert!(long.contains("# Old versions of lfs misread ends from 2 GiB on"), "{long}");
}

#[test]
fn beegfs_gets_a_pattern() {
    let expected = r#"
# BeeGFS: /pfs/file
# A file has one chunk size, a power of two from 64 KiB, on the targets of one storage pool; so neither classes nor
# regions can have stripes of their own.
# Advised:
#   0 B - 200 MiB: flash 64 KiB
#   200 MiB - 400 MiB: disk 32 KiB, flash 160 KiB
# The best that can be set:
#   0 B - end: 64 KiB on flash
# Predicted time: +6.5 % against the advised stripes, -49.1 % against the layout now.
# A storage pool "flash" must have the 2 targets of this class.
# New files in the directory get this layout.
beegfs entry set --num-targets 2 --chunk-size 64Ki --pool flash "$DIRECTORY"
# BeeGFS 7: beegfs-ctl --setpattern --numtargets=2 --chunksize=64k --storagepoolid=ID "$DIRECTORY"
"#;
    assert_eq!(printed(System::Beegfs, UNIT), expected);
}

#[test]
fn ceph_gets_attributes_in_an_order_of_valid_layouts() {
    let expected = r#"
# CephFS: /pfs/file
# A file has one stripe unit, a multiple of 64 KiB, in one data pool; so neither classes nor regions can have stripes
# of their own. CRUSH places objects, so that an OSD may hold two of a round: expect less than is predicted.
# Advised:
#   0 B - 200 MiB: flash 64 KiB
#   200 MiB - 400 MiB: disk 32 KiB, flash 160 KiB
# The best that can be set:
#   0 B - end: 64 KiB on flash
# Predicted time: +6.5 % against the advised stripes, -49.1 % against the layout now.
# A data pool "flash" must place objects on the OSDs of this class (a rule with its device class).
# The file must be empty; ceph.dir.layout for new files in a directory.
touch "$FILE"
setfattr -n ceph.file.layout.stripe_unit -v 65536 "$FILE"
setfattr -n ceph.file.layout.object_size -v 4194304 "$FILE"
setfattr -n ceph.file.layout.stripe_unit -v 65536 "$FILE"
setfattr -n ceph.file.layout.stripe_count -v 2 "$FILE"
setfattr -n ceph.file.layout.pool -v flash "$FILE"
"#;
    assert_eq!(printed(System::Ceph, UNIT), expected);
}

#[test]
fn mpi_gets_hints() {
    let expected = r#"
# MPI-IO hints: /pfs/file
# Hints give a file one stripe size on a number of servers, not which; so neither classes nor regions can have stripes
# of their own. A file that is created before with the layout for its file system keeps that.
# Advised:
#   0 B - 200 MiB: flash 64 KiB
#   200 MiB - 400 MiB: disk 32 KiB, flash 160 KiB
# The best that can be set:
#   0 B - end: 64 KiB on all 8 servers
# Predicted time: +109.2 % against the advised stripes, -49.4 % against the layout now.
# Name this file in the environment variable ROMIO_HINTS. Only ROMIO reads it, not OMPIO of Open MPI.
striping_unit 65536
striping_factor 8
"#;
    assert_eq!(printed(System::MpiHints, 256 << 10), expected);
}

#[test]
fn a_component_without_a_pool_says_so_after_one_with_a_pool() {
    let classes = Classes::parse("classes.toml", TWO).unwrap();
    let component = |bytes, stripe, class| Component { bytes, stripe, class };
    let components = [component(0..5 << 20, 1 << 20, Some(1)), component(5 << 20..1 << 30, 320 << 10, None)];
    let text = (lustre::SYSTEM.commands)(&classes, &components).unwrap();
    assert!(
        text.ends_with("lfs setstripe -E 5M -S 1M -c 2 -p flash -E -1 -S 320K -c 8 -p ignore \"$FILE\"\n"),
        "{text}"
    );
    let plain = (lustre::SYSTEM.commands)(&classes, &components[1..]).unwrap();
    assert!(plain.ends_with("lfs setstripe -S 320K -c 8 \"$FILE\"\n"), "{plain}");
}

#[test]
fn names_that_no_pool_can_have_are_refused() {
    let component = Component { bytes: 0..1, stripe: UNIT, class: Some(1) };
    for name in ["flash; rm x", "a-name-with-16-ch", "1st", ""] {
        let classes = Classes::parse("classes.toml", &TWO.replace("\"flash\"", &format!("\"{name}\""))).unwrap();
        let Err(Exit::Usage(problem)) = (lustre::SYSTEM.commands)(&classes, std::slice::from_ref(&component)) else {
            panic!("{name} was accepted")
        };
        assert!(problem.contains("rename it"), "{problem}");
    }
}

#[test]
fn orangefs_gets_hints_and_a_copy() {
    let six: Vec<String> = (1..=6).map(|number| format!("\"tcp://oss{number}:3334\"")).collect();
    let text = TWO.replace("servers = 6", &format!("addresses = [{}]", six.join(", ")));
    let classes = Classes::parse("classes.toml", &text).unwrap();
    let request = |index: u64| Request { rank: 0, op: Op::Write, offset: index << 19, size: 1 << 19, start: 0, end: 0 };
    let runs = vec![(Trace::new((0..64).map(request).collect()).unwrap(), 1)];
    let advice = advise(&classes.cluster, &runs, &question(UNIT)).unwrap();
    let advised = Advised { name: "/data.h5".into(), runs, question: question(UNIT), advice };
    let text = System::Orangefs.text(&classes, &advised).unwrap();
    let strips = (1..=8).map(|number| format!("tcp://oss{number}:3334={}B", if number < 7 { 36864 } else { 151_552 }));
    let copy = format!("--url \"$URL\" --strip '{}'\n", strips.collect::<Vec<_>>().join(","));
    // "varstrip_dist" and a NUL byte.
    const NAME: &str = "user.pvfs2.dist_name -v 0x76617273747269705f6469737400 \"$DIRECTORY\"\n";
    let parameters =
        "# user.pvfs2.dist_params = strips:0:36864;1:36864;2:36864;3:36864;4:36864;5:36864;6:151552;7:151552\n";
    for expected in [copy.as_str(), parameters, NAME] {
        assert!(text.contains(expected), "no {expected} in {text}");
    }
    let kept = Question { gain_percent: 1000, ..question(UNIT) };
    let advice = advise(&classes.cluster, &advised.runs, &kept).unwrap();
    let text = System::Orangefs.text(&classes, &Advised { advice, question: kept, ..advised }).unwrap();
    assert!(text.ends_with("keep the layout.\n"), "{text}");
}

/// A file has one distribution; whether the application can use more files, only its author knows.
#[test]
fn orangefs_gets_one_layout_for_the_file_before_those_of_its_regions() {
    let text = TWO.replace("servers = 6", "addresses = [\"tcp://a:1\", \"tcp://b:1\"]");
    let classes = Classes::parse("classes.toml", &text).unwrap();
    let request = |offset, size| Request { rank: 0, op: Op::Read, offset, size, start: 0, end: 0 };
    let small = (0..3200).map(|index| request(index << 16, 1 << 16));
    let large = (50..100).map(|index| request(index << 22, 1 << 22));
    let runs = vec![(Trace::new(small.chain(large).collect()).unwrap(), 1)];
    let text = |gain_percent| {
        let question = Question { gain_percent, ..question(UNIT) };
        let advice = advise(&classes.cluster, &runs, &question).unwrap();
        assert_eq!(advice.regions.len(), 2, "{:?}", advice.table);
        System::Orangefs.text(&classes, &Advised { name: "/a".into(), runs: runs.clone(), question, advice }).unwrap()
    };
    let split = text(0);
    let (whole, regions) =
        split.split_once("# With a file of its own for each region, which the application must know").unwrap();
    assert!(whole.contains("\n# /a: ") && whole.contains("setfattr"), "{whole}");
    assert_eq!((regions.matches("\n# /a.region-").count(), whole.matches("region").count()), (2, 0), "{split}");
}

/// A log's author could otherwise have an administrator run commands.
#[test]
fn names_from_logs_stay_comments() {
    let text = TWO.replace("servers = 6", "addresses = [\"tcp://a:1\"]");
    let classes = Classes::parse("classes.toml", &text).unwrap();
    let advised = Advised { name: "/pfs/a\nrm -rf x\r\u{1b}[2J".into(), ..advised(&classes, UNIT) };
    for system in System::value_variants() {
        let text = system.text(&classes, &advised).unwrap();
        assert!(text.contains("/pfs/a\\nrm -rf x\\r\\u{1b}[2J"), "{text}");
        assert!(text.lines().all(|line| !line.starts_with("rm")), "{text}");
    }
}

#[test]
fn what_gains_nothing_is_not_set() {
    let classes = Classes::parse("classes.toml", TWO).unwrap();
    let advised = advised(&classes, UNIT);
    let text = Limited { rules: Rules { stripe_max: 64 << 10, ..mpi::SYSTEM.rules }, ..mpi::SYSTEM };
    let text = text.text(&classes, &advised).unwrap();
    assert!(text.ends_with("keep the layout.\n"), "{text}");
}
