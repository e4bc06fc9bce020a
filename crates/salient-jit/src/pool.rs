//! Threads: the caller's own and helpers that wait for work, all of them taking chunks of items in turn.
//!
//! Items are independent, so results do not depend on the number of threads or on which of them runs what; a chunk is
//! taken when a thread is free, because items of a masked kernel differ in work and machines have other things to do.
//! Nothing here knows what an item is.

use std::num::NonZero;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, TryLockError, Weak};
use std::thread::{self, JoinHandle};

/// Chunks for each thread: more even out differences in work, fewer cost fewer calls.
const CHUNKS: usize = 8;

/// How often an idle helper looks for work before it sleeps: some 20 µs, as long as it takes to wake one.
const LOOKS: usize = 4096;

/// The threads that run kernels.
#[derive(Debug)]
pub(crate) struct Pool {
    threads: usize,
    shared: Arc<Shared>,
    helpers: Vec<JoinHandle<()>>,
    /// Held by the caller whom the helpers help.
    taken: Mutex<()>,
}

/// What helpers and caller share.
#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    /// Work has come, or the end.
    wake: Condvar,
    /// The last helper has left.
    left: Condvar,
    /// Counts the jobs and the end; changed under the lock of `state`, looked at without.
    news: AtomicU64,
    /// Helpers that work on the job; changed under the lock of `state`, looked at without.
    inside: AtomicUsize,
    looks: usize,
}

#[derive(Debug)]
struct State {
    job: Option<Job>,
    /// The next helper's number.
    next: usize,
    end: bool,
}

/// Work that any number of threads may do at once, told by their numbers.
#[derive(Clone, Copy, Debug)]
struct Job {
    work: *const (dyn Fn(usize) + Sync),
    threads: usize,
}

// SAFETY: what `work` points to is `Sync`; that it is alive while a helper uses it is seen to by `Pool::together`.
unsafe impl Send for Job {}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing panics with the lock held, so the state is whole even if a thread died elsewhere.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Pools in use, so that models with as many threads share them.
static POOLS: Mutex<Vec<Weak<Pool>>> = Mutex::new(Vec::new());

impl Pool {
    /// The pool of so many threads, the caller's own included; one for the whole process.
    ///
    /// # Errors
    /// The system refuses to start a thread.
    pub(crate) fn shared(threads: usize) -> Result<Arc<Pool>, String> {
        let mut pools = POOLS.lock().unwrap_or_else(PoisonError::into_inner);
        pools.retain(|pool| pool.strong_count() > 0);
        if let Some(pool) = pools.iter().filter_map(Weak::upgrade).find(|pool| pool.threads == threads.max(1))
        {
            return Ok(pool);
        }
        let pool = Arc::new(Pool::new(threads)?);
        pools.push(Arc::downgrade(&pool));
        Ok(pool)
    }

    fn new(threads: usize) -> Result<Pool, String> {
        let threads = threads.max(1);
        // Where threads outnumber processors, looking for work keeps another from doing it.
        let processors = thread::available_parallelism().map_or(1, NonZero::get);
        let shared = Arc::new(Shared {
            state: Mutex::new(State { job: None, next: 1, end: false }),
            wake: Condvar::new(),
            left: Condvar::new(),
            news: AtomicU64::new(0),
            inside: AtomicUsize::new(0),
            looks: if threads <= processors { LOOKS } else { 0 },
        });
        let mut pool = Pool { threads, shared, helpers: Vec::new(), taken: Mutex::new(()) };
        for at in 1..threads {
            let shared = pool.shared.clone();
            let helper = thread::Builder::new().name(format!("salient-{at}"));
            pool.helpers.push(helper.spawn(move || help(&shared)).map_err(|e| e.to_string())?);
        }
        Ok(pool)
    }

    /// How many threads there are.
    pub(crate) fn threads(&self) -> usize {
        self.threads
    }

    /// Runs `work(thread, range)` on chunks that make up `0..items`, on at most so many threads, numbered from zero. The
    /// chunks of one thread ascend.
    pub(crate) fn run(&self, items: usize, threads: usize, work: &(dyn Fn(usize, Range<usize>) + Sync)) {
        let threads = threads.clamp(1, self.threads).min(items.max(1));
        if threads == 1 {
            return work(0, 0..items);
        }
        let chunks = items.min(threads * CHUNKS);
        let next = AtomicUsize::new(0);
        self.together(threads, &|thread| {
            loop {
                let chunk = next.fetch_add(1, Ordering::Relaxed);
                if chunk >= chunks {
                    return;
                }
                work(thread, share(items, chunks, chunk));
            }
        });
    }

