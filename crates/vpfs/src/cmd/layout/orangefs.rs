//! What an administrator sets in OrangeFS: hints of a directory, which new files in it inherit.

use vpfs_harl::{Advice, Question, Row, advise};

use super::advised::{Advised, no_advice, shown};
use super::classes::Classes;
use super::show::stripes;
use crate::exit::Exit;

/// The longest parameters that OrangeFS reads.
const PARAMETERS_MAX: usize = 1000;

/// Commands for the file, and for each region if files of their own for those gain enough: OrangeFS has one
/// distribution for a file.
pub(super) fn commands(classes: &Classes, advised: &Advised) -> Result<String, Exit> {
    let advice = &advised.advice;
    let mut text = format!("\n# OrangeFS: hints for {}\n", shown(&advised.name));
    if !advice.is_worth_it() {
        return Ok(text + "# Nothing is to be gained: keep the layout.\n");
    }
    let whole = match advice.table.rows() {
        [_] => advice.clone(),
        _ => whole(classes, advised)?,
    };
    let (now, then) = whole.times();
    let split = advice.times().1;
    if whole.is_worth_it() {
        text += "# Nothing is rounded. Values end in a NUL byte, as OrangeFS needs it; so they are written in hexadecimal. Set them\n\
                 # on an empty directory of a mounted client, before files are created in it.\n";
        text += &region(classes, &advised.name, &whole.table.rows()[0])?;
    } else {
        text += "# One distribution for all of the file gains nothing.\n";
    }
    let best = if whole.is_worth_it() { then } else { now };
    if split.saturating_mul(100 + u128::from(advised.question.gain_percent)) > best.saturating_mul(100) {
        return Ok(text);
    }
    text += &format!(
        "\n# With a file of its own for each region, which the application must know, the predicted time is {} of that.\n",
        percent(split, best)
    );
    for (row, file) in advice.table.rows().iter().zip(advice.table.files(&advised.name)) {
        text += &region(classes, &file, row)?;
    }
    Ok(text)
}

/// The best for a file that cannot be split.
fn whole(classes: &Classes, advised: &Advised) -> Result<Advice, Exit> {
    let question = Question { chunk: u64::MAX, ..advised.question.clone() };
    advise(&classes.cluster, &advised.runs, &question).map_err(|error| no_advice(&advised.name, &error))
}

fn percent(time: u128, reference: u128) -> String {
    format!("{:.0} %", time as f64 / reference.max(1) as f64 * 100.0)
}

/// Commands for one file.
fn region(classes: &Classes, file: &str, row: &Row) -> Result<String, Exit> {
    let mut text = format!("\n# {}: {}\n", shown(file), stripes(classes, &row.stripes));
    let servers = servers(classes, row)?;
    let strips: Vec<String> = servers.iter().map(|(address, stripe)| format!("{address}={stripe}B")).collect();
    text += "# Without a mounted client, only for one file that exists:\n";
    text += &format!("# vpfs layout copy \"$FILE\" \"$NEW\" --url \"$URL\" --strip '{}'\n", strips.join(","));
    for (key, value) in hints(&servers)? {
        let digits: String = value.bytes().chain([0]).map(|byte| format!("{byte:02x}")).collect();
        text += &format!("# user.pvfs2.{key} = {value}\nsetfattr -n user.pvfs2.{key} -v 0x{digits} \"$DIRECTORY\"\n");
    }
    Ok(text)
}

/// The servers that hold part of a region, each with its stripe, in the order of a round.
fn servers<'a>(classes: &'a Classes, row: &Row) -> Result<Vec<(&'a str, u64)>, Exit> {
    let mut servers: Vec<(&str, u64)> = Vec::new();
    for ((class, addresses), stripe) in classes.cluster.classes().iter().zip(&classes.addresses).zip(&row.stripes) {
        if *stripe > 0 && addresses.is_empty() {
            let problem = format!("class {:?} has no addresses, which decide where each strip lies", class.name);
            return Err(Exit::Usage(format!(
                "{problem}; add addresses = [\"tcp://oss1:3334\", ...] as clients know them"
            )));
        }
        servers.extend(addresses.iter().map(|address| (address.as_str(), *stripe)).filter(|(_, stripe)| *stripe > 0));
    }
    Ok(servers)
}

fn hints(servers: &[(&str, u64)]) -> Result<Vec<(&'static str, String)>, Exit> {
    let strips: Vec<String> =
        servers.iter().enumerate().map(|(index, (_, stripe))| format!("{index}:{stripe}")).collect();
    let parameters = format!("strips:{}", strips.join(";"));
    if parameters.len() > PARAMETERS_MAX {
        let limit = format!("{} servers need {} bytes of parameters", servers.len(), parameters.len());
        return Err(Exit::Failed(format!(
            "{limit}, and OrangeFS reads {PARAMETERS_MAX}; use fewer servers of a class"
        )));
    }
    let list: Vec<&str> = servers.iter().map(|(address, _)| *address).collect();
    Ok(vec![
        ("dist_name", "varstrip_dist".into()),
        ("dist_params", parameters),
        // A list of servers: other layouts begin at a random one.
        ("layout", "00004".into()),
        ("server_list", format!("{:05} {}", list.len(), list.join(" "))),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;
    use vpfs_harl::{Access, Cluster, ServerClass};

    fn classes(flash: &[&str]) -> Classes {
        let access = Access::new(std::time::Duration::ZERO, std::time::Duration::ZERO, 1_000_000_000).unwrap();
        let class =
            |name: &str, servers| ServerClass { name: name.into(), servers, read: access, write: access, free: None };
        Classes {
            cluster: Cluster::new(vec![class("disk", 2), class("flash", 1)], 1_000_000_000).unwrap(),
            addresses: vec![
                vec!["tcp://a:1".into(), "tcp://b:1".into()],
                flash.iter().map(|address| (*address).to_owned()).collect(),
            ],
        }
    }

    #[test]
    fn strips_are_numbered_as_the_servers_in_the_list() {
        let row = |stripes: [u64; 2]| Row { bytes: 0..1, stripes: stripes.to_vec() };
        let three = classes(&["tcp://c:1"]);
        let both = hints(&servers(&three, &row([36864, 151552])).unwrap()).unwrap();
        assert_eq!(both[1].1, "strips:0:36864;1:36864;2:151552");
        assert_eq!(both[3].1, "00003 tcp://a:1 tcp://b:1 tcp://c:1");
        let flash_only = hints(&servers(&three, &row([0, 65536])).unwrap()).unwrap();
        assert_eq!((flash_only[1].1.as_str(), flash_only[3].1.as_str()), ("strips:0:65536", "00001 tcp://c:1"));
        let Err(Exit::Usage(problem)) = servers(&classes(&[]), &row([4096, 4096])) else { panic!("no addresses") };
        assert!(problem.contains("class \"flash\" has no addresses"), "{problem}");
    }
}
