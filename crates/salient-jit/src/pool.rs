//! Threads: the caller's own and helpers that wait for work.
//!
//! Items are independent, so results do not depend on the number of threads or on which of them runs what. Each thread has
//! the same part of the items whenever their number is the same, so that it finds in its cache what it wrote there; who is
//! done with its own part takes chunks of others', because items of a masked kernel differ in work and machines have other
//! things to do. Nothing here knows what an item is.

use std::cell::UnsafeCell;
use std::num::NonZero;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError, TryLockError, Weak};
use std::thread::{self, JoinHandle};

/// Chunks for each thread: more even out differences in work, fewer cost fewer calls.
const CHUNKS: usize = 8;

/// More threads than this are not started: their number has a place in the gate.
const MOST_THREADS: usize = 1 << 15;

/// The threads that run kernels.
#[derive(Debug)]
pub(crate) struct Pool {
    threads: usize,
    shared: Arc<Shared>,
    helpers: Vec<JoinHandle<()>>,
    /// The process in which the helpers are. One that was forked from it has none: there a caller does all by itself.
    process: u32,
    /// Held by the caller whom the helpers help.
    taken: Mutex<()>,
    /// The next chunk of each thread's part; of the caller who holds `taken`.
    next: Box<[Counter]>,
}

/// A counter in a cache line of its own.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Counter(AtomicUsize);

/// What helpers and caller share.
#[derive(Debug)]
struct Shared {
    /// The number of the job, for how many threads it is (none: it is closed) and how many helpers work on it: see
    /// [`Gate`]. A helper enters by raising the last of them while the job is open; the caller closes the job and waits
    /// until none is inside.
    gate: AtomicU64,
    /// Written by the caller who holds `taken`, when no helper is inside and the job is closed.
    job: UnsafeCell<Option<Job>>,
    /// The pool is given up.
    end: AtomicBool,
    /// Helpers that sleep, or are about to.
    asleep: AtomicUsize,
    /// The caller sleeps until the last helper has left, or is about to.
    waits: AtomicBool,
    /// Guards nothing but the two sleeps.
    lock: Mutex<()>,
    /// Work has come, or the end.
    wake: Condvar,
    /// The last helper has left.
    left: Condvar,
    /// How often an idle helper looks for work before it sleeps.
    looks: usize,
}

/// Work that any number of threads may do at once, told by their numbers.
#[derive(Clone, Copy, Debug)]
struct Job(*const (dyn Fn(usize) + Sync));

// SAFETY: what a job points to is `Sync`. The cell is written only while the gate is closed and nobody is inside, by the one
// caller who holds `Pool::taken`, and read only by helpers that are inside.
unsafe impl Sync for Shared {}
// SAFETY: as above: what a job points to may be used from any thread.
unsafe impl Send for Shared {}

/// What the gate says, taken apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Gate {
    number: u32,
    threads: u16,
    inside: u16,
}

impl Gate {
    fn of(bits: u64) -> Gate {
        Gate { number: (bits >> 32) as u32, threads: (bits >> 16) as u16, inside: bits as u16 }
    }

    fn bits(self) -> u64 {
        u64::from(self.number) << 32 | u64::from(self.threads) << 16 | u64::from(self.inside)
    }
}

impl Shared {
    fn gate(&self) -> Gate {
        // In one order with `asleep` and `waits`: who goes to sleep and who wakes see one another.
        Gate::of(self.gate.load(Ordering::SeqCst))
    }

    /// Changes the gate; gives what it was.
    fn change(&self, change: impl Fn(Gate) -> Option<Gate>) -> Result<Gate, Gate> {
        let change = |bits| change(Gate::of(bits)).map(Gate::bits);
        let before = self.gate.fetch_update(Ordering::SeqCst, Ordering::SeqCst, change);
        before.map(Gate::of).map_err(Gate::of)
    }

    /// Wakes helpers, if any sleeps.
    fn call(&self) {
        if self.asleep.load(Ordering::SeqCst) > 0 {
            // Who counted itself among them has looked before the lock is free, or waits.
            drop(self.lock.lock().unwrap_or_else(PoisonError::into_inner));
            self.wake.notify_all();
        }
    }

