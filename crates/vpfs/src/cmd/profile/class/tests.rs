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
fn a_directory_gives_a_class_and_measurements() {
    let directory = tempfile::tempdir().expect("a directory");
    let [class, json] = ["c.toml", "m.json"].map(|name| directory.path().join(name));
    let [class, json] = [&class, &json].map(|path| path.to_str().expect("a plain path"));
    let here = directory.path().to_str().expect("a plain path");
    let measured = ["here", here, "--servers", "1", "--network", "1GB/s", "--free", "1TiB", "--buffered"];
    let size = ["--time", "100ms", "--size", "16MiB", "--repetitions", "2", "--output", class, "--json", json];
    run(&[&measured[..], &size[..]].concat()).expect("a directory can be measured");
    let text = fs::read_to_string(class).expect("it was written");
    assert!(text.contains("\nnetwork = \"1GB/s\"\n") && text.ends_with("\nfree = \"1TiB\"\n"), "{text}");
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
