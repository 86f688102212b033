//! The settings of a workspace: files read, merged and checked.

mod command_settings;
mod section_values;

use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};
use zero_core::HostLimits;
use zero_policy::{PermissionMode, PolicyRule};
use zero_sandbox::{ConfigFile, machine_resources, path_survey};

use crate::hook_file_snapshots::HookFileSnapshots;
use crate::layer;
use crate::merge::SettingsMerger;
use crate::rule_entry::REQUEST_FILE_NAME;
use crate::settings_schema::is_list;
use crate::{
    ParsedSetting, RuleEntry, SettingsEntry, SettingsEntryState, SettingsError, SettingsLayer,
    SettingsLayerKind, SettingsLocation, SettingsProblem, TrustState, TrustStore, UserPaths,
    rule_examples,
};

/// The settings that apply in a workspace.
#[derive(Debug)]
pub struct WorkspaceSettings {
    entries: Vec<SettingsEntry>,
    trust_state: TrustState,
}

impl WorkspaceSettings {
    /// Loads the user's settings and those of a workspace, given its canonical folder.
    pub fn load(
        paths: &UserPaths,
        workspace_root: &Path,
        trust: &TrustStore,
    ) -> Result<Self, SettingsError> {
        let layers = read_layers(&Self::files(paths, workspace_root)?, paths.home())?;
        // Hook files of a folder that was never trusted are not read: its hooks are inactive
        // anyway.
        let counts =
            |kind: SettingsLayerKind| !kind.is_in_workspace() || trust.has_folder(workspace_root);
        let looked_at = layers.iter().filter(|layer| counts(layer.kind));
        let mut snapshots = HookFileSnapshots::read(looked_at, workspace_root, paths.home());
        let mut gated = Self::filter_needing_trust(&layers);
        snapshots.attach(&mut gated);
        let trust_state = trust.trust_state(workspace_root, &gated);
        if let TrustState::Changed { new, only_files: true, .. } = &trust_state {
            snapshots.mark_untrusted(new);
        }
        let mut settings = Self::merge(&layers, trust_state)
            .with_examples_checked()?
            .with_paths_checked(paths, workspace_root)?;
        snapshots.attach(&mut settings.entries);
        Ok(settings)
    }

    /// Settings without any file.
    pub fn empty() -> Self {
        Self::merge(&[], TrustState::Never)
    }

    /// The settings files of a workspace, whether or not they exist.
    pub fn files(
        paths: &UserPaths,
        workspace_root: &Path,
    ) -> Result<Vec<(SettingsLayerKind, ConfigFile)>, SettingsError> {
        let own = (SettingsLayerKind::User, ConfigFile::Own(paths.settings_file()?.to_owned()));
        Ok(std::iter::once(own).chain(Self::workspace_files(workspace_root)).collect())
    }

    /// The settings files inside the workspace.
    pub fn workspace_files(root: &Path) -> [(SettingsLayerKind, ConfigFile); 2] {
        [SettingsLayerKind::Project, SettingsLayerKind::Local]
            .map(|kind| (kind, layer::workspace_file(root, kind)))
    }

    /// The trust state of the workspace's folder.
    pub fn trust_state(&self) -> &TrustState {
        &self.trust_state
    }

    /// The entries of a workspace's files that apply only once its folder is trusted. Fails if they
    /// are invalid, so that the user is not asked to trust unusable settings.
    pub fn entries_needing_trust(
        paths: &UserPaths,
        workspace_root: &Path,
    ) -> Result<Vec<SettingsEntry>, SettingsError> {
        let layers = read_layers(&Self::files(paths, workspace_root)?, paths.home())?;
        Self::merge(&layers, TrustState::assumed())
            .with_examples_checked()?
            .with_paths_checked(paths, workspace_root)?;
        let mut gated = Self::filter_needing_trust(&layers);
        HookFileSnapshots::read(layers.iter(), workspace_root, paths.home()).attach(&mut gated);
        Ok(gated)
    }

    /// The entries that would be inactive if the folder were not trusted.
    pub fn filter_needing_trust(layers: &[SettingsLayer]) -> Vec<SettingsEntry> {
        Self::merge(layers, TrustState::Never).inactive_entries().cloned().collect()
    }

    /// Checks that a file could be used in a workspace: its rules match their examples, and it
    /// opens no forbidden folder.
    pub fn check_layer(
        layer: SettingsLayer,
        paths: &UserPaths,
        workspace_root: &Path,
    ) -> Result<(), SettingsError> {
        let settings = Self::merge(&[layer], TrustState::assumed()).with_examples_checked()?;
        settings.with_paths_checked(paths, workspace_root).map(drop)
    }

