//! What an administrator sets so that files get the advised layout, within the rules of each file system.

use clap::ValueEnum;
use vpfs_harl::{Adapted, Component, Rules, adapt};

use super::{Advised, Group, exact, no_advice, shown, size, stripes};
use crate::cmd::logs::Classes;
use crate::print::Exit;

/// File systems, and a library that creates files in some of them.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(super) enum System {
    /// Hints of a directory, with stripes of any size for each class
    Orangefs,
    /// A command with components
    Lustre,
    /// The same as a template for `lfs setstripe --yaml`
    LustreYaml,
    /// The pattern of a directory
    Beegfs,
    /// The layout of an empty file
    Ceph,
    /// Hints of ROMIO, for Lustre and OrangeFS
    MpiHints,
}

/// A file system that cannot have every layout.
struct Limited {
    name: &'static str,
    rules: Rules,
    /// Why the layout differs from the advised one.
    reason: &'static str,
    commands: fn(&Classes, &[Component]) -> Result<String, Exit>,
}

/// The smallest stripe of all these file systems, which larger ones are multiples of.
const UNIT: u64 = 64 << 10;

impl System {
    /// What to set for files that are alike.
    pub(super) fn of_group(self, classes: &Classes, group: &Group<'_>) -> Result<String, Exit> {
        let others = group.others().map_or_else(String::new, |others| format!("# {others}\n"));
        Ok(self.text(classes, group.first)? + &others)
    }

    fn text(self, classes: &Classes, advised: &Advised) -> Result<String, Exit> {
        let limited = match self {
            Self::Orangefs => return super::commands(classes, advised),
            Self::Lustre => LUSTRE,
            Self::LustreYaml => LUSTRE_YAML,
            Self::Beegfs => BEEGFS,
            Self::Ceph => CEPH,
            Self::MpiHints => MPI,
        };
        limited.text(classes, advised)
    }
}

impl Limited {
    fn text(&self, classes: &Classes, advised: &Advised) -> Result<String, Exit> {
        let adapted = adapt(&classes.cluster, &advised.runs, &advised.advice, &advised.question, &self.rules)
            .map_err(|error| no_advice(&advised.name, &error))?;
        let heading = self.heading(classes, advised, &adapted);
        if !adapted.is_worth_it {
            let gain = advised.question.gain_percent;
            return Ok(heading + &format!("# That is less than {gain} % faster than now: keep the layout.\n"));
        }
        Ok(heading + &(self.commands)(classes, &adapted.components)?)
    }

    /// What was advised, what becomes of it, and what that costs.
    fn heading(&self, classes: &Classes, advised: &Advised, adapted: &Adapted) -> String {
        let mut text = format!("\n# {}: {}\n{}", self.name, shown(&advised.name), self.reason);
        text += "# Advised:\n";
        for row in advised.advice.table.rows() {
            let stripes = stripes(classes, &row.stripes);
            text += &format!("#   {} - {}: {stripes}\n", size(row.bytes.start), size(row.bytes.end));
        }
        text += "# The best that can be set:\n";
        for (index, component) in adapted.components.iter().enumerate() {
            let is_last = index + 1 == adapted.components.len();
            let end = if is_last { "end".into() } else { size(component.bytes.end) };
            let place = place(classes, component);
            text += &format!("#   {} - {end}: {} on {place}\n", size(component.bytes.start), exact(component.stripe));
        }
        let (now, exact) = advised.advice.times();
        let (cost, gain) = (percent(adapted.time, exact), percent(adapted.time, now));
        text + &format!("# Predicted time: {cost} against the advised stripes, {gain} against the layout now.\n")
    }
}

fn percent(time: u128, reference: u128) -> String {
    format!("{:+.1} %", (time as f64 / reference.max(1) as f64 - 1.0) * 100.0)
}

/// The servers of a component, in words.
fn place(classes: &Classes, component: &Component) -> String {
    let all = classes.cluster.classes();
    component
        .class
        .map_or_else(|| format!("all {} servers", classes.cluster.servers()), |class| all[class].name.clone())
}

/// The number of servers of a component.
fn servers(classes: &Classes, component: &Component) -> u32 {
    component.class.map_or(classes.cluster.servers(), |class| classes.cluster.classes()[class].servers)
}

