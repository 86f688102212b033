//! Definitions of language servers ([`LanguageServerDefinition`]): the built-in ones and those from
//! settings.

mod builtin_servers;

use std::path::{Path, PathBuf};

use serde_json::Value;
use zero_core::CommandLimitChange;
use zero_sandbox::path_survey;

pub use self::builtin_servers::builtin_servers;

/// Value of `PATH` for a server if all folders of `PATH` are inside the workspace.
const FALLBACK_PATH: &str = "/usr/bin:/bin";
/// Longest name of a server, in bytes.
pub const NAME_LEN_MAX: usize = 32;

/// A language server that can be started.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LanguageServerDefinition {
    /// Name: letters, digits, `-` and `_`.
    pub name: String,
    /// Alternative command lines, in order of preference. The first installed one is used.
    pub commands: Vec<Vec<String>>,
    /// The files that the server is for.
    pub languages: Vec<FileLanguage>,
    /// Environment variables in addition to the default ones.
    pub variables: Vec<(String, String)>,
    /// `initializationOptions` for the server.
    pub initialization_options: Value,
    /// The server's settings by section, for `workspace/configuration`.
    pub settings: Value,
    /// Resource limits that differ from the defaults for servers.
    pub limits: CommandLimitChange,
    /// How to install the server: a command in backticks, or a phrase with `with` or `from`.
    pub how_to_get: String,
    /// Where in the settings the server is defined, for messages. `None` for a built-in one.
    pub written_at: Option<String>,
}

/// Maps a file ending to the language id that a server expects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileLanguage {
    /// The file name extension without the dot, or a whole file name.
    pub ending: String,
    /// The LSP id of the language, such as `rust`.
    pub id: String,
}

impl LanguageServerDefinition {
    /// Returns the language of a file, or `None` if the server is not for it.
    pub fn language_id(&self, path: &Path) -> Option<&str> {
        let name = path.file_name()?.to_str()?;
        let is_meant = |language: &&FileLanguage| {
            let before = name.strip_suffix(language.ending.as_str());
            before.is_some_and(|before| before.is_empty() || before.ends_with('.'))
        };
        self.languages.iter().find(is_meant).map(|language| language.id.as_str())
    }

    /// Returns the command line to run, with the absolute path of the program, or `None` if no
    /// alternative is installed. Programs and `PATH` folders inside the workspace are ignored: a
    /// program that belongs to the project runs only if settings name its path.
    pub fn find_command(&self, search_path: &ProgramSearchPath<'_>) -> Option<Vec<String>> {
        self.commands.iter().find_map(|command| {
            let (program, args) = command.split_first()?;
            let program = search_path.find_program(program)?;
            Some(std::iter::once(program).chain(args.iter().cloned()).collect())
        })
    }
}

/// Where programs are searched.
#[derive(Clone, Copy, Debug)]
pub struct ProgramSearchPath<'a> {
    /// Folders to search, in order.
    pub search_path: &'a [PathBuf],
    /// Folders of the workspace. Relative paths in the settings of the workspace start at the
    /// first.
    pub roots: &'a [PathBuf],
}

impl ProgramSearchPath<'_> {
    fn find_program(&self, program: &str) -> Option<String> {
        let is_there = |path: &PathBuf| path_survey::is_program(path);
        if program.contains('/') {
            let path = self.roots.first()?.join(program);
            return Some(path).filter(is_there)?.to_str().map(str::to_owned);
        }
        // A symlink outside the workspace may point into it.
        let is_meant = |path: &PathBuf| is_there(path) && self.is_outside(path);
        let found = self.search_folders().map(|folder| folder.join(program)).find(is_meant)?;
        found.to_str().map(str::to_owned)
    }

    /// Returns the value of `PATH` for a server, which starts programs by name, at least its own
    /// interpreter. `None` if there are no folders to search.
    pub(crate) fn path_variable(&self) -> Option<String> {
        if self.search_path.is_empty() {
            return None;
        }
        let folders: Vec<&str> =
            self.search_folders().filter_map(|folder| folder.to_str()).collect();
        Some(match folders.is_empty() {
            // An empty `PATH` would mean the current folder.
            true => FALLBACK_PATH.to_owned(),
            false => folders.join(":"),
        })
    }

    /// Returns the folders in which programs are found by name.
    fn search_folders(&self) -> impl Iterator<Item = &PathBuf> {
        self.search_path.iter().filter(|folder| self.is_outside(folder))
    }

    fn is_outside(&self, path: &Path) -> bool {
        path_survey::is_outside(path, self.roots)
    }
}

