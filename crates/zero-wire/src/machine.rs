//! zero's own methods for the machine that a gateway runs on: its audit log, its policy and its
//! health. All need the scope `operator.admin`, since they are about the sessions of every owner.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::methods;

methods! {
    /// Lists rows of the audit log, newest first.
    ZeroAuditList "zero.audit.list" Admin AuditListParams => AuditListResult;
    /// Returns everything that the audit log has about one call.
    ZeroAuditShow "zero.audit.show" Admin AuditShowParams => AuditRecordInfo;
    /// Checks the hash chain of the audit log.
    ZeroAuditVerify "zero.audit.verify" Admin AuditVerifyParams => AuditVerifyResult;
    /// Judges a call without running it, and explains the verdict.
    ZeroPolicyExplain "zero.policy.explain" Admin PolicyExplainParams => PolicyExplainResult;
    /// Returns the permission rules of the user's settings file.
    ZeroPolicyRules "zero.policy.rules" Admin PolicyRulesParams => PolicyRulesResult;
    /// Judges the recorded calls again under draft rules.
    ZeroPolicySimulate "zero.policy.simulate" Admin PolicySimulateParams => PolicySimulateResult;
    /// Writes draft rules to the user's settings file, or shows what that would change.
    ZeroPolicySave "zero.policy.save" Admin PolicySaveParams => PolicySaveResult;
    /// Runs the checks of `zero doctor`.
    ZeroMachineDoctor "zero.machine.doctor" Admin MachineDoctorParams => MachineDoctorResult;
}

/// Parameters of `zero.audit.list`. Every filter that is given has to match.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct AuditListParams {
    /// Maximum number of rows; 100 if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1000))]
    pub limit: Option<u32>,
    /// Only rows before this number in the chain, for the next page.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before: Option<u64>,
    /// Only rows at this time or later, in milliseconds since 1970.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since_ms: Option<i64>,
    /// Only rows before this time, in milliseconds since 1970.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until_ms: Option<i64>,
    /// Only calls of this tool.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256))]
    pub tool: Option<String>,
    /// Only calls with this verdict: `allow`, `ask` or `deny`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 16))]
    pub verdict: Option<String>,
    /// Only calls that ended so: `ok`, `error`, `denied`, `cancelled`, `timeout`, …
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32))]
    pub status: Option<String>,
    /// Only calls that were decided by a rule with this text in it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub rule: Option<String>,
    /// Only calls with an effect on a host with this text in its name.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub host: Option<String>,
    /// Only calls with an effect on a path with this text in it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 4096))]
    pub path: Option<String>,
    /// Only calls of the session with this id.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256))]
    pub session: Option<String>,
    /// Only calls with this text in their title or command.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub text: Option<String>,
}

/// Rows of the audit log.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AuditListResult {
    /// The rows of this page, newest first. The row of the end of a call takes the place of that of
    /// its begin.
    pub rows: Vec<AuditRowInfo>,
    /// `before` of the next page; null if this is the last.
    pub next_before: Option<u64>,
    /// Number of lines that are not rows.
    pub damaged_lines: u64,
    /// Day before which nothing was searched, because the search took too long; null if it did not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stopped_at_day: Option<String>,
}

/// One row of the audit log.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AuditRowInfo {
    /// Its number in the chain; null if it is not chained.
    pub seq: Option<u64>,
    /// When the call arrived, in milliseconds since 1970.
    pub time_ms: i64,
    /// Id of the call.
    pub call: String,
    /// Id of its session.
    pub session: Option<String>,
    /// First folder of its workspace.
    pub workspace: String,
    /// Canonical name of the tool.
    pub tool: String,
    /// What the call was to do, in one line.
    pub title: String,
    /// `allow`, `ask` or `deny`; null if the call ended before it was judged.
    pub verdict: Option<String>,
    /// The rule that decided.
    pub rule: Option<String>,
    /// Where the rule is written.
    pub source: Option<String>,
    /// How the call ended; `running` or `unfinished` if it has no end.
    pub status: String,
    /// Duration in microseconds.
    pub duration_us: u64,
}

