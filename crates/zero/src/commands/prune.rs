//! `zero prune`: removes old sessions and other data of this machine, and gives free space back.

use anyhow::Context as _;
use serde_json::{Value, json};
use zero_core::host_limits::ByteSize;
use zero_gateway::AuthConfig;
use zero_sandbox::expiry::{ExpiryMode, ExpiryReport};
use zero_session::sessions::{PruneMode, PruneReport, RetentionRules};
use zero_session::sqlite_store::SqliteStore;
use zero_session::store::{IdleSession, StoreUsage, UnnamedSession, UnremovedSession};

use crate::AppContext;
use crate::cli::PruneArgs;
use crate::commands::sessions::print_unnamed;
use crate::data_retention::{DataKind, DataRetention, SessionsInUse};
use crate::exit::ExitOutcome;
use crate::gateway_lock::GatewayLock;
use crate::host_setup::small_runtime;
use crate::session_engine::{STORE_FILE, days, retention_rules};
use crate::session_store::StoreChoice;
use crate::subagent_worktrees::finish_leftovers;
use crate::terminal::{FAINT, TableCell, TextTable, escape_line};
use crate::token_holder::LOCAL_OWNER;

pub(super) fn run(app: &AppContext, args: &PruneArgs) -> anyhow::Result<ExitOutcome> {
    let workspace = app.config.open_workspace(&[])?;
    let settings = app.load_settings(&workspace, &[])?;
    let mut rules = retention_rules(&settings);
    rules.idle_max = args.days.map(days).or(rules.idle_max);
    if args.compact {
        let state = app.config.state_dir()?;
        let _no_gateway = GatewayLock::acquire(&state)?;
        SqliteStore::compact(&state.path().join(STORE_FILE))?;
    }
    let mode = if args.dry_run { PruneMode::DryRun } else { PruneMode::Remove };
    let runtime = small_runtime()?;
    let cwd = workspace.cwd().to_owned();
    let pruned = runtime.block_on(async {
        let (auth, store) = (AuthConfig::deny_all(), StoreChoice::of_settings(app, &settings)?);
        let config = app.gateway_config(&settings, &[], cwd, auth, store).await?;
        let report = config.sessions.prune(rules, mode).await?;
        let store = config.sessions.store();
        let usage = store.usage().await.context("could not measure the store")?;
        let in_use = SessionsInUse::find(&app.config.state_dir()?, store.as_ref()).await?;
        let unnamed = store.unnamed_sessions().await.context("could not read the store")?;
        anyhow::Ok((report, usage, in_use, unnamed))
    });
    runtime.shutdown_background();
    let (report, usage, in_use, unnamed) = pruned?;
    let data = expire_data(app, &DataRetention::from_settings(&settings), &in_use, args)?;
    let worktrees = match args.dry_run {
        true => Vec::new(),
        false => {
            let commands = app.command_settings(&settings, workspace.cwd());
            finish_leftovers(&app.worktree_store(&workspace, commands)?, usize::MAX)
        }
    };
    match args.json {
        true => print_json(app, args, &report, (&data, &unnamed), usage, &worktrees)?,
        false => {
            print_text(app, args, &rules, &report, &data, usage)?;
            print_unnamed(app, &unnamed);
            worktrees.iter().for_each(|line| app.terminal.print_note(line));
        }
    }
    let is_done =
        |(_, expired): &DataReport| expired.as_ref().is_ok_and(|expired| expired.failed == 0);
    let is_complete = report.failed.is_empty() && data.iter().all(is_done);
    Ok(if is_complete { ExitOutcome::Ok } else { ExitOutcome::Error })
}

/// What was removed of a kind, or why nothing was.
type DataReport = (DataKind, Result<ExpiryReport, String>);

/// Removes other data that is no longer kept. One kind does not stop the others.
fn expire_data(
    app: &AppContext,
    rules: &DataRetention,
    in_use: &SessionsInUse,
    args: &PruneArgs,
) -> anyhow::Result<Vec<DataReport>> {
    let state = app.config.state_dir()?;
    let mode = if args.dry_run { ExpiryMode::DryRun } else { ExpiryMode::Remove };
    let expire = |kind| {
        let expired = rules.expire(kind, &state, mode, in_use);
        (kind, expired.map_err(|error| error.to_string()))
    };
    Ok(DataKind::ALL.map(expire).into())
}

fn data_to_json((kind, expired): &DataReport) -> Value {
    match expired {
        Ok(expired) => json!({
            "kind": kind.as_str(),
            "removed": expired.removed.count,
            "removedBytes": expired.removed.bytes,
            "kept": expired.remaining.count,
            "keptBytes": expired.remaining.bytes,
            "failed": expired.failed,
            "problem": expired.problem,
        }),
        Err(problem) => json!({"kind": kind.as_str(), "problem": problem}),
    }
}

