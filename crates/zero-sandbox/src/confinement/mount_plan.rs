//! Translates a [`PathLayout`] into a [`MountPlan`]: the mounts of a sandbox and the arguments for
//! bubblewrap.
//!
//! First the whole file system read-only, then the mounts that belong to the sandbox, then the
//! paths of the profile from the top down, so that inner paths are mounted on outer ones.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::host_sockets::HostSockets;
use super::path_layout::{PathAccess, PathLayout, PlaceholderKind};
use super::placeholders::Placeholders;
use crate::profile::SandboxProfile;

/// The sandbox's own `/tmp`.
pub(crate) const TMP: &str = "/tmp";

/// Where services of the host listen. Only the paths in [`RUN_VISIBLE`] are visible in a sandbox.
pub(crate) const RUN: &str = "/run";

/// Parts of [`RUN`] that contain files and no services: what programs need to find libraries and
/// name servers, and the users' disks.
pub(crate) const RUN_VISIBLE: &[&str] = &[
    "/run/current-system",
    "/run/opengl-driver",
    "/run/booted-system",
    "/run/media",
    "/run/systemd/resolve/resolv.conf",
    "/run/systemd/resolve/stub-resolv.conf",
    "/run/resolvconf",
    "/run/NetworkManager/resolv.conf",
];

/// How often to create folders that another command removes meanwhile.
const PLACEHOLDER_TRIES_MAX: usize = 8;

/// Most files that are hidden one by one: for each, bubblewrap goes through all mounts.
pub(crate) const HIDDEN_MAX: usize = 512;

/// What is mounted where. Two equal plans have the same result on an unchanged host.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct MountPlan {
    args: Vec<BubblewrapArg>,
    /// What is mounted at paths of the profile and of the host.
    tree: BTreeMap<PathBuf, MountKind>,
    /// Those in the host's `/tmp` that are visible in the private one.
    shown_in_tmp: Vec<PathBuf>,
}

/// One argument for bubblewrap.
#[derive(Debug, PartialEq, Eq)]
enum BubblewrapArg {
    Word(OsString),
    /// The descriptor number of an empty file, which is mounted over a hidden one.
    EmptyFile,
}

/// What is mounted at a path, from the least to the most strict.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) enum MountKind {
    /// The path itself, writable.
    Open,
    /// The path itself, read-only.
    ReadOnly,
    /// An empty file without permissions.
    HiddenFile,
    /// An empty folder.
    HiddenFolder,
}

impl MountPlan {
    /// Translates `layout` into mounts. Creates nothing on the host.
    pub(crate) fn new(
        profile: &SandboxProfile,
        folder: &Path,
        layout: &PathLayout,
        sockets: &HostSockets,
    ) -> io::Result<Self> {
        let mut tree = MountTree { layout, mounts: BTreeMap::new() };
        tree.add_profile_paths();
        for (path, ..) in missing_paths(layout) {
            tree.mount_and_pin(path, MountKind::ReadOnly);
        }
        for socket in sockets.existing() {
            if !tree.is_hidden(socket) {
                tree.mount_and_pin(socket, MountKind::HiddenFile);
            }
        }
        // Links are followed here, and nowhere later.
        let folder = &folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
        if tree.is_hidden(folder) && layout.access_at(folder).is_none() {
            tree.insert_strictest(folder, MountKind::ReadOnly);
            tree.hide_masked_in(folder);
            for socket in sockets.existing().filter(|socket| socket.starts_with(folder)) {
                tree.insert_strictest(socket, MountKind::HiddenFile);
            }
        }
        let hidden = tree.mounts.values().filter(|mount| **mount == MountKind::HiddenFile).count();
        if hidden > HIDDEN_MAX {
            let why = format!(
                "more than {HIDDEN_MAX} files would have to be hidden one by one: deny reading \
                 whole folders instead of the files in them, or fewer files"
            );
            return Err(io::Error::other(why));
        }
        let shown = tree.mounts.keys().filter(|path| tree.is_shown_in_tmp(path));
        let shown_in_tmp = shown.cloned().collect();
        let mut mounts = Self { args: Vec::new(), tree: BTreeMap::new(), shown_in_tmp };
        mounts.push_own_mounts(profile);
        let links = layout.readable_links.iter().filter(|(link, _)| tree.is_mask_mounted(link));
        mounts.push_tree(&tree.mounts, links);
        mounts.tree = tree.mounts;
        Ok(mounts)
    }

