//! `zero sessions`: lists, shows, exports, copies, rewinds, resets and deletes sessions, local or
//! remote, manages what was allowed or rejected in them, and moves them to another store.

mod export;
mod offline_tools;
mod session_context;
mod session_grants;
mod session_rewind;
mod store_migration;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use anyhow::Context;
use jiff::Timestamp;
use serde_json::json;
use zero_core::event::{Event, EventKind};
use zero_session::store::UnnamedSession;
use zero_wire::sessions::{
    SessionsDelete, SessionsDeleteParams, SessionsList, SessionsListParams, SessionsReset,
    SessionsResetParams,
};
use zero_wire::zero_sessions::{
    SessionEventsParams, SessionForkParams, SessionInfo, SessionKeyParams, ZeroSessionsEvents,
    ZeroSessionsFork, ZeroSessionsShow,
};

use self::export::{render_markdown, render_plain};
use crate::AppContext;
use crate::cli::RemoteGatewayArgs;
use crate::cli::sessions::{
    SessionExportFormat, SessionsCommand, SessionsDeleteArgs, SessionsExportArgs, SessionsForkArgs,
    SessionsKeyArgs, SessionsListArgs, SessionsShowArgs,
};
use crate::commands::jobs;
use crate::commands::run::short_name;
use crate::exit::{ExitOutcome, UsageError};
use crate::gateway_connection::CliGatewayConnection;
use crate::host_setup::small_runtime;
use crate::session_lookup::{find_session_key, missing_session_error};
use crate::terminal::{FAINT, TableCell, TextTable, escape_line};

/// Ledger entries requested per page.
const PAGE_SIZE: u32 = 1_000;
/// Most damaged sessions that are named beside a list.
const UNNAMED_MAX: usize = 10;
/// Largest number of entries shown or exported.
const ENTRIES_MAX: usize = 1_000_000;

pub(super) fn run(app: &AppContext, command: &SessionsCommand) -> anyhow::Result<ExitOutcome> {
    let remote = match command {
        SessionsCommand::List(args) => &args.remote,
        SessionsCommand::Show(args) => &args.remote,
        SessionsCommand::Export(args) => &args.remote,
        SessionsCommand::Fork(args) => &args.remote,
        SessionsCommand::Rewind(args) => &args.remote,
        SessionsCommand::Grants(args) => &args.remote,
        SessionsCommand::Reset(args) => &args.remote,
        SessionsCommand::Delete(args) => &args.remote,
        SessionsCommand::Migrate(args) => return store_migration::run(app, args),
    };
    let runtime = small_runtime()?;
    let done = runtime.block_on(async {
        let mut connection = connect(app, remote).await?;
        let done = match command {
            SessionsCommand::List(args) => list_sessions(app, args, &connection).await,
            SessionsCommand::Show(args) => show_session(app, args, &mut connection).await,
            SessionsCommand::Export(args) => export_session(app, args, &connection).await,
            SessionsCommand::Fork(args) => fork_session(app, args, &connection).await,
            SessionsCommand::Rewind(args) => session_rewind::run(app, args, &mut connection).await,
            SessionsCommand::Grants(args) => session_grants::run(app, args, &connection).await,
            SessionsCommand::Reset(args) => reset_session(app, args, &connection).await,
            SessionsCommand::Delete(args) => delete_session(app, args, &connection).await,
            SessionsCommand::Migrate(args) => store_migration::run(app, args),
        };
        connection.close().await;
        done
    });
    runtime.shutdown_background();
    done
}

async fn connect(
    app: &AppContext,
    remote: &RemoteGatewayArgs,
) -> anyhow::Result<CliGatewayConnection> {
    let workspace = app.config.open_workspace(&[])?;
    let settings = app.load_settings(&workspace, &[])?;
    let cwd: PathBuf = workspace.cwd().to_owned();
    app.connect(remote, &settings, &[], &cwd).await
}

