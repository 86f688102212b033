//! Files that a protected name leads to: with `.envrc -> conf/envrc`, a change of `conf/envrc` is a
//! change of `.envrc`.

use std::path::Path;
use std::rc::Rc;

use super::RequestEvaluator;
use super::link_targets::{ProtectedLink, ProtectedLinks};
use crate::machine::FolderMember;
use crate::protected_paths;

/// Most entries of one folder in which protected names are searched.
const FOLDER_ENTRIES_MAX: usize = 10_000;
/// Most entries of all protected folders of one folder that are searched for links.
const INNER_ENTRIES_MAX: usize = 4_096;
/// Deepest folder within a protected one that is searched: no setting lies deeper.
const INNER_DEPTH_MAX: usize = 3;

impl RequestEvaluator<'_> {
    /// Why a file of the workspace must not be changed without asking: a protected name in one of
    /// the folders above it, or in the home folder, leads to it.
    pub(super) fn find_protected_link(&self, canonical: &Path) -> Option<String> {
        let root = self.engine.places.roots.iter().find(|root| canonical.starts_with(root))?;
        let folders = canonical.ancestors().skip(1).take_while(|folder| folder.starts_with(root));
        let home = self.engine.places.home.as_deref();
        for folder in folders.chain(home) {
            let known = self.protected_links.borrow().get(folder).cloned();
            let found = known.unwrap_or_else(|| {
                let found = Rc::new(self.collect_protected_links(folder));
                self.protected_links.borrow_mut().insert(folder.to_owned(), Rc::clone(&found));
                found
            });
            // A folder cannot be replaced without its contents.
            let leads_here = |link: &&ProtectedLink| {
                canonical.starts_with(&link.target) || link.target.starts_with(canonical)
            };
            if let Some(ProtectedLink { name, why, .. }) = found.links.iter().find(leads_here) {
                return Some(format!("`{}` leads to it, {why}", name.display()));
            }
            if found.incomplete {
                let folder = folder.display();
                return Some(format!(
                    "`{folder}` has too many files to check which links lead to it"
                ));
            }
        }
        None
    }

    fn collect_protected_links(&self, folder: &Path) -> ProtectedLinks {
        let mut found = ProtectedLinks::default();
        let world = self.request.world;
        let Some(entries) = world.list_folder(folder, FOLDER_ENTRIES_MAX) else {
            found.incomplete = true;
            return found;
        };
        let mut room = INNER_ENTRIES_MAX;
        for entry in entries {
            for (name, why) in protected_paths::protected_entries_at(&entry.path) {
                let Some(target) = world.canonicalize(&name) else { continue };
                let is_link = target != name;
                // Everything is protected already, or nothing that is in the workspace.
                let searches = !folder.starts_with(&target) && self.is_inside(&target);
                if searches {
                    self.collect_inner_links(&target, why, INNER_DEPTH_MAX, &mut room, &mut found);
                }
                if is_link {
                    found.links.push(ProtectedLink { name, target, why });
                }
            }
        }
        found
    }

    /// Collects the links in a protected folder.
    fn collect_inner_links(
        &self,
        folder: &Path,
        why: &'static str,
        depth: usize,
        room: &mut usize,
        found: &mut ProtectedLinks,
    ) {
        let world = self.request.world;
        let Some(entries) = world.list_folder(folder, *room) else {
            found.incomplete = true;
            return;
        };
        *room -= entries.len();
        for FolderMember { path, is_folder, is_link } in entries {
            if is_link {
                if let Some(target) = world.canonicalize(&path) {
                    found.links.push(ProtectedLink { name: path, target, why });
                }
            } else if is_folder && depth > 0 {
                self.collect_inner_links(&path, why, depth - 1, room, found);
            }
        }
    }
}
