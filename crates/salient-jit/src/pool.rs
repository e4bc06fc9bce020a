//! Threads: one pool, a static partition.
//!
//! Items are independent, so the results do not depend on the number of threads or on which thread runs what.

use std::ops::Range;

/// The threads that run kernels.
#[derive(Debug)]
pub struct Pool {
    threads: usize,
    /// None for one thread: the caller's.
    pool: Option<rayon::ThreadPool>,
}

impl Pool {
    /// A pool of so many threads; the caller's own is one of them.
    ///
    /// # Errors
    /// The system refuses to start a thread.
    pub fn new(threads: usize) -> Result<Pool, String> {
        let threads = threads.max(1);
        let pool = match threads {
            1 => None,
            n => {
                let named =
                    rayon::ThreadPoolBuilder::new().num_threads(n).thread_name(|k| format!("salient-{k}"));
                Some(named.build().map_err(|e| e.to_string())?)
            }
        };
        Ok(Pool { threads, pool })
    }

    /// How many threads there are.
    pub fn threads(&self) -> usize {
        self.threads
    }

    /// Runs `work(part, range)` for `parts` contiguous ranges of `0..items`, the longer ones first, at once.
    pub fn run(&self, items: usize, parts: usize, work: &(impl Fn(usize, Range<usize>) + Sync)) {
        let parts = parts.clamp(1, self.threads).min(items.max(1));
        match &self.pool {
            Some(pool) if parts > 1 => pool.install(|| split(items, parts, 0..parts, work)),
            Some(_) | None => work(0, 0..items),
        }
    }
}

/// The items of one part.
fn share(items: usize, parts: usize, part: usize) -> Range<usize> {
    let (each, more) = (items / parts, items % parts);
    let from = part * each + part.min(more);
    from..from + each + usize::from(part < more)
}

fn split(items: usize, parts: usize, range: Range<usize>, work: &(impl Fn(usize, Range<usize>) + Sync)) {
    if range.len() == 1 {
        return work(range.start, share(items, parts, range.start));
    }
    let middle = range.start + range.len() / 2;
    rayon::join(
        || split(items, parts, range.start..middle, work),
        || split(items, parts, middle..range.end, work),
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn every_item_is_run_once() {
        for threads in 1..4 {
            let pool = Pool::new(threads).unwrap();
            for items in [0, 1, 2, 7, 64] {
                let seen: Vec<AtomicUsize> = (0..items).map(|_| AtomicUsize::new(0)).collect();
                pool.run(items, threads, &|_, range| {
                    range.for_each(|k| {
                        seen[k].fetch_add(1, Ordering::Relaxed);
                    })
                });
                assert!(
                    seen.iter().all(|n| n.load(Ordering::Relaxed) == 1),
                    "{items} items, {threads} threads"
                );
            }
        }
    }
}
