//! One page for a browser, which asks for it again and again.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderValue, REFERRER_POLICY, REFRESH};
use hyper::{Method, Request, Response, StatusCode};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use vpfs_proxy::Observer;

use crate::access::{Caller, are_equal};
use crate::answer::Answer;
use crate::server::{Door, Respond, accept, by_tcp, response};

/// Nothing but the page itself: it has styles and pictures, no scripts, and asks nobody else.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'";

/// The secret in the path of a page; who does not know it gets nothing.
#[derive(Clone, Debug)]
pub enum PageKey {
    /// This text.
    Text(String),
    /// The text of this file, without white space around it. It is read for each request, so that it can be replaced;
    /// one shorter than 16 bytes opens nothing.
    File(PathBuf),
}

impl PageKey {
    const SHORTEST: usize = 16;

    /// What stands after `/KEY/` in `path`; `None` for those who do not know the key.
    async fn rest<'a>(&self, path: &'a str) -> Option<&'a str> {
        let (presented, rest) = path.strip_prefix('/')?.split_once('/')?;
        let key = match self {
            Self::Text(key) => key.clone(),
            Self::File(path) => tokio::fs::read_to_string(path).await.unwrap_or_default(),
        };
        let key = key.trim();
        (key.len() >= Self::SHORTEST && are_equal(presented, key)).then_some(rest)
    }
}

struct Page<F> {
    key: PageKey,
    every: Duration,
    html: Arc<F>,
    /// To make a page.
    permits: Semaphore,
}

/// Serves the page that `html` makes at `/KEY/`, to be loaded again by the browser after `every`, and at `/KEY/still`,
/// which stays; for ever. Without the key, requests get nothing. `html` is called for each request, in a thread
/// for blocking work.
///
/// `observer` counts its connections, if it is that of a proxy.
pub async fn serve_page<F>(listener: TcpListener, key: PageKey, every: Duration, observer: Option<&Observer>, html: F)
where
    F: Fn() -> String + Send + Sync + 'static,
{
    let door = observer.map_or_else(Door::unseen, |observer| Door::new("page", observer));
    let page = Page { key, every, html: Arc::new(html), permits: Semaphore::new(1) };
    accept(by_tcp(listener), page, door).await;
}

impl<F: Fn() -> String + Send + Sync + 'static> Respond for Page<F> {
    async fn respond(&self, _: Caller, request: Request<Incoming>) -> Response<Full<Bytes>> {
        let rest = self.key.rest(request.uri().path()).await;
        // Of an answer to HEAD, only the head is sent.
        let (Some(rest @ ("" | "still")), &Method::GET | &Method::HEAD) = (rest, request.method()) else {
            return response(Answer::refusal(
                StatusCode::NOT_FOUND,
                "the address is the one that vpfs web has printed, or has the text of the file web.key between its last slashes",
            ));
        };
        // It is never closed.
        let _permit = self.permits.acquire().await;
        let html = Arc::clone(&self.html);
        let Ok(html) = tokio::task::spawn_blocking(move || html()).await else {
            return response(Answer::refusal(StatusCode::INTERNAL_SERVER_ERROR, "a bug in vpfs; its log says where"));
        };
        let mut page = Response::new(Full::from(html));
        let headers = page.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
        headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
        headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        if rest.is_empty() {
            headers.insert(REFRESH, HeaderValue::from(self.every.as_secs()));
        }
        page
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn only_the_key_opens() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let key = PageKey::File(file.path().to_owned());
        for (text, path, rest) in [
            ("0123456789abcdef\n", "/0123456789abcdef/still", Some("still")),
            ("0123456789abcdef\n", "/0123456789abcdef", None),
            ("0123456789abcdef\n", "/0123456789abcde/", None),
            ("", "//", None),
            ("short", "/short/", None),
        ] {
            std::fs::write(file.path(), text).unwrap();
            assert_eq!(key.rest(path).await, rest, "{text} {path}");
        }
        drop(file);
        assert_eq!(key.rest("/0123456789abcdef/").await, None, "without its file nobody may");
    }
}
