//! [`Workspace`]: the folders a session works in, and the only way from a written path to a
//! [`ResolvedPath`].

use std::ops::Deref;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{Mode, OFlags};
use zero_core::{ErrorReason, PathZone, TargetPath, ToolError};

use crate::canonical_path::{
    self, CanonicalPath, CanonicalPathError, FinalLinkMode, PATH_BYTES_MAX,
};
use crate::file_error;
use crate::open_beneath;
use crate::path_survey;
use crate::resolved_path::ResolvedPath;

/// An open folder with its canonical path. It stays the same folder if the path is renamed.
#[derive(Debug)]
pub(crate) struct WorkspaceRoot {
    pub(crate) path: PathBuf,
    pub(crate) dir: OwnedFd,
}

impl WorkspaceRoot {
    fn open(path: &Path) -> Result<Self, ToolError> {
        let shown = path.display().to_string();
        let found = canonical_path::canonicalize(Path::new("/"), path, FinalLinkMode::Follow)
            .map_err(|error| bad_path_error(&shown, &error))?;
        if !found.missing.is_empty() {
            let message =
                format!("workspace folder `{shown}` does not exist; create it or name another");
            return Err(
                ToolError::not_found(ErrorReason::BadPath, message).with_detail("file", shown)
            );
        }
        Self::open_existing(found, &shown)
    }

    /// Opens the part of the path that exists. The rest is missing below it, as in a path that is
    /// resolved from there.
    fn open_for_planning(path: &Path) -> Result<Self, ToolError> {
        let shown = path.display().to_string();
        let found = canonical_path::canonicalize(Path::new("/"), path, FinalLinkMode::Follow)
            .map_err(|error| bad_path_error(&shown, &error))?;
        Self::open_existing(found, &shown)
    }

    fn open_existing(found: CanonicalPath, shown: &str) -> Result<Self, ToolError> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        // Without following links, so that it is the folder of that path even if it is being
        // replaced now.
        let below = found.existing.strip_prefix("/").unwrap_or(&found.existing);
        let dir = rustix::fs::open("/", flags, Mode::empty())
            .and_then(|system| open_beneath::open(system, below, flags))
            .map_err(|errno| file_error::from_errno("open the workspace folder", shown, errno))?;
        let mut path = found.existing;
        path.extend(&found.missing);
        Ok(Self { path, dir })
    }
}

/// A root of the workspace, or one that was opened for a single call.
enum RootRef<'a> {
    Borrowed(&'a WorkspaceRoot),
    Owned(WorkspaceRoot),
}

impl Deref for RootRef<'_> {
    type Target = WorkspaceRoot;

    fn deref(&self) -> &WorkspaceRoot {
        match self {
            Self::Borrowed(root) => root,
            Self::Owned(root) => root,
        }
    }
}

/// How a written path is resolved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PathLookup {
    /// On disk. Each root exists and is held open, so that paths below it start there.
    FromRoots,
    /// On disk, starting at `/`, because a root may be missing.
    FromSystem,
    /// By its names alone, as if no file existed.
    Lexical,
}

/// The folders a session works in. Relative paths start in the first of them.
#[derive(Clone, Debug)]
pub struct Workspace {
    lookup: PathLookup,
    roots: Arc<[WorkspaceRoot]>,
    /// The folder of this session's oversized results: readable, never writable.
    spill: Option<Arc<Path>>,
    /// The root from which paths outside of the workspace are opened, once they are allowed.
    system: Arc<WorkspaceRoot>,
    home: Option<PathBuf>,
}

impl Workspace {
    /// Opens the folders. `home` is what `~` stands for; without it, `~` is refused.
    pub fn open(roots: &[PathBuf], home: Option<PathBuf>) -> Result<Self, ToolError> {
        Self::new(PathLookup::FromRoots, roots, home, WorkspaceRoot::open)
    }

    /// A workspace for calls that are planned and never run: its folders need not exist.
    pub fn for_planning(roots: &[PathBuf], home: Option<PathBuf>) -> Result<Self, ToolError> {
        Self::new(PathLookup::FromSystem, roots, home, WorkspaceRoot::open_for_planning)
    }

    /// A workspace for calls that are planned and never run, on a machine without files: the plans
    /// are the same everywhere. `roots` must be absolute and without `..`.
    pub fn on_empty_machine(roots: &[PathBuf], home: Option<PathBuf>) -> Result<Self, ToolError> {
        Self::new(PathLookup::Lexical, roots, home, |root| {
            Ok(WorkspaceRoot { path: root.to_owned(), ..WorkspaceRoot::open(Path::new("/"))? })
        })
    }

