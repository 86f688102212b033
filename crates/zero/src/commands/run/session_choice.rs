//! Which session a prompt goes to: a new one, a named one, the last one of the folder, or one that
//! the user picks.

use std::path::Path;

use zero_core::session_key::is_agent_id;
use zero_core::shell_quoting::quote_shell_word;
use zero_runtime::QuestionWithdrawal;
use zero_runtime::clock::now_ms;
use zero_runtime::name_suggestions::suggest_names;
use zero_sandbox::typed_input::SignalKeys;
use zero_session::agent::DIRECT;
use zero_wire::sessions::{SessionsList, SessionsListParams};
use zero_wire::zero_sessions::{SessionInfo, SessionOpenParams, ZeroSessionsOpen};

use crate::AppContext;
use crate::cli::RunArgs;
use crate::exit::UsageError;
use crate::gateway_connection::CliGatewayConnection;
use crate::session_lookup::{find_other_case, find_session_key, missing_session_error};
use crate::session_name::{name_count, session_name};
use crate::terminal::dialog::DialogRun;
use crate::terminal::filter_list::choose_row;
use crate::terminal::{PromptTurn, escape_line, format_age};
use crate::tool_host_factory::TerminalPromptOptions;

/// Sessions that are looked through for those of a folder.
const SESSIONS_MAX: u64 = 1_000;
/// Sessions that an error lists.
const LISTED_MAX: usize = 10;
/// Similar names that a note lists.
const SIMILAR_MAX: usize = 3;
/// Names that are tried for a new session.
const NAME_TRIES_MAX: usize = 8;
/// The prefix of session keys if no agent was chosen.
const USUAL_AGENT_PREFIX: &str = "agent:main:";

/// A session of the folder.
struct FolderSession {
    key: String,
    name: Option<String>,
    /// First words of the conversation.
    title: Option<String>,
    updated_ms: i64,
}

/// The session that a prompt goes to.
pub(super) struct OpenedSession {
    pub(super) info: SessionInfo,
    /// Whether this run created it. A run that does not begin deletes it again.
    pub(super) is_created: bool,
}

/// Opens the session that the arguments choose. `None` if the user picks none.
pub(super) async fn open_session(
    app: &AppContext,
    args: &RunArgs,
    connection: &CliGatewayConnection,
    options: &TerminalPromptOptions,
    cwd: &Path,
) -> anyhow::Result<Option<OpenedSession>> {
    let key = match (&args.options.session, &args.options.resume) {
        (Some(named), _) => Some(named.clone()),
        (None, Some(named)) if !named.is_empty() => Some(named.clone()),
        (None, Some(_)) => match pick_session(app, connection, options, cwd).await? {
            Some(key) => Some(key),
            None => return Ok(None),
        },
        (None, None) if args.options.continue_last => {
            Some(find_last_session(connection, cwd).await?)
        }
        (None, None) => None,
    };
    let Some(named) = key else {
        let new = choose_new_key(connection).await?;
        return open_by_key(args, connection, new).await.map(Some);
    };
    if named.trim().is_empty() {
        let what = "`--session` is empty; pass the key or name of a session (`zero sessions list`), a new name, or omit it";
        return Err(UsageError(what.to_owned()).into());
    }
    let key = find_session_key(connection, &named).await?;
    if key.is_none() && args.options.resume.is_some() {
        return Err(missing_session_error(connection, &named).await?.into());
    }
    if key.is_none()
        && let Some(other) = find_other_case(connection, &named).await?
    {
        let (named, other) = (escape_line(&named), escape_line(&other));
        app.terminal.print_note(&format!(
            "`{named}` is a new session; there is also `{other}`: upper and lower case letters differ"
        ));
    }
    if key.is_none() {
        let similar = find_similar_names(connection, &named).await?;
        if !similar.is_empty() {
            let new = escape_line(&named);
            let similar: Vec<String> =
                similar.iter().map(|name| format!("`{}`", escape_line(name))).collect();
            app.terminal
                .print_note(&format!("new session `{new}`; similar: {}", similar.join(", ")));
        }
    }
    open_by_key(args, connection, key.unwrap_or(named)).await.map(Some)
}

/// Names of sessions that the user may have meant.
async fn find_similar_names(
    connection: &CliGatewayConnection,
    named: &str,
) -> anyhow::Result<Vec<String>> {
    let params = SessionsListParams { limit: Some(SESSIONS_MAX), ..SessionsListParams::default() };
    let found = connection.client.request::<SessionsList>(params).await?;
    let names = found.sessions.iter().map(|row| match &row.label {
        Some(label) => label.as_str(),
        None => short_name(&row.key),
    });
    // Another process can have created the session by now.
    let others = names.filter(|name| *name != short_name(named));
    Ok(suggest_names(short_name(named), others, SIMILAR_MAX))
}

/// Whether the session is new and the user gave it no name.
pub(super) fn is_unnamed(args: &RunArgs) -> bool {
    args.options.session.is_none() && args.options.resume.is_none() && !args.options.continue_last
}

