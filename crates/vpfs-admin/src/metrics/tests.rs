use vpfs_config::Charge;

use super::*;
use crate::testing::status;

fn lines(status: Status, format: Format) -> Vec<String> {
    text(status, vec![("slurm".to_owned(), Duration::from_secs(270))], format).lines().map(str::to_owned).collect()
}

#[track_caller]
fn assert_has(lines: &[String], expected: &[&str]) {
    for line in expected {
        assert!(lines.iter().any(|found| found == line), "no {line} in\n{}", lines.join("\n"));
    }
}

#[test]
fn counters_gauges_and_histograms_say_what_the_snapshot_says() {
    let lines = lines(status(&["climate"]), Format::Prometheus);
    assert_has(
        &lines,
        &[
            "# TYPE vpfs_app_data_bytes_total counter",
            "process_start_time_seconds 1800000000.5",
            "vpfs_app_data_bytes_total{server=\"s1\",app=\"climate\",op=\"read\"} 3145728.0",
            "vpfs_app_requests_total{server=\"s2\",app=\"climate\",op=\"metadata\"} 0.0",
            "vpfs_app_entitled_seconds_total{server=\"s1\",app=\"climate\"} 30.0",
            "vpfs_app_exempt{server=\"s1\",app=\"climate\"} 0.0",
            "vpfs_app_used_seconds_total{server=\"s1\",app=\"climate\"} 20.0",
            "vpfs_app_queued_requests{server=\"s1\",app=\"climate\",op=\"read\"} 1.0",
            // Two waits from 1 to 2 ms.
            "vpfs_app_wait_seconds_bucket{server=\"s1\",app=\"climate\",op=\"read\",le=\"0.000512\"} 0",
            "vpfs_app_wait_seconds_bucket{server=\"s1\",app=\"climate\",op=\"read\",le=\"0.002048\"} 2",
            "vpfs_app_wait_seconds_bucket{server=\"s1\",app=\"climate\",op=\"read\",le=\"+Inf\"} 2",
            "vpfs_app_wait_seconds_sum{server=\"s1\",app=\"climate\",op=\"read\"} 3.0",
            "vpfs_server_busy_seconds_total{server=\"s1\"} 40.0",
            "vpfs_server_bulk_pace_ratio{server=\"s1\"} 0.25",
            "vpfs_server_request_cost_seconds{server=\"s1\",op=\"read\",size=\"4096\"} 0.005",
            "vpfs_server_refused_connections_total{server=\"s1\"} 3.0",
            "vpfs_holder_connections{port=\"metrics\",holder=\"10.0.0.9\"} 60.0",
            "vpfs_memory_limit_bytes 1073741824.0",
            "vpfs_host_unstored_bytes 3221225472.0",
            "vpfs_pushed_set_left_seconds{set=\"slurm\"} 270.0",
            "vpfs_peer_reports_total{peer=\"s3\",direction=\"received\"} 2.0",
        ],
    );
    let idle = |line: &&String| line.contains("wait_seconds") && line.contains("write");
    assert_eq!(lines.iter().find(idle), None, "an application that does not write has no histogram of writes");
}

#[test]
fn openmetrics_ends_as_it_must() {
    let lines = lines(status(&["climate"]), Format::OpenMetrics);
    assert_has(&lines, &["# TYPE vpfs_app_data_bytes counter", "# UNIT vpfs_app_data_bytes bytes"]);
    assert_eq!(lines.last().map(String::as_str), Some("# EOF"));
    let prometheus = "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.2,*/*;q=0.1";
    assert_eq!(Format::accepted(prometheus), Format::OpenMetrics);
    assert_eq!(Format::accepted("*/*"), Format::Prometheus);
}

/// Names come from a file and from clients.
#[test]
fn a_hostile_name_stays_a_label() {
    let hostile = "a\"} 1\n# EOF\nvpfs_uptime_seconds 9\\";
    for format in [Format::OpenMetrics, Format::Prometheus] {
        let lines = lines(status(&[hostile]), format);
        let escaped = r#"app="a\"} 1\n# EOF\nvpfs_uptime_seconds 9\\""#;
        assert!(lines.iter().any(|line| line.contains(escaped)), "{}", lines.join("\n"));
        let uptime: Vec<_> = lines.iter().filter(|line| line.starts_with("vpfs_uptime_seconds ")).collect();
        assert_eq!(uptime, ["vpfs_uptime_seconds 60.0"]);
    }
}

#[test]
fn others_are_one_series() {
    let mut status = status(&["climate", "uid:1", "uid:2"]);
    for server in &mut status.servers {
        let snapshot = &mut server.snapshot;
        snapshot.apps[1].is_other = true;
        snapshot.others = Some(snapshot.apps[1].clone());
    }
    let lines = lines(status, Format::Prometheus);
    let requests = "vpfs_app_requests_total{server=\"s1\",app=\"";
    let reads = lines.iter().filter(|line| line.starts_with(requests) && line.contains("op=\"read\""));
    let expected = ["climate", "uid:2", "(other automatic)"].map(|app| format!("{requests}{app}\",op=\"read\"}} 2.0"));
    assert_eq!(reads.cloned().collect::<Vec<_>>(), expected);
}

/// So that a question such as which account reads most needs no list of jobs.
#[test]
fn series_of_a_job_say_whose_it_is() {
    let mut status = status(&["climate", "slurm:7"]);
    status.apps[1].charge = Charge { account: Some("physics".into()), user: Some("alice".into()) };
    let job = "server=\"s1\",app=\"slurm:7\",account=\"physics\",user=\"alice\"";
    let lines = lines(status, Format::OpenMetrics);
    let entitled = format!("vpfs_app_entitled_seconds_total{{{job}}} 30.0");
    let reads = format!("vpfs_app_requests_total{{{job},op=\"read\"}} 2");
    assert!(lines.contains(&entitled) && lines.iter().any(|line| line.starts_with(&reads)), "{lines:#?}");
    let is_bucket = |line: &String| line.starts_with("vpfs_app_wait_seconds_bucket") && line.contains(job);
    assert!(lines.iter().any(is_bucket), "{lines:#?}");
    assert!(lines.iter().all(|line| !line.contains("slurm:7") || line.contains(job) || line.contains("s2")));
}
