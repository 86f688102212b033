//! Merges settings: a later file overrides an earlier one, lists are joined, and an untrusted
//! folder can only make zero stricter.

use serde_json::Value;
use zero_core::HostLimits;
use zero_policy::PermissionMode;

use crate::parsed_setting::ParsedSetting;
use crate::{SettingsEntry, SettingsEntryState, files, hooks, sandbox, secrets};

/// Selects the limits of commands that nothing sets by name.
const PROFILE_KEY: &str = "limits.profile";

/// The entries so far, and the resulting settings.
#[derive(Debug)]
pub(crate) struct SettingsMerger {
    pub(crate) entries: Vec<SettingsEntry>,
    mode: Option<PermissionMode>,
    limits: HostLimits,
}

impl SettingsMerger {
    /// No entries yet. `limits` are those that apply without any settings.
    pub(crate) fn new(limits: HostLimits) -> Self {
        Self { entries: Vec::new(), mode: None, limits }
    }

    /// Adds an entry and determines whether it applies.
    pub(crate) fn add(&mut self, mut entry: SettingsEntry, trusted: bool) {
        entry.state = match entry.key.as_str() {
            "permissions.ask" if !trusted && raises_limits(&entry.value) => {
                // The rule itself applies; the limits that it raises wait for trust.
                self.entries.push(without_limits(&entry));
                SettingsEntryState::SetAside
            }
            "permissions.ask" | "permissions.deny" | "sandbox.masked" | secrets::FILES_KEY => {
                SettingsEntryState::Active
            }
            "permissions.allow" if trusted => SettingsEntryState::Active,
            "permissions.mode" if trusted || self.tightens_mode(&entry) => {
                self.mode = entry.mode();
                self.override_earlier(&entry.key);
                SettingsEntryState::Active
            }
            // A project may have its commands limited more than the user does, but never less.
            PROFILE_KEY if entry.layer.is_in_workspace() && !self.tightens_limit(&entry) => {
                SettingsEntryState::OnlyYours
            }
            key if key.starts_with("limits.") && (trusted || self.tightens_limit(&entry)) => {
                if let ParsedSetting::Limit(change) = &entry.parsed {
                    self.limits.apply(change);
                }
                self.override_earlier(&entry.key);
                SettingsEntryState::Active
            }
            // A project may not decide where prompts are sent, who may send them, what happens to
            // them, or which of the user's other files commands read.
            key if is_user_only(key) && entry.layer.is_in_workspace() => {
                SettingsEntryState::OnlyYours
            }
            key if trusted && is_extensible_list(key) => SettingsEntryState::Active,
            // What any file forbids stays forbidden.
            sandbox::OUTSIDE_KEY if entry.value == sandbox::OUTSIDE_NEVER => {
                self.override_earlier(&entry.key);
                SettingsEntryState::Active
            }
            sandbox::OUTSIDE_KEY if entry.layer.is_in_workspace() => SettingsEntryState::OnlyYours,
            sandbox::OUTSIDE_KEY => SettingsEntryState::Active,
            "bash.on-timeout" if trusted || entry.value == "kill" => {
                self.override_earlier(&entry.key);
                SettingsEntryState::Active
            }
            "bash.on-timeout" => SettingsEntryState::SetAside,
            secrets::EXCEPT_KEY => SettingsEntryState::Active,
            key if trusted && is_atomic(key) => {
                self.override_earlier(&entry.key);
                SettingsEntryState::Active
            }
            key if trusted && !key.starts_with("permissions.") && !key.starts_with("limits.") => {
                SettingsEntryState::NotUsed
            }
            _ => SettingsEntryState::SetAside,
        };
        self.entries.push(entry);
    }

    /// Whether a mode allows nothing new. The freer modes differ in kind, not only in degree, so
    /// none of them counts as stricter than another.
    fn tightens_mode(&self, entry: &SettingsEntry) -> bool {
        match entry.mode() {
            Some(PermissionMode::Plan) => true,
            Some(PermissionMode::Ask) => self.mode != Some(PermissionMode::Plan),
            Some(PermissionMode::AcceptEdits | PermissionMode::Auto) | None => false,
        }
    }

    fn tightens_limit(&self, entry: &SettingsEntry) -> bool {
        let ParsedSetting::Limit(change) = &entry.parsed else { return false };
        let mut changed = self.limits.clone();
        changed.apply(change);
        is_within_limits(&changed, &self.limits)
    }

