//! Each source file is a module of its crate. The compiler does not see one that no other declares: its tests would
//! never run.

use std::collections::HashSet;

use super::tidy_finding::TidyFinding;
use crate::repository::RepositoryFile;

/// Files that Cargo finds by their names. Their modules are beside them, those of other files in a folder.
const ROOTS: &[&str] = &["main", "lib"];

pub(super) fn check(files: &[RepositoryFile]) -> Vec<TidyFinding> {
    let declared: HashSet<ModulePlace<'_>> = files.iter().flat_map(declared_modules).collect();
    files
        .iter()
        .filter_map(|file| Some((file, read_module(&file.path)?)))
        .filter(|(_, (folder, name))| {
            !declared.contains(&ModulePlace::Folder(folder, name))
                && !declared.contains(&ModulePlace::Anywhere(name))
        })
        .map(|(file, (_, name))| {
            TidyFinding::new(
                &*file.path,
                "no file declares this module, so that it is not compiled",
                format!("add `mod {name};` or remove the file"),
            )
        })
        .collect()
}

/// Where the file of a declared module is.
#[derive(PartialEq, Eq, Hash)]
enum ModulePlace<'f> {
    /// In this folder, with this name.
    Folder(&'f str, &'f str),
    /// Where `#[path]` says; only the name is compared.
    Anywhere(&'f str),
}

/// The folder and name of a module; `None` for a file that is no module, or the root of them.
fn read_module(path: &str) -> Option<(&str, &str)> {
    let (folder, name) = path.strip_suffix(".rs")?.rsplit_once('/')?;
    let is_source = ["/src", "/tests/it"]
        .iter()
        .any(|root| folder.ends_with(root) || folder.contains(&format!("{root}/")));
    let is_ours = path.starts_with("crates/") || path.starts_with("xtask/");
    let is_module = is_source && is_ours && !ROOTS.contains(&name) && !folder.ends_with("/bin");
    is_module.then_some((folder, name))
}

fn declared_modules(file: &RepositoryFile) -> impl Iterator<Item = ModulePlace<'_>> {
    let path = file.path.strip_suffix(".rs").unwrap_or_default();
    let folder = match path.rsplit_once('/') {
        Some((folder, name)) if ROOTS.contains(&name) => folder,
        _ => path,
    };
    let lines = if path.is_empty() { "" } else { &*file.text };
    lines.lines().filter_map(move |line| {
        let line = line.trim();
        if let Some(place) = line.strip_prefix("#[path = \"") {
            let name = place.strip_suffix(".rs\"]")?.rsplit('/').next()?;
            return Some(ModulePlace::Anywhere(name));
        }
        let (before, name) = line.strip_suffix(';')?.rsplit_once("mod ")?;
        let is_declaration = before.is_empty() || before.starts_with("pub");
        is_declaration.then_some(ModulePlace::Folder(folder, name))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_files(files: &[(&str, &str)], expected: &[&str]) {
        let file = |(path, text): &(&str, &str)| RepositoryFile {
            path: (*path).to_owned(),
            text: (*text).to_owned(),
        };
        let files: Vec<RepositoryFile> = files.iter().map(file).collect();
        let found = check(&files);
        let found: Vec<&str> = found.iter().map(|finding| &*finding.file).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn files_that_no_file_declares_are_found() {
        let shared = "#[path = \"../../../a/tests/it/shared.rs\"]\nmod shared;\n";
        check_files(
            &[
                ("crates/a/src/lib.rs", "pub mod b;\n    pub(crate) mod c;\nmod de;\n"),
                ("crates/a/src/b.rs", "mod inner;\n"),
                ("crates/a/src/b/inner.rs", ""),
                ("crates/a/src/b/other.rs", ""),
                ("crates/a/src/c.rs", "// mod e;\n"),
                ("crates/a/src/de.rs", ""),
                ("crates/a/src/e.rs", ""),
                ("crates/a/tests/it/main.rs", "mod runs;\n"),
                ("crates/a/tests/it/runs.rs", ""),
                ("crates/a/tests/it/left.rs", ""),
                ("crates/a/tests/it/shared.rs", ""),
                ("crates/b/tests/it/main.rs", shared),
                ("crates/a/examples/cost.rs", ""),
                ("fuzz/fuzz_targets/edit.rs", ""),
            ],
            &["crates/a/src/b/other.rs", "crates/a/src/e.rs", "crates/a/tests/it/left.rs"],
        );
    }
}
