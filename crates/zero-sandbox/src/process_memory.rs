//! Memory of zero's own process: which allocator is used, and how unused memory is released.
//!
//! A program that runs beside an editor all day is idle most of the time. While idle it releases
//! free heap memory and the pages of its own code, which stay in the kernel's cache and are mapped
//! again as soon as they are used.

#![expect(unsafe_code, reason = "allocators and the mappings of the process need C functions")]

mod heap_allocator;

use std::time::Duration;

pub use self::heap_allocator::{HeapAllocator, use_mimalloc};
#[cfg(target_os = "linux")]
use crate::kernel_file;

/// Allocations from this size on are mapped separately, and released separately.
#[cfg(target_os = "linux")]
const LARGE_BYTES: i32 = 128 * 1024;

/// Most arenas of the C library's heap. By default each thread gets its own and keeps what it once
/// needed; threads that share one wait for each other. With mimalloc, only SQLite uses this heap.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const ARENAS_MAX: i32 = 2;

/// Limits the number of heap arenas of the C library. Call it before threads are started.
pub fn limit_arenas() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    {
        // SAFETY: sets parameters of the allocator; it accepts any value and rejects unsuitable
        // ones.
        unsafe {
            libc::mallopt(libc::M_ARENA_MAX, ARENAS_MAX);
            libc::mallopt(libc::M_MMAP_THRESHOLD, LARGE_BYTES);
        }
    }
}

/// Releases unused memory to the system.
pub fn trim() {
    heap_allocator::trim();
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    {
        // SAFETY: returns free parts of the heap to the system; nothing refers to them.
        unsafe { libc::malloc_trim(0) };
    }
    #[cfg(target_os = "linux")]
    for program in
        parse_program_text(&kernel_file::read("/proc/self/maps".as_ref()).unwrap_or_default())
    {
        // SAFETY: these are pages of code that were never written to, so they are read from the
        // file again at the next use. Nothing is unmapped.
        unsafe {
            libc::madvise(
                std::ptr::with_exposed_provenance_mut(program.start),
                program.len(),
                libc::MADV_DONTNEED,
            );
        }
    }
}

/// The processor time that all threads of this process have used.
pub fn cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::try_from(time).unwrap_or_default()
}

/// The address ranges of this program's code, parsed from `/proc/self/maps`: those of the file of
/// the first mapping. Only executable ranges that are not writable, since others were changed at
/// startup.
#[cfg(target_os = "linux")]
fn parse_program_text(maps: &str) -> Vec<std::ops::Range<usize>> {
    let file_of = |line: &str| line.split_ascii_whitespace().nth(4).map(str::to_owned);
    let program = maps.lines().next().and_then(file_of);
    let is_code = |line: &&str| {
        line.split_ascii_whitespace().nth(1) == Some("r-xp") && file_of(line) == program
    };
    maps.lines().filter(is_code).filter_map(parse_range).collect()
}

#[cfg(target_os = "linux")]
fn parse_range(line: &str) -> Option<std::ops::Range<usize>> {
    let (start, end) = line.split_ascii_whitespace().next()?.split_once('-')?;
    let number = |text: &str| usize::from_str_radix(text, 16).ok();
    let range = number(start)?..number(end)?;
    (!range.is_empty()).then_some(range)
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn only_own_program_text_is_parsed() {
        let maps = "\
1000-2000 r--p 00000000 fe:00 7 /bin/zero
2000-5000 r-xp 00001000 fe:00 7 /bin/zero
5000-6000 r--p 00004000 fe:00 7 /bin/zero
6000-7000 rw-p 00005000 fe:00 7 /bin/zero
8000-9000 rw-p 00000000 00:00 0 [heap]
a000-b000 r-xp 00001000 fe:00 9 /lib/libc.so
c000-d000 r-xp 00000000 00:00 0 [vdso]
";
        assert_eq!(parse_program_text(maps), Vec::from_iter(Some(0x2000..0x5000)));
        assert!(parse_program_text("").is_empty());
        assert!(parse_program_text("x r-xp 0 fe:00 7 /a\n9-1 r-xp 0 fe:00 7 /a\n").is_empty());
    }

    #[test]
    fn program_continues_after_trim() {
        let held = vec![7_u8; 4 * 1024 * 1024];
        for _ in 0..3 {
            trim();
            assert!(held.iter().all(|byte| *byte == 7));
            assert!(
                std::thread::spawn(|| format!("{:?}", cpu_time())).join().unwrap().ends_with('s')
            );
        }
    }
}