    /// Waits for a job after that of this number, or for the end.
    fn news(&self, seen: u32) -> Gate {
        let come = || Some(self.gate()).filter(|g| g.number != seen || self.end.load(Ordering::SeqCst));
        for _ in 0..self.looks {
            if let Some(gate) = come() {
                return gate;
            }
            std::hint::spin_loop();
        }
        let mut lock = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
        self.asleep.fetch_add(1, Ordering::SeqCst);
        let gate = loop {
            if let Some(gate) = come() {
                break gate;
            }
            lock = self.wake.wait(lock).unwrap_or_else(PoisonError::into_inner);
        };
        self.asleep.fetch_sub(1, Ordering::SeqCst);
        gate
    }
}

/// Pools in use, so that models with as many threads share them.
static POOLS: Mutex<Vec<Weak<Pool>>> = Mutex::new(Vec::new());

impl Pool {
    /// The pool of so many threads, the caller's own included, of which idle ones look for work so often; one for the whole
    /// process.
    ///
    /// # Errors
    /// The system refuses to start a thread.
    pub(crate) fn shared(threads: usize, looks: i64) -> Result<Arc<Pool>, String> {
        let threads = threads.clamp(1, MOST_THREADS);
        // Where threads outnumber processors, looking for work keeps another from doing it.
        let processors = thread::available_parallelism().map_or(1, NonZero::get);
        let looks = if threads <= processors { usize::try_from(looks).unwrap_or(0) } else { 0 };
        let mut pools = POOLS.lock().unwrap_or_else(PoisonError::into_inner);
        pools.retain(|pool| pool.strong_count() > 0);
        let same = |pool: &Arc<Pool>| pool.threads == threads && pool.shared.looks == looks;
        if let Some(pool) = pools.iter().filter_map(Weak::upgrade).find(same) {
            return Ok(pool);
        }
        let pool = Arc::new(Pool::new(threads, looks)?);
        pools.push(Arc::downgrade(&pool));
        Ok(pool)
    }

    fn new(threads: usize, looks: usize) -> Result<Pool, String> {
        let shared = Arc::new(Shared {
            gate: AtomicU64::new(0),
            job: UnsafeCell::new(None),
            end: AtomicBool::new(false),
            asleep: AtomicUsize::new(0),
            waits: AtomicBool::new(false),
            lock: Mutex::new(()),
            wake: Condvar::new(),
            left: Condvar::new(),
            looks,
        });
        let next = (0..threads).map(|_| Counter::default()).collect();
        let (process, helpers) = (std::process::id(), Vec::new());
        let mut pool = Pool { threads, shared, helpers, process, taken: Mutex::new(()), next };
        for at in 1..threads {
            let shared = pool.shared.clone();
            let helper = thread::Builder::new().name(format!("salient-{at}"));
            pool.helpers.push(helper.spawn(move || help(&shared, at)).map_err(|e| e.to_string())?);
        }
        Ok(pool)
    }

    /// How many threads there are.
    pub(crate) fn threads(&self) -> usize {
        self.threads
    }

    /// Runs `work(thread, range)` on chunks that make up `0..items`, on at most so many threads, numbered from zero.
    pub(crate) fn run(&self, items: usize, threads: usize, work: &(dyn Fn(usize, Range<usize>) + Sync)) {
        let threads = threads.clamp(1, self.threads).min(items.max(1));
        if threads == 1 {
            return work(0, 0..items);
        }
        let _taken = match self.taken.try_lock() {
            Ok(taken) => taken,
            // A caller's part panicked; its job was closed all the same.
            Err(TryLockError::Poisoned(taken)) => taken.into_inner(),
            // Another caller has the helpers.
            Err(TryLockError::WouldBlock) => return work(0, 0..items),
        };
        let chunks = |part: &Range<usize>| part.len().min(CHUNKS);
        for next in &self.next[..threads] {
            next.0.store(0, Ordering::Relaxed);
        }
        self.together(threads, &|thread| {
            for owner in (thread..threads).chain(0..thread) {
                let part = share(0..items, threads, owner);
                loop {
                    let chunk = self.next[owner].0.fetch_add(1, Ordering::Relaxed);
                    if chunk >= chunks(&part) {
                        break;
                    }
                    work(thread, share(part.clone(), chunks(&part), chunk));
                }
            }
        });
    }

