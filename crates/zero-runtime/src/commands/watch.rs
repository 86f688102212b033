//! What is looked after once a command has ended: files that it may not make.
//!
//! The kernel can only refuse a name by something that stands in its place, and an empty `.vscode`
//! misleads whoever lists the folder. So most names that decide what runs later are looked at when
//! nothing of the command is left. One that was not there before is taken away again, and kept: it
//! may be a person's, who made it meanwhile.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use zero_sandbox::kept::{self, Kept, Standing};
use zero_sandbox::survey;

use super::profile::{Repositories, repositories};
use crate::machine;

/// What a link to a repository and a pointer in one are.
const REPOSITORY: &str = "a file that says where the repository is";
/// Set by git itself in the repository of a submodule.
const OF_SUBMODULES: &str = "core.worktree";

/// What commands that run now may not make, and how many of them each path is watched for.
///
/// A command that begins while another runs may find what that one made, which looks as if it had
/// always been there. Once it is taken away, the later command must not make it again.
#[derive(Debug, Default)]
pub(super) struct Live {
    missing: Mutex<BTreeMap<PathBuf, usize>>,
}

impl Live {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<PathBuf, usize>> {
        self.missing.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What was there before a command, to be compared with what is there after it.
#[derive(Debug)]
pub(crate) struct Watch {
    roots: Vec<PathBuf>,
    watched: Vec<Watched>,
    /// What is there because another command made it, which is to take it away.
    inherited: Vec<Watched>,
    live: Arc<Live>,
    work_folders: BTreeSet<PathBuf>,
    git_folders: BTreeSet<PathBuf>,
    kept: Kept,
}

/// A path that commands may not make.
#[derive(Clone, Debug)]
pub(super) struct Watched {
    pub(super) root: PathBuf,
    pub(super) relative: PathBuf,
    pub(super) why: &'static str,
    /// What was there: nothing, or a link.
    pub(super) before: Standing,
}

/// What was found once a command had ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settled {
    /// What was taken away.
    pub taken_away: Vec<TakenAway>,
    /// What a person should look at.
    pub warnings: Vec<String>,
}

/// Something that a command may not make, and made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TakenAway {
    /// Where it was.
    pub path: PathBuf,
    /// Where it lies now.
    pub kept_at: PathBuf,
    /// What it is.
    pub why: String,
}

impl Watched {
    fn path(&self) -> PathBuf {
        self.root.join(&self.relative)
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let mut missing = self.live.lock();
        for watched in self.watched.iter().chain(&self.inherited) {
            let path = watched.path();
            if let Some(count) = missing.get_mut(&path) {
                *count -= 1;
                if *count == 0 {
                    missing.remove(&path);
                }
            }
        }
    }
}

impl Watch {
    pub(super) fn new(
        roots: Vec<PathBuf>,
        mut watched: Vec<Watched>,
        held: Vec<Watched>,
        git: &Repositories,
        (kept, live): (Kept, Arc<Live>),
    ) -> Self {
        let in_folder =
            |path: &PathBuf| Some((path.parent()?.to_owned(), PathBuf::from(path.file_name()?)));
        let links = git.links.iter().filter_map(in_folder);
        let of_git = git.missing.iter().cloned().chain(links);
        watched.extend(of_git.map(|(root, relative)| {
            let before = kept::look(&root, &relative);
            Watched { root, relative, why: REPOSITORY, before }
        }));
        let (work_folders, git_folders) = (git.work_folders.clone(), git.git_folders.clone());
        let mut missing = live.lock();
        let is_new = |held: &Watched| missing.contains_key(&held.path());
        let of_git = git.held.iter().filter_map(in_folder).map(|(root, relative)| Watched {
            root,
            relative,
            why: REPOSITORY,
            before: Standing::Missing,
        });
        let inherited: Vec<Watched> = held.into_iter().chain(of_git).filter(is_new).collect();
        for watched in watched.iter().chain(&inherited) {
            *missing.entry(watched.path()).or_default() += 1;
        }
        drop(missing);
        Self { roots, watched, inherited, live, work_folders, git_folders, kept }
    }

