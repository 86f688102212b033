//! `zero sessions`: conversations, wherever they are kept.

mod export;

use std::path::PathBuf;

use anyhow::Context;
use jiff::Timestamp;
use serde_json::json;
use zero_core::event::Event;
use zero_wire::ErrorCode;
use zero_wire::client::ClientError;
use zero_wire::sessions::{
    SessionsDelete, SessionsDeleteParams, SessionsList, SessionsListParams, SessionsReset,
    SessionsResetParams, SessionsResolve, SessionsResolveParams, SessionsResolveResult,
};
use zero_wire::zero_sessions::{
    EventsParams, KeyParams, SessionInfo, ZeroSessionsEvents, ZeroSessionsShow,
};

use self::export::{markdown, plain};
use crate::App;
use crate::cli::RemoteArgs;
use crate::cli::sessions::{
    ExportFormat, SessionsCommand, SessionsDeleteArgs, SessionsExportArgs, SessionsKeyArgs,
    SessionsListArgs, SessionsShowArgs,
};
use crate::connection::Connection;
use crate::exit::{Exit, UsageError};
use crate::hosting::runtime;
use crate::terminal::{Cell, FAINT, Table, escape_line};

/// Entries asked for at a time.
const PAGE: u32 = 1_000;
/// Most entries that are shown or written down.
const ENTRIES_MAX: usize = 1_000_000;

pub(super) fn run(app: &App, command: &SessionsCommand) -> anyhow::Result<Exit> {
    let remote = match command {
        SessionsCommand::List(args) => &args.remote,
        SessionsCommand::Show(args) => &args.remote,
        SessionsCommand::Export(args) => &args.remote,
        SessionsCommand::Reset(args) => &args.remote,
        SessionsCommand::Delete(args) => &args.remote,
    };
    let runtime = runtime()?;
    let done = runtime.block_on(async {
        let connection = connect(app, remote).await?;
        let done = match command {
            SessionsCommand::List(args) => list(app, args, &connection).await,
            SessionsCommand::Show(args) => show(app, args, &connection).await,
            SessionsCommand::Export(args) => export(app, args, &connection).await,
            SessionsCommand::Reset(args) => reset(app, args, &connection).await,
            SessionsCommand::Delete(args) => delete(app, args, &connection).await,
        };
        connection.close().await;
        done
    });
    runtime.shutdown_background();
    done
}

async fn connect(app: &App, remote: &RemoteArgs) -> anyhow::Result<Connection> {
    let workspace = app.config.workspace(&[])?;
    let settings = app.settings(&workspace, &[])?;
    let cwd: PathBuf = workspace.cwd().to_owned();
    app.connect(remote, &settings, &[], &cwd).await
}

async fn list(app: &App, args: &SessionsListArgs, gateway: &Connection) -> anyhow::Result<Exit> {
    let wanted = SessionsListParams {
        limit: Some(args.limit),
        search: args.search.clone(),
        agent_id: args.agent.clone(),
        include_derived_titles: Some(true),
        ..SessionsListParams::default()
    };
    let found = gateway.client.request::<SessionsList>(wanted).await?;
    let out = &app.terminal.out;
    if args.json {
        out.write_pretty(&found.sessions)?;
        return Ok(Exit::Ok);
    }
    if found.sessions.is_empty() {
        let is_narrow = args.search.is_some() || args.agent.is_some();
        app.terminal.note(match is_narrow {
            true => "no session fits; leave out --search or --agent to see all",
            false => "there is no session yet; `zero run` begins one",
        });
        return Ok(Exit::Ok);
    }
    let mut table = Table::new(["SESSION", "WHEN", "TITLE", "FOLDER"]);
    for row in &found.sessions {
        let title = row.label.as_ref().or(row.derived_title.as_ref()).cloned().unwrap_or_default();
        table.row([
            row.key.as_str().into(),
            Cell::styled(when(row.updated_at), FAINT),
            title.into(),
            Cell::styled(row.spawned_cwd.clone().unwrap_or_default(), FAINT),
        ]);
    }
    out.write(&table.render(out))?;
    if found.has_more {
        let all = found.total_count;
        app.terminal.note(&format!("these are {} of {all}; see --limit and --search", found.count));
    }
    Ok(Exit::Ok)
}

async fn show(app: &App, args: &SessionsShowArgs, gateway: &Connection) -> anyhow::Result<Exit> {
    let session = session(gateway, &args.session).await?;
    let mut events = events(gateway, &session.session_key).await?;
    if let Some(last) = args.last {
        let last = usize::try_from(last).unwrap_or(usize::MAX);
        events.drain(..events.len().saturating_sub(last));
    }
    let out = &app.terminal.out;
    if args.json {
        out.write_pretty(&json!({"session": session, "events": events}))?;
        return Ok(Exit::Ok);
    }
    out.write(&out.foreign(&plain(&session, &events)))?;
    Ok(Exit::Ok)
}

