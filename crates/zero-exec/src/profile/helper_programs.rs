//! The files that a setting of git makes it run.
//!
//! Git hands most of these values to a shell, so they are read as the judge reads a command line.
//! Only what is run counts: other files are data, which commands have to change. Where it is not
//! known what runs, each file that the value names counts.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use zero_policy::program::{CommandClass, FileAccess};
use zero_policy::shell::analysis::{
    AnalysisNodeKind, CommandInvocation, ScriptAnalysis, WorkingFolders,
};
use zero_policy::shell::{self, ShellArg};

use crate::git_facts::{HelperUse, HelperValue};

/// Most paths of one value.
const PATHS_MAX: usize = 1_000;
/// What stands for the top folder of a working folder, in which git runs most programs.
const TOP_FOLDER: &[&str] =
    &["$(git rev-parse --show-toplevel)", "`git rev-parse --show-toplevel`", "${PWD}", "$PWD"];

/// The programs that a value names; `None` if there are too many to list.
pub(super) type ProgramList = Option<Arc<BTreeSet<ProgramPath>>>;

/// A file that git may run.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ProgramPath {
    pub(super) path: PathBuf,
    /// Whether it counts only if it is a file: the value may mean something else by it.
    pub(super) needs_file: bool,
}

/// Lists what git runs in a working folder because of a value.
pub(super) fn list_programs(helper: &HelperValue, work: &Path, home: Option<&Path>) -> ProgramList {
    let mut search = ProgramSearch { work, home, found: BTreeSet::new() };
    let text = helper.text.as_str();
    match (helper.used_as, text.strip_prefix('!')) {
        (HelperUse::Path, _) => search.add(work, text, false),
        (HelperUse::Alias, None) => search.read_script(&format!("git {text}")),
        (_, script) => search.read_script(script.unwrap_or(text)),
    }
    (search.found.len() <= PATHS_MAX).then(|| Arc::new(search.found))
}

struct ProgramSearch<'a> {
    work: &'a Path,
    home: Option<&'a Path>,
    found: BTreeSet<ProgramPath>,
}

impl ProgramSearch<'_> {
    fn read_script(&mut self, script: &str) {
        let script =
            TOP_FOLDER.iter().fold(script.to_owned(), |script, top| script.replace(top, "."));
        let analysis = shell::analyse(&script, self.work, self.home);
        let is_certain = analysis.nodes.iter().all(|node| self.read_node(&node.kind));
        if !is_certain || has_doubt(&analysis) {
            for word in script.split(|char: char| char.is_whitespace() || is_sign(char)) {
                self.add(self.work, word, true);
            }
        }
    }

    /// Adds the programs of a node. Returns false if it is not known what runs.
    fn read_node(&mut self, node: &AnalysisNodeKind) -> bool {
        let AnalysisNodeKind::Command(invocation) = node else { return true };
        let CommandInvocation { argv, analysis, folders, .. } = invocation.as_ref();
        let WorkingFolders::OneOf(folders) = folders else { return false };
        let Some(program) = argv.first().and_then(ShellArg::as_known) else { return false };
        for folder in folders {
            if program.contains('/') {
                self.add(folder, program, false);
            }
            // What such a program reads, it may run. Git runs no file that an argument names, and the
            // commands in its options have nodes of their own.
            if analysis.class == CommandClass::Opaque && program != "git" {
                let reads = analysis.touches.iter().filter(|it| it.access == FileAccess::Read);
                for script in reads.filter_map(|touch| touch.path.as_known()) {
                    self.add(folder, script, false);
                }
                for word in argv.iter().skip(1).filter_map(ShellArg::as_known) {
                    self.add_word(folder, word);
                }
            }
        }
        true
    }

    /// Adds the paths that an argument may contain: `x`, `--file=x`, `-fx`.
    fn add_word(&mut self, folder: &Path, word: &str) {
        self.add(folder, word, true);
        if let Some((_, value)) = word.split_once('=') {
            self.add(folder, value, true);
        }
        if word.starts_with('-') {
            self.add(folder, word.get(2..).unwrap_or_default(), true);
        }
    }

    fn add(&mut self, folder: &Path, written: &str, needs_file: bool) {
        // One more than the limit shows that it was reached.
        if written.is_empty() || self.found.len() > PATHS_MAX {
            return;
        }
        let in_home = written.strip_prefix("~/").and_then(|rest| Some(self.home?.join(rest)));
        let path = in_home.unwrap_or_else(|| folder.join(written));
        self.found.insert(ProgramPath { path, needs_file });
    }
}

