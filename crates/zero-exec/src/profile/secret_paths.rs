//! The paths with secrets on this machine: the policy's list, looked up where the user's programs
//! look.
//!
//! That is the home folder, both the one in the environment and the one in the user database, which
//! ssh for example uses; and every place to which a variable moves a program's secrets.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use zero_policy::protected_paths::{self, CredentialLocation, CredentialScope};
use zero_sandbox::quarantine::EntryKind;
use zero_sandbox::{FileType, path_survey};

use super::existing_entries::ExistingEntries;
use super::home_folders::HomeFolders;
use super::protected_settings::ProtectedSettings;
use crate::command_settings::CommandSettings;
use crate::tree_watch::WatchedPath;

/// zero's own folders if no variable moves them, as may be the case later.
const ZERO_FOLDERS: &[&str] = &[".config/zero", ".local/state/zero"];
/// The description of a path that only a variable names.
const NAMED_BY_VARIABLE: &str = "credentials, named by a variable";

/// The paths that hold secrets, or would if they existed.
#[derive(Debug, Default)]
pub(crate) struct SecretPaths {
    /// Whether the user's home folder could be determined.
    pub(super) is_whole: bool,
    /// zero's own folders: commands may not read, change or create them.
    pub(super) own: Vec<PathBuf>,
    /// The other paths, keyed by their bytes, with their description.
    places: BTreeMap<OsString, &'static str>,
    /// The home folders.
    homes: Vec<PathBuf>,
    /// What commands see of them.
    pub(crate) home_folders: HomeFolders,
}

impl SecretPaths {
    /// The secret paths of the user who runs commands in a workspace whose first folder is `root`.
    pub(super) fn find(settings: &CommandSettings, root: &Path) -> Self {
        let known = path_survey::find_user_home();
        let is_whole = known.is_some();
        let mut homes: Vec<PathBuf> = settings.home.clone().into_iter().chain(known).collect();
        homes.dedup();
        Self { is_whole, ..Self::find_in_homes(settings, root, &homes) }
    }

    fn find_in_homes(settings: &CommandSettings, root: &Path, homes: &[PathBuf]) -> Self {
        let home_folders = HomeFolders::find(settings, homes, root);
        let (own, homes) = (settings.own.clone(), homes.to_vec());
        let mut secrets = Self { own, homes, home_folders, ..Self::default() };
        let value = |name: &str| {
            let (_, value) = settings.environment.iter().find(|(n, _)| n == name)?;
            Some(value.as_str()).filter(|value| !value.is_empty())
        };
        let homes = secrets.homes.clone();
        secrets
            .own
            .extend(homes.iter().flat_map(|home| ZERO_FOLDERS.iter().map(|name| home.join(name))));
        for row in protected_paths::credential_paths() {
            match row.scope {
                CredentialScope::System | CredentialScope::AnyRoot => {
                    secrets.add(Path::new("/").join(row.path), row.why);
                }
                CredentialScope::Anywhere | CredentialScope::Home => {
                    for home in &homes {
                        secrets.add(home.join(row.path), row.why);
                    }
                }
            }
        }
        for variable in protected_paths::credential_variables() {
            let Some(value) = value(variable.name) else { continue };
            match variable.value {
                CredentialLocation::FolderInsteadOf(folder) => {
                    for row in protected_paths::credential_paths() {
                        if let Ok(rest) = Path::new(row.path).strip_prefix(folder) {
                            secrets.add(root.join(value).join(rest), row.why);
                        }
                    }
                }
                CredentialLocation::Path => secrets.add(root.join(value), NAMED_BY_VARIABLE),
                CredentialLocation::PathList => {
                    for path in value.split(':').filter(|path| !path.is_empty()) {
                        secrets.add(root.join(path), NAMED_BY_VARIABLE);
                    }
                }
            }
        }
        secrets
    }

    fn add(&mut self, path: PathBuf, why: &'static str) {
        // A variable that names the root folder is ignored.
        if path.parent().is_some() {
            self.places.entry(path.into()).or_insert(why);
        }
    }

    /// The paths to hide. Missing ones are included and need no mount.
    pub(super) fn masked_paths(&self) -> impl Iterator<Item = PathBuf> {
        let mut entries = ExistingEntries::default();
        let mut may_exist = move |path: &&Path| {
            let home = self.homes.iter().find(|home| path.starts_with(home));
            home.is_none_or(|home| entries.may_exist(home, path))
        };
        let places = self.places.keys().map(Path::new);
        let all = self.own.iter().map(PathBuf::as_path).chain(places);
        all.filter(move |path| may_exist(path) && has_content(path)).map(Path::to_owned)
    }

    /// Adds the secret paths that commands could create in writable folders. They are quarantined
    /// afterwards, because the user's programs would take them for the user's own. Existing ones
    /// are added as they would be watched if another command had created them.
    pub(super) fn add_watched_paths(
        &self,
        writable: &[PathBuf],
        protected: &mut ProtectedSettings,
    ) {
        let inside = |(path, why): (&OsString, &&'static str)| {
            let path = Path::new(path);
            let (root, relative) =
                writable.iter().find_map(|root| Some((root, path.strip_prefix(root).ok()?)))?;
            let is_root = relative.as_os_str().is_empty();
            (!is_root).then(|| WatchedPath::new(root, relative, why))
        };
        let inside: Vec<WatchedPath> = self.places.iter().filter_map(inside).collect();
        if inside.is_empty() {
            return;
        }
        let known = protected.watched.iter().chain(&protected.held_names);
        let known: BTreeSet<PathBuf> = known.map(|watched| watched.path().to_owned()).collect();
        for watched in inside.into_iter().filter(|watched| !known.contains(watched.path())) {
            match watched.inspect() {
                EntryKind::Present => protected.held_names.push(watched),
                before => protected.watched.push(watched.with_previous(before)),
            }
        }
    }
}

