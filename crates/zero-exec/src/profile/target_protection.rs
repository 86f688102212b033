//! The facts that policy has about files whose names are not protected: those of the sandbox's
//! scan.

use std::path::{Path, PathBuf};

use zero_policy::TargetProtection;

use super::folder_scanner::{FolderScanner, WritableRoots};
use super::link_targets::{LinkQuery, LinkTargets};
use super::protection_limit::ProtectionLimit;
use super::protection_scan::ProtectionScan;
use crate::command_policy::StrictestPolicy;

/// The files of a workspace that something protected leads to.
pub(crate) struct ProtectedTargets {
    scope: WritableRoots,
    /// The files and folders, each with the reason as a clause.
    targets: Vec<(PathBuf, String)>,
    /// Whether folders were left out because there are too many.
    is_partial: bool,
    limit: Option<ProtectionLimit>,
}

impl ProtectedTargets {
    /// Scans a workspace.
    pub(crate) fn find(scanner: &FolderScanner, scope: WritableRoots) -> Self {
        let mut found = Self { scope, targets: Vec::new(), is_partial: false, limit: None };
        match ProtectionScan::run(scanner, &found.scope, &[], &StrictestPolicy) {
            Err(limit) => found.limit = Some(limit),
            Ok(scan) => {
                found.is_partial = scan.found.overlooked_count > 0;
                let named = scan.git.named.iter();
                found.targets =
                    named.map(|(path, why)| (path.clone(), format!("it is {why}"))).collect();
                let links = scan.settings.link_targets.iter();
                found.targets.extend(links.map(|(path, from)| (path.clone(), link_reason(from))));
                found.add_targets(&scan.linked);
                found.add_targets(&scan.home);
            }
        }
        found
    }

    fn add_targets(&mut self, linked: &LinkTargets) {
        self.targets.extend(linked.sources.iter().map(|(path, (from, why))| {
            let reason = match from == path {
                true => format!("it is {why}"),
                false => link_reason(from),
            };
            (path.clone(), reason)
        }));
    }

    /// Whether something protected leads to a file, or to one in a folder.
    pub(crate) fn check(&self, scanner: &FolderScanner, canonical: &Path) -> TargetProtection {
        if let Some(limit) = &self.limit {
            return TargetProtection::Unknown(limit.reason.clone());
        }
        if let Some(why) = find_reason(&self.targets, canonical) {
            return TargetProtection::Protected(why);
        }
        match self.is_partial {
            true => self.check_above(scanner, canonical),
            false => TargetProtection::Unprotected,
        }
    }

    /// Checks the settings in the folders above a file, which a scan of too many folders may have left
    /// out. Settings elsewhere in such a workspace are not known to the sandbox either.
    fn check_above(&self, scanner: &FolderScanner, canonical: &Path) -> TargetProtection {
        let WritableRoots { roots, .. } = &self.scope;
        let Some(base) = roots.iter().find(|root| canonical.starts_with(root)) else {
            return TargetProtection::Unprotected;
        };
        let found = scanner.scan_above(canonical, base);
        if let Some(folder) = found.overlooked.first() {
            return TargetProtection::Unknown(format!(
                "`{}` has too many files to look for links that lead to it, or cannot be listed",
                folder.display()
            ));
        }
        let linked = scanner.find_link_targets(LinkQuery {
            protected: Vec::new(),
            named: found.settings.iter().map(|setting| (setting.path(), setting.why)).collect(),
            bases: roots.clone(),
            open: Default::default(),
        });
        let mut above = Self {
            scope: WritableRoots::default(),
            targets: Vec::new(),
            is_partial: false,
            limit: None,
        };
        match linked {
            Err(limit) => return TargetProtection::Unknown(limit.reason),
            Ok(linked) => above.add_targets(&linked),
        }
        match find_reason(&above.targets, canonical) {
            Some(why) => TargetProtection::Protected(why),
            None => TargetProtection::Unprotected,
        }
    }
}

fn link_reason(from: &Path) -> String {
    format!("`{}` leads to it, which decides what runs later", from.display())
}

/// The reason of a target that a path is, is in or contains: a folder cannot be replaced without its
/// contents.
fn find_reason(targets: &[(PathBuf, String)], canonical: &Path) -> Option<String> {
    let is_target = |target: &Path| canonical.starts_with(target) || target.starts_with(canonical);
    let found = targets.iter().find(|(target, _)| is_target(target));
    found.map(|(_, why)| why.clone())
}

#[cfg(test)]
mod tests;
