//! Expands file name patterns as the shell does.

use std::path::PathBuf;

use globset::{GlobBuilder, GlobMatcher};
use zero_sandbox::path_survey;

use super::FOLDER_ENTRIES_MAX;

/// The files that match an absolute pattern, or `None` if there are more than `most`.
pub(super) fn expand(pattern: &str, most: usize) -> Option<Vec<PathBuf>> {
    let mut found = vec![PathBuf::from("/")];
    for part in pattern.split('/').filter(|part| !part.is_empty()) {
        let mut next = Vec::new();
        match PatternComponent::new(part)? {
            PatternComponent::Plain(name) => {
                let named = found.iter().map(|folder| folder.join(&name));
                next.extend(named.filter(|path| path_survey::exists(path)));
            }
            PatternComponent::Pattern { matcher, hidden } => {
                for folder in &found {
                    let Some(names) = path_survey::list_sorted(folder, FOLDER_ENTRIES_MAX) else {
                        match path_survey::file_type(folder) {
                            Some(zero_sandbox::FileType::Directory) => return None,
                            _ => continue,
                        }
                    };
                    for seen in names {
                        let name = seen.path.file_name().unwrap_or_default();
                        let is_hidden = name.as_encoded_bytes().starts_with(b".");
                        if (hidden || !is_hidden) && matcher.is_match(name) {
                            next.push(seen.path);
                        }
                    }
                    if next.len() > most {
                        return None;
                    }
                }
            }
        }
        if next.len() > most {
            return None;
        }
        found = next;
    }
    Some(found)
}

/// One component of a pattern.
enum PatternComponent {
    Plain(String),
    Pattern { matcher: GlobMatcher, hidden: bool },
}

impl PatternComponent {
    fn new(part: &str) -> Option<Self> {
        if !part.contains(['*', '?', '[']) {
            return Some(Self::Plain(part.replace('\\', "")));
        }
        // The shell's pathname expansion has no braces, and `**` is the same as `*`.
        let mut glob = part.replace('{', "[{]").replace('}', "[}]");
        while glob.contains("**") {
            glob = glob.replace("**", "*");
        }
        let built = GlobBuilder::new(&glob).literal_separator(true).backslash_escape(true).build();
        // An invalid pattern, such as a lone `[`, is a literal name.
        match built {
            Ok(glob) => {
                let hidden = part.starts_with('.') || part.starts_with("\\.");
                Some(Self::Pattern { matcher: glob.compile_matcher(), hidden })
            }
            Err(_) => Some(Self::Plain(part.to_owned())),
        }
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::disallowed_methods, reason = "tests set up real files")]
    use super::*;

    #[test]
    fn patterns_expand_like_the_shell() {
        let temp = tempfile::tempdir().unwrap();
        let root = temp.path().canonicalize().unwrap();
        for file in ["a.rs", "b.rs", ".env", "src/c.rs", "src/deep/d.rs", "[x]"] {
            std::fs::create_dir_all(root.join(file).parent().unwrap()).unwrap();
            std::fs::write(root.join(file), "").unwrap();
        }
        let check = |pattern: &str, expected: &[&str]| {
            let absolute = format!("{}/{pattern}", root.display());
            let found = expand(&absolute, 10).unwrap();
            let shown: Vec<_> = found
                .iter()
                .map(|path| path.strip_prefix(&root).unwrap().to_str().unwrap())
                .collect();
            assert_eq!(shown, expected, "{pattern}");
        };
        check("*.rs", &["a.rs", "b.rs"]);
        check("*", &["[x]", "a.rs", "b.rs", "src"]);
        check(".e*", &[".env"]);
        check("*/*.rs", &["src/c.rs"]);
        check("**/*.rs", &["src/c.rs"]);
        check("[ab].rs", &["a.rs", "b.rs"]);
        check("\\[x\\]*", &["[x]"]);
        check("none*", &[]);
        let absolute = format!("{}/*", root.display());
        assert_eq!(expand(&absolute, 3), None);
    }
}