/// One line for each kind of which something is removed or could not be.
fn describe_data(args: &PruneArgs, (kind, expired): &DataReport) -> Option<String> {
    let items = kind.items();
    let expired = match expired {
        Ok(expired) => expired,
        Err(problem) => return Some(format!("the {items} cannot be pruned: {problem}")),
    };
    let verb = if args.dry_run { "would remove" } else { "removed" };
    let (count, bytes) = (expired.removed.count, ByteSize::bytes(expired.removed.bytes));
    let (kept, held) = (expired.remaining.count, ByteSize::bytes(expired.remaining.bytes));
    let failed = match expired.failed {
        0 => String::new(),
        failed => format!(
            "; {failed} could not be removed: {}",
            expired.problem.as_deref().unwrap_or_default()
        ),
    };
    let is_empty = count == 0 && kept == 0;
    (!is_empty).then(|| format!("{verb} {count} {items}, {bytes}; {kept} are kept, {held}{failed}"))
}

fn print_json(
    app: &AppContext,
    args: &PruneArgs,
    pruned: &PruneReport,
    (data, unnamed): (&[DataReport], &[UnnamedSession]),
    usage: StoreUsage,
    worktrees: &[String],
) -> anyhow::Result<()> {
    let failed = |(session, why): &(IdleSession, String)| json!({"sessionKey": session.address.to_text(LOCAL_OWNER), "problem": why});
    let unremoved = |session: &UnremovedSession| json!({"owner": session.owner, "key": session.key, "problem": session.problem});
    let unreadable = |session: &UnnamedSession| json!({"id": session.row, "owner": session.owner, "key": session.key});
    let session = |session: &IdleSession| {
        json!({
            "sessionKey": session.address.to_text(LOCAL_OWNER),
            "updatedMs": session.updated_ms,
            "bytes": session.bytes,
        })
    };
    let report = json!({
        "dryRun": args.dry_run,
        "removed": pruned.removed.iter().map(session).collect::<Vec<_>>(),
        "bytes": total_bytes(&pruned.removed),
        "failed": pruned.failed.iter().map(failed).collect::<Vec<_>>(),
        "damaged": pruned.unremoved.iter().map(unremoved).collect::<Vec<_>>(),
        "unreadable": unnamed.iter().map(unreadable).collect::<Vec<_>>(),
        "data": data.iter().map(data_to_json).collect::<Vec<_>>(),
        "worktrees": worktrees,
        "store": {
            "sessions": usage.sessions, "bytes": usage.bytes, "freeBytes": usage.free_bytes,
        },
    });
    Ok(app.terminal.out.write_pretty_json(&report)?)
}

fn print_text(
    app: &AppContext,
    args: &PruneArgs,
    rules: &RetentionRules,
    pruned: &PruneReport,
    data: &[DataReport],
    usage: StoreUsage,
) -> anyhow::Result<()> {
    let out = &app.terminal.out;
    let removed = &pruned.removed;
    if !removed.is_empty() {
        let mut table = TextTable::new(["SESSION", "LAST ACTIVE", "SIZE"]);
        for session in removed {
            table.add_row([
                session.address.to_text(LOCAL_OWNER).into(),
                TableCell::styled(super::sessions::format_time(session.updated_ms), FAINT),
                ByteSize::bytes(session.bytes).to_string().into(),
            ]);
        }
        out.write(&table.render(out))?;
    }
    let verb = if args.dry_run { "would remove" } else { "removed" };
    let (count, bytes) = (removed.len(), ByteSize::bytes(total_bytes(removed)));
    app.terminal.print_note(&format!("{verb} {count} sessions, {bytes}"));
    for (session, why) in &pruned.failed {
        let key = session.address.to_text(LOCAL_OWNER);
        app.terminal.print_note(&format!("`{}` is not removed: {why}", escape_line(&key)));
    }
    for UnremovedSession { key, problem, .. } in &pruned.unremoved {
        let key = escape_line(key);
        app.terminal
            .print_note(&format!("the deleted session `{key}` stays in the file: {problem}"));
    }
    if *rules == RetentionRules::default() {
        let text = "no rule says which sessions are old; pass --days, or set `gateway.retention`";
        app.terminal.print_note(text);
    }
    for line in data.iter().filter_map(|data| describe_data(args, data)) {
        app.terminal.print_note(&line);
    }
    let (held, free) = (ByteSize::bytes(usage.bytes), ByteSize::bytes(usage.free_bytes));
    let sessions = usage.sessions;
    app.terminal.print_note(&format!("{sessions} sessions are kept, {held}; {free} are free"));
    Ok(())
}

fn total_bytes(sessions: &[IdleSession]) -> u64 {
    sessions.iter().map(|session| session.bytes).sum()
}
