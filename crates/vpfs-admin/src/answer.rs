//! An answer.

use hyper::StatusCode;

/// An answer without its headers' details.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) content_type: &'static str,
    pub(crate) body: String,
    /// The methods that are allowed, if another one was used.
    pub(crate) allow: &'static str,
}

impl Answer {
    pub(crate) fn ok(content_type: &'static str, body: String) -> Self {
        Self { status: StatusCode::OK, content_type, body, allow: "GET, HEAD" }
    }

    /// A refusal, with its reason for a person.
    pub(crate) fn refusal(status: StatusCode, reason: &str) -> Self {
        Self { status, content_type: "text/plain; charset=utf-8", body: format!("{reason}\n"), allow: "GET, HEAD" }
    }
}

pub(crate) fn json(value: &impl serde::Serialize) -> Answer {
    let body = serde_json::to_string(value).expect("these types have text for keys, and nothing else fails");
    Answer::ok("application/json", body)
}
