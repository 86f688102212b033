//! Copies the contents of files, shared on disk where the file system can, with holes elsewhere.

use std::fs::File;
use std::io;

use rustix::fs::SeekFrom;
use rustix::io::Errno;

/// Bytes that are copied with one system call.
const PIECE_BYTES: usize = 16 * 1024 * 1024;

/// Makes the contents of `to` those of `from`.
pub(super) fn copy(from: &File, to: &File) -> io::Result<()> {
    let size = from.metadata()?.len();
    to.set_len(0)?;
    if size == 0 {
        return Ok(());
    }
    #[cfg(target_os = "linux")]
    if rustix::fs::ioctl_ficlone(to, from).is_ok() {
        return Ok(());
    }
    to.set_len(size)?;
    let mut at = 0;
    while at < size {
        let (start, end) = match rustix::fs::seek(from, SeekFrom::Data(at)) {
            Ok(start) => {
                let end = rustix::fs::seek(from, SeekFrom::Hole(start)).unwrap_or(size);
                (start, end.min(size))
            }
            // No more data: the rest is a hole.
            Err(Errno::NXIO) => break,
            Err(_) => (at, size),
        };
        copy_range(from, to, start, end)?;
        at = end.max(at + 1);
    }
    Ok(())
}

fn copy_range(from: &File, to: &File, start: u64, end: u64) -> io::Result<()> {
    use std::os::unix::fs::FileExt as _;
    let mut at = start;
    let mut buffer = Vec::new();
    while at < end {
        let most = usize::try_from(end - at).unwrap_or(PIECE_BYTES).min(PIECE_BYTES);
        let (mut read_at, mut write_at) = (at, at);
        let copied =
            rustix::fs::copy_file_range(from, Some(&mut read_at), to, Some(&mut write_at), most);
        let copied = match copied {
            Ok(0) => return Ok(()),
            Ok(copied) => copied,
            // Not between these file systems.
            Err(_) => {
                buffer.resize(most.min(1024 * 1024), 0);
                let read = from.read_at(&mut buffer, at)?;
                if read == 0 {
                    return Ok(());
                }
                to.write_all_at(buffer.get(..read).unwrap_or_default(), at)?;
                read
            }
        };
        at += copied as u64;
    }
    Ok(())
}
