//! Checks the session store, and the models and their keys.

use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use zero_core::session_key::{SessionAddress, SessionKey};
use zero_core::shell_quoting::quote_shell_word;
use zero_sandbox::StateDir;
use zero_session::agent::DIRECT;
use zero_session::local_backend::find_agent_problems;
use zero_session::model::catalog::ModelCatalog;
use zero_session::sqlite_store::{DamagedSession, SqliteStore};
use zero_session::store::{OwnerUsage, Store as _};
use zero_settings::WorkspaceSettings;
use zero_settings::layer::display_path;

use super::base_checks::LISTED_MAX;
use super::findings::DoctorReport;
use crate::AppContext;
use crate::host_setup::small_runtime;
use crate::session_engine::{STORE_FILE, fallback_problems};
use crate::token_holder::LOCAL_OWNER;

const CHECK: &str = "sessions";
/// Longest search for damage.
const CHECK_TIME_MAX: Duration = Duration::from_secs(10);
const RESTORE_FIX: &str = "put a copy of the file from before in its place, or move it away with its `-wal` and `-shm` files to start without its sessions";

/// Checks that the session store can be opened, is undamaged, has room for more, and that only the
/// user can read it.
pub(super) fn check_store(
    app: &AppContext,
    state: &StateDir,
    sessions_max: u64,
    findings: &mut DoctorReport,
) {
    let file = state.path().join(STORE_FILE);
    let path = display_path(&file, app.config.home());
    // Check the mode first, because opening the store makes it private.
    let Ok(metadata) = std::fs::symlink_metadata(&file) else {
        findings.add_ok(CHECK, "no sessions yet");
        return;
    };
    let bits = metadata.permissions().mode() & 0o777;
    if metadata.is_file() && bits & 0o077 != 0 {
        let message = format!("{path} has mode {bits:03o}: other users can read your sessions");
        findings.add_error(CHECK, message, format!("chmod 600 {path}"));
    }
    match SqliteStore::open(&file) {
        Ok(store) => {
            check_damage(&store, &path, format_size(metadata.len()), findings);
            check_room(&store, sessions_max, findings);
        }
        Err(error) => findings.add_error(
            CHECK,
            error.to_string(),
            "until then, `zero run` and `zero gateway` do not start; to start with an empty store, move the file away",
        ),
    }
}

/// Warns of owners that can soon have no more sessions.
fn check_room(store: &SqliteStore, sessions_max: u64, findings: &mut DoctorReport) {
    let near_limit = store.large_owners(OwnerUsage::near(sessions_max));
    let near_limit = small_runtime().ok().and_then(|runtime| runtime.block_on(near_limit).ok());
    for OwnerUsage { owner, sessions } in near_limit.unwrap_or_default().iter().take(LISTED_MAX) {
        let owner = owner.escape_debug();
        findings.add_warning(
            CHECK,
            format!("`{owner}` has {sessions} of at most {sessions_max} sessions"),
            "remove old ones: `zero prune --days 90 --dry-run` lists them",
        );
    }
}

/// Looks for damage, which otherwise shows only when the damaged part is read.
fn check_damage(store: &SqliteStore, path: &str, size: String, findings: &mut DoctorReport) {
    let found = match store.check(CHECK_TIME_MAX) {
        Ok(found) => found,
        Err(error) => {
            return findings.add_error(CHECK, error.to_string(), RESTORE_FIX);
        }
    };
    if let Some(problem) = found.problems.first() {
        let count = found.problems.len();
        let message = format!("{path} is damaged; problems: {count}; the first: {problem}");
        findings.add_error(CHECK, message, RESTORE_FIX);
    }
    for session in found.sessions.iter().take(LISTED_MAX) {
        // Another owner may have a session with the same key.
        let key = match SessionKey::try_from(session.key.clone()) {
            Ok(key) if !session.has_unreadable_name => {
                SessionAddress::new(&session.owner, key).to_text(LOCAL_OWNER)
            }
            _ => session.key.clone(),
        };
        let key = key.escape_debug().to_string();
        if session.is_deleted {
            findings.add_warning(
                CHECK,
                format!("the deleted session `{key}` is on damaged pages and stays in the file"),
                RESTORE_FIX,
            );
            continue;
        }
        let named = match session.has_unreadable_name {
            true => format!("--id {}", session.row),
            false => quote_shell_word(&key),
        };
        findings.add_error(
            CHECK,
            format!(
                "session `{key}` is damaged: {}; the other sessions can be used",
                describe_damage(session)
            ),
            format!(
                "zero sessions delete {named}, or put a copy of the file from before in its place"
            ),
        );
    }
    if !found.is_complete {
        let seconds = CHECK_TIME_MAX.as_secs();
        let message = format!("{path} is large: only part of it was checked within {seconds} s");
        findings.add_warning(
            CHECK,
            message,
            "to check all of it, run `sqlite3 FILE 'PRAGMA quick_check'`",
        );
    }
    if found.problems.is_empty() && found.sessions.is_empty() {
        findings.add_ok(CHECK, format!("{path} is readable; size {size}"));
    }
}

