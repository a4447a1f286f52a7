//! `vpfs layout advise`: from logs of requests to stripes.

use std::path::PathBuf;

use clap::ValueEnum;
use vpfs_core::Bytes;
use vpfs_harl::{BUDGET, Model, Question, advise};

use super::advised::{Advised, no_advice};
use super::answer::{Answer, Small};
use super::classes::Classes;
use super::logs::{Logs, Runs};
use super::size::some_size;
use super::system::System;
use super::{picture, show};
use crate::cmd::workload::output;
use crate::exit::Exit;
use crate::new_file;
use crate::print::print;

/// The least of [`BUDGET`] for one file, so that the search is of use for each.
const BUDGET_MIN: u64 = 20_000;

/// Advise stripes for each region of a file and each class of server, from logs of its requests
///
/// TRACE is a Darshan log with DXT, the output of `darshan-dxt-parser`, an iolog of fio, or a table: CSV
/// (rank,op,offset,size,time,end,file; only op, offset and size must be there), or what other tracers write with such
/// columns. Each may be compressed with gzip, bzip2, zstd or xz. Several are runs of the same applications, and the
/// layout suits all of them. What gains most is shown first, and files that gain nothing worth it are only counted.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  \
    vpfs layout advise run.csv --servers classes.toml\n  \
    vpfs layout advise run.csv --servers disk.toml --servers flash.toml --servers network.toml\n  \
    vpfs layout advise job.darshan --servers classes.toml --html layout.html\n  \
    vpfs layout advise msr.csv.gz --columns time=1,op=4,offset=5,size=6 --time-unit filetime --servers classes.toml\n  \
    vpfs layout advise night.csv day.csv --weights 1,5 --servers classes.toml --for orangefs\n  \
    vpfs layout advise run.csv --file /scratch/a.h5 --servers classes.toml --for lustre-yaml --script a.lyl")]
pub(crate) struct Advise {
    #[command(flatten)]
    logs: Logs,

    /// The classes of servers, as `vpfs profile class` and `vpfs profile network` write them; may be repeated
    #[arg(long, value_name = "FILE", required = true)]
    servers: Vec<PathBuf>,

    /// How often each run occurs, in the order of the logs [default: all equally often]
    #[arg(long, value_name = "N,...", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    weights: Vec<u32>,

    /// Only this file of the logs
    #[arg(long, value_name = "NAME")]
    file: Option<String>,

    /// The stripe of every server now
    #[arg(long, value_name = "SIZE", default_value = "64KiB", value_parser = some_size)]
    now: Bytes,

    /// All stripes are multiples of this
    #[arg(long, value_name = "SIZE", default_value = "4KiB", value_parser = some_size)]
    step: Bytes,

    /// How requests are priced: with those that are outstanding at the same time, or each alone, as in the paper
    #[arg(long, value_name = "MODEL", default_value = "concurrent")]
    model: ModelName,

    /// Requests outstanding at the same time [default: as in the logs]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    outstanding: Option<u64>,

    /// Also print what an administrator sets in this file system, within its rules, and what those cost
    #[arg(long = "for", value_name = "SYSTEM")]
    system: Option<System>,

    /// Write what --for prints to this file instead
    #[arg(long, value_name = "FILE", requires = "system")]
    script: Option<PathBuf>,

    /// Replace the file of --script if it exists
    #[arg(long, requires = "script")]
    overwrite: bool,

    /// Write a picture of requests, regions and stripes to this file, an HTML page
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,

    /// Write the advice to this file; "-" for standard output instead of the table
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum ModelName {
    Concurrent,
    Paper,
}

impl Advise {
    pub(crate) fn run(&self) -> Result<(), Exit> {
        let classes = Classes::read(&self.servers)?;
        if let Some(script) = &self.script {
            new_file::check(script, self.overwrite)?;
        }
        let files = self.logs.read(&self.weights()?, self.file.as_deref())?;
        let requests = |runs: &Runs| runs.iter().map(|(trace, _)| trace.requests().len() as u64).sum::<u64>();
        let all: u64 = files.values().map(requests).sum();
        let (mut advised, mut small) = (Vec::new(), Vec::new());
        for (name, runs) in files {
            if let Some(file) = Small::of(&name, &runs, self.now.0).filter(|_| self.file.is_none()) {
                small.push(file);
                continue;
            }
            let question = self.question(requests(&runs), all);
            let advice = advise(&classes.cluster, &runs, &question).map_err(|error| no_advice(&name, &error))?;
            advised.push(Advised { name, runs, question, advice });
        }
        self.show(&classes, &Answer::new(advised, small, self.file.is_some()))
    }

    fn weights(&self) -> Result<Vec<u32>, Exit> {
        match self.weights.len() {
            0 => Ok(vec![1; self.logs.traces.len()]),
            given if given == self.logs.traces.len() => Ok(self.weights.clone()),
            given => Err(Exit::Usage(format!(
                "--weights has {given} numbers for {} logs; give one for each",
                self.logs.traces.len()
            ))),
        }
    }

    /// For a file with some of all requests.
    fn question(&self, requests: u64, all: u64) -> Question {
        let model = match self.model {
            ModelName::Concurrent => Model::Concurrent,
            ModelName::Paper => Model::Paper,
        };
        Question {
            outstanding_milli: self.outstanding.map(|number| number * 1000),
            now: self.now.0,
            step: self.step.0,
            ..Question::new(model, (BUDGET * requests / all.max(1)).max(BUDGET_MIN))
        }
    }

