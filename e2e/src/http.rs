//! What HTTP servers answer, and pages among it.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// Status and body of the answer to GET `path` of the server at `address`, with header lines that end in CRLF.
///
/// # Panics
/// If there is none within 20 s.
pub fn get(address: &str, path: &str, headers: &str) -> (u16, String) {
    let stream = TcpStream::connect(address).expect("somebody listens");
    stream.set_read_timeout(Some(Duration::from_secs(20))).expect("a time limit");
    get_by(stream, path, headers)
}

/// The same by a connection.
///
/// # Panics
/// If there is no answer.
pub fn get_by(mut stream: impl Read + Write, path: &str, headers: &str) -> (u16, String) {
    write!(stream, "GET {path} HTTP/1.0\r\n{headers}\r\n").expect("a request");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
    (status, body.to_owned())
}

/// The cells after the first one of a row of a page's table below `heading`.
pub fn cells(page: &str, heading: &str, first: &str) -> Option<Vec<String>> {
    let (_, section) = page.split_once(&format!("<h2>{heading}</h2>"))?;
    let section = section.split_once("</section>").map_or(section, |(section, _)| section);
    let text = |cell: &str| Some(cell.split_once('>')?.1.split_once("</td>")?.0.to_owned());
    let rows = section.split("<tr>").map(|row| row.split("<td").filter_map(text).collect::<Vec<_>>());
    rows.into_iter().find(|row| row.first().is_some_and(|cell| cell == first)).map(|row| row[1..].to_vec())
}