    /// Creates placeholders for missing paths, and shares those of other commands.
    pub(crate) fn create_placeholders(
        &self,
        profile: &SandboxProfile,
        layout: &PathLayout,
        placeholders: &mut Placeholders,
    ) -> io::Result<()> {
        // A masked path may be a placeholder too: if it is missing, commands must not create it
        // either.
        for path in
            layout.paths_with(PathAccess::Protected).chain(layout.paths_with(PathAccess::Masked))
        {
            placeholders.share(path, layout.writable_folder_above(path).unwrap_or(path))?;
        }
        for (path, root, stand_in) in missing_paths(layout) {
            placeholders.share_above(path, root)?;
            placeholders.create(path, stand_in)?;
        }
        for path in &self.shown_in_tmp {
            create_tmp_folders(path, &profile.tmp, placeholders)?;
        }
        Ok(())
    }

    /// The arguments for bubblewrap, and the empty files that they name by descriptor number.
    #[expect(clippy::disallowed_methods, reason = "the null device is not a user's file")]
    pub(crate) fn args(&self) -> io::Result<(Vec<OsString>, Vec<OwnedFd>)> {
        let mut empty_files = Vec::new();
        let mut args = Vec::with_capacity(self.args.len());
        for arg in &self.args {
            args.push(match arg {
                BubblewrapArg::Word(word) => word.clone(),
                BubblewrapArg::EmptyFile => {
                    let file = OwnedFd::from(File::open("/dev/null")?);
                    let number = file.as_raw_fd().to_string();
                    empty_files.push(file);
                    number.into()
                }
            });
        }
        Ok((args, empty_files))
    }

    /// The paths of the profile and of the host at which something is mounted.
    pub(crate) fn paths(&self) -> impl Iterator<Item = &Path> {
        self.iter().map(|(path, _)| path)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&Path, MountKind)> {
        self.tree.iter().map(|(path, mount)| (path.as_path(), *mount))
    }

    fn push<const N: usize>(&mut self, args: [&dyn AsBubblewrapArg; N]) {
        self.args.extend(args.iter().map(|arg| BubblewrapArg::Word(arg.as_arg())));
    }

    /// Adds the mounts that belong to the sandbox.
    fn push_own_mounts(&mut self, profile: &SandboxProfile) {
        self.push([&"--perms", &"0755", &"--tmpfs", &RUN]);
        for kept in RUN_VISIBLE {
            self.push([&"--ro-bind-try", kept, kept]);
        }
        self.push([&"--bind", &profile.tmp.as_path(), &TMP]);
    }

    fn push_tree<'a>(
        &mut self,
        mounts: &BTreeMap<PathBuf, MountKind>,
        links: impl Iterator<Item = (&'a PathBuf, &'a PathBuf)>,
    ) {
        for (path, mount) in mounts {
            let path = &path.as_path();
            match mount {
                MountKind::Open => self.push([&"--bind", path, path]),
                MountKind::ReadOnly => self.push([&"--ro-bind", path, path]),
                MountKind::HiddenFolder => {
                    // Empty and not closed: programs look for optional files in it, and complain if
                    // they may not even look.
                    self.push([&"--perms", &"0555", &"--tmpfs", path]);
                }
                MountKind::HiddenFile => {
                    self.push([&"--perms", &"0000", &"--ro-bind-data"]);
                    self.args.push(BubblewrapArg::EmptyFile);
                    self.push([path]);
                }
            }
        }
        for (link, target) in links {
            self.push([&"--symlink", &target.as_path(), &link.as_path()]);
        }
        // Only now, because inner mount points had to be created there.
        let hidden = mounts.iter().filter(|(_, mount)| **mount == MountKind::HiddenFolder);
        for (path, _) in hidden {
            self.push([&"--remount-ro", &path.as_path()]);
        }
        self.push([&"--remount-ro", &RUN]);
        // Root owns the kernel's settings in it, and needs no capability to write to them.
        self.push([&"--remount-ro", &"/proc"]);
    }
}

/// The missing paths in writable folders, which commands must not create, each with its writable
/// folder.
pub(crate) fn missing_paths(
    layout: &PathLayout,
) -> impl Iterator<Item = (&Path, &Path, PlaceholderKind)> {
    layout.missing.iter().filter_map(|(path, stand_in)| {
        layout.writable_folder_above(path).map(|root| (path.as_path(), root, *stand_in))
    })
}

/// Creates the folders in the private `/tmp` on which a folder of the host is mounted, as
/// placeholders that are removed when no command needs them any more.
fn create_tmp_folders(path: &Path, tmp: &Path, placeholders: &mut Placeholders) -> io::Result<()> {
    let Ok(below) = path.strip_prefix(TMP) else { return Ok(()) };
    for _ in 0..PLACEHOLDER_TRIES_MAX {
        match create_each_tmp_folder(below, tmp, placeholders) {
            // Another command has just ended and removed a folder.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            created => return created,
        }
    }
    create_each_tmp_folder(below, tmp, placeholders)
}

