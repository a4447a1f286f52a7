//! `vpfs web`: a live page about the proxies of this host.

mod page;
mod samples;
mod source;

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::net::TcpListener;
use vpfs_admin::{Kept, PageKey, serve_page};
use vpfs_proxy::Observer;

use super::asking::Asking;
use super::{random_hex, runtime};
use crate::exit::Exit;
use crate::print::print;
use crate::signals::Stop;
use samples::Samples;
use source::Source;

/// How often the proxies are asked, and the page is loaded again.
const EVERY: Duration = Duration::from_secs(5);

/// Show a live page for a browser: throughput, who waits for whom, shares due and got, servers, peers and events
///
/// Asks the proxies on this host at their sockets every five seconds, begins with the hour of their history, and
/// serves one page on the loopback interface, at an address with a key that only its output says. The page needs no
/// scripts and no other host; `still` at the end of its address stays as it is. From another host: ssh -L
/// 8080:127.0.0.1:8080 HOST.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  \
    vpfs web                   print the address of the page, and serve it until interrupted\n  \
    vpfs web --port 8080       at this port")]
pub(crate) struct Web {
    #[command(flatten)]
    asking: Asking,

    /// The port on the loopback interface [default: a free one]
    #[arg(long, value_name = "PORT", default_value_t = 0, hide_default_value = true)]
    port: u16,
}

impl Web {
    pub(crate) fn run(&self) -> Result<(), Exit> {
        let config = self.asking.config()?;
        runtime()?.block_on(async {
            let failed = |error: std::io::Error| Exit::Failed(format!("cannot serve at port {}: {error}", self.port));
            let mut stop = Stop::new().map_err(failed)?;
            let source = Source::Host(&self.asking, &config);
            let mut samples = Samples::of_history(&source).await;
            samples.look(&source).await?;
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, self.port)).await.map_err(failed)?;
            // Other users of this host can connect to the port, but cannot guess this.
            let (address, key) = (listener.local_addr().map_err(failed)?, random_hex::<16>()?);
            print(url(address, &key))?;
            tokio::select! {
                () = serve(listener, PageKey::Text(key), samples, &source) => Ok(()),
                () = stop.asked() => Ok(()),
            }
        })
    }
}

/// Serves the page of a proxy at `listener`, for ever.
pub(super) async fn serve_own(listener: TcpListener, key: PathBuf, observer: Observer, kept: Kept) {
    let source = Source::Itself(observer, kept);
    let mut samples = Samples::of_history(&source).await;
    // It always has answers of its own.
    let _ = samples.look(&source).await;
    serve(listener, PageKey::File(key), samples, &source).await;
}

async fn serve(listener: TcpListener, key: PageKey, samples: Samples, source: &Source<'_>) {
    let samples = Arc::new(Mutex::new(samples));
    let shown = Arc::clone(&samples);
    let html = move || page::html(&shown.lock().unwrap_or_else(PoisonError::into_inner).clone());
    let observer = match source {
        Source::Itself(observer, _) => Some(observer),
        Source::Host(..) => None,
    };
    tokio::select! {
        () = serve_page(listener, key, EVERY, observer, html) => {}
        () = watch(source, &samples) => {}
    }
}

/// Looks again and again.
async fn watch(source: &Source<'_>, samples: &Mutex<Samples>) {
    loop {
        tokio::time::sleep(EVERY).await;
        let mut next = samples.lock().unwrap_or_else(PoisonError::into_inner).clone();
        // While none answers, the page shows what was.
        let _ = next.look(source).await;
        *samples.lock().unwrap_or_else(PoisonError::into_inner) = next;
    }
}

fn url(address: SocketAddr, key: &str) -> String {
    format!("http://{address}/{key}/")
}
