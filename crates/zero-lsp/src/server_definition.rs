//! Which language servers there are: those that are known by name, and those that settings add.

mod builtin_servers;

use std::path::{Path, PathBuf};

use serde_json::Value;
use zero_core::CommandLimitChange;
use zero_sandbox::path_survey;

pub use self::builtin_servers::builtin_servers;

/// Where programs are found when `PATH` leads nowhere but into the workspace.
const FALLBACK_PATH: &str = "/usr/bin:/bin";
/// Longest name of a server.
pub const NAME_LEN_MAX: usize = 32;

/// A language server, before anything of it runs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LanguageServerDefinition {
    /// What it is called: letters, digits, `-` and `_`.
    pub name: String,
    /// Programs with their arguments that would do, the best first.
    pub commands: Vec<Vec<String>>,
    /// The files it is for.
    pub languages: Vec<FileLanguage>,
    /// Variables it gets on top of the usual few.
    pub variables: Vec<(String, String)>,
    /// What it is told when it starts, in its own words.
    pub initialization_options: Value,
    /// Its settings, in its own words, by their sections.
    pub settings: Value,
    /// How much it may use, where that is not the usual.
    pub limits: CommandLimitChange,
    /// How to get it.
    pub how_to_get: String,
    /// Where it is written down, for a person; `None` for one that is known by name.
    pub written_at: Option<String>,
}

/// Files that are written in one language.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileLanguage {
    /// How their names end, without the dot; or a whole name.
    pub ending: String,
    /// What servers call the language.
    pub id: String,
}

impl LanguageServerDefinition {
    /// What the language of a file is called, if this server is for it.
    pub fn language_id(&self, path: &Path) -> Option<&str> {
        let name = path.file_name()?.to_str()?;
        let is_meant = |language: &&FileLanguage| {
            let before = name.strip_suffix(language.ending.as_str());
            before.is_some_and(|before| before.is_empty() || before.ends_with('.'))
        };
        self.languages.iter().find(is_meant).map(|language| language.id.as_str())
    }

    /// The program that would run, by its full path, with its arguments; `None` where none is
    /// installed. Programs and folders of `PATH` that lie in the workspace do not count: what a
    /// project brings along runs only where settings name it.
    pub fn find_command(&self, place: &ProgramSearchPath<'_>) -> Option<Vec<String>> {
        self.commands.iter().find_map(|command| {
            let (program, args) = command.split_first()?;
            let program = place.find_program(program)?;
            Some(std::iter::once(program).chain(args.iter().cloned()).collect())
        })
    }
}

/// Where programs are looked for.
#[derive(Clone, Copy, Debug)]
pub struct ProgramSearchPath<'a> {
    /// Folders in which programs are found, in order.
    pub search_path: &'a [PathBuf],
    /// Folders of the workspace; paths that its own settings write start in the first.
    pub roots: &'a [PathBuf],
}

impl ProgramSearchPath<'_> {
    fn find_program(&self, program: &str) -> Option<String> {
        let is_there = |path: &PathBuf| path_survey::is_program(path);
        if program.contains('/') {
            let path = self.roots.first()?.join(program);
            return Some(path).filter(is_there)?.to_str().map(str::to_owned);
        }
        // A link of that name may lead into the workspace too.
        let is_meant = |path: &PathBuf| is_there(path) && self.is_outside(path);
        let found = self.search_folders().map(|folder| folder.join(program)).find(is_meant)?;
        found.to_str().map(str::to_owned)
    }

    /// `PATH` for a server, which starts others by their names, above all what its own script is
    /// for. `None` where there is nothing to say about it.
    pub(crate) fn path_variable(&self) -> Option<String> {
        if self.search_path.is_empty() {
            return None;
        }
        let folders: Vec<&str> =
            self.search_folders().filter_map(|folder| folder.to_str()).collect();
        Some(match folders.is_empty() {
            // Nothing would mean the folder it starts in.
            true => FALLBACK_PATH.to_owned(),
            false => folders.join(":"),
        })
    }

    /// The folders in which programs are found by name.
    fn search_folders(&self) -> impl Iterator<Item = &PathBuf> {
        self.search_path.iter().filter(|folder| self.is_outside(folder))
    }

    fn is_outside(&self, path: &Path) -> bool {
        path_survey::is_outside(path, self.roots)
    }
}

/// The known servers with what settings say: those of settings come first, and one that has the name
/// of a known one takes its place.
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
    #![expect(clippy::disallowed_methods, reason = "tests set up real files")]
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
            let place =
                ProgramSearchPath { search_path: &search_path, roots: std::slice::from_ref(&work) };
            let expected = expected.map(|path| {
                vec![root.join(path).to_str().unwrap().to_owned(), "--stdio".to_owned()]
            });
            assert_eq!(server.find_command(&place), expected, "{program} in {path:?}");
        };
        check("my-server", &["bin"], Some("bin/my-server"));
        check("my-server", &["work", "link", "bin"], Some("bin/my-server"));
        check("my-server", &["work", "work/node_modules/.bin", "link"], None);
        check("other", &["bin"], None);
        // A link among the usual ones that leads into the project.
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
        // Settings that were trusted may name it.
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
