//! The files of a workspace that contain secrets, by their names.
//!
//! Programs need these files, so the sandbox does not hide them. The model needs none of the values:
//! zero asks before a tool reads such a file, and replaces the values in everything that tools return.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::hash::{Hash, Hasher};
use std::path::Path;

use crate::rule::NameGlob;
use crate::word_list::words;

/// Files with secrets.
const STANDARD_NAMES: &[&str] = words!(
    ".env .env.* .env-* .env_* .env~ *.env env.prod env.production env.local env.dev \
     env.development env.staging env.live env.secret env.secrets .envrc .envrc.* .flaskenv .dev.vars .secret .secrets *.pem *.key *.p12 *.pfx \
     *.jks *.keystore *.ppk id_rsa* id_dsa* id_ecdsa* id_ed25519* .npmrc .yarnrc.yml .netrc _netrc \
     .pypirc .pgpass .my.cnf .git-credentials .htpasswd .dockercfg .docker/config.json \
     .vault-token .vault_pass .vault_pass.* kubeconfig kubeconfig.* *.kubeconfig .kube/config \
     .s3cfg .boto rclone.conf .dbt/profiles.yml .databrickscfg .sentryclirc .bundle/config .mcp.json \
     local.settings.json keystore.properties auth.json token.json tokens.json deploy_key* credentials credentials.json credentials.yml credentials.yaml credentials.toml \
     secrets.json secrets.yml secrets.yaml secrets.toml secret.json secret.yml secret.yaml \
     service-account*.json service_account*.json client_secret*.json *-firebase-adminsdk-*.json secrets.*.json \
     secrets.*.yml secrets.*.yaml secrets.*.toml *.tfvars *.tfvars.json *.tfstate *.tfstate.backup"
);

/// Files with such a name that are meant to be shared.
const STANDARD_EXCEPTIONS: &[&str] = words!(
    "*.example *.sample *.template *.tmpl *.dist *.example.* *.sample.* *.template.* *-example \
     *-sample *.pub"
);

/// The names of files that contain secrets. Empty by default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SecretFileSet {
    names: Vec<NamePattern>,
    exceptions: Vec<NamePattern>,
    index: SecretNameIndex,
}

/// One or more components at the end of a path.
#[derive(Clone, Debug, Hash, PartialEq, Eq)]
struct NamePattern(Vec<NameGlob>);

/// Positions of patterns by what a name has to begin or end with, because a search of a workspace asks
/// about every file in it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct SecretNameIndex {
    by_last_letter: HashMap<char, Vec<usize>>,
    by_first_letter: HashMap<char, Vec<usize>>,
    others: Vec<usize>,
}

impl SecretFileSet {
    /// The usual names.
    pub fn standard() -> Self {
        let mut set = Self::default();
        STANDARD_NAMES.iter().for_each(|name| set.add(name));
        STANDARD_EXCEPTIONS.iter().for_each(|name| set.add_exception(name));
        set
    }

    /// Checks a pattern such as `*.secret` or `config/prod.yml`; the error says what is wrong.
    pub fn check_pattern(pattern: &str) -> Result<(), &'static str> {
        NamePattern::parse(pattern).map(drop)
    }

    /// Adds the files with a name. One that [`SecretFileSet::check_pattern`] refuses matches nothing.
    pub fn add(&mut self, pattern: &str) {
        let Ok(pattern) = NamePattern::parse(pattern) else { return };
        self.index.add(self.names.len(), pattern.0.first());
        self.names.push(pattern);
    }

    /// Adds files that contain no secrets although they have such a name.
    pub fn add_exception(&mut self, pattern: &str) {
        self.exceptions.extend(NamePattern::parse(pattern).ok());
    }

    /// Whether it matches nothing.
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// Whether the file with a name in a folder contains secrets.
    pub fn contains_entry(&self, folder: &Path, name: &OsStr) -> bool {
        self.has_name(name) && self.contains(&folder.join(name))
    }

    /// Whether the file at a path contains secrets.
    pub fn contains(&self, path: &Path) -> bool {
        // Nearly every path is that of an ordinary file.
        if !path.iter().next_back().is_some_and(|name| self.has_name(name)) {
            return false;
        }
        let names: Vec<String> =
            path.iter().rev().map(|name| name.to_string_lossy().to_lowercase()).collect();
        let has = |patterns: &[NamePattern]| patterns.iter().any(|pattern| pattern.matches(&names));
        has(&self.names) && !has(&self.exceptions)
    }

    /// Whether a pattern ends with this name.
    fn has_name(&self, name: &OsStr) -> bool {
        let name = name.to_string_lossy().to_lowercase();
        let mut patterns = self.index.candidates(&name).filter_map(|at| self.names.get(at));
        patterns.any(|pattern| pattern.ends_with(&name))
    }
}

