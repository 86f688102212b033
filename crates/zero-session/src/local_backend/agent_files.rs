//! Agents that users and projects define as Markdown files: a front matter, and the system prompt.
//!
//! They are untrusted files: links are not followed, sizes are bounded, and a project's file never
//! replaces one of the user, nor zero's own system prompt: its text is quoted below it, as instructions
//! of a project are. An agent can only restrict what its parent may do, so it needs no trust.
//! A file that cannot be used stays in the list with its error, so that a request that names it fails
//! with that error.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use zero_core::FrontMatter;
use zero_core::session_key::is_agent_id;
use zero_core::text_shortening::{excerpt, one_line};
use zero_policy::PermissionMode;
use zero_runtime::Policy;
use zero_runtime::rule_policy::is_denied_link;
use zero_runtime::tool_backend::{AgentDefinition, SubagentIsolation};
use zero_sandbox::{FileType, FinalLinkMode, FolderHandle, Workspace};

/// Agent folders of a workspace, the first one wins.
const WORKSPACE_AGENTS: [(&str, AgentFileOrigin); 2] =
    [(".zero/agents", AgentFileOrigin::Project), (".claude/agents", AgentFileOrigin::Claude)];
/// The tool whose rules apply to reading them.
const READ_TOOL: &str = "Read";
/// Maximum number of files per folder.
const FILES_MAX: usize = 100;
/// Maximum number of directory entries examined per folder.
const ENTRIES_MAX: usize = 2_000;
/// Maximum size of a file, in bytes.
const FILE_BYTES_MAX: u64 = 64 * 1024;
/// Maximum number of tools that an agent names.
const TOOLS_MAX: usize = 200;
/// Maximum length of a description, in characters.
const DESCRIPTION_LEN_MAX: usize = 500;
/// Maximum length of a value in an error, in characters.
const EXCERPT_LEN_MAX: usize = 60;

/// Where an agent file comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AgentFileOrigin {
    /// The user's own folder: links are followed.
    User,
    /// The workspace.
    Project,
    /// The workspace's files for Claude Code.
    Claude,
}

/// Reads the agents of the user's own folder and of the workspace, sorted by name.
pub(super) fn read(
    workspace: &Workspace,
    own: Option<&Path>,
    policy: &dyn Policy,
) -> Vec<AgentDefinition> {
    let mut agents = BTreeMap::new();
    let own = own.map(|own| (own.to_owned(), AgentFileOrigin::User));
    let theirs = WORKSPACE_AGENTS.map(|(folder, origin)| (workspace.cwd().join(folder), origin));
    for (folder, origin) in own.into_iter().chain(theirs) {
        for agent in read_folder(workspace, &folder, origin, policy) {
            agents.entry(agent.name.clone()).or_insert(agent);
        }
    }
    agents.into_values().collect()
}

fn read_folder(
    workspace: &Workspace,
    path: &Path,
    origin: AgentFileOrigin,
    policy: &dyn Policy,
) -> Vec<AgentDefinition> {
    let mut agents = Vec::new();
    let Some(folder) = open_folder(workspace, path, origin) else { return agents };
    let Ok(mut entries) = folder.entries() else { return agents };
    entries.sort_by(|a, b| a.name.cmp(&b.name));
    for (at, entry) in entries.into_iter().enumerate() {
        if at >= ENTRIES_MAX || agents.len() >= FILES_MAX {
            tracing::warn!(folder = %path.display(), "too many agents; some are left out");
            break;
        }
        let Some(stem) = entry.name.to_str().and_then(|name| name.strip_suffix(".md")) else {
            continue;
        };
        let file_path = path.join(&entry.name);
        let file = match (origin, entry.file_type) {
            (AgentFileOrigin::User, FileType::File | FileType::Symlink) => {
                let located = workspace.resolve_path(&file_path, FinalLinkMode::Follow).ok();
                located.and_then(|located| located.open_file().ok())
            }
            (_, FileType::File) if policy.may_read(READ_TOOL, &file_path, &file_path) => {
                let file = folder.open_beneath(Path::new(&entry.name));
                file.filter(|file| !is_denied_link(policy, workspace, file))
            }
            _ => None,
        };
        let Some(file) = file else { continue };
        let parsed = read_text(file).and_then(|text| parse_agent(stem, &text, origin));
        let project_file =
            (origin != AgentFileOrigin::User).then(|| workspace.display_path(&file_path));
        match parsed {
            Ok(agent) => agents.push(AgentDefinition { project_file, ..agent }),
            Err(problem) if is_agent_id(stem) => agents.push(AgentDefinition {
                name: stem.to_owned(),
                problem: Some(format!("{}: {problem}", file_path.display())),
                ..AgentDefinition::default()
            }),
            Err(problem) => {
                tracing::warn!(file = %file_path.display(), "no agent: {problem}");
            }
        }
    }
    agents
}

