//! An allocator that puts memory between pages which nobody may touch: reading or writing one byte outside ends the process.
//!
//! Guarded are allocations that elements may lie in, by their alignment: working memory and packed parameters begin at cache
//! lines, floats and narrow integers at four bytes, truth values anywhere. All else is the system's.

#![allow(unsafe_code, reason = "an allocator that guards is one")]

use region::Protection;
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Where memory lies between its guard pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flush {
    /// It ends where a guard page begins, but for what its alignment takes.
    Right,
    /// It begins where a guard page ends.
    Left,
}

const PAGE: usize = 4096;
/// Pages of the largest guarded allocation.
const MOST_PAGES: usize = 256;
/// Bytes of addresses, of which only those in use are memory.
const ADDRESSES: usize = 1 << 36;
/// The system keeps a list of ranges of pages; so many leave room for others.
const MOST_SLOTS: usize = 20_000;

static GUARDS: AtomicBool = AtomicBool::new(false);
static FLUSH_LEFT: AtomicBool = AtomicBool::new(false);
static GUARDED: AtomicUsize = AtomicUsize::new(0);
static BEGIN: AtomicUsize = AtomicUsize::new(0);
static SLOTS: Mutex<Slots> = Mutex::new(Slots { next: 0, count: 0, free: [0; MOST_PAGES + 1] });

/// Ranges of pages, each with a guard page before it and one behind it.
struct Slots {
    /// Bytes of addresses in use.
    next: usize,
    count: usize,
    /// By number of pages, the first of those that are free; each begins with the address of the next.
    free: [usize; MOST_PAGES + 1],
}

impl Slots {
    /// The first page of a slot of so many; zero if there is none.
    fn take(&mut self, pages: usize) -> usize {
        let free = self.free[pages];
        if free != 0 {
            // SAFETY: a free slot is memory of nobody, and begins with an address.
            self.free[pages] = unsafe { *(free as *const usize) };
            return free;
        }
        let (start, bytes) = (BEGIN.load(Ordering::Relaxed) + self.next + PAGE, pages * PAGE);
        let is_full = self.count == MOST_SLOTS || self.next + bytes + 2 * PAGE > ADDRESSES;
        // SAFETY: the pages are of our own range, and nobody's yet.
        if is_full || unsafe { region::protect(start as *const u8, bytes, Protection::READ_WRITE) }.is_err() {
            return 0;
        }
        self.next += bytes + PAGE;
        self.count += 1;
        start
    }

    fn give(&mut self, start: usize, pages: usize) {
        // SAFETY: the slot is given back: it is memory of nobody.
        unsafe { *(start as *mut usize) = self.free[pages] };
        self.free[pages] = start;
    }
}

struct Guard;

fn is_element(layout: Layout) -> bool {
    let of_elements = matches!(layout.align(), 1 | 4) || layout.align() >= 64;
    of_elements && layout.align() <= PAGE && (1..=MOST_PAGES * PAGE).contains(&layout.size())
}

// SAFETY: a request is either the system's from beginning to end, or has pages of its own, told apart by their addresses.
unsafe impl GlobalAlloc for Guard {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if GUARDS.load(Ordering::Relaxed) && is_element(layout) {
            let pages = layout.size().div_ceil(PAGE);
            let start = SLOTS.lock().map_or(0, |mut slots| slots.take(pages));
            if start != 0 {
                GUARDED.fetch_add(1, Ordering::Relaxed);
                let spare = (pages * PAGE - layout.size()) & !(layout.align() - 1);
                let skipped = if FLUSH_LEFT.load(Ordering::Relaxed) { 0 } else { spare };
                return (start + skipped) as *mut u8;
            }
        }
        // SAFETY: the caller keeps to the contract, which is the same.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        let (begin, at) = (BEGIN.load(Ordering::Relaxed), ptr as usize);
        if begin != 0 && (begin..begin + ADDRESSES).contains(&at) {
            let start = at & !(PAGE - 1);
            if let Ok(mut slots) = SLOTS.lock() {
                slots.give(start, layout.size().div_ceil(PAGE));
            }
            return;
        }
        // SAFETY: it was the system's, as above.
        unsafe { System.dealloc(ptr, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Guard = Guard;

/// Runs something with guards from the moment at which it calls what it is given, and tells how many allocations were guarded.
pub(crate) fn guarded<R>(run: impl FnOnce(&mut dyn FnMut(Flush)) -> R) -> (R, usize) {
    if BEGIN.load(Ordering::Relaxed) == 0 {
        assert_eq!(region::page::size(), PAGE, "the size of a page");
        let addresses = region::alloc(ADDRESSES, Protection::NONE).expect("addresses");
        BEGIN.store(addresses.as_ptr::<u8>() as usize, Ordering::Relaxed);
        std::mem::forget(addresses);
    }
    let before = GUARDED.load(Ordering::Relaxed);
    let result = run(&mut |flush| {
        FLUSH_LEFT.store(flush == Flush::Left, Ordering::Relaxed);
        GUARDS.store(true, Ordering::Relaxed);
    });
    GUARDS.store(false, Ordering::Relaxed);
    (result, GUARDED.load(Ordering::Relaxed) - before)
}