/// The name of the pool of a component that lies on one class: that of the class, which file systems restrict.
fn pool<'a>(classes: &'a Classes, component: &Component, longest: usize) -> Result<Option<&'a str>, Exit> {
    let Some(class) = component.class else { return Ok(None) };
    let name = &classes.cluster.classes()[class].name;
    let is_plain = name.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_' || letter == '-');
    if !is_plain || name.len() > longest || !name.starts_with(|first: char| first.is_ascii_alphabetic()) {
        let rule = format!("1 to {longest} letters, digits, \"-\" and \"_\", a letter first");
        return Err(Exit::Usage(format!("class {name:?} cannot name a pool of servers, which has {rule}; rename it")));
    }
    Ok(Some(name))
}

/// In the largest binary unit that gives a whole number: `512K`.
fn short(bytes: u64) -> String {
    let unit =
        [("T", 40), ("G", 30), ("M", 20), ("K", 10)].into_iter().find(|(_, bits)| bytes.is_multiple_of(1 << bits));
    unit.map_or_else(|| bytes.to_string(), |(unit, bits)| format!("{}{unit}", bytes >> bits))
}

const LUSTRE: Limited = Limited {
    name: "Lustre",
    rules: Rules {
        unit: UNIT,
        is_power_of_two: false,
        // `lfs` reads stripes below 4 GiB.
        stripe_max: 2 << 30,
        servers_max: 2000,
        has_pools: true,
        has_regions: true,
    },
    reason: "# A component has one stripe size on one pool of OSTs, so classes cannot have stripes of their own within it.\n\
             # Stripes are multiples of 64 KiB, and a component ends at a multiple of its stripe.\n",
    commands: lustre_commands,
};

/// The same as a file that `lfs` reads.
const LUSTRE_YAML: Limited = Limited { commands: template, ..LUSTRE };

/// The longest name of a pool.
const LUSTRE_POOL_MAX: usize = 15;

/// Components from here on need 64-bit numbers, which the YAML reader of old versions has not.
const LARGE: u64 = 1 << 31;

fn lustre_commands(classes: &Classes, components: &[Component]) -> Result<String, Exit> {
    let pools = Pools::of(classes, components)?;
    let mut text = pools.preparation();
    text += "# Creates a file, or sets the layout of new files in a directory.\nlfs setstripe";
    for (index, component) in components.iter().enumerate() {
        if components.len() > 1 {
            let is_last = index + 1 == components.len();
            text += &format!(" -E {}", if is_last { "-1".into() } else { short(component.bytes.end) });
        }
        text += &format!(" -S {} -c {}", short(component.stripe), servers(classes, component));
        if let Some(pool) = pools.of_component(index) {
            text += &format!(" -p {pool}");
        }
    }
    Ok(text + " \"$FILE\"\n")
}

/// A template as `lfs getstripe --yaml` prints it, without what is decided when the file is created
/// [Lustre: lustre/utils/lfs.c, build_layout_from_yaml_node].
fn template(classes: &Classes, components: &[Component]) -> Result<String, Exit> {
    let pools = Pools::of(classes, components)?;
    let mut text = pools.preparation();
    text += "# lfs setstripe --yaml=TEMPLATE \"$FILE\" creates a file with this layout.\n";
    let (last, indent) = (components.len().saturating_sub(1), if components.len() > 1 { "    " } else { "" });
    if components[..last].iter().any(|component| component.bytes.end >= LARGE) {
        text +=
            "# Old versions of lfs misread ends from 2 GiB on; compare with what `lfs getstripe \"$FILE\"` shows.\n";
    }
    for (index, component) in components.iter().enumerate() {
        if last > 0 {
            let end = if index == last { "EOF".to_owned() } else { component.bytes.end.to_string() };
            text += &format!("component{index}:\n  lcme_extent.e_start: {}\n", component.bytes.start);
            text += &format!("  lcme_extent.e_end: {end}\n  sub_layout:\n");
        }
        text += &format!("{indent}lmm_stripe_count: {}\n", servers(classes, component));
        text += &format!("{indent}lmm_stripe_size: {}\n", component.stripe);
        if let Some(pool) = pools.of_component(index) {
            text += &format!("{indent}lmm_pool: {pool}\n");
        }
    }
    Ok(text)
}

