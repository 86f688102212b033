//! A settings file to which the user can add allow rules from a question.

use zero_policy::RuleOwner;
use zero_sandbox::Workspace;
use zero_settings::edit::ValueEdit;
use zero_settings::{SettingsEntry, SettingsLayerKind, TrustStore, WorkspaceSettings};

use crate::AppContext;
use crate::error_chain::describe_error;
use crate::exit::UsageError;
use crate::settings_file_edit::EditableSettingsFile;

/// The list of allow rules.
const ALLOW_RULES: &str = "permissions.allow";

/// A settings file of the user or of the project.
#[derive(Clone)]
pub(crate) struct RuleFile {
    app: AppContext,
    workspace: Workspace,
    owner: RuleOwner,
    shown: String,
}

impl RuleFile {
    /// The files whose allow rules apply in a workspace with these settings: the user's, and the
    /// project's if its folder is trusted, since others would not apply.
    pub(crate) fn list(
        app: &AppContext,
        workspace: &Workspace,
        settings: &WorkspaceSettings,
    ) -> Vec<Self> {
        let trusted = settings.trust_state().is_trusted();
        let owners = [RuleOwner::User, RuleOwner::Project];
        owners
            .into_iter()
            .filter(|owner| *owner == RuleOwner::User || trusted)
            .filter_map(|owner| {
                let shown =
                    EditableSettingsFile::new(app, workspace, layer_kind(owner)).ok()?.shown;
                Some(Self { app: app.clone(), workspace: workspace.clone(), owner, shown })
            })
            .collect()
    }

    /// Whose rules they are.
    pub(crate) fn owner(&self) -> RuleOwner {
        self.owner
    }

    /// The file as shown to the user.
    pub(crate) fn shown(&self) -> &str {
        &self.shown
    }

    /// What rules in the file apply to, for the user.
    pub(crate) fn describe(&self, rules: &[String]) -> String {
        let is_here = rules.iter().all(|rule| is_path_rule(rule));
        match self.owner {
            RuleOwner::User if is_here => format!("your settings, for this path: {}", self.shown),
            RuleOwner::User => format!("your settings, for all projects: {}", self.shown),
            RuleOwner::Project => format!("this project's settings: {}", self.shown),
        }
    }

    /// The rules as they are written to the file. A path that begins with one `/` is in the project:
    /// in the user's settings it would be in every project, so there the whole path is written.
    /// `None` if a rule cannot name the project's folder.
    pub(crate) fn written_rules(&self, rules: &[String]) -> Option<Vec<String>> {
        let folder = self.workspace.cwd().to_str();
        let write = |rule: &String| match self.owner {
            RuleOwner::User => anchor_at_folder(rule, folder?),
            RuleOwner::Project => Some(rule.clone()),
        };
        rules.iter().map(write).collect()
    }

    /// Adds exactly these allow rules. The error is text for the user.
    pub(crate) fn add_rules(&self, rules: Vec<String>) -> Result<(), String> {
        self.try_add(&rules).map_err(|error| describe_error(&error))
    }

    fn try_add(&self, rules: &[String]) -> anyhow::Result<()> {
        let file = EditableSettingsFile::new(&self.app, &self.workspace, layer_kind(self.owner))?;
        let edits: Vec<ValueEdit> =
            rules.iter().map(|rule| ValueEdit::Add(rule.as_str().into())).collect();
        let before = self.trusted_entries()?;
        file.apply_all(ALLOW_RULES, &edits)?;
        let Some(before) = before else { return Ok(()) };
        // The folder was trusted with these entries; the user has seen the new rules and added them.
        let after = self.entries_needing_trust()?;
        let is_known = |entry: &&SettingsEntry| {
            before.iter().any(|old| is_same_entry(old, entry))
                || entry.key == ALLOW_RULES && rules.iter().any(|rule| entry.value == **rule)
        };
        if let Some(foreign) = after.iter().find(|entry| !is_known(entry)) {
            let what = format!(
                "`{}` of this folder has changed meanwhile; review it with `zero trust`",
                foreign.key
            );
            return Err(UsageError(what).into());
        }
        let folder = self.workspace.cwd().to_str().unwrap_or_default();
        TrustStore::add(&self.app.config.state_dir()?, folder, &after).map_err(UsageError::from)?;
        Ok(())
    }

    /// The entries that the folder is trusted with, if the file is the project's.
    fn trusted_entries(&self) -> anyhow::Result<Option<Vec<SettingsEntry>>> {
        if self.owner == RuleOwner::User {
            return Ok(None);
        }
        let entries = self.entries_needing_trust()?;
        let trust = TrustStore::load(&self.app.config.state_dir()?).map_err(UsageError::from)?;
        if !trust.trust_state(self.workspace.cwd(), &entries).is_trusted() {
            let what = "this folder is no longer trusted; review it with `zero trust`";
            return Err(UsageError(what.to_owned()).into());
        }
        Ok(Some(entries))
    }

    fn entries_needing_trust(&self) -> Result<Vec<SettingsEntry>, UsageError> {
        let paths = self.app.config.user_paths();
        WorkspaceSettings::entries_needing_trust(&paths, self.workspace.cwd())
            .map_err(UsageError::from)
    }
}

/// Whether a rule is about a path of the project.
fn is_project_path(rule: &str) -> bool {
    is_path_rule(rule) && !rule.contains("(//")
}

/// Whether a rule is about a path that begins with `/`.
fn is_path_rule(rule: &str) -> bool {
    ["Read(/", "Edit(/", "Delete(/"].iter().any(|begin| rule.starts_with(begin))
}

/// A rule about a path of the project as one about the same path of the machine.
fn anchor_at_folder(rule: &str, folder: &str) -> Option<String> {
    if !is_project_path(rule) {
        return Some(rule.to_owned());
    }
    // Characters with a meaning in rules.
    let is_plain = !folder.contains(['*', '?', '[', ']', '{', '}', '(', ')', '\\', '!']);
    let (tool, path) = rule.split_once('(')?;
    is_plain.then(|| format!("{tool}(/{}{path}", folder.trim_end_matches('/')))
}

fn is_same_entry(one: &SettingsEntry, other: &SettingsEntry) -> bool {
    one.layer == other.layer && one.key == other.key && one.value == other.value
}

fn layer_kind(owner: RuleOwner) -> SettingsLayerKind {
    match owner {
        RuleOwner::User => SettingsLayerKind::User,
        RuleOwner::Project => SettingsLayerKind::Project,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn path_of_the_project_is_anchored_at_its_folder() {
        for (rule, folder, expected) in [
            ("Edit(/a b)", "/home/u/p", Some("Edit(//home/u/p/a b)")),
            ("Read(//etc/x)", "/home/u/p", Some("Read(//etc/x)")),
            ("Edit(/a)", "/", Some("Edit(//a)")),
            ("Bash(make:*)", "/home/u/p", Some("Bash(make:*)")),
            ("Edit(/a)", "/home/u/p[1]", None),
        ] {
            assert_eq!(anchor_at_folder(rule, folder).as_deref(), expected, "{rule}");
        }
    }
}
