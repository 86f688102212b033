//! Keeps secret values out of what leaves a call, and asks before a call sends one out.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::Value;
use zero_core::event::EffectOrigin;
use zero_core::{Effect, ErrorReason, RiskLevel, SecretMask, ToolError};
use zero_policy::{CommandAccess, SecretFileScope, SentFile, SentName, WriteScope};
use zero_sandbox::{FileType, path_survey};

use crate::policy::{EffectDecision, GrantScope, Policy, PolicyDecision, Verdict};
use crate::redaction::WorkspaceSecrets;

/// Most secret files that are hidden from a command. Each needs a mount of its own.
const HIDDEN_FILES_MAX: usize = 100;

/// Most files that a call may send without a question. Each is searched for secret values.
const SENT_FILES_MAX: usize = 64;
/// How much of a file that is sent is searched, at its beginning and at its end.
const SENT_BYTES_MAX: u64 = 1 << 20;

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
        sent: &[SentSecret],
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
        let carried = carried.iter().map(|name| {
            let reason = format!("it sends the value of the secret `{name}`; zero asks every time");
            (name.clone(), reason)
        });
        let sent = sent.iter().map(|secret| (secret.target.clone(), secret.reason.clone()));
        for (target, reason) in carried.chain(sent) {
            decision.risk = RiskLevel::Critical;
            decision.effects.push(EffectDecision {
                kind: "secret",
                target,
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

/// What commands may send to other machines.
#[derive(Default)]
struct SentItems {
    files: BTreeSet<SentFile>,
    /// Names of files.
    names: BTreeSet<SentName>,
}

/// Something secret that a command may send to another machine.
#[derive(Debug)]
pub(crate) struct SentSecret {
    /// The file.
    target: String,
    reason: String,
}

impl SentSecret {
    fn new(target: &str, what: &str) -> Self {
        let reason = format!("it may send {what}; zero asks every time");
        Self { target: target.to_owned(), reason }
    }
}

impl WorkspaceSecrets {
    /// The secrets in files that the commands of a call may send.
    pub(crate) async fn find_sent_secrets(
        self: &Arc<Self>,
        decision: &PolicyDecision,
    ) -> Vec<SentSecret> {
        let sent = self.list_sent_items(decision);
        if sent.files.is_empty() && sent.names.is_empty() {
            return Vec::new();
        }
        let own = Arc::clone(self);
        let searched = tokio::task::spawn_blocking(move || own.search_sent_items(sent)).await;
        searched.unwrap_or_else(|_| vec![SentSecret::new("files", "files that zero cannot search")])
    }

    /// The names of the secrets that a call carries out, with those that only the shell puts together.
    pub(crate) fn find_carried(
        &self,
        carried: &[String],
        decision: &PolicyDecision,
    ) -> Vec<String> {
        let mut carried = carried.to_owned();
        let mask = self.last_mask();
        let words = decision.access.iter().flat_map(|access| &access.expanded);
        for name in words.flat_map(|word| mask.find_names_in_bytes(word.as_bytes())) {
            if !carried.iter().any(|known| known == name) {
                carried.push(name.to_owned());
            }
        }
        carried
    }

    /// A simulated decision with what a real call adds because of secrets: blocks, and keeps nothing.
    pub fn judge_simulation(
        &self,
        decision: PolicyDecision,
        input: &Value,
        effects: &[Effect],
    ) -> PolicyDecision {
        let carried = InputSecrets::find(&self.refresh(), input).carried_out(effects);
        let carried = self.find_carried(&carried, &decision);
        let sent = self.search_sent_items(self.list_sent_items(&decision));
        let decision = self.tighten(decision, &carried, &sent);
        mask_decision(&self.last_mask(), &decision)
    }

    /// What commands may send, without folders whose secret files are hidden from them.
    fn list_sent_items(&self, decision: &PolicyDecision) -> SentItems {
        let Some(access) = decision.access.as_ref().filter(|_| !self.is_disabled()) else {
            return SentItems::default();
        };
        let is_hidden =
            decision.verdict == Verdict::Allow && access.secret_files != SecretFileScope::All;
        let listed = access.sent.iter().filter(|file| !(file.recursive && is_hidden)).cloned();
        SentItems { files: listed.collect(), names: access.sent_names.clone() }
    }

    /// The secrets in what commands may send: blocks.
    fn search_sent_items(&self, sent: SentItems) -> Vec<SentSecret> {
        let SentItems { mut files, names } = sent;
        files.extend(self.list_named_files(&names));
        self.search_sent_files(&files)
    }

    /// The known secret files with one of these names: waits for a search of the workspace that runs.
    fn list_named_files(&self, names: &BTreeSet<SentName>) -> Vec<SentFile> {
        if names.is_empty() {
            return Vec::new();
        }
        let mut files = self.secret_files_beneath(Path::new("/"));
        files.retain(|path| names.iter().any(|name| name.matches(path)));
        files.into_iter().map(|path| SentFile { path, recursive: false }).collect()
    }

    /// The secrets in these files, and in secret files beneath these folders: blocks.
    fn search_sent_files(&self, sent: &BTreeSet<SentFile>) -> Vec<SentSecret> {
        let resolve = |file: &SentFile| {
            let path = path_survey::canonicalize(&file.path)?;
            Some(SentFile { path, recursive: file.recursive })
        };
        let files: BTreeSet<SentFile> = sent.iter().filter_map(resolve).collect();
        if files.len() > SENT_FILES_MAX {
            let what = format!("{} files, which are too many to search for secrets", files.len());
            return vec![SentSecret::new("files", &what)];
        }
        // A file may be named twice, and be in a folder that is sent as a whole.
        let mut searched = BTreeSet::new();
        for SentFile { path, recursive } in files {
            match path_survey::file_type(&path) {
                Some(FileType::File) => searched.extend([path]),
                Some(FileType::Directory) if recursive => {
                    searched.extend(self.secret_files_beneath(&path));
                }
                _ => {}
            }
        }
        searched.iter().filter_map(|path| self.find_sent_secret(path)).collect()
    }

    fn find_sent_secret(&self, path: &Path) -> Option<SentSecret> {
        let shown = path.display().to_string();
        let is_known = !self.is_secret_file(path) || self.learn_file(path);
        let ends = path_survey::read_file_ends(path, SENT_BYTES_MAX)?;
        let mask = self.last_mask();
        let names = [Some(ends.head), ends.tail].into_iter().flatten();
        let name = names.flat_map(|bytes| mask.find_names_in_bytes(&bytes)).next();
        match name {
            Some(name) => {
                let what = format!("`{shown}`, which contains the secret `{name}`");
                Some(SentSecret::new(&shown, &what))
            }
            None if !is_known => {
                Some(SentSecret::new(&shown, &format!("the secret file `{shown}`")))
            }
            None => None,
        }
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
