//! Room for walks that go as deep as a graph: they run on a stack that is made for its depth, so that no program overflows
//! the caller's. What walks a graph without end, or a part of it many times, is not helped by this.

use std::io;

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
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new()
            .stack_size(BOTTOM.saturating_add(depth.saturating_mul(EACH)))
            .spawn_scoped(scope, walk)?;
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

    #[test]
    fn a_walk_as_deep_as_it_says_has_room() {
        for depth in [0, 100, 30_000] {
            assert_eq!(with_room(depth, || deep(depth)).unwrap(), depth);
        }
    }
}
