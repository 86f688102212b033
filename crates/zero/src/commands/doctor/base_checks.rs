//! The basic checks of `zero doctor`, and the order of all checks.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use jiff::Timestamp;
use zero_core::shell_quoting::quote_shell_word;
use zero_exec::LocalMachine;
use zero_policy::{Machine, PermissionMode};
use zero_runtime::audit::AuditLog;
use zero_runtime::audit::verification::VerifyOptions;
use zero_sandbox::StateDir;
use zero_session::sessions::SessionLimits;
use zero_settings::layer::display_path;
use zero_settings::user_paths::canonical_folder;
use zero_settings::{RuleEntry, SettingsLayer, SettingsLayerKind, WorkspaceSettings};
use zero_settings::{TrustState, TrustStore};

use super::findings::{DoctorFinding, DoctorReport};
use super::{
    editor, gateway, hooks, language_servers, mcp_servers, missing_tools, sandbox, secrets,
    sessions, stored_data,
};
use crate::AppContext;
use crate::terminal::format_short_time;

/// Entries listed individually; the rest are counted.
pub(super) const LISTED_MAX: usize = 20;

/// Runs all checks.
pub(super) fn run_all(app: &AppContext) -> Vec<DoctorFinding> {
    let mut findings = DoctorReport::default();
    check_variables(app, &mut findings);
    let state = app.config.state_dir().map_err(|error| {
        findings.add_error("state", error.to_string(), "zero cannot call tools without it");
    });
    let folder = app.config.cwd().map(|cwd| canonical_folder(cwd, cwd)).map_err(|error| {
        findings.add_error(
            "folder",
            error.to_string(),
            "zero cannot check the workspace without it",
        );
    });
    let mut sessions_max = SessionLimits::default().sessions_max;
    if let Ok(folder) = &folder {
        let trust = load_trust_store(state.as_ref().ok(), &mut findings);
        let settings = load_settings(app, folder, &trust, &mut findings);
        if let Some(settings) = &settings {
            sessions_max = settings.gateway().max_sessions.unwrap_or(sessions_max);
            check_trust(settings, &mut findings);
            check_rules(folder, settings, &mut findings);
            check_misplaced(settings, &mut findings);
            check_mode(settings, &mut findings);
            mcp_servers::check_mcp_servers(app, folder, settings, &mut findings);
            missing_tools::check_missing_tools(app, settings, &mut findings);
            language_servers::check_language_servers(app, folder, settings, &mut findings);
            hooks::check_hooks(app, folder, settings, &mut findings);
            secrets::check_secrets(app, folder, settings, &mut findings);
            sessions::check_models(app, settings, &mut findings);
            sessions::check_agent_files(app, settings, &mut findings);
            gateway::check_gateway(app, settings, &mut findings);
            editor::check_editor(settings, &mut findings);
            check_notify_command(app, settings, &mut findings);
            if let Ok(state) = &state {
                stored_data::check_stored_data(state, settings, &mut findings);
                stored_data::check_command_undo(app, state, settings, &mut findings);
            }
        }
        sandbox::check_sandbox(app, settings.as_ref(), &mut findings);
    }
    if let Ok(state) = &state {
        check_audit_log(state, &mut findings);
        check_private_folder(app, state, &mut findings);
        sessions::check_store(app, state, sessions_max, &mut findings);
        gateway::check_own_token(app, state, &mut findings);
    }
    check_search_path(app, folder.as_deref().ok(), &mut findings);
    if let Ok(folder) = &folder {
        check_git(app, folder, &mut findings);
    }
    findings.0
}

fn check_variables(app: &AppContext, findings: &mut DoctorReport) {
    for name in app.config.relative_variables() {
        findings.add_warning(
            "variable",
            format!("{name} is not an absolute path, so zero ignores it"),
            format!("set {name} to an absolute path, or unset it"),
        );
    }
}

fn load_trust_store(state: Option<&StateDir>, findings: &mut DoctorReport) -> TrustStore {
    let loaded = state.map(TrustStore::load).transpose();
    loaded
        .map_err(|error| {
            findings.add_error("trust", error.to_string(), "until then, no folder is trusted");
        })
        .unwrap_or_default()
        .unwrap_or_default()
}

