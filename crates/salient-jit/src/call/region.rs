//! Aligned memory for a call, zeroed by the system: pages that nobody touches cost nothing.
//!
//! Much memory comes in pages of the largest size that the system gives: packed parameters of a few megabytes are more
//! ordinary pages than a processor keeps addresses of. Knows nothing of what lies where: see [`Plan`](crate::Plan).

use memmap2::MmapMut;
use salient_tile::memory::ALIGNMENT;
use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ptr::NonNull;

/// Bytes in a large page of most systems.
const LARGE_PAGE: usize = 2 << 20;

/// Bytes that begin at a cache line and were zero when they were made.
#[derive(Debug)]
pub(crate) struct Region {
    start: NonNull<u8>,
    bytes: usize,
    source: Source,
}

/// Where memory is from.
#[derive(Debug)]
enum Source {
    /// The allocator.
    Allocated(Layout),
    /// The system: unmapped when dropped.
    Mapped { _pages: MmapMut },
}

// SAFETY: the region is its memory's only owner, as a vector is.
unsafe impl Send for Region {}

// SAFETY: through a shared region nothing is read or written; it only tells where it begins.
unsafe impl Sync for Region {}

impl Region {
    /// A region of so many bytes; `None` where the system has no such memory.
    pub(crate) fn new(bytes: usize) -> Option<Region> {
        let bytes = bytes.max(ALIGNMENT);
        if bytes >= 2 * LARGE_PAGE { Region::mapped(bytes) } else { Region::allocated(bytes) }
    }

    fn allocated(bytes: usize) -> Option<Region> {
        let layout = Layout::from_size_align(bytes, ALIGNMENT).ok()?;
        // SAFETY: the size is not zero.
        let start = NonNull::new(unsafe { alloc_zeroed(layout) })?;
        Some(Region { start, bytes, source: Source::Allocated(layout) })
    }

    /// From the beginning of a large page to the end of one.
    fn mapped(bytes: usize) -> Option<Region> {
        let whole = bytes.checked_next_multiple_of(LARGE_PAGE)?;
        let mut pages = MmapMut::map_anon(whole.checked_add(LARGE_PAGE)?).ok()?;
        #[cfg(target_os = "linux")]
        // A system without large pages gives ordinary ones.
        let _ = pages.advise(memmap2::Advice::HugePage);
        let skipped = pages.as_ptr().align_offset(LARGE_PAGE);
        let start = NonNull::from(pages.get_mut(skipped..)?).cast();
        Some(Region { start, bytes, source: Source::Mapped { _pages: pages } })
    }

    /// The address of the first byte; whoever writes through it must know of no other use.
    pub(crate) fn start(&self) -> *mut u8 {
        self.start.as_ptr()
    }

    /// How many bytes it has.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// 32-bit elements from a byte on.
    ///
    /// # Panics
    /// If they are not inside, or not aligned.
    pub(crate) fn words(&mut self, at: usize, count: usize) -> &mut [i32] {
        let end = count.checked_mul(4).and_then(|bytes| at.checked_add(bytes));
        assert!(at.is_multiple_of(4) && end.is_some_and(|end| end <= self.bytes), "outside the region");
        // SAFETY: inside, aligned, initialised, and borrowed as long as the region is.
        unsafe { std::slice::from_raw_parts_mut(self.start().add(at).cast::<i32>(), count) }
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        match self.source {
            // SAFETY: allocated with this layout, and nobody uses it any more.
            Source::Allocated(layout) => unsafe { dealloc(self.start(), layout) },
            Source::Mapped { .. } => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_and_large_regions_are_aligned_and_zero_from_end_to_end() {
        for bytes in [0, 4, ALIGNMENT, 2 * LARGE_PAGE - 4, 2 * LARGE_PAGE, 3 * LARGE_PAGE + 4] {
            let mut region = Region::new(bytes).expect("there is memory");
            assert_eq!(region.start() as usize % ALIGNMENT, 0, "{bytes}");
            assert!(region.bytes() >= bytes, "{bytes}");
            let words = region.words(0, bytes / 4);
            assert!(words.iter().all(|word| *word == 0), "{bytes}");
            words.fill(1);
            assert_eq!(words.iter().map(|word| *word as usize).sum::<usize>(), bytes / 4, "{bytes}");
        }
    }

    #[test]
    fn memory_that_no_system_has_is_refused() {
        for bytes in [usize::MAX, usize::MAX - LARGE_PAGE, isize::MAX as usize, 1 << 60] {
            assert!(Region::new(bytes).is_none(), "{bytes}");
        }
    }
}