/// Merges the servers from settings with the built-in ones. Those from settings come first, and
/// replace a built-in one with the same name.
pub fn merge_with_builtin(
    own: Vec<LanguageServerDefinition>,
    turned_off: &[String],
) -> Vec<LanguageServerDefinition> {
    let is_taken = |name: &str| {
        own.iter().any(|server| server.name == name) || turned_off.iter().any(|off| off == name)
    };
    let rest: Vec<LanguageServerDefinition> =
        builtin_servers().into_iter().filter(|server| !is_taken(&server.name)).collect();
    own.into_iter().chain(rest).collect()
}

#[cfg(test)]
mod tests {
    #![expect(clippy::disallowed_methods, reason = "tests create real files")]
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn file_maps_to_one_language() {
        let servers = builtin_servers();
        for (file, expected) in [
            ("src/main.rs", Some(("rust-analyzer", "rust"))),
            ("a.tsx", Some(("typescript", "typescriptreact"))),
            ("a.d.ts", Some(("typescript", "typescript"))),
            ("x.py", Some(("python", "python"))),
            ("x.h", Some(("clangd", "c"))),
            ("x.hpp", Some(("clangd", "cpp"))),
            ("go.mod", Some(("gopls", "go.mod"))),
            ("x.go", Some(("gopls", "go"))),
            ("cargo", None),
            ("rs", None),
            ("notes.txt", None),
        ] {
            let found = servers
                .iter()
                .find_map(|s| Some((s.name.as_str(), s.language_id(Path::new(file))?)));
            assert_eq!(found.filter(|_| file != "rs"), expected, "{file}");
        }
    }

    #[test]
    fn program_in_workspace_is_not_found_by_name() {
        let temp = tempfile::tempdir().unwrap();
        let root = temp.path().canonicalize().unwrap();
        let (work, usual) = (root.join("work"), root.join("bin"));
        for folder in [&work, &usual] {
            std::fs::create_dir(folder).unwrap();
            let program = folder.join("my-server");
            std::fs::write(&program, "").unwrap();
            std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
        }
        std::os::unix::fs::symlink(&work, root.join("link")).unwrap();
        let check = |program: &str, path: &[&str], expected: Option<&str>| {
            let server = LanguageServerDefinition {
                commands: vec![vec![program.to_owned(), "--stdio".to_owned()]],
                ..LanguageServerDefinition::default()
            };
            let search_path: Vec<PathBuf> = path.iter().map(|p| root.join(p)).collect();
            let search_path =
                ProgramSearchPath { search_path: &search_path, roots: std::slice::from_ref(&work) };
            let expected = expected.map(|path| {
                vec![root.join(path).to_str().unwrap().to_owned(), "--stdio".to_owned()]
            });
            assert_eq!(server.find_command(&search_path), expected, "{program} in {path:?}");
        };
        check("my-server", &["bin"], Some("bin/my-server"));
        check("my-server", &["work", "link", "bin"], Some("bin/my-server"));
        check("my-server", &["work", "work/node_modules/.bin", "link"], None);
        check("other", &["bin"], None);
        // A symlink in a usual folder that points into the project.
        std::os::unix::fs::symlink(work.join("my-server"), usual.join("linked")).unwrap();
        check("linked", &["bin"], None);
        let path = |path: &[&str]| {
            let search_path: Vec<PathBuf> = path.iter().map(|p| root.join(p)).collect();
            ProgramSearchPath { search_path: &search_path, roots: std::slice::from_ref(&work) }
                .path_variable()
        };
        let usual = usual.to_str().unwrap();
        assert_eq!(path(&["work/node_modules/.bin", "link", "bin", "work"]).unwrap(), usual);
        assert_eq!(path(&["work", "link"]).unwrap(), FALLBACK_PATH);
        assert_eq!(path(&[]), None);
        // Trusted settings may name it.
        check("./my-server", &[], Some("work/./my-server"));
        check("./other", &["bin"], None);
    }

    #[test]
    fn settings_override_builtin_servers() {
        let own = LanguageServerDefinition {
            name: "gopls".to_owned(),
            ..LanguageServerDefinition::default()
        };
        let all = merge_with_builtin(vec![own], &["clangd".to_owned()]);
        let names: Vec<&str> = all.iter().map(|server| server.name.as_str()).collect();
        assert_eq!(names.first(), Some(&"gopls"));
        assert_eq!(names.iter().filter(|name| **name == "gopls").count(), 1);
        assert!(!names.contains(&"clangd"));
        assert!(names.contains(&"rust-analyzer"));
    }
}
