//! Files that a command proposes to write: shown as a diff, and written after a yes.
//!
//! Settings are checked as a whole and replaced only if they are still what was shown. Every other
//! file is only created: one that exists is never changed.

use serde_json::{Value, json};
use zero_sandbox::{ConfigFile, ConfigFileError, Workspace};
use zero_settings::SettingsLayerKind;
use zero_settings::layer::{describe_read_error, display_path};
use zero_tools::diff::file_diff;

use crate::AppContext;
use crate::exit::{ExitOutcome, UsageError};
use crate::settings_file_edit::EditableSettingsFile;
use crate::terminal::{GOOD, STRONG, TerminalStream, escape_line};

/// Largest file that is compared with one to create, in bytes.
const FILE_BYTES_MAX: u64 = 1_000_000;

/// How the user decides about the files.
#[derive(Clone, Copy, Debug)]
pub(super) struct ProposalConsent {
    /// Whether to write without asking.
    pub(super) yes: bool,
    /// Whether to write nothing.
    pub(super) dry_run: bool,
    /// Whether to print JSON.
    pub(super) json: bool,
}

/// A file to write.
pub(super) struct ProposedFile {
    target: ProposedTarget,
    /// The file as shown to the user.
    pub(super) shown: String,
    before: Option<String>,
    after: String,
}

enum ProposedTarget {
    Settings(SettingsLayerKind),
    New(ConfigFile),
}

impl ProposedFile {
    /// A settings file with another text. `before` is `None` if there is no file.
    pub(super) fn settings(
        kind: SettingsLayerKind,
        shown: String,
        before: Option<String>,
        after: String,
    ) -> Self {
        Self { target: ProposedTarget::Settings(kind), shown, before, after }
    }

    /// A new file; `None` if it exists. The second value is whether it exists with the same text.
    pub(super) fn create(
        app: &AppContext,
        file: ConfigFile,
        text: String,
    ) -> Result<(Option<Self>, bool), UsageError> {
        let shown = display_path(&file.path(), app.config.home());
        match file.read(FILE_BYTES_MAX) {
            Ok(None) => {
                let target = ProposedTarget::New(file);
                Ok((Some(Self { target, shown, before: None, after: text }), false))
            }
            Ok(Some(there)) => Ok((None, there == text.as_bytes())),
            Err(ConfigFileError::TooLarge { .. }) => Ok((None, false)),
            Err(error) => Err(UsageError(format!("{shown} {}", describe_read_error(&error)))),
        }
    }

    /// The file as JSON.
    pub(super) fn to_json(&self) -> Value {
        let action = if self.before.is_some() { "change" } else { "create" };
        json!({"path": self.shown, "action": action, "text": self.after})
    }

    fn render(&self, stream: &TerminalStream) -> String {
        let action = if self.before.is_some() { "change" } else { "create" };
        let title = format!("{action} {}", escape_line(&self.shown));
        let diff = file_diff(&self.shown, self.before.as_deref(), Some(&self.after));
        format!("{}\n{}", stream.paint(STRONG, &title), stream.render_diff(&diff.unified))
    }

    fn write(&self, app: &AppContext, workspace: &Workspace) -> Result<(), UsageError> {
        match &self.target {
            ProposedTarget::Settings(kind) => {
                let file = EditableSettingsFile::new(app, workspace, *kind)?;
                let before = self.before.clone();
                let before = before.map_or_else(|| file.read_text(), Ok)?;
                file.replace_text(&before, &self.after)
            }
            ProposedTarget::New(file) => {
                let failed = |error: &ConfigFileError| {
                    UsageError(format!("{} {}", self.shown, describe_read_error(error)))
                };
                if file.read(FILE_BYTES_MAX).map_err(|error| failed(&error))?.is_some() {
                    return Err(UsageError(format!("{} was created in the meantime", self.shown)));
                }
                file.write(self.after.as_bytes()).map_err(|error| failed(&error))
            }
        }
    }
}

/// Shows the report and the files, asks, and writes them. With JSON, `report` is the object that gets
/// the files; otherwise `text` is shown before them.
pub(super) fn decide(
    app: &AppContext,
    workspace: &Workspace,
    consent: ProposalConsent,
    files: &[ProposedFile],
    (text, mut report): (&dyn Fn(&TerminalStream) -> String, Value),
) -> anyhow::Result<ExitOutcome> {
    let terminal = &app.terminal;
    if consent.json {
        let is_written = consent.yes && !files.is_empty();
        if is_written {
            write_all(app, workspace, files)?;
        }
        report["files"] = files.iter().map(ProposedFile::to_json).collect();
        report["written"] = json!(is_written);
        terminal.out.write_pretty_json(&report)?;
        return Ok(ExitOutcome::Ok);
    }
    let show = |stream: &TerminalStream| -> std::io::Result<()> {
        stream.write_prose(&text(stream), 2)?;
        files.iter().try_for_each(|file| stream.write(&format!("\n{}", file.render(stream))))
    };
    let asks = !consent.yes && !consent.dry_run && !files.is_empty();
    let answers = terminal.answer_source().filter(|_| asks);
    // What the user approves is on the same stream as the question.
    show(if answers.is_some() { &terminal.err } else { &terminal.out })?;
    if files.is_empty() || consent.dry_run {
        terminal.out.write(if files.is_empty() {
            "nothing to write\n"
        } else {
            "nothing written\n"
        })?;
        return Ok(ExitOutcome::Ok);
    }
    match answers {
        Some(answers) if !terminal.confirm(&answers, "Write this?") => {
            terminal.out.write("nothing written\n")?;
            return Ok(ExitOutcome::Denied);
        }
        None if !consent.yes => {
            terminal.print_error(
                "cannot ask without a terminal; review what is shown, then pass `--yes`",
            );
            return Ok(ExitOutcome::Denied);
        }
        _ => {}
    }
    write_all(app, workspace, files)?;
    for file in files {
        let out = &terminal.out;
        out.write(&format!("{} {}\n", out.paint(GOOD, "wrote"), escape_line(&file.shown)))?;
    }
    let is_in_workspace = |file: &ProposedFile| matches!(file.target, ProposedTarget::Settings(kind) if kind.is_in_workspace());
    if files.iter().any(is_in_workspace)
        && let Some(note) = app.load_settings(workspace, &[])?.trust_note()
    {
        terminal.print_note(&note);
    }
    Ok(ExitOutcome::Ok)
}

fn write_all(
    app: &AppContext,
    workspace: &Workspace,
    files: &[ProposedFile],
) -> Result<(), UsageError> {
    files.iter().try_for_each(|file| file.write(app, workspace))
}
