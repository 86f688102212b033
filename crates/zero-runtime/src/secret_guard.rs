//! Keeps secret values out of what leaves a call, and asks before a call sends one out.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::Value;
use zero_core::event::EffectOrigin;
use zero_core::{Effect, ErrorReason, RiskLevel, SecretMask, ToolError};
use zero_policy::{CommandAccess, SecretFileScope, WriteScope};

use crate::policy::{EffectDecision, GrantScope, Policy, PolicyDecision, Verdict};
use crate::redaction::WorkspaceSecrets;

/// Most secret files that are hidden from a command. Each needs a mount of its own.
const HIDDEN_FILES_MAX: usize = 100;

/// The secrets in the input of a call.
pub(crate) struct InputSecrets {
    /// Names of the secrets whose values it contains.
    values: Vec<String>,
    /// The name in a placeholder that it contains.
    placeholder: Option<String>,
}

impl InputSecrets {
    pub(crate) fn find(secrets: &SecretMask, input: &Value) -> Self {
        let values = secrets.find_names(input).into_iter().map(str::to_owned).collect();
        let placeholder = secrets.find_placeholder(input).map(str::to_owned);
        Self { values, placeholder }
    }

    /// The names of the secrets whose values a call with these effects would send to a program, a
    /// host or a server.
    pub(crate) fn carried_out(self, effects: &[Effect]) -> Vec<String> {
        let leaves = |effect: &Effect| {
            matches!(
                effect,
                Effect::Exec(_)
                    | Effect::Net(_)
                    | Effect::Mcp { .. }
                    | Effect::Endpoint(_)
                    | Effect::Note(_)
            )
        };
        if effects.iter().any(leaves) { self.values } else { Vec::new() }
    }

    /// Refuses a placeholder. A file would lose its value, and a command would not get it.
    pub(crate) fn refuse_placeholder(&self, effects: &[Effect]) -> Result<(), ToolError> {
        let only_looks = |effect: &Effect| matches!(effect, Effect::Read(_) | Effect::Ask);
        match &self.placeholder {
            Some(name) if !effects.iter().all(only_looks) => {
                let message = format!(
                    "the input contains `‹secret {name}›`, which stands for a value that zero does not show; the file has the value itself. To change the file, leave the value out of the text to find and of the new text. To use the value in a command, refer to the variable, or let the command read the file"
                );
                let error = ToolError::invalid(ErrorReason::NoMatch, message);
                Err(error.with_detail("secret", name.as_str()))
            }
            _ => Ok(()),
        }
    }
}

impl WorkspaceSecrets {
    /// A decision that asks if values of secrets would leave in the call, or if a file is read whose
    /// values are not known and would not be masked. Learns the values of the secret files that the call
    /// reads or changes.
    pub(crate) fn tighten(
        &self,
        mut decision: PolicyDecision,
        carried: &[String],
    ) -> PolicyDecision {
        let mut reasons = Vec::new();
        for effect in &mut decision.effects {
            let path = Path::new(&effect.target);
            let is_about_file = matches!(effect.kind, "read" | "write" | "delete");
            if !is_about_file || !self.is_secret_file(path) || self.learn_file(path) {
                continue;
            }
            if effect.kind == "read" && effect.decision == Verdict::Allow && effect.rule.is_none() {
                effect.decision = Verdict::Ask;
                effect.reason = "it contains secrets that zero cannot mask".to_owned();
                reasons.push(format!("reading `{}`: {}", effect.target, effect.reason));
            }
        }
        for name in carried {
            let reason = format!("it sends the value of the secret `{name}`; zero asks every time");
            decision.risk = RiskLevel::Critical;
            decision.effects.push(EffectDecision {
                kind: "secret",
                target: name.clone(),
                decision: Verdict::Ask,
                rule: None,
                source: Some("default".to_owned()),
                reason: reason.clone(),
                origin: EffectOrigin::Call,
            });
            reasons.push(reason);
        }
        if !reasons.is_empty() && decision.verdict != Verdict::Deny {
            if decision.verdict == Verdict::Ask {
                reasons.push(decision.reason);
            }
            decision.verdict = Verdict::Ask;
            decision.reason = reasons.join("; ");
            (decision.rule, decision.source) = (None, None);
            decision.grants.clear();
        }
        decision
    }
}

impl WorkspaceSecrets {
    /// The secret files that are hidden from the commands of a call that the user is not asked about.
    /// If not all of them can be, and the commands may read any file, the decision becomes a question.
    pub(crate) async fn hide_files(
        self: &Arc<Self>,
        mut decision: PolicyDecision,
        policy: &dyn Policy,
        grants: &[GrantScope],
    ) -> (PolicyDecision, Vec<PathBuf>) {
        let is_allowed = decision.verdict == Verdict::Allow;
        let Some(access) = decision
            .access
            .as_ref()
            .filter(|access| is_allowed && access.secret_files != SecretFileScope::All)
        else {
            return (decision, Vec::new());
        };
        let reads_any = access.secret_files == SecretFileScope::Hidden;
        let found = self.list_private_files(reads_any).await;
        let mut files = found.paths;
        files.retain(|path| !is_named(access, path) && !policy.allows_read(path, grants));
        let problem = match files.len() > HIDDEN_FILES_MAX {
            true => {
                Some(format!("there are more than {HIDDEN_FILES_MAX} secret files to hide from it"))
            }
            false if !found.is_complete => Some(
                "the workspace is too large to find all secret files and hide them from it"
                    .to_owned(),
            ),
            false => None,
        };
        files.truncate(HIDDEN_FILES_MAX);
        if let Some(problem) = problem.filter(|_| reads_any) {
            let reason = format!("it may read secret files without naming them: {problem}");
            decision.effects.push(EffectDecision {
                kind: "secret",
                target: "secret files".to_owned(),
                decision: Verdict::Ask,
                rule: None,
                source: Some("default".to_owned()),
                reason: reason.clone(),
                origin: EffectOrigin::Call,
            });
            (decision.verdict, decision.reason) = (Verdict::Ask, reason);
            (decision.rule, decision.source) = (None, None);
            decision.grants.clear();
            files.clear();
        }
        (decision, files)
    }
}

/// Whether commands were judged to use a file by its name.
fn is_named(access: &CommandAccess, path: &Path) -> bool {
    let is_changed = match &access.writes {
        WriteScope::Paths(paths) => paths.contains(path),
        WriteScope::Nothing | WriteScope::Workspace => false,
    };
    access.reads.contains(path) || is_changed && access.secret_files == SecretFileScope::Named
}

/// A decision without secret values, for people and records.
pub(crate) fn mask_decision(secrets: &SecretMask, decision: &PolicyDecision) -> PolicyDecision {
    let mut decision = decision.clone();
    secrets.mask_string(&mut decision.reason);
    for effect in &mut decision.effects {
        secrets.mask_string(&mut effect.target);
        secrets.mask_string(&mut effect.reason);
    }
    decision
}
