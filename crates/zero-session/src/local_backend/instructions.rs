//! Instruction files for agents, such as AGENTS.md, of a workspace or of the user.
//!
//! They are part of a checkout and therefore untrusted: only ordinary files are read, no link may
//! lead out of the repository, read rules apply, and the size is bounded.

use std::fs::File;
use std::io::Read as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use zero_core::PathZone;
use zero_runtime::Policy;
use zero_runtime::rule_policy::is_denied_link;
use zero_sandbox::{FileType, FinalLinkMode, ResolvedPath, Workspace};

use zero_runtime::tool_backend::InstructionFile;

/// File names in order of preference; the first one in a folder is used.
const FILE_NAMES: &[&str] =
    &["AGENTS.md", "CLAUDE.md", "GEMINI.md", ".github/copilot-instructions.md"];
/// The tool whose rules apply to reading them.
const READ_TOOL: &str = "Read";
/// Maximum size of one file, in bytes.
const FILE_BYTES_MAX: usize = 64 * 1024;
/// Maximum size of all files, in bytes.
const ALL_BYTES_MAX: usize = 128 * 1024;
/// Maximum number of folders above the workspace that are searched for the repository root.
const FOLDERS_MAX: usize = 32;

/// Reads the instructions, outermost first: the user's file `own`, then the files of the folders
/// from the repository root down to the workspace.
pub fn read(
    workspace: &Workspace,
    own: Option<&Path>,
    policy: &dyn Policy,
) -> Vec<InstructionFile> {
    let mut room = ALL_BYTES_MAX;
    let own = own.and_then(|path| {
        let located = workspace.resolve_path(path, FinalLinkMode::Follow).ok()?;
        let text = read_text(&located, &mut room, &|_| true)?;
        Some(InstructionFile { path: path.display().to_string(), text })
    });
    // A hard link is not a way around a rule that denies the file by its other name.
    let may_use = |file: &File| !is_denied_link(policy, workspace, file);
    let mut seen: Vec<PathBuf> = Vec::new();
    let mut found: Vec<InstructionFile> = Vec::new();
    for root in workspace.roots() {
        let folders = instruction_folders(root);
        let Some(outermost) = folders.last() else { continue };
        let Ok(repository) = Workspace::open(std::slice::from_ref(outermost), None) else {
            continue;
        };
        // The nearest files are the most specific, so they get the space first.
        for folder in &folders {
            let Some((located, text)) =
                find_first(folder, &repository, policy, &may_use, &mut room, &seen)
            else {
                continue;
            };
            seen.push(located.path().to_owned());
            found.push(InstructionFile { path: workspace.display_path(located.path()), text });
        }
    }
    found.reverse();
    own.into_iter().chain(found).collect()
}

/// The first usable, non-empty file of a folder.
fn find_first(
    folder: &Path,
    repository: &Workspace,
    policy: &dyn Policy,
    may_use: &dyn Fn(&File) -> bool,
    remaining: &mut usize,
    seen: &[PathBuf],
) -> Option<(ResolvedPath, String)> {
    FILE_NAMES.iter().find_map(|name| {
        let path = folder.join(name);
        let located = repository.resolve_path(&path, FinalLinkMode::Follow).ok()?;
        let is_inside = located.target().zone() == PathZone::Workspace;
        // A link may lead to another Markdown file, but not to any other file of the checkout.
        let is_markdown = located.path().extension().is_some_and(|name| name == "md");
        let may_read =
            is_inside && is_markdown && policy.may_read(READ_TOOL, &path, located.path());
        if !may_read || seen.iter().any(|seen| seen == located.path()) {
            return None;
        }
        read_text(&located, remaining, may_use).map(|text| (located, text))
    })
}

/// Reads a file up to `room` bytes; `None` if it may not be used, is empty or not text.
fn read_text(
    located: &ResolvedPath,
    remaining: &mut usize,
    may_use: &dyn Fn(&File) -> bool,
) -> Option<String> {
    let is_file = located.facts().ok()?.is_some_and(|facts| facts.file_type == FileType::File);
    if !is_file {
        return None;
    }
    let file = match located.open_file() {
        Ok(file) => file,
        Err(error) => {
            tracing::warn!(file = located.display_path(), %error, "instructions cannot be read");
            return None;
        }
    };
    if !may_use(&file) {
        return None;
    }
    let most = FILE_BYTES_MAX.min(*remaining);
    if most == 0 {
        tracing::warn!(
            file = located.display_path(),
            "there are too many instructions; these are left out"
        );
        return None;
    }
    let mut bytes = Vec::new();
    file.take(most as u64 + 1).read_to_end(&mut bytes).ok()?;
    let is_cut = bytes.len() > most;
    bytes.truncate(most);
    if let (true, Err(error)) = (is_cut, std::str::from_utf8(&bytes))
        // The limit split the last character.
        && error.error_len().is_none()
    {
        bytes.truncate(error.valid_up_to());
    }
    if bytes.contains(&0) {
        return None;
    }
    let text = String::from_utf8_lossy(&bytes);
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text).trim();
    if text.is_empty() {
        return None;
    }
    *remaining -= bytes.len();
    let mut text = text.to_owned();
    if is_cut {
        text.push_str(&format!("\n\n[cut here: only the first {most} bytes are read]"));
    }
    Some(text)
}