fn open_folder(
    workspace: &Workspace,
    path: &Path,
    origin: AgentFileOrigin,
) -> Option<FolderHandle> {
    let located = workspace.resolve_path(path, FinalLinkMode::Follow).ok()?;
    let may_open = origin == AgentFileOrigin::User || located.path() == path;
    let is_folder = located.facts().ok()??.file_type == FileType::Directory;
    (may_open && is_folder).then(|| located.open_folder().ok()).flatten()
}

fn read_text(file: File) -> Result<String, String> {
    let mut bytes = Vec::new();
    let read = file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes);
    read.map_err(|error| format!("it cannot be read: {error}"))?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err("it is larger than 64 KiB; shorten it".to_owned());
    }
    String::from_utf8(bytes).map_err(|_| "it is not UTF-8 text".to_owned())
}

fn parse_agent(stem: &str, text: &str, origin: AgentFileOrigin) -> Result<AgentDefinition, String> {
    if !text.trim_start_matches('\u{feff}').starts_with("---") {
        return Err(
            "it does not begin with a front matter: write `description: …` between two lines of `---`"
                .to_owned(),
        );
    }
    let (fields, prompt) = FrontMatter::parse(text).map_err(|error| error.to_string())?;
    let single = |key: &str| fields.text(key).map_err(|error| error.to_string());
    let shown = |value: &str| excerpt(value, EXCERPT_LEN_MAX);
    let name = single("name")?.unwrap_or(stem);
    if !is_agent_id(name) {
        return Err(format!(
            "the name `{}` is not valid; use 1 to 64 lower-case letters, digits, `_` or `-`",
            shown(name)
        ));
    }
    let prompt = prompt.trim();
    if prompt.is_empty() {
        return Err("it has no text after the front matter; write its system prompt".to_owned());
    }
    let mode = single("mode")?.map(str::parse::<PermissionMode>).transpose();
    let mode = mode.map_err(|error| error.to_string())?;
    // Of the other program's modes only the strictest has the same meaning.
    let mode = mode.or_else(|| {
        let claude_mode = fields.text("permissionMode").ok().flatten();
        claude_mode.filter(|mode| *mode == "plan").map(|_| PermissionMode::Plan)
    });
    let tools = fields.list("tools").map_err(|error| error.to_string())?;
    // Which provider gets the contents, and the bill, is the user's choice and not a project's.
    let is_chosen = |model: &str| origin == AgentFileOrigin::User && model != "inherit";
    Ok(AgentDefinition {
        name: name.to_owned(),
        description: one_line(single("description")?.unwrap_or_default(), DESCRIPTION_LEN_MAX),
        prompt: prompt.to_owned(),
        project_file: None,
        tools: tools.map(|tools| parse_tools(&tools)).transpose()?,
        model: single("model")?.filter(|model| is_chosen(model)).map(str::to_owned),
        mode,
        isolation: match single("isolation")? {
            None | Some("none") => SubagentIsolation::Shared,
            Some("worktree") => SubagentIsolation::Worktree,
            Some(other) => {
                return Err(format!(
                    "`isolation` is `{}`; write `worktree` or `none`",
                    shown(other)
                ));
            }
        },
        problem: None,
    })
}

/// Names of tools.
fn parse_tools(names: &[String]) -> Result<Vec<String>, String> {
    let names: Vec<&str> = names.iter().map(|name| name.trim()).collect();
    if names.len() > TOOLS_MAX {
        return Err(format!("`tools` has {} names, more than {TOOLS_MAX}", names.len()));
    }
    let allowed = |c: char| c.is_ascii_alphanumeric() || "_-".contains(c);
    for name in &names {
        if !name.strip_suffix('*').unwrap_or(name).chars().all(allowed) {
            return Err(format!(
                "`tools` has `{}`, which is not the name of a tool; write names such as `Read`, and rules for commands into the settings",
                excerpt(name, EXCERPT_LEN_MAX)
            ));
        }
    }
    // The other program writes tools of MCP servers with this prefix.
    Ok(names
        .into_iter()
        .map(|name| name.strip_prefix("mcp__").unwrap_or(name).to_owned())
        .collect())
}

#[cfg(test)]
mod tests {
    #![expect(clippy::disallowed_methods, reason = "tests set up real files")]
    use std::path::PathBuf;

    use zero_runtime::RiskPolicy;

    use super::*;

    #[track_caller]
    fn check_problem(text: &str, expected: &str) {
        let problem = parse_agent("x", text, AgentFileOrigin::Project).unwrap_err();
        assert!(problem.contains(expected), "{problem}");
    }

