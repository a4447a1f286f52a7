use std::fs;

use clap::Parser;

use super::*;
use crate::cmd::profile::ProfileArgs;

#[derive(Parser)]
struct Cli {
    #[command(flatten)]
    profile: ProfileArgs,
}

fn parse(arguments: &[&str]) -> Result<Cli, clap::Error> {
    Cli::try_parse_from([&["profile", "class"], arguments].concat())
}

fn run(arguments: &[&str]) -> Result<(), Exit> {
    parse(&[arguments, &["--quiet"]].concat()).expect("the arguments are right").profile.run()
}

fn problem(arguments: &[&str]) -> String {
    match run(arguments) {
        Err(Exit::Usage(message) | Exit::Failed(message)) => message,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_file_is_replaced_only_on_request() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("disk.toml");
    let output = file.to_str().expect("a plain path");
    let arguments = ["disk", "--model", "harl-disk", "--servers", "6", "--output", output];
    run(&arguments).expect("models can be measured");
    let first = fs::read_to_string(&file).expect("it was written");
    assert!(first.contains("\nname = \"disk\"\nservers = 6\n"), "{first}");
    let refused = problem(&arguments);
    assert!(refused.contains("disk.toml exists; choose another name, or use --overwrite"), "{refused}");
    fs::write(&file, first.repeat(2)).expect("it can be written");
    run(&[&arguments[..], &["--overwrite"]].concat()).expect("it may be replaced");
    assert_eq!(fs::read_to_string(&file).expect("it was written"), first);
}

#[test]
fn a_class_has_what_was_said_of_it() {
    let directory = tempfile::tempdir().expect("a directory");
    let class = directory.path().join("c.toml");
    let output = class.to_str().expect("a plain path");
    let said = ["--model", "harl-disk", "--servers", "1", "--network", "1GB/s", "--free", "1TiB", "--output", output];
    run(&[&["c"], &said[..]].concat()).expect("models can be measured");
    let text = fs::read_to_string(class).expect("it was written");
    assert!(text.contains("\nnetwork = \"1GB/s\"\n") && text.ends_with("\nfree = \"1TiB\"\n"), "{text}");
}

/// Where the storage was busy for a moment, large accesses may have taken no longer than small ones. What was measured
/// is kept in any case.
#[test]
fn a_directory_gives_measurements() {
    let directory = tempfile::tempdir().expect("a directory");
    let [class, json] = ["c.toml", "m.json"].map(|name| directory.path().join(name));
    let [output, measurements] = [&class, &json].map(|path| path.to_str().expect("a plain path"));
    let here = directory.path().to_str().expect("a plain path");
    let measured = ["here", here, "--servers", "1", "--buffered", "--time", "100ms", "--size", "16MiB"];
    match run(&[&measured[..], &["--repetitions", "2", "--output", output, "--json", measurements]].concat()) {
        Ok(()) => assert!(class.exists()),
        Err(Exit::Failed(why)) => assert!(why.contains("took no longer than small ones") && !class.exists(), "{why}"),
        other => panic!("{other:?}"),
    }
    let json: serde_json::Value = serde_json::from_slice(&fs::read(json).expect("it was written")).expect("JSON");
    // Two runs of five sizes, read and written.
    assert_eq!(json["measurements"].as_array().map(Vec::len), Some(20));
}

#[test]
fn wrong_arguments_name_the_fix() {
    let refused = |arguments: &[&str]| match parse(arguments) {
        Err(error) => error.to_string(),
        Ok(_) => panic!("{arguments:?} were accepted"),
    };
    assert!(refused(&["disk"]).contains("<PATH>"));
    assert!(refused(&["disk", "/tmp"]).contains("--servers"));
    assert!(refused(&["../disk", "/tmp", "--servers", "1"]).contains("letters, digits"));
    assert!(refused(&["disk", "/tmp", "--addresses", "oss1"]).contains("tcp://HOST:PORT"));
    assert!(refused(&["disk", "/tmp", "--servers", "1", "--over-network"]).contains("--network"));
    assert!(refused(&["disk", "/tmp", "--servers", "1", "--network", "1B/s"]).contains("100KB/s"));
    assert!(refused(&["disk", "--model", "floppy", "--servers", "1"]).contains("harl-disk"));
    let nowhere = problem(&["disk", "/nowhere", "--servers", "1"]);
    assert!(nowhere.contains("cannot look at /nowhere"), "{nowhere}");
    let level = problem(&["memory", "--model", "none", "--servers", "1", "--output", "/nowhere/memory.toml"]);
    assert!(level.contains("large reads took no longer than small ones"), "{level}");
}
