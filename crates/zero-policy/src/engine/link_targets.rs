//! Where the protected names of a folder lead.

use std::path::PathBuf;

/// Where the protected names of one folder lead.
#[derive(Debug, Default)]
pub(super) struct ProtectedLinks {
    pub(super) links: Vec<ProtectedLink>,
    /// Whether a bound was reached, so that a link may be missing.
    pub(super) incomplete: bool,
}

/// A protected name that is a link, or is reached through one.
#[derive(Debug)]
pub(super) struct ProtectedLink {
    pub(super) name: PathBuf,
    pub(super) target: PathBuf,
    pub(super) why: &'static str,
}
