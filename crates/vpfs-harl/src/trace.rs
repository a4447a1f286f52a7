//! Requests of an application to one file.

/// What a request does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Op {
    /// It reads.
    Read,
    /// It writes.
    Write,
}

/// One request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// The process that sent it.
    pub rank: u32,
    /// What it does.
    pub op: Op,
    /// Its first byte in the file.
    pub offset: u64,
    /// Its number of bytes.
    pub size: u64,
    /// When it began, in nanoseconds from any origin.
    pub start: u64,
    /// When it was done; equal to `start` if that is not known.
    pub end: u64,
}

/// The most requests of a trace, which take 1 GiB.
pub const REQUESTS_MAX: usize = 1 << 24;
/// The largest request, in bytes.
pub const REQUEST_MAX: u64 = 1 << 36;

/// The latest end of a request, in nanoseconds: 10^10 seconds, which floating point has exactly.
pub const TIME_MAX: u64 = 10_000_000_000_000_000_000;

/// Why a request or trace cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TraceError {
    /// A request above [`REQUEST_MAX`].
    #[error("a request of {0} bytes is above the limit of 64 GiB; are columns swapped?")]
    TooLarge(u64),
    /// A request that ends after 2^63 bytes.
    #[error("a request at offset {0} ends beyond the largest file; are columns swapped?")]
    TooFar(u64),
    /// A request that ends before it begins.
    #[error("a request ends before it begins; are the two times swapped?")]
    EndsEarly,
    /// A request that ends after [`TIME_MAX`].
    #[error("a request ends after more than 300 years; is its time in seconds?")]
    TooLate,
    /// More than [`REQUESTS_MAX`] requests.
    #[error("there are more than {REQUESTS_MAX} requests; give a part of the trace")]
    TooMany,
}

impl Request {
    /// Refuses what no file system would serve.
    ///
    /// # Errors
    /// For absurd sizes, offsets and times.
    pub fn check(&self) -> Result<(), TraceError> {
        if self.size > REQUEST_MAX {
            return Err(TraceError::TooLarge(self.size));
        }
        if self.offset.checked_add(self.size).is_none_or(|end| end > 1 << 62) {
            return Err(TraceError::TooFar(self.offset));
        }
        match self.end {
            end if end > TIME_MAX => Err(TraceError::TooLate),
            end if end < self.start => Err(TraceError::EndsEarly),
            _ => Ok(()),
        }
    }
}

/// The requests of one run to one file, by offset, then time, then rank. Requests of zero bytes are left out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trace {
    requests: Vec<Request>,
    outstanding_milli: u64,
}

impl Trace {
    /// Sorts requests, in any order, and counts how many were outstanding at once. O(n log n).
    ///
    /// # Errors
    /// The first request that [`Request::check`] refuses, or too many.
    pub fn new(mut requests: Vec<Request>) -> Result<Self, TraceError> {
        if requests.len() > REQUESTS_MAX {
            return Err(TraceError::TooMany);
        }
        requests.iter().try_for_each(Request::check)?;
        requests.retain(|request| request.size > 0);
        let outstanding_milli = outstanding_milli(&mut requests);
        requests.sort_unstable_by_key(|r| (r.offset, r.start, r.rank, r.op, r.size, r.end));
        Ok(Self { requests, outstanding_milli })
    }

    /// The requests in order of offset.
    pub fn requests(&self) -> &[Request] {
        &self.requests
    }

    /// The mean number of requests outstanding while there are any, in thousandths; at least 1000. Without durations it
    /// is the number of ranks, because a process usually waits for its request.
    pub fn outstanding_milli(&self) -> u64 {
        self.outstanding_milli.max(1000)
    }

    /// Where the last byte of any request ends.
    pub fn extent(&self) -> u64 {
        self.requests.iter().map(|request| request.offset + request.size).max().unwrap_or(0)
    }
}

fn outstanding_milli(requests: &mut [Request]) -> u64 {
    requests.sort_unstable_by_key(|request| request.start);
    let (mut sum, mut busy, mut until) = (0_u128, 0_u128, 0);
    for request in requests.iter() {
        sum += u128::from(request.end - request.start);
        busy += u128::from(request.end.saturating_sub(request.start.max(until)));
        until = until.max(request.end);
    }
    if let Some(mean) = (sum * 1000).checked_div(busy) {
        return u64::try_from(mean).unwrap_or(u64::MAX);
    }
    let mut ranks: Vec<u32> = requests.iter().map(|request| request.rank).collect();
    ranks.sort_unstable();
    ranks.dedup();
    ranks.len() as u64 * 1000
}

/// SplitMix64's mixing function.
pub(crate) fn mixed(number: u64) -> u64 {
    let z = number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(rank: u32, offset: u64, start: u64, end: u64) -> Request {
        Request { rank, op: Op::Read, offset, size: 10, start, end }
    }

    #[test]
    fn requests_are_sorted_and_empty_ones_left_out() {
        let empty = Request { size: 0, ..request(0, 7, 0, 0) };
        let trace = Trace::new(vec![request(0, 50, 0, 0), empty, request(1, 20, 0, 0)]).unwrap();
        let offsets: Vec<u64> = trace.requests().iter().map(|request| request.offset).collect();
        assert_eq!((offsets, trace.extent()), (vec![20, 50], 60));
    }

    #[test]
    fn outstanding_requests_are_counted_while_there_are_any() {
        // Two at once for 10 ns, a pause, then one for 10 ns.
        let durations = vec![request(0, 0, 0, 10), request(1, 0, 0, 10), request(0, 0, 100, 110)];
        assert_eq!(Trace::new(durations).unwrap().outstanding_milli(), 1500);
        let without = vec![request(0, 0, 0, 0), request(3, 0, 5, 5), request(3, 0, 6, 6)];
        assert_eq!(Trace::new(without).unwrap().outstanding_milli(), 2000);
        assert_eq!(Trace::default().outstanding_milli(), 1000);
    }

    #[test]
    fn absurd_requests_are_refused() {
        let large = Request { size: REQUEST_MAX + 1, ..request(0, 0, 0, 0) };
        assert_eq!(Trace::new(vec![large]), Err(TraceError::TooLarge(REQUEST_MAX + 1)));
        assert_eq!(request(0, u64::MAX, 0, 0).check(), Err(TraceError::TooFar(u64::MAX)));
        assert_eq!(request(0, 0, 2, 1).check(), Err(TraceError::EndsEarly));
        assert_eq!(request(0, 0, 2, TIME_MAX + 1).check(), Err(TraceError::TooLate));
    }
}
