//! [`new_handle`]: random names that cannot be guessed.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

/// Number of random bytes in a handle.
const HANDLE_BYTES: usize = 32;

/// Creates a handle that cannot be guessed; `None` if the system has no random numbers.
pub(super) fn new_handle() -> Option<String> {
    let mut bytes = [0; HANDLE_BYTES];
    let random = rustls::crypto::ring::default_provider().secure_random;
    random.fill(&mut bytes).ok()?;
    Some(URL_SAFE_NO_PAD.encode(bytes))
}
