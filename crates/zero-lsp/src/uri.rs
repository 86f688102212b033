//! Conversion between paths and `file:` URIs.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

const SCHEME: &str = "file://";

/// Returns the URI of an absolute path.
pub fn from_path(path: &Path) -> String {
    let mut uri = String::from(SCHEME);
    for byte in path.as_os_str().as_bytes() {
        match byte {
            b'/' | b'-' | b'.' | b'_' | b'~' => uri.push(char::from(*byte)),
            byte if byte.is_ascii_alphanumeric() => uri.push(char::from(*byte)),
            byte => uri.push_str(&format!("%{byte:02X}")),
        }
    }
    uri
}

/// Returns the absolute path of a `file:` URI of this machine, and `None` for any other URI.
pub fn to_path(uri: &str) -> Option<PathBuf> {
    let rest = uri.strip_prefix(SCHEME)?;
    let rest = rest.strip_prefix("localhost").unwrap_or(rest);
    let is_plain = rest.starts_with('/') && !rest.contains(['?', '#']);
    let mut bytes = rest.bytes().filter(|_| is_plain);
    let mut path = Vec::with_capacity(rest.len());
    while let Some(byte) = bytes.next() {
        let byte = match byte {
            b'%' => {
                let mut digit = || char::from(bytes.next()?).to_digit(16);
                u8::try_from(digit()? * 16 + digit()?).ok()?
            }
            byte => byte,
        };
        path.push(byte);
    }
    let is_path = !path.is_empty() && !path.contains(&0);
    is_path.then(|| PathBuf::from(OsString::from_vec(path)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn path_round_trips_through_uri() {
        for path in ["/a/b.rs", "/a b/ü#?%.c", "/x/😀"] {
            assert_eq!(to_path(&from_path(Path::new(path))).as_deref(), Some(Path::new(path)));
        }
        let odd = PathBuf::from(OsString::from_vec(b"/a\xFFb".to_vec()));
        assert_eq!(to_path(&from_path(&odd)), Some(odd));
        assert_eq!(from_path(Path::new("/a b")), "file:///a%20b");
    }

    #[test]
    fn foreign_uri_is_not_a_path() {
        for uri in [
            "",
            "/a",
            "file:",
            "file://",
            "file://host/a",
            "file:relative",
            "jdt://contents/x",
            "untitled:Untitled-1",
            "file:///a%2",
            "file:///a%zz",
            "file:///a%+1",
            "file:///a%00b",
            "file:///a?x",
        ] {
            assert_eq!(to_path(uri), None, "{uri}");
        }
        assert_eq!(to_path("file://localhost/a%3Ab"), Some(PathBuf::from("/a:b")));
    }
}