    /// Runs `work` on the caller's thread and on those helpers that come before it is done. Where another caller has the
    /// helpers, on the caller's thread alone.
    fn together<'a>(&self, threads: usize, work: &'a (dyn Fn(usize) + Sync + 'a)) {
        let _taken = match self.taken.try_lock() {
            Ok(taken) => taken,
            // A caller's part panicked; its job was closed all the same.
            Err(TryLockError::Poisoned(taken)) => taken.into_inner(),
            Err(TryLockError::WouldBlock) => return work(0),
        };
        let work: *const (dyn Fn(usize) + Sync + 'a) = work;
        // SAFETY: the lifetime alone changes. Helpers take the job out of the state only, and say so there; `Close` takes it
        // away and waits until none is inside, before `work` can die.
        let work: *const (dyn Fn(usize) + Sync + 'static) = unsafe { std::mem::transmute(work) };
        let mut state = self.shared.lock();
        state.job = Some(Job { work, threads });
        state.next = 1;
        self.shared.news.fetch_add(1, Ordering::Release);
        drop(state);
        self.shared.wake.notify_all();
        let _close = Close(&self.shared);
        // SAFETY: it came from a reference that lives for `'a`.
        unsafe { (*work)(0) };
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.shared.lock().end = true;
        self.shared.news.fetch_add(1, Ordering::Release);
        self.shared.wake.notify_all();
        for helper in self.helpers.drain(..) {
            // A helper that panicked has said so already.
            let _ = helper.join();
        }
    }
}

/// Ends a job when dropped, also where the caller's part of it panics.
struct Close<'a>(&'a Shared);

impl Drop for Close<'_> {
    fn drop(&mut self) {
        self.0.lock().job = None;
        for _ in 0..self.0.looks {
            if self.0.inside.load(Ordering::Acquire) == 0 {
                return;
            }
            std::hint::spin_loop();
        }
        let mut state = self.0.lock();
        while self.0.inside.load(Ordering::Acquire) > 0 {
            state = self.0.left.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// The life of a helper.
fn help(shared: &Shared) {
    let mut seen = 0;
    loop {
        for _ in 0..shared.looks {
            if shared.news.load(Ordering::Acquire) != seen {
                break;
            }
            std::hint::spin_loop();
        }
        let mut state = shared.lock();
        while shared.news.load(Ordering::Acquire) == seen {
            state = shared.wake.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        seen = shared.news.load(Ordering::Acquire);
        if state.end {
            return;
        }
        let thread = state.next;
        let Some(job) = state.job.filter(|job| thread < job.threads) else { continue };
        state.next += 1;
        shared.inside.fetch_add(1, Ordering::AcqRel);
        drop(state);
        let _leave = Leave(shared);
        // SAFETY: the job was there under the lock, and `inside` was raised under the same lock: the caller waits for this
        // helper before `work` dies.
        unsafe { (*job.work)(thread) };
    }
}

/// Lets the caller know that a helper is done, also where its work panics.
struct Leave<'a>(&'a Shared);

impl Drop for Leave<'_> {
    fn drop(&mut self) {
        let _state = self.0.lock();
        if self.0.inside.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.0.left.notify_one();
        }
    }
}

/// The items of one part.
fn share(items: usize, parts: usize, part: usize) -> Range<usize> {
    let (each, more) = (items / parts, items % parts);
    let from = part * each + part.min(more);
    from..from + each + usize::from(part < more)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_item_is_run_once_and_chunks_of_a_thread_ascend() {
        for threads in 1..5 {
            let pool = Pool::new(threads).unwrap();
            for items in [0, 1, 2, 7, 64, 1000] {
                let seen: Vec<AtomicUsize> = (0..items).map(|_| AtomicUsize::new(0)).collect();
                let ends: Vec<AtomicUsize> = (0..threads).map(|_| AtomicUsize::new(0)).collect();
                pool.run(items, threads, &|thread, range| {
                    assert!(ends[thread].swap(range.end, Ordering::Relaxed) <= range.start);
                    range.for_each(|k| {
                        seen[k].fetch_add(1, Ordering::Relaxed);
                    });
                });
                assert!(
                    seen.iter().all(|n| n.load(Ordering::Relaxed) == 1),
                    "{items} items, {threads} threads"
                );
            }
        }
    }

    #[test]
    fn many_callers_share_a_pool_and_jobs_follow_each_other() {
        let pool = Pool::shared(3).unwrap();
        assert!(Arc::ptr_eq(&pool, &Pool::shared(3).unwrap()));
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for round in 0..200 {
                        let sum = AtomicUsize::new(0);
                        pool.run(50, 3, &|_, range| {
                            sum.fetch_add(range.sum::<usize>(), Ordering::Relaxed);
                        });
                        assert_eq!(sum.into_inner(), 50 * 49 / 2, "round {round}");
                    }
                });
            }
        });
    }

    #[test]
    fn a_panic_in_the_callers_part_leaves_the_pool_usable() {
        let pool = Pool::new(2).unwrap();
        let caller = thread::current().id();
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            pool.together(2, &|_| assert_ne!(thread::current().id(), caller, "as the test wants"));
        }));
        assert!(panicked.is_err());
        let count = AtomicUsize::new(0);
        pool.run(9, 2, &|_, range| {
            count.fetch_add(range.len(), Ordering::Relaxed);
        });
        assert_eq!(count.into_inner(), 9);
    }
}
