//! Resolves the paths of a profile as they are on this machine now, into a [`PathLayout`].
//!
//! Links are followed once, here, except for those that a command could have created: a writable
//! path must not be reached through a link in a writable folder. Writable, protected and masked
//! paths may be nested; the innermost entry for a path applies.

use std::collections::BTreeMap;
use std::io;
use std::path::{Component, Path, PathBuf};

use crate::profile::SandboxProfile;

/// The resolved paths of a profile.
#[derive(Debug)]
pub(crate) struct PathLayout {
    /// The access of each path that the profile names.
    access: BTreeMap<PathBuf, PathAccess>,
    /// Protected paths that do not exist: the first missing part of each, and the kind of its
    /// placeholder.
    pub(crate) missing: Vec<(PathBuf, PlaceholderKind)>,
    /// Links on the way to protected paths, which no mount can protect from being replaced.
    pub(crate) links: Vec<PathBuf>,
    /// Links in writable folders on the way to other writable paths, which could point anywhere.
    pub(crate) linked_writable: Vec<PathBuf>,
    /// Links in masked folders on the way to readable paths, each with what it leads to.
    pub(crate) readable_links: BTreeMap<PathBuf, PathBuf>,
}

/// The kind of placeholder for a path that does not exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum PlaceholderKind {
    Folder,
    File,
}

/// What a profile demands of a path. If it demands several things, the last one applies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum PathAccess {
    /// Visible in a masked folder, and nothing more.
    Readable,
    Writable,
    Protected,
    Masked,
}

impl PathLayout {
    /// Resolves the paths of `profile`. Writable and masked paths that do not exist are skipped.
    /// Paths for which `stands_in` returns true are placeholders and count as missing.
    pub(crate) fn new(profile: &SandboxProfile, stands_in: &dyn Fn(&Path) -> bool) -> Self {
        let mut layout = Self {
            access: BTreeMap::new(),
            missing: Vec::new(),
            links: Vec::new(),
            linked_writable: Vec::new(),
            readable_links: BTreeMap::new(),
        };
        let changeable = profile.writable.iter().chain(&profile.changeable);
        let roots: Vec<PathBuf> = changeable.filter_map(|path| path.canonicalize().ok()).collect();
        for path in &profile.writable {
            layout.add_writable(path, &roots);
        }
        for path in profile.masked.iter().filter(|path| !stands_in(path)) {
            layout.add_path(path, PathAccess::Masked);
        }
        let mut protect = |paths: &[PathBuf], shape| {
            for path in paths {
                layout.protect(path, shape, &profile.writable, stands_in);
            }
        };
        protect(&profile.protected, PlaceholderKind::Folder);
        protect(&profile.protected_files, PlaceholderKind::File);
        for path in &profile.readable {
            layout.add_readable(path);
        }
        layout.missing.sort();
        // Folders are sorted before files: if another path is below it, it has to be a folder.
        layout.missing.dedup_by(|later, earlier| later.0 == earlier.0);
        layout
    }

    /// Resolves a writable path. Refuses links that a command could have created.
    fn add_writable(&mut self, path: &Path, roots: &[PathBuf]) {
        let mut at = PathBuf::from("/");
        for part in path.components() {
            let name = match part {
                Component::Normal(name) => name,
                Component::ParentDir => {
                    at.pop();
                    continue;
                }
                _ => continue,
            };
            let is_in_writable = roots.iter().any(|root| at.starts_with(root));
            at.push(name);
            match at.symlink_metadata() {
                Ok(facts) if facts.is_symlink() && is_in_writable => {
                    self.linked_writable.push(at);
                    return;
                }
                Ok(facts) if facts.is_symlink() => match at.canonicalize() {
                    Ok(real) => at = real,
                    Err(_) => return,
                },
                Ok(_) => {}
                Err(_) => return,
            }
        }
        self.insert_strictest(at, PathAccess::Writable);
    }

    /// Resolves a readable path. Links in masked folders are needed as well, because programs do
    /// not see them there.
    fn add_readable(&mut self, path: &Path) {
        let mut at = PathBuf::from("/");
        for part in path.components() {
            match part {
                Component::Normal(name) => at.push(name),
                Component::ParentDir => {
                    at.pop();
                    continue;
                }
                _ => continue,
            }
            match at.symlink_metadata() {
                Ok(facts) if facts.is_symlink() => {
                    let Ok(real) = at.canonicalize() else { return };
                    if self.access_at(&at) == Some(PathAccess::Masked) {
                        self.readable_links.insert(at, real.clone());
                    }
                    at = real;
                }
                Ok(_) => {}
                Err(_) => return,
            }
        }
        // Elsewhere it is visible already, or it is writable.
        let above = self.access_above(&at).map(|(_, access)| access);
        if above == Some(PathAccess::Masked) {
            self.access.entry(at).or_insert(PathAccess::Readable);
        }
    }