/// Whether a script may run something that its nodes do not tell.
fn has_doubt(analysis: &ScriptAnalysis) -> bool {
    let is_doubt = |node: &AnalysisNodeKind| matches!(node, AnalysisNodeKind::Uncertainty(_));
    analysis.unparsed.is_some() || analysis.nodes.iter().any(|node| is_doubt(&node.kind))
}

/// Whether a character separates words of a script or quotes them.
fn is_sign(char: char) -> bool {
    "'\"`;|&(){}<>=\\$".contains(char)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The paths in `/w` that count, and then those that count if they are files.
    #[track_caller]
    fn check(used_as: HelperUse, value: &str, programs: &[&str], files: &[&str]) {
        let helper = HelperValue { text: value.to_owned(), used_as };
        let found = list_programs(&helper, Path::new("/w"), Some(Path::new("/h"))).unwrap();
        let paths = |needs_file: bool| -> Vec<String> {
            let found = found.iter().filter(|program| program.needs_file == needs_file);
            let shown = found.map(|program| program.path.display().to_string());
            shown.map(|path| path.strip_prefix("/w/").unwrap_or(&path).to_owned()).collect()
        };
        assert_eq!(paths(false), programs, "{value}");
        let found = paths(true);
        for file in files {
            assert!(found.iter().any(|path| path == file), "{value}: {file} in {found:?}");
        }
        if files.is_empty() {
            assert_eq!(found, [""; 0], "{value}");
        }
    }

    #[test]
    fn programs_of_scripts_are_listed() {
        for (value, programs, files) in [
            ("./tools/fsm.sh", &["./tools/fsm.sh"][..], &[][..]),
            ("tools/clean.sh --fast %f data", &["tools/clean.sh"], &["data"]),
            ("'my tools/x'", &["my tools/x"], &[]),
            ("my\\ tools/x", &["my tools/x"], &[]),
            ("!git add src/lib.rs", &[], &[]),
            ("sh tools/x.sh", &["tools/x.sh"], &["tools/x.sh"]),
            ("env A=b python3 -u x.py", &["x.py"], &["x.py"]),
            ("bash -ec './a.sh; exec sh b.sh'", &["./a.sh", "b.sh"], &["b.sh"]),
            ("$(git rev-parse --show-toplevel)/x.sh", &["./x.sh"], &[]),
            ("if ./a; then ./b; fi", &["./a", "./b"], &[]),
            ("~/tools/x", &["/h/tools/x"], &[]),
            ("cat src/a > ./out", &[], &[]),
            ("", &[], &[]),
        ] {
            check(HelperUse::Script, value, programs, files);
        }
    }

    #[test]
    fn programs_behind_wrappers_are_listed() {
        for (value, programs, files) in [
            ("deno run -A x.ts", &["x.ts"][..], &["x.ts"][..]),
            ("timeout 5 ./x", &["./x"], &[]),
            ("nice -n 3 ./x", &["./x"], &[]),
            ("env -u A ./x", &["./x"], &[]),
            ("cd tools && ./y", &["tools/./y"], &[]),
            ("make -f x.mk", &[], &["x.mk"]),
            ("make -fx.mk --file=y.mk", &[], &["x.mk", "y.mk"]),
            ("xargs ./x", &["./x"], &[]),
        ] {
            check(HelperUse::Script, value, programs, files);
        }
    }

    #[test]
    fn every_named_file_counts_in_doubt() {
        for value in ["f() { \"$1\" x.sh; }; f sh", "$TOOL x.sh", "eval \"$A\" x.sh", "' x.sh"] {
            let helper = HelperValue { text: value.to_owned(), used_as: HelperUse::Script };
            let found = list_programs(&helper, Path::new("/w"), None).unwrap();
            let file = ProgramPath { path: "/w/x.sh".into(), needs_file: true };
            assert!(found.contains(&file), "{value}: {found:?}");
        }
    }

    #[test]
    fn alias_is_a_command_of_git_or_a_script() {
        check(HelperUse::Alias, "log --oneline src/a", &[], &[]);
        check(HelperUse::Alias, "!./x src/a", &["./x"], &["src/a"]);
        check(HelperUse::Path, "my tools/x", &["my tools/x"], &[]);
    }

    #[test]
    fn value_with_too_many_words_has_no_list() {
        let text = (0..=PATHS_MAX).map(|number| format!("tool {number}\n")).collect();
        let helper = HelperValue { text, used_as: HelperUse::Script };
        assert_eq!(list_programs(&helper, Path::new("/w"), None), None);
    }
}
