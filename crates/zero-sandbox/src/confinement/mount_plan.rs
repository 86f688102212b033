//! A layout as a tree of mounts: the arguments for bubblewrap.
//!
//! The whole tree read-only first, then what is the child's own, then the profile's paths from the
//! top down, so that what lies further in is mounted on what lies above it.

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

/// The child's own `/tmp`.
pub(crate) const TMP: &str = "/tmp";

/// Where services of the host listen. Nothing of it is the child's business but the few below.
pub(crate) const RUN: &str = "/run";

/// Parts of [`RUN`] that hold files and not services: what systems keep there that programs need
/// to find libraries and name servers, and people's disks.
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

/// How often folders are made that another command takes away meanwhile.
const PLACEHOLDER_TRIES_MAX: usize = 8;

/// More files than this are not hidden one by one: bubblewrap looks at every mount for each.
pub(crate) const HIDDEN_MAX: usize = 512;

/// What is mounted where. Two that are the same make the same of a host that is the same.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct MountPlan {
    args: Vec<BubblewrapArg>,
    /// What is mounted at paths of the profile and of the host.
    tree: BTreeMap<PathBuf, MountKind>,
    /// Those of them in the host's `/tmp` that are shown in the private one.
    shown_in_tmp: Vec<PathBuf>,
}

/// One argument for bubblewrap.
#[derive(Debug, PartialEq, Eq)]
enum BubblewrapArg {
    Word(OsString),
    /// The number of an empty file, which is mounted over a hidden one.
    EmptyFile,
}

/// What is mounted at a path. The strictest comes last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) enum MountKind {
    /// What is there, for writing.
    Open,
    /// What is there, for reading.
    ReadOnly,
    /// An empty file that nobody may read.
    HiddenFile,
    /// An empty folder that nobody may list.
    HiddenFolder,
}

impl MountPlan {
    /// Says `layout` in mounts. Makes nothing yet.
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
        mounts.push_tree(&tree.mounts);
        mounts.tree = tree.mounts;
        Ok(mounts)
    }

    /// Makes what stands in for what is missing, and shares what others made.
    pub(crate) fn create_placeholders(
        &self,
        profile: &SandboxProfile,
        layout: &PathLayout,
        placeholders: &mut Placeholders,
    ) -> io::Result<()> {
        // What is hidden may be ours too: where it is missing, it must not be created either.
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

    /// The arguments for bubblewrap, and the empty files they name by number.
    #[expect(clippy::disallowed_methods, reason = "the empty device is no person's file")]
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

    /// What is mounted there.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&Path, MountKind)> {
        self.tree.iter().map(|(path, mount)| (path.as_path(), *mount))
    }

    fn push<const N: usize>(&mut self, args: [&dyn AsBubblewrapArg; N]) {
        self.args.extend(args.iter().map(|arg| BubblewrapArg::Word(arg.as_arg())));
    }

    /// What is the child's own.
    fn push_own_mounts(&mut self, profile: &SandboxProfile) {
        self.push([&"--perms", &"0755", &"--tmpfs", &RUN]);
        for kept in RUN_VISIBLE {
            self.push([&"--ro-bind-try", kept, kept]);
        }
        self.push([&"--bind", &profile.tmp.as_path(), &TMP]);
    }

    fn push_tree(&mut self, mounts: &BTreeMap<PathBuf, MountKind>) {
        for (path, mount) in mounts {
            let path = &path.as_path();
            match mount {
                MountKind::Open => self.push([&"--bind", path, path]),
                MountKind::ReadOnly => self.push([&"--ro-bind", path, path]),
                MountKind::HiddenFolder => {
                    // Where something further in is shown, the way there must be open.
                    let inner = mounts.keys().any(|other| other != path && other.starts_with(path));
                    let mode = if inner { "0111" } else { "0000" };
                    self.push([&"--perms", &mode, &"--tmpfs", path]);
                }
                MountKind::HiddenFile => {
                    self.push([&"--perms", &"0000", &"--ro-bind-data"]);
                    self.args.push(BubblewrapArg::EmptyFile);
                    self.push([path]);
                }
            }
        }
        // Only now, because what lies further in had to be put there.
        let hidden = mounts.iter().filter(|(_, mount)| **mount == MountKind::HiddenFolder);
        for (path, _) in hidden {
            self.push([&"--remount-ro", &path.as_path()]);
        }
        self.push([&"--remount-ro", &RUN]);
        // Root owns the kernel's settings in it, and needs no capability to write to them.
        self.push([&"--remount-ro", &"/proc"]);
    }
}

/// What is missing and must not be created: in a folder where it could be.
pub(crate) fn missing_paths(
    layout: &PathLayout,
) -> impl Iterator<Item = (&Path, &Path, PlaceholderKind)> {
    layout.missing.iter().filter_map(|(path, stand_in)| {
        layout.writable_folder_above(path).map(|root| (path.as_path(), root, *stand_in))
    })
}

/// Makes the folders in the private `/tmp` on which a folder of the host's is mounted, so that they
/// go when nobody needs them any more.
fn create_tmp_folders(path: &Path, tmp: &Path, placeholders: &mut Placeholders) -> io::Result<()> {
    let Ok(below) = path.strip_prefix(TMP) else { return Ok(()) };
    for _ in 0..PLACEHOLDER_TRIES_MAX {
        match create_each_tmp_folder(below, tmp, placeholders) {
            // Another command has just ended and taken a folder along.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            stood => return stood,
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
            // Of another command, or of one that ended without taking it away.
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

/// Something that can be an argument.
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

/// The mounts, by path: those above before those beneath.
struct MountTree<'a> {
    layout: &'a PathLayout,
    mounts: BTreeMap<PathBuf, MountKind>,
}

impl MountTree<'_> {
    fn add_profile_paths(&mut self) {
        for (path, said) in self.layout.entries() {
            let above = self.layout.access_above(path).map(|(_, said)| said);
            match said {
                PathAccess::Writable => self.insert_strictest(path, MountKind::Open),
                // What nobody may write to, or even see, is protected already.
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

    /// Hides what is masked in a folder that comes into sight.
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

    /// Mounts at `path`, and holds every folder between it and the writable one in place.
    ///
    /// A folder can be renamed although something is mounted further in, and everything moves
    /// along. One on which something is mounted itself cannot.
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

    /// Whether it is the outermost folder of the host's `/tmp` that is shown in the private one.
    fn is_shown_in_tmp(&self, path: &Path) -> bool {
        let mut above = path.ancestors().skip(1);
        path != Path::new(TMP)
            && path.starts_with(TMP)
            && !above.any(|folder| self.mounts.contains_key(folder))
    }

    /// Whether it lies in a folder of the host that the child does not see.
    fn is_hidden(&self, path: &Path) -> bool {
        match self.layout.access_above(path) {
            Some((_, said)) => said == PathAccess::Masked,
            None => [TMP, RUN, "/dev", "/proc"].iter().any(|own| path.starts_with(own)),
        }
    }
}