/// Reads each file separately, so that a broken file does not hide errors in the next one.
fn load_settings(
    app: &AppContext,
    folder: &Path,
    trust: &TrustStore,
    findings: &mut DoctorReport,
) -> Option<WorkspaceSettings> {
    let home = app.config.home();
    let mut broken = false;
    let files =
        WorkspaceSettings::files(&app.config.user_paths(), folder).unwrap_or_else(|error| {
            broken = true;
            findings.add_error("settings", error.to_string(), "until then, zero calls no tools");
            WorkspaceSettings::workspace_files(folder).into()
        });
    for (kind, file) in files {
        let path = display_path(&file.path(), home);
        match SettingsLayer::read(kind, &file, home) {
            Ok(None) => {
                findings.add_ok("settings", format!("{path}: not found ({})", kind.as_str()))
            }
            Ok(Some(_)) => findings.add_ok("settings", format!("{path}: OK ({})", kind.as_str())),
            Err(problems) => {
                broken = true;
                for problem in problems {
                    findings.add_error("settings", problem.to_string(), WITHOUT_SETTINGS);
                }
            }
        }
    }
    if broken {
        return None;
    }
    WorkspaceSettings::load(&app.config.user_paths(), folder, trust)
        .map_err(|error| findings.add_error("settings", error.to_string(), WITHOUT_SETTINGS))
        .ok()
}

const WITHOUT_SETTINGS: &str = "fix the file; until then, zero calls no tools";

/// Checks that the program that notifies the user is there and cannot be changed by commands.
fn check_notify_command(
    app: &AppContext,
    settings: &WorkspaceSettings,
    findings: &mut DoctorReport,
) {
    // A folder that cannot be opened has a finding of its own.
    let Ok(workspace) = app.config.open_workspace(&[]) else { return };
    match app.notification_program(settings, workspace.cwd()) {
        Ok(None) => {}
        Ok(Some(program)) => {
            findings.add_ok("notify", format!("{} notifies you", program.program.display()));
        }
        Err(error) => findings.add_error(
            "notify",
            error.to_string(),
            "change `notify.command` in your settings, or remove it",
        ),
    }
}

fn check_trust(settings: &WorkspaceSettings, findings: &mut DoctorReport) {
    match settings.trust_state() {
        TrustState::Never if settings.inactive_entries().next().is_none() => {
            findings.add_ok("trust", "this folder is not trusted; its settings do not need trust")
        }
        TrustState::Trusted { since } => {
            findings.add_ok(
                "trust",
                format!("this folder has been trusted since {}", format_short_time(*since)),
            );
        }
        TrustState::Never => findings.add_warning(
            "trust",
            "this folder is not trusted: its settings can only make zero stricter",
            "review them with `zero trust`",
        ),
        TrustState::Changed { since, only_files: true, .. } => {
            let since = format_short_time(*since);
            findings.add_warning(
                "trust",
                format!("files used by hooks of this folder changed since you trusted it on {since}: these hooks fail"),
                "review the files, then run `zero trust`",
            );
        }
        TrustState::Changed { since, .. } => {
            let since = format_short_time(*since);
            findings.add_warning(
                "trust",
                format!("the settings of this folder changed since you trusted it on {since}"),
                "review them with `zero trust`",
            );
        }
    }
    let set_aside: Vec<_> = settings.inactive_entries().collect();
    for entry in set_aside.iter().take(LISTED_MAX) {
        let entry = entry.to_masked();
        let value = entry.value.as_str().map_or_else(|| entry.value.to_string(), str::to_owned);
        findings.add_warning(
            "trust",
            format!("{}:{}: `{} {value}` does not apply", entry.file, entry.line, entry.key),
            "it applies once you trust the folder",
        );
    }
    if let Some(more) = set_aside.len().checked_sub(LISTED_MAX + 1) {
        findings.add_warning(
            "trust",
            format!("{} more do not apply", more + 1),
            "run `zero config list` to see all of them",
        );
    }
}