    /// Takes away what must not be there. To be called when nothing of the command is left.
    pub(crate) fn settle(&self) -> Settled {
        let mut settled = Settled::default();
        for watched in &self.watched {
            self.settle_one(watched, &mut settled);
        }
        for watched in &self.inherited {
            // Whoever has watched it from the start tells more about it.
            let is_last = self.live.lock().get(&watched.path()).is_none_or(|count| *count <= 1);
            if is_last {
                self.settle_one(watched, &mut settled);
            }
        }
        settled.warnings.extend(self.new_repositories());
        settled
    }

    fn settle_one(&self, watched: &Watched, settled: &mut Settled) {
        let Watched { root, relative, why, before } = watched;
        let after = kept::look(root, relative);
        if after == *before {
            return;
        }
        let at = match (before, &after) {
            // The way is barred by a link that was there, now by something else or nothing.
            (Standing::Link { at, .. }, _) => at,
            (_, Standing::There) => relative,
            (_, Standing::Link { at, .. })
                if at == relative || survey::exists(&root.join(relative)) =>
            {
                at
            }
            _ => return,
        };
        if survey::exists(&root.join(at)) {
            match self.kept.take(root, at) {
                Ok(kept_at) => settled.taken_away.push(TakenAway {
                    path: root.join(at),
                    kept_at,
                    why: (*why).to_owned(),
                }),
                Err(error) => {
                    settled.warnings.push(format!(
                        "`{}` is {why}, which commands may not create, and it cannot be taken away ({error}); look at it before you go on",
                        root.join(at).display()
                    ));
                    return;
                }
            }
        }
        if let Standing::Link { at, target } = before {
            let shown = root.join(at);
            let (shown, target_shown) = (shown.display(), target.display());
            settled.warnings.push(match kept::put_link(root, at, target) {
                Ok(()) => format!("the link `{shown}` to `{target_shown}` was put back; commands may not replace it"),
                Err(error) => format!("the link `{shown}` to `{target_shown}` is gone and cannot be put back ({error})"),
            });
        }
    }

    /// Repositories that came to be and would run code of their own.
    fn new_repositories(&self) -> Vec<String> {
        let now = repositories(&self.roots);
        let new = now.work_folders.difference(&self.work_folders);
        let of_new = new.flat_map(|folder| machine::git_folders_of(folder));
        let folders: BTreeSet<PathBuf> = of_new
            .filter_map(|git| survey::canonical(&git))
            .chain(now.git_folders.iter().cloned())
            .filter(|git| !self.git_folders.contains(git))
            .collect();
        folders.iter().filter_map(|git| warning(git)).collect()
    }
}

fn warning(git: &Path) -> Option<String> {
    let mut helpers = machine::git_helpers_of(git);
    let is_submodule = git.components().any(|part| part.as_os_str() == "modules");
    helpers.retain(|helper| !(is_submodule && helper == OF_SUBMODULES));
    (!helpers.is_empty()).then(|| {
        format!(
            "the new repository in `{}` runs code of its own ({}); look before you run git there yourself",
            git.display(),
            helpers.join(", ")
        )
    })
}

#[cfg(test)]
mod tests {
    #![expect(clippy::disallowed_methods, reason = "tests set up real files")]
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;
    use zero_sandbox::StateDir;

    struct Place {
        temp: tempfile::TempDir,
    }

    impl Place {
        fn new() -> Self {
            let temp = tempfile::tempdir().unwrap();
            for folder in ["work/shared", "outside/workflows"] {
                fs::create_dir_all(temp.path().join(folder)).unwrap();
            }
            Self { temp }
        }

        fn path(&self, name: &str) -> PathBuf {
            self.temp.path().canonicalize().unwrap().join(name)
        }

        fn watch(&self, names: &[&str]) -> Watch {
            self.watch_beside(names, &Arc::default())
        }

        fn watch_beside(&self, names: &[&str], live: &Arc<Live>) -> Watch {
            let root = self.path("work");
            let watched = names.iter().map(|name| Watched {
                root: root.clone(),
                relative: name.into(),
                why: "a setting",
                before: kept::look(&root, Path::new(name)),
            });
            let (held, watched) = watched.partition(|w| w.before == Standing::There);
            let held: Vec<Watched> = held;
            let held = held.into_iter().map(|w| Watched { before: Standing::Missing, ..w });
            let git = repositories(std::slice::from_ref(&root));
            let kept = Kept::new(StateDir::new(self.path("kept")));
            Watch::new(vec![root], watched, held.collect(), &git, (kept, Arc::clone(live)))
        }

