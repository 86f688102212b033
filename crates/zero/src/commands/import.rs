//! `zero import`: takes over the settings of another agent.
//!
//! Each program has a module that reads its files and fills an [`ImportPlan`]; the plan knows what zero
//! can express. An allow rule that has no exact counterpart is left out, a deny rule is made stricter
//! instead. A file that cannot be read completely stops the import, because a deny rule in it would be
//! lost.

mod claude;
mod codex;
mod gemini;
mod import_plan;
mod opencode;
mod prompt_import;
mod server_import;
mod source_files;
mod starlark_rules;

use serde_json::{Value, json};
use zero_core::sanitize;
use zero_sandbox::{ConfigFile, Workspace};
use zero_settings::SettingsLayerKind;
use zero_settings::edit::{self, ValueEdit};

use self::import_plan::{ImportLine, ImportOutcome, ImportPlan, PromptKind};
use self::source_files::SourceFiles;
use super::file_proposal::{ProposalConsent, ProposedFile, decide};
use crate::AppContext;
use crate::cli::{ImportArgs, ImportProgram};
use crate::exit::{ExitOutcome, UsageError};
use crate::settings_file_edit::EditableSettingsFile;
use crate::terminal::{BAD, FAINT, GOOD, NOTABLE, STRONG, TerminalStream, escape_line};

pub(super) fn run(app: &AppContext, args: &ImportArgs) -> anyhow::Result<ExitOutcome> {
    let workspace = app.config.open_workspace(args.workspace.as_slice())?;
    let kind = match (args.project, args.local) {
        (true, _) => SettingsLayerKind::Project,
        (_, true) => SettingsLayerKind::Local,
        _ => SettingsLayerKind::User,
    };
    let sources = SourceFiles::new(app, &workspace, kind)?;
    let mut plan = ImportPlan::default();
    match args.program {
        ImportProgram::Claude => claude::read(&sources, &mut plan)?,
        ImportProgram::Codex => codex::read(&sources, &mut plan)?,
        ImportProgram::Opencode => opencode::read(&sources, &mut plan)?,
        ImportProgram::Gemini => gemini::read(&sources, &mut plan)?,
    }
    if sources.found().is_empty() {
        let places = sources.looked_for().join(", ");
        let other = match kind.is_in_workspace() {
            true => "without --project, your own settings are read",
            false => "with --project, those of the project are read",
        };
        return Err(UsageError(format!("there are none of these files: {places}; {other}")).into());
    }
    let settings = EditableSettingsFile::new(app, &workspace, kind)?;
    let mut files = Vec::new();
    let before = settings.read_existing()?;
    let start = before.clone().unwrap_or_else(|| "{}\n".to_owned());
    settings.check_result(start.as_bytes())?;
    let after = apply_edits(&settings, &start, &mut plan);
    if after != start {
        files.push(ProposedFile::settings(kind, settings.shown.clone(), before, after));
    }
    propose_prompts(app, &workspace, kind, &mut plan, &mut files)?;
    let report = json!({
        "program": program_name(args.program),
        "sources": sources.found(),
        "entries": plan.lines.iter().map(ImportLine::to_json).collect::<Vec<_>>(),
    });
    let found = sources.found();
    let text = |stream: &TerminalStream| render_report(stream, args.program, &found, &plan);
    let consent = ProposalConsent { yes: args.yes, dry_run: args.dry_run, json: args.json };
    decide(app, &workspace, consent, &files, (&text, report))
}

fn program_name(program: ImportProgram) -> &'static str {
    match program {
        ImportProgram::Claude => "Claude Code",
        ImportProgram::Codex => "Codex",
        ImportProgram::Opencode => "opencode",
        ImportProgram::Gemini => "Gemini CLI",
    }
}

