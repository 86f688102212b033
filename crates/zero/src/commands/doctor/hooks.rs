//! Hooks: which have a say here, and which cannot run.

use std::path::{Path, PathBuf};

use zero_policy::PermissionMode;
use zero_runtime::{Hook, LaunchAccess};
use zero_settings::WorkspaceSettings;
use zero_settings::tool_commands::is_program_found;

use super::findings::DoctorReport;
use crate::AppContext;

const CHECK: &str = "hooks";
const UNTIL_TRUSTED: &str = "until then it fails at every call it is for";

pub(super) fn check_hooks(
    app: &AppContext,
    folder: &Path,
    settings: &WorkspaceSettings,
    findings: &mut DoctorReport,
) {
    let hooks = settings.hooks(app.config.home());
    let place = HookCheckContext::new(app, folder, settings);
    for (when, hooks) in [("before", &hooks.before), ("after", &hooks.after)] {
        if hooks.is_empty() {
            continue;
        }
        let named: Vec<String> =
            hooks.iter().map(|hook| format!("{} ({})", hook.command(), hook.written_at)).collect();
        findings.add_ok(CHECK, format!("run {when} calls: {}", named.join(", ")));
        for hook in hooks {
            if let Some((what, advice)) = place.find_obstacle(hook) {
                let what = format!("{what} ({})", hook.written_at);
                findings.add_warning(CHECK, what, format!("{advice}; {UNTIL_TRUSTED}"));
            }
        }
    }
}

/// Where hooks would run.
struct HookCheckContext<'a> {
    folder: &'a Path,
    /// Where programs are found that calls cannot have put there.
    search_path: Vec<PathBuf>,
    /// zero's own folders.
    own: Vec<PathBuf>,
    mode: PermissionMode,
}

impl<'a> HookCheckContext<'a> {
    fn new(app: &AppContext, folder: &'a Path, settings: &WorkspaceSettings) -> Self {
        let outside = app.config.search_path().iter().filter(|place| !place.starts_with(folder));
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

    /// What keeps a hook from running, and what to do about it.
    fn find_obstacle(&self, hook: &Hook) -> Option<(String, &'static str)> {
        let own = |path: &Path| self.own.iter().any(|own| path.starts_with(own));
        let program = hook.words.first()?;
        if own(self.folder) {
            let what = "this folder is zero's own, which is hidden from what runs".to_owned();
            return Some((what, "work in another folder"));
        }
        let hidden = hook.words.iter().find(|word| own(&self.folder.join(word)));
        if let Some(hidden) = hidden {
            let what =
                format!("`{hidden}` lies in zero's own folders, which are hidden from what runs");
            return Some((what, "keep it elsewhere, such as in `~/bin`"));
        }
        if !is_program_found(program, self.folder, &self.search_path) {
            let what = format!("there is no program `{program}` that could run");
            return Some((what, "install it, make it executable, or correct the hook"));
        }
        if hook.access == LaunchAccess::AsCommands && self.mode == PermissionMode::Plan {
            let what = format!("`{program}` may change things, which nothing does in plan mode");
            return Some((what, "set its `access` to `read`, or leave plan mode"));
        }
        None
    }
}