impl Hash for SecretFileSet {
    /// The patterns say everything: the index follows from them.
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.names.hash(state);
        self.exceptions.hash(state);
    }
}

impl SecretNameIndex {
    fn add(&mut self, position: usize, glob: Option<&NameGlob>) {
        let last = glob.and_then(NameGlob::last_letter);
        let first = glob.and_then(NameGlob::first_letter);
        let positions = match (last, first) {
            (Some(last), _) => self.by_last_letter.entry(last).or_default(),
            (None, Some(first)) => self.by_first_letter.entry(first).or_default(),
            (None, None) => &mut self.others,
        };
        positions.push(position);
    }

    /// The positions of all patterns that may match a name.
    fn candidates(&self, name: &str) -> impl Iterator<Item = usize> {
        let last = name.chars().next_back().and_then(|letter| self.by_last_letter.get(&letter));
        let first = name.chars().next().and_then(|letter| self.by_first_letter.get(&letter));
        last.into_iter().chain(first).chain([&self.others]).flatten().copied()
    }
}

impl NamePattern {
    fn parse(pattern: &str) -> Result<Self, &'static str> {
        let parts = pattern.trim_start_matches("**/").split('/');
        let globs = parts.rev().map(|part| match part {
            "" | "." | ".." | "*" | "**" => Err("a part of it is not a name"),
            part => NameGlob::parse(&part.to_lowercase()),
        });
        globs.collect::<Result<_, _>>().map(Self)
    }

    /// Whether it matches the last name of a path.
    fn ends_with(&self, name: &str) -> bool {
        self.0.first().is_some_and(|glob| glob.matches(name))
    }

    /// Whether the last names of a path match; the names are in reverse order.
    fn matches(&self, names: &[String]) -> bool {
        self.0.len() <= names.len()
            && self.0.iter().zip(names).all(|(glob, name)| glob.matches(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn standard_names_are_recognized() {
        let set = SecretFileSet::standard();
        for path in [
            "/w/.env",
            "/w/.ENV",
            "/w/a/.env.local",
            "/w/.env.production",
            "/w/prod.env",
            "/w/key.pem",
            "/w/id_rsa",
            "/w/deploy/id_ed25519_ci",
            "/w/.npmrc",
            "/w/.netrc",
            "/w/.pypirc",
            "/w/credentials.json",
            "/w/config/secrets.yml",
            "/w/secrets.yaml",
            "/w/.docker/config.json",
            "/w/service-account-prod.json",
            "/w/config/master.key",
            "/w/prod.tfvars",
            "/w/prod.auto.tfvars.json",
            "/w/terraform.tfstate",
            "/w/.env~",
            "/w/.env_prod",
            "/w/env.prod",
            "/w/.secret",
            "/w/.vault_pass",
            "/w/kubeconfig",
            "/w/.kube/config",
            "/w/app-firebase-adminsdk-x1-2.json",
            "/w/auth.json",
            "/w/token.json",
            "/w/.s3cfg",
            "/w/rclone.conf",
            "/w/.dbt/profiles.yml",
            "/w/.bundle/config",
            "/w/secrets.prod.yaml",
            "/w/local.settings.json",
            "/w/keystore.properties",
            "/w/.mcp.json",
            "/w/deploy_key_ci",
        ] {
            assert!(set.contains(Path::new(path)), "{path}");
        }
        for path in [
            "/w/.env.example",
            "/w/.env.sample",
            "/w/.env.local.example",
            "/w/.env.template",
            "/w/env",
            "/w/src/environment.rs",
            "/w/id_rsa.pub",
            "/w/src/id_map.rs",
            "/w/config.json",
            "/w/package.json",
            "/w/secrets.rs",
            "/w/credentials.json.example",
            "/w/.env/readme.md",
            "/w/env.ts",
            "/w/env.d.ts",
            "/w/secrets.example.yaml",
            "/w/deploy_key.pub",
            "/w/profiles.yml",
            "/w/src/config",
        ] {
            assert!(!set.contains(Path::new(path)), "{path}");
        }
        assert!(!SecretFileSet::default().contains(Path::new("/w/.env")));
    }

    #[test]
    fn patterns_are_added_and_excepted() {
        let mut set = SecretFileSet::standard();
        set.add("conf/prod*.yml");
        set.add_exception(".env.test");
        assert!(set.contains(Path::new("/w/conf/prod-eu.yml")));
        assert!(!set.contains(Path::new("/w/other/prod-eu.yml")));
        assert!(!set.contains(Path::new("/w/.env.test")));
        for wrong in ["", "*", "a/", "..", "[a", "**"] {
            assert!(SecretFileSet::check_pattern(wrong).is_err(), "{wrong}");
        }
        assert!(SecretFileSet::check_pattern("**/vault.txt").is_ok());
    }
}
