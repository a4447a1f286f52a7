//! The content: copying, comparing, checksums.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use ring::digest::{Context, SHA256};
use rustix::fs::{Advice, SeekFrom, fadvise, seek};
use rustix::io::Errno;

/// Bytes in each buffer.
const BUFFER: usize = 4 << 20;

/// Copies the bytes from `begin` to `end`. Holes are left out, so they must be holes or zeros in `to`, unless
/// `fill_holes` is set.
pub(crate) fn copy(
    from: &File,
    to: &File,
    (begin, end): (u64, u64),
    fill_holes: bool,
    mut on_bytes: impl FnMut(u64),
) -> io::Result<()> {
    let mut buffer = vec![0; BUFFER];
    let mut at = begin;
    while at < end {
        let (data, data_end) = if fill_holes { (at, end) } else { next_data(from, at)?.unwrap_or((end, end)) };
        on_bytes(data.min(end) - at);
        at = data.min(end);
        while at < data_end.min(end) {
            let piece = &mut buffer[..fit(data_end.min(end) - at)];
            let len = read_at(from, piece, at)?;
            if len == 0 {
                return Ok(()); // it became shorter, which is noticed later
            }
            to.write_all_at(&piece[..len], at)?;
            on_bytes(len as u64);
            at += len as u64;
        }
    }
    Ok(())
}

/// The first byte at which both differ, or the SHA-256 of both.
pub(crate) fn compare(
    left: &File,
    right: &File,
    size: u64,
    mut on_bytes: impl FnMut(u64),
) -> io::Result<Result<String, u64>> {
    let (mut one, mut other) = (vec![0; BUFFER], vec![0; BUFFER]);
    let mut digest = Context::new(&SHA256);
    let mut at = 0;
    while at < size {
        let len = fit(size - at);
        let (read, written) = (read_at(left, &mut one[..len], at)?, read_at(right, &mut other[..len], at)?);
        if let Some(index) = (0..len).find(|&i| i >= read || i >= written || one[i] != other[i]) {
            return Ok(Err(at + index as u64));
        }
        digest.update(&one[..len]);
        at += len as u64;
        on_bytes(len as u64);
    }
    Ok(Ok(hex(digest)))
}

/// SHA-256 of a whole file, in hexadecimal digits.
pub(crate) fn sha256(file: &File) -> io::Result<String> {
    let mut buffer = vec![0; BUFFER];
    let mut digest = Context::new(&SHA256);
    let mut at = 0;
    loop {
        let len = read_at(file, &mut buffer, at)?;
        if len == 0 {
            return Ok(hex(digest));
        }
        digest.update(&buffer[..len]);
        at += len as u64;
    }
}

/// Has the next reads come from storage, as far as the file system can.
pub(crate) fn drop_cache(file: &File) {
    let _ = fadvise(file, 0, None, Advice::DontNeed);
}

pub(crate) fn hex(digest: Context) -> String {
    digest.finish().as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

fn fit(bytes: u64) -> usize {
    usize::try_from(bytes).map_or(BUFFER, |bytes| bytes.min(BUFFER))
}

/// Reads until the buffer is full or the file ends.
fn read_at(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut done = 0;
    while done < buffer.len() {
        match file.read_at(&mut buffer[done..], offset + done as u64) {
            Ok(0) => break,
            Ok(len) => done += len,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(done)
}

/// Begin and end of the next data at or after `at`; everything is data if the file system does not know.
fn next_data(file: &File, at: u64) -> io::Result<Option<(u64, u64)>> {
    let begin = match seek(file, SeekFrom::Data(at)) {
        Err(Errno::NXIO) => return Ok(None),
        Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => return Ok(Some((at, u64::MAX))),
        begin => begin?,
    };
    let end = seek(file, SeekFrom::Hole(begin))?;
    Ok(Some((begin, end)))
}