async fn list_sessions(
    app: &AppContext,
    args: &SessionsListArgs,
    gateway: &CliGatewayConnection,
) -> anyhow::Result<ExitOutcome> {
    let params = SessionsListParams {
        limit: Some(args.limit),
        search: args.search.clone(),
        agent_id: args.agent.clone(),
        spawned_by: args.subagents_of.clone(),
        include_derived_titles: Some(true),
        ..SessionsListParams::default()
    };
    let found = gateway.client.request::<SessionsList>(params).await?;
    note_unnamed(app, gateway).await?;
    let out = &app.terminal.out;
    if args.json {
        out.write_pretty_json(&found.sessions)?;
        return Ok(ExitOutcome::Ok);
    }
    if found.sessions.is_empty() {
        let is_narrow =
            args.search.is_some() || args.agent.is_some() || args.subagents_of.is_some();
        app.terminal.print_note(match is_narrow {
            true => "no session matches; omit --search, --agent and --subagents-of to see all",
            false => "no sessions yet; `zero run` starts one",
        });
        return Ok(ExitOutcome::Ok);
    }
    let mut table = TextTable::new(["SESSION", "WHEN", "TITLE", "FOLDER"]);
    for row in &found.sessions {
        let title = row.label.as_ref().or(row.derived_title.as_ref()).cloned().unwrap_or_default();
        table.add_row([
            TableCell::whole(&row.key),
            TableCell::styled(format_time(row.updated_at), FAINT),
            title.into(),
            TableCell::styled(row.spawned_cwd.clone().unwrap_or_default(), FAINT),
        ]);
    }
    out.write(&table.render(out))?;
    if found.has_more {
        let all = found.total_count;
        app.terminal
            .print_note(&format!("showing {} of {all}; see --limit and --search", found.count));
    }
    Ok(ExitOutcome::Ok)
}

/// Names the damaged sessions of this machine that cannot be listed.
async fn note_unnamed(app: &AppContext, gateway: &CliGatewayConnection) -> anyhow::Result<()> {
    let Some(store) = gateway.local_store() else { return Ok(()) };
    print_unnamed(app, &store.unnamed_sessions().await?);
    Ok(())
}

/// Says which damaged sessions are passed over, and how to delete them.
pub(super) fn print_unnamed(app: &AppContext, sessions: &[UnnamedSession]) {
    for UnnamedSession { row, key, .. } in sessions.iter().take(UNNAMED_MAX) {
        let key = escape_line(key);
        app.terminal.print_note(&format!(
            "a session is damaged and not listed; its key reads `{key}`; delete it with `zero sessions delete --id {row}`"
        ));
    }
}

async fn show_session(
    app: &AppContext,
    args: &SessionsShowArgs,
    gateway: &mut CliGatewayConnection,
) -> anyhow::Result<ExitOutcome> {
    let session = find_session(gateway, &args.session).await?;
    if args.context {
        return session_context::run(app, args, session, gateway).await;
    }
    let mut events = read_events(gateway, &session.session_key).await?;
    if let Some(last) = args.last {
        let last = usize::try_from(last).unwrap_or(usize::MAX);
        events.drain(..events.len().saturating_sub(last));
    }
    let out = &app.terminal.out;
    if args.json {
        out.write_pretty_json(&json!({"session": session, "events": events}))?;
        return Ok(ExitOutcome::Ok);
    }
    out.write(&out.escape_foreign(&render_plain(&session, &events)))?;
    Ok(ExitOutcome::Ok)
}

async fn export_session(
    app: &AppContext,
    args: &SessionsExportArgs,
    gateway: &CliGatewayConnection,
) -> anyhow::Result<ExitOutcome> {
    let session = find_session(gateway, &args.session).await?;
    let events = read_events(gateway, &session.session_key).await?;
    let text = match args.format {
        SessionExportFormat::Markdown => render_markdown(&session, &events),
        SessionExportFormat::Jsonl => {
            let lines = events.iter().map(serde_json::to_string).collect::<Result<Vec<_>, _>>()?;
            lines.join("\n") + "\n"
        }
    };
    let out = &app.terminal.out;
    match (&args.output, args.format) {
        (None, SessionExportFormat::Markdown) => out.write(&out.escape_foreign(&text))?,
        (None, SessionExportFormat::Jsonl) => out.write_json_text(&text)?,
        (Some(file), _) => {
            let path = app.config.cwd()?.join(file);
            let shown = file.display();
            // A dangling symlink exists too; zero must not create its target.
            if path.is_symlink() || path.try_exists().unwrap_or(true) {
                let what =
                    format!("`{shown}` already exists; choose another file, or remove it first");
                return Err(UsageError(what).into());
            }
            zero_sandbox::ConfigFile::Own(path).write(text.as_bytes()).with_context(|| {
                format!("could not write `{shown}`; choose a file in a writable folder")
            })?;
        }
    }
    Ok(ExitOutcome::Ok)
}