    /// Settings with the permissions of a request, checked like those of a file.
    pub fn from_request(permissions: &Value) -> Result<Self, SettingsError> {
        let text = json!({ "permissions": permissions }).to_string();
        let layer = SettingsLayer::parse(
            SettingsLayerKind::Flag,
            REQUEST_FILE_NAME.to_owned(),
            text.as_bytes(),
        )
        .map_err(SettingsError::Invalid)?;
        Self::merge(&[layer], TrustState::Never).with_examples_checked()
    }

    /// Loads only the files named on the command line. They count as the user's own, for a
    /// workspace given by its canonical folder.
    pub fn load_files(
        paths: &UserPaths,
        files: &[PathBuf],
        workspace_root: &Path,
    ) -> Result<Self, SettingsError> {
        let root = paths.cwd.as_deref().unwrap_or(Path::new("/"));
        let layers = Self::read_named_layers(paths, files)?;
        let mut settings = Self::merge(&layers, TrustState::Never)
            .with_examples_checked()?
            .with_paths_checked(paths, root)?;
        let snapshots = HookFileSnapshots::read(layers.iter(), workspace_root, paths.home());
        snapshots.attach(&mut settings.entries);
        Ok(settings)
    }

    /// Like `load_files`, without checking the examples of rules.
    pub fn load_files_unchecked(
        paths: &UserPaths,
        files: &[PathBuf],
    ) -> Result<Self, SettingsError> {
        Ok(Self::merge(&Self::read_named_layers(paths, files)?, TrustState::Never))
    }

    fn read_named_layers(
        paths: &UserPaths,
        files: &[PathBuf],
    ) -> Result<Vec<SettingsLayer>, SettingsError> {
        let named: Vec<_> = files
            .iter()
            .map(|path| (SettingsLayerKind::Flag, ConfigFile::Own(path.clone())))
            .collect();
        let layers = read_layers(&named, paths.home())?;
        // A file named on the command line must exist.
        let missing: Vec<SettingsProblem> = files
            .iter()
            .map(|path| layer::display_path(path, paths.home()))
            .filter(|shown| layers.iter().all(|layer| layer.shown != *shown))
            .map(|file| SettingsProblem { file, place: None, what: "does not exist".to_owned() })
            .collect();
        if missing.is_empty() { Ok(layers) } else { Err(SettingsError::Invalid(missing)) }
    }

    /// Merges layers that were read already, weakest first. Checks neither the examples of rules
    /// nor the writable folders.
    pub fn merge(layers: &[SettingsLayer], trust_state: TrustState) -> Self {
        let mut merged = SettingsMerger::new(HostLimits::for_machine(machine_resources::read()));
        for layer in layers {
            let trusted = !layer.kind.is_in_workspace() || trust_state.is_trusted();
            for entry in layer.entries() {
                merged.add(entry.clone(), trusted);
            }
        }
        Self { entries: merged.entries, trust_state }
    }

    /// The active permission rules, by file and line.
    pub fn rules(&self) -> impl Iterator<Item = &RuleEntry> {
        self.active_entries().filter_map(|entry| match &entry.parsed {
            ParsedSetting::Rule(rule) => Some(&**rule),
            _ => None,
        })
    }

    /// The active rules for the policy engine.
    pub fn policy_rules(&self) -> Vec<PolicyRule> {
        self.rules().map(|entry| entry.rule.clone()).collect()
    }

    /// What the user's own file says in some sections, whatever other files say. `None` if it has not been read.
    pub fn user_sections(&self, sections: &[&str]) -> Option<Self> {
        let mut own = self.entries.iter().filter(|entry| entry.layer == SettingsLayerKind::User);
        own.clone().next()?;
        let is_wanted = |key: &str| sections.iter().any(|section| key.starts_with(section));
        let mut merged = SettingsMerger::new(HostLimits::for_machine(machine_resources::read()));
        own.by_ref()
            .filter(|entry| is_wanted(&entry.key))
            .for_each(|entry| merged.add(entry.clone(), true));
        Some(Self { entries: merged.entries, trust_state: TrustState::Never })
    }

    /// Checks that every rule matches its examples.
    fn with_examples_checked(self) -> Result<Self, SettingsError> {
        let mut problems = Vec::new();
        for entry in self.rules() {
            let RuleEntry { rule, examples, .. } = entry;
            for broken in
                rule_examples::failed_examples(rule, &examples.matches, &examples.not_match)
            {
                let place = Some(SettingsLocation { line: entry.line, column: 1 });
                let what =
                    format!("rule `{}`: {broken}; correct the rule or the example", rule.text);
                problems.push(SettingsProblem { file: entry.source_file.clone(), place, what });
            }
        }
        if problems.is_empty() { Ok(self) } else { Err(SettingsError::Invalid(problems)) }
    }

