//! `zero sessions migrate`: copies all sessions to another store.

use std::path::{Path, PathBuf};

use zero_sandbox::StateDir;
use zero_session::postgres_store::{PostgresOptions, PostgresStore};
use zero_session::sqlite_store::SqliteStore;
use zero_session::store_transfer::{StoreTransfer, TransferMode, TransferReport, TransferStore};
use zero_settings::gateway::check_store;

use crate::AppContext;
use crate::cli::sessions::SessionsMigrateArgs;
use crate::exit::{ExitOutcome, UsageError};
use crate::gateway_lock::GatewayLock;
use crate::host_setup::small_runtime;
use crate::session_engine::{STORE_FILE, count_processes};
use crate::session_store::{read_or_create_node_name, shared_store};
use crate::terminal::escape_line;

/// The file of this machine, as the command line names it.
const FILE_STORE: &str = "sqlite";
/// Number of sessions after which the progress is shown.
const PROGRESS_STEP: u64 = 500;

/// One side of the copy.
enum MigrationEnd {
    File(PathBuf),
    Database(PostgresOptions),
}

/// Which side it is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum MigrationSide {
    Source,
    Target,
}

pub(super) fn run(app: &AppContext, args: &SessionsMigrateArgs) -> anyhow::Result<ExitOutcome> {
    let (from, to) = (read_end(app, args, &args.from)?, read_end(app, args, &args.to)?);
    let is_both_ways = matches!(
        (&from, &to),
        (MigrationEnd::File(_), MigrationEnd::Database(_))
            | (MigrationEnd::Database(_), MigrationEnd::File(_))
    );
    if !is_both_ways {
        let what = "one of --from and --to is `sqlite`, the other one a database; copy a file or a database with its own tools";
        return Err(UsageError(what.to_owned()).into());
    }
    let state = app.config.state_dir()?;
    let mut locks = Vec::new();
    for end in [&from, &to] {
        locks.extend(lock(end, &state)?);
    }
    let runtime = small_runtime()?;
    let done = runtime.block_on(async {
        let source = open(from, MigrationSide::Source, &state).await?;
        let target = open(to, MigrationSide::Target, &state).await?;
        let mode = if args.dry_run { TransferMode::Plan } else { TransferMode::Copy };
        let mut progress = |report: &TransferReport| {
            let seen = report.copied + report.present + report.refused;
            if seen.is_multiple_of(PROGRESS_STEP) {
                app.terminal.print_note(&format!("{seen} sessions so far"));
            }
        };
        anyhow::Ok(StoreTransfer::new(source, target).run(mode, &mut progress).await?)
    });
    runtime.shutdown_background();
    print_report(app, args, &done?)
}

fn read_end(
    app: &AppContext,
    args: &SessionsMigrateArgs,
    name: &str,
) -> anyhow::Result<MigrationEnd> {
    if name == FILE_STORE {
        return Ok(MigrationEnd::File(app.config.state_dir()?.path().join(STORE_FILE)));
    }
    if let Some(file) = name.strip_prefix("sqlite:") {
        if file.is_empty() {
            return Err(UsageError("`sqlite:` needs the path of a file".to_owned()).into());
        }
        return Ok(MigrationEnd::File(app.config.cwd()?.join(file)));
    }
    if !name.starts_with("postgres://") && !name.starts_with("postgresql://") {
        // It is not repeated: it may contain a password.
        let what = "--from and --to take `sqlite`, `sqlite:FILE` or a database such as postgres://zero@db.example/zero";
        return Err(UsageError(what.to_owned()).into());
    }
    check_store(name).map_err(|what| UsageError(format!("the address of the database {what}")))?;
    let workspace = app.config.open_workspace(&[])?;
    let settings = app.load_settings(&workspace, &args.settings)?;
    let options = shared_store(app, &settings, Some(name), args.store_password_file.as_ref())?;
    options.map(MigrationEnd::Database).ok_or_else(|| UsageError(format!("`{name}`")).into())
}

/// Ensures that no other process works in the sessions of this machine meanwhile.
fn lock(end: &MigrationEnd, state: &StateDir) -> anyhow::Result<Option<GatewayLock>> {
    let MigrationEnd::File(path) = end else { return Ok(None) };
    if *path != state.path().join(STORE_FILE) {
        return Ok(None);
    }
    state.create()?;
    let lock = GatewayLock::acquire(state)?;
    match count_processes(state)? {
        0 => Ok(Some(lock)),
        1 => Err(busy_error("another zero uses the sessions of this machine")),
        count => {
            Err(busy_error(&format!("{count} processes of zero use the sessions of this machine")))
        }
    }
}

fn busy_error(what: &str) -> anyhow::Error {
    UsageError(format!("{what}; end it first, so that nothing is missed")).into()
}

async fn open(
    end: MigrationEnd,
    side: MigrationSide,
    state: &StateDir,
) -> anyhow::Result<TransferStore> {
    match end {
        MigrationEnd::File(path) => {
            if side == MigrationSide::Source {
                check_file(&path)?;
            }
            Ok(SqliteStore::open_transfer(&path)?)
        }
        MigrationEnd::Database(options) => {
            let live = PostgresStore::open(&options).await?.leases.list_live_nodes().await?;
            if let Some(node) = live.first() {
                return Err(busy_error(&format!(
                    "the gateway `{}` uses the database",
                    escape_line(&node.name)
                )));
            }
            let home = read_or_create_node_name(state)?;
            Ok(PostgresStore::open_transfer(&options, &home).await?)
        }
    }
}

fn check_file(path: &Path) -> Result<(), UsageError> {
    let size = path.metadata().map(|facts| facts.len());
    match size {
        Ok(size) if size > 0 => Ok(()),
        _ => {
            let shown = path.display().to_string();
            Err(UsageError(format!("there are no sessions in `{}`", escape_line(&shown))))
        }
    }
}

fn print_report(
    app: &AppContext,
    args: &SessionsMigrateArgs,
    report: &TransferReport,
) -> anyhow::Result<ExitOutcome> {
    let out = &app.terminal.out;
    let outcome = if report.refused == 0 { ExitOutcome::Ok } else { ExitOutcome::Error };
    if args.json {
        out.write_pretty_json(report)?;
        return Ok(outcome);
    }
    let (copied, usages) = (count(report.copied, "session"), count(report.usages, "run"));
    let mut text = match args.dry_run {
        true => format!("would copy {copied} and the usage of {usages}\n"),
        false => format!(
            "copied {copied} ({}) and the usage of {usages}; each session is equal to its source\n",
            count(report.rows, "row")
        ),
    };
    if report.present > 0 {
        text += &format!("{} were there already\n", count(report.present, "session"));
    }
    if report.refused > 0 {
        text += &format!("{} not copied:\n", count(report.refused, "session"));
    }
    for problem in &report.problems {
        let (session, why) = (escape_line(&problem.session), escape_line(&problem.problem));
        text += &format!("  {session} of {}: {why}\n", escape_line(&problem.owner));
    }
    let unnamed = report.refused.saturating_sub(report.problems.len() as u64);
    if unnamed > 0 {
        text += &format!("  and {unnamed} more\n");
    }
    out.write(&text)?;
    if outcome == ExitOutcome::Ok && !args.dry_run && !args.to.starts_with(FILE_STORE) {
        app.terminal.print_note(
            "set `gateway.store` to the database, so that gateways use it; the file stays as it is",
        );
    }
    Ok(outcome)
}

fn count(number: u64, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}