/// Reports settings of a project that only the user's own file can set.
fn check_misplaced(settings: &WorkspaceSettings, findings: &mut DoctorReport) {
    for entry in settings.misplaced_entries().take(LISTED_MAX) {
        findings.add_warning(
            "settings",
            format!("{}:{}: `{}` has no effect", entry.file, entry.line, entry.key),
            "only your own settings can set it: move it there (`zero config path`), or remove it",
        );
    }
}

fn check_rules(folder: &Path, settings: &WorkspaceSettings, findings: &mut DoctorReport) {
    let narrow = settings.narrow_rules(folder);
    for (rule, why) in narrow.iter().take(LISTED_MAX) {
        let RuleEntry { text, source_file, line, rule, .. } = rule;
        let verdict = rule.verdict;
        findings.add_warning(
            "rules",
            format!("{source_file}:{line}: {verdict} rule `{text}`: {why}"),
            "write the rule so that it matches what you mean; `zero policy explain` shows what it decides",
        );
    }
    let dangers = settings.dangerous_rules();
    for (rule, why) in dangers.iter().take(LISTED_MAX) {
        let RuleEntry { text, source_file, line, layer, .. } = rule;
        let flag = match layer {
            SettingsLayerKind::Project => " --project",
            SettingsLayerKind::Local => " --local",
            SettingsLayerKind::User | SettingsLayerKind::Flag => "",
        };
        findings.add_warning(
            "rules",
            format!("{source_file}:{line}: allow rule `{text}`: {why}"),
            format!(
                "allow only what you need, such as `Bash(cargo test:*)`; remove it with `zero config remove permissions.allow {}{flag}`",
                quote_shell_word(text)
            ),
        );
    }
    if let Some(more) = dangers.len().checked_sub(LISTED_MAX + 1) {
        let message = format!("{} more rules are too broad", more + 1);
        findings.add_warning("rules", message, "run `zero config list` to see all rules");
    }
    if dangers.is_empty() && narrow.is_empty() {
        let message = match settings.rules().count() {
            0 => "no rules; zero asks before it changes anything".to_owned(),
            1 => "1 rule applies; it allows nothing dangerous".to_owned(),
            count => format!("{count} rules apply; none allows anything dangerous"),
        };
        findings.add_ok("rules", message);
    }
}

fn check_mode(settings: &WorkspaceSettings, findings: &mut DoctorReport) {
    let source = settings.value("permissions.mode").and_then(|(_, sources)| {
        sources.last().map(|entry| format!("{}:{}", entry.file, entry.line))
    });
    let source = source.unwrap_or_else(|| "default".to_owned());
    match settings.mode() {
        PermissionMode::Auto => findings.add_warning(
            "mode",
            format!("auto ({source}): zero runs many calls without asking"),
            "to be asked before every change, run `zero config set permissions.mode ask`",
        ),
        mode => findings.add_ok("mode", format!("{mode} ({source})")),
    }
}

/// Checks that only the user can access zero's state folders.
fn check_private_folder(app: &AppContext, state: &StateDir, findings: &mut DoctorReport) {
    let folders = [state.clone(), state.child("audit"), state.child("journal")];
    let mut seen = false;
    let mut open = false;
    for folder in folders {
        let Ok(metadata) = std::fs::symlink_metadata(folder.path()) else { continue };
        seen = true;
        let path = display_path(folder.path(), app.config.home());
        let bits = metadata.permissions().mode() & 0o777;
        if metadata.is_dir() && bits & 0o077 != 0 {
            open = true;
            let message = format!("{path} has mode {bits:03o}: other users can access it");
            findings.add_error("state", message, format!("chmod 700 {path}"));
        } else if metadata.is_file() {
            open = true;
            let message = format!("{path} is a file; it must be a folder");
            findings.add_error(
                "state",
                message,
                "move it away; zero creates the folder when needed",
            );
        }
    }
    let path = display_path(state.path(), app.config.home());
    match (seen, open) {
        (_, true) => {}
        (true, false) => findings.add_ok("state", format!("only you can access {path}")),
        (false, false) => findings.add_ok("state", format!("{path} does not exist yet")),
    }
}

