//! Certificates to trust in addition to the machine's.

use std::sync::Arc;

/// Root certificates to trust in addition to the machine's, as DER. Clones share them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExtraRootCertificates(Arc<[Vec<u8>]>);

impl ExtraRootCertificates {
    /// Wraps the certificates.
    pub fn new(certificates: Vec<Vec<u8>>) -> Self {
        Self(certificates.into())
    }

    /// The certificates, as DER.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        self.0.iter().map(Vec::as_slice)
    }
}
