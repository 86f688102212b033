//! Commands and agents of other programs, as Markdown files of zero's.

use zero_core::session_key::is_agent_id;
use zero_core::text_shortening::one_line;
use zero_core::{FrontMatter, FrontMatterError};
use zero_policy::rule::canonical_tool;

use super::import_plan::{ImportPlan, PromptKind};
use super::source_files::FolderFile;

/// Longest description, in characters.
const DESCRIPTION_LEN_MAX: usize = 500;
/// Longest part of the name of a command.
const NAME_LEN_MAX: usize = 64;

/// A command of another program.
#[derive(Debug)]
pub(super) struct CommandParts<'a> {
    /// Its name, with folders.
    pub(super) name: &'a str,
    pub(super) description: Option<&'a str>,
    pub(super) argument_hint: Option<&'a str>,
    pub(super) prompt: &'a str,
    /// Texts that the other program replaces by the output of a command or a file.
    pub(super) insertions: &'static [&'static str],
    /// Fields that have no counterpart.
    pub(super) ignored: Vec<&'a str>,
}

/// An agent of another program.
#[derive(Debug, Default)]
pub(super) struct AgentParts<'a> {
    pub(super) name: &'a str,
    pub(super) description: Option<&'a str>,
    /// The only tools that it may use, by zero's names.
    pub(super) tools: Option<Vec<String>>,
    pub(super) is_plan: bool,
    pub(super) prompt: &'a str,
    /// Fields that have no counterpart.
    pub(super) ignored: Vec<&'a str>,
}

impl ImportPlan {
    /// The plan says what becomes of it; one whose name zero does not accept is left out and named.
    pub(super) fn add_command(&mut self, source: &str, command: &CommandParts<'_>) {
        let what = format!("{source} command `/{}`", command.name.replace('/', ":"));
        let Some(name) = command_name(command.name) else {
            return self.leave(&what, "its name has characters that a command of zero cannot have");
        };
        if command.prompt.trim().is_empty() {
            return self.leave(&what, "it has no prompt");
        }
        if let Some(insertion) =
            command.insertions.iter().find(|mark| command.prompt.contains(**mark))
        {
            let why = format!(
                "its prompt inserts the output of a command or a file (`{insertion}`), which zero does not do; rewrite it as a request to the model"
            );
            return self.leave(&what, &why);
        }
        let mut fields = Vec::new();
        fields.extend(command.description.map(|text| ("description", text)));
        fields.extend(command.argument_hint.map(|text| ("argument-hint", text)));
        let text = with_front_matter(&fields, command.prompt);
        let detail = describe(&format!("/{}", name.replace('/', ":")), &command.ignored);
        self.add_prompt(PromptKind::Command, &what, name, text, detail);
    }

    /// Blanks and dots of its name become dashes. The plan says what becomes of it.
    pub(super) fn add_agent(&mut self, source: &str, agent: &AgentParts<'_>) {
        let what = format!("{source} agent `{}`", agent.name);
        let name = agent.name.to_lowercase().replace([' ', '.'], "-");
        if !is_agent_id(&name) {
            return self.leave(&what, "its name has characters that an agent of zero cannot have");
        }
        if agent.prompt.trim().is_empty() {
            return self.leave(&what, "it has no prompt");
        }
        if agent.tools.as_ref().is_some_and(Vec::is_empty) {
            return self.leave(&what, "zero has none of its tools");
        }
        let tools = agent.tools.as_ref().map(|tools| tools.join(", "));
        let mut fields = vec![("name", name.as_str())];
        fields.extend(agent.description.map(|text| ("description", text)));
        fields.extend(tools.as_deref().map(|tools| ("tools", tools)));
        if agent.is_plan {
            fields.push(("mode", "plan"));
        }
        let text = with_front_matter(&fields, agent.prompt);
        let detail = describe(&format!("agent `{name}`"), &agent.ignored);
        self.add_prompt(PromptKind::Agent, &what, name.clone(), text, detail);
    }

