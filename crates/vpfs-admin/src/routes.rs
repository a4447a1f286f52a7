//! What can be asked, and the answers.

use hyper::{Method, StatusCode};
use vpfs_proxy::Status;

use crate::events::Events;
use crate::{api, metrics};

/// Processes and their peers, and what applications got: `vpfs peers`.
pub const PEERS: &str = "/v1/peers";
/// Servers and applications, by [`api::Status`].
pub const STATUS: &str = "/v1/status";
/// The same for Prometheus.
pub const METRICS: &str = "/metrics";

/// What happened lately: `vpfs events`.
pub const EVENTS: &str = "/v1/events";

/// All that can be asked, with GET.
pub(crate) const ROUTES: [&str; 4] = [PEERS, STATUS, EVENTS, METRICS];

/// An answer without its headers' details.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) content_type: &'static str,
    pub(crate) body: String,
}

impl Answer {
    fn ok(content_type: &'static str, body: String) -> Self {
        Self { status: StatusCode::OK, content_type, body }
    }

    /// A refusal, with its reason for a person.
    pub(crate) fn refusal(status: StatusCode, reason: &str) -> Self {
        Self { status, content_type: "text/plain; charset=utf-8", body: format!("{reason}\n") }
    }
}

/// Whether there is such a route among `routes`, before anything is done for it.
pub(crate) fn check(method: &Method, path: &str, routes: &[&str]) -> Result<(), Answer> {
    if !routes.contains(&path) {
        let reason = format!("there is no {path}; there are {}", routes.join(", "));
        return Err(Answer::refusal(StatusCode::NOT_FOUND, &reason));
    }
    if *method != Method::GET {
        return Err(Answer::refusal(StatusCode::METHOD_NOT_ALLOWED, "nothing can be changed here; use GET"));
    }
    Ok(())
}

/// The answer to GET `path`, which is one of [`ROUTES`]; `accept` is what the client says that it understands. Takes
/// milliseconds for thousands of applications.
pub(crate) fn answer(path: &str, accept: &str, status: Status, events: &Events) -> Answer {
    match path {
        METRICS => {
            let format = metrics::Format::accepted(accept);
            Answer::ok(format.content_type(), metrics::text(status, format))
        }
        PEERS => json(&status.peers_report()),
        EVENTS => json(&events.report(status.servers.into_iter().map(|server| server.name).collect())),
        _ => json(&api::Status::from(&status)),
    }
}

fn json(value: &impl serde::Serialize) -> Answer {
    let body = serde_json::to_string(value).expect("these types have text for keys, and nothing else fails");
    Answer::ok("application/json", body)
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::testing;

    fn openapi() -> Value {
        serde_json::from_str(include_str!("../openapi.json")).unwrap()
    }

    #[test]
    fn the_description_has_all_routes_and_no_others() {
        let openapi = openapi();
        let paths = openapi["paths"].as_object().unwrap();
        let mut described: Vec<&str> = paths.keys().map(String::as_str).collect();
        let mut routes = ROUTES;
        described.sort_unstable();
        routes.sort_unstable();
        assert_eq!(described, routes);
        for (path, methods) in paths {
            assert_eq!(methods.as_object().unwrap().keys().collect::<Vec<_>>(), ["get"]);
            let contents = methods["get"]["responses"]["200"]["content"].as_object().unwrap();
            for (accept, content) in contents {
                let answer = answer(path, accept, testing::status(&["climate", "uid:7"]), &testing::events());
                assert!(answer.content_type.starts_with(accept), "{path}: {}", answer.content_type);
                if accept == "application/json" {
                    assert_conforms(&openapi, &content["schema"], &serde_json::from_str(&answer.body).unwrap(), path);
                }
            }
        }
    }

    /// Exactly the described fields, each of the described type.
    fn assert_conforms(openapi: &Value, schema: &Value, value: &Value, place: &str) {
        if let Some(reference) = schema["$ref"].as_str() {
            let schema = openapi.pointer(reference.trim_start_matches('#')).expect(reference);
            return assert_conforms(openapi, schema, value, place);
        }
        let found = match value {
            Value::Object(_) => "object",
            Value::Array(_) => "array",
            Value::String(_) => "string",
            Value::Bool(_) => "boolean",
            Value::Number(number) if number.is_u64() => "integer",
            Value::Number(_) => "number",
            Value::Null => "null",
        };
        let types = &schema["type"];
        let is_described = types == found || types.as_array().is_some_and(|types| types.contains(&found.into()));
        assert!(is_described, "{place}: {found} instead of {types}");
        if let Some(fields) = value.as_object() {
            let names = |value: &Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
            assert_eq!(names(value), names(&schema["properties"]), "{place}");
            assert_eq!(schema["required"].as_array().unwrap().len(), fields.len(), "{place}");
            for (name, field) in fields {
                assert_conforms(openapi, &schema["properties"][name], field, &format!("{place}.{name}"));
            }
        }
        for element in value.as_array().into_iter().flatten() {
            assert_conforms(openapi, &schema["items"], element, place);
        }
    }

    #[test]
    fn what_is_described_reads_back() {
        let body = answer(STATUS, "", testing::status(&["climate"]), &Events::default()).body;
        let status: api::Status = serde_json::from_str(&body).unwrap();
        assert_eq!(status, api::Status::from(&testing::status(&["climate"])));
        assert!(status.servers[0].apps[0].bulk && status.servers[0].pace == Some(0.25));
    }

    #[test]
    fn nothing_else_can_be_asked() {
        let refused = |method, path| check(&method, path, &[METRICS]).map_err(|answer| answer.status.as_u16());
        assert_eq!(refused(Method::GET, METRICS), Ok(()));
        assert_eq!(refused(Method::GET, STATUS), Err(404), "not at this place");
        assert_eq!(refused(Method::POST, METRICS), Err(405));
    }
}