fn describe_damage(session: &DamagedSession) -> String {
    if session.has_damaged_pages {
        return "part of it is on damaged pages".to_owned();
    }
    let settings = match session.has_unreadable_name {
        true => "its name cannot be read",
        false => "its settings cannot be read",
    };
    let mut parts = Vec::new();
    if session.has_unreadable_settings {
        parts.push(settings.to_owned());
    }
    if session.entries > 0 || session.messages > 0 {
        let (entries, messages) = (session.entries, session.messages);
        parts.push(format!("entries that cannot be read: {entries}, messages: {messages}"));
    }
    if session.runs_and_grants > 0 {
        parts.push(format!("runs and grants that cannot be read: {}", session.runs_and_grants));
    }
    if session.is_inconsistent {
        parts.push("its parts do not fit together, so that nothing can be added".to_owned());
    }
    parts.join("; ")
}

fn format_size(bytes: u64) -> String {
    const MIB: u64 = 1024 * 1024;
    match bytes {
        0..MIB => format!("{} KiB", bytes.div_ceil(1024)),
        _ => format!("{} MiB", bytes.div_ceil(MIB)),
    }
}

/// Reports files that define agents and cannot be used.
pub(super) fn check_agent_files(
    app: &AppContext,
    settings: &WorkspaceSettings,
    findings: &mut DoctorReport,
) {
    let Ok(workspace) = app.config.open_workspace(&[]) else { return };
    // Wrong rules are reported by the check of rules.
    let Ok(policy) = app.build_policy(&workspace, settings, None) else { return };
    let own = app.config.settings_file().ok();
    let own_folder = own.as_ref().and_then(|file| file.parent());
    for problem in
        find_agent_problems(&workspace, own_folder, &*policy).into_iter().take(LISTED_MAX)
    {
        let fix = "correct the file, or remove it; until then, no sub-agent can be started from it";
        findings.add_warning("agents", problem, fix);
    }
}

/// Reports the configured models and missing keys. Keys are never shown.
pub(super) fn check_models(
    app: &AppContext,
    settings: &WorkspaceSettings,
    findings: &mut DoctorReport,
) {
    const CHECK: &str = "models";
    let (configs, default) = app.model_configs(settings);
    if configs.is_empty() {
        if let Some(error) = app.chosen_model_error(settings) {
            let fix = "set `model` in your settings, or ZERO_MODEL, to another model";
            findings.add_error(CHECK, error.to_string(), fix);
            return;
        }
        findings.add_warning(
            CHECK,
            "no model is configured".to_owned(),
            "run `zero login`, or `zero models` to see the model servers on this machine",
        );
        return;
    }
    let keyless = configs.iter().filter_map(|config| {
        let why = config.key.as_ref()?().err()?;
        Some((config.name.clone(), why.to_string()))
    });
    let keyless: Vec<(String, String)> = keyless.collect();
    for (name, why) in keyless.iter().take(LISTED_MAX) {
        findings.add_warning(
            CHECK,
            format!("`{name}` has no key: {why}"),
            "until then, this model cannot be used; the others can",
        );
    }
    let models = ModelCatalog::from_configs(configs, default);
    let own = models.names().filter(|name| *name != DIRECT);
    let own: Vec<&str> = own.collect();
    let name = models.default_name().unwrap_or(DIRECT);
    if let Err(error) = models.get(Some(name)) {
        findings.add_error(
            CHECK,
            format!("the default model cannot be used: {error}"),
            "set `model` in your settings, or ZERO_MODEL, to another model",
        );
        return;
    }
    for problem in fallback_problems(&models, settings).into_iter().take(LISTED_MAX) {
        let fix =
            "correct the name, or remove it from `fallback`; it does not stand in for another one";
        findings.add_error(CHECK, problem, fix);
    }
    let keys = match keyless.len() {
        0 => "all keys found".to_owned(),
        missing => format!("keys missing: {missing}"),
    };
    findings.add_ok(CHECK, format!("{} configured; default `{name}`; {keys}", own.len()));
}
