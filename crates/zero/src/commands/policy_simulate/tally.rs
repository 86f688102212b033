//! Counts the results of a simulation in bounded memory.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use zero_core::text_shortening::shorten_end;
use zero_policy::{PolicyDecision, Verdict};
use zero_runtime::audit::AuditRow;

use super::replay::ReplayFailure;

/// Distinct kinds counted per list; further ones are counted together.
const KINDS_MAX: usize = 1_000;
/// Largest number of suggested rules.
const SUGGESTIONS_MAX: usize = 20;
/// Longest title of a call, in characters.
const TEXT_CHARS_MAX: usize = 300;

/// Counts of a simulation.
#[derive(Debug, Default)]
pub(super) struct SimulationTally {
    then: [u64; 3],
    now: [u64; 3],
    changes: KindCounts<DecisionChange>,
    offers: KindCounts<Vec<String>>,
    lost: BTreeMap<ReplayFailure, u64>,
    never_judged: u64,
}

/// A group of equal calls whose decision would change.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct DecisionChange {
    pub(super) then: Verdict,
    pub(super) now: Verdict,
    pub(super) tool: String,
    pub(super) title: String,
    pub(super) reason: String,
}

impl SimulationTally {
    pub(super) fn add_decision(
        &mut self,
        row: &AuditRow,
        then: Verdict,
        decision: &PolicyDecision,
    ) {
        increment(&mut self.then, then);
        increment(&mut self.now, decision.verdict);
        if then != decision.verdict {
            self.changes.add(DecisionChange {
                then,
                now: decision.verdict,
                tool: row.tool.clone(),
                title: shorten_end(row.title.as_deref().unwrap_or(&row.tool), TEXT_CHARS_MAX),
                reason: shorten_end(&decision.reason, TEXT_CHARS_MAX),
            });
        }
        if decision.verdict == Verdict::Ask && !decision.grants.is_empty() {
            let mut rules: Vec<String> =
                decision.grants.iter().map(|grant| grant.rule.clone()).collect();
            rules.sort();
            rules.dedup();
            self.offers.add(rules);
        }
    }

    pub(super) fn add_failure(&mut self, lost: ReplayFailure) {
        *self.lost.entry(lost).or_default() += 1;
    }

    pub(super) fn add_not_evaluated(&mut self) {
        self.never_judged += 1;
    }

    /// Whether no call was counted.
    pub(super) fn is_empty(&self) -> bool {
        self.call_count() == 0 && self.never_judged == 0 && self.lost.is_empty()
    }

    /// Calls that were evaluated again.
    pub(super) fn call_count(&self) -> u64 {
        self.now.iter().sum()
    }

    /// Calls recorded with this verdict.
    pub(super) fn count_before(&self, verdict: Verdict) -> u64 {
        self.then.get(verdict as usize).copied().unwrap_or_default()
    }

    /// Calls that would get this verdict.
    pub(super) fn count_after(&self, verdict: Verdict) -> u64 {
        self.now.get(verdict as usize).copied().unwrap_or_default()
    }

    /// Changed decisions, the most frequent first.
    pub(super) fn changes(&self) -> Vec<(&DecisionChange, u64)> {
        self.changes.sorted_by_count()
    }

    /// Calls with changed decisions beyond [`KINDS_MAX`] kinds.
    pub(super) fn changes_left_out(&self) -> u64 {
        self.changes.left_out
    }

    /// Sets of allow rules that would have avoided prompts, the most effective first.
    pub(super) fn suggested_rules(&self) -> Vec<(&Vec<String>, u64)> {
        self.offers.sorted_by_count()
    }

    /// Prompts that further rules would have avoided.
    pub(super) fn suggested_rules_left_out(&self) -> u64 {
        self.offers.left_out
    }

    /// Describes the calls that could not be evaluated; `None` if all could.
    pub(super) fn describe_failures(&self) -> Option<String> {
        let parts: Vec<String> = self
            .lost
            .iter()
            .map(|(lost, count)| format!("{count} {}", lost.description()))
            .collect();
        (!parts.is_empty()).then(|| parts.join(", "))
    }

    /// All counts as JSON, with stable field names.
    pub(super) fn to_json(&self) -> Value {
        let verdicts = |counts: &dyn Fn(Verdict) -> u64| -> Map<String, Value> {
            Verdict::ALL
                .map(|verdict| (verdict.as_str().to_owned(), counts(verdict).into()))
                .into_iter()
                .collect()
        };
        let change = |(change, count): &(&DecisionChange, u64)| {
            let DecisionChange { then, now, tool, title, reason } = change;
            json!({
                "calls": count,
                "then": then.as_str(),
                "now": now.as_str(),
                "tool": tool,
                "title": title,
                "reason": reason,
            })
        };
        let offer = |(rules, count): &(&Vec<String>, u64)| json!({"rules": rules, "questions_saved": count});
        let lost: Map<String, Value> = self
            .lost
            .iter()
            .map(|(lost, count)| (lost.as_str().to_owned(), (*count).into()))
            .collect();
        json!({
            "calls": self.call_count(),
            "then": verdicts(&|verdict| self.count_before(verdict)),
            "now": verdicts(&|verdict| self.count_after(verdict)),
            "changes": self.changes().iter().map(change).collect::<Vec<_>>(),
            "changes_left_out": self.changes_left_out(),
            "suggested_rules": self.suggested_rules().iter().take(SUGGESTIONS_MAX).map(offer).collect::<Vec<_>>(),
            "cannot_be_replayed": lost,
            "never_judged": self.never_judged,
        })
    }
}

fn increment(counts: &mut [u64; 3], verdict: Verdict) {
    if let Some(count) = counts.get_mut(verdict as usize) {
        *count += 1;
    }
}

/// Bounded counter by kind.
#[derive(Debug)]
struct KindCounts<K> {
    counts: BTreeMap<K, u64>,
    /// Occurrences after [`KINDS_MAX`] kinds were reached.
    left_out: u64,
}

impl<K> Default for KindCounts<K> {
    fn default() -> Self {
        Self { counts: BTreeMap::new(), left_out: 0 }
    }
}

impl<K: Ord> KindCounts<K> {
    fn add(&mut self, kind: K) {
        let room = self.counts.len() < KINDS_MAX;
        match self.counts.get_mut(&kind) {
            Some(count) => *count += 1,
            None if room => {
                self.counts.insert(kind, 1);
            }
            None => self.left_out += 1,
        }
    }

    fn sorted_by_count(&self) -> Vec<(&K, u64)> {
        let mut kinds: Vec<(&K, u64)> =
            self.counts.iter().map(|(kind, count)| (kind, *count)).collect();
        kinds.sort_by_key(|(kind, count)| (Reverse(*count), *kind));
        kinds
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kind_counts_are_bounded_and_report_remainder() {
        let mut kinds = KindCounts::default();
        for kind in 0..KINDS_MAX + 10 {
            kinds.add(kind);
        }
        kinds.add(3);
        kinds.add(3);
        assert_eq!(kinds.sorted_by_count()[..2], [(&3, 3), (&0, 1)]);
        assert_eq!((kinds.counts.len(), kinds.left_out), (KINDS_MAX, 10));
    }
}
