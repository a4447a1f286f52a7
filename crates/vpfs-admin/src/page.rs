//! One page for a browser, which asks for it again and again.

use std::sync::Arc;
use std::time::Duration;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderValue, REFERRER_POLICY, REFRESH};
use hyper::{Method, Request, Response, StatusCode};
use tokio::net::TcpListener;

use crate::routes::Answer;
use crate::server::{Respond, accept, response};

/// Nothing but the page itself: it has styles and pictures, no scripts, and asks nobody else.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'";

struct Page<F> {
    path: String,
    every: Duration,
    html: Arc<F>,
}

/// Serves the page that `html` makes at `/KEY/`, to be loaded again by the browser after `every`, and at `/KEY/still`,
/// which stays; for ever. Whoever does not know the key gets nothing. `html` is called for each request, in a thread
/// for blocking work.
pub async fn serve_page<F>(listener: TcpListener, key: &str, every: Duration, html: F)
where
    F: Fn() -> String + Send + Sync + 'static,
{
    let page = Page { path: format!("/{key}/"), every, html: Arc::new(html) };
    accept(move |cx| listener.poll_accept(cx).map_ok(|(stream, _)| stream), page).await;
}

impl<F: Fn() -> String + Send + Sync + 'static> Respond for Page<F> {
    async fn respond(&self, request: &Request<Incoming>) -> Response<Full<Bytes>> {
        let rest = request.uri().path().strip_prefix(&self.path);
        let (Some(rest @ ("" | "still")), &Method::GET) = (rest, request.method()) else {
            return response(Answer::refusal(
                StatusCode::NOT_FOUND,
                "the address is the one that vpfs web has printed",
            ));
        };
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
