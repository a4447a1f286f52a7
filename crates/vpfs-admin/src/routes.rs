//! What can be asked, and the answers.

use std::path::{Path, PathBuf};
use std::time::Duration;

use hyper::{Method, StatusCode};
use vpfs_proxy::{Pushes, Status};

use crate::answer::{Answer, json};
use crate::events::Events;
use crate::history::{self, HISTORY, Query};
use crate::sets::PushedSets;
use crate::{api, metrics};

/// Processes and their peers, and what applications got: `vpfs peers`.
pub const PEERS: &str = "/v1/peers";
/// Servers and applications, by [`api::Status`].
pub const STATUS: &str = "/v1/status";
/// The same for Prometheus.
pub const METRICS: &str = "/metrics";

/// What happened lately: `vpfs events`.
pub const EVENTS: &str = "/v1/events";

/// The applications that owners have pushed: `vpfs app ls`. A set of them is changed at its name below, with PUT and
/// DELETE.
pub const SETS: &str = "/v1/sets";

/// How a refusal to tell the history begins.
pub(crate) const NO_HISTORY: &str = "no history is kept";

/// All that can be asked, with GET.
pub(crate) const ROUTES: [&str; 6] = [PEERS, STATUS, EVENTS, METRICS, HISTORY, SETS];

/// What a process keeps besides its state.
#[derive(Clone, Default)]
pub struct Kept {
    /// The latest lines of its log.
    pub events: Events,
    /// The file of its history.
    pub history: Option<PathBuf>,
    /// Changes its pushed applications, for those who may.
    pub pushes: Option<Pushes>,
}

/// Whether there is such a route among `routes`, before anything is done for it.
pub(crate) fn check(method: &Method, path: &str, routes: &[&str]) -> Result<(), Answer> {
    if !routes.contains(&path) {
        let reason = format!("there is no {path}; there are {}", routes.join(", "));
        return Err(Answer::refusal(StatusCode::NOT_FOUND, &reason));
    }
    // Of an answer to HEAD, only the head is sent.
    if ![Method::GET, Method::HEAD].contains(method) {
        return Err(Answer::refusal(StatusCode::METHOD_NOT_ALLOWED, "nothing can be changed here; use GET"));
    }
    Ok(())
}

/// What is asked.
#[derive(Clone, Debug)]
pub(crate) struct Question {
    /// One of [`ROUTES`].
    pub(crate) path: String,
    /// What stands after it.
    pub(crate) query: String,
    /// What the client says that it understands.
    pub(crate) accept: String,
}

/// The answer. Takes milliseconds for thousands of applications, and a second
/// for a long history. Blocks.
pub(crate) fn answer(question: &Question, status: Status, kept: &Kept) -> Answer {
    let Question { path, query, accept } = question;
    match path.as_str() {
        METRICS => {
            let format = metrics::Format::accepted(accept);
            Answer::ok(format.content_type(), metrics::text(status, sets_left(kept.pushes.as_ref()), format))
        }
        PEERS => json(&status.peers_report()),
        EVENTS => json(&kept.events.report(names(&status))),
        SETS => json(&PushedSets::of(names(&status), kept.pushes.as_ref())),
        HISTORY => history(query, &status, kept.history.as_deref()),
        _ => json(&api::Status::from(&status)),
    }
}

fn sets_left(pushes: Option<&Pushes>) -> Vec<(String, Duration)> {
    let sets = pushes.map(Pushes::sets).unwrap_or_default();
    sets.into_iter().map(|(name, _, left)| (name.to_string(), left)).collect()
}

fn history(query: &str, status: &Status, kept: Option<&Path>) -> Answer {
    let Some(path) = kept else {
        let reason = format!("{NO_HISTORY}: history.enabled is off, or there is no state directory (/var/lib/vpfs)");
        return Answer::refusal(StatusCode::NOT_FOUND, &reason);
    };
    let query = match Query::parse(query) {
        Ok(query) => query,
        Err(reason) => return Answer::refusal(StatusCode::BAD_REQUEST, &reason),
    };
    let servers = names(status);
    // Nothing has been written yet, or nothing can be, which the log says.
    let found = history::read(path, &query, history::now()).unwrap_or_default();
    json(&api::History { servers, ..found })
}