        /// The paths that were taken away.
        fn settle(&self, watch: &Watch) -> Vec<PathBuf> {
            watch.settle().taken_away.into_iter().map(|taken| taken.path).collect()
        }
    }

    #[test]
    fn what_was_not_there_is_taken_and_kept() {
        let place = Place::new();
        let watch = place.watch(&[".vscode", ".npmrc"]);
        assert_eq!(watch.settle(), Settled::default());
        fs::create_dir(place.path("work/.vscode")).unwrap();
        fs::write(place.path("work/.vscode/tasks.json"), "made").unwrap();
        let settled = watch.settle();
        let [taken] = &settled.taken_away[..] else { panic!("{settled:?}") };
        assert_eq!((&taken.path, &*taken.why), (&place.path("work/.vscode"), "a setting"));
        assert_eq!(fs::read_to_string(taken.kept_at.join("tasks.json")).unwrap(), "made");
        assert_eq!(watch.settle(), Settled::default());
    }

    #[test]
    fn a_link_on_the_way_is_taken_and_what_it_leads_to_is_not() {
        let place = Place::new();
        let watch = place.watch(&[".github/workflows", ".config/fish"]);
        symlink(place.path("outside"), place.path("work/.github")).unwrap();
        symlink(place.path("outside"), place.path("work/.config")).unwrap();
        assert_eq!(place.settle(&watch), [place.path("work/.github")]);
        assert!(place.path("outside/workflows").exists());
        assert!(place.path("work/.config").exists(), "it leads to nothing of that name");
    }

    #[test]
    fn a_link_that_was_replaced_is_put_back() {
        let place = Place::new();
        let link = place.path("work/.vscode");
        symlink("shared", &link).unwrap();
        let watch = place.watch(&[".vscode"]);
        assert_eq!(watch.settle(), Settled::default());
        fs::remove_file(&link).unwrap();
        fs::create_dir(&link).unwrap();
        assert_eq!(place.settle(&watch), std::slice::from_ref(&link));
        assert_eq!(fs::read_link(&link).unwrap(), Path::new("shared"));
        fs::remove_file(&link).unwrap();
        symlink("elsewhere", &link).unwrap();
        assert_eq!(place.settle(&watch), std::slice::from_ref(&link));
        fs::remove_file(&link).unwrap();
        let settled = watch.settle();
        assert!(settled.taken_away.is_empty() && settled.warnings.len() == 1, "{settled:?}");
        assert_eq!(fs::read_link(&link).unwrap(), Path::new("shared"));
    }

    #[test]
    fn what_another_command_made_is_not_made_again() {
        let place = Place::new();
        let live = Arc::default();
        let made = place.path("work/.vscode");
        let first = place.watch_beside(&[".vscode"], &live);
        fs::create_dir(&made).unwrap();
        let second = place.watch_beside(&[".vscode"], &live);
        assert!(place.settle(&second).is_empty(), "the first is to tell about it");
        assert_eq!(place.settle(&first), std::slice::from_ref(&made));
        drop(first);
        fs::create_dir(&made).unwrap();
        assert_eq!(place.settle(&second), std::slice::from_ref(&made));
        drop(second);
        // Nobody runs who could have made it: it is a person's.
        fs::create_dir(&made).unwrap();
        assert!(place.settle(&place.watch_beside(&[".vscode"], &live)).is_empty());
        assert!(live.lock().is_empty());
    }

    #[test]
    fn a_new_repository_is_looked_at() {
        let place = Place::new();
        let watch = place.watch(&[]);
        for folder in ["work/a/.git/hooks", "work/b/.git/hooks"] {
            fs::create_dir_all(place.path(folder)).unwrap();
        }
        assert_eq!(watch.settle(), Settled::default());
        fs::write(place.path("work/a/.git/config"), "[core]\nfsmonitor = ./x\n").unwrap();
        let settled = watch.settle();
        let [warning] = &settled.warnings[..] else { panic!("{settled:?}") };
        assert!(warning.contains("a/.git` runs code of its own (core.fsmonitor)"), "{warning}");
    }
}
