//! The checks, in the order they are shown.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use jiff::Timestamp;
use zero_policy::{Machine, PermissionMode};
use zero_runtime::LocalMachine;
use zero_runtime::audit::AuditLog;
use zero_runtime::audit::verification::VerifyOptions;
use zero_sandbox::StateDir;

use super::findings::{DoctorFinding, DoctorReport};
use super::{editor, gateway, hooks, language_servers, mcp_servers, sandbox, sessions};
use crate::AppContext;
use crate::policy::canonical_folder;
use crate::settings::layer::shown;
use crate::settings::{RuleEntry, SettingsLayer, SettingsLayerKind, WorkspaceSettings};
use crate::shell_quoting::shell_word;
use crate::terminal::short_time;
use crate::trust::{TrustState, TrustStore};

/// Entries listed one by one; the rest is counted.
pub(super) const LISTED_MAX: usize = 20;

/// Makes all checks.
pub(super) fn all(app: &AppContext) -> Vec<DoctorFinding> {
    let mut findings = DoctorReport::default();
    variables(app, &mut findings);
    let state = app.config.state().map_err(|error| {
        findings.wrong("state", error.to_string(), "nothing can be called until then");
    });
    let folder = app.config.cwd().map(|cwd| canonical_folder(cwd, cwd)).map_err(|error| {
        findings.wrong("folder", error.to_string(), "nothing of a workspace can be looked at");
    });
    if let Ok(folder) = &folder {
        let trust = trust_store(state.as_ref().ok(), &mut findings);
        let settings = settings(app, folder, &trust, &mut findings);
        if let Some(settings) = &settings {
            standing(settings, &mut findings);
            rules(settings, &mut findings);
            mode(settings, &mut findings);
            mcp_servers::check(app, folder, settings, &mut findings);
            language_servers::check(app, folder, settings, &mut findings);
            hooks::check(app, folder, settings, &mut findings);
            sessions::models(app, settings, &mut findings);
            gateway::check(app, settings, &mut findings);
            editor::check(settings, &mut findings);
        }
        sandbox::check(app, settings.as_ref(), &mut findings);
    }
    if let Ok(state) = &state {
        audit(state, &mut findings);
        private(app, state, &mut findings);
        sessions::store(app, state, &mut findings);
        gateway::own_token(app, state, &mut findings);
    }
    search_path(app, folder.as_deref().ok(), &mut findings);
    if let Ok(folder) = &folder {
        git(app, folder, &mut findings);
    }
    findings.0
}

fn variables(app: &AppContext, findings: &mut DoctorReport) {
    for name in app.config.relative_variables() {
        findings.notable(
            "variable",
            format!("{name} is not an absolute path, so it counts as unset"),
            format!("set {name} to an absolute path, or unset it"),
        );
    }
}

fn trust_store(state: Option<&StateDir>, findings: &mut DoctorReport) -> TrustStore {
    let loaded = state.map(TrustStore::load).transpose();
    loaded
        .map_err(|error| {
            findings.wrong("trust", error.to_string(), "until then no folder is trusted");
        })
        .unwrap_or_default()
        .unwrap_or_default()
}

/// Each file by itself, so that a broken one does not hide what is wrong with the next.
fn settings(
    app: &AppContext,
    folder: &Path,
    trust: &TrustStore,
    findings: &mut DoctorReport,
) -> Option<WorkspaceSettings> {
    let home = app.config.home();
    let mut broken = false;
    let files = WorkspaceSettings::files(&app.config, folder).unwrap_or_else(|error| {
        broken = true;
        findings.wrong("settings", error.to_string(), "until then no tool is called");
        WorkspaceSettings::workspace_files(folder).into()
    });
    for (kind, file) in files {
        let path = shown(&file.path(), home);
        match SettingsLayer::read(kind, &file, home) {
            Ok(None) => findings.well("settings", format!("{path}: not there ({})", kind.word())),
            Ok(Some(_)) => findings.well("settings", format!("{path}: read ({})", kind.word())),
            Err(problems) => {
                broken = true;
                for problem in problems {
                    findings.wrong("settings", problem.to_string(), WITHOUT_SETTINGS);
                }
            }
        }
    }
    if broken {
        return None;
    }
    WorkspaceSettings::load(&app.config, folder, trust)
        .map_err(|error| findings.wrong("settings", error.to_string(), WITHOUT_SETTINGS))
        .ok()
}

