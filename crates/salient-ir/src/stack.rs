//! Room for walks that go as deep as a graph: they run on a stack that is made for its depth, so that no program overflows
//! the caller's. What walks a graph without end, or a part of it many times, is not helped by this.

use std::cell::Cell;
use std::io;

thread_local! {
    /// Bytes of stack that this thread was started with, where that is known.
    static STACK: Cell<usize> = const { Cell::new(0) };
}

/// Nodes on top of each other for which any stack has room.
const SHALLOW: usize = 256;
/// Bytes for each further one; only what is used is ever touched.
const EACH: usize = 12 << 10;
/// Bytes for whatever the walk does at the bottom.
const BOTTOM: usize = 8 << 20;

/// Runs `walk` with room for recursion that is `depth` calls deep.
///
/// # Errors
/// If no thread with such a stack can be started.
pub fn with_room<T: Send>(depth: usize, walk: impl FnOnce() -> T + Send) -> io::Result<T> {
    if depth <= SHALLOW {
        return Ok(walk());
    }
    with_stack(BOTTOM.saturating_add(depth.saturating_mul(EACH)), walk)
}

/// Runs `walk` with at least so many bytes of stack: on this thread, if it was started here for twice as many, since the
/// caller may have used some; else on one of its own. A further thread costs time: what it allocates is new to the cache.
///
/// # Errors
/// If no thread with such a stack can be started.
pub fn with_stack<T: Send>(bytes: usize, walk: impl FnOnce() -> T + Send) -> io::Result<T> {
    if STACK.get() / 2 >= bytes {
        return Ok(walk());
    }
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().stack_size(bytes).spawn_scoped(scope, || {
            STACK.set(bytes);
            walk()
        })?;
        Ok(thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    })
}

#[cfg(test)]
mod tests {
    use super::with_room;

    /// Counts down in calls, each with something on the stack that is not optimised away.
    fn deep(n: usize) -> usize {
        let here = std::hint::black_box([n; 64]);
        if n == 0 { 0 } else { deep(n - 1) + here[7] - n + 1 }
    }

    /// A walk inside of a larger one stays on its thread.
    #[test]
    fn a_stack_that_is_large_enough_is_used_again() {
        let here = || std::thread::current().id();
        let threads = with_room(10_000, || [here(), with_room(1_000, here).unwrap()]).unwrap();
        assert_eq!(threads[0], threads[1]);
        assert_ne!(threads[0], here());
    }

    #[test]
    fn a_walk_as_deep_as_it_says_has_room() {
        for depth in [0, 100, 30_000] {
            assert_eq!(with_room(depth, || deep(depth)).unwrap(), depth);
        }
    }
}