async fn fork_session(
    app: &AppContext,
    args: &SessionsForkArgs,
    gateway: &CliGatewayConnection,
) -> anyhow::Result<ExitOutcome> {
    let session = find_session(gateway, &args.session).await?;
    let params = SessionForkParams {
        session_key: session.session_key,
        key: args.key.clone(),
        prompt: args.at,
    };
    let forked = gateway.client.request::<ZeroSessionsFork>(params).await;
    let forked = forked.map_err(session_rewind::to_usage_error)?;
    if let Some(text) = find_fork_note(gateway, &forked).await {
        app.terminal.print_note(&escape_line(&text));
    }
    let out = &app.terminal.out;
    if args.json {
        out.write_pretty_json(&forked)?;
    } else {
        let key = escape_line(&forked.session_key);
        out.write(&format!("created `{key}`; continue it with `zero run --session {key}`\n"))?;
    }
    Ok(ExitOutcome::Ok)
}

/// What the copy says about a run that it was made beside. The copy exists whether or not this can be
/// read.
async fn find_fork_note(gateway: &CliGatewayConnection, forked: &SessionInfo) -> Option<String> {
    let params = SessionEventsParams {
        session_key: forked.session_key.clone(),
        after: forked.last_seq.saturating_sub(1),
        limit: Some(1),
    };
    let read = gateway.client.request::<ZeroSessionsEvents>(params).await.ok()?;
    read.events.into_iter().find_map(|event| match event.kind {
        EventKind::Notice { topic, text } if topic == "forked_during_run" => Some(text),
        _ => None,
    })
}

async fn reset_session(
    app: &AppContext,
    args: &SessionsKeyArgs,
    gateway: &CliGatewayConnection,
) -> anyhow::Result<ExitOutcome> {
    let session = find_session(gateway, &args.session).await?;
    let params = SessionsResetParams { key: session.session_key, ..SessionsResetParams::default() };
    let done = gateway.client.request::<SessionsReset>(params).await?;
    kill_jobs(app, session.session_id).await?;
    let out = &app.terminal.out;
    if args.json {
        out.write_pretty_json(&done)?;
    } else {
        let key = escape_line(&done.key);
        out.write(&format!("reset `{key}`; its ledger keeps the earlier messages\n"))?;
    }
    Ok(ExitOutcome::Ok)
}

async fn delete_session(
    app: &AppContext,
    args: &SessionsDeleteArgs,
    gateway: &CliGatewayConnection,
) -> anyhow::Result<ExitOutcome> {
    let key = match (&args.session, args.id) {
        (Some(named), _) => find_key(gateway, named).await?,
        (None, Some(row)) => return delete_unnamed(app, args, row, gateway).await,
        (None, None) => return Err(UsageError("name the session to delete".to_owned()).into()),
    };
    // A damaged session cannot be shown, and its jobs cannot be found: `zero jobs` lists them.
    let shown = SessionKeyParams { session_key: key.clone() };
    let shown = gateway.client.request::<ZeroSessionsShow>(shown).await.ok();
    if !confirm_deletion(app, args, &format!("`{}`", escape_line(&key)))? {
        return Ok(ExitOutcome::Denied);
    }
    let params = SessionsDeleteParams { key, ..SessionsDeleteParams::default() };
    let done = gateway.client.request::<SessionsDelete>(params).await?;
    if let Some(session) = shown {
        kill_jobs(app, session.session_id).await?;
    }
    let out = &app.terminal.out;
    if args.json {
        out.write_pretty_json(&done)?;
    } else {
        out.write(&format!("deleted `{}`\n", escape_line(&done.key)))?;
    }
    Ok(ExitOutcome::Ok)
}

/// Deletes a damaged session that has no readable key, by its row in the store of this machine.
async fn delete_unnamed(
    app: &AppContext,
    args: &SessionsDeleteArgs,
    row: i64,
    gateway: &CliGatewayConnection,
) -> anyhow::Result<ExitOutcome> {
    let Some(store) = gateway.local_store() else {
        let what = "`--id` names a damaged session of this machine; on a gateway elsewhere, run `zero sessions delete --id` on its machine";
        return Err(UsageError(what.to_owned()).into());
    };
    let missing = || {
        UsageError(format!(
            "no damaged session has the number {row}; `zero doctor` shows the numbers; delete others by their key"
        ))
    };
    if !store.unnamed_sessions().await?.iter().any(|session| session.row == row) {
        return Err(missing().into());
    }
    if !confirm_deletion(app, args, &format!("the damaged session {row}"))? {
        return Ok(ExitOutcome::Denied);
    }
    if !store.delete_unnamed(row).await? {
        return Err(missing().into());
    }
    store.reclaim().await?;
    let out = &app.terminal.out;
    match args.json {
        true => out.write_pretty_json(&json!({"id": row, "deleted": true}))?,
        false => out.write(&format!("deleted the damaged session {row}\n"))?,
    }
    Ok(ExitOutcome::Ok)
}

