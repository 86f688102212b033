//! Certificates that are trusted besides those of the machine.

use std::sync::Arc;

/// Certificates of authorities that are trusted besides those that the machine trusts, as DER.
/// Clones share them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExtraRootCertificates(Arc<[Vec<u8>]>);

impl ExtraRootCertificates {
    /// These.
    pub fn new(certificates: Vec<Vec<u8>>) -> Self {
        Self(certificates.into())
    }

    /// Each of them.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        self.0.iter().map(Vec::as_slice)
    }
}
