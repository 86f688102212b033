//! The hash by which contents are compared.

use sha2::{Digest, Sha256};

/// Returns the SHA-256 hash in lower-case hexadecimal.
pub fn sha256(bytes: &[u8]) -> String {
    let digit = |half: u8| char::from_digit(u32::from(half), 16).unwrap_or('0');
    // Every audit row needs this, so it allocates one string and not one per byte.
    Sha256::digest(bytes).iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}
