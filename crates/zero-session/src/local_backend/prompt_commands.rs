//! Prompts that users store as Markdown files and call with a slash and a name.
//!
//! A project's commands are only prompts, no more dangerous than its README, so they need no trust.
//! They are still untrusted files: links are not followed, the size is bounded, and they never
//! replace a command of zero or of the user.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use zero_core::text_shortening::one_line;
use zero_core::{FrontMatter, FrontMatterError};
use zero_runtime::Policy;
use zero_runtime::rule_policy::is_denied_link;
use zero_sandbox::{FileType, FinalLinkMode, FolderHandle, Workspace};

use crate::slash_commands::BUILT_IN;
use zero_runtime::tool_backend::PromptCommand;

/// Command folder of a workspace.
const WORKSPACE_COMMANDS: &str = ".zero/commands";
/// The tool whose rules apply to reading them.
const READ_TOOL: &str = "Read";
/// Maximum number of files per command folder, including subfolders.
const FILES_MAX: usize = 100;
/// Maximum number of directory entries examined per command folder.
const ENTRIES_MAX: usize = 2_000;
/// Maximum nesting depth: `a/b/c.md` is `a:b:c`.
const DEPTH_MAX: usize = 3;
/// Maximum size of a file, in bytes.
const FILE_BYTES_MAX: u64 = 64 * 1024;
/// Maximum length of one part of a name.
const NAME_LEN_MAX: usize = 64;
/// Maximum length of a description or hint, in characters.
const LINE_LEN_MAX: usize = 200;

/// Reads the commands of the user's own folder and of the workspace, sorted by name.
pub fn read(workspace: &Workspace, own: Option<&Path>, policy: &dyn Policy) -> Vec<PromptCommand> {
    let mut commands = BTreeMap::new();
    if let Some(own) = own {
        CommandSearch { origin: CommandOrigin::User, workspace, policy, found: &mut commands }
            .search(own);
    }
    let theirs = workspace.cwd().join(WORKSPACE_COMMANDS);
    let mut project = BTreeMap::new();
    CommandSearch { origin: CommandOrigin::Project, workspace, policy, found: &mut project }
        .search(&theirs);
    for (name, command) in project {
        commands.entry(name).or_insert(command);
    }
    for (name, ..) in BUILT_IN {
        commands.remove(*name);
    }
    commands.into_values().collect()
}

/// Origin of a command folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CommandOrigin {
    /// The user's own folder: links are followed.
    User,
    /// The workspace: links are not followed.
    Project,
}

struct CommandSearch<'a> {
    origin: CommandOrigin,
    workspace: &'a Workspace,
    policy: &'a dyn Policy,
    found: &'a mut BTreeMap<String, PromptCommand>,
}

impl CommandSearch<'_> {
    fn search(&mut self, start: &Path) {
        let mut looked_at = 0;
        let mut folders = vec![(start.to_owned(), String::new(), 1)];
        while let Some((path, prefix, depth)) = folders.pop() {
            let Some(folder) = self.open(&path) else { continue };
            let Ok(mut entries) = folder.entries() else { continue };
            entries.sort_by(|a, b| a.name.cmp(&b.name));
            for entry in entries {
                looked_at += 1;
                if looked_at > ENTRIES_MAX || self.found.len() >= FILES_MAX {
                    tracing::warn!(folder = %start.display(), "too many commands; some are left out");
                    return;
                }
                let Some(name) = entry.name.to_str() else { continue };
                let below = path.join(name);
                if let Some(name) = name.strip_suffix(".md").filter(|name| is_name(name)) {
                    let name = format!("{prefix}{name}");
                    if let Some(file) = self.open_file(&folder, &below, entry.file_type) {
                        self.add_command(name, file, &below);
                    }
                } else if is_name(name) && depth < DEPTH_MAX {
                    folders.push((below, format!("{prefix}{name}:"), depth + 1));
                }
            }
        }
    }

    fn open(&self, path: &Path) -> Option<FolderHandle> {
        let located = self.workspace.resolve_path(path, FinalLinkMode::Follow).ok()?;
        let is_plain = located.path() == path;
        let may_open = match self.origin {
            CommandOrigin::User => true,
            CommandOrigin::Project => is_plain,
        };
        let is_folder = located.facts().ok()??.file_type == FileType::Directory;
        (may_open && is_folder).then(|| located.open_folder().ok()).flatten()
    }

    fn open_file(&self, folder: &FolderHandle, path: &Path, file_type: FileType) -> Option<File> {
        match (self.origin, file_type) {
            (CommandOrigin::Project, FileType::File) => {
                let may_read = self.policy.may_read(READ_TOOL, path, path);
                let file = may_read.then(|| folder.open_beneath(Path::new(path.file_name()?)));
                file.flatten().filter(|file| !is_denied_link(self.policy, self.workspace, file))
            }
            (CommandOrigin::User, FileType::File | FileType::Symlink) => {
                self.workspace.resolve_path(path, FinalLinkMode::Follow).ok()?.open_file().ok()
            }
            _ => None,
        }
    }

    fn add_command(&mut self, name: String, file: File, path: &Path) {
        let parse =
            |text: String| parse_command(name.clone(), &text).map_err(|error| error.to_string());
        match read_text(file).map_err(str::to_owned).and_then(parse) {
            Ok(Some(command)) => {
                self.found.insert(name, command);
            }
            Ok(None) => {}
            Err(why) => tracing::warn!(file = %path.display(), "no command: {why}"),
        }
    }
}