    fn new(
        lookup: PathLookup,
        roots: &[PathBuf],
        home: Option<PathBuf>,
        open_root: impl Fn(&Path) -> Result<WorkspaceRoot, ToolError>,
    ) -> Result<Self, ToolError> {
        if roots.is_empty() {
            return Err(ToolError::invalid(
                ErrorReason::BadPath,
                "a workspace needs at least one folder",
            ));
        }
        let roots: Vec<WorkspaceRoot> =
            roots.iter().map(|root| open_root(root)).collect::<Result<_, _>>()?;
        let system = Arc::new(WorkspaceRoot::open(Path::new("/"))?);
        Ok(Self { lookup, roots: roots.into(), spill: None, system, home })
    }

    /// The same workspace for a session whose oversized results are in `folder`, which need not
    /// exist yet.
    pub fn with_spill(&self, folder: &Path) -> Result<Self, ToolError> {
        let Some(folder) = path_survey::canonicalize(folder) else {
            let message = format!("`{}` cannot be resolved", folder.display());
            return Err(ToolError::invalid(ErrorReason::BadPath, message));
        };
        Ok(Self { spill: Some(folder.into()), ..self.clone() })
    }

    /// Canonical path of the first folder, where relative paths start.
    pub fn cwd(&self) -> &Path {
        &self.roots[0].path
    }

    /// Canonical paths of all folders.
    pub fn roots(&self) -> impl Iterator<Item = &Path> + Clone {
        self.roots.iter().map(|root| root.path.as_path())
    }

    /// A canonical path as it is shown to users and models, and as they can pass it back: relative
    /// to the first folder if it is inside, absolute otherwise.
    pub fn display_path(&self, canonical: &Path) -> String {
        match canonical.strip_prefix(self.cwd()) {
            Ok(relative) if relative.as_os_str().is_empty() => ".".to_owned(),
            Ok(relative) => relative.to_string_lossy().into_owned(),
            Err(_) => canonical.to_string_lossy().into_owned(),
        }
    }

    /// Resolves a written path and opens its folder.
    ///
    /// Everything that can make a path misleading is handled here, once: `~`, `..`, links, upper
    /// and lower case, composed characters. The meaning of the result cannot change any more.
    pub fn resolve(&self, written: &str, last: FinalLinkMode) -> Result<ResolvedPath, ToolError> {
        self.resolve_written(written, &self.expand(written)?, last)
    }

    /// Like [`Self::resolve`], for an absolute path that need not be UTF-8.
    pub fn resolve_path(
        &self,
        path: &Path,
        last: FinalLinkMode,
    ) -> Result<ResolvedPath, ToolError> {
        self.resolve_written(&path.to_string_lossy(), path, last)
    }

    fn resolve_written(
        &self,
        written: &str,
        path: &Path,
        last: FinalLinkMode,
    ) -> Result<ResolvedPath, ToolError> {
        let system = Path::new("/");
        let found = match self.lookup {
            // Below a root only the rest is resolved: the root's own path is canonical and held
            // open.
            PathLookup::FromRoots => {
                let below_root = self.roots.iter().find_map(|root| {
                    path.strip_prefix(&root.path).ok().map(|below| (root.path.as_path(), below))
                });
                let (start, below) = below_root.unwrap_or((system, path));
                canonical_path::canonicalize(start, below, last)
            }
            PathLookup::FromSystem => canonical_path::canonicalize(system, path, last),
            PathLookup::Lexical => Ok(canonical_path::normalize(path)),
        };
        let found = found.map_err(|error| bad_path_error(written, &error))?;
        let mut canonical = found.existing.clone();
        canonical.extend(&found.missing);
        let (root, zone) = self.root_for(&canonical);
        let target = TargetPath::new(written, canonical, zone);
        let shown = self.display_path(target.canonical());
        ResolvedPath::open(&root, target, shown, &found.existing, found.missing)
    }

    /// Turns a written path into an absolute one; links are not followed yet.
    fn expand(&self, written: &str) -> Result<PathBuf, ToolError> {
        let refuse = |why: String| {
            Err(ToolError::invalid(ErrorReason::BadPath, why).with_detail("file", written))
        };
        if written.is_empty() {
            return refuse("the path is empty; name a file or folder".to_owned());
        }
        if written.contains('\0') {
            return refuse("the path contains a NUL character".to_owned());
        }
        if written.len() > PATH_BYTES_MAX {
            return refuse(format!("the path is longer than {PATH_BYTES_MAX} bytes"));
        }
        if let Some(rest) = written.strip_prefix('~') {
            let below_home = rest.strip_prefix('/').or(rest.is_empty().then_some(rest));
            return match (below_home, &self.home) {
                (Some(below), Some(home)) => Ok(home.join(below)),
                (Some(_), None) => {
                    refuse("`~` cannot be resolved: no home folder is set".to_owned())
                }
                // `~x` is another user's home to a shell and a plain name to the kernel.
                (None, _) => {
                    refuse(format!("`{written}` is ambiguous; write `./{written}` or a full path"))
                }
            };
        }
        Ok(self.cwd().join(written))
    }

