//! Hooks: which have a say here, and which cannot run.

use std::path::Path;

use super::findings::Findings;
use crate::App;
use crate::settings::Settings;
use crate::settings::tools_command::is_found;

const CHECK: &str = "hooks";

pub(super) fn check(app: &App, folder: &Path, settings: &Settings, findings: &mut Findings) {
    let hooks = settings.hooks(app.config.home());
    for (when, hooks) in [("before", &hooks.before), ("after", &hooks.after)] {
        if hooks.is_empty() {
            continue;
        }
        let named: Vec<String> =
            hooks.iter().map(|hook| format!("{} ({})", hook.command(), hook.written_at)).collect();
        findings.well(CHECK, format!("run {when} calls: {}", named.join(", ")));
        for hook in hooks {
            let Some(program) = hook.words.first() else { continue };
            if !is_found(program, folder, app.config.search_path()) {
                findings.notable(
                    CHECK,
                    format!("there is no program `{program}` that could run ({})", hook.written_at),
                    "install it, make it executable, or correct the hook; until then it fails at every call it is for",
                );
            }
        }
    }
}