    /// Runs `work` on the caller's thread and on those helpers that come before it is done. The caller holds `taken`.
    fn together<'a>(&self, threads: usize, work: &'a (dyn Fn(usize) + Sync + 'a)) {
        let work: *const (dyn Fn(usize) + Sync + 'a) = work;
        // SAFETY: the lifetime alone changes. Helpers use the job while they are inside only; `Close` closes the gate and
        // waits until none is, before `work` can die.
        let work: *const (dyn Fn(usize) + Sync + 'static) = unsafe { std::mem::transmute(work) };
        // SAFETY: the gate is closed and nobody is inside, since the job before has ended; this is the only caller.
        unsafe { *self.shared.job.get() = Some(Job(work)) };
        let open = |gate: Gate| {
            Some(Gate { number: gate.number.wrapping_add(1), threads: threads as u16, inside: 0 })
        };
        let _close = Close(&self.shared);
        let _ = self.shared.change(open);
        self.shared.call();
        // SAFETY: it came from a reference that lives for `'a`.
        unsafe { (*work)(0) };
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.shared.end.store(true, Ordering::SeqCst);
        self.shared.call();
        for helper in self.helpers.drain(..) {
            if self.process != std::process::id() {
                std::mem::forget(helper);
                continue;
            }
            // A helper that panicked has said so already.
            let _ = helper.join();
        }
    }
}

/// Ends a job when dropped, also where the caller's part of it panics.
struct Close<'a>(&'a Shared);

impl Drop for Close<'_> {
    fn drop(&mut self) {
        let shared = self.0;
        let _ = shared.change(|gate| Some(Gate { threads: 0, ..gate }));
        for _ in 0..shared.looks {
            if shared.gate().inside == 0 {
                return;
            }
            std::hint::spin_loop();
        }
        let mut lock = shared.lock.lock().unwrap_or_else(PoisonError::into_inner);
        shared.waits.store(true, Ordering::SeqCst);
        while shared.gate().inside > 0 {
            lock = shared.left.wait(lock).unwrap_or_else(PoisonError::into_inner);
        }
        shared.waits.store(false, Ordering::SeqCst);
    }
}

/// The life of the helper of that number.
fn help(shared: &Shared, own: usize) {
    let mut seen = 0;
    loop {
        let gate = shared.news(seen);
        if shared.end.load(Ordering::SeqCst) {
            return;
        }
        seen = gate.number;
        let enter = |now: Gate| {
            let open = now.number == seen && own < usize::from(now.threads);
            open.then_some(Gate { inside: now.inside + 1, ..now })
        };
        if shared.change(enter).is_err() {
            continue;
        }
        let _leave = Leave(shared);
        // SAFETY: this helper is inside: the job was written before the gate was opened, and the caller waits for this
        // helper before it writes another and before `work` dies.
        if let Some(Job(work)) = unsafe { *shared.job.get() } {
            // SAFETY: as above.
            unsafe { (*work)(own) };
        }
    }
}

/// Lets the caller know that a helper is done, also where its work panics.
struct Leave<'a>(&'a Shared);

impl Drop for Leave<'_> {
    fn drop(&mut self) {
        let _ = self.0.change(|gate| Some(Gate { inside: gate.inside - 1, ..gate }));
        if self.0.waits.load(Ordering::SeqCst) {
            // The caller has looked before the lock is free, or waits.
            drop(self.0.lock.lock().unwrap_or_else(PoisonError::into_inner));
            self.0.left.notify_one();
        }
    }
}

/// One of so many parts of a range, as equal as can be.
fn share(range: Range<usize>, parts: usize, part: usize) -> Range<usize> {
    let (each, more) = (range.len() / parts, range.len() % parts);
    let from = range.start + part * each + part.min(more);
    from..from + each + usize::from(part < more)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_item_is_run_once() {
        for threads in 1..5 {
            let pool = Pool::new(threads, 64).unwrap();
            for items in [0, 1, 2, 7, 64, 1000] {
                let seen: Vec<AtomicUsize> = (0..items).map(|_| AtomicUsize::new(0)).collect();
                pool.run(items, threads, &|thread, range| {
                    assert!(thread < threads);
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
        let pool = Pool::shared(3, 4096).unwrap();
        assert!(Arc::ptr_eq(&pool, &Pool::shared(3, 4096).unwrap()));
        assert!(!Arc::ptr_eq(&pool, &Pool::shared(2, 4096).unwrap()));
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
        let pool = Pool::new(2, 64).unwrap();
        let caller = thread::current().id();
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let _taken = pool.taken.lock();
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