    fn root_for(&self, canonical: &Path) -> (RootRef<'_>, PathZone) {
        // Checked first, because zero's own folder may be in the workspace, such as when that is
        // the home folder.
        if let Some(spill) = self.spill.as_deref().filter(|spill| canonical.starts_with(spill)) {
            // Opened each time, since it may be created or removed. If its path leads elsewhere by
            // now, it is not the intended folder.
            let opened = WorkspaceRoot::open(spill).ok().filter(|root| root.path == *spill);
            let root = opened.map_or(RootRef::Borrowed(&self.system), RootRef::Owned);
            return (root, PathZone::Spill);
        }
        let innermost = self
            .roots
            .iter()
            .filter(|root| canonical.starts_with(&root.path))
            .max_by_key(|root| root.path.as_os_str().len());
        match innermost {
            Some(root) => (RootRef::Borrowed(root), PathZone::Workspace),
            None => (RootRef::Borrowed(&self.system), PathZone::Outside),
        }
    }
}

fn bad_path_error(written: &str, error: &CanonicalPathError) -> ToolError {
    match error {
        CanonicalPathError::System(errno) => file_error::from_errno("look up", written, *errno),
        CanonicalPathError::MagicLink => ToolError::invalid(
            ErrorReason::SpecialFile,
            format!("`{written}`: {error}; name the real path"),
        )
        .with_detail("file", written),
        CanonicalPathError::TooManyLinks | CanonicalPathError::DotsBelowMissing => {
            ToolError::invalid(
                ErrorReason::BadPath,
                format!("`{written}` cannot be resolved: {error}"),
            )
            .with_detail("file", written)
        }
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::disallowed_methods, reason = "tests set up real files")]
    use super::*;
    use std::os::unix::fs::symlink;

    struct WorkspaceFixture {
        temp: tempfile::TempDir,
        workspace: Workspace,
    }

    impl WorkspaceFixture {
        fn new() -> Self {
            let temp = tempfile::tempdir().unwrap();
            for folder in ["one/sub", "two", "home", "elsewhere"] {
                std::fs::create_dir_all(temp.path().join(folder)).unwrap();
            }
            std::fs::write(temp.path().join("elsewhere/secret"), "s").unwrap();
            symlink("../elsewhere", temp.path().join("one/leak")).unwrap();
            symlink("../two", temp.path().join("one/other")).unwrap();
            let roots = [temp.path().join("one"), temp.path().join("two")];
            let workspace = Workspace::open(&roots, Some(temp.path().join("home"))).unwrap();
            Self { temp, workspace }
        }

        #[track_caller]
        fn check(&self, written: &str, expected: &str) {
            let base = self.temp.path().canonicalize().unwrap();
            let shown = match self.workspace.resolve(written, FinalLinkMode::Follow) {
                Ok(located) => {
                    let target = located.target();
                    let path = target.canonical().strip_prefix(&base).unwrap_or(target.canonical());
                    format!("{:?} {}", target.zone(), path.display())
                }
                Err(error) => format!("{:?}", error.reason().unwrap()),
            };
            assert_eq!(shown, expected, "{written}");
        }
    }

    #[test]
    fn paths_are_judged_by_what_they_denote() {
        let f = WorkspaceFixture::new();
        f.check("sub/new.txt", "Workspace one/sub/new.txt");
        f.check("../two/x", "Workspace two/x");
        f.check("other/x", "Workspace two/x");
        f.check("leak/secret", "Outside elsewhere/secret");
        f.check("../elsewhere/secret", "Outside elsewhere/secret");
        f.check("~/notes", "Outside home/notes");
        f.check("/etc/hostname", "Outside /etc/hostname");
        f.check("/proc/self/root/etc/passwd", "SpecialFile");
        f.check("/proc/self/environ", "SpecialFile");
        f.check("~root/x", "BadPath");
        f.check("", "BadPath");
        f.check("a\0b", "BadPath");
    }

    #[test]
    fn sibling_with_root_as_name_prefix_is_outside() {
        let f = WorkspaceFixture::new();
        std::fs::create_dir(f.temp.path().join("one-more")).unwrap();
        f.check("../one-more/x", "Outside one-more/x");
    }

    #[test]
    fn spill_folder_has_own_path_zone() {
        let f = WorkspaceFixture::new();
        let spill = f.temp.path().join("elsewhere");
        let workspace = f.workspace.with_spill(&spill).unwrap();
        let located = workspace
            .resolve(spill.join("secret").to_str().unwrap(), FinalLinkMode::Follow)
            .unwrap();
        assert_eq!(located.target().zone(), PathZone::Spill);
    }

    #[test]
    fn spilled_results_resolve_once_created() {
        let f = WorkspaceFixture::new();
        let spill = f.temp.path().canonicalize().unwrap().join("state/spill/x");
        let workspace = f.workspace.with_spill(&spill).unwrap();
        let written = spill.join("a.txt");
        let locate =
            || workspace.resolve(written.to_str().unwrap(), FinalLinkMode::Follow).unwrap();
        assert_eq!(locate().target().zone(), PathZone::Spill);
        assert!(locate().open_file().is_err());
        std::fs::create_dir_all(&spill).unwrap();
        std::fs::write(&written, "all of it").unwrap();
        let located = locate();
        assert_eq!(located.target().zone(), PathZone::Spill);
        assert_eq!(std::io::read_to_string(located.open_file().unwrap()).unwrap(), "all of it");
        // The folder is removed, and created again.
        std::fs::rename(&spill, spill.with_file_name("gone")).unwrap();
        std::fs::create_dir_all(&spill).unwrap();
        std::fs::write(&written, "new").unwrap();
        assert_eq!(std::io::read_to_string(locate().open_file().unwrap()).unwrap(), "new");
        // A link in place of the folder does not count as the folder.
        let moved = f.workspace.with_spill(&spill.with_file_name("y")).unwrap();
        symlink(&spill, spill.with_file_name("y")).unwrap();
        let behind = spill.with_file_name("y").join("a.txt");
        let behind = moved.resolve(behind.to_str().unwrap(), FinalLinkMode::Follow).unwrap();
        assert_eq!(behind.target().zone(), PathZone::Outside);
    }

    #[test]
    fn calls_are_planned_in_folders_that_do_not_exist() {
        let f = WorkspaceFixture::new();
        let base = f.temp.path().canonicalize().unwrap();
        let roots = [f.temp.path().join("one/leak/new/app")];
        let workspace = Workspace::for_planning(&roots, None).unwrap();
        assert_eq!(workspace.cwd(), base.join("elsewhere/new/app"));
        for (written, path) in [("a", "elsewhere/new/app/a"), (".", "elsewhere/new/app")] {
            let located = workspace.resolve(written, FinalLinkMode::Follow).unwrap();
            assert_eq!(located.target().canonical(), base.join(path), "{written}");
            assert_eq!(located.target().zone(), PathZone::Workspace, "{written}");
            assert!(located.facts().unwrap().is_none(), "{written}");
        }
        let elsewhere = f.temp.path().join("one/other/x");
        let located = workspace.resolve_path(&elsewhere, FinalLinkMode::Follow).unwrap();
        assert_eq!(located.target().canonical(), base.join("two/x"));
        assert_eq!(located.target().zone(), PathZone::Outside);
    }

    #[test]
    fn empty_machine_follows_no_link() {
        let f = WorkspaceFixture::new();
        let base = f.temp.path().canonicalize().unwrap();
        let home = base.join("home");
        let workspace = Workspace::on_empty_machine(&[base.join("one")], Some(home)).unwrap();
        for (written, zone, path) in [
            ("leak/secret", PathZone::Workspace, "one/leak/secret"),
            (".", PathZone::Workspace, "one"),
            ("none/../../two/x", PathZone::Outside, "two/x"),
            ("~/notes", PathZone::Outside, "home/notes"),
        ] {
            let located = workspace.resolve(written, FinalLinkMode::Follow).unwrap();
            assert_eq!(located.target().canonical(), base.join(path), "{written}");
            assert_eq!(located.target().zone(), zone, "{written}");
        }
        let system = workspace.resolve("/", FinalLinkMode::Follow).unwrap();
        assert_eq!(system.target().canonical(), Path::new("/"));
    }

    #[test]
    fn missing_workspace_root_is_reported() {
        let error = Workspace::open(&[PathBuf::from("/nonexistent/x")], None).unwrap_err();
        assert!(error.message.contains("does not exist"), "{error}");
    }
}