    fn override_earlier(&mut self, key: &str) {
        for entry in self.entries.iter_mut().filter(|entry| entry.key == key) {
            if entry.state == SettingsEntryState::Active {
                entry.state = SettingsEntryState::Overridden;
            }
        }
    }
}

/// Whether a key is a list that every trusted file extends.
fn is_extensible_list(key: &str) -> bool {
    sandbox::LISTS.contains(&key) || hooks::LISTS.contains(&key)
}

/// Whose settings a section applies in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SectionOwner {
    /// The user's own only.
    User,
    /// Also a trusted project's.
    Project,
}

/// The sections whose keys are single units that the last file replaces as a whole: a server, a command,
/// a model, an agent, a gateway setting.
const ATOMIC_SECTIONS: [(&str, SectionOwner); 17] = [
    ("mcpServers.", SectionOwner::Project),
    ("mcp.", SectionOwner::Project),
    ("lspServers.", SectionOwner::Project),
    ("tools.", SectionOwner::Project),
    ("models.", SectionOwner::Project),
    ("agents.", SectionOwner::Project),
    ("gateway.", SectionOwner::User),
    ("acp.", SectionOwner::User),
    ("web.", SectionOwner::User),
    ("network.", SectionOwner::User),
    ("retention.", SectionOwner::User),
    ("budgets.", SectionOwner::User),
    ("undo.", SectionOwner::User),
    ("notify.", SectionOwner::User),
    ("chat.", SectionOwner::User),
    ("subagents.", SectionOwner::User),
    ("update.", SectionOwner::User),
];

fn find_section_owner(key: &str) -> Option<SectionOwner> {
    let mut sections = ATOMIC_SECTIONS.into_iter();
    sections.find_map(|(section, owner)| key.starts_with(section).then_some(owner))
}

/// Whether a key applies only in the user's own settings.
fn is_user_only(key: &str) -> bool {
    let secrets = [secrets::MASK_KEY, secrets::REMEMBER_KEY, secrets::EXCEPT_KEY];
    key == "sandbox.readable"
        || secrets.contains(&key)
        || find_section_owner(key) == Some(SectionOwner::User)
}

/// Whether a key is a single unit that the last file replaces as a whole.
fn is_atomic(key: &str) -> bool {
    matches!(key, "model" | "agent" | secrets::MASK_KEY | secrets::REMEMBER_KEY | files::BACKUP_KEY)
        || find_section_owner(key).is_some()
}

/// Whether no limit of `changed` is larger than in `usual`. Names all fields, so that a new one
/// cannot be forgotten here.
fn is_within_limits(changed: &HostLimits, usual: &HostLimits) -> bool {
    let HostLimits {
        file_timeout,
        search_timeout,
        command_timeout,
        development_timeout,
        mcp_timeout,
        connection_question_timeout,
        stop_grace,
        model_output_bytes_max,
        result_bytes_max,
        file_bytes_max,
        input_bytes_max,
        session_calls_max,
        host_calls_max,
        queue_calls_max,
        attempts_max,
        breaker_failures_max,
        breaker_pause,
        machine: _,
        profile: _,
        command: _,
        tool_commands,
    } = changed;
    let mut tools = tool_commands.keys().chain(usual.tool_commands.keys());
    *file_timeout <= usual.file_timeout
        && *search_timeout <= usual.search_timeout
        && *command_timeout <= usual.command_timeout
        && *development_timeout <= usual.development_timeout
        && *mcp_timeout <= usual.mcp_timeout
        && *connection_question_timeout <= usual.connection_question_timeout
        && *stop_grace <= usual.stop_grace
        && *model_output_bytes_max <= usual.model_output_bytes_max
        && *result_bytes_max <= usual.result_bytes_max
        && *file_bytes_max <= usual.file_bytes_max
        && *input_bytes_max <= usual.input_bytes_max
        && *session_calls_max <= usual.session_calls_max
        && *host_calls_max <= usual.host_calls_max
        && *queue_calls_max <= usual.queue_calls_max
        && *attempts_max <= usual.attempts_max
        && *breaker_failures_max <= usual.breaker_failures_max
        && *breaker_pause <= usual.breaker_pause
        && changed.command_limits().is_within(&usual.command_limits())
        && tools
            .all(|tool| changed.command_limits_for(tool).is_within(&usual.command_limits_for(tool)))
}

