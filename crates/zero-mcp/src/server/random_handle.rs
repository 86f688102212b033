//! Names that nobody can guess.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

/// Bytes of chance in a handle.
const HANDLE_BYTES: usize = 32;

/// A handle that nobody can guess; none when the system gives no chance, which is no reason to
/// hand out one that can be.
pub(super) fn new_handle() -> Option<String> {
    let mut bytes = [0; HANDLE_BYTES];
    let random = rustls::crypto::ring::default_provider().secure_random;
    random.fill(&mut bytes).ok()?;
    Some(URL_SAFE_NO_PAD.encode(bytes))
}