struct Pools<'a>(Vec<Option<&'a str>>);

impl<'a> Pools<'a> {
    fn of(classes: &'a Classes, components: &[Component]) -> Result<Self, Exit> {
        components.iter().map(|component| pool(classes, component, LUSTRE_POOL_MAX)).collect::<Result<_, _>>().map(Self)
    }

    /// What must exist.
    fn preparation(&self) -> String {
        let mut named: Vec<&str> = self.0.iter().flatten().copied().collect();
        named.sort_unstable();
        named.dedup();
        let line =
            |pool| format!("# Once: lctl pool_new \"$FSNAME.{pool}\"; lctl pool_add \"$FSNAME.{pool}\" OST...\n");
        named.into_iter().map(line).collect()
    }

    /// A component without a pool would take that of the one before it.
    fn of_component(&self, index: usize) -> Option<&'a str> {
        self.0[index].or_else(|| self.0.iter().any(Option::is_some).then_some("ignore"))
    }
}

const CEPH: Limited = Limited {
    name: "CephFS",
    rules: Rules {
        unit: UNIT,
        is_power_of_two: false,
        stripe_max: OBJECT_MAX,
        servers_max: u32::MAX,
        has_pools: true,
        has_regions: false,
    },
    reason: "# A file has one stripe unit, a multiple of 64 KiB, in one data pool; so neither classes nor regions can have stripes\n\
             # of their own. CRUSH places objects, so that an OSD may hold two of a round: expect less than is predicted.\n",
    commands: ceph_commands,
};

/// Objects are at most this large unless the cluster is configured otherwise.
const OBJECT_MAX: u64 = 128 << 20;

/// The size of objects that a file has by default.
const OBJECT: u64 = 4 << 20;

/// The longest name of a pool that is accepted here.
const CEPH_POOL_MAX: usize = 64;

fn ceph_commands(classes: &Classes, components: &[Component]) -> Result<String, Exit> {
    let mut text = String::new();
    for component in components {
        let unit = component.stripe;
        let object = unit * (OBJECT / unit).max(1);
        let mut fields = vec![
            // Any size of objects is a multiple of this, so that each step is a valid layout.
            ("stripe_unit", UNIT.to_string()),
            ("object_size", object.to_string()),
            ("stripe_unit", unit.to_string()),
            ("stripe_count", servers(classes, component).to_string()),
        ];
        if let Some(pool) = pool(classes, component, CEPH_POOL_MAX)? {
            text += &format!(
                "# A data pool {pool:?} must place objects on the OSDs of this class (a rule with its device class).\n"
            );
            fields.push(("pool", pool.to_owned()));
        }
        text += "# The file must be empty; ceph.dir.layout for new files in a directory.\ntouch \"$FILE\"\n";
        for (field, value) in fields {
            text += &format!("setfattr -n ceph.file.layout.{field} -v {value} \"$FILE\"\n");
        }
    }
    Ok(text)
}

const BEEGFS: Limited = Limited {
    name: "BeeGFS",
    rules: Rules {
        unit: UNIT,
        is_power_of_two: true,
        stripe_max: 2 << 30,
        servers_max: u32::MAX,
        has_pools: true,
        has_regions: false,
    },
    reason: "# A file has one chunk size, a power of two from 64 KiB, on the targets of one storage pool; so neither classes nor\n\
             # regions can have stripes of their own.\n",
    commands: beegfs_commands,
};

/// The longest alias of a pool.
const BEEGFS_POOL_MAX: usize = 32;

fn beegfs_commands(classes: &Classes, components: &[Component]) -> Result<String, Exit> {
    let mut text = String::new();
    for component in components {
        let (number, chunk) = (servers(classes, component), short(component.stripe));
        let (pool, seven) = match pool(classes, component, BEEGFS_POOL_MAX)? {
            Some(pool) => {
                text += &format!("# A storage pool {pool:?} must have the {number} targets of this class.\n");
                (format!(" --pool {pool}"), " --storagepoolid=ID")
            }
            None => {
                text += &format!("# All {number} targets must be in the storage pool of the directory.\n");
                (String::new(), "")
            }
        };
        text += "# New files in the directory get this layout.\n";
        text += &format!("beegfs entry set --num-targets {number} --chunk-size {chunk}i{pool} \"$DIRECTORY\"\n");
        let seven = format!("--numtargets={number} --chunksize={}{seven}", chunk.to_lowercase());
        text += &format!("# BeeGFS 7: beegfs-ctl --setpattern {seven} \"$DIRECTORY\"\n");
    }
    Ok(text)
}

