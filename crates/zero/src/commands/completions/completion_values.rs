//! `zero complete`: the session keys, models, settings and tools that a shell offers.
//!
//! A shell runs it while the user types, so that it is quick and silent: what cannot be read is not
//! offered. A value with a character that a shell could interpret is not offered either, because
//! the shell inserts it into the command line as it is.

use std::sync::mpsc;
use std::time::Duration;

use zero_core::sanitize::escape_line;
use zero_core::text_shortening::shorten_to_fit;
use zero_session::sqlite_store::SqliteStore;
use zero_session::store::{SessionQuery, Store};
use zero_settings::settings_schema;

use crate::AppContext;
use crate::cli::CompletionKind;
use crate::exit::ExitOutcome;
use crate::host_setup::small_runtime;
use crate::session_engine::STORE_FILE;

/// Most sessions that are offered, the latest.
const SESSIONS_MAX: usize = 100;
/// Longest title of a session, in characters.
const TITLE_CHARS_MAX: usize = 60;
/// Longest time that a lookup takes; a shell waits for it.
const LOOKUP_TIMEOUT: Duration = Duration::from_millis(500);
/// What the keys of most sessions begin with. Sessions are found without it.
const USUAL_PREFIX: &str = "agent:main:";

/// A value with a description.
type CompletionValue = (String, String);

pub(crate) fn run(app: &AppContext, kind: CompletionKind) -> anyhow::Result<ExitOutcome> {
    let (sender, receiver) = mpsc::sync_channel(1);
    let owned = app.clone();
    let list = move || {
        let found = match kind {
            CompletionKind::Sessions => list_sessions(&owned),
            CompletionKind::Models => list_models(&owned),
            CompletionKind::Settings => Ok(list_settings()),
            CompletionKind::Tools => Ok(list_tools(&owned)),
        };
        // There is no receiver if it took too long.
        let _ = sender.send(found.unwrap_or_default());
    };
    let is_started = std::thread::Builder::new().name("completion".to_owned()).spawn(list).is_ok();
    let values = match is_started {
        true => receiver.recv_timeout(LOOKUP_TIMEOUT).unwrap_or_default(),
        false => Vec::new(),
    };
    app.terminal.out.write(&render_values(&values))?;
    Ok(ExitOutcome::Ok)
}

fn render_values(values: &[CompletionValue]) -> String {
    let offered = values.iter().filter(|(value, _)| is_plain_word(value));
    let lines = offered.map(|(value, title)| {
        let title = shorten_to_fit(&escape_line(title), TITLE_CHARS_MAX);
        format!("{value}\t{title}\n")
    });
    lines.collect()
}

/// Whether a shell takes the text as one word and does nothing else with it.
fn is_plain_word(text: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._:/@+-".contains(&byte);
    !text.is_empty() && !text.starts_with('-') && text.bytes().all(is_plain)
}

fn list_sessions(app: &AppContext) -> anyhow::Result<Vec<CompletionValue>> {
    let file = app.config.state_dir()?.path().join(STORE_FILE);
    // Opening it would create it.
    if std::fs::symlink_metadata(&file).is_err() {
        return Ok(Vec::new());
    }
    let store = SqliteStore::open(&file)?;
    let query = SessionQuery { limit: Some(SESSIONS_MAX), ..SessionQuery::default() };
    let found = small_runtime()?.block_on(store.list(query))?;
    let values = found.sessions.into_iter().map(|session| {
        let key = session.key.to_string();
        let short = key.strip_prefix(USUAL_PREFIX).map(str::to_owned).unwrap_or(key);
        (short, session.label.or(session.title).unwrap_or_default())
    });
    Ok(values.collect())
}

fn list_models(app: &AppContext) -> anyhow::Result<Vec<CompletionValue>> {
    let workspace = app.config.open_workspace(&[])?;
    let settings = app.load_settings(&workspace, &[])?;
    let (configs, _) = app.model_configs(&settings);
    Ok(configs.into_iter().map(|config| (config.name, config.id)).collect())
}

fn list_settings() -> Vec<CompletionValue> {
    let keys = settings_schema::known_keys().into_iter();
    keys.map(|known| (known.key.to_owned(), String::new())).collect()
}

fn list_tools(app: &AppContext) -> Vec<CompletionValue> {
    let names = app.tools.iter().map(|tool| tool.spec().name.to_string());
    names.map(|name| (name, String::new())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn value_that_a_shell_could_interpret_is_not_offered() {
        let value = |text: &str, title: &str| (text.to_owned(), title.to_owned());
        let shown = render_values(&[
            value("bug-42", "Fix the\tbug\n\x1b[2J"),
            value("agent:x:a/b@c+d.e_f", ""),
            value("$(touch x)", "a"),
            value("a b", "a"),
            value("a;b", "a"),
            value("`a`", "a"),
            value("--yes", "a"),
            value("a\nb", "a"),
            value("~", "a"),
            value("", "a"),
        ]);
        assert_eq!(shown, "bug-42\tFix the\\tbug\\n\\u{1b}[2J\nagent:x:a/b@c+d.e_f\t\n");
    }
}