/// Parameters of `zero.audit.show`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AuditShowParams {
    /// Id of the call, or the number of a row.
    #[schemars(length(min = 1, max = 256))]
    pub call: String,
}

/// A row of the audit log with its place, as `zero audit show --json` prints it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AuditRecordInfo {
    /// File of the log.
    pub file: String,
    /// Line in the file.
    pub line: u64,
    /// Its place in the chain; null if it is not chained.
    pub chain: Option<AuditChainInfo>,
    /// The row, as it is stored.
    pub record: Value,
}

/// The place of a row in the chain.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AuditChainInfo {
    /// Number of the row.
    pub seq: u64,
    /// Hash of the row before.
    pub prev: String,
    /// Hash of this row.
    pub hash: String,
    /// Whether the hash is that of the row's text.
    pub hash_is_right: bool,
}

/// Parameters of `zero.audit.verify`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AuditVerifyParams {}

/// Result of a check of the audit log, as `zero audit verify --json` prints it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AuditVerifyResult {
    /// Whether nothing was changed, removed or added.
    pub intact: bool,
    /// Number of rows.
    pub rows: u64,
    /// Number of days.
    pub days: u64,
    /// The first day that was checked, if older ones were left out because the log is too long.
    pub unread_before: Option<String>,
    /// The newest row.
    pub head: Option<AuditHeadInfo>,
    /// What is wrong.
    pub findings: Vec<AuditFindingInfo>,
    /// Number of findings that are not listed.
    pub findings_left_out: u64,
    /// Calls that run.
    pub running_calls: u64,
}

/// Number and hash of a row.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AuditHeadInfo {
    /// Number of the row.
    pub seq: u64,
    /// Hash of the row.
    pub hash: String,
}

/// Something that is wrong with the audit log.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AuditFindingInfo {
    /// File of the log.
    pub file: String,
    /// Line in the file.
    pub line: Option<u64>,
    /// Stable word.
    pub kind: String,
    /// What is wrong.
    pub message: String,
}

/// Parameters of `zero.policy.explain`: a `command`, or a `tool` with its `input`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct PolicyExplainParams {
    /// Shell command.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 65536))]
    pub command: Option<String>,
    /// Name of a tool.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 256))]
    pub tool: Option<String>,
    /// Arguments of the tool.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input: Option<Map<String, Value>>,
    /// Folder of the call, an absolute path; that of the gateway if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 4096))]
    pub cwd: Option<String>,
    /// Permission mode; that of the settings if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
}

/// A verdict with its reasons, as `zero policy explain --json` prints it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PolicyExplainResult {
    /// `allow`, `ask` or `deny`.
    pub decision: String,
    /// Why.
    pub reason: String,
    /// The rule that decided.
    pub matched_rule: Option<String>,
    /// Where the rule is written.
    pub source: Option<String>,
    /// `low`, `medium`, `high` or `critical`.
    pub risk: String,
    /// What the call would touch.
    pub effects: Vec<Value>,
    /// Rules that a user could allow for a session.
    pub grants: Vec<String>,
    /// What the sandbox would let the command do; null for a call that is denied or is no command.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<Value>,
    /// The parts of the command with their verdicts; empty for a call that is no command.
    #[serde(default)]
    pub tree: Vec<VerdictNodeInfo>,
    /// Hooks that could still deny, ask or change.
    #[serde(default)]
    pub hooks: Vec<String>,
}

/// A part of a command with its verdict.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct VerdictNodeInfo {
    /// The part, as text.
    pub label: String,
    /// `allow`, `ask` or `deny`.
    pub decision: String,
    /// Why.
    pub reason: Option<String>,
    /// The rule that decided.
    pub rule: Option<String>,
    /// Parts of this part.
    pub children: Vec<VerdictNodeInfo>,
}

/// Parameters of `zero.policy.rules`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PolicyRulesParams {}