/// Asks whether to delete, unless that was answered on the command line.
fn confirm_deletion(
    app: &AppContext,
    args: &SessionsDeleteArgs,
    named: &str,
) -> Result<bool, UsageError> {
    if args.yes {
        return Ok(true);
    }
    let Some(answers) = app.terminal.answer_source() else {
        let what =
            "cannot ask without a terminal; pass --yes to delete the session and its history";
        return Err(UsageError(what.to_owned()));
    };
    let question = format!("Delete {named} and its history?");
    let answer = app.terminal.ask(&answers, &question, "y/N");
    Ok(matches!(answer.as_deref(), Some("y" | "yes")))
}

/// Kills the jobs that processes on this machine hold for a session.
async fn kill_jobs(app: &AppContext, session: String) -> anyhow::Result<()> {
    let app = app.clone();
    let killing = tokio::task::spawn_blocking(move || jobs::kill_jobs_of_session(&app, &session));
    killing.await.context("zero is shutting down")
}

/// The id of a session of this machine, or of the gateway in settings, by its key or name.
pub(super) fn find_session_id(app: &AppContext, named: &str) -> anyhow::Result<String> {
    let runtime = small_runtime()?;
    let found = runtime.block_on(async {
        let connection = connect(app, &RemoteGatewayArgs::default()).await?;
        let found = find_session(&connection, named).await;
        connection.close().await;
        found
    });
    runtime.shutdown_background();
    Ok(found?.session_id)
}

/// The short names of sessions, by their ids. A session that cannot be read has none.
pub(super) fn read_session_names(
    app: &AppContext,
    ids: &BTreeSet<&str>,
) -> anyhow::Result<BTreeMap<String, String>> {
    let mut names = BTreeMap::new();
    if ids.is_empty() {
        return Ok(names);
    }
    let runtime = small_runtime()?;
    let read = runtime.block_on(async {
        let connection = connect(app, &RemoteGatewayArgs::default()).await?;
        for id in ids {
            if let Ok(Some(key)) = find_session_key(&connection, id).await {
                names.insert((*id).to_owned(), short_name(&key).to_owned());
            }
        }
        connection.close().await;
        anyhow::Ok(())
    });
    runtime.shutdown_background();
    read?;
    Ok(names)
}

/// Finds a session by its key or name.
async fn find_session(gateway: &CliGatewayConnection, named: &str) -> anyhow::Result<SessionInfo> {
    let session_key = find_key(gateway, named).await?;
    Ok(gateway.client.request::<ZeroSessionsShow>(SessionKeyParams { session_key }).await?)
}

/// Finds the key of a session by its key or name.
async fn find_key(gateway: &CliGatewayConnection, named: &str) -> anyhow::Result<String> {
    match find_session_key(gateway, named).await? {
        Some(key) => Ok(key),
        None => Err(missing_session_error(gateway, named).await?.into()),
    }
}

/// Reads the ledger of a session, page by page.
async fn read_events(gateway: &CliGatewayConnection, key: &str) -> anyhow::Result<Vec<Event>> {
    let mut events: Vec<Event> = Vec::new();
    loop {
        let after = events.last().map_or(0, |event| event.seq);
        let params =
            SessionEventsParams { session_key: key.to_owned(), after, limit: Some(PAGE_SIZE) };
        let page =
            gateway.client.request::<ZeroSessionsEvents>(params).await?.check_follows(after)?;
        let is_last = !page.has_more;
        events.extend(page.events);
        if is_last || events.len() >= ENTRIES_MAX {
            return Ok(events);
        }
    }
}

/// Formats a timestamp in milliseconds, to the minute, in UTC.
pub(super) fn format_time(ms: i64) -> String {
    let time = Timestamp::from_millisecond(ms).unwrap_or(Timestamp::UNIX_EPOCH);
    time.strftime("%Y-%m-%d %H:%M").to_string()
}
