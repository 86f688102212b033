//! Globs over the paths below a folder ([`PathGlobSet`]), for Glob and the filters of Grep.
//!
//! A pattern never names the folder to start from (that is `path`) and never includes files that
//! `.gitignore` excludes: it only filters the files that the walk returns.

use std::path::{Path, PathBuf};

use globset::{Candidate, ErrorKind, GlobBuilder, GlobSet, GlobSetBuilder};
use zero_core::{ErrorReason, ToolError};

/// Longest pattern, in bytes.
pub(crate) const PATTERN_BYTES_MAX: usize = 4_096;

/// One or more globs over paths below a folder. A path matches if any of them does.
#[derive(Clone, Debug)]
pub(crate) struct PathGlobSet {
    set: GlobSet,
    /// The normalized patterns.
    texts: Vec<String>,
}

impl PathGlobSet {
    /// Compiles a glob over whole paths: `*.md` matches at the top only, `**/*.md` at any depth.
    pub(crate) fn from_path_glob(text: &str) -> Result<Self, ToolError> {
        Self::compile(vec![normalize(text)?.to_owned()])
    }

    /// Compiles globs over names at any depth, or over whole paths if they contain a slash.
    pub(crate) fn from_name_globs<'a>(
        texts: impl IntoIterator<Item = &'a str>,
    ) -> Result<Self, ToolError> {
        let anywhere =
            |text: &str| if text.contains('/') { text.to_owned() } else { format!("**/{text}") };
        let texts = texts
            .into_iter()
            .map(|text| normalize(text).map(anywhere))
            .collect::<Result<_, _>>()?;
        Self::compile(texts)
    }

    fn compile(texts: Vec<String>) -> Result<Self, ToolError> {
        let mut set = GlobSetBuilder::new();
        for text in &texts {
            let shown = text.strip_prefix("**/").unwrap_or(text);
            let glob = GlobBuilder::new(text).literal_separator(true).build();
            set.add(glob.map_err(|error| bad_glob_error(shown, error.kind()))?);
        }
        let set = set.build().map_err(|error| bad_glob_error(&texts.join(", "), error.kind()))?;
        Ok(Self { set, texts })
    }

    /// Returns whether a path below the folder matches.
    pub(crate) fn is_match(&self, relative: &Path) -> bool {
        self.set.is_match_candidate(&Candidate::new(relative))
    }

    /// Returns whether the pattern names hidden files: one of its components starts with a dot.
    pub(crate) fn matches_hidden(&self) -> bool {
        let hidden = |part: &str| part.strip_prefix('.').is_some_and(|rest| !rest.is_empty());
        self.texts.iter().any(|text| text.split(['/', '{', ',']).any(hidden))
    }

    /// Returns the folder that contains all matches, as far as the pattern names it literally.
    pub(crate) fn common_folder(&self) -> PathBuf {
        let [text] = &self.texts[..] else { return PathBuf::new() };
        let mut folders: Vec<&str> = text.split('/').take_while(|part| !is_glob(part)).collect();
        // A pattern without wildcards ends with the name of a file.
        if folders.len() == text.split('/').count() {
            folders.pop();
        }
        folders.iter().collect()
    }

    /// Returns the largest number of components of a match, if the pattern limits it.
    pub(crate) fn depth_max(&self) -> Option<usize> {
        let depth = |text: &String| {
            let bounded = !text.contains("**") && !text.contains('{');
            bounded.then(|| text.split('/').count())
        };
        self.texts.iter().map(depth).collect::<Option<Vec<_>>>()?.into_iter().max()
    }
}

fn is_glob(part: &str) -> bool {
    part.contains(['*', '?', '[', ']', '{', '}', '\\'])
}

