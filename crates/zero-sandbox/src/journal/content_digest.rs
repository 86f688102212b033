//! The hash by which contents are compared.

use sha2::{Digest, Sha256};
use zero_core::hexadecimal::to_hex;

/// Returns the SHA-256 hash in lower-case hexadecimal.
pub fn sha256(bytes: &[u8]) -> String {
    to_hex(&Sha256::digest(bytes))
}