    /// Adds the commands of Markdown files, such as those of Claude Code and opencode.
    pub(super) fn add_markdown_commands(
        &mut self,
        files: &[FolderFile],
        insertions: &'static [&'static str],
    ) {
        for file in files {
            let (fields, prompt) = match FrontMatter::parse(&file.text) {
                Ok(parsed) => parsed,
                Err(error) => {
                    self.leave(&file.shown, &error.to_string());
                    continue;
                }
            };
            let known = ["description", "argument-hint"];
            let ignored = fields.keys().filter(|key| !known.contains(key)).collect();
            let hint = hint_text(&fields);
            self.add_command(
                &file.shown,
                &CommandParts {
                    name: &file.name,
                    description: fields.text("description").unwrap_or_default(),
                    argument_hint: hint.as_deref(),
                    prompt,
                    insertions,
                    ignored,
                },
            );
        }
    }

    /// Adds the agents of Markdown files as Claude Code and Gemini CLI have them.
    pub(super) fn add_markdown_agents(&mut self, files: &[FolderFile]) {
        for file in files {
            if let Err(error) = self.add_markdown_agent(file) {
                self.leave(&file.shown, &error.to_string());
            }
        }
    }

    fn add_markdown_agent(&mut self, file: &FolderFile) -> Result<(), FrontMatterError> {
        let (fields, prompt) = FrontMatter::parse(&file.text)?;
        let known = ["name", "description", "tools", "permissionMode"];
        let denied = fields.list("disallowedTools")?.unwrap_or_default();
        if !denied.is_empty() {
            let why = "it excludes tools (`disallowedTools`), which zero's agents cannot; list those that it may use as `tools`";
            self.leave(&file.shown, why);
            return Ok(());
        }
        let tools = fields.list("tools")?.map(|tools| map_tools(&tools));
        let agent = AgentParts {
            name: fields.text("name")?.unwrap_or(&file.name),
            description: fields.text("description")?,
            tools,
            is_plan: fields.text("permissionMode")? == Some("plan"),
            prompt,
            ignored: fields.keys().filter(|key| !known.contains(key)).collect(),
        };
        self.add_agent(&file.shown, &agent);
        Ok(())
    }
}

/// The hint of a command, which may look like a list: `[file]`.
fn hint_text(fields: &FrontMatter) -> Option<String> {
    match fields.text("argument-hint") {
        Ok(text) => text.map(str::to_owned),
        Err(_) => fields.list("argument-hint").ok()?.map(|items| format!("[{}]", items.join(", "))),
    }
}

/// zero's names of tools of other programs; those that zero does not have are left out.
pub(super) fn map_tools(tools: &[String]) -> Vec<String> {
    let mut mapped: Vec<String> = Vec::new();
    for tool in tools {
        let bare = tool.split('(').next().unwrap_or_default().trim();
        let name = match bare.strip_prefix("mcp__") {
            Some(external) if external.contains("__") => Some(external.to_owned()),
            Some(server) => Some(format!("{server}__*")),
            None => canonical_tool(bare).map(str::to_owned),
        };
        mapped.extend(name.filter(|name| !mapped.contains(name)));
    }
    mapped
}

fn describe(what: &str, ignored: &[&str]) -> String {
    match ignored {
        [] => what.to_owned(),
        ignored => format!("{what}, without {}", ignored.join(", ")),
    }
}

/// The path of a command in zero's folder: lower-case letters, digits, `_` and `-`, at most three parts.
fn command_name(name: &str) -> Option<String> {
    let name = name.to_lowercase().replace([' ', '.'], "-");
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "_-".contains(c);
    let is_part = |part: &str| {
        !part.starts_with(['_', '-'])
            && !part.is_empty()
            && part.chars().all(plain)
            && part.len() <= NAME_LEN_MAX
    };
    (name.split('/').all(is_part) && name.split('/').count() <= 3).then_some(name)
}

fn with_front_matter(fields: &[(&str, &str)], prompt: &str) -> String {
    let mut text = String::new();
    if !fields.is_empty() {
        text += "---\n";
        for (key, value) in fields {
            let value = one_line(value, DESCRIPTION_LEN_MAX);
            // A text in double quotes means the same in JSON and in YAML.
            text += &format!("{key}: {}\n", serde_json::Value::String(value));
        }
        text += "---\n";
    }
    text + prompt.trim() + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn front_matter_is_read_back() {
        let text = with_front_matter(&[("description", "a: \"b\" # c\nd")], "Do it\n");
        let (fields, prompt) = FrontMatter::parse(&text).unwrap();
        assert_eq!(fields.text("description").unwrap(), Some("a: \"b\" # c d"));
        assert_eq!(prompt, "Do it\n");
    }

    #[test]
    fn tools_get_names_of_zero() {
        let tools = [
            "Read",
            "run_shell_command",
            "mcp__github",
            "mcp__docs__search",
            "Bash(git:*)",
            "TeleportTool",
        ];
        let tools = tools.map(str::to_owned);
        assert_eq!(map_tools(&tools), ["Read", "Bash", "github__*", "docs__search"]);
    }

    #[test]
    fn command_name_is_one_that_zero_reads() {
        for (name, expected) in [
            ("Review", Some("review")),
            ("git/Tidy up", Some("git/tidy-up")),
            ("a/b/c/d", None),
            ("é", None),
            ("_x", None),
        ] {
            assert_eq!(command_name(name).as_deref(), expected, "{name}");
        }
    }
}
