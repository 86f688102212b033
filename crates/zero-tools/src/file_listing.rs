//! The files of a folder, for completion.

use std::path::Path;

use ignore::WalkBuilder;

/// Paths of the files beneath a folder, relative to it, in the order of a walk and at most `most`.
/// Hidden files and what git ignores are left out. Folders end with `/`.
pub fn list_files(folder: &Path, most: usize) -> Vec<String> {
    let walk = WalkBuilder::new(folder).follow_links(false).require_git(false).build();
    let paths = walk.filter_map(Result::ok).filter_map(|entry| {
        let below = entry.path().strip_prefix(folder).ok()?.to_str()?;
        let is_folder = entry.file_type().is_some_and(|kind| kind.is_dir());
        (!below.is_empty()).then(|| format!("{below}{}", if is_folder { "/" } else { "" }))
    });
    paths.take(most).collect()
}

#[cfg(test)]
mod tests {
    #![expect(clippy::disallowed_methods, reason = "tests set up real files")]
    use super::*;

    #[test]
    fn files_are_listed_without_ignored_ones() {
        let temp = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| std::fs::write(temp.path().join(name), text).unwrap();
        std::fs::create_dir_all(temp.path().join("src")).unwrap();
        write("src/a.rs", "");
        write("b.log", "");
        write(".hidden", "");
        write(".gitignore", "*.log\n");
        let mut files = list_files(temp.path(), 100);
        files.sort();
        assert_eq!(files, ["src/", "src/a.rs"]);
        assert_eq!(list_files(temp.path(), 1).len(), 1);
    }
}
