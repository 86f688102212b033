//! Memory of zero's own process: how the heap is limited, and how unused memory is released.
//!
//! A program that runs beside an editor all day is idle most of the time. While idle it releases
//! free heap memory and the pages of its own code, which stay in the kernel's cache and are mapped
//! again as soon as they are used.

#![expect(unsafe_code, reason = "the heap and the mappings of the process need C functions")]

use std::time::Duration;

#[cfg(target_os = "linux")]
use crate::kernel_file;

/// Allocations from this size on are mapped separately, and released separately.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const LARGE_BYTES: i32 = 128 * 1024;

/// Address space that an arena begins with. Without it, an arena grows by a page or two at a time, each
/// by a system call that stops page faults of all threads; hundreds of them while a session opens.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const ARENA_START_BYTES: i32 = 2 * 1024 * 1024;

/// Fewest arenas: one for the thread that works, one for those that wait for the disk.
const ARENAS_MIN: usize = 2;

/// Limits the arenas of the C library's heap to the number of threads that work at the same time,
/// and at least two. By default each thread gets its own and keeps what it once needed; threads that
/// share one wait for each other. Call it before threads are started.
pub fn limit_arenas(working_threads: usize) {
    let arenas = i32::try_from(working_threads.max(ARENAS_MIN)).unwrap_or(i32::MAX);
    #[cfg(not(all(target_os = "linux", target_env = "gnu")))]
    let _ = arenas;
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    {
        // SAFETY: sets parameters of the allocator; it accepts any value and rejects unsuitable
        // ones.
        unsafe {
            libc::mallopt(libc::M_ARENA_MAX, arenas);
            libc::mallopt(libc::M_MMAP_THRESHOLD, LARGE_BYTES);
            libc::mallopt(libc::M_TOP_PAD, ARENA_START_BYTES);
        }
    }
}

/// Releases unused memory to the system.
pub fn trim() {
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

/// The memory that this process holds, in bytes; zero if the kernel does not say.
pub fn resident_bytes() -> usize {
    #[cfg(target_os = "linux")]
    {
        let text = kernel_file::read("/proc/self/statm".as_ref()).unwrap_or_default();
        let pages = text.split_ascii_whitespace().nth(1).and_then(|pages| pages.parse().ok());
        rustix::param::page_size().saturating_mul(pages.unwrap_or(0))
    }
    #[cfg(not(target_os = "linux"))]
    {
        0
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
    fn resident_memory_grows_with_what_is_held() {
        let before = resident_bytes();
        let held = std::hint::black_box(vec![7_u8; 64 * 1024 * 1024]);
        assert!(resident_bytes() > before + held.len() / 2, "{before} {}", resident_bytes());
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
