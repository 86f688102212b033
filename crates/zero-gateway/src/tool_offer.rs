//! Validates the tools that a client offers for a session.
//!
//! The model sees the names, descriptions and schemas of an offer, and users see some of them. An
//! offer is therefore accepted as a whole or refused, and the error names the tool and field.

use std::collections::HashSet;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use zero_core::{ToolName, sanitize};
use zero_runtime::DialectName;
use zero_runtime::schema::foreign_schema;
use zero_runtime::tool_backend::{
    AgentDefinition, CatalogEntry, InstructionFile, PromptCommand, SubagentIsolation, ToolCatalog,
};
use zero_session::PermissionMode;
use zero_session::key::is_agent_id;
use zero_wire::ErrorPayload;
use zero_wire::tools::{
    DESCRIPTION_LEN_MAX, DISPLAY_NAME_LEN_MAX, OfferedAgent, OfferedCommand, OfferedInstruction,
    OfferedTool, TOOLS_MAX, ToolsOfferParams,
};

use crate::history::json_bytes;

/// Maximum size of an offer, in bytes of JSON.
const OFFER_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Time limit for validating all schemas. Ordinary schemas take milliseconds.
const CHECK_TIME_MAX: Duration = Duration::from_secs(5);
/// Maximum number of instruction files, and of commands.
const TEXTS_MAX: usize = 500;
/// Maximum size of one of them, in bytes.
const TEXT_BYTES_MAX: usize = 128 * 1024;
/// Maximum length of a path or of the system's name, in characters.
const PATH_LEN_MAX: usize = 4_096;
/// Maximum length of a command's name, including the `:` between its parts, in characters.
const COMMAND_LEN_MAX: usize = 256;
/// Maximum length of a command's description, in characters.
const HINT_LEN_MAX: usize = 1_000;

/// A validated offer.
#[derive(Debug)]
pub(crate) struct ToolOffer {
    /// The dialect of the tools.
    pub(crate) dialect: DialectName,
    /// The tools, instructions, commands and agents.
    pub(crate) catalog: ToolCatalog,
    /// Whether the host can work for sub-agents.
    pub(crate) takes_subagents: bool,
}

impl ToolOffer {
    /// Validates an offer. Takes milliseconds, so call it on a blocking thread.
    pub(crate) fn from_params(params: ToolsOfferParams) -> Result<Self, ErrorPayload> {
        parse_offer(params)
            .map_err(|why| ErrorPayload::invalid(format!("invalid tools/offer params: {why}")))
    }
}

fn parse_offer(params: ToolsOfferParams) -> Result<ToolOffer, String> {
    let dialect: DialectName = params
        .dialect
        .parse()
        .map_err(|_| "dialect: the dialects are canonical, acp, qwen and opencode".to_owned())?;
    check_count("tools", params.tools.len(), TOOLS_MAX)?;
    check_count("instructions", params.instructions.len(), TEXTS_MAX)?;
    check_count("commands", params.commands.len(), TEXTS_MAX)?;
    check_count("agents", params.agents.len(), TEXTS_MAX)?;
    let bytes = json_bytes(&params);
    if bytes > OFFER_BYTES_MAX {
        return Err(format!("it has {bytes} bytes, more than {OFFER_BYTES_MAX}; offer less"));
    }
    check_line(&params.cwd, 0, PATH_LEN_MAX).map_err(|why| format!("cwd: it {why}"))?;
    check_text(&params.system, PATH_LEN_MAX).map_err(|why| format!("system: it {why}"))?;
    let instructions = params.instructions.into_iter().map(parse_instruction);
    let instructions = instructions.collect::<Result<_, _>>()?;
    let commands = params.commands.into_iter().map(parse_command).collect::<Result<_, _>>()?;
    let tools = parse_tools(params.tools)?.into();
    let (cwd, system) = (PathBuf::from(params.cwd), params.system);
    let agents = params.agents.into_iter().map(parse_agent).collect::<Result<_, _>>()?;
    let catalog = ToolCatalog { cwd, system, tools, instructions, commands, agents };
    Ok(ToolOffer { dialect, catalog, takes_subagents: params.subagents })
}

fn parse_tools(offered: Vec<OfferedTool>) -> Result<Vec<CatalogEntry>, String> {
    let until = Instant::now() + CHECK_TIME_MAX;
    let mut names = HashSet::new();
    let mut tools = Vec::with_capacity(offered.len());
    for tool in offered {
        if Instant::now() > until {
            let most = CHECK_TIME_MAX.as_secs();
            return Err(format!("tools: the schemas take more than {most} s to check; offer less"));
        }
        let tool = self::parse_tool(tool)?;
        if !names.insert(tool.name.clone()) {
            return Err(format!("tools: `{}` is there twice", tool.name));
        }
        tools.push(tool);
    }
    Ok(tools)
}

