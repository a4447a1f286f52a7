//! Links between proxies that can be cut: nothing passes, but connections stay, as if packets were lost.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;

/// A pair of proxies. Clones are the same link.
#[derive(Clone, Debug, Default)]
pub(super) struct Link(Arc<(Mutex<bool>, Condvar)>);

impl Link {
    pub(super) fn set_cut(&self, is_cut: bool) {
        *self.0.0.lock().unwrap_or_else(PoisonError::into_inner) = is_cut;
        self.0.1.notify_all();
    }

    fn wait_until_whole(&self) {
        let is_cut = self.0.0.lock().unwrap_or_else(PoisonError::into_inner);
        drop(self.0.1.wait_while(is_cut, |is_cut| *is_cut));
    }

    /// Listens at a port of its own, which is returned, and passes connections on to `port` until the process ends.
    pub(super) fn relay_to(&self, port: u16) -> Result<u16, String> {
        let failed = |error| format!("cannot listen at 127.0.0.1: {error}");
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(failed)?;
        let own = listener.local_addr().map_err(failed)?.port();
        let link = self.clone();
        thread::spawn(move || {
            for near in listener.incoming().flatten() {
                let link = link.clone();
                thread::spawn(move || link.connect(near, port));
            }
        });
        Ok(own)
    }

    fn connect(&self, near: TcpStream, port: u16) {
        self.wait_until_whole();
        // If the proxy is not there, the other one's connection ends.
        let Ok(far) = TcpStream::connect((Ipv4Addr::LOCALHOST, port)) else { return };
        let (Ok(from), Ok(to)) = (near.try_clone(), far.try_clone()) else { return };
        let link = self.clone();
        thread::spawn(move || link.pass_on(from, to));
        self.pass_on(far, near);
    }

    fn pass_on(&self, mut from: TcpStream, mut to: TcpStream) {
        let mut buffer = [0; 16 << 10];
        while let Ok(len @ 1..) = from.read(&mut buffer) {
            self.wait_until_whole();
            if to.write_all(&buffer[..len]).is_err() {
                break;
            }
        }
        // The other direction ends as well; either end may be closed already.
        let _ = from.shutdown(Shutdown::Both);
        let _ = to.shutdown(Shutdown::Both);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn nothing_passes_while_it_is_cut_and_nothing_is_lost() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let link = Link::default();
        let port = link.relay_to(listener.local_addr().unwrap().port()).unwrap();
        let mut near = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap();
        let (mut far, _) = listener.accept().unwrap();
        let mut byte = [0];
        near.write_all(b"a").unwrap();
        far.read_exact(&mut byte).unwrap();
        link.set_cut(true);
        near.write_all(b"b").unwrap();
        far.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
        assert!(far.read_exact(&mut byte).is_err());
        far.set_read_timeout(None).unwrap();
        link.set_cut(false);
        far.read_exact(&mut byte).unwrap();
        assert_eq!(byte, *b"b");
        drop(near);
        assert_eq!(far.read(&mut byte).unwrap(), 0);
    }
}
