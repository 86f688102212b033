//! The heap of the program.
//!
//! What sits beside an editor should be small, and one thread does most of its work: it has the C
//! library's heap. A server that many threads work for at once waits for that heap more than it uses
//! it, and may be larger: it has mimalloc's. The two are told apart by where a piece lies, so what was
//! there before the choice was made is given back to where it came from.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicBool, Ordering};

use libmimalloc_sys as mimalloc;

static USES_MIMALLOC: AtomicBool = AtomicBool::new(false);

/// From now on pieces are handed out by whoever is quickest about it, whatever that takes. To be called
/// before there are threads.
pub fn use_mimalloc() {
    USES_MIMALLOC.store(true, Ordering::Relaxed);
}

/// Gives back what neither this thread uses nor any that has ended; the others do it themselves as they
/// work.
pub(super) fn trim() {
    if uses_mimalloc() {
        // SAFETY: gives free pages to the system; nothing refers to them.
        unsafe { mimalloc::mi_collect(true) };
    }
}

/// The allocator of the program.
#[derive(Debug)]
pub struct HeapAllocator;

// SAFETY: both allocators keep the promises that are asked for, and a piece goes back to the one that
// handed it out.
unsafe impl GlobalAlloc for HeapAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if uses_mimalloc() {
            // SAFETY: the alignment of a layout is a power of two.
            return unsafe { mimalloc::mi_malloc_aligned(layout.size(), layout.align()) }.cast();
        }
        // SAFETY: passed on as it came.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if uses_mimalloc() {
            // SAFETY: the alignment of a layout is a power of two.
            return unsafe { mimalloc::mi_zalloc_aligned(layout.size(), layout.align()) }.cast();
        }
        // SAFETY: passed on as it came.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, piece: *mut u8, layout: Layout) {
        if is_mimalloc_pointer(piece) {
            // SAFETY: it was handed out there.
            return unsafe { mimalloc::mi_free(piece.cast()) };
        }
        // SAFETY: whatever is not mimalloc's was handed out here.
        unsafe { System.dealloc(piece, layout) }
    }

    unsafe fn realloc(&self, piece: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        if is_mimalloc_pointer(piece) {
            // SAFETY: it was handed out there, with that alignment.
            let moved =
                unsafe { mimalloc::mi_realloc_aligned(piece.cast(), new_size, layout.align()) };
            return moved.cast();
        }
        // SAFETY: whatever is not mimalloc's was handed out here.
        unsafe { System.realloc(piece, layout, new_size) }
    }
}

#[inline]
fn uses_mimalloc() -> bool {
    USES_MIMALLOC.load(Ordering::Relaxed)
}

#[inline]
fn is_mimalloc_pointer(piece: *mut u8) -> bool {
    // SAFETY: looks the address up in a table; nothing is read from it.
    uses_mimalloc() && unsafe { mimalloc::mi_is_in_heap_region(piece.cast()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fill(piece: *mut u8, size: usize) {
        assert!(!piece.is_null());
        // SAFETY: so many bytes were asked for.
        unsafe { std::ptr::write_bytes(piece, 7, size) };
    }

    #[track_caller]
    fn check(piece: *mut u8, size: usize) {
        // SAFETY: so many bytes were filled.
        let bytes = unsafe { std::slice::from_raw_parts(piece, size) };
        assert!(bytes.iter().all(|byte| *byte == 7));
    }

    #[test]
    fn earlier_allocations_are_freed_by_their_allocator() {
        let sizes = [1, 8, 100, 5_000, 300_000, 9_000_000];
        let aligns = [1, 16, 64, 4096];
        let layouts: Vec<Layout> = sizes
            .iter()
            .flat_map(|size| aligns.map(|align| Layout::from_size_align(*size, align).unwrap()))
            .collect();
        let take = |layout: &Layout| {
            // SAFETY: no layout is empty.
            let piece = unsafe { HeapAllocator.alloc(*layout) };
            fill(piece, layout.size());
            (piece, *layout)
        };
        let before: Vec<(*mut u8, Layout)> = layouts.iter().map(take).collect();
        assert!(before.iter().all(|(piece, _)| !is_mimalloc_pointer(*piece)));
        use_mimalloc();
        let after: Vec<(*mut u8, Layout)> = layouts.iter().map(take).collect();
        assert!(after.iter().all(|(piece, _)| is_mimalloc_pointer(*piece)));
        assert!(
            before.iter().all(|(piece, _)| !is_mimalloc_pointer(*piece)),
            "they stay whose they are"
        );
        for (piece, layout) in before.into_iter().chain(after) {
            check(piece, layout.size());
            assert_eq!(piece.addr() % layout.align(), 0);
            let was_mimallocs = is_mimalloc_pointer(piece);
            // SAFETY: it was handed out with that layout.
            let larger = unsafe { HeapAllocator.realloc(piece, layout, layout.size() * 3) };
            check(larger, layout.size());
            assert_eq!(larger.addr() % layout.align(), 0);
            assert_eq!(is_mimalloc_pointer(larger), was_mimallocs);
            let layout = Layout::from_size_align(layout.size() * 3, layout.align()).unwrap();
            // SAFETY: it was handed out with that layout.
            unsafe { HeapAllocator.dealloc(larger, layout) };
        }
        let layout = Layout::from_size_align(70_000, 8).unwrap();
        // SAFETY: the layout is not empty.
        let zeroed = unsafe { HeapAllocator.alloc_zeroed(layout) };
        // SAFETY: so many bytes were asked for.
        assert!(unsafe { std::slice::from_raw_parts(zeroed, 70_000) }.iter().all(|b| *b == 0));
        // What one thread took another gives back.
        let address = zeroed.expose_provenance();
        let giving = std::thread::spawn(move || {
            // SAFETY: it was handed out with that layout, and nobody else refers to it.
            unsafe {
                HeapAllocator.dealloc(std::ptr::with_exposed_provenance_mut(address), layout)
            };
        });
        giving.join().unwrap();
        trim();
    }
}