const MPI: Limited = Limited {
    name: "MPI-IO hints",
    rules: Rules {
        unit: UNIT,
        is_power_of_two: false,
        // Hints are 32-bit integers.
        stripe_max: 1 << 30,
        servers_max: 2000,
        has_pools: false,
        has_regions: false,
    },
    reason: "# Hints give a file one stripe size on a number of servers, not which; so neither classes nor regions can have stripes\n\
             # of their own. A file that is created before with the layout for its file system keeps that.\n",
    commands: mpi_commands,
};

fn mpi_commands(classes: &Classes, components: &[Component]) -> Result<String, Exit> {
    let mut text =
        "# Name this file in the environment variable ROMIO_HINTS. Only ROMIO reads it, not OMPIO of Open MPI.\n"
            .to_owned();
    for component in components {
        text += &format!("striping_unit {}\nstriping_factor {}\n", component.stripe, servers(classes, component));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use vpfs_harl::{Model, Op, Question, Request, Trace, advise};

    use super::*;
    use crate::cmd::logs::tests::TWO;

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
        assert!(
            heading.starts_with("\n# Lustre: /pfs/file\n") && heading.contains("64 KiB on all 8 servers"),
            "{heading}"
        );
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
        let plain = (LUSTRE_YAML.commands)(&classes, &[component(0..1 << 30, None)]).unwrap();
        assert!(
            plain.ends_with(
                "\"$FILE\" creates a file with this layout.\nlmm_stripe_count: 8\nlmm_stripe_size: 327680\n"
            )
        );
        let long = [component(0..5 << 30, None), component(5 << 30..6 << 30, None)];
        let long = (LUSTRE_YAML.commands)(&classes, &long).unwrap();
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
        let text = (LUSTRE.commands)(&classes, &components).unwrap();
        assert!(
            text.ends_with("lfs setstripe -E 5M -S 1M -c 2 -p flash -E -1 -S 320K -c 8 -p ignore \"$FILE\"\n"),
            "{text}"
        );
        let plain = (LUSTRE.commands)(&classes, &components[1..]).unwrap();
        assert!(plain.ends_with("lfs setstripe -S 320K -c 8 \"$FILE\"\n"), "{plain}");
    }

    #[test]
    fn names_that_no_pool_can_have_are_refused() {
        let component = Component { bytes: 0..1, stripe: UNIT, class: Some(1) };
        for name in ["flash; rm x", "a-name-with-16-ch", "1st", ""] {
            let classes = Classes::parse("classes.toml", &TWO.replace("\"flash\"", &format!("\"{name}\""))).unwrap();
            let Err(Exit::Usage(problem)) = (LUSTRE.commands)(&classes, std::slice::from_ref(&component)) else {
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
        let request =
            |index: u64| Request { rank: 0, op: Op::Write, offset: index << 19, size: 1 << 19, start: 0, end: 0 };
        let runs = vec![(Trace::new((0..64).map(request).collect()).unwrap(), 1)];
        let advice = advise(&classes.cluster, &runs, &question(UNIT)).unwrap();
        let advised = Advised { name: "/data.h5".into(), runs, question: question(UNIT), advice };
        let text = System::Orangefs.text(&classes, &advised).unwrap();
        let strips =
            (1..=8).map(|number| format!("tcp://oss{number}:3334={}B", if number < 7 { 36864 } else { 151_552 }));
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
            System::Orangefs
                .text(&classes, &Advised { name: "/a".into(), runs: runs.clone(), question, advice })
                .unwrap()
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
        let text = Limited { rules: Rules { stripe_max: 64 << 10, ..MPI.rules }, ..MPI };
        let text = text.text(&classes, &advised).unwrap();
        assert!(text.ends_with("keep the layout.\n"), "{text}");
    }
}