/// The workspace folder and its parents up to the repository root, or the workspace folder alone
/// outside of a repository. Folders of other owners and world-writable folders are skipped.
fn instruction_folders(root: &Path) -> Vec<PathBuf> {
    let Ok(owner) = std::fs::metadata(root).map(|facts| facts.uid()) else { return Vec::new() };
    let is_theirs = |folder: &Path| {
        let ours = |facts: std::fs::Metadata| facts.uid() == owner && facts.mode() & 0o002 == 0;
        std::fs::metadata(folder).is_ok_and(ours)
    };
    let mut folders = Vec::new();
    for folder in root.ancestors().take(FOLDERS_MAX) {
        if folder != root && !is_theirs(folder) {
            break;
        }
        folders.push(folder.to_owned());
        if std::fs::symlink_metadata(folder.join(".git")).is_ok() {
            return folders;
        }
    }
    vec![root.to_owned()]
}

#[cfg(test)]
mod tests {
    #![expect(clippy::disallowed_methods, reason = "tests set up real files")]
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use zero_policy::rule::{PolicyRule, RuleOwner, RuleSource};
    use zero_policy::{PolicyEngine, PolicyEngineConfig, Verdict};
    use zero_runtime::{RiskPolicy, RulePolicy};

    use super::*;

    struct InstructionsFixture {
        temp: tempfile::TempDir,
    }

    impl InstructionsFixture {
        fn new(files: &[(&str, &str)]) -> Self {
            let temp = tempfile::tempdir().unwrap();
            let fixture = Self { temp };
            std::fs::create_dir_all(fixture.path("repo/sub/work")).unwrap();
            for (name, text) in files {
                let path = fixture.path(name);
                std::fs::create_dir_all(path.parent().unwrap()).unwrap();
                std::fs::write(path, text).unwrap();
            }
            fixture
        }

        fn path(&self, name: &str) -> PathBuf {
            self.temp.path().canonicalize().unwrap().join(name)
        }

        fn read_by(&self, policy: &dyn Policy) -> Vec<InstructionFile> {
            let workspace = Workspace::open(&[self.path("repo/sub/work")], None).unwrap();
            read(&workspace, Some(&self.path("own/AGENTS.md")), policy)
        }

        /// Checks the result, as `name: text`.
        #[track_caller]
        fn check(&self, expected: &[&str]) {
            self.check_by(&RiskPolicy, expected);
        }

        #[track_caller]
        fn check_by(&self, policy: &dyn Policy, expected: &[&str]) {
            let base = self.path("").display().to_string();
            let read = self.read_by(policy);
            let shown = read.iter().map(|instruction| {
                let path = instruction.path.strip_prefix(&base).unwrap_or(&instruction.path);
                format!("{path}: {}", instruction.text)
            });
            assert_eq!(shown.collect::<Vec<_>>(), expected);
        }
    }

    const GIT: (&str, &str) = ("repo/.git/HEAD", "");

    #[test]
    fn instructions_read_from_user_then_root_to_workspace() {
        let fixture = InstructionsFixture::new(&[
            GIT,
            ("own/AGENTS.md", "own\n"),
            ("AGENTS.md", "above the repository"),
            ("repo/AGENTS.md", "\u{feff}root"),
            ("repo/CLAUDE.md", "another name"),
            ("repo/sub/.github/copilot-instructions.md", "sub"),
            ("repo/sub/work/AGENTS.md", "  \n"),
            ("repo/sub/work/GEMINI.md", "work"),
        ]);
        fixture.check(&[
            "own/AGENTS.md: own",
            "repo/AGENTS.md: root",
            "repo/sub/.github/copilot-instructions.md: sub",
            "GEMINI.md: work",
        ]);
    }

    #[test]
    fn workspace_outside_repository_is_read_alone() {
        let files = [("repo/AGENTS.md", "root"), ("repo/sub/work/CLAUDE.md", "work")];
        InstructionsFixture::new(&files).check(&["CLAUDE.md: work"]);
        InstructionsFixture::new(&[]).check(&[]);
    }

