//! `zero mcp`: the tools of zero for whoever speaks MCP.

use std::io::Read;
use std::net::SocketAddr;

use anyhow::Context;
use zero_core::Limits;
use zero_sandbox::ConfigFile;

use super::servers::not_yet;
use crate::App;
use crate::cli::McpServeArgs;
use crate::exit::{Exit, UsageError};

/// Largest file with a token, in bytes.
const TOKEN_FILE_BYTES_MAX: u64 = 4_096;
/// Shortest token, in characters: what can be guessed is none.
const TOKEN_CHARS_MIN: usize = 16;
/// Random bytes of a fresh token.
const TOKEN_BYTES: usize = 32;

pub(super) fn run(app: &App, args: &McpServeArgs) -> anyhow::Result<Exit> {
    let workspace = app.config.workspace(&args.workspace)?;
    let settings = app.settings(&workspace, &args.settings)?;
    let mut limits = Limits::default();
    settings.limits(&mut limits);
    args.set_limits(&mut limits);
    for line in settings.note().into_iter().chain(settings.warning()) {
        app.terminal.note(&line);
    }
    if let Some(address) = args.http {
        check_address(address, args.allow_remote)?;
        let token = token(app, args)?;
        // Who starts it hands it on; the command line of a process is for everybody to read.
        if args.token_file.is_none() {
            app.terminal.note(&format!("HTTP clients send `Authorization: Bearer {token}`"));
        }
    }
    Err(not_yet(""))
}

/// Other machines reach it only when somebody said so.
fn check_address(address: SocketAddr, allow_remote: bool) -> Result<(), UsageError> {
    if allow_remote || address.ip().is_loopback() {
        return Ok(());
    }
    Err(UsageError(format!(
        "`{address}` can be reached from other machines; use 127.0.0.1, or say so with `--allow-remote`"
    )))
}

/// The token that clients must send.
fn token(app: &App, args: &McpServeArgs) -> anyhow::Result<String> {
    let Some(file) = &args.token_file else { return fresh_token() };
    let path = app.config.cwd()?.join(file);
    let shown = path.display();
    let bytes = ConfigFile::Own(path.clone())
        .read(TOKEN_FILE_BYTES_MAX)
        .map_err(|error| UsageError(format!("the token in `{shown}` could not be read: {error}")))?
        .ok_or_else(|| UsageError(format!("`{shown}` does not exist; put a token there")))?;
    checked_token(&String::from_utf8_lossy(&bytes))
        .map_err(|what| UsageError(format!("`{shown}` {what}")).into())
}

fn checked_token(text: &str) -> Result<String, String> {
    let token = text.trim();
    let is_plain = |c: char| c.is_ascii_graphic();
    if token.chars().count() < TOKEN_CHARS_MIN || !token.chars().all(is_plain) {
        return Err(format!(
            "holds no token; write at least {TOKEN_CHARS_MIN} letters and digits on one line"
        ));
    }
    Ok(token.to_owned())
}

/// A token that nobody can guess.
#[expect(clippy::disallowed_methods, reason = "the kernel's random bytes are no file of anybody's")]
fn fresh_token() -> anyhow::Result<String> {
    let mut bytes = [0_u8; TOKEN_BYTES];
    std::fs::File::open("/dev/urandom")
        .and_then(|mut random| random.read_exact(&mut bytes))
        .context("could not make a token; give one with `--token-file`")?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_machines_are_let_in_on_purpose_only() {
        for (address, allow_remote, fits) in [
            ("127.0.0.1:0", false, true),
            ("[::1]:80", false, true),
            ("0.0.0.0:80", false, false),
            ("192.168.0.1:80", false, false),
            ("0.0.0.0:80", true, true),
        ] {
            let address = address.parse().unwrap();
            assert_eq!(check_address(address, allow_remote).is_ok(), fits, "{address}");
        }
    }

    #[test]
    fn a_token_cannot_be_guessed() {
        let [one, other] = [fresh_token().unwrap(), fresh_token().unwrap()];
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
            assert_eq!(checked_token(text).is_ok(), fits, "{text:?}");
        }
    }
}
