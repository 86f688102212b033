//! Reports the active hooks, and the reasons why a hook cannot run.

use std::path::{Path, PathBuf};

use zero_policy::PermissionMode;
use zero_runtime::{Hook, LaunchAccess};
use zero_settings::WorkspaceSettings;
use zero_settings::tool_commands::is_program_found;

use super::findings::DoctorReport;
use crate::AppContext;

const CHECK: &str = "hooks";
const UNTIL_TRUSTED: &str = "until then, every call that the hook matches fails";

pub(super) fn check_hooks(
    app: &AppContext,
    folder: &Path,
    settings: &WorkspaceSettings,
    findings: &mut DoctorReport,
) {
    let hooks = settings.hooks(app.config.home());
    let context = HookCheckContext::new(app, folder, settings);
    for (when, hooks) in [("before", &hooks.before), ("after", &hooks.after)] {
        if hooks.is_empty() {
            continue;
        }
        let named: Vec<String> =
            hooks.iter().map(|hook| format!("{} ({})", hook.command(), hook.written_at)).collect();
        findings.add_ok(CHECK, format!("run {when} calls: {}", named.join(", ")));
        for hook in hooks {
            if let Some((what, advice)) = context.find_obstacle(hook) {
                let what = format!("{what} ({})", hook.written_at);
                findings.add_warning(CHECK, what, format!("{advice}; {UNTIL_TRUSTED}"));
            }
        }
    }
}

/// Folder, search path and mode that hooks run with.
struct HookCheckContext<'a> {
    folder: &'a Path,
    /// `PATH` without folders in the workspace, where a call could have placed programs.
    search_path: Vec<PathBuf>,
    /// zero's settings and state folders, which the sandbox hides.
    own: Vec<PathBuf>,
    mode: PermissionMode,
}

impl<'a> HookCheckContext<'a> {
    fn new(app: &AppContext, folder: &'a Path, settings: &WorkspaceSettings) -> Self {
        let outside =
            app.config.search_path().iter().filter(|context| !context.starts_with(folder));
        let config = app.config.settings_file().ok();
        let config = config.and_then(|file| file.parent().map(Path::to_owned));
        let state = app.config.state_dir().ok().map(|state| state.path().to_owned());
        Self {
            folder,
            search_path: outside.cloned().collect(),
            own: config.into_iter().chain(state).collect(),
            mode: settings.mode(),
        }
    }

    /// Why a hook cannot run, and the fix.
    fn find_obstacle(&self, hook: &Hook) -> Option<(String, &'static str)> {
        let own = |path: &Path| self.own.iter().any(|own| path.starts_with(own));
        let program = hook.words.first()?;
        if own(self.folder) {
            let what = "this is one of zero's own folders, which the sandbox hides".to_owned();
            return Some((what, "work in another folder"));
        }
        let hidden = hook.words.iter().find(|word| own(&self.folder.join(word)));
        if let Some(hidden) = hidden {
            let what =
                format!("`{hidden}` is in one of zero's own folders, which the sandbox hides");
            return Some((what, "move it to another folder, such as `~/bin`"));
        }
        if !is_program_found(program, self.folder, &self.search_path) {
            let what = format!("there is no executable program `{program}`");
            return Some((what, "install it, make it executable, or correct the hook"));
        }
        if hook.access == LaunchAccess::AsCommands && self.mode == PermissionMode::Plan {
            let what = format!("`{program}` may write files, which plan mode does not permit");
            return Some((what, "set its `access` to `read`, or leave plan mode"));
        }
        None
    }
}
