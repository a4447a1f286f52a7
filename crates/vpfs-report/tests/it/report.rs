//! A whole report, as a page and as text, and the picture of README.md.

use std::path::Path;

use vpfs_report::{
    Axis, Bar, Bars, Chart, Check, Conclusion, Kind, Plot, Report, Section, Series, Table, Tally, profile_report,
};
use vpfs_sim::model::device::DeviceProfile;
use vpfs_testbed::profile::{ModelStorage, Sweep};

const NASTY: &str = "</style><script>alert('1' & \"2\")</script>";

fn plot() -> Plot {
    let line = |scale: f64| (1..20).map(move |x| (f64::from(x), f64::from(x) * scale));
    Plot::new(NASTY, Axis::linear(NASTY, "s"), Axis::log("throughput", "MB/s"))
        .series(Series::line(NASTY, line(1.0)))
        .right(Axis::linear("depth", ""), [Series::line("depth", line(0.1)).with_markers()])
}

fn check(what: &str, ours: f64, why: &str) -> Check {
    Check {
        figure: "vPFS+ Fig. 5".into(),
        what: what.into(),
        unit: what.into(),
        kind: Kind::Evidence,
        paper: 2.0,
        ours: ours.into(),
        percent: 1.0,
        why: why.into(),
    }
}

fn conclusion(says: &str, held: usize) -> Conclusion {
    Conclusion {
        figure: "vPFS+ Fig. 6".into(),
        says: says.into(),
        relations: vec![says.into()],
        reason: says.into(),
        ours: [("native".to_owned(), 3.25.into())].into(),
        holds: held > 3,
        held,
        seeds: 5,
        cause: says.into(),
    }
}

fn report() -> Report {
    let bars = Bars::new("Run time", Axis::linear("run time", "s"), [NASTY]).series("FIFO", [Bar::new(3.0)]);
    let why =
        "the model of the disk has no read-ahead, so that reads of neighbouring applications disturb each other more";
    Report::new(NASTY)
        .introduction(NASTY)
        .link(NASTY, "other.html")
        .section(
            Section::new(NASTY)
                .text(NASTY)
                .figure(plot(), NASTY)
                .figure(bars, "")
                .table(Table::new([NASTY, "b"]).row([NASTY]).row(["1", "2", "3"]))
                .conclusion(conclusion(NASTY, 5))
                .check(check(NASTY, 2.01, NASTY)),
        )
        .section(Section::new("Second").conclusion(conclusion("less", 3)).check(check("run time", 1.3, why)))
}

#[test]
fn the_page_escapes_all_text_and_needs_no_other_file() {
    let page = report().html();
    assert!(!page.contains("<script"));
    assert!(page.matches("alert(").count() > 10, "the text is there, escaped");
    for word in ["href=\"http", "src=", "url(", "@import", "<link"] {
        assert!(!page.contains(word), "{word}");
    }
}

#[test]
fn every_picture_of_the_page_is_well_formed() {
    let page = report().html();
    let pictures: Vec<_> = page.match_indices("<svg").map(|(at, _)| at).collect();
    assert_eq!(pictures.len(), 2);
    for begin in pictures {
        let end = begin + page[begin..].find("</svg>").unwrap() + "</svg>".len();
        roxmltree::Document::parse(&page[begin..end]).unwrap();
    }
}

#[test]
fn the_page_links_and_counts_its_sections() {
    let page = report().html();
    for number in 0..2 {
        assert!(page.contains(&format!("href=\"#s{number}\"")) && page.contains(&format!("id=\"s{number}\"")));
    }
    assert_eq!(report().tally(), Tally { hold: 1, conclusions: 2, agree: 1, evidence: 2 });
    let counts = r#"<td data-label="conclusions">1</td><td data-label="hold" class="differs">0</td>"#;
    assert!(page.contains(counts));
    assert!(page.contains("1 of 2 conclusions hold (simulated). 1 of 2 values agree."));
    assert!(page.find("3.25").unwrap() < page.find("<svg").unwrap(), "conclusions come first");
    assert!(page.contains("class=\"passes\">passes</td>") && page.contains("class=\"differs\">differs, 3 of 5</td>"));
}

#[test]
fn text_fits_120_columns_and_says_the_verdicts() {
    // The title of this report is longer than any cell of a table.
    let text = report().text();
    let widest = text.lines().map(|line| line.chars().count()).max();
    assert!(widest.is_some_and(|widest| widest <= 120), "{widest:?}");
    assert!(text.contains("1 of 2 conclusions hold") && text.contains("± 1 %") && text.contains("[chart] Run time."));
}

#[test]
fn equal_reports_give_equal_bytes() {
    assert_eq!(report().html(), report().html());
    assert_eq!(report().text(), report().text());
}

#[test]
fn an_empty_report_is_still_a_page() {
    let empty = Report::new("Nothing").section(Section::new("Empty").figure(Chart::from(plot()), ""));
    assert!(empty.html().contains("Empty</a>") && !empty.html().contains("<table>"), "no table of no checks");
    assert!(!empty.text().contains("conclusions hold"));
}

#[test]
fn the_page_of_a_profile_has_both_models_of_both_operations() {
    let mut storage = ModelStorage(DeviceProfile::by_name("hdd").unwrap());
    let measured = Sweep::default().run(&mut storage, None, |_| {}).unwrap();
    let page = profile_report(&measured, &measured.fit().unwrap(), "a <disk>").html();
    let expected = [
        "Throughput of reads",
        "Latency of writes",
        "Slopes of writes",
        "small up to 128KiB",
        "4MiB",
        "a &lt;disk&gt;",
    ];
    for text in expected {
        assert!(page.contains(text), "{text}");
    }
    assert_eq!(page.matches("<svg").count(), 6);
    assert!(!page.contains("not shown"));
}

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