fn read_text(file: File) -> Result<String, &'static str> {
    let mut bytes = Vec::new();
    file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(|_| "it cannot be read")?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err("it is larger than 64 KiB");
    }
    String::from_utf8(bytes).map_err(|_| "it is not text")
}

/// Parses a command; `None` if the prompt is empty.
fn parse_command(name: String, text: &str) -> Result<Option<PromptCommand>, FrontMatterError> {
    let (fields, prompt) = FrontMatter::parse(text)?;
    let prompt = prompt.trim().replace("\r\n", "\n");
    if prompt.is_empty() {
        return Ok(None);
    }
    let field = |key: &str| {
        let value = match fields.text(key) {
            Ok(value) => value?.to_owned(),
            // A hint such as `[file]` has the form of a list.
            Err(_) => format!("[{}]", fields.list(key).ok().flatten()?.join(", ")),
        };
        Some(clean_line(&value)).filter(|value| !value.is_empty())
    };
    let first = || {
        let first = prompt.lines().map(|line| line.trim_start_matches('#').trim());
        clean_line(first.into_iter().find(|line| !line.is_empty()).unwrap_or_default())
    };
    Ok(Some(PromptCommand {
        name,
        description: field("description").unwrap_or_else(first),
        argument_hint: field("argument-hint"),
        prompt,
    }))
}

/// Reduces a text to one short line for lists.
fn clean_line(text: &str) -> String {
    one_line(text, LINE_LEN_MAX)
}

fn is_name(name: &str) -> bool {
    let lower = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    let starts_well = name.bytes().next().is_some_and(lower);
    let all_allowed = name.bytes().all(|b| lower(b) || b"_-".contains(&b));
    starts_well && all_allowed && name.len() <= NAME_LEN_MAX
}

#[cfg(test)]
mod tests {
    #![expect(clippy::disallowed_methods, reason = "tests set up real files")]
    use std::os::unix::fs::symlink;
    use std::path::PathBuf;

    use zero_runtime::RiskPolicy;

    use super::*;

    struct CommandsFixture {
        temp: tempfile::TempDir,
    }

    impl CommandsFixture {
        fn new(files: &[(&str, &str)]) -> Self {
            let fixture = Self { temp: tempfile::tempdir().unwrap() };
            std::fs::create_dir_all(fixture.path("work/.zero/commands")).unwrap();
            std::fs::create_dir_all(fixture.path("own")).unwrap();
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

        fn read(&self) -> Vec<PromptCommand> {
            let workspace = Workspace::open(&[self.path("work")], None).unwrap();
            read(&workspace, Some(&self.path("own")), &RiskPolicy)
        }

        #[track_caller]
        fn check(&self, expected: &[(&str, &str)]) {
            let read = self.read();
            let found: Vec<(&str, &str)> =
                read.iter().map(|one| (one.name.as_str(), one.prompt.as_str())).collect();
            assert_eq!(found, expected);
        }
    }