    fn add_path(&mut self, path: &Path, what: PathAccess) {
        match path.canonicalize() {
            Ok(real) => self.insert_strictest(real, what),
            // A folder that is unreadable here may be readable in another user namespace. A mask
            // cannot be mounted in it, and the command does not start.
            Err(error)
                if what == PathAccess::Masked
                    && error.kind() == io::ErrorKind::PermissionDenied =>
            {
                self.insert_strictest(path.to_owned(), what);
            }
            Err(_) => {}
        }
    }

    fn insert_strictest(&mut self, real: PathBuf, what: PathAccess) {
        let access = self.access.entry(real).or_insert(what);
        *access = (*access).max(what);
    }

    /// Resolves a protected path from each writable folder that contains it.
    fn protect(
        &mut self,
        path: &Path,
        shape: PlaceholderKind,
        writable: &[PathBuf],
        stands_in: &dyn Fn(&Path) -> bool,
    ) {
        for root in writable {
            let Ok(real) = root.canonicalize() else { continue };
            let Ok(rest) = path.strip_prefix(root).or_else(|_| path.strip_prefix(&real)) else {
                continue;
            };
            self.protect_beneath(real, rest, shape, stands_in);
        }
    }

    fn protect_beneath(
        &mut self,
        root: PathBuf,
        rest: &Path,
        shape: PlaceholderKind,
        stands_in: &dyn Fn(&Path) -> bool,
    ) {
        let mut at = root;
        let mut parts = rest.components();
        while let Some(part) = parts.next() {
            at.push(part);
            let facts = match stands_in(&at) {
                true => Err(io::ErrorKind::NotFound.into()),
                false => at.symlink_metadata(),
            };
            match facts {
                Ok(facts) if facts.is_symlink() => {
                    self.links.push(at.clone());
                    // The target of the link can be protected; the link itself cannot.
                    match at.canonicalize() {
                        Ok(real) => at = real,
                        Err(_) => return,
                    }
                }
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    let is_last = parts.next().is_none();
                    self.missing.push((at, if is_last { shape } else { PlaceholderKind::Folder }));
                    return;
                }
                Err(_) => break,
            }
        }
        self.insert_strictest(at, PathAccess::Protected);
    }

    /// All paths that are named, outer paths first.
    pub(crate) fn entries(&self) -> impl Iterator<Item = (&Path, PathAccess)> {
        self.access.iter().map(|(path, access)| (path.as_path(), *access))
    }

    /// The paths with this access.
    pub(crate) fn paths_with(&self, what: PathAccess) -> impl Iterator<Item = &Path> {
        self.entries().filter(move |(_, access)| *access == what).map(|(path, _)| path)
    }

    /// The access of `path` itself or of the nearest named folder above it.
    pub(crate) fn access_at(&self, path: &Path) -> Option<PathAccess> {
        self.access.get(path).copied().or_else(|| self.access_above(path).map(|(_, access)| access))
    }

    /// The access of the nearest named folder above `path`, and that folder.
    pub(crate) fn access_above(&self, path: &Path) -> Option<(&Path, PathAccess)> {
        path.ancestors().skip(1).find_map(|folder| {
            self.access.get_key_value(folder).map(|(folder, access)| (folder.as_path(), *access))
        })
    }

    /// The writable folder that contains `path`, if no other entry is in between.
    pub(crate) fn writable_folder_above(&self, path: &Path) -> Option<&Path> {
        self.access_above(path)
            .filter(|(_, access)| *access == PathAccess::Writable)
            .map(|(folder, _)| folder)
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests set files up as others would")]
pub(super) mod tests {
    use super::*;
    use crate::profile::{NetworkAccess, ProcessLimits};

    /// A profile with these paths below a folder, and nothing else.
    pub(in crate::confinement) fn test_profile(
        root: &Path,
        writable: &[&str],
        protected: &[&str],
    ) -> SandboxProfile {
        let paths = |names: &[&str]| names.iter().map(|name| root.join(name)).collect();
        let limits = ProcessLimits {
            memory_bytes: 0,
            cpu_percent: 0,
            processes: 0,
            open_files: 0,
            file_bytes: 0,
            disk_bytes: 0,
            disk_rate: u64::MAX,
        };
        SandboxProfile {
            writable: paths(writable),
            changeable: Vec::new(),
            protected: paths(protected),
            protected_files: Vec::new(),
            masked: Vec::new(),
            readable: Vec::new(),
            network: NetworkAccess::Nothing,
            limits,
            tmp: root.to_owned(),
            weaknesses: Vec::new(),
        }
    }

    #[test]
    fn writable_folder_is_not_followed_through_link_in_another() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        for name in ["ws/sub/cache", "victim/cache"] {
            std::fs::create_dir_all(root.join(name)).unwrap();
        }
        for (to, name) in [("../victim", "ws/link"), ("ws", "alias")] {
            std::os::unix::fs::symlink(to, root.join(name)).unwrap();
        }
        let check = |writable: &[&str], expected: &[&str], linked: &[&str]| {
            let layout = PathLayout::new(&test_profile(&root, writable, &[]), &|_| false);
            let paths = |names: &[&str]| names.iter().map(|name| root.join(name)).collect();
            let (expected, linked): (Vec<PathBuf>, Vec<PathBuf>) = (paths(expected), paths(linked));
            assert_eq!(
                layout.paths_with(PathAccess::Writable).collect::<Vec<_>>(),
                expected,
                "{writable:?}"
            );
            assert_eq!(layout.linked_writable, linked, "{writable:?}");
        };
        check(&["alias", "ws/sub/../sub/cache"], &["ws", "ws/sub/cache"], &[]);
        check(&["ws", "alias/sub", "ws/none"], &["ws", "ws/sub"], &[]);
        check(&["ws", "ws/link/cache"], &["ws"], &["ws/link"]);
        check(&["ws", "alias/link"], &["ws"], &["ws/link"]);
        check(&["alias", "ws/link/cache"], &["ws"], &["ws/link"]);
        // No command can have created this link.
        check(&["ws/link/cache"], &["victim/cache"], &[]);
        // Neither may a folder that another command can change lead elsewhere.
        let profile = SandboxProfile {
            changeable: vec![root.join("ws")],
            ..test_profile(&root, &["ws/link/cache"], &[])
        };
        let layout = PathLayout::new(&profile, &|_| false);
        assert_eq!(layout.linked_writable, [root.join("ws/link")]);
        assert_eq!(layout.paths_with(PathAccess::Writable).count(), 0);
    }

    #[test]
    fn protected_paths_are_resolved_from_writable_folder() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        std::fs::create_dir_all(root.join("ws/.git/hooks")).unwrap();
        std::os::unix::fs::symlink("real", root.join("ws/link")).unwrap();
        std::fs::create_dir(root.join("ws/real")).unwrap();
        let protected = ["ws/.git/hooks", "ws/.vscode/a", "ws/.vscode/b", "ws/link", "other"];
        let mut profile = test_profile(&root, &["ws"], &protected);
        let files = ["ws/.git/config", "ws/.git/info/attributes"];
        profile.protected_files = files.map(|name| root.join(name)).to_vec();
        let layout = PathLayout::new(&profile, &|_| false);
        let held: Vec<_> = layout.paths_with(PathAccess::Protected).collect();
        assert_eq!(held, [root.join("ws/.git/hooks"), root.join("ws/real")]);
        let missing = [
            (root.join("ws/.git/config"), PlaceholderKind::File),
            (root.join("ws/.git/info"), PlaceholderKind::Folder),
            (root.join("ws/.vscode"), PlaceholderKind::Folder),
        ];
        assert_eq!(layout.missing, missing);
        assert_eq!(layout.links, [root.join("ws/link")]);
        std::fs::create_dir(root.join("ws/.git/info")).unwrap();
        let stands_in = |path: &Path| path == root.join("ws/.git/info");
        let second_layout = PathLayout::new(&profile, &stands_in);
        assert_eq!(second_layout.missing, missing);
        assert_eq!(layout.writable_folder_above(&root.join("ws/.git/x")), Some(&*root.join("ws")));
        assert_eq!(layout.writable_folder_above(&root.join("ws/.git/hooks/x")), None);
    }

    #[test]
    fn readable_paths_are_opened_in_masked_folders_only() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        for name in ["home/.cargo/bin", "home/dotfiles", "home/ws/venv", "home/.ssh", "out"] {
            std::fs::create_dir_all(root.join(name)).unwrap();
        }
        for (to, name) in [("dotfiles", "home/.linked"), ("../out", "home/.away")] {
            std::os::unix::fs::symlink(to, root.join(name)).unwrap();
        }
        let paths = |names: &[&str]| names.iter().map(|name| root.join(name)).collect();
        let profile = SandboxProfile {
            masked: paths(&["home", "home/.ssh", "home/.cargo/bin"]),
            readable: paths(&[
                "home/.cargo",
                "home/.linked",
                "home/.away",
                "home/.ssh",
                "home/ws",
                "home/ws/venv",
                "home/none",
                "out",
            ]),
            ..test_profile(&root, &["home/ws"], &[])
        };
        let layout = PathLayout::new(&profile, &|_| false);
        let at = |name: &str| layout.access_at(&root.join(name));
        for (name, expected) in [
            ("home", Some(PathAccess::Masked)),
            ("home/other", Some(PathAccess::Masked)),
            ("home/.cargo", Some(PathAccess::Readable)),
            ("home/.cargo/bin", Some(PathAccess::Masked)),
            ("home/dotfiles", Some(PathAccess::Readable)),
            ("home/.ssh", Some(PathAccess::Masked)),
            ("home/ws/venv", Some(PathAccess::Writable)),
            ("out", None),
        ] {
            assert_eq!(at(name), expected, "{name}");
        }
        let links = [("home/.away", "out"), ("home/.linked", "home/dotfiles")];
        let links = links.map(|(link, to)| (root.join(link), root.join(to)));
        assert_eq!(layout.readable_links, links.into());
    }
}
