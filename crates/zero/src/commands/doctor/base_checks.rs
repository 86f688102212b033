//! The checks, in the order they are shown.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use jiff::Timestamp;
use zero_exec::LocalMachine;
use zero_policy::{Machine, PermissionMode};
use zero_runtime::audit::AuditLog;
use zero_runtime::audit::verification::VerifyOptions;
use zero_sandbox::StateDir;
use zero_settings::layer::display_path;
use zero_settings::user_paths::canonical_folder;
use zero_settings::{RuleEntry, SettingsLayer, SettingsLayerKind, WorkspaceSettings};
use zero_settings::{TrustState, TrustStore};

use super::findings::{DoctorFinding, DoctorReport};
use super::{editor, gateway, hooks, language_servers, mcp_servers, sandbox, sessions};
use crate::AppContext;
use crate::shell_quoting::quote_shell_word;
use crate::terminal::format_short_time;

/// Entries listed one by one; the rest is counted.
pub(super) const LISTED_MAX: usize = 20;

/// Makes all checks.
pub(super) fn run_all(app: &AppContext) -> Vec<DoctorFinding> {
    let mut findings = DoctorReport::default();
    check_variables(app, &mut findings);
    let state = app.config.state_dir().map_err(|error| {
        findings.add_error("state", error.to_string(), "nothing can be called until then");
    });
    let folder = app.config.cwd().map(|cwd| canonical_folder(cwd, cwd)).map_err(|error| {
        findings.add_error("folder", error.to_string(), "nothing of a workspace can be looked at");
    });
    if let Ok(folder) = &folder {
        let trust = load_trust_store(state.as_ref().ok(), &mut findings);
        let settings = load_settings(app, folder, &trust, &mut findings);
        if let Some(settings) = &settings {
            check_trust(settings, &mut findings);
            check_rules(settings, &mut findings);
            check_mode(settings, &mut findings);
            mcp_servers::check_mcp_servers(app, folder, settings, &mut findings);
            language_servers::check_language_servers(app, folder, settings, &mut findings);
            hooks::check_hooks(app, folder, settings, &mut findings);
            sessions::check_models(app, settings, &mut findings);
            gateway::check_gateway(app, settings, &mut findings);
            editor::check_editor(settings, &mut findings);
        }
        sandbox::check_sandbox(app, settings.as_ref(), &mut findings);
    }
    if let Ok(state) = &state {
        check_audit_log(state, &mut findings);
        check_private_folder(app, state, &mut findings);
        sessions::check_store(app, state, &mut findings);
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
            format!("{name} is not an absolute path, so it counts as unset"),
            format!("set {name} to an absolute path, or unset it"),
        );
    }
}

fn load_trust_store(state: Option<&StateDir>, findings: &mut DoctorReport) -> TrustStore {
    let loaded = state.map(TrustStore::load).transpose();
    loaded
        .map_err(|error| {
            findings.add_error("trust", error.to_string(), "until then no folder is trusted");
        })
        .unwrap_or_default()
        .unwrap_or_default()
}

/// Each file by itself, so that a broken one does not hide what is wrong with the next.
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
            findings.add_error("settings", error.to_string(), "until then no tool is called");
            WorkspaceSettings::workspace_files(folder).into()
        });
    for (kind, file) in files {
        let path = display_path(&file.path(), home);
        match SettingsLayer::read(kind, &file, home) {
            Ok(None) => {
                findings.add_ok("settings", format!("{path}: not there ({})", kind.as_str()))
            }
            Ok(Some(_)) => findings.add_ok("settings", format!("{path}: read ({})", kind.as_str())),
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

const WITHOUT_SETTINGS: &str = "correct the file; until then no tool is called";

fn check_trust(settings: &WorkspaceSettings, findings: &mut DoctorReport) {
    match settings.trust_state() {
        TrustState::Never if settings.inactive_entries().next().is_none() => findings.add_ok(
            "trust",
            "this folder is not trusted; its settings ask for nothing that needs it",
        ),
        TrustState::Trusted { since } => {
            findings.add_ok(
                "trust",
                format!("this folder is trusted since {}", format_short_time(*since)),
            );
        }
        TrustState::Never => findings.add_warning(
            "trust",
            "this folder is not trusted: its settings can only tighten",
            "look at what they ask for with `zero trust`",
        ),
        TrustState::Changed { since, only_files: true, .. } => {
            let since = format_short_time(*since);
            findings.add_warning(
                "trust",
                format!("files that hooks of this folder name changed since you trusted it, {since}: these hooks fail"),
                "look at them, then at what they are for with `zero trust`",
            );
        }
        TrustState::Changed { since, .. } => {
            let since = format_short_time(*since);
            findings.add_warning(
                "trust",
                format!("the settings of this folder changed since you trusted it, {since}"),
                "look at what they ask for now with `zero trust`",
            );
        }
    }
    let set_aside: Vec<_> = settings.inactive_entries().collect();
    for entry in set_aside.iter().take(LISTED_MAX) {
        let entry = entry.to_masked();
        let value = entry.value.as_str().map_or_else(|| entry.value.to_string(), str::to_owned);
        findings.add_warning(
            "trust",
            format!("{}:{}: `{} {value}` does not count", entry.file, entry.line, entry.key),
            "it would, once the folder is trusted",
        );
    }
    if let Some(more) = set_aside.len().checked_sub(LISTED_MAX + 1) {
        findings.add_warning(
            "trust",
            format!("{} more do not count", more + 1),
            "`zero config list` shows all of them",
        );
    }
}

fn check_rules(settings: &WorkspaceSettings, findings: &mut DoctorReport) {
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
                "allow only what you need, such as `Bash(cargo test:*)`; take it out with `zero config remove permissions.allow {}{flag}`",
                quote_shell_word(text)
            ),
        );
    }
    if let Some(more) = dangers.len().checked_sub(LISTED_MAX + 1) {
        let message = format!("{} more rules allow nearly anything", more + 1);
        findings.add_warning("rules", message, "`zero config list` shows all rules");
    }
    if dangers.is_empty() {
        let message = match settings.rules().count() {
            0 => "there are none; what changes something is asked about".to_owned(),
            1 => "1 counts, and allows nothing dangerous".to_owned(),
            count => format!("{count} count, and none allows anything dangerous"),
        };
        findings.add_ok("rules", message);
    }
}