/// Removes parts without meaning, and refuses parts that would have another meaning.
fn normalize(text: &str) -> Result<&str, ToolError> {
    let refuse = |why: String| {
        Err(ToolError::invalid(ErrorReason::BadPattern, why).with_detail("pattern", text))
    };
    if text.len() > PATTERN_BYTES_MAX {
        return refuse(format!(
            "the glob is longer than {PATTERN_BYTES_MAX} bytes; use a shorter one"
        ));
    }
    let cleaned = text.strip_prefix("./").unwrap_or(text);
    if cleaned.is_empty() {
        return refuse("the glob is empty; write one such as `src/**/*.rs`".to_owned());
    }
    if cleaned.starts_with('/') {
        return refuse(format!(
            "`{text}` is absolute, but a glob is matched below the searched folder; \
             put the folder in `path` and the rest, such as `**/*.rs`, in the glob"
        ));
    }
    if cleaned.split('/').any(|part| part == "..") {
        return refuse(format!(
            "`{text}` leads out of the searched folder; put the folder in `path` and a glob without `..` here"
        ));
    }
    if cleaned.ends_with('/') {
        return refuse(format!("`{text}` names a folder; for the files in it write `{text}**`"));
    }
    Ok(cleaned)
}

fn bad_glob_error(text: &str, kind: &ErrorKind) -> ToolError {
    let message = format!(
        "`{text}` is not a glob: {kind}; write one such as `src/**/*.{{ts,tsx}}`, and put a \
         backslash before a `[`, `{{`, `*` or `?` that stands for itself"
    );
    ToolError::invalid(ErrorReason::BadPattern, message).with_detail("pattern", text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(pattern: &PathGlobSet, yes: &[&str], no: &[&str]) {
        for path in yes {
            assert!(pattern.is_match(Path::new(path)), "{pattern:?} should match {path}");
        }
        for path in no {
            assert!(!pattern.is_match(Path::new(path)), "{pattern:?} should not match {path}");
        }
    }

    #[test]
    fn star_stays_within_a_component() {
        let path = |text| PathGlobSet::from_path_glob(text).unwrap();
        check(&path("*.md"), &["a.md"], &["d/a.md"]);
        check(&path("**/*.md"), &["a.md", "d/e/a.md"], &["a.mdx"]);
        check(&path("./src/*.rs"), &["src/a.rs"], &["a.rs", "src/x/a.rs"]);
        check(&path("src/**"), &["src/a", "src/x/a"], &["src", "a"]);
        check(&path("{a,b/c}/*.[jt]s"), &["a/x.js", "b/c/x.ts"], &["b/x.js"]);
    }

    #[test]
    fn bare_name_matches_at_any_depth() {
        let names =
            |texts: &[&'static str]| PathGlobSet::from_name_globs(texts.iter().copied()).unwrap();
        check(&names(&["*.rs"]), &["a.rs", "x/y/a.rs"], &["a.rst"]);
        check(&names(&["src/*.rs"]), &["src/a.rs"], &["x/src/a.rs"]);
        check(&names(&["*.a", "b"]), &["x.a", "d/b"], &["b/c"]);
    }

    #[test]
    fn excluded_folders_are_known_before_walking() {
        for (text, folder, depth, hidden) in [
            ("*.md", "", Some(1), false),
            ("src/lib/*.rs", "src/lib", Some(3), false),
            ("src/lib.rs", "src", Some(2), false),
            ("src/**/x.rs", "src", None, false),
            ("{a,b/c}/x", "", None, false),
            (".github/**", ".github", None, true),
            ("**/{.env,x}", "", None, true),
            ("a.b/.", "a.b", Some(2), false),
        ] {
            let pattern = PathGlobSet::from_path_glob(text).unwrap();
            let found = (pattern.common_folder(), pattern.depth_max(), pattern.matches_hidden());
            assert_eq!(found, (PathBuf::from(folder), depth, hidden), "{text}");
        }
    }

    #[test]
    fn bad_pattern_is_explained() {
        for (text, why) in [
            ("", "is empty"),
            ("src/[a", "unclosed character class"),
            ("{a", "unclosed alternate group"),
            ("/etc/*", "put the folder in `path`"),
            ("../*", "leads out of the searched folder"),
            ("src/", "write `src/**`"),
        ] {
            let error = PathGlobSet::from_path_glob(text).unwrap_err();
            assert_eq!(error.reason(), Some(ErrorReason::BadPattern));
            assert!(error.message.contains(why), "{error}");
        }
        assert!(PathGlobSet::from_path_glob(&"{".repeat(PATTERN_BYTES_MAX)).is_err());
        assert!(PathGlobSet::from_path_glob(&"a".repeat(PATTERN_BYTES_MAX + 1)).is_err());
    }
}
