//! What holds secrets on this machine: the judge's own list, looked up.

use std::path::{Path, PathBuf};

use zero_policy::protected;
use zero_sandbox::survey;

/// zero's own settings, which hold the keys of providers.
const OWN: &str = ".config/zero";
/// Entries of the list that belong to the system rather than to a person.
const SYSTEM: &str = "etc/";

/// Those that exist.
pub(super) fn of(home: Option<&Path>) -> Vec<PathBuf> {
    let names = protected::secret_names().map(|secret| secret.name).chain([OWN]);
    let places = names.filter_map(|name| match name.starts_with(SYSTEM) {
        true => Some(Path::new("/").join(name)),
        false => home.map(|home| home.join(name)),
    });
    places.filter(|path| survey::exists(path)).collect()
}

#[cfg(test)]
mod tests {
    #![expect(clippy::disallowed_methods, reason = "tests set up real files")]
    use super::*;

    #[test]
    fn every_secret_of_the_list_is_found_where_it_lies() {
        let temp = tempfile::tempdir().unwrap();
        let home = temp.path();
        let names =
            [".ssh", ".config/BraveSoftware", ".npmrc", ".config/zero", ".cargo/credentials"];
        for name in names {
            std::fs::create_dir_all(home.join(name)).unwrap();
            assert!(of(Some(home)).contains(&home.join(name)), "{name}");
        }
        assert!(!of(Some(home)).contains(&home.join(".aws")), "it does not exist");
        let shadow = Path::new("/etc/shadow");
        assert_eq!(of(None).iter().any(|path| path == shadow), shadow.exists());
    }
}