    /// Checks that no forbidden folder is opened to commands.
    fn with_paths_checked(
        self,
        paths: &UserPaths,
        workspace_root: &Path,
    ) -> Result<Self, SettingsError> {
        let problems = self.find_forbidden_folders(paths, workspace_root);
        if problems.is_empty() { Ok(self) } else { Err(SettingsError::Invalid(problems)) }
    }

    /// The permission mode; `ask` if the settings name none.
    pub fn mode(&self) -> PermissionMode {
        self.own_mode().unwrap_or_default()
    }

    /// The permission mode that the settings name, if any.
    pub fn own_mode(&self) -> Option<PermissionMode> {
        self.active_entries().find_map(SettingsEntry::mode)
    }

    /// Sets the limits that the settings name; the others stay.
    pub fn apply_limits(&self, limits: &mut HostLimits) {
        for entry in self.active_entries() {
            if let ParsedSetting::Limit(change) = &entry.parsed {
                limits.apply(change);
            }
        }
    }

    /// All entries of all files, with their state.
    pub fn entries(&self) -> &[SettingsEntry] {
        &self.entries
    }

    /// The entries that would apply if the folder were trusted.
    pub fn inactive_entries(&self) -> impl Iterator<Item = &SettingsEntry> {
        self.entries.iter().filter(|entry| entry.state == SettingsEntryState::SetAside)
    }

    /// A note for the user about inactive settings, if it is worth one.
    pub fn trust_note(&self) -> Option<String> {
        if let TrustState::Changed { new, only_files: true, .. } = &self.trust_state {
            let what = match new.len() {
                1 => "1 hook of this folder fails, because a file that it uses".to_owned(),
                count => format!("{count} hooks of this folder fail, because files that they use"),
            };
            return Some(format!("{what} changed since you trusted it; see `zero trust`"));
        }
        let count = self.inactive_entries().count();
        let what = match count {
            0 => return None,
            1 => "1 setting of this folder is".to_owned(),
            _ => format!("{count} settings of this folder are"),
        };
        let since = match &self.trust_state {
            TrustState::Changed { .. } => ", because they changed since you trusted it",
            _ => "",
        };
        Some(format!("{what} not active{since}; see `zero trust`"))
    }

    /// The allow rules that allow nearly anything, each with the reason.
    pub fn dangerous_rules(&self) -> Vec<(&RuleEntry, String)> {
        let danger = |entry| RuleEntry::overbroad_reason(entry).map(|why| (entry, why));
        self.rules().filter_map(danger).collect()
    }

    /// The deny and ask rules that match less than they seem to, each with the reason.
    /// `root` is the folder of the workspace.
    pub fn narrow_rules(&self, root: &Path) -> Vec<(&RuleEntry, String)> {
        let is_elsewhere = |path: &Path| {
            let inside = path.strip_prefix("/").map(|below| root.join(below));
            path_survey::exists(path) && inside.is_ok_and(|inside| !path_survey::exists(&inside))
        };
        let narrow = |entry| RuleEntry::narrow_reason(entry, &is_elsewhere);
        self.rules().filter_map(|entry| Some((entry, narrow(entry)?))).collect()
    }

    /// The entries of a project's files that only the user's own file can set.
    pub fn misplaced_entries(&self) -> impl Iterator<Item = &SettingsEntry> {
        self.entries.iter().filter(|entry| entry.state == SettingsEntryState::OnlyYours)
    }

    /// Warnings for the user: about an allow rule that allows nearly anything, and about settings
    /// that do nothing where they are.
    pub fn warnings(&self) -> Vec<String> {
        self.danger_warning().into_iter().chain(self.misplaced_warning()).collect()
    }

    fn misplaced_warning(&self) -> Option<String> {
        let misplaced: Vec<&SettingsEntry> = self.misplaced_entries().collect();
        let first = misplaced.first()?;
        let more = match misplaced.len() {
            1 => String::new(),
            count => format!(" ({} more; see `zero doctor`)", count - 1),
        };
        Some(format!("{}{more}", first.describe_misplaced()))
    }

