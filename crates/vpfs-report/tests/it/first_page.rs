//! The picture of README.md.

use std::path::Path;

use vpfs_report::{Axis, Bar, Bars};

/// Colours of a chart, and of GitHub's dark page.
const DARK: [(&str, &str); 3] = [("#FFFFFF", "#0D1117"), ("#202020", "#E6EDF3"), ("#DDDDDD", "#30363D")];

/// Two bars from what `vpfs demo --json` wrote.
fn picture(demo: &serde_json::Value) -> String {
    let rows = demo["comparison"]["rows"].as_array().expect("rows");
    let slowdown = |management: &str| {
        let row = rows.iter().find(|row| row["management"] == management).expect("a row");
        Bar::new((row["small_slowdown"].as_f64().expect("a number") * 100.0).round() / 100.0)
    };
    let title = "A small job next to a checkpoint writer";
    Bars::new(title, Axis::linear("run time", "× alone"), ["without vpfs", "with vpfs"])
        .series(
            "run time of the small job, as a multiple of its run time alone",
            [slowdown("none"), slowdown("isolation")],
        )
        .svg()
}

/// `UPDATE=1 cargo test -p vpfs-report` draws it from docs/measurements/demo.json.
#[test]
fn the_picture_shows_the_demo() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let demo = std::fs::read_to_string(docs.join("measurements/demo.json")).expect("a text");
    let svg = picture(&serde_json::from_str(&demo).expect("JSON"));
    // The page chooses by its own theme, which need not be that of the system.
    let (head, rest) = svg.split_once("<style>").expect("styles");
    let (_, rest) = rest.split_once("</style>").expect("styles");
    let light = format!("{head}{rest}\n");
    let dark = DARK.iter().fold(light.clone(), |svg, (from, to)| svg.replace(from, to));
    for (name, drawn) in [("demo-light.svg", light), ("demo-dark.svg", dark)] {
        if std::env::var_os("UPDATE").is_some() {
            std::fs::write(docs.join(name), &drawn).expect("it can be written");
        }
        let committed = std::fs::read_to_string(docs.join(name)).unwrap_or_default();
        assert!(committed == drawn, "docs/{name} is old; run UPDATE=1 cargo test -p vpfs-report");
    }
}