fn check_mode(settings: &WorkspaceSettings, findings: &mut DoctorReport) {
    let source = settings.value("permissions.mode").and_then(|(_, sources)| {
        sources.last().map(|entry| format!("{}:{}", entry.file, entry.line))
    });
    let source = source.unwrap_or_else(|| "the usual one".to_owned());
    match settings.mode() {
        PermissionMode::Auto => findings.add_warning(
            "mode",
            format!("auto ({source}): much runs without a question"),
            "`zero config set permissions.mode ask` asks before anything is changed",
        ),
        mode => findings.add_ok("mode", format!("{mode} ({source})")),
    }
}

/// What zero keeps must be its owner's alone.
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
            let message = format!("{path} has mode {bits:03o}: others can look into it");
            findings.add_error("state", message, format!("chmod 700 {path}"));
        } else if metadata.is_file() {
            open = true;
            let message = format!("{path} is a file and should be a folder");
            findings.add_error("state", message, "move it away; zero makes the folder when needed");
        }
    }
    let path = display_path(state.path(), app.config.home());
    match (seen, open) {
        (_, true) => {}
        (true, false) => findings.add_ok("state", format!("{path} is yours alone")),
        (false, false) => findings.add_ok("state", format!("{path} is not there yet")),
    }
}

/// Whether calls can be written down, and whether the newest day is as it was written.
fn check_audit_log(state: &StateDir, findings: &mut DoctorReport) {
    const CHECK: &str = "audit";
    let audit = AuditLog::new(state);
    if let Err(error) = audit.ensure_writable(Timestamp::now()) {
        findings.add_error(
            CHECK,
            format!("the log cannot be written: {error}"),
            "make room, or set XDG_STATE_HOME to a folder you can write; until then no tool is called",
        );
        return;
    }
    findings.add_ok(CHECK, "the log can be written");
    let verified = audit.days().and_then(|days| {
        let since = days.last().and_then(|day| day.parse().ok());
        audit.verify(&VerifyOptions { since, ..VerifyOptions::default() }, |_| {})
    });
    match verified {
        Ok(verified) if verified.is_intact() && verified.rows + verified.untied == 0 => {
            findings.add_ok(CHECK, "it has no rows yet");
        }
        Ok(verified) if verified.is_intact() => {
            findings.add_ok(CHECK, format!("its newest day is intact; rows: {}", verified.rows));
        }
        Ok(verified) => {
            let first = verified.findings.first();
            let first = first.map_or_else(String::new, |found| {
                let line = found.line.map_or_else(String::new, |line| format!(":{line}"));
                format!(": {}{line}: {}", found.file, found.fault)
            });
            findings.add_error(
                CHECK,
                format!("its newest day is not intact{first}"),
                "`zero audit verify` shows all of it; somebody changed the log, or a disk lost some",
            );
        }
        Err(error) => findings.add_error(
            CHECK,
            format!("the log cannot be read: {error}"),
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
            _ => format!("`{}`, which is another folder in each place", entry.display()),
        };
        findings.add_error(
            CHECK,
            format!("it has {what}: a file there can pass for any program"),
            "take it out of PATH",
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
                "it has `{}`, a folder of the workspace: programs there are asked about",
                entry.display()
            ),
            "take it out of PATH, or call such programs by their path",
        );
    }
    match (relative.len() + inside.len(), app.config.search_path().len()) {
        (0, 0) => findings.add_warning(
            CHECK,
            "it is not set, so where programs are is not known",
            "set PATH to absolute folders",
        ),
        (0, count) => findings.add_ok(CHECK, format!("{count} folders, all outside the workspace")),
        _ => {}
    }
}

fn check_git(app: &AppContext, folder: &Path, findings: &mut DoctorReport) {
    let helpers = LocalMachine::new(app.config.search_path()).git_helpers(folder);
    if helpers.is_empty() {
        findings.add_ok("git", "nothing here that git would run of its own");
        return;
    }
    let (listed, more) = helpers.split_at(helpers.len().min(LISTED_MAX));
    let more = if more.is_empty() { String::new() } else { format!(" and {} more", more.len()) };
    findings.add_warning(
        "git",
        format!(
            "the repository brings what git would run, so git is asked about: {}{more}",
            listed.join(", ")
        ),
        "look at `.git/config` and `.git/hooks`, and take out what you do not know",
    );
}