fn parse_tool(mut tool: OfferedTool) -> Result<CatalogEntry, String> {
    let called = sanitize::to_quoted_line(&tool.name);
    let wrong = |field: &str, why: String| format!("tool {called}: {field}: {why}");
    let name_of = |field: &str, name: String| {
        let why = format!(
            "use 1 to {} ASCII letters, digits, `_` or `-`, starting with a letter",
            ToolName::LEN_MAX
        );
        ToolName::new(name).map(String::from).map_err(|_| wrong(field, why))
    };
    let name = name_of("name", tool.name)?;
    let canonical = name_of("canonical", tool.canonical)?;
    check_text(&tool.description, DESCRIPTION_LEN_MAX)
        .map_err(|why| wrong("description", format!("it {why}")))?;
    if let Some(shown) = &tool.display_name {
        check_line(shown, 1, DISPLAY_NAME_LEN_MAX)
            .map_err(|why| wrong("displayName", format!("it {why}")))?;
    }
    foreign_schema::vet_input(&mut tool.input_schema)
        .map_err(|why| wrong("inputSchema", format!("it {why}")))?;
    Ok(CatalogEntry {
        name,
        canonical,
        display_name: tool.display_name,
        description: tool.description,
        input_schema: tool.input_schema,
        kind: tool.kind,
        read_only: tool.read_only,
        info: None,
    })
}

/// The content of a file is for the model only and may contain any character.
fn parse_instruction(file: OfferedInstruction) -> Result<InstructionFile, String> {
    let wrong =
        |why: String| format!("instructions: {}: {why}", sanitize::to_quoted_line(&file.path));
    check_line(&file.path, 1, PATH_LEN_MAX).map_err(|why| wrong(format!("its path {why}")))?;
    check_text_bytes(&file.text).map_err(|why| wrong(format!("its text {why}")))?;
    Ok(InstructionFile { path: file.path, text: file.text })
}

fn parse_command(command: OfferedCommand) -> Result<PromptCommand, String> {
    let wrong = |why: String| format!("command {}: {why}", sanitize::to_quoted_line(&command.name));
    let allowed = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b"_-:".contains(&b);
    let length = command.name.len();
    if length == 0 || length > COMMAND_LEN_MAX || !command.name.bytes().all(allowed) {
        return Err(wrong(format!(
            "name: use 1 to {COMMAND_LEN_MAX} lower-case ASCII letters, digits, `_`, `-` or `:`"
        )));
    }
    let hint = command.argument_hint.as_deref().unwrap_or_default();
    for (field, text) in [("description", command.description.as_str()), ("argumentHint", hint)] {
        check_line(text, 0, HINT_LEN_MAX).map_err(|why| wrong(format!("{field}: it {why}")))?;
    }
    check_text_bytes(&command.prompt).map_err(|why| wrong(format!("prompt: it {why}")))?;
    Ok(PromptCommand {
        name: command.name,
        description: command.description,
        argument_hint: command.argument_hint,
        prompt: command.prompt,
    })
}

fn parse_agent(agent: OfferedAgent) -> Result<AgentDefinition, String> {
    let wrong = |why: String| format!("agent {}: {why}", sanitize::to_quoted_line(&agent.name));
    if !is_agent_id(&agent.name) {
        return Err(wrong("name: use lower-case ASCII letters, digits, `_` or `-`".to_owned()));
    }
    let problem = agent.problem.as_deref().unwrap_or_default();
    let model = agent.model.as_deref().unwrap_or_default();
    for (field, text) in
        [("description", agent.description.as_str()), ("problem", problem), ("model", model)]
    {
        check_line(text, 0, HINT_LEN_MAX).map_err(|why| wrong(format!("{field}: it {why}")))?;
    }
    if let Some(path) = &agent.project_file {
        check_line(path, 1, PATH_LEN_MAX).map_err(|why| wrong(format!("projectFile: it {why}")))?;
    }
    check_text_bytes(&agent.prompt).map_err(|why| wrong(format!("prompt: it {why}")))?;
    check_count("tools", agent.tools.as_ref().map_or(0, Vec::len), TOOLS_MAX).map_err(&wrong)?;
    let mode = agent.mode.as_deref().map(str::parse::<PermissionMode>).transpose();
    let mode = mode.map_err(|error| wrong(format!("mode: {error}")))?;
    Ok(AgentDefinition {
        name: agent.name,
        description: agent.description,
        prompt: agent.prompt,
        project_file: agent.project_file,
        tools: agent.tools,
        model: agent.model,
        mode,
        isolation: SubagentIsolation::from_worktree(agent.worktree),
        problem: agent.problem,
    })
}

fn check_count(field: &str, count: usize, most: usize) -> Result<(), String> {
    if count > most {
        return Err(format!("{field}: there are {count}, more than {most}; offer fewer"));
    }
    Ok(())
}

/// Like [`check_text`], for a single line without tabs.
fn check_line(text: &str, min: usize, most: usize) -> Result<(), String> {
    if text.contains(['\n', '\t']) {
        return Err("has more than one line, or a tab".to_owned());
    }
    if text.chars().count() < min {
        return Err("is empty".to_owned());
    }
    check_text(text, most)
}

/// Checks the length of a text and refuses characters that hide or move others.
fn check_text(text: &str, most: usize) -> Result<(), String> {
    let length = text.chars().count();
    if length > most {
        return Err(format!("has {length} characters, more than {most}; shorten it"));
    }
    match sanitize::find_unsafe_char(text) {
        Some(c) => Err(format!(
            "has the character U+{:04X}, which hides or moves others; leave it out",
            u32::from(c)
        )),
        None => Ok(()),
    }
}

fn check_text_bytes(text: &str) -> Result<(), String> {
    let bytes = text.len();
    if bytes > TEXT_BYTES_MAX {
        return Err(format!("has {bytes} bytes, more than {TEXT_BYTES_MAX}; shorten it"));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
