//! The global allocator of the program: the C library's heap or mimalloc.
//!
//! A process beside an editor should be small, and mostly one thread works in it: it uses the C
//! library's heap. A server with many threads would mostly wait for that heap, and may be larger:
//! it uses mimalloc. An allocation is attributed by its address, so memory that was allocated
//! before the choice is returned to the allocator it came from.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicBool, Ordering};

use libmimalloc_sys as mimalloc;

static USES_MIMALLOC: AtomicBool = AtomicBool::new(false);

/// From now on, allocates with mimalloc, which is faster with many threads and uses more memory.
/// Call it before threads are started.
pub fn use_mimalloc() {
    USES_MIMALLOC.store(true, Ordering::Relaxed);
}

/// Releases memory that neither this thread nor any ended thread uses; other threads do it
/// themselves as they work.
pub(super) fn trim() {
    if uses_mimalloc() {
        // SAFETY: returns free pages to the system; nothing refers to them.
        unsafe { mimalloc::mi_collect(true) };
    }
}

/// The global allocator. It uses the C library's heap until [`use_mimalloc`] is called.
#[derive(Debug)]
pub struct HeapAllocator;

// SAFETY: both allocators fulfil the contract, and memory is returned to the one that allocated it.
unsafe impl GlobalAlloc for HeapAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if uses_mimalloc() {
            // SAFETY: the alignment of a layout is a power of two.
            return unsafe { mimalloc::mi_malloc_aligned(layout.size(), layout.align()) }.cast();
        }
        // SAFETY: the arguments are passed on unchanged.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if uses_mimalloc() {
            // SAFETY: the alignment of a layout is a power of two.
            return unsafe { mimalloc::mi_zalloc_aligned(layout.size(), layout.align()) }.cast();
        }
        // SAFETY: the arguments are passed on unchanged.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        if is_mimalloc_pointer(pointer) {
            // SAFETY: mimalloc allocated it.
            return unsafe { mimalloc::mi_free(pointer.cast()) };
        }
        // SAFETY: what mimalloc did not allocate, `System` did.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        if is_mimalloc_pointer(pointer) {
            // SAFETY: mimalloc allocated it, with this alignment.
            let moved =
                unsafe { mimalloc::mi_realloc_aligned(pointer.cast(), new_size, layout.align()) };
            return moved.cast();
        }
        // SAFETY: what mimalloc did not allocate, `System` did.
        unsafe { System.realloc(pointer, layout, new_size) }
    }
}

#[inline]
fn uses_mimalloc() -> bool {
    USES_MIMALLOC.load(Ordering::Relaxed)
}

#[inline]
fn is_mimalloc_pointer(pointer: *mut u8) -> bool {
    // SAFETY: looks up the address in a table; nothing is read from it.
    uses_mimalloc() && unsafe { mimalloc::mi_is_in_heap_region(pointer.cast()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fill(pointer: *mut u8, size: usize) {
        assert!(!pointer.is_null());
        // SAFETY: `size` bytes were allocated.
        unsafe { std::ptr::write_bytes(pointer, 7, size) };
    }

    #[track_caller]
    fn check(pointer: *mut u8, size: usize) {
        // SAFETY: `size` bytes were written.
        let bytes = unsafe { std::slice::from_raw_parts(pointer, size) };
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
            let pointer = unsafe { HeapAllocator.alloc(*layout) };
            fill(pointer, layout.size());
            (pointer, *layout)
        };
        let before: Vec<(*mut u8, Layout)> = layouts.iter().map(take).collect();
        assert!(before.iter().all(|(pointer, _)| !is_mimalloc_pointer(*pointer)));
        use_mimalloc();
        let after: Vec<(*mut u8, Layout)> = layouts.iter().map(take).collect();
        assert!(after.iter().all(|(pointer, _)| is_mimalloc_pointer(*pointer)));
        assert!(
            before.iter().all(|(pointer, _)| !is_mimalloc_pointer(*pointer)),
            "they stay with their allocator"
        );
        for (pointer, layout) in before.into_iter().chain(after) {
            check(pointer, layout.size());
            assert_eq!(pointer.addr() % layout.align(), 0);
            let was_mimallocs = is_mimalloc_pointer(pointer);
            // SAFETY: it was allocated with this layout.
            let larger = unsafe { HeapAllocator.realloc(pointer, layout, layout.size() * 3) };
            check(larger, layout.size());
            assert_eq!(larger.addr() % layout.align(), 0);
            assert_eq!(is_mimalloc_pointer(larger), was_mimallocs);
            let layout = Layout::from_size_align(layout.size() * 3, layout.align()).unwrap();
            // SAFETY: it was allocated with this layout.
            unsafe { HeapAllocator.dealloc(larger, layout) };
        }
        let layout = Layout::from_size_align(70_000, 8).unwrap();
        // SAFETY: the layout is not empty.
        let zeroed = unsafe { HeapAllocator.alloc_zeroed(layout) };
        // SAFETY: that many bytes were allocated.
        assert!(unsafe { std::slice::from_raw_parts(zeroed, 70_000) }.iter().all(|b| *b == 0));
        // Memory may be released by another thread than the one that allocated it.
        let address = zeroed.expose_provenance();
        let giving = std::thread::spawn(move || {
            // SAFETY: it was allocated with this layout, and nothing else refers to it.
            unsafe {
                HeapAllocator.dealloc(std::ptr::with_exposed_provenance_mut(address), layout)
            };
        });
        giving.join().unwrap();
        trim();
    }
}