    #[test]
    fn world_writable_folder_is_ignored() {
        let fixture = InstructionsFixture::new(&[
            GIT,
            ("repo/AGENTS.md", "evil"),
            ("repo/sub/AGENTS.md", "x"),
        ]);
        fixture.check(&["repo/AGENTS.md: evil", "repo/sub/AGENTS.md: x"]);
        let open = std::fs::Permissions::from_mode(0o1777);
        std::fs::set_permissions(fixture.path("repo"), open).unwrap();
        fixture.check(&[]);
    }

    #[test]
    fn links_are_followed_only_within_repository() {
        let fixture = InstructionsFixture::new(&[
            GIT,
            ("secret.md", "theirs"),
            ("repo/docs/agents.md", "linked"),
            ("repo/sub/CLAUDE.md", "instead"),
            ("repo/sub/.env", "KEY=1"),
        ]);
        symlink("docs/agents.md", fixture.path("repo/AGENTS.md")).unwrap();
        symlink("../../secret.md", fixture.path("repo/sub/AGENTS.md")).unwrap();
        symlink(".env", fixture.path("repo/sub/GEMINI.md")).unwrap();
        symlink("../../docs/agents.md", fixture.path("repo/sub/work/AGENTS.md")).unwrap();
        // A file that is found twice is included once, at the nearest position.
        fixture.check(&["repo/sub/CLAUDE.md: instead", "repo/docs/agents.md: linked"]);
        std::fs::remove_file(fixture.path("repo/sub/work/AGENTS.md")).unwrap();
        fixture.check(&["repo/docs/agents.md: linked", "repo/sub/CLAUDE.md: instead"]);
        std::fs::remove_file(fixture.path("repo/sub/CLAUDE.md")).unwrap();
        fixture.check(&["repo/docs/agents.md: linked"]);
        // The user may store their own file anywhere.
        std::fs::create_dir(fixture.path("own")).unwrap();
        symlink("../secret.md", fixture.path("own/AGENTS.md")).unwrap();
        assert_eq!(fixture.read_by(&RiskPolicy)[0].text, "theirs");
    }

    #[test]
    fn only_regular_text_files_are_read() {
        let fixture =
            InstructionsFixture::new(&[GIT, ("repo/AGENTS.md/x", ""), ("repo/GEMINI.md", "text")]);
        std::fs::write(fixture.path("repo/CLAUDE.md"), b"\x7fELF\0").unwrap();
        symlink("/dev/zero", fixture.path("repo/sub/AGENTS.md")).unwrap();
        symlink("AGENTS.md", fixture.path("repo/sub/work/AGENTS.md")).unwrap();
        fixture.check(&["repo/GEMINI.md: text"]);
    }

    #[test]
    fn denied_file_is_not_read() {
        let fixture =
            InstructionsFixture::new(&[GIT, ("repo/AGENTS.md", "no"), ("repo/CLAUDE.md", "yes")]);
        let source = RuleSource { name: "test".to_owned(), line: None, owner: RuleOwner::User };
        let rule = PolicyRule::parse("Read(//**/AGENTS.md)", Verdict::Deny, source).unwrap();
        let roots = vec![fixture.path("repo/sub/work")];
        let config =
            PolicyEngineConfig { rules: vec![rule], roots, ..PolicyEngineConfig::default() };
        let policy = RulePolicy::new(PolicyEngine::new(config), Vec::new());
        fixture.check_by(&policy, &["repo/CLAUDE.md: yes"]);
    }

    #[test]
    fn long_file_is_cut_at_char_boundary() {
        let long = "ü".repeat(FILE_BYTES_MAX);
        let fixture = InstructionsFixture::new(&[
            GIT,
            ("own/AGENTS.md", "mine"),
            ("repo/AGENTS.md", &long),
            ("repo/sub/AGENTS.md", "short"),
            ("repo/sub/work/AGENTS.md", &format!("x{long}")),
        ]);
        let read = fixture.read_by(&RiskPolicy);
        let sizes: Vec<usize> = read.iter().map(|one| one.text.len()).collect();
        assert_eq!(read.len(), 4);
        assert_eq!(read[0].text, "mine");
        let note = "\n\n[cut here: only the first 65536 bytes are read]";
        assert!(read[3].text.ends_with(&format!("ü{note}")), "the nearest has all its room");
        assert_eq!(sizes[3], FILE_BYTES_MAX - 1 + note.len());
        assert!(sizes.iter().sum::<usize>() < ALL_BYTES_MAX + 4 * note.len(), "{sizes:?}");
        assert!(read[1].text.contains("[cut here"), "the farthest has what is left");
    }
}
