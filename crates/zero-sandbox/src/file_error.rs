//! Turns errors of the operating system into tool errors that say what to do next.

use std::io;

use rustix::io::Errno;
use zero_core::{ErrorReason, ErrorType, ToolError};

/// Turns a failed file operation into an error for the caller. `verb` completes "could not …".
pub fn from_io(verb: &str, path: &str, source: &io::Error) -> ToolError {
    let errno = source.raw_os_error().map(Errno::from_raw_os_error);
    let (error_type, reason, advice) = classify(errno, source.kind());
    let message = format!("could not {verb} `{path}`: {}{advice}", plain_message(source));
    let error = ToolError::new(error_type, reason, message).with_detail("file", path);
    match errno.and_then(errno_name) {
        Some(name) => error.with_detail("errno", name),
        None => error,
    }
}

/// The system's name of an error that file operations have.
fn errno_name(errno: Errno) -> Option<&'static str> {
    Some(match errno {
        Errno::NOENT => "ENOENT",
        Errno::ACCESS => "EACCES",
        Errno::PERM => "EPERM",
        Errno::ROFS => "EROFS",
        Errno::NOSPC => "ENOSPC",
        Errno::DQUOT => "EDQUOT",
        Errno::EXIST => "EEXIST",
        Errno::FBIG => "EFBIG",
        Errno::ISDIR => "EISDIR",
        Errno::NOTDIR => "ENOTDIR",
        Errno::NOTEMPTY => "ENOTEMPTY",
        Errno::LOOP => "ELOOP",
        Errno::NAMETOOLONG => "ENAMETOOLONG",
        Errno::INVAL => "EINVAL",
        Errno::IO => "EIO",
        Errno::INTR => "EINTR",
        Errno::AGAIN => "EAGAIN",
        Errno::BUSY => "EBUSY",
        Errno::STALE => "ESTALE",
        Errno::TXTBSY => "ETXTBSY",
        Errno::MFILE => "EMFILE",
        Errno::NFILE => "ENFILE",
        Errno::NOMEM => "ENOMEM",
        Errno::XDEV => "EXDEV",
        _ => return None,
    })
}

/// Like [`from_io`], for an error of rustix.
pub fn from_errno(verb: &str, path: &str, source: Errno) -> ToolError {
    from_io(verb, path, &io::Error::from(source))
}

/// The system's message without Rust's "(os error 2)".
pub(crate) fn plain_message(source: &io::Error) -> String {
    let text = source.to_string();
    let text = text.split(" (os error").next().unwrap_or_default();
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| first.to_lowercase().chain(chars).collect())
}

fn classify(errno: Option<Errno>, kind: io::ErrorKind) -> (ErrorType, ErrorReason, &'static str) {
    use ErrorType::{ExecutionFailed, InvalidInput, NotFound, PermissionDenied};
    match errno {
        Some(Errno::NOENT) => (NotFound, ErrorReason::Io, ""),
        Some(Errno::ACCESS | Errno::PERM) => (
            PermissionDenied,
            ErrorReason::AccessDenied,
            "; check the owner and mode of the file and its folder",
        ),
        Some(Errno::ROFS) => (
            ExecutionFailed,
            ErrorReason::ReadOnly,
            "; nothing was changed, choose a folder that can be written",
        ),
        Some(Errno::NOSPC | Errno::DQUOT) => (
            ExecutionFailed,
            ErrorReason::DiskFull,
            "; nothing was changed, free some space and try again",
        ),
        Some(Errno::EXIST) => (
            ExecutionFailed,
            ErrorReason::StaleFile,
            "; another program created it in this moment, read it first",
        ),
        Some(Errno::FBIG) => (ExecutionFailed, ErrorReason::TooLarge, "; nothing was changed"),
        Some(Errno::ISDIR) => (InvalidInput, ErrorReason::IsDirectory, "; name a file"),
        Some(Errno::NOTDIR) => {
            (InvalidInput, ErrorReason::NotDirectory, "; part of the path is a file")
        }
        Some(Errno::LOOP) => {
            (InvalidInput, ErrorReason::BadPath, "; a link is where none was before, try again")
        }
        Some(Errno::NAMETOOLONG) => (InvalidInput, ErrorReason::BadPath, ""),
        Some(Errno::INVAL) if kind == io::ErrorKind::InvalidFilename => {
            (InvalidInput, ErrorReason::BadPath, "")
        }
        Some(Errno::INTR | Errno::AGAIN | Errno::BUSY | Errno::STALE | Errno::TXTBSY) => {
            (ExecutionFailed, ErrorReason::Transient, "; try again")
        }
        Some(Errno::MFILE | Errno::NFILE | Errno::NOMEM) => (
            ExecutionFailed,
            ErrorReason::ResourceExhausted,
            "; try again with fewer calls at once",
        ),
        _ => (ExecutionFailed, ErrorReason::Io, ""),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(errno: Errno, error_type: ErrorType, reason: ErrorReason) {
        let error = from_errno("write", "a", errno);
        assert_eq!((error.error_type, error.reason()), (error_type, Some(reason)), "{error}");
    }

    #[test]
    fn each_errno_maps_to_error_type_and_reason() {
        check(Errno::NOENT, ErrorType::NotFound, ErrorReason::Io);
        check(Errno::ACCESS, ErrorType::PermissionDenied, ErrorReason::AccessDenied);
        check(Errno::NOSPC, ErrorType::ExecutionFailed, ErrorReason::DiskFull);
        check(Errno::ROFS, ErrorType::ExecutionFailed, ErrorReason::ReadOnly);
        check(Errno::INTR, ErrorType::ExecutionFailed, ErrorReason::Transient);
        let error = from_errno("write", "a", Errno::NOSPC);
        assert_eq!(error.details["errno"], "ENOSPC");
        assert_eq!(
            error.message,
            "could not write `a`: no space left on device; nothing was changed, free some space and try again"
        );
    }
}
