//! Aligned memory for a call, zeroed by the system: pages that nobody touches cost nothing.
//!
//! Knows nothing of what lies where: see [`Plan`](crate::Plan).

use salient_tile::memory::ALIGNMENT;
use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ptr::NonNull;

/// Bytes that begin at a cache line and were zero when they were made.
#[derive(Debug)]
pub(crate) struct Region {
    start: NonNull<u8>,
    layout: Layout,
}

// SAFETY: the region is its memory's only owner, as a vector is.
unsafe impl Send for Region {}

// SAFETY: through a shared region nothing is read or written; it only tells where it begins.
unsafe impl Sync for Region {}

impl Region {
    /// A region of so many bytes; `None` where the system has no such memory.
    pub(crate) fn new(bytes: usize) -> Option<Region> {
        let layout = Layout::from_size_align(bytes.max(ALIGNMENT), ALIGNMENT).ok()?;
        // SAFETY: the size is not zero.
        let start = NonNull::new(unsafe { alloc_zeroed(layout) })?;
        Some(Region { start, layout })
    }

    /// The address of the first byte; whoever writes through it must know of no other use.
    pub(crate) fn start(&self) -> *mut u8 {
        self.start.as_ptr()
    }

    /// How many bytes it has.
    pub(crate) fn bytes(&self) -> usize {
        self.layout.size()
    }

    /// 32-bit elements from a byte on.
    ///
    /// # Panics
    /// If they are not inside, or not aligned.
    pub(crate) fn words(&mut self, at: usize, count: usize) -> &mut [i32] {
        let end = count.checked_mul(4).and_then(|bytes| at.checked_add(bytes));
        assert!(
            at.is_multiple_of(4) && end.is_some_and(|end| end <= self.layout.size()),
            "outside the region"
        );
        // SAFETY: inside, aligned, initialised, and borrowed as long as the region is.
        unsafe { std::slice::from_raw_parts_mut(self.start().add(at).cast::<i32>(), count) }
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout, and nobody uses it any more.
        unsafe { dealloc(self.start(), self.layout) };
    }
}
