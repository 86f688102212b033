//! `zero config edit`: edits a settings file in the user's editor.
//!
//! The editor gets a private copy, and the text is checked as a whole before it replaces the file: a
//! settings file with an error would stop every command. A text that cannot be saved is kept.

use std::io::{Read as _, Write as _};

use anyhow::Context as _;
use zero_core::sanitize;
use zero_sandbox::{StateDir, terminal_program};
use zero_settings::document::FILE_BYTES_MAX;

use super::settings_change::SettingsChange;
use crate::AppContext;
use crate::cli::config::ConfigEditArgs;
use crate::exit::{ExitOutcome, UsageError};
use crate::terminal::escape_line;

/// Folder for the copies, in the state folder.
const EDIT_FOLDER: &str = "editing";
/// Name of the copy; its ending tells the editor the language.
const COPY_NAME: &str = "settings.jsonc";

pub(super) fn edit(app: &AppContext, args: &ConfigEditArgs) -> anyhow::Result<ExitOutcome> {
    let change = SettingsChange::for_file(app, &args.layer)?;
    let editor = editor_command(app)?;
    let file = change.open_file()?;
    let before = file.read_text()?;
    let copy = SettingsCopy::create(&before, &app.config.state_dir()?)
        .context("could not create a copy to edit")?;
    let shown = sanitize::to_quoted_line(&editor);
    let status = terminal_program::edit(&editor, &copy.path())
        .with_context(|| format!("could not start {shown}"))?;
    let text = match copy.read_text() {
        Ok(text) => text,
        Err(why) => return Err(copy.into_error(&why).into()),
    };
    if !status.success() {
        if text != before {
            return Err(copy.into_error(&format!("{shown} ended with {status}")).into());
        }
        copy.remove();
        anyhow::bail!("{shown} ended with {status}; nothing changed");
    }
    if text == before {
        copy.remove();
        app.terminal.out.write(&format!("no change in {}\n", escape_line(&file.shown)))?;
        return Ok(ExitOutcome::Ok);
    }
    match file.replace_text(&before, &text) {
        Ok(()) => copy.remove(),
        Err(UsageError(why)) => return Err(copy.into_error(&why).into()),
    }
    app.terminal.out.write(&format!("saved {}\n", escape_line(&file.shown)))?;
    change.print_trust_note()?;
    Ok(ExitOutcome::Ok)
}

/// Editor command from `VISUAL` or `EDITOR`. There is no default editor.
fn editor_command(app: &AppContext) -> Result<String, UsageError> {
    let instead = "use `zero config set`, or edit the file that `zero config path` names";
    if !(app.terminal.is_stdin_terminal() && app.terminal.out.is_terminal()) {
        return Err(UsageError(format!("an editor needs a terminal; {instead}")));
    }
    let set = |variable| {
        let value = app.config.variable(variable).map(str::trim);
        value.filter(|value| !value.is_empty()).map(str::to_owned)
    };
    set("VISUAL").or_else(|| set("EDITOR")).ok_or_else(|| {
        let how = "set VISUAL or EDITOR, as in `EDITOR=nano zero config edit`";
        UsageError(format!("no editor is set; {how}, or {instead}"))
    })
}

/// Copy of a settings file that only the user can read.
struct SettingsCopy {
    folder: StateDir,
}

impl SettingsCopy {
    fn create(text: &str, state: &StateDir) -> std::io::Result<Self> {
        let folder = state.child(EDIT_FOLDER).child(&format!("{:016x}", fastrand::u64(..)));
        folder.create()?;
        let mut file = folder.create_new(COPY_NAME)?;
        file.write_all(text.as_bytes())?;
        Ok(Self { folder })
    }

    fn path(&self) -> std::path::PathBuf {
        self.folder.path().join(COPY_NAME)
    }

    fn read_text(&self) -> Result<String, String> {
        let unreadable = |error: std::io::Error| format!("could not read the edited text: {error}");
        let file = self.folder.open(COPY_NAME).map_err(unreadable)?;
        let mut bytes = Vec::new();
        // One byte more than allowed, so that the check of the size fails.
        file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(unreadable)?;
        String::from_utf8(bytes).map_err(|_| "the edited text is not valid UTF-8".to_owned())
    }

    fn remove(self) {
        // A leftover copy is harmless.
        let _ = self.folder.remove_all();
    }

    /// Keeps the copy and returns an error with its path.
    fn into_error(self, why: &str) -> UsageError {
        let path = self.path().display().to_string();
        UsageError(format!("{why}\nnothing changed; your text is in {}", escape_line(&path)))
    }
}
