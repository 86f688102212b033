//! What the judge is told about this machine.
//!
//! The engine is pure; this is where its questions are answered, with bounded looks at names and
//! small files. Nothing is opened that could hang, and nothing is changed.

mod git_helpers;
mod names;

use std::cell::RefCell;
use std::collections::HashMap;
use std::path::{Path, PathBuf};

use zero_policy::World;
use zero_sandbox::survey;

/// Folders and files looked at when something is sought beneath a folder.
const SOUGHT_MAX: usize = 20_000;
/// Entries of one folder that are looked at.
const FOLDER_ENTRIES_MAX: usize = 10_000;

/// This machine, seen for the length of one decision: what was looked up once is not looked up
/// again.
pub struct Machine<'a> {
    /// Folders in which programs are found, in order.
    search_path: &'a [PathBuf],
    programs: RefCell<HashMap<String, Option<PathBuf>>>,
    helpers: RefCell<HashMap<PathBuf, Vec<String>>>,
}

impl<'a> Machine<'a> {
    /// The machine as a process with this `PATH` sees it.
    pub fn new(search_path: &'a [PathBuf]) -> Self {
        Self { search_path, programs: RefCell::default(), helpers: RefCell::default() }
    }
}

impl World for Machine<'_> {
    fn canonical(&self, absolute: &Path) -> Option<PathBuf> {
        survey::canonical(absolute)
    }

    fn expand(&self, pattern: &str, most: usize) -> Option<Vec<PathBuf>> {
        names::expand(pattern, most)
    }

    fn git_helpers(&self, folder: &Path) -> Vec<String> {
        if let Some(known) = self.helpers.borrow().get(folder) {
            return known.clone();
        }
        let found = git_helpers::of(folder);
        self.helpers.borrow_mut().insert(folder.to_owned(), found.clone());
        found
    }

    fn program(&self, name: &str, folder: &Path) -> Option<PathBuf> {
        if name.is_empty() {
            return None;
        }
        if name.contains('/') {
            let path = folder.join(name);
            return survey::is_program(&path).then(|| survey::canonical(&path)).flatten();
        }
        if let Some(known) = self.programs.borrow().get(name) {
            return known.clone();
        }
        let found = self.search_path.iter().map(|folder| folder.join(name));
        let found =
            found.filter(|path| survey::is_program(path)).find_map(|path| survey::canonical(&path));
        self.programs.borrow_mut().insert(name.to_owned(), found.clone());
        found
    }

    fn find(&self, folder: &Path, wanted: &dyn Fn(&Path) -> bool) -> Option<PathBuf> {
        let mut open = vec![folder.to_owned()];
        let mut looked = 0usize;
        while let Some(folder) = open.pop() {
            for seen in survey::names(&folder, FOLDER_ENTRIES_MAX).unwrap_or_default() {
                looked += 1;
                if looked > SOUGHT_MAX {
                    return None;
                }
                if wanted(&seen.path) {
                    return Some(seen.path);
                }
                if seen.is_folder {
                    open.push(seen.path);
                }
            }
        }
        None
    }
}
