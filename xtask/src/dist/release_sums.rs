//! The sums of a release, and the signature of the sums.
//!
//! One signature covers every file: whoever has the sums has verified the files that fit them. The signed comment names
//! the version, so that the sums of one release cannot be given out as those of another.

use std::io::Cursor;
use std::path::Path;

use anyhow::{Context, Result};
use minisign::{PublicKey, SecretKey, SecretKeyBox};
use sha2::{Digest as _, Sha256};

use super::release_info::{ReleaseFile, ReleaseInfo};

/// The file with the sums, in the format of `sha256sum`.
const SUMS: &str = "SHA256SUMS";
/// Variable with the password of the key, for machines where nobody can type it.
const PASSWORD: &str = "MINISIGN_PASSWORD";

/// A minisign key that can sign.
pub(super) struct SigningKey(SecretKey);

impl SigningKey {
    /// Reads a key as `minisign -G` writes it. Its password is in MINISIGN_PASSWORD, or is asked for.
    pub(super) fn read(path: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(path)
            .with_context(|| format!("could not read the key {}", path.display()))?;
        let key = || SecretKeyBox::from_string(&text).context("it is no secret key of minisign");
        let opened = match key()?.into_unencrypted_secret_key() {
            Ok(open) => Ok(open),
            Err(_) => key()?.into_secret_key(std::env::var(PASSWORD).ok()),
        };
        Ok(Self(opened.with_context(|| format!("could not open the key {}", path.display()))?))
    }

    /// The key that verifies, as one line of base64.
    pub(super) fn public_key(&self) -> Result<String> {
        Ok(PublicKey::from_secret_key(&self.0)?.to_base64())
    }
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