/// The text of the settings with everything that they do not say already. Entries that would make
/// the file invalid are left out.
fn apply_edits(settings: &EditableSettingsFile<'_>, start: &str, plan: &mut ImportPlan) -> String {
    let mut text = start.to_owned();
    // Servers of zero's settings that are not those of the other program, though they have their names.
    let mut other_servers: Vec<String> = Vec::new();
    for planned in std::mem::take(&mut plan.edits) {
        if planned.allowed_server().is_some_and(|name| other_servers.iter().any(|it| it == name)) {
            let why = "zero's settings have another server of this name";
            plan.reclassify(planned.line, ImportOutcome::Left, why);
            continue;
        }
        let key: Vec<&str> = planned.key.iter().map(String::as_str).collect();
        let edited = edit::apply(&text, &key, &planned.edit);
        let is_set = matches!(planned.edit, ValueEdit::Set(_));
        let is_there =
            is_set && edit::apply(&text, &key, &ValueEdit::Unset).is_ok_and(|new| new.is_some());
        if is_there && matches!(edited, Ok(Some(_))) {
            let name = planned.key.join(".");
            let why = format!("zero's settings have `{name}` already, and it stays");
            plan.reclassify(planned.line, ImportOutcome::Left, &why);
            if let ["mcpServers", server] = key[..] {
                other_servers.push(server.to_owned());
            }
            continue;
        }
        match edited {
            Ok(Some(new)) => match settings.check_result(new.as_bytes()) {
                Ok(()) => text = new,
                Err(UsageError(why)) => {
                    plan.reclassify(planned.line, ImportOutcome::Left, &sanitize::to_line(&why));
                }
            },
            Ok(None) => plan.reclassify(planned.line, ImportOutcome::There, ""),
            Err(error) => plan.reclassify(planned.line, ImportOutcome::Left, &error.to_string()),
        }
    }
    text
}

/// Adds the files of commands and agents that do not exist yet.
fn propose_prompts(
    app: &AppContext,
    workspace: &Workspace,
    kind: SettingsLayerKind,
    plan: &mut ImportPlan,
    files: &mut Vec<ProposedFile>,
) -> Result<(), UsageError> {
    for prompt in std::mem::take(&mut plan.prompts) {
        let folder = match prompt.kind {
            PromptKind::Command => "commands",
            PromptKind::Agent => "agents",
        };
        let relative = format!("{folder}/{}.md", prompt.name);
        let file = match kind.is_in_workspace() {
            true => ConfigFile::Beneath {
                root: workspace.cwd().to_owned(),
                relative: format!(".zero/{relative}").into(),
            },
            false => {
                let settings = app.config.settings_file()?;
                ConfigFile::Own(settings.with_file_name(relative))
            }
        };
        match ProposedFile::create(app, file, prompt.text)? {
            (Some(file), _) if files.iter().any(|other| other.shown == file.shown) => {
                plan.reclassify(
                    prompt.line,
                    ImportOutcome::Left,
                    "another one has the same name in zero",
                );
            }
            (Some(file), _) => files.push(file),
            (None, true) => plan.reclassify(prompt.line, ImportOutcome::There, ""),
            (None, false) => {
                let why =
                    format!("zero has a file {folder}/{}.md already, and it stays", prompt.name);
                plan.reclassify(prompt.line, ImportOutcome::Left, &why);
            }
        }
    }
    Ok(())
}

fn render_report(
    stream: &TerminalStream,
    program: ImportProgram,
    found: &[String],
    plan: &ImportPlan,
) -> String {
    let sources = escape_line(&found.join(", ")).into_owned();
    let title = format!("Settings of {} in {sources}", program_name(program));
    let mut text = format!("{}\n", stream.paint(STRONG, &title));
    for outcome in ImportOutcome::ALL {
        let lines: Vec<&ImportLine> =
            plan.lines.iter().filter(|line| line.outcome == outcome).collect();
        if lines.is_empty() {
            continue;
        }
        let style = match outcome {
            ImportOutcome::Taken => GOOD,
            ImportOutcome::There => FAINT,
            ImportOutcome::Stricter => NOTABLE,
            ImportOutcome::Left => FAINT,
            ImportOutcome::Unenforced => BAD,
        };
        text += &format!("\n{}\n", stream.paint(style, outcome.title()));
        for line in lines {
            let what = escape_line(&line.what);
            text += &match line.detail.as_str() {
                "" => format!("  {what}\n"),
                detail => format!("  {what}: {}\n", escape_line(detail)),
            };
        }
    }
    text
}

/// A string of a JSON object.
fn text_field<'a>(value: &'a Value, key: &str) -> Option<&'a str> {
    value.get(key).and_then(Value::as_str)
}

/// The strings of a list in a JSON object; others are ignored.
fn list_field(value: &Value, key: &str) -> Vec<String> {
    let items = value.get(key).and_then(Value::as_array).into_iter().flatten();
    items.filter_map(Value::as_str).map(str::to_owned).collect()
}

/// Pairs of names and texts of an object in a JSON object. Numbers and booleans are taken as texts.
fn pairs_field(value: &Value, key: &str) -> Vec<(String, String)> {
    let fields = value.get(key).and_then(Value::as_object).into_iter().flatten();
    let to_text = |value: &Value| match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(_) | Value::Bool(_) => Some(value.to_string()),
        _ => None,
    };
    fields.filter_map(|(name, value)| Some((name.clone(), to_text(value)?))).collect()
}