    #[test]
    fn agent_is_read_from_its_front_matter() {
        let text = "---\nname: reviewer\ndescription: Reviews a change.\n  Use it often.\n\
                    tools: Read, Grep,mcp__github__list\nmodel: fast\nmode: plan\nisolation: worktree\ncolor: red\n---\n\nReview it.\n";
        let agent = parse_agent("file", text, AgentFileOrigin::User).unwrap();
        let names = |names: &[&str]| Some(names.iter().map(|name| (*name).to_owned()).collect());
        let expected = AgentDefinition {
            name: "reviewer".to_owned(),
            description: "Reviews a change. Use it often.".to_owned(),
            prompt: "Review it.".to_owned(),
            project_file: None,
            tools: names(&["Read", "Grep", "github__list"]),
            model: Some("fast".to_owned()),
            mode: Some(PermissionMode::Plan),
            isolation: SubagentIsolation::Worktree,
            problem: None,
        };
        assert_eq!(agent, expected);
        for tools in
            ["tools: [Read, 'Grep']", "tools:\n  - Read\n  - \"Grep\"", "tools:\n- Read\n- Grep"]
        {
            let text = format!("---\n{tools}\n---\nx");
            let agent = parse_agent("a", &text, AgentFileOrigin::Project).unwrap();
            assert_eq!(agent.tools, names(&["Read", "Grep"]), "{tools}");
        }
        // An empty list is no tool at all, not all of them.
        let agent = parse_agent("a", "---\ntools: []\n---\nx", AgentFileOrigin::Project).unwrap();
        assert_eq!(agent.tools, names(&[]));
    }

    #[test]
    fn model_is_that_of_parent_unless_user_chose_another() {
        let model = |word: &str, origin| {
            let text = format!("---\nmodel: {word}\npermissionMode: plan\n---\nx");
            let agent = parse_agent("a", &text, origin).unwrap();
            assert_eq!(agent.mode, Some(PermissionMode::Plan));
            agent.model
        };
        assert_eq!(model("sonnet", AgentFileOrigin::Claude), None);
        assert_eq!(model("inherit", AgentFileOrigin::User), None);
        assert_eq!(model("sonnet", AgentFileOrigin::Project), None);
        assert_eq!(model("sonnet", AgentFileOrigin::User).as_deref(), Some("sonnet"));
    }

    #[test]
    fn hostile_front_matter_is_a_clear_error() {
        check_problem("no front matter", "does not begin with a front matter");
        check_problem("---\nname: a\n", "has no end");
        check_problem("---\nname: a\n---\n \n", "no text after the front matter");
        check_problem("---\nname: ../../etc\n---\nx", "the name `../../etc` is not valid");
        check_problem("---\nname: [a, b]\n---\nx", "line 2: `name` must be a text");
        check_problem("---\nmode: root\n---\nx", "there is no mode `root`");
        check_problem("---\nisolation: vm\n---\nx", "`isolation` is `vm`; write `worktree`");
        check_problem(
            "---\ntools: Bash(rm:*)\n---\nx",
            "`Bash(rm:*)`, which is not the name of a tool",
        );
        check_problem("---\nname: a\nname: b\n---\nx", "line 3: `name` is there twice");
        check_problem("---\n  - a\n---\nx", "line 2: ");
        check_problem("---\nnonsense\n---\nx", "line 2: ");
        check_problem(
            &format!("---\na: {}\n---\nx", "x".repeat(17_000)),
            "larger than 16384 bytes",
        );
        let tools = vec!["T"; TOOLS_MAX + 1].join(",");
        check_problem(&format!("---\ntools: {tools}\n---\nx"), "more than 200");
    }

    #[test]
    fn users_agent_wins_and_links_of_project_are_not_followed() {
        let temp = tempfile::tempdir().unwrap();
        let root: PathBuf = temp.path().canonicalize().unwrap();
        for folder in ["own", "work/.zero/agents", "work/.claude/agents"] {
            std::fs::create_dir_all(root.join(folder)).unwrap();
        }
        let write = |file: &str, about: &str| {
            let text = format!("---\ndescription: {about}\n---\nprompt");
            std::fs::write(root.join(file), text).unwrap();
        };
        write("own/a.md", "mine");
        write("work/.zero/agents/a.md", "theirs");
        write("work/.zero/agents/b.md", "zero");
        write("work/.claude/agents/b.md", "claude");
        write("work/.claude/agents/c.md", "claude");
        write("outside.md", "outside");
        std::os::unix::fs::symlink(root.join("outside.md"), root.join("work/.zero/agents/d.md"))
            .unwrap();
        std::fs::write(root.join("work/.zero/agents/e.md"), vec![b'x'; 70_000]).unwrap();
        let workspace = Workspace::open(&[root.join("work")], None).unwrap();
        let agents = read(&workspace, Some(&root.join("own")), &RiskPolicy);
        let files: Vec<Option<&str>> =
            agents.iter().map(|agent| agent.project_file.as_deref()).collect();
        let expected = [None, Some(".zero/agents/b.md"), Some(".claude/agents/c.md"), None];
        assert_eq!(files, expected, "the last one cannot be used");
        let found: Vec<(&str, &str, bool)> = agents
            .iter()
            .map(|agent| (&*agent.name, &*agent.description, agent.problem.is_some()))
            .collect();
        assert_eq!(
            found,
            [("a", "mine", false), ("b", "zero", false), ("c", "claude", false), ("e", "", true)]
        );
    }
}
