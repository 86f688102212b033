//! Converts a policy decision to the fields of a row, within bounds.

use std::cmp::Reverse;

use zero_policy::{EffectDecision, PolicyDecision};

use super::{AuditDecision, AuditEffect, AuditRow};
use crate::redaction;

/// Most effects in a row; a command can have any number of them.
pub(crate) const EFFECTS_MAX: usize = 100;
/// Most bytes of all effects in a row.
const EFFECTS_BYTES_MAX: usize = 32 * 1024;

impl AuditRow {
    /// Records a policy decision.
    pub(crate) fn record_decision(&mut self, decision: &PolicyDecision) -> &mut AuditDecision {
        if !decision.effects.is_empty() {
            self.effects = audit_effects(&decision.effects);
        }
        self.decision.insert(AuditDecision {
            verdict: decision.verdict.as_str().to_owned(),
            reason: redaction::redact_and_shorten(&decision.reason),
            rule: decision.rule.as_deref().map(redaction::redact_and_shorten),
            source: decision.source.as_deref().map(redaction::redact_and_shorten),
            risk: Some(decision.risk.as_str().to_owned()),
            answered: None,
            grants: Vec::new(),
        })
    }
}

/// The effects for a row, strictest verdict first, because not all may fit.
fn audit_effects(effects: &[EffectDecision]) -> Vec<AuditEffect> {
    let mut effects: Vec<&EffectDecision> = effects.iter().collect();
    effects.sort_by_key(|effect| Reverse(effect.decision));
    let note = |effect: &EffectDecision| AuditEffect {
        kind: effect.kind.to_owned(),
        target: redaction::redact_and_shorten(&effect.target),
        decision: Some(effect.decision.as_str().to_owned()),
        rule: effect.rule.as_deref().map(redaction::redact_and_shorten),
    };
    let mut bytes = 0;
    let fits = |effect: &AuditEffect| {
        bytes += effect.target.len() + effect.rule.as_ref().map_or(0, String::len);
        bytes <= EFFECTS_BYTES_MAX
    };
    effects.into_iter().take(EFFECTS_MAX).map(note).take_while(fits).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use zero_policy::Verdict;

    fn effect(target: &str, decision: Verdict) -> EffectDecision {
        let (target, reason) = (target.to_owned(), String::new());
        EffectDecision {
            kind: "read",
            target,
            decision,
            rule: None,
            source: None,
            reason,
            origin: zero_core::event::EffectOrigin::Call,
        }
    }

    #[test]
    fn excess_effects_keep_strictest() {
        let mut effects = vec![effect("a", Verdict::Allow), effect("b", Verdict::Allow)];
        effects.extend((0..1_000).map(|_| effect("c", Verdict::Ask)));
        effects.push(effect("d", Verdict::Deny));
        let rows = audit_effects(&effects);
        assert_eq!((rows.len(), rows[0].target.as_str()), (EFFECTS_MAX, "d"));
        let order: Vec<String> =
            audit_effects(&effects[..2]).into_iter().map(|row| row.target).collect();
        assert_eq!(order, ["a", "b"], "equal verdicts keep their order");
        let long: Vec<EffectDecision> =
            (0..EFFECTS_MAX).map(|_| effect(&"/x y".repeat(1_000), Verdict::Ask)).collect();
        let bytes: usize = audit_effects(&long).iter().map(|row| row.target.len()).sum();
        assert!(bytes > EFFECTS_BYTES_MAX / 2 && bytes <= EFFECTS_BYTES_MAX, "{bytes}");
    }
}