const WITHOUT_SETTINGS: &str = "correct the file; until then no tool is called";

fn standing(settings: &WorkspaceSettings, findings: &mut DoctorReport) {
    match settings.standing() {
        TrustState::Never if settings.set_aside().next().is_none() => findings.well(
            "trust",
            "this folder is not trusted; its settings ask for nothing that needs it",
        ),
        TrustState::Trusted { since } => {
            findings.well("trust", format!("this folder is trusted since {}", short_time(*since)));
        }
        TrustState::Never => findings.notable(
            "trust",
            "this folder is not trusted: its settings can only tighten",
            "look at what they ask for with `zero trust`",
        ),
        TrustState::Changed { since, only_files: true, .. } => {
            let since = short_time(*since);
            findings.notable(
                "trust",
                format!("files that hooks of this folder name changed since you trusted it, {since}: these hooks fail"),
                "look at them, then at what they are for with `zero trust`",
            );
        }
        TrustState::Changed { since, .. } => {
            let since = short_time(*since);
            findings.notable(
                "trust",
                format!("the settings of this folder changed since you trusted it, {since}"),
                "look at what they ask for now with `zero trust`",
            );
        }
    }
    let set_aside: Vec<_> = settings.set_aside().collect();
    for entry in set_aside.iter().take(LISTED_MAX) {
        let entry = entry.masked();
        let value = entry.value.as_str().map_or_else(|| entry.value.to_string(), str::to_owned);
        findings.notable(
            "trust",
            format!("{}:{}: `{} {value}` does not count", entry.file, entry.line, entry.key),
            "it would, once the folder is trusted",
        );
    }
    if let Some(more) = set_aside.len().checked_sub(LISTED_MAX + 1) {
        findings.notable(
            "trust",
            format!("{} more do not count", more + 1),
            "`zero config list` shows all of them",
        );
    }
}

fn rules(settings: &WorkspaceSettings, findings: &mut DoctorReport) {
    let dangers = settings.dangers();
    for (rule, why) in dangers.iter().take(LISTED_MAX) {
        let RuleEntry { text, source_file, line, layer, .. } = rule;
        let flag = match layer {
            SettingsLayerKind::Project => " --project",
            SettingsLayerKind::Local => " --local",
            SettingsLayerKind::User | SettingsLayerKind::Flag => "",
        };
        findings.notable(
            "rules",
            format!("{source_file}:{line}: allow rule `{text}`: {why}"),
            format!(
                "allow only what you need, such as `Bash(cargo test:*)`; take it out with `zero config remove permissions.allow {}{flag}`",
                shell_word(text)
            ),
        );
    }
    if let Some(more) = dangers.len().checked_sub(LISTED_MAX + 1) {
        let message = format!("{} more rules allow nearly anything", more + 1);
        findings.notable("rules", message, "`zero config list` shows all rules");
    }
    if dangers.is_empty() {
        let message = match settings.rules().len() {
            0 => "there are none; what changes something is asked about".to_owned(),
            1 => "1 counts, and allows nothing dangerous".to_owned(),
            count => format!("{count} count, and none allows anything dangerous"),
        };
        findings.well("rules", message);
    }
}

fn mode(settings: &WorkspaceSettings, findings: &mut DoctorReport) {
    let source = settings.value("permissions.mode").and_then(|(_, sources)| {
        sources.last().map(|entry| format!("{}:{}", entry.file, entry.line))
    });
    let source = source.unwrap_or_else(|| "the usual one".to_owned());
    match settings.mode() {
        PermissionMode::Auto => findings.notable(
            "mode",
            format!("auto ({source}): much runs without a question"),
            "`zero config set permissions.mode ask` asks before anything is changed",
        ),
        mode => findings.well("mode", format!("{mode} ({source})")),
    }
}

