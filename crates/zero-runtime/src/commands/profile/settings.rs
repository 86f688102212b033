//! Files of a workspace that decide what runs later: the judge's own list, looked up in each folder
//! of the workspace.

use std::path::{Path, PathBuf};

use zero_policy::protected;
use zero_sandbox::kept::{self, Standing};
use zero_sandbox::survey;

use crate::commands::watch::Watched;
use crate::policy::Policy;

/// zero's settings of a project: the one name for which an empty folder stands in where it does not
/// exist, since they say who may do what.
const OWN: &str = ".zero";
/// What a person's own setting is called in the list of what is protected.
const CONFIGURED: &str = "protected by a setting";

/// What is protected, by how.
#[derive(Debug, Default)]
pub(super) struct Protected {
    /// The kernel keeps it as it is.
    pub(super) held: Vec<PathBuf>,
    /// It is looked at afterwards.
    pub(super) watched: Vec<Watched>,
    /// What is held, as it would be watched if another command had made it.
    pub(super) held_names: Vec<Watched>,
}

/// Looks all of it up. What a rule lets commands change is left out.
pub(super) fn look(roots: &[PathBuf], configured: &[PathBuf], policy: &dyn Policy) -> Protected {
    let mut found = Protected::default();
    for root in roots {
        found.held.push(root.join(OWN));
        for name in protected::settings_names().filter(|name| name.name != OWN) {
            if !policy.may_change(&root.join(name.name)) {
                found.add(root, Path::new(name.name), name.why, roots);
            }
        }
        for path in configured {
            if let Ok(relative) = path.strip_prefix(root) {
                found.add(root, relative, CONFIGURED, roots);
            }
        }
    }
    found
}

impl Protected {
    fn watch_target(&mut self, real: &Path, roots: &[PathBuf], why: &'static str) {
        let inside = roots.iter().find_map(|root| Some((root, real.strip_prefix(root).ok()?)));
        if let Some((root, relative)) = inside {
            let (root, relative) = (root.to_owned(), relative.to_owned());
            self.watched.push(Watched { root, relative, why, before: Standing::Missing });
        }
    }

    fn add(&mut self, root: &Path, relative: &Path, why: &'static str, roots: &[PathBuf]) {
        let before = kept::look(root, relative);
        match &before {
            Standing::There => {
                self.held.push(root.join(relative));
                let (root, relative) = (root.to_owned(), relative.to_owned());
                let before = Standing::Missing;
                return self.held_names.push(Watched { root, relative, why, before });
            }
            // What it leads to is held; a link itself cannot be.
            Standing::Link { .. } => {
                let real = survey::canonical(&root.join(relative));
                match real {
                    Some(real) if survey::exists(&real) => self.held.push(real),
                    // It leads nowhere yet; what would come to be there must not.
                    Some(real) => self.watch_target(&real, roots, why),
                    None => {}
                }
            }
            Standing::Missing => {}
        }
        let (root, relative) = (root.to_owned(), relative.to_owned());
        self.watched.push(Watched { root, relative, why, before });
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::disallowed_methods, reason = "tests set up real files")]
    use super::*;
    use crate::policy::RiskPolicy;

    #[test]
    fn what_exists_is_held_and_what_does_not_is_watched() {
        let temp = tempfile::tempdir().unwrap();
        let root = temp.path().canonicalize().unwrap();
        for folder in [".vscode", ".github", "shared/idea"] {
            std::fs::create_dir_all(root.join(folder)).unwrap();
        }
        std::os::unix::fs::symlink("shared/idea", root.join(".idea")).unwrap();
        std::os::unix::fs::symlink("shared/none", root.join(".fleet")).unwrap();
        std::fs::write(root.join("mine"), "").unwrap();
        let configured = [root.join("mine"), root.join("theirs"), "/elsewhere".into()];
        let found = look(std::slice::from_ref(&root), &configured, &RiskPolicy);
        let names = [".zero", ".vscode", "shared/idea", "mine"];
        assert_eq!(found.held, names.map(|name| root.join(name)));
        let watched = |name: &str| found.watched.iter().any(|w| w.relative == Path::new(name));
        for name in [
            ".github/workflows",
            ".npmrc",
            ".idea",
            "theirs",
            "Jenkinsfile",
            ".fleet",
            "shared/none",
        ] {
            assert!(watched(name), "{name}");
        }
        assert!(!watched(".zero") && !watched(".vscode") && !watched("mine"));
    }
}
