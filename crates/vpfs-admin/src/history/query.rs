//! Which history is asked for.

use percent_encoding::{NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

/// What applications did, by [`crate::api::History`]; see [`route`].
pub const HISTORY: &str = "/v1/history";

/// The part of a route after `?`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Query {
    /// All samples of this application; of all applications, only sums.
    pub(crate) app: Option<String>,
    /// Of the latest so many seconds.
    pub(crate) since: u64,
}

impl Query {
    const SINCE: u64 = 3600;

    /// What is unknown or wrong in it is named.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let mut query = Self { app: None, since: Self::SINCE };
        for pair in text.split('&').filter(|pair| !pair.is_empty()) {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            match (key, value.parse()) {
                ("app", _) => query.app = Some(percent_decode_str(value).decode_utf8_lossy().into_owned()),
                ("since", Ok(since)) => query.since = since,
                ("since", Err(_)) => return Err(format!("since={value} is no number of seconds, such as 7200")),
                _ => return Err(format!("there is no {key}; there are app and since")),
            }
        }
        Ok(query)
    }
}

/// The route to ask for the history of the latest `since` seconds: all samples of `app`, or sums of all applications.
pub fn route(app: Option<&str>, since: u64) -> String {
    let app = app.map(|app| format!("&app={}", utf8_percent_encode(app, NON_ALPHANUMERIC)));
    format!("{HISTORY}?since={since}{}", app.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_route_is_understood() {
        for app in [None, Some("uid:7"), Some("a b&c=ü%")] {
            let route = route(app, 7200);
            let query = route.strip_prefix("/v1/history?").unwrap();
            assert_eq!(Query::parse(query), Ok(Query { app: app.map(str::to_owned), since: 7200 }), "{route}");
        }
        assert_eq!(Query::parse(""), Ok(Query { app: None, since: 3600 }));
        assert!(Query::parse("since=2h").is_err_and(|error| error.contains("7200")));
        assert!(Query::parse("user=7").is_err_and(|error| error.contains("app and since")));
    }
}
