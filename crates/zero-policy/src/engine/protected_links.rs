//! Files that a protected name leads to: with `.envrc -> conf/envrc`, a change of `conf/envrc` is a
//! change of `.envrc`. The same for programs that settings of git name.

use std::path::Path;

use super::RequestEvaluator;
use crate::machine::TargetProtection;

impl RequestEvaluator<'_> {
    /// Why a file of the workspace must not be changed without asking, if its name does not say so.
    pub(super) fn find_protected_link(&self, canonical: &Path) -> Option<String> {
        let places = &self.engine.places;
        let home = places.home.as_deref();
        match self.request.machine.target_protection(&places.roots, home, canonical) {
            TargetProtection::Unprotected => None,
            TargetProtection::Protected(why) => Some(why),
            TargetProtection::Unknown(why) => {
                Some(format!("zero cannot tell whether it decides what runs later, because {why}"))
            }
        }
    }
}
