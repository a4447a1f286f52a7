//! What the server still does for a client that is gone: its slots stay taken until that is over.
//!
//! Otherwise a client that hangs up and connects again has any amount of work done outside the depth.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use vpfs_session::{Action, Session};

use crate::half::Half;
use crate::memory::Share;
use crate::read_buffers::READ_SIZE;
use crate::requests::Requests;
use crate::shared::{Shared, Stage, reached};

/// How long to wait for the server. A flow has at most 2 MiB in the storage, and a disk does the flows of a usual depth
/// in less; after a hang-up, as after a stall of the same length, others come first.
const GRACE: Duration = Duration::from_secs(1);

/// A server that sends more than this after it was told that the client is gone does not care; sockets hold less.
const DISCARDED: usize = 16 << 20;

/// The server's side of a connection whose client is gone. It holds a place among the daemon's connections, so there
/// are no more of them than of those.
pub(crate) struct Abandoned {
    server: Half,
    session: Box<dyn Session>,
    requests: Requests,
    shared: Arc<Shared>,
    memory: Share,
}

impl Abandoned {
    pub(crate) fn new(
        server: Half,
        session: Box<dyn Session>,
        requests: Requests,
        memory: Share,
        shared: Arc<Shared>,
    ) -> Self {
        let mut abandoned = Self { server, session, requests, shared, memory };
        abandoned.session.abandon();
        abandoned.act();
        abandoned
    }

    /// Whether the server may still work for the client; otherwise, everything is returned to the gate.
    pub(crate) fn is_going_on(&mut self) -> bool {
        if self.server.eof || self.shared.is_ending() {
            self.end();
        }
        !self.requests.is_empty()
    }

    /// Returns when the server is done, or after a short time. A daemon that drains does not wait.
    pub(crate) async fn finish(mut self) {
        let mut stage = self.shared.stage();
        tokio::select! {
            // A server that fails is done as well.
            _ = tokio::time::timeout(GRACE, self.until_done()) => {}
            () = reached(&mut stage, Stage::Draining) => {}
        }
        self.end();
    }

    async fn until_done(&mut self) -> io::Result<()> {
        while self.session.awaits_server() {
            self.step().await?;
        }
        if self.session.is_closed() {
            return Ok(());
        }
        // What is left ends with the connection.
        self.server.write_closed = true;
        self.server.stream.shutdown().await?;
        let mut discarded = 0;
        while !self.session.is_closed() && !self.requests.is_empty() && discarded < DISCARDED {
            discarded += self.step().await?;
        }
        Ok(())
    }

    /// Moves what can be moved after waiting for it, and returns the number of bytes read.
    async fn step(&mut self) -> io::Result<usize> {
        let writes = !self.session.to_server().is_empty() && !self.server.write_closed;
        self.server.ready(self.server.interest(true, writes)).await?;
        if writes {
            self.server.try_write(self.session.to_server())?;
        }
        let count = self.server.try_read(READ_SIZE)?.unwrap_or(0);
        self.session.handle_server(self.shared.clock.now(), &mut self.server.buf);
        while self.session.is_behind() {
            tokio::task::yield_now().await;
            self.session.handle_server(self.shared.clock.now(), &mut self.server.buf);
        }
        if self.server.eof {
            self.session.handle_server_eof(self.server.buf.len());
        }
        self.act();
        // Waiting for a socket that is ready does not yield to other tasks.
        tokio::task::yield_now().await;
        Ok(count)
    }

    fn end(&mut self) {
        self.session.end();
        self.act();
        debug_assert!(self.requests.is_empty(), "an ended session has no requests");
    }

    /// Executes actions, and throws away what nobody receives.
    fn act(&mut self) {
        let answers = self.session.to_client().len();
        self.session.to_client().advance(answers);
        let requests = self.session.held_requests();
        self.memory.set([requests, self.session.to_server().held(), 0, self.server.buf.len()]);
        while let Some(action) = self.session.poll_action() {
            match action {
                Action::CorrectCost(op, real) => self.requests.correct_cost(op, real),
                Action::CorrectObjects(op, real) => self.requests.correct_objects(op, real),
                Action::Complete(completed) => self.requests.complete(&completed),
                Action::Cancel(op) => self.requests.cancel(op),
                Action::Release(op) | Action::Overdue(op) => self.requests.release(op),
                // The client is gone, so nothing is enqueued, and reasons to close do not matter.
                Action::Enqueue(..)
                | Action::Repeated
                | Action::SizeLearned { .. }
                | Action::UnmappedServer(_)
                | Action::ClaimsServer
                | Action::Close(_) => {}
            }
        }
    }
}