async fn open_by_key(
    args: &RunArgs,
    connection: &CliGatewayConnection,
    name: String,
) -> anyhow::Result<OpenedSession> {
    let agent = match (&args.options.agent, &args.options.model) {
        (Some(agent), _) => Some(agent.as_str()),
        (None, Some(model)) if model == DIRECT => Some(DIRECT),
        _ => None,
    };
    if let Some(agent) = agent.filter(|agent| !is_agent_id(&agent.to_ascii_lowercase())) {
        let what = format!(
            "`{}` is not the name of an agent; a name has 1 to 64 letters, digits, `_` or `-`, and begins with a letter or a digit",
            escape_line(agent)
        );
        return Err(UsageError(what).into());
    }
    let key = match agent {
        Some(agent) if !name.starts_with("agent:") => format!("agent:{agent}:{name}"),
        Some(agent) if !name.starts_with(&format!("agent:{agent}:")) => {
            let what = format!(
                "session `{name}` belongs to an agent other than `{agent}`; omit `--session` or `--agent`"
            );
            return Err(UsageError(what).into());
        }
        _ => name,
    };
    // The key that is opened, since the one that was written may lack the agent.
    let is_created = find_session_key(connection, &key).await?.is_none();
    let params = SessionOpenParams {
        session_key: Some(key),
        model: args.options.model.clone(),
        mode: args.options.mode.map(|mode| mode.to_string()),
        ..SessionOpenParams::default()
    };
    let info = connection.client.request::<ZeroSessionsOpen>(params).await?;
    Ok(OpenedSession { info, is_created })
}

/// A short name that no session has, as the key of a new one.
async fn choose_new_key(connection: &CliGatewayConnection) -> anyhow::Result<String> {
    for _ in 0..NAME_TRIES_MAX {
        let name = session_name(fastrand::usize(..name_count()));
        if find_session_key(connection, &name).await?.is_none() {
            return Ok(name);
        }
    }
    Ok(format!("run-{:016x}", fastrand::u64(..)))
}

/// The name by which a session of the usual agent can be continued, or its key.
pub(in crate::commands) fn short_name(key: &str) -> &str {
    key.strip_prefix(USUAL_AGENT_PREFIX).unwrap_or(key)
}

/// The sessions that worked in a folder, newest first.
async fn list_folder_sessions(
    connection: &CliGatewayConnection,
    cwd: &Path,
) -> anyhow::Result<Vec<FolderSession>> {
    let params = SessionsListParams {
        limit: Some(SESSIONS_MAX),
        include_derived_titles: Some(true),
        ..SessionsListParams::default()
    };
    let found = connection.client.request::<SessionsList>(params).await?;
    let here = found
        .sessions
        .into_iter()
        .filter(|row| row.spawned_cwd.as_deref().is_some_and(|folder| Path::new(folder) == cwd));
    let session = here.map(|row| FolderSession {
        key: row.key,
        name: row.label,
        title: row.derived_title,
        updated_ms: row.updated_at,
    });
    let mut sessions: Vec<FolderSession> = session.collect();
    sessions.sort_by_key(|session| std::cmp::Reverse(session.updated_ms));
    Ok(sessions)
}

async fn find_last_session(
    connection: &CliGatewayConnection,
    cwd: &Path,
) -> anyhow::Result<String> {
    let last = list_folder_sessions(connection, cwd).await?.into_iter().next();
    last.map(|session| session.key).ok_or_else(|| no_session_error(cwd).into())
}

fn no_session_error(cwd: &Path) -> UsageError {
    let folder = cwd.display();
    UsageError(format!("there is no session in {folder} yet; omit `--continue` or `--resume`"))
}

/// Lets the user pick a session of the folder.
async fn pick_session(
    app: &AppContext,
    connection: &CliGatewayConnection,
    options: &TerminalPromptOptions,
    cwd: &Path,
) -> anyhow::Result<Option<String>> {
    let sessions = list_folder_sessions(connection, cwd).await?;
    if sessions.is_empty() {
        return Err(no_session_error(cwd).into());
    }
    let now = now_ms();
    let rows: Vec<String> = sessions.iter().map(|session| session.describe(now)).collect();
    let Some(answers) = options.answer_source(app) else {
        let shown: Vec<String> =
            rows.iter().take(LISTED_MAX).map(|row| format!("  {row}")).collect();
        let what = format!(
            "cannot ask which session to resume without a terminal; pass `--resume=NAME`:\n{}",
            shown.join("\n")
        );
        return Err(UsageError(what).into());
    };
    let turn: &PromptTurn = &options.turn;
    let turn = turn.begin().await;
    let stream = app.terminal.err.clone();
    let dialog = DialogRun {
        stream: &app.terminal.err,
        answers: &answers,
        signal_keys: SignalKeys::AreRead,
        withdrawal: &|| QuestionWithdrawal::CallCancelled.to_string(),
    };
    let picked =
        dialog.run(&turn, move |keys| choose_row(&stream, keys, &rows, None)).await.flatten();
    Ok(picked.and_then(|at| sessions.into_iter().nth(at)).map(|session| session.key))
}

impl FolderSession {
    /// One line: age, name or key, and first words.
    fn describe(&self, now_ms: i64) -> String {
        let age = now_ms.saturating_sub(self.updated_ms).max(0);
        let age = format_age(std::time::Duration::from_millis(age.unsigned_abs()));
        let name = self.name.as_deref().unwrap_or_else(|| short_name(&self.key));
        let title = self.title.as_deref().unwrap_or_default();
        escape_line(&format!("{age:>6} ago  {name:<20}  {title}")).trim_end().to_owned()
    }
}

/// Command line that uses the same session on the same gateway.
pub(super) fn follow_up_command(args: &RunArgs, command: &str, key: &str) -> String {
    let key = quote_shell_word(key);
    match &args.remote.url {
        Some(url) => format!("zero {command} {key} --url {}", quote_shell_word(url)),
        None => format!("zero {command} {key}"),
    }
}