async fn export(
    app: &App,
    args: &SessionsExportArgs,
    gateway: &Connection,
) -> anyhow::Result<Exit> {
    let session = session(gateway, &args.session).await?;
    let events = events(gateway, &session.session_key).await?;
    let text = match args.format {
        ExportFormat::Markdown => markdown(&session, &events),
        ExportFormat::Jsonl => {
            let lines = events.iter().map(serde_json::to_string).collect::<Result<Vec<_>, _>>()?;
            lines.join("\n") + "\n"
        }
    };
    let out = &app.terminal.out;
    match (&args.output, args.format) {
        (None, ExportFormat::Markdown) => out.write(&out.foreign(&text))?,
        (None, ExportFormat::Jsonl) => out.write_json(&text)?,
        (Some(file), _) => {
            let path = app.config.cwd()?.join(file);
            let shown = file.display();
            // A link that leads nowhere is there too: what it is meant to make is not ours to make.
            if path.is_symlink() || path.try_exists().unwrap_or(true) {
                let what =
                    format!("`{shown}` is there already; name another file, or remove it first");
                return Err(UsageError(what).into());
            }
            zero_sandbox::ConfigFile::Own(path).write(text.as_bytes()).with_context(|| {
                format!("could not write `{shown}`; name a file in a folder you can write to")
            })?;
        }
    }
    Ok(Exit::Ok)
}

async fn reset(app: &App, args: &SessionsKeyArgs, gateway: &Connection) -> anyhow::Result<Exit> {
    let session = session(gateway, &args.session).await?;
    let wanted = SessionsResetParams { key: session.session_key, ..SessionsResetParams::default() };
    let done = gateway.client.request::<SessionsReset>(wanted).await?;
    let out = &app.terminal.out;
    if args.json {
        out.write_pretty(&done)?;
    } else {
        let key = escape_line(&done.key);
        out.write(&format!("`{key}` starts over; what was said before stays in its ledger\n"))?;
    }
    Ok(Exit::Ok)
}

async fn delete(
    app: &App,
    args: &SessionsDeleteArgs,
    gateway: &Connection,
) -> anyhow::Result<Exit> {
    let session = session(gateway, &args.session).await?;
    let key = session.session_key;
    if !args.yes {
        let Some(answers) = app.terminal.answers() else {
            let what =
                "nobody can be asked here; say --yes to remove it with all that was said in it";
            return Err(UsageError(what.to_owned()).into());
        };
        let question = format!("Remove `{}` with all that was said in it?", escape_line(&key));
        if !matches!(app.terminal.ask(&answers, &question, "y/N").as_deref(), Some("y" | "yes")) {
            return Ok(Exit::Denied);
        }
    }
    let wanted = SessionsDeleteParams { key, ..SessionsDeleteParams::default() };
    let done = gateway.client.request::<SessionsDelete>(wanted).await?;
    let out = &app.terminal.out;
    if args.json {
        out.write_pretty(&done)?;
    } else {
        out.write(&format!("`{}` is gone\n", escape_line(&done.key)))?;
    }
    Ok(Exit::Ok)
}

/// The session that a key or label names.
async fn session(gateway: &Connection, named: &str) -> anyhow::Result<SessionInfo> {
    let by_key = SessionsResolveParams {
        key: Some(named.to_owned()),
        allow_missing: Some(true),
        ..SessionsResolveParams::default()
    };
    let key = match found(gateway.client.request::<SessionsResolve>(by_key).await)? {
        Some(key) => key,
        None => {
            let by_label = SessionsResolveParams {
                label: Some(named.to_owned()),
                ..SessionsResolveParams::default()
            };
            let by_label = gateway.client.request::<SessionsResolve>(by_label).await;
            found(by_label)?.ok_or_else(|| {
                UsageError(format!(
                    "there is no session with the key or label `{named}`; `zero sessions list` shows those there are"
                ))
            })?
        }
    };
    let shown = gateway.client.request::<ZeroSessionsShow>(KeyParams { session_key: key }).await?;
    Ok(shown)
}

/// The key that was found. That a name is none is the same as that there is no such session; that the
/// gateway did not answer is not.
fn found(
    answer: Result<SessionsResolveResult, ClientError>,
) -> Result<Option<String>, ClientError> {
    match answer {
        Ok(found) => Ok(found.key),
        Err(ClientError::Refused { error }) if error.code == ErrorCode::InvalidRequest => Ok(None),
        Err(error) => Err(error),
    }
}

/// All that was shown in a session.
async fn events(gateway: &Connection, key: &str) -> anyhow::Result<Vec<Event>> {
    let mut events: Vec<Event> = Vec::new();
    loop {
        let after = events.last().map_or(0, |event| event.seq);
        let wanted = EventsParams { session_key: key.to_owned(), after, limit: Some(PAGE) };
        let page = gateway.client.request::<ZeroSessionsEvents>(wanted).await?.following(after)?;
        let is_last = !page.has_more;
        events.extend(page.events);
        if is_last || events.len() >= ENTRIES_MAX {
            return Ok(events);
        }
    }
}

/// A moment, for people.
fn when(ms: i64) -> String {
    let time = Timestamp::from_millisecond(ms).unwrap_or(Timestamp::UNIX_EPOCH);
    time.strftime("%Y-%m-%d %H:%M").to_string()
}
