//! Reads which commits the names of a repository point at.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use zero_sandbox::path_survey::{self, ChangeStamp};

/// Most names that are read from files of their own; git packs them long before.
const LOOSE_MAX: usize = 2_000;
/// Deepest folder of such files.
const DEPTH_MAX: usize = 16;
/// Most bytes of such a file.
const LOOSE_BYTES_MAX: u64 = 4_096;
/// Most bytes of the file with all other names.
const PACKED_BYTES_MAX: u64 = 16 << 20;
/// Files and folders that change with the names, if they cannot be read.
const STAMPED: &[&str] = &["HEAD", "packed-refs", "refs", "reftable"];
/// Most entries of such a folder that are compared.
const STAMPED_MAX: usize = 100_000;

/// The name of the branch that is checked out in a git folder; `None` if none is.
pub(super) fn read_current_branch(git: &Path) -> Option<String> {
    let head = path_survey::read_small_file(&git.join("HEAD"), LOOSE_BYTES_MAX)?;
    let head = String::from_utf8(head).ok()?;
    Some(head.strip_prefix("ref:")?.trim().strip_prefix("refs/heads/")?.to_owned())
}

/// The names of a repository and the objects that they point at.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct GitRefs {
    /// The object of each name, in hexadecimal. `HEAD` is among them if it names a commit itself.
    pub(crate) tips: BTreeMap<String, String>,
    /// The commit that is checked out.
    pub(crate) head: Option<String>,
    /// Stamps of what could not be read completely, by name; empty if everything was.
    unread: BTreeMap<&'static str, Option<ChangeStamp>>,
}

impl GitRefs {
    /// Reads the names in a git folder.
    pub(crate) fn read(git: &Path) -> Self {
        let mut refs = Self::default();
        let mut is_whole = !path_survey::exists(&git.join("reftable"));
        is_whole &= refs.add_packed(&git.join("packed-refs"));
        is_whole &= refs.add_loose(git);
        let head = path_survey::read_small_file(&git.join("HEAD"), LOOSE_BYTES_MAX);
        let head = head.map(|head| String::from_utf8_lossy(&head).trim().to_owned());
        refs.head = match head.as_deref().map(|head| head.strip_prefix("ref:").ok_or(head)) {
            Some(Ok(name)) => refs.tips.get(name.trim()).cloned(),
            Some(Err(object)) if is_object_name(object) => {
                refs.tips.insert("HEAD".to_owned(), object.to_owned());
                Some(object.to_owned())
            }
            _ => None,
        };
        if !is_whole {
            let there = STAMPED.iter().filter(|name| path_survey::exists(&git.join(name)));
            let stamp = |name: &str| path_survey::read_tree_stamp(&git.join(name), STAMPED_MAX);
            refs.unread = there.map(|name| (*name, stamp(name))).collect();
        }
        refs
    }

    /// Whether names may have changed since `before` that could not be read.
    pub(crate) fn may_hide_change_since(&self, before: &Self) -> bool {
        self.unread != before.unread && !self.unread.is_empty()
            || self.unread.values().any(Option::is_none)
    }

    /// The names that point at another object than in `before`.
    pub(crate) fn changed_since<'a>(
        &'a self,
        before: &'a Self,
    ) -> impl Iterator<Item = (&'a str, &'a str)> {
        let is_new = |(name, object): &(&String, &String)| before.tips.get(*name) != Some(*object);
        self.tips.iter().filter(is_new).map(|(name, object)| (name.as_str(), object.as_str()))
    }

    /// Reads the file with all names. Returns false if it cannot be read.
    fn add_packed(&mut self, packed: &Path) -> bool {
        if !path_survey::exists(packed) {
            return true;
        }
        let Some(content) = path_survey::read_small_file(packed, PACKED_BYTES_MAX) else {
            return false;
        };
        for line in String::from_utf8_lossy(&content).lines() {
            if let Some((object, name)) = line.split_once(' ')
                && is_object_name(object)
            {
                self.tips.insert(name.to_owned(), object.to_owned());
            }
        }
        true
    }

    /// Reads the names that have files of their own. Returns false if there are too many.
    fn add_loose(&mut self, git: &Path) -> bool {
        let mut open: Vec<(PathBuf, usize)> = vec![(git.join("refs"), 0)];
        let mut left = LOOSE_MAX;
        while let Some((folder, depth)) = open.pop() {
            if !path_survey::exists(&folder) {
                continue;
            }
            let Some(entries) = path_survey::list_sorted(&folder, left) else { return false };
            left = left.saturating_sub(entries.len());
            for entry in entries {
                if entry.is_folder {
                    if depth >= DEPTH_MAX {
                        return false;
                    }
                    open.push((entry.path, depth + 1));
                    continue;
                }
                let content = path_survey::read_small_file(&entry.path, LOOSE_BYTES_MAX);
                let content = content.map(|content| String::from_utf8_lossy(&content).into_owned());
                let name = entry.path.strip_prefix(git).ok().and_then(Path::to_str);
                if let (Some(content), Some(name)) = (content, name)
                    && is_object_name(content.trim())
                {
                    self.tips.insert(name.to_owned(), content.trim().to_owned());
                }
            }
        }
        true
    }
}

/// Whether a text is the full name of an object, by SHA-1 or SHA-256.
fn is_object_name(text: &str) -> bool {
    matches!(text.len(), 40 | 64) && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    #![expect(clippy::disallowed_methods, reason = "tests set up real files")]
    use super::*;

    fn write(root: &Path, name: &str, text: &str) {
        let path = root.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    #[test]
    fn loose_names_win_over_packed_ones() {
        let temp = tempfile::tempdir().unwrap();
        let git = temp.path();
        let [one, two, three] = ["1", "2", "3"].map(|digit| digit.repeat(40));
        write(git, "HEAD", "ref: refs/heads/main\n");
        let packed =
            format!("# pack-refs with: peeled\n{one} refs/heads/main\n{two} refs/tags/v\n^{one}\n");
        write(git, "packed-refs", &packed);
        let before = GitRefs::read(git);
        assert_eq!((before.head.as_ref(), before.tips.len()), (Some(&one), 2));
        write(git, "refs/heads/main", &format!("{three}\n"));
        write(git, "refs/heads/a/b", &format!("{two}\n"));
        write(git, "refs/remotes/origin/HEAD", "ref: refs/remotes/origin/main\n");
        let after = GitRefs::read(git);
        assert_eq!(after.head.as_ref(), Some(&three));
        let changed: Vec<_> = after.changed_since(&before).collect();
        assert_eq!(changed, [("refs/heads/a/b", &*two), ("refs/heads/main", &*three)]);
        assert!(!after.may_hide_change_since(&before));
        write(git, "HEAD", &two);
        assert_eq!(GitRefs::read(git).tips.get("HEAD"), Some(&two));
    }

    #[test]
    fn unread_names_count_as_changed() {
        let temp = tempfile::tempdir().unwrap();
        let git = temp.path();
        let before = GitRefs::read(git);
        for number in 0..=LOOSE_MAX {
            write(git, &format!("refs/heads/{number}"), &"1".repeat(40));
        }
        let after = GitRefs::read(git);
        assert!(after.may_hide_change_since(&before));
        assert!(!GitRefs::read(git).may_hide_change_since(&after));
    }
}
