//! The sums of a release, and the signature of the sums.
//!
//! One signature covers every file: it signs the sums, and the sums verify the files. The signed comment names
//! the version, so that the sums of one release cannot be given out as those of another.

use std::io::Cursor;
use std::path::Path;

use anyhow::{Context, Result};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use minisign::{PublicKey, SecretKey, SecretKeyBox};
use sha2::{Digest as _, Sha256};

use super::release_info::{ReleaseFile, ReleaseInfo};

/// The file with the sums, in the format of `sha256sum`.
const SUMS: &str = "SHA256SUMS";
/// Variable with the password of the key, for machines without a terminal to type it on.
const PASSWORD: &str = "MINISIGN_PASSWORD";

/// A minisign key that can sign.
pub(super) struct SigningKey(SecretKey);

impl SigningKey {
    /// Reads a key as `minisign -G` writes it. If it has a password, that is in MINISIGN_PASSWORD, or is asked for.
    pub(super) fn read(path: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(path)
            .with_context(|| format!("could not read the key {}", path.display()))?;
        let not_opened = || format!("could not open the key {}", path.display());
        if let Some(open) = parse_open_key(&text) {
            return Ok(Self(open.with_context(not_opened)?));
        }
        let key = SecretKeyBox::from_string(&text).with_context(not_opened)?;
        let opened = key.into_secret_key(std::env::var(PASSWORD).ok());
        Ok(Self(opened.with_context(not_opened)?))
    }

    /// The key that verifies, as one line of base64.
    pub(super) fn public_key(&self) -> Result<String> {
        Ok(PublicKey::from_secret_key(&self.0)?.to_base64())
    }
}

/// A key without a password, as `minisign -G -W` writes it; `None` if it is none. Such a file has no checksum, which
/// the library asks of every key.
fn parse_open_key(text: &str) -> Option<Result<SecretKey>> {
    /// The algorithm of the signatures, and that no password protects the key.
    const OPEN: &[u8] = b"Ed\0\0";
    let bytes = BASE64_STANDARD.decode(text.lines().nth(1)?.trim()).ok()?;
    bytes.starts_with(OPEN).then(|| Ok(SecretKey::from_bytes(&bytes)?))
}

/// The sums of all files, and their signature if there is a key.
pub(super) fn sums_and_signature(
    files: &[ReleaseFile],
    release: &ReleaseInfo,
    key: Option<&SigningKey>,
) -> Result<Vec<ReleaseFile>> {
    let mut sorted: Vec<&ReleaseFile> = files.iter().collect();
    sorted.sort_by(|a, b| a.name.cmp(&b.name));
    let sums: String =
        sorted.iter().map(|file| format!("{}  {}\n", sha256(&file.content), file.name)).collect();
    let mut made = vec![ReleaseFile::new(SUMS, sums.as_bytes())];
    if let Some(SigningKey(key)) = key {
        let comment = format!("zero {}", release.version);
        let untrusted = "signature of a release of zero";
        let signature = minisign::sign(
            None,
            key,
            Cursor::new(sums.as_bytes()),
            Some(&comment),
            Some(untrusted),
        )?;
        made.push(ReleaseFile::new(format!("{SUMS}.minisig"), signature.into_string()));
    }
    Ok(made)
}

pub(super) fn sha256(content: &[u8]) -> String {
    Sha256::digest(content).iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn key_without_password_signs_what_minisign_verifies() {
        let folder = tempfile::tempdir().unwrap();
        let minisign = |args: &[&str]| {
            let output = Command::new("minisign").args(args).current_dir(folder.path()).output();
            let output = output.unwrap();
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        };
        minisign(&["-G", "-W", "-p", "key.pub", "-s", "key"]);
        let key = SigningKey::read(&folder.path().join("key")).unwrap();
        let public = std::fs::read_to_string(folder.path().join("key.pub")).unwrap();
        assert!(public.contains(&key.public_key().unwrap()), "{public}");
        let release = ReleaseInfo::for_test("1.2.3");
        let files = [ReleaseFile::new("a", "text")];
        for file in sums_and_signature(&files, &release, Some(&key)).unwrap() {
            std::fs::write(folder.path().join(&file.name), &file.content).unwrap();
        }
        minisign(&["-V", "-p", "key.pub", "-m", SUMS]);
    }

    #[test]
    fn invalid_key_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        for text in ["", "a\nb\n", "untrusted comment: x\nRWQAAEIy\n"] {
            let path = folder.path().join("key");
            std::fs::write(&path, text).unwrap();
            assert!(SigningKey::read(&path).is_err(), "{text}");
        }
    }
}
