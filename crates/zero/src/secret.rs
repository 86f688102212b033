//! Tokens and passwords: generates them and reads them from files.

use std::io::Read;
use std::os::unix::fs::PermissionsExt as _;

use anyhow::Context;
use zero_sandbox::ConfigFile;

use crate::AppContext;
use crate::exit::UsageError;

/// Largest secret file, in bytes.
pub(crate) const FILE_BYTES_MAX: u64 = 4_096;
/// Shortest accepted secret, in characters; shorter ones could be guessed.
const SECRET_CHARS_MIN: usize = 16;
/// Random bytes in a generated token.
const TOKEN_BYTES: usize = 32;

/// Reads the secret in a file that the user named. `what` is its name in messages, such as `token`.
pub(crate) fn read_file(app: &AppContext, file: &str, what: &str) -> anyhow::Result<String> {
    let (text, shown) = read_text(app, file, what)?;
    check_secret(&text, what).map_err(|wrong| UsageError(format!("`{shown}` {wrong}")).into())
}

/// Reads a file that the user named, and notes if others can read it. Returns its path, too.
fn read_text(app: &AppContext, file: &str, what: &str) -> anyhow::Result<(String, String)> {
    let path = match app.config.resolve_file(file) {
        Some(path) => path,
        None => app.config.cwd()?.join(file),
    };
    let shown = path.display();
    let bytes = ConfigFile::Own(path.clone())
        .read(FILE_BYTES_MAX)
        .map_err(|error| UsageError(format!("could not read the {what} in `{shown}`: {error}")))?
        .ok_or_else(|| UsageError(format!("`{shown}` does not exist; put a {what} there")))?;
    let mode = std::fs::metadata(&path).map_or(0, |file| file.permissions().mode());
    if mode & 0o077 != 0 {
        app.terminal.print_note(&format!(
            "other users can read the {what} in `{shown}`; run `chmod 600` on the file"
        ));
    }
    Ok((String::from_utf8_lossy(&bytes).into_owned(), shown.to_string()))
}

/// Reads a secret of any length, which another system may have issued.
pub(crate) fn read_line(app: &AppContext, file: &str, what: &str) -> anyhow::Result<String> {
    let (text, shown) = read_text(app, file, what)?;
    match text.trim_end_matches(['\r', '\n']) {
        "" => Err(UsageError(format!("`{shown}` is empty; put a {what} there")).into()),
        line => Ok(line.to_owned()),
    }
}

/// Extracts the secret from a text; fails if it is too short or has characters other than ASCII.
pub(crate) fn check_secret(text: &str, what: &str) -> Result<String, String> {
    let secret = text.trim();
    let is_plain = |c: char| c.is_ascii_graphic();
    if secret.chars().count() < SECRET_CHARS_MIN || !secret.chars().all(is_plain) {
        return Err(format!(
            "contains no valid {what}; use at least {SECRET_CHARS_MIN} letters and digits on one line"
        ));
    }
    Ok(secret.to_owned())
}

/// Generates a random token in hexadecimal.
#[expect(clippy::disallowed_methods, reason = "/dev/urandom is not a user file")]
pub(crate) fn generate_token() -> anyhow::Result<String> {
    let mut bytes = [0_u8; TOKEN_BYTES];
    std::fs::File::open("/dev/urandom")
        .and_then(|mut random| random.read_exact(&mut bytes))
        .context("could not generate a token; pass one with `--token-file`")?;
    Ok(zero_core::hexadecimal::to_hex(&bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generated_token_is_unguessable() {
        let [one, other] = [generate_token().unwrap(), generate_token().unwrap()];
        assert_eq!(one.len(), 64);
        assert_ne!(one, other);
        for (text, fits) in [
            ("0123456789abcdef\n", true),
            (one.as_str(), true),
            ("short", false),
            ("", false),
            ("0123456789 abcdefghi", false),
            ("0123456789abcdef\n0123456789abcdef", false),
        ] {
            assert_eq!(check_secret(text, "token").is_ok(), fits, "{text:?}");
        }
    }
}