/// Checks that the audit log is writable and that its newest day is intact.
fn check_audit_log(state: &StateDir, findings: &mut DoctorReport) {
    const CHECK: &str = "audit";
    let audit = AuditLog::new(state);
    if let Err(error) = audit.ensure_writable(Timestamp::now()) {
        findings.add_error(
            CHECK,
            format!("the log is not writable: {error}"),
            "free disk space, or set XDG_STATE_HOME to a writable folder; until then, zero calls no tools",
        );
        return;
    }
    findings.add_ok(CHECK, "the log is writable");
    let verified = audit.days().and_then(|days| {
        let since = days.last().and_then(|day| day.parse().ok());
        audit.verify(&VerifyOptions { since, ..VerifyOptions::default() }, |_| {})
    });
    match verified {
        Ok(verified) if verified.is_intact() && verified.rows + verified.untied == 0 => {
            findings.add_ok(CHECK, "the log has no rows yet");
        }
        Ok(verified) if verified.is_intact() => {
            findings.add_ok(CHECK, format!("the newest day is intact; rows: {}", verified.rows));
        }
        Ok(verified) => {
            let first = verified.findings.first();
            let first = first.map_or_else(String::new, |found| {
                let line = found.line.map_or_else(String::new, |line| format!(":{line}"));
                format!(": {}{line}: {}", found.file, found.fault)
            });
            findings.add_error(
                CHECK,
                format!("the newest day is not intact{first}"),
                "run `zero audit verify` for details; the log was changed, or the disk lost data",
            );
        }
        Err(error) => findings.add_error(
            CHECK,
            format!("could not read the log: {error}"),
            "check the owner and mode of its files",
        ),
    }
}

fn check_search_path(app: &AppContext, folder: Option<&Path>, findings: &mut DoctorReport) {
    const CHECK: &str = "PATH";
    let relative = app.config.relative_search_path();
    for entry in relative.iter().take(LISTED_MAX) {
        let what = match entry.to_str() {
            Some("") => "an empty entry, which means the current folder".to_owned(),
            _ => format!("the relative entry `{}`", entry.display()),
        };
        findings.add_error(
            CHECK,
            format!("PATH has {what}: files in the current folder can replace programs; zero's commands do not use it"),
            "remove it from PATH",
        );
    }
    let cwd = folder.unwrap_or(Path::new("/"));
    let inside = app.config.search_path().iter().filter(|entry| {
        folder.is_some_and(|folder| canonical_folder(cwd, entry).starts_with(folder))
    });
    let inside: Vec<&std::path::PathBuf> = inside.collect();
    for entry in inside.iter().take(LISTED_MAX) {
        findings.add_warning(
            CHECK,
            format!(
                "PATH has `{}`, a folder in the workspace: zero asks before it runs programs from there",
                entry.display()
            ),
            "remove it from PATH, or call such programs by their path",
        );
    }
    match (relative.len() + inside.len(), app.config.search_path().len()) {
        (0, 0) => findings.add_warning(
            CHECK,
            "PATH is not set, so zero cannot find programs",
            "set PATH to absolute folders",
        ),
        (0, count) => findings.add_ok(CHECK, format!("{count} folders, all outside the workspace")),
        _ => {}
    }
}

fn check_git(app: &AppContext, folder: &Path, findings: &mut DoctorReport) {
    let helpers = LocalMachine::new(app.config.search_path()).git_helpers(folder);
    if helpers.is_empty() {
        findings.add_ok("git", "no hooks or configured programs that git would run");
        return;
    }
    let (listed, more) = helpers.split_at(helpers.len().min(LISTED_MAX));
    let more = if more.is_empty() { String::new() } else { format!(" and {} more", more.len()) };
    findings.add_warning(
        "git",
        format!(
            "the repository configures programs that git would run, so zero asks before it runs git: {}{more}",
            listed.join(", ")
        ),
        "check `.git/config` and `.git/hooks`, and remove entries that you do not know",
    );
}