/// What zero keeps must be its owner's alone.
fn private(app: &AppContext, state: &StateDir, findings: &mut DoctorReport) {
    let folders = [state.clone(), state.child("audit"), state.child("journal")];
    let mut seen = false;
    let mut open = false;
    for folder in folders {
        let Ok(metadata) = std::fs::symlink_metadata(folder.path()) else { continue };
        seen = true;
        let path = shown(folder.path(), app.config.home());
        let bits = metadata.permissions().mode() & 0o777;
        if metadata.is_dir() && bits & 0o077 != 0 {
            open = true;
            let message = format!("{path} has mode {bits:03o}: others can look into it");
            findings.wrong("state", message, format!("chmod 700 {path}"));
        } else if metadata.is_file() {
            open = true;
            let message = format!("{path} is a file and should be a folder");
            findings.wrong("state", message, "move it away; zero makes the folder when needed");
        }
    }
    let path = shown(state.path(), app.config.home());
    match (seen, open) {
        (_, true) => {}
        (true, false) => findings.well("state", format!("{path} is yours alone")),
        (false, false) => findings.well("state", format!("{path} is not there yet")),
    }
}

/// Whether calls can be written down, and whether the newest day is as it was written.
fn audit(state: &StateDir, findings: &mut DoctorReport) {
    const CHECK: &str = "audit";
    let audit = AuditLog::new(state);
    if let Err(error) = audit.ready(Timestamp::now()) {
        findings.wrong(
            CHECK,
            format!("the log cannot be written: {error}"),
            "make room, or set XDG_STATE_HOME to a folder you can write; until then no tool is called",
        );
        return;
    }
    findings.well(CHECK, "the log can be written");
    let verified = audit.days().and_then(|days| {
        let since = days.last().and_then(|day| day.parse().ok());
        audit.verify(&VerifyOptions { since, ..VerifyOptions::default() }, |_| {})
    });
    match verified {
        Ok(verified) if verified.is_intact() && verified.rows + verified.untied == 0 => {
            findings.well(CHECK, "it has no rows yet");
        }
        Ok(verified) if verified.is_intact() => {
            findings.well(CHECK, format!("its newest day is intact; rows: {}", verified.rows));
        }
        Ok(verified) => {
            let first = verified.findings.first();
            let first = first.map_or_else(String::new, |found| {
                let line = found.line.map_or_else(String::new, |line| format!(":{line}"));
                format!(": {}{line}: {}", found.file, found.fault)
            });
            findings.wrong(
                CHECK,
                format!("its newest day is not intact{first}"),
                "`zero audit verify` shows all of it; somebody changed the log, or a disk lost some",
            );
        }
        Err(error) => findings.wrong(
            CHECK,
            format!("the log cannot be read: {error}"),
            "check the owner and mode of its files",
        ),
    }
}

fn search_path(app: &AppContext, folder: Option<&Path>, findings: &mut DoctorReport) {
    const CHECK: &str = "PATH";
    let relative = app.config.relative_search_path();
    for entry in relative.iter().take(LISTED_MAX) {
        let what = match entry.to_str() {
            Some("") => "an empty entry, which means the current folder".to_owned(),
            _ => format!("`{}`, which is another folder in each place", entry.display()),
        };
        findings.wrong(
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
        findings.notable(
            CHECK,
            format!(
                "it has `{}`, a folder of the workspace: programs there are asked about",
                entry.display()
            ),
            "take it out of PATH, or call such programs by their path",
        );
    }
    match (relative.len() + inside.len(), app.config.search_path().len()) {
        (0, 0) => findings.notable(
            CHECK,
            "it is not set, so where programs are is not known",
            "set PATH to absolute folders",
        ),
        (0, count) => findings.well(CHECK, format!("{count} folders, all outside the workspace")),
        _ => {}
    }
}

fn git(app: &AppContext, folder: &Path, findings: &mut DoctorReport) {
    let helpers = LocalMachine::new(app.config.search_path()).git_helpers(folder);
    if helpers.is_empty() {
        findings.well("git", "nothing here that git would run of its own");
        return;
    }
    let (listed, more) = helpers.split_at(helpers.len().min(LISTED_MAX));
    let more = if more.is_empty() { String::new() } else { format!(" and {} more", more.len()) };
    findings.notable(
        "git",
        format!(
            "the repository brings what git would run, so git is asked about: {}{more}",
            listed.join(", ")
        ),
        "look at `.git/config` and `.git/hooks`, and take out what you do not know",
    );
}