    fn danger_warning(&self) -> Option<String> {
        let dangers = self.dangerous_rules();
        let (RuleEntry { text, source_file, line, .. }, why) = dangers.first()?;
        let more = match dangers.len() {
            1 => String::new(),
            2 => ", and 1 more is".to_owned(),
            count => format!(", and {} more are", count - 1),
        };
        Some(format!(
            "rule `{text}` ({source_file}:{line}) is risky: {why}{more}; see `zero doctor`"
        ))
    }

    /// The effective value of a dotted key, and the entries it comes from.
    pub fn value(&self, key: &str) -> Option<(Value, Vec<&SettingsEntry>)> {
        collect_value(self.entries.iter().filter(|entry| entry.is_effective()), key)
    }

    /// The entries that apply: neither overridden nor in an untrusted folder.
    pub fn active_entries(&self) -> impl Iterator<Item = &SettingsEntry> {
        self.entries.iter().filter(|entry| entry.state == SettingsEntryState::Active)
    }
}

/// The value of a dotted key built from entries, and the entries it is built from.
pub fn collect_value<'a>(
    entries: impl Iterator<Item = &'a SettingsEntry>,
    key: &str,
) -> Option<(Value, Vec<&'a SettingsEntry>)> {
    let below = |outer: &str, inner: &str| {
        inner.strip_prefix(outer).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    };
    let sources: Vec<&SettingsEntry> =
        entries.filter(|entry| below(key, &entry.key) || below(&entry.key, key)).collect();
    let mut whole = Value::Object(Map::new());
    for entry in &sources {
        // An alias may contain dots: only the section is split off.
        let (section, name) = entry.key.split_once('.').unwrap_or((&entry.key, ""));
        let Value::Object(sections) = &mut whole else { return None };
        let slot = sections.entry(section).or_insert(Value::Null);
        let slot = match name.split_once('.').filter(|_| section == "limits") {
            // A limit of one tool.
            Some((tool, limit)) => field_slot(field_slot(slot, tool)?, limit)?,
            None if name.is_empty() => slot,
            None => field_slot(slot, name)?,
        };
        if is_list(&entry.key) {
            if !slot.is_array() {
                *slot = Value::Array(Vec::new());
            }
            slot.as_array_mut()?.push(entry.value.clone());
        } else {
            *slot = entry.value.clone();
        }
    }
    let value = descend(&whole, key)?;
    Some((value.clone(), sources)).filter(|(_, sources)| !sources.is_empty())
}

/// The value at a dotted key. A name may contain dots: the longest match is used.
fn descend<'a>(value: &'a Value, key: &str) -> Option<&'a Value> {
    let (mut value, mut rest) = (value, key);
    while !rest.is_empty() {
        let names = value.as_object()?.iter().filter_map(|(name, field)| {
            let after = rest.strip_prefix(name.as_str())?;
            let after = if after.is_empty() { after } else { after.strip_prefix('.')? };
            Some((name.len(), after, field))
        });
        (_, rest, value) = names.max_by_key(|(length, ..)| *length)?;
    }
    Some(value)
}

fn field_slot<'a>(slot: &'a mut Value, name: &str) -> Option<&'a mut Value> {
    if !slot.is_object() {
        *slot = Value::Object(Map::new());
    }
    Some(slot.as_object_mut()?.entry(name).or_insert(Value::Null))
}

fn read_layers(
    files: &[(SettingsLayerKind, ConfigFile)],
    home: Option<&Path>,
) -> Result<Vec<SettingsLayer>, SettingsError> {
    let (mut layers, mut problems) = (Vec::new(), Vec::new());
    for (kind, file) in files {
        match SettingsLayer::read(*kind, file, home) {
            Ok(layer) => layers.extend(layer),
            Err(found) => problems.extend(found),
        }
    }
    if problems.is_empty() { Ok(layers) } else { Err(SettingsError::Invalid(problems)) }
}

#[cfg(test)]
pub(crate) mod tests {
    use zero_policy::Verdict;

    use super::*;

    pub(crate) const USER_SETTINGS: &str = r#"{"permissions": {"allow": ["Read"], "mode": "accept-edits"}, "limits": {"file-timeout": "20s"}}"#;

    pub(crate) fn parse_layers(files: &[(SettingsLayerKind, &str)]) -> Vec<SettingsLayer> {
        let parse = |(kind, text): &(SettingsLayerKind, &str)| {
            SettingsLayer::parse(*kind, kind.as_str().to_owned(), text.as_bytes()).unwrap()
        };
        files.iter().map(parse).collect()
    }