/// Whether a rule has limits.
fn raises_limits(rule: &Value) -> bool {
    rule.get("limits").is_some()
}

fn without_limits(entry: &SettingsEntry) -> SettingsEntry {
    let mut entry = entry.clone();
    if let Some(fields) = entry.value.as_object_mut() {
        fields.shift_remove("limits");
    }
    if let ParsedSetting::Rule(rule) = &mut entry.parsed {
        **rule = rule.without_limits();
    }
    entry
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::trust::TrustState;
    use crate::workspace_settings::tests::{USER_SETTINGS, parse_layers};
    use crate::{SettingsLayerKind, WorkspaceSettings};

    const MACHINE: zero_core::MachineResources = zero_core::MachineResources {
        memory: zero_core::ByteSize::megabytes(16_000),
        processors: 4,
    };

    /// Checks the state of each entry, one line per entry.
    #[track_caller]
    fn check(files: &[(SettingsLayerKind, &str)], trust_state: TrustState, expected: &[&str]) {
        let settings = WorkspaceSettings::merge(&parse_layers(files), trust_state);
        let shown: Vec<String> = settings
            .entries()
            .iter()
            .map(|entry| {
                let SettingsEntry { layer, key, value, state, line, .. } = entry;
                format!("{}:{line} {key} {value} {state:?}", layer.as_str())
            })
            .collect();
        assert_eq!(shown, expected);
    }

    #[test]
    fn later_files_win_and_rules_add_up() {
        let project = "{\"permissions\": {\"allow\": [\n\"Grep\"], \"mode\": \"auto\"},\n\"limits\": {\"file-timeout\": \"40s\"}, \"hooks\": {\"PreToolUse\": [{\"command\": \"x\"}]}}";
        let trusted = TrustState::assumed();
        check(
            &[(SettingsLayerKind::User, USER_SETTINGS), (SettingsLayerKind::Project, project)],
            trusted,
            &[
                "user:1 permissions.allow \"Read\" Active",
                "user:1 permissions.mode \"accept-edits\" Overridden",
                "user:1 limits.file-timeout \"20s\" Overridden",
                "project:2 permissions.allow \"Grep\" Active",
                "project:2 permissions.mode \"auto\" Active",
                "project:3 limits.file-timeout \"40s\" Active",
                "project:3 hooks.PreToolUse {\"command\":\"x\"} Active",
            ],
        );
    }

    #[test]
    fn untrusted_folder_can_only_tighten() {
        for (mode, state) in [
            ("plan", "Active"),
            ("ask", "Active"),
            ("accept-edits", "SetAside"),
            ("auto", "SetAside"),
        ] {
            let project = format!(r#"{{"permissions": {{"mode": "{mode}"}}}}"#);
            let user = r#"{"permissions": {"mode": "auto"}}"#;
            let settings = WorkspaceSettings::merge(
                &parse_layers(&[
                    (SettingsLayerKind::User, user),
                    (SettingsLayerKind::Project, &project),
                ]),
                TrustState::Never,
            );
            assert_eq!(format!("{:?}", settings.entries()[1].state), state, "{mode}");
            let expected = if state == "Active" { mode } else { "auto" };
            assert_eq!(json!(settings.mode()), json!(expected));
        }
        let local = r#"{"permissions": {"mode": "ask", "allow": ["Bash"], "ask": ["Edit"], "deny": ["Write"]},
            "limits": {"file-timeout": "10s", "search-timeout": "2h", "session-calls": 2, "result": "1kb"},
            "mcpServers": {"a": {}}, "mcp": {"toolSchemaBudget": 1}, "tools": {"toolCallCommand": "c"}, "hooks": {"PostToolUse": [{"command": "d"}]}}"#;
        check(
            &[
                (SettingsLayerKind::Project, r#"{"permissions": {"mode": "plan"}}"#),
                (SettingsLayerKind::Local, local),
            ],
            TrustState::Never,
            &[
                "project:1 permissions.mode \"plan\" Active",
                "local:1 permissions.mode \"ask\" SetAside",
                "local:1 permissions.allow \"Bash\" SetAside",
                "local:1 permissions.ask \"Edit\" Active",
                "local:1 permissions.deny \"Write\" Active",
                "local:2 limits.file-timeout \"10s\" Active",
                "local:2 limits.search-timeout \"2h\" SetAside",
                "local:2 limits.session-calls 2 Active",
                "local:2 limits.result \"1kb\" Active",
                "local:3 mcpServers.a {} SetAside",
                "local:3 mcp.toolSchemaBudget 1 SetAside",
                "local:3 tools.toolCallCommand \"c\" SetAside",
                "local:3 hooks.PostToolUse {\"command\":\"d\"} SetAside",
            ],
        );
    }

    #[test]
    fn every_limit_compares_smaller_and_larger() {
        for name in HostLimits::NAMES {
            let mut usual = HostLimits::for_machine(MACHINE);
            usual.set("profile", "strict").unwrap();
            // Without it, no rate is larger.
            usual.set("command-disk-rate", "10MB/s").unwrap();
            let tried = |value: &str| {
                let mut changed = usual.clone();
                changed.set(name, value).map(|()| is_within_limits(&changed, &usual)).ok()
            };
            let [small, large] = match *name {
                name if name.ends_with("timeout") => [tried("1ms"), tried("900h")],
                "command-memory" | "command-file" | "command-disk" => {
                    [tried("40mb"), tried("900gb")]
                }
                "command-disk-rate" => [tried("2MB/s"), tried("off")],
                "command-cpu" => [tried("1%"), tried("900%")],
                "command-processes" | "command-open-files" => [tried("40"), tried("9000")],
                "profile" => [tried("strict"), tried("fair")],
                _ => [tried("1"), tried("999999999999")],
            };
            assert_eq!((small, large), (Some(true), Some(false)), "{name}");
        }
    }

    #[test]
    fn project_only_chooses_the_stricter_profile() {
        for trust in [TrustState::Never, TrustState::assumed()] {
            let strict = r#"{"limits": {"profile": "strict"}}"#;
            let fair = r#"{"limits": {"profile": "fair"}}"#;
            check(
                &[(SettingsLayerKind::User, strict), (SettingsLayerKind::Project, fair)],
                trust.clone(),
                &[
                    "user:1 limits.profile \"strict\" Active",
                    "project:1 limits.profile \"fair\" OnlyYours",
                ],
            );
            check(
                &[(SettingsLayerKind::Project, strict), (SettingsLayerKind::Local, fair)],
                trust,
                &[
                    "project:1 limits.profile \"strict\" Active",
                    "local:1 limits.profile \"fair\" OnlyYours",
                ],
            );
        }
    }

    #[test]
    fn trusted_project_may_request_backups() {
        let files = [
            (SettingsLayerKind::User, r#"{"files": {"backup": true}}"#),
            (SettingsLayerKind::Project, r#"{"files": {"backup": false}}"#),
        ];
        check(
            &files,
            TrustState::Never,
            &["user:1 files.backup true Active", "project:1 files.backup false SetAside"],
        );
        check(
            &files,
            TrustState::assumed(),
            &["user:1 files.backup true Overridden", "project:1 files.backup false Active"],
        );
    }

    #[test]
    fn project_adds_secret_files_and_removes_none() {
        let files = [
            (
                SettingsLayerKind::User,
                r#"{"secrets": {"mask": true, "files": ["a"], "except": ["b"]}}"#,
            ),
            (
                SettingsLayerKind::Project,
                r#"{"secrets": {"mask": false, "files": ["c"], "except": ["d"], "remember": false}}"#,
            ),
        ];
        for trust in [TrustState::Never, TrustState::assumed()] {
            check(
                &files,
                trust,
                &[
                    "user:1 secrets.mask true Active",
                    "user:1 secrets.files \"a\" Active",
                    "user:1 secrets.except \"b\" Active",
                    "project:1 secrets.mask false OnlyYours",
                    "project:1 secrets.files \"c\" Active",
                    "project:1 secrets.except \"d\" OnlyYours",
                    "project:1 secrets.remember false OnlyYours",
                ],
            );
        }
    }

    #[test]
    fn project_can_only_forbid_commands_outside_the_sandbox() {
        let text = |value: &str| format!(r#"{{"sandbox": {{"outside": "{value}"}}}}"#);
        let (ask, never) = (text("ask"), text("never"));
        for trust in [TrustState::Never, TrustState::assumed()] {
            check(
                &[(SettingsLayerKind::User, &never), (SettingsLayerKind::Project, &ask)],
                trust.clone(),
                &[
                    "user:1 sandbox.outside \"never\" Active",
                    "project:1 sandbox.outside \"ask\" OnlyYours",
                ],
            );
            check(
                &[(SettingsLayerKind::User, &ask), (SettingsLayerKind::Project, &never)],
                trust,
                &[
                    "user:1 sandbox.outside \"ask\" Overridden",
                    "project:1 sandbox.outside \"never\" Active",
                ],
            );
        }
    }

    #[test]
    fn untrusted_folder_grants_commands_nothing() {
        let user = r#"{"sandbox": {"network": ["a.org"]}, "limits": {"profile": "strict", "Bash": {"command-memory": "1GB"}}}"#;
        let project = r#"{"sandbox": {"network": ["b.org"], "environment": ["X"], "writable": ["/x"], "readable": ["/z"], "masked": ["y"], "weaker": ["network"]},
            "bash": {"on-timeout": "job"}, "limits": {"command-memory": "400MB", "command-cpu": "100%", "Bash": {"command-memory": "900MB", "command-file": "1GB"}},
            "permissions": {"ask": [{"rule": "Bash(make:*)", "limits": {"command-memory": "9GB"}}]}}"#;
        let local =
            r#"{"bash": {"on-timeout": "kill"}, "limits": {"Bash": {"command-memory": "2GB"}}}"#;
        let files = [
            (SettingsLayerKind::User, user),
            (SettingsLayerKind::Project, project),
            (SettingsLayerKind::Local, local),
        ];
        check(
            &files,
            TrustState::Never,
            &[
                "user:1 sandbox.network \"a.org\" Active",
                "user:1 limits.profile \"strict\" Active",
                "user:1 limits.Bash.command-memory \"1GB\" Overridden",
                "project:1 sandbox.network \"b.org\" SetAside",
                "project:1 sandbox.environment \"X\" SetAside",
                "project:1 sandbox.writable \"/x\" SetAside",
                "project:1 sandbox.readable \"/z\" OnlyYours",
                "project:1 sandbox.masked \"y\" Active",
                "project:1 sandbox.weaker \"network\" SetAside",
                "project:2 bash.on-timeout \"job\" SetAside",
                "project:2 limits.command-memory \"400MB\" Active",
                "project:2 limits.command-cpu \"100%\" SetAside",
                "project:2 limits.Bash.command-memory \"900MB\" Active",
                "project:2 limits.Bash.command-file \"1GB\" SetAside",
                "project:3 permissions.ask {\"rule\":\"Bash(make:*)\"} Active",
                "project:3 permissions.ask {\"rule\":\"Bash(make:*)\",\"limits\":{\"command-memory\":\"9GB\"}} SetAside",
                "local:1 bash.on-timeout \"kill\" Active",
                "local:1 limits.Bash.command-memory \"2GB\" SetAside",
            ],
        );
        let trusted = TrustState::assumed();
        let settings = WorkspaceSettings::merge(&parse_layers(&files), trusted);
        assert!(settings.entries().iter().all(|entry| entry.state != SettingsEntryState::SetAside));
        assert_eq!(settings.network_hosts(), ["a.org", "b.org"]);
        let mut limits = HostLimits::default();
        settings.apply_limits(&mut limits);
        let bash = limits.command_limits_for(&zero_core::ToolName::new("Bash").unwrap());
        assert_eq!(bash.memory_max, zero_core::ByteSize::megabytes(2000));
        assert_eq!(bash.file_max, zero_core::ByteSize::megabytes(1000));
        let raised = settings.policy_rules().remove(0).limits;
        assert_eq!(json!(raised), json!({"command-memory": "9 GB"}));
        for (key, expected) in [
            ("limits.Bash", json!({"command-memory": "2GB", "command-file": "1GB"})),
            ("limits.Bash.command-file", json!("1GB")),
            ("sandbox.network", json!(["a.org", "b.org"])),
            ("sandbox.weaker", json!(["network"])),
        ] {
            assert_eq!(settings.value(key).map(|(value, _)| value), Some(expected), "{key}");
        }
    }
}