    #[test]
    fn commands_are_named_after_files() {
        let fixture = CommandsFixture::new(&[
            ("own/review.md", "Review $1."),
            ("own/git/tidy.md", "Tidy."),
            ("own/a/b/c.md", "Deep."),
            ("own/a/b/c/d.md", "Too deep."),
            ("work/.zero/commands/fix_2.md", "Fix."),
            ("own/Review.md", "no"),
            ("own/-x.md", "no"),
            ("own/x y.md", "no"),
            ("own/notes.txt", "no"),
            ("own/empty.md", "  \n"),
            ("work/.zero/commands/../up.md", "no"),
        ]);
        fixture.check(&[
            ("a:b:c", "Deep."),
            ("fix_2", "Fix."),
            ("git:tidy", "Tidy."),
            ("review", "Review $1."),
        ]);
    }

    #[test]
    fn project_command_never_overrides_built_in_or_user() {
        let fixture = CommandsFixture::new(&[
            ("own/help.md", "mine"),
            ("own/review.md", "mine"),
            ("work/.zero/commands/review.md", "theirs"),
            ("work/.zero/commands/mode.md", "theirs"),
            ("work/.zero/commands/init.md", "theirs"),
            ("work/.zero/commands/other.md", "theirs"),
        ]);
        fixture.check(&[("other", "theirs"), ("review", "mine")]);
    }

    #[test]
    fn project_links_do_not_expose_other_files() {
        let fixture = CommandsFixture::new(&[("secret.md", "secret"), ("kept/mine.md", "mine")]);
        let commands = fixture.path("work/.zero/commands");
        symlink("../../../secret.md", commands.join("leak.md")).unwrap();
        symlink("../../../kept", commands.join("folder")).unwrap();
        symlink("/dev/zero", commands.join("zero.md")).unwrap();
        std::fs::write(commands.join("large.md"), "x".repeat(64 * 1024 + 1)).unwrap();
        std::fs::write(commands.join("binary.md"), b"\xff\xfe").unwrap();
        fixture.check(&[]);
        // The user's own files may be links.
        symlink("../secret.md", fixture.path("own/linked.md")).unwrap();
        symlink("../kept", fixture.path("own/folder")).unwrap();
        fixture.check(&[("folder:mine", "mine"), ("linked", "secret")]);
        // A command folder that is itself a link is ignored.
        std::fs::remove_dir_all(&commands).unwrap();
        symlink("../../kept", &commands).unwrap();
        fixture.check(&[("folder:mine", "mine"), ("linked", "secret")]);
    }

    #[test]
    fn command_count_is_bounded() {
        let fixture = CommandsFixture::new(&[]);
        for number in 0..FILES_MAX + 20 {
            let name = format!("work/.zero/commands/c{number}.md");
            std::fs::write(fixture.path(&name), "x").unwrap();
        }
        assert_eq!(fixture.read().len(), FILES_MAX);
    }

    #[track_caller]
    fn check(text: &str, description: &str, hint: Option<&str>, prompt: &str) {
        let command = parse_command("x".to_owned(), text).unwrap().unwrap();
        let found = (command.description.as_str(), command.argument_hint.as_deref());
        assert_eq!((found, command.prompt.as_str()), ((description, hint), prompt), "{text:?}");
    }

    #[test]
    fn front_matter_describes_command() {
        check("# Do it\n\nwell", "Do it", None, "# Do it\n\nwell");
        check(
            "---\ndescription: \"Does: it\"\nargument-hint: [file]\nmodel: x\n---\n\nDo $1.\n",
            "Does: it",
            Some("[file]"),
            "Do $1.",
        );
        check("---\r\ndescription: Does\r\n---\r\nDo.\r\n", "Does", None, "Do.");
        check("---\n---\nDo.", "Do.", None, "Do.");
        check("---\ndescription:\n---\nDo.", "Do.", None, "Do.");
        check("---\ndescription: >\n  Does\n  it\n---\nDo.", "Does it", None, "Do.");
        check("---\nargument-hint: [a, b]\n---\nDo.", "Do.", Some("[a, b]"), "Do.");
        check("---\ndescription: \u{1b}[31mred\n---\nDo.", "[31mred", None, "Do.");
        check(&"x".repeat(300), &format!("{}…", "x".repeat(200)), None, &"x".repeat(300));
        assert_eq!(parse_command("x".to_owned(), "---\ndescription: a\n---"), Ok(None));
        let error = parse_command("x".to_owned(), "---\nnever closed\nDo.").unwrap_err();
        assert!(error.to_string().contains("has no end"), "{error}");
    }
}