    #[test]
    fn settings_that_do_nothing_in_a_project_are_reported() {
        // Every setting that only the user's file can set, but for budgets, which are an error.
        const TEXT: &str = r#"{"undo": {"commands": false},
            "notify": {"minSeconds": 5},
            "chat": {"vim": true},
            "update": {"enabled": false},
            "retention": {"auditDays": 10},
            "subagents": {"maxParallel": 2},
            "web": {"search": []},
            "network": {"extraCa": "/ca.pem"},
            "gateway": {"remote": {"url": "wss://x.example"}},
            "acp": {"prefixCwd": true},
            "sandbox": {"readable": ["~/z"], "outside": "ask"},
            "limits": {"profile": "fair"},
            "secrets": {"mask": false, "remember": false, "except": ["d"]}}"#;
        let strict = r#"{"limits": {"profile": "strict"}, "sandbox": {"outside": "never"}}"#;
        for trust in [TrustState::Never, TrustState::assumed()] {
            let files = [(SettingsLayerKind::User, strict), (SettingsLayerKind::Project, TEXT)];
            let settings = WorkspaceSettings::merge(&parse_layers(&files), trust);
            let of_project = settings.entries().iter().filter(|entry| entry.file == "project");
            let silent: Vec<&str> = of_project
                .filter(|entry| entry.state != SettingsEntryState::OnlyYours)
                .map(|entry| entry.key.as_str())
                .collect();
            assert!(silent.is_empty(), "{silent:?}");
            assert_eq!(
                settings.warnings(),
                [
                    "`undo.commands` (project:1) has no effect: only your own settings can set it; move it there (`zero config path` names the file) or remove it (15 more; see `zero doctor`)"
                ]
            );
        }
    }

    #[test]
    fn limits_and_rules_carry_their_source() {
        let settings = WorkspaceSettings::merge(
            &parse_layers(&[(SettingsLayerKind::User, USER_SETTINGS)]),
            TrustState::Never,
        );
        let mut limits = HostLimits::default();
        settings.apply_limits(&mut limits);
        assert_eq!(limits.file_timeout.as_secs(), 20);
        let rules: Vec<&RuleEntry> = settings.rules().collect();
        assert_eq!(rules.len(), 1);
        assert_eq!((rules[0].text.as_str(), rules[0].rule.verdict), ("Read", Verdict::Allow));
        assert_eq!((rules[0].source_file.as_str(), rules[0].line), ("user", 1));
    }

    #[test]
    fn user_section_is_as_written_under_a_trusted_project() {
        let model = |key: &str| {
            json!({"models": {"m": {"api": "chat", "model": "m", "apiKey": {"file": key}}}})
                .to_string()
        };
        let files = [
            (SettingsLayerKind::User, model("/own.key")),
            (SettingsLayerKind::Project, model("/their.key")),
        ];
        let files = files.each_ref().map(|(kind, text)| (*kind, text.as_str()));
        let settings = WorkspaceSettings::merge(&parse_layers(&files), TrustState::assumed());
        let keys = |settings: &WorkspaceSettings| -> Vec<String> {
            settings.model_keys().map(|secret| format!("{secret:?}")).collect()
        };
        let own = settings.user_sections(&["models."]).unwrap();
        assert!(keys(&own)[0].contains("/own.key"), "{:?}", keys(&own));
        assert!(keys(&settings)[0].contains("/their.key"), "{:?}", keys(&settings));
        let none = WorkspaceSettings::merge(&parse_layers(&files[1..]), TrustState::assumed());
        assert!(none.user_sections(&["models."]).is_none());
    }

    #[test]
    fn key_can_name_value_list_or_section() {
        let project =
            r#"{"permissions": {"allow": ["Grep"]}, "mcpServers": {"a.b": {"command": "x"}}}"#;
        let trusted = TrustState::assumed();
        let settings = WorkspaceSettings::merge(
            &parse_layers(&[
                (SettingsLayerKind::User, USER_SETTINGS),
                (SettingsLayerKind::Project, project),
            ]),
            trusted,
        );
        for (key, expected) in [
            ("permissions.mode", Some((json!("accept-edits"), 1))),
            ("permissions.allow", Some((json!(["Read", "Grep"]), 2))),
            ("permissions", Some((json!({"allow": ["Read", "Grep"], "mode": "accept-edits"}), 3))),
            ("limits.file-timeout", Some((json!("20s"), 1))),
            ("mcpServers.a.b.command", Some((json!("x"), 1))),
            ("mcpServers", Some((json!({"a.b": {"command": "x"}}), 1))),
            ("permissions.deny", None),
            ("permissions.mod", None),
            ("hooks", None),
        ] {
            let found = settings.value(key).map(|(value, sources)| (value, sources.len()));
            assert_eq!(found, expected, "{key}");
        }
    }
}
