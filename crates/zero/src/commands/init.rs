//! `zero init`: proposes settings and instructions for a project, from what its files say about it.
//!
//! The project is only read, within bounds and without following links. A file that may contain secrets
//! is known by its name alone.

mod agents_file;
mod project_rules;
mod project_survey;

use serde_json::json;
use zero_sandbox::ConfigFile;
use zero_settings::SettingsLayerKind;

use self::project_rules::settings_text;
use self::project_survey::ProjectSurvey;
use super::file_proposal::{ProposalConsent, ProposedFile, decide};
use crate::AppContext;
use crate::cli::InitArgs;
use crate::exit::{ExitOutcome, UsageError};
use crate::settings_file_edit::EditableSettingsFile;
use crate::terminal::{STRONG, TerminalStream, escape_line};

pub(super) fn run(app: &AppContext, args: &InitArgs) -> anyhow::Result<ExitOutcome> {
    let workspace = app.config.open_workspace(args.dir.as_slice())?;
    let root = workspace.cwd();
    let home = app.config.home().and_then(|home| home.canonicalize().ok());
    if root.parent().is_none() || home.as_deref() == Some(root) {
        return Err(UsageError(format!(
            "{} is not the folder of a project; change to one, or name it: zero init DIR",
            escape_line(&root.display().to_string())
        ))
        .into());
    }
    let survey = ProjectSurvey::read(root);
    let (mut files, mut kept) = (Vec::new(), Vec::new());
    let settings = EditableSettingsFile::new(app, &workspace, SettingsLayerKind::Project)?;
    match settings.read_existing()? {
        Some(_) => kept.push(settings.shown.clone()),
        None => {
            let text = settings_text(&survey);
            settings.check_result(text.as_bytes())?;
            let shown = settings.shown.clone();
            files.push(ProposedFile::settings(SettingsLayerKind::Project, shown, None, text));
        }
    }
    match &survey.instructions {
        Some(name) => kept.push(name.clone()),
        None => {
            let text = agents_file::agents_text(&survey);
            let file = ConfigFile::Beneath { root: root.to_owned(), relative: "AGENTS.md".into() };
            files.extend(ProposedFile::create(app, file, text)?.0);
        }
    }
    let report = json!({
        "folder": root.to_string_lossy(),
        "project": survey.to_json(),
        "kept": kept,
    });
    let text = |stream: &TerminalStream| render_survey(stream, &survey, &kept);
    let consent = ProposalConsent { yes: args.yes, dry_run: args.dry_run, json: args.json };
    decide(app, &workspace, consent, &files, (&text, report))
}

fn render_survey(stream: &TerminalStream, survey: &ProjectSurvey, kept: &[String]) -> String {
    let mut text = format!("{}\n", stream.paint(STRONG, &escape_line(&survey.name)));
    let mut row = |name: &str, values: &[String]| {
        if !values.is_empty() {
            text += &format!("  {name:<18}{}\n", escape_line(&values.join(", ")));
        }
    };
    row("languages", &survey.languages);
    row("build tools", &survey.build_tools);
    row("package managers", &survey.package_managers);
    row("registries", &survey.hosts);
    row("secret files", &survey.secret_files);
    row("kept as it is", kept);
    if survey.build_tools.is_empty() {
        text +=
            "  no build tool that zero knows; add rules with `zero config add permissions.allow`\n";
    }
    for other in &survey.other_agents {
        let files = other.files.join(", ");
        let files = escape_line(&files);
        text += &match other.import {
            Some(command) => format!("  {}: {files}; to take it over: {command}\n", other.program),
            None => format!("  {}: {files}; AGENTS.md names it\n", other.program),
        };
    }
    text
}
