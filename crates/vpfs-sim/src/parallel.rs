//! Independent simulations on all processors.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// Applies `work` to each item, on as many threads as there are processors; returns the results in the order of the
/// items.
///
/// The results do not depend on the threads: each item is processed independently.
///
/// # Panics
/// If `work` does.
pub fn map<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let work = || {
        let mut done = Vec::new();
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(item) = items.get(index) else { return done };
            done.push((index, work(item)));
        }
    };
    let threads = thread::available_parallelism().map_or(1, |threads| threads.get()).min(items.len());
    let mut done: Vec<(usize, R)> = thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        workers.into_iter().flat_map(|worker| worker.join().expect("a panic of a simulation is a bug")).collect()
    });
    done.sort_by_key(|(index, _)| *index);
    done.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    #[test]
    fn results_are_in_the_order_of_the_items() {
        let items: Vec<u64> = (0..100).collect();
        assert_eq!(super::map(&items, |item| item * item), items.iter().map(|item| item * item).collect::<Vec<_>>());
        assert!(super::map(&[] as &[u64], |item| *item).is_empty());
    }
}
