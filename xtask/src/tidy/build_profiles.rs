//! Each package that the profile `release` sets a level for has one in `dist`, too: `dist` inherits from `release`, and
//! would build the package for a quick compilation instead of for its users.

use super::tidy_finding::TidyFinding;
use crate::repository::RepositoryFile;

const MANIFEST: &str = "Cargo.toml";

pub(super) fn check(files: &[RepositoryFile]) -> Vec<TidyFinding> {
    let Some(manifest) = files.iter().find(|file| file.path == MANIFEST) else { return Vec::new() };
    let in_dist: Vec<&str> = packages_of(&manifest.text, "dist").collect();
    packages_of(&manifest.text, "release")
        .filter(|package| !in_dist.contains(package))
        .map(|package| {
            TidyFinding::new(
                MANIFEST,
                format!("the profile `dist` inherits the level of `{package}` from `release`"),
                "set its level in [profile.dist.package], too",
            )
        })
        .collect()
}

/// The packages whose level a profile sets, as `package.opt-level = 0` in the section of its packages.
fn packages_of<'a>(manifest: &'a str, profile: &str) -> impl Iterator<Item = &'a str> {
    let section = format!("[profile.{profile}.package]");
    manifest
        .lines()
        .skip_while(move |line| *line != section)
        .skip(1)
        .take_while(|line| !line.starts_with('['))
        .filter_map(|line| line.split_once(".opt-level").map(|(package, _)| package))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_of_release_that_dist_lacks_are_found() {
        let text = "[profile.release.package]\n# Why.\na.opt-level = 0\nb.opt-level = 2\n\n\
                    [profile.dist]\nlto = \"fat\"\n\n[profile.dist.package]\nb.opt-level = 3\nc.opt-level = 3\n";
        let manifest = RepositoryFile { path: MANIFEST.to_owned(), text: text.to_owned() };
        let findings: Vec<String> = check(&[manifest]).iter().map(TidyFinding::to_string).collect();
        assert_eq!(
            findings,
            [
                "Cargo.toml: the profile `dist` inherits the level of `a` from `release`; set its level in \
                 [profile.dist.package], too"
            ]
        );
    }
}
