//! The memory of zero's own process: how it is handed out, and how it is given back.
//!
//! A program that sits in an editor all day does nothing most of the time. What it does not need then
//! is given back: free pieces of the heap, and the pages of the program itself, which lie in the
//! kernel's cache and are there again as soon as one of them is used.

#![expect(unsafe_code, reason = "allocators and the mappings of the process are not Rust's")]

mod heap_allocator;

use std::time::Duration;

pub use self::heap_allocator::{HeapAllocator, use_mimalloc};
#[cfg(target_os = "linux")]
use crate::kernel_file;

/// Pieces of the heap from this size on are mapped one by one, and given back one by one.
#[cfg(target_os = "linux")]
const LARGE_BYTES: i32 = 128 * 1024;

/// Parts of the C library's heap. Each thread would get one of its own, and keep what it once needed;
/// threads that share one wait for each other. Where speed is preferred, only SQLite uses it.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const ARENAS_MAX: i32 = 2;

/// Has the C library's heap kept in few parts. To be called before there are threads.
pub fn limit_arenas() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    {
        // SAFETY: sets numbers of the allocator; it takes any, and says no to those it does not like.
        unsafe {
            libc::mallopt(libc::M_ARENA_MAX, ARENAS_MAX);
            libc::mallopt(libc::M_MMAP_THRESHOLD, LARGE_BYTES);
        }
    }
}

/// Gives back what is not in use.
pub fn trim() {
    heap_allocator::trim();
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    {
        // SAFETY: gives free pieces of the heap to the system; nothing refers to them.
        unsafe { libc::malloc_trim(0) };
    }
    #[cfg(target_os = "linux")]
    for program in
        parse_program_text(&kernel_file::read("/proc/self/maps".as_ref()).unwrap_or_default())
    {
        // SAFETY: pages of code that nobody has written to: they are read from the file again when
        // they are used next. Nothing is unmapped.
        unsafe {
            libc::madvise(
                std::ptr::with_exposed_provenance_mut(program.start),
                program.len(),
                libc::MADV_DONTNEED,
            );
        }
    }
}

/// The time that all threads of this process have worked.
pub fn cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::try_from(time).unwrap_or_default()
}

/// Where the code of this program lies, in the words of the kernel: that of the file that the first
/// mapping is of. Only what can be run and not written to, since the rest was changed at the start.
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