/// Whether there is anything to hide. `/dev/null` in place of a file means that there is none, and
/// an empty folder may be the placeholder of a running command.
fn has_content(path: &Path) -> bool {
    let is_empty = || path_survey::list_sorted(path, 1).is_some_and(|names| names.is_empty());
    match path_survey::file_type(path) {
        Some(FileType::Special) => false,
        Some(FileType::Directory) => !is_empty(),
        _ => path_survey::check_reachability(path) != path_survey::PathReachability::Missing,
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::disallowed_methods, reason = "tests set up real files")]
    use super::*;

    fn find_secrets(home: Option<&Path>, variables: &[(&str, &str)]) -> SecretPaths {
        let environment = variables.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned()));
        let settings =
            CommandSettings { environment: environment.collect(), ..CommandSettings::default() };
        let homes: Vec<PathBuf> = home.map(Path::to_owned).into_iter().collect();
        SecretPaths::find_in_homes(&settings, Path::new("/work"), &homes)
    }

    #[test]
    fn every_listed_secret_is_masked() {
        let temp = tempfile::tempdir().unwrap();
        let home = temp.path();
        let names = [".ssh", ".config/BraveSoftware", ".config/zero", ".aws"];
        for name in names {
            std::fs::create_dir_all(home.join(name).join("something")).unwrap();
        }
        std::fs::write(home.join(".npmrc"), "").unwrap();
        // Nothing to hide, and perhaps only the placeholder of a running command.
        std::fs::create_dir(home.join(".gnupg")).unwrap();
        let masked: Vec<PathBuf> = find_secrets(Some(home), &[]).masked_paths().collect();
        for name in names.into_iter().chain([".npmrc"]) {
            assert!(masked.contains(&home.join(name)), "{name}");
        }
        assert!(!masked.contains(&home.join(".gnupg")) && !masked.contains(&home.join(".kube")));
        assert!(masked.contains(&"/etc/shadow".into()));
    }

    #[test]
    fn paths_named_by_variables_are_masked() {
        #[track_caller]
        fn check(variable: &str, value: &str, expected: &[&str]) {
            for home in [None, Some(Path::new("/home/me"))] {
                let secrets = find_secrets(home, &[(variable, value)]);
                for path in expected.iter().map(Path::new) {
                    let is_known = secrets.places.contains_key(path.as_os_str());
                    assert!(is_known, "{variable}: {}", path.display());
                }
            }
        }
        check("XDG_CONFIG_HOME", "/x", &["/x/gh", "/x/gcloud", "/x/git/credentials"]);
        check("XDG_DATA_HOME", "/x", &["/x/keyrings"]);
        check("CARGO_HOME", "/x", &["/x/credentials", "/x/credentials.toml"]);
        check("DOCKER_CONFIG", "/x", &["/x/config.json"]);
        check("GNUPGHOME", "/x", &["/x"]);
        check("KUBECONFIG", "/x::relative", &["/x", "/work/relative"]);
        for variable in protected_paths::credential_variables() {
            if variable.value == CredentialLocation::Path {
                check(variable.name, "/x/y", &["/x/y"]);
            }
        }
        let none = find_secrets(None, &[]).masked_paths().count();
        for (variable, value) in [("NETRC", ""), ("NETRC", "/dev/null"), ("GNUPGHOME", "/")] {
            assert_eq!(
                find_secrets(None, &[(variable, value)]).masked_paths().count(),
                none,
                "{value}"
            );
        }
        let is_masked = |path: &str| {
            let found = find_secrets(None, &[("NETRC", path)]);
            found.masked_paths().any(|masked| masked == Path::new(path))
        };
        assert!(is_masked("/etc/passwd") && !is_masked("/x/none"));
    }

    #[test]
    fn missing_secrets_are_watched_where_creatable() {
        let temp = tempfile::tempdir().unwrap();
        let home = temp.path().canonicalize().unwrap();
        std::fs::create_dir_all(home.join(".config/gh")).unwrap();
        let secrets = find_secrets(Some(&home), &[]);
        #[track_caller]
        fn check(found: &[WatchedPath], name: &str, expected: bool) {
            let is_found = found.iter().any(|watched| watched.path().ends_with(name));
            assert_eq!(is_found, expected, "{name}");
        }
        let mut found = ProtectedSettings::default();
        secrets.add_watched_paths(std::slice::from_ref(&home), &mut found);
        check(&found.watched, ".aws", true);
        check(&found.watched, ".config/op", true);
        check(&found.watched, ".config/gh", false);
        check(&found.held_names, ".config/gh", true);
        let once = found.watched.len();
        secrets.add_watched_paths(std::slice::from_ref(&home), &mut found);
        assert_eq!(found.watched.len(), once, "nothing is watched twice");
        let mut found = ProtectedSettings::default();
        secrets.add_watched_paths(&[home.join(".config")], &mut found);
        check(&found.watched, "op", true);
        check(&found.watched, ".aws", false);
    }
}