fn names(status: &Status) -> Vec<String> {
    status.servers.iter().map(|server| server.name.clone()).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::testing;

    fn openapi() -> Value {
        serde_json::from_str(include_str!("../openapi.json")).unwrap()
    }

    /// The file of a history of ten seconds until now of *climate* at both servers.
    fn kept(folder: &tempfile::TempDir) -> PathBuf {
        let path = folder.path().join("history.sqlite");
        let servers = api::Status::from(&testing::status(&["climate"])).servers.into_iter();
        let server = |server: api::Server| api::AtServer {
            name: server.server,
            policy: server.policy,
            seconds: 10.0,
            apps: server.apps,
        };
        let span = api::Span { seconds: 10.0, servers: servers.map(server).collect(), unstored_bytes: 0 };
        history::write(&path, history::now(), &span).unwrap();
        path
    }

    fn question(path: &str, accept: &str) -> Question {
        Question { path: path.to_owned(), query: String::new(), accept: accept.to_owned() }
    }

    #[test]
    fn history_is_told_or_why_there_is_none() {
        let folder = tempfile::tempdir().unwrap();
        let kept = kept(&folder);
        let told = |query: &str, history: Option<&Path>| {
            let kept = Kept { history: history.map(Path::to_path_buf), ..Kept::default() };
            let question = Question { query: query.to_owned(), ..question(HISTORY, "") };
            let answer = answer(&question, testing::status(&["climate"]), &kept);
            (answer.status.as_u16(), serde_json::from_str::<api::History>(&answer.body).unwrap_or_default())
        };
        let (status, history) = told("app=climate&since=60", Some(&kept));
        assert_eq!((status, history.samples.len(), history.servers), (200, 2, vec!["s1".to_owned(), "s2".to_owned()]));
        assert_eq!(told("app=climate", None).0, 404);
        assert_eq!(told("since=2h", Some(&kept)).0, 400);
        assert_eq!(told("", Some(&folder.path().join("not yet"))).1.samples, []);
    }

    #[test]
    fn the_description_has_all_routes_and_no_others() {
        let openapi = openapi();
        let paths = openapi["paths"].as_object().unwrap();
        let mut described: Vec<&str> = paths.keys().map(String::as_str).collect();
        let mut routes = [&ROUTES[..], &["/v1/sets/{set}"]].concat();
        described.sort_unstable();
        routes.sort_unstable();
        assert_eq!(described, routes);
        let folder = tempfile::tempdir().unwrap();
        let kept = Kept { events: testing::events(), history: Some(kept(&folder)), pushes: None };
        for (path, methods) in paths {
            if path == "/v1/sets/{set}" {
                assert_eq!(methods.as_object().unwrap().keys().collect::<Vec<_>>(), ["delete", "put"]);
                continue;
            }
            assert_eq!(methods.as_object().unwrap().keys().collect::<Vec<_>>(), ["get"]);
            let contents = methods["get"]["responses"]["200"]["content"].as_object().unwrap();
            for (accept, content) in contents {
                let answer = answer(&question(path, accept), testing::status(&["climate", "uid:7"]), &kept);
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
        let body = answer(&question(STATUS, ""), testing::status(&["climate"]), &Kept::default()).body;
        let status: api::Status = serde_json::from_str(&body).unwrap();
        assert_eq!(status, api::Status::from(&testing::status(&["climate"])));
        assert!(status.servers[0].apps[0].bulk && status.servers[0].pace == Some(0.25));
    }

    #[test]
    fn nothing_else_can_be_asked() {
        let refused = |method, path| check(&method, path, &[METRICS]).map_err(|answer| answer.status.as_u16());
        assert_eq!([Method::GET, Method::HEAD].map(|method| refused(method, METRICS)), [Ok(()); 2]);
        assert_eq!(refused(Method::GET, STATUS), Err(404), "not at this place");
        assert_eq!(refused(Method::POST, METRICS), Err(405));
    }
}