/// The permission rules of the user's settings file.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PolicyRulesResult {
    /// The file, as it is shown to users.
    pub file: String,
    /// Tells versions of the file apart, for `zero.policy.save`.
    pub version: String,
    /// The rules.
    pub rules: PolicyRuleLists,
}

/// Lists of permission rules. An entry is the text of a rule, or an object with examples.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct PolicyRuleLists {
    /// Rules that allow.
    #[schemars(length(max = 10000))]
    pub allow: Vec<Value>,
    /// Rules that ask.
    #[schemars(length(max = 10000))]
    pub ask: Vec<Value>,
    /// Rules that deny.
    #[schemars(length(max = 10000))]
    pub deny: Vec<Value>,
}

/// Parameters of `zero.policy.simulate`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct PolicySimulateParams {
    /// Draft rules in place of those of the user's settings file, whose rules apply if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rules: Option<PolicyRuleLists>,
    /// Only calls at this time or later, in milliseconds since 1970; those of seven days if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since_ms: Option<i64>,
    /// Permission mode; that of the settings if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
}

/// How recorded calls would be decided, as `zero policy simulate --json` prints it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PolicySimulateResult {
    /// Calls that were judged again.
    pub calls: u64,
    /// How they were decided.
    pub then: VerdictCounts,
    /// How they would be decided.
    pub now: VerdictCounts,
    /// Calls that would be decided differently, the most frequent first.
    pub changes: Vec<DecisionChangeInfo>,
    /// Number of calls with further differences.
    pub changes_left_out: u64,
    /// Rules that would save the most questions.
    pub suggested_rules: Vec<SuggestedRulesInfo>,
    /// Calls that cannot be judged again, by the reason.
    pub cannot_be_replayed: Map<String, Value>,
    /// Calls that ended before they were judged.
    pub never_judged: u64,
    /// Lines of the log that are not rows.
    pub damaged_lines: u64,
    /// Time of the first call that was not judged again, because there were too many or it took too long,
    /// in milliseconds since 1970; null if all were.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stopped_at_ms: Option<i64>,
}

/// Number of calls by verdict.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct VerdictCounts {
    /// Allowed calls.
    pub allow: u64,
    /// Calls that were asked about.
    pub ask: u64,
    /// Denied calls.
    pub deny: u64,
}

/// Equal calls that would be decided differently.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DecisionChangeInfo {
    /// Number of such calls.
    pub calls: u64,
    /// The verdict then.
    pub then: String,
    /// The verdict now.
    pub now: String,
    /// The tool.
    pub tool: String,
    /// What they were to do.
    pub title: String,
    /// Why they would be decided so.
    pub reason: String,
}

/// Rules that would save questions.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SuggestedRulesInfo {
    /// The rules.
    pub rules: Vec<String>,
    /// Number of questions that they would save.
    pub questions_saved: u64,
}

/// Parameters of `zero.policy.save`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PolicySaveParams {
    /// The new rules.
    pub rules: PolicyRuleLists,
    /// `version` of the file that the draft was made of.
    #[schemars(length(min = 1, max = 128))]
    pub version: String,
    /// Whether to write the file; without it, only the difference is returned.
    #[serde(default)]
    pub write: bool,
}

/// Result of `zero.policy.save`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PolicySaveResult {
    /// The file, as it is shown to users.
    pub file: String,
    /// The difference, as a unified diff; empty if there is none.
    pub diff: String,
    /// Whether the file was written.
    pub written: bool,
    /// The version of the file as it is now.
    pub version: String,
}

/// Parameters of `zero.machine.doctor`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct MachineDoctorParams {}

/// Findings of `zero doctor`, as `--json` prints them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MachineDoctorResult {
    /// Whether nothing is wrong.
    pub ok: bool,
    /// The findings.
    pub checks: Vec<DoctorCheckInfo>,
}

/// A finding of `zero doctor`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DoctorCheckInfo {
    /// `ok`, `warning` or `error`.
    pub status: String,
    /// What was checked, such as `sandbox`.
    pub check: String,
    /// What was found.
    pub message: String,
    /// How to mend it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fix: Option<String>,
}
