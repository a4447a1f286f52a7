//! A whole report, as a page and as text.

use vpfs_report::{Axis, Bar, Bars, Chart, Check, Plot, Report, Section, Series, Table, Tally};

const NASTY: &str = "</style><script>alert('1' & \"2\")</script>";

fn plot() -> Plot {
    let line = |scale: f64| (1..20).map(move |x| (f64::from(x), f64::from(x) * scale));
    Plot::new(NASTY, Axis::linear(NASTY, "s"), Axis::log("throughput", "MB/s"))
        .series(Series::line(NASTY, line(1.0)))
        .right(Axis::linear("depth", ""), [Series::line("depth", line(0.1)).with_markers()])
}

fn report() -> Report {
    let bars = Bars::new("Run time", Axis::linear("run time", "s"), [NASTY]).series("FIFO", [Bar::new(3.0)]);
    let why =
        "the model of the disk has no read-ahead, so that reads of neighbouring applications disturb each other more";
    Report::new(NASTY)
        .introduction(NASTY)
        .section(
            Section::new(NASTY)
                .text(NASTY)
                .figure(plot(), NASTY)
                .figure(bars, "")
                .table(Table::new([NASTY, "b"]).row([NASTY]).row(["1", "2", "3"]))
                .check(Check::of(NASTY, NASTY).within(2.0, 2.01, 1.0).unit(NASTY).because(NASTY)),
        )
        .section(
            Section::new("Second")
                .check(
                    Check::of("vPFS+ Fig. 5", "run time of the small application")
                        .at_most(1.3, 1.2)
                        .paper(1.18)
                        .because(why),
                )
                .check(Check::of("vPFS+ Fig. 5", "order of run times").falling(
                    [("native", 3.29), ("SFQ(D)", 2.53), ("SFQ(D)+", 1.18), ("non-work-conserving", 1.09)],
                    2.0,
                )),
        )
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
    assert_eq!(report().tally(), Tally { agree: 1, evidence: 2, hold: 1, others: 1 });
    assert!(page.contains("<td data-label=\"agrees\" class=\"differs\">1</td><td data-label=\"other rows\">1</td>"));
    assert!(page.contains("1 of 2 rows with a paper's value agree."));
    assert!(page.contains("class=\"passes\">passes</td>") && page.contains("class=\"differs\">differs</td>"));
}

#[test]
fn text_fits_120_columns_and_says_the_verdicts() {
    // The title of this report is longer than any cell of a table.
    let text = report().text();
    let widest = text.lines().map(|line| line.chars().count()).max();
    assert!(widest.is_some_and(|widest| widest <= 120), "{widest:?}");
    assert!(text.contains("1 of 2 rows with a paper's value agree. 1 of 1 others"));
    assert!(text.contains("differs") && text.contains("at most 1.2") && text.contains("[chart] Run time."));
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
    assert!(!empty.text().contains("rows with a paper"));
}