    fn show(&self, classes: &Classes, answer: &Answer) -> Result<(), Exit> {
        let shown = answer.shown();
        if let Some(page) = &self.html {
            output::write_text(page, &picture::report(classes, &shown, &answer.rest(self.now.0)).html())?;
        }
        let is_printed = self.json.as_deref().is_some_and(|file| file.as_os_str() == "-");
        if let Some(file) = &self.json {
            output::write(file, &show::json(classes, answer))?;
        }
        if !is_printed {
            let texts = shown.iter().map(|group| show::text(classes, group)).chain(answer.rest(self.now.0));
            print(texts.collect::<Vec<_>>().join("\n\n"))?;
        }
        let Some(system) = self.system else { return Ok(()) };
        let texts = shown.iter().map(|group| system.of_group(classes, group)).collect::<Result<Vec<_>, _>>()?;
        let text = match texts.concat() {
            none if none.is_empty() => "# Nothing is to be gained: keep the layouts.\n".to_owned(),
            text => text,
        };
        match &self.script {
            Some(script) => new_file::write(script, &text, self.overwrite),
            None => print(text.trim_end()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;
    use std::fs;

    use clap::Parser;
    use serde_json::Value;

    use super::super::classes::tests::TWO;
    use super::*;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        advise: Advise,
    }

    /// Runs the command on a log, and returns its JSON and page.
    fn advised(log: &(impl AsRef<[u8]> + ?Sized), arguments: &[&str]) -> Result<(Value, String), Exit> {
        let folder = tempfile::tempdir().expect("a directory");
        let files = ["run.csv", "classes.toml", "advice.json", "advice.html"].map(|name| folder.path().join(name));
        fs::write(&files[0], log).expect("a file");
        fs::write(&files[1], TWO).expect("a file");
        let [log, servers, json, html] = files.each_ref().map(|path| path.to_str().expect("a plain path"));
        let all = ["advise", log, "--servers", servers, "--json", json, "--html", html];
        Cli::try_parse_from([&all, arguments].concat()).expect("the arguments are right").advise.run()?;
        let json = serde_json::from_slice(&fs::read(json).expect("it was written")).expect("JSON");
        Ok((json, fs::read_to_string(html).expect("it was written")))
    }

    /// 512 KiB requests in a first file, as in the paper's experiment, and one small request in another.
    fn log() -> String {
        let mut log = String::from("rank,op,offset,size,time,file\n");
        for number in 0..64_u64 {
            writeln!(log, "{},r,{},524288,{number},/pfs/shared", number % 16, number * 37 % 64 * 524_288)
                .expect("text");
        }
        log + "0,w,0,4096,0,/pfs/small\n"
    }

    #[test]
    fn the_papers_stripes_are_found_by_the_papers_model() {
        let (json, page) = advised(&log(), &["--model", "paper", "--file", "/pfs/shared"]).unwrap();
        let region = &json[0]["regions"][0];
        assert_eq!((json[0]["file"].as_str(), json.as_array().map(Vec::len)), (Some("/pfs/shared"), Some(1)));
        assert_eq!((region["requests"].as_u64(), region["end"].as_u64()), (Some(64), Some(32 << 20)));
        assert_eq!(
            (&region["stripes"]["disk"], &region["stripes"]["flash"]),
            (&Value::from(32 << 10), &(160 << 10).into())
        );
        assert!(region["bytes_per_second_advised"].as_f64() > region["bytes_per_second_now"].as_f64());
        assert!(
            page.contains("<svg") && page.contains("disk 32 KiB, flash 160 KiB"),
            "the page has no picture or table"
        );
        let (all, _) = advised(&log(), &[]).unwrap();
        assert_eq!(all.as_array().map(Vec::len), Some(2), "each file has its own answer");
    }

    #[test]
    fn binary_logs_of_darshan_are_read() {
        let log: &[u8] = include_bytes!("../../../../../fuzz/corpus/darshan/two_ranks");
        let (json, _) = advised(log, &[]).unwrap();
        assert_eq!((&json[0]["file"], json.as_array().map(Vec::len)), (&"/scratch/shared.dat".into(), Some(1)));
        let requests = json[0]["regions"].as_array().unwrap().iter().map(|region| region["requests"].as_u64().unwrap());
        assert_eq!(requests.sum::<u64>(), 5);
        let Err(Exit::Failed(message)) = advised(&log[..590], &[]) else { panic!("it is cut off") };
        assert!(message.contains("run.csv: byte ") && message.contains("in this log of 590 bytes"), "{message}");
    }

    #[test]
    fn the_default_model_gives_classes_stripes_of_their_own() {
        let (json, _) = advised(&log(), &["--file", "/pfs/shared"]).unwrap();
        let stripes = &json[0]["regions"][0]["stripes"];
        assert_ne!(stripes["disk"], stripes["flash"], "classes differ");
        assert_eq!((&json[0]["worth_it"], &json[0]["regions"][0]["kept"]), (&true.into(), &false.into()));
    }

    #[test]
    fn wrong_arguments_and_logs_name_the_place() {
        let failed = |log: &str, arguments: &[&str]| match advised(log, arguments) {
            Err(Exit::Failed(message) | Exit::Usage(message)) => message,
            other => panic!("{other:?}"),
        };
        let broken = failed("rank,op,offset,size,time\n0,r,0,x,1\n", &[]);
        assert!(broken.contains("run.csv:2: size"), "{broken}");
        assert!(failed(&log(), &["--weights", "1,2"]).contains("2 numbers for 1 logs"));
        assert!(failed(&log(), &["--file", "/pfs/other"]).contains("no log has a request to \"/pfs/other\""));
        assert!(
            failed(&log(), &["--for", "orangefs", "--file", "/pfs/shared"]).contains("class \"disk\" has no addresses")
        );
        assert!(failed("rank,op,offset,size,time\n", &[]).contains("no request"));
        assert!(Cli::try_parse_from(["advise", "log", "--servers", "c", "--step", "0B"]).is_err());
    }
}