fn create_each_tmp_folder(
    below: &Path,
    tmp: &Path,
    placeholders: &mut Placeholders,
) -> io::Result<()> {
    let mut at = tmp.canonicalize()?;
    for part in below.components() {
        at.push(part);
        match at.symlink_metadata() {
            // Of another command, or of one that ended without removing it.
            Ok(facts) if facts.is_dir() => placeholders.share_folder(&at)?,
            Ok(_) => {
                let why = format!(
                    "`{}` is in the way of a folder of the workspace: remove it",
                    at.display()
                );
                return Err(io::Error::new(io::ErrorKind::AlreadyExists, why));
            }
            Err(_) => placeholders.create(&at, PlaceholderKind::Folder)?,
        }
    }
    Ok(())
}

/// A type that can be passed as an argument.
trait AsBubblewrapArg {
    fn as_arg(&self) -> OsString;
}

impl AsBubblewrapArg for &str {
    fn as_arg(&self) -> OsString {
        (*self).into()
    }
}

impl AsBubblewrapArg for &Path {
    fn as_arg(&self) -> OsString {
        (*self).into()
    }
}

/// The mounts by path, outer paths first.
struct MountTree<'a> {
    layout: &'a PathLayout,
    mounts: BTreeMap<PathBuf, MountKind>,
}

impl MountTree<'_> {
    fn add_profile_paths(&mut self) {
        for (path, access) in self.layout.entries() {
            let above = self.layout.access_above(path).map(|(_, access)| access);
            match access {
                PathAccess::Readable if self.is_mask_mounted(path) || self.is_private(path) => {
                    self.insert_strictest(path, MountKind::ReadOnly)
                }
                PathAccess::Readable => {}
                PathAccess::Writable => self.insert_strictest(path, MountKind::Open),
                // Paths that cannot be written, or not even seen, are protected already.
                PathAccess::Protected if above != Some(PathAccess::Writable) => {}
                PathAccess::Protected => self.mount_and_pin(path, MountKind::ReadOnly),
                PathAccess::Masked if above == Some(PathAccess::Masked) => {}
                PathAccess::Masked if above.is_none() && self.is_hidden(path) => {}
                PathAccess::Masked if path.is_dir() => {
                    self.mount_and_pin(path, MountKind::HiddenFolder)
                }
                PathAccess::Masked => self.mount_and_pin(path, MountKind::HiddenFile),
            }
        }
    }

    /// Hides the masked paths in a folder that becomes visible.
    fn hide_masked_in(&mut self, folder: &Path) {
        for path in
            self.layout.paths_with(PathAccess::Masked).filter(|path| path.starts_with(folder))
        {
            if self.layout.access_above(path).is_none() {
                let mount =
                    if path.is_dir() { MountKind::HiddenFolder } else { MountKind::HiddenFile };
                self.insert_strictest(path, mount);
            }
        }
    }

    /// Mounts at `path`, and pins every folder between it and the writable one.
    ///
    /// A folder that contains a mount point can be renamed, and the mount moves with it. A folder
    /// that is itself a mount point cannot be renamed.
    fn mount_and_pin(&mut self, path: &Path, mount: MountKind) {
        if let Some(root) = self.layout.writable_folder_above(path) {
            for folder in path.ancestors().skip(1).take_while(|folder| *folder != root) {
                self.insert_strictest(folder, MountKind::Open);
            }
        }
        self.insert_strictest(path, mount);
    }

    fn insert_strictest(&mut self, path: &Path, mount: MountKind) {
        let there = self.mounts.entry(path.to_owned()).or_insert(mount);
        *there = (*there).max(mount);
    }

    /// Whether it is the outermost folder of the host's `/tmp` that is visible in the private one.
    fn is_shown_in_tmp(&self, path: &Path) -> bool {
        let mut above = path.ancestors().skip(1);
        path != Path::new(TMP)
            && path.starts_with(TMP)
            && !above.any(|folder| self.mounts.contains_key(folder))
    }

    /// Whether an empty folder is mounted above it, in which it has to be made visible.
    fn is_mask_mounted(&self, path: &Path) -> bool {
        let mut above = path.ancestors().skip(1).filter_map(|folder| self.mounts.get(folder));
        above.next() == Some(&MountKind::HiddenFolder)
    }

    /// Whether it is a folder of the host where the sandbox has a folder of its own instead.
    fn is_private(&self, path: &Path) -> bool {
        let is_mounted = path.ancestors().skip(1).any(|folder| self.mounts.contains_key(folder));
        !is_mounted && [TMP, RUN].iter().any(|own| path.starts_with(own)) && path.is_dir()
    }

    /// Whether it is in a folder of the host that the sandbox does not show.
    fn is_hidden(&self, path: &Path) -> bool {
        match self.layout.access_above(path) {
            Some((_, access)) => access == PathAccess::Masked,
            None => [TMP, RUN, "/dev", "/proc"].iter().any(|own| path.starts_with(own)),
        }
    }
}
