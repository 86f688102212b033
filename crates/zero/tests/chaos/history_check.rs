//! Compares what clients, tool hosts, gateways and the database say.

use std::collections::{BTreeMap, BTreeSet};

use zero_core::event::{Event, EventKind, RunOutcome, ToolCallStatus};

use crate::chaos_report::ChaosReport;
use crate::cluster::Ledgers;
use crate::database_history::DatabaseHistory;
use crate::session_client::ClientHistory;

/// How often a run may move before it ends.
const MOVES_MAX: usize = 3;

/// Returns everything that is not as promised.
pub(crate) fn check_histories(
    histories: &[ClientHistory],
    ledgers: &Ledgers,
    database: &DatabaseHistory,
    report: &mut ChaosReport,
) -> Vec<String> {
    let mut found = database.findings();
    report.claims = database.claims.len();
    for history in histories {
        let mut check = SessionCheck { history, found: &mut found };
        let of_nodes = &ledgers[&history.key];
        let ledger = &of_nodes[0];
        if of_nodes.iter().any(|other| other != ledger) {
            check.find("the gateways do not agree about its ledger");
        }
        check.check_numbers(ledger);
        check.check_shown(ledger);
        check.check_runs(ledger, report);
        check.check_effects(ledger, report);
        found.extend(history.missing.clone());
        report.prompts += history.acknowledged.len();
        report.entries += ledger.len();
        report.shown += history.shown.len();
        for (refusal, count) in &history.refusals {
            *report.refusals.entry(refusal.clone()).or_default() += count;
        }
    }
    found
}

/// What one session is checked for.
struct SessionCheck<'a> {
    history: &'a ClientHistory,
    found: &'a mut Vec<String>,
}

impl SessionCheck<'_> {
    fn find(&mut self, what: impl AsRef<str>) {
        self.found.push(format!("{}: {}", self.history.key, what.as_ref()));
    }

    fn check_numbers(&mut self, ledger: &[Event]) {
        if !ledger.iter().map(|event| event.seq).eq(1..=ledger.len() as u64) {
            self.find("its numbers have a gap");
        }
    }

    /// What was shown is in the ledger, and everything in it was shown.
    fn check_shown(&mut self, ledger: &[Event]) {
        for event in &self.history.shown {
            if ledger.iter().find(|entry| entry.seq == event.seq) != Some(event) {
                self.find(format!("a client was shown {event:?}, which is not in the ledger"));
            }
        }
        let shown = self.history.shown.iter().map(|event| event.seq);
        let first = self.history.shown.first().map_or(1, |event| event.seq);
        if !shown.eq((first..).take(self.history.shown.len())) {
            self.find("its client was shown entries twice or not at all");
        }
    }

    fn check_runs(&mut self, ledger: &[Event], report: &mut ChaosReport) {
        let mut runs: BTreeMap<String, Vec<&Event>> = BTreeMap::new();
        for event in ledger {
            if let Some(run) = &event.run {
                runs.entry(run.to_string()).or_default().push(event);
            }
        }
        for run in &self.history.acknowledged {
            if !runs.contains_key(run) {
                self.find(format!("run {run} was acknowledged and is not in the ledger"));
            }
        }
        for (run, events) in runs {
            let count = |is_it: fn(&EventKind) -> bool| {
                events.iter().filter(|event| is_it(&event.kind)).count()
            };
            let prompts = count(|kind| matches!(kind, EventKind::Prompt { .. }));
            if prompts != 1 {
                self.find(format!("run {run} has {prompts} prompts"));
            }
            let ends = count(|kind| matches!(kind, EventKind::RunEnded { .. }));
            if ends != 1 {
                self.find(format!("run {run} has {ends} ends"));
            }
            let moves = count(
                |kind| matches!(kind, EventKind::Notice { topic, .. } if topic == "takeover"),
            );
            report.moves += moves;
            match events.last().map(|event| &event.kind) {
                Some(EventKind::RunEnded { end: RunOutcome::Completed, .. }) => {
                    report.completed += 1;
                }
                Some(EventKind::RunEnded { end: RunOutcome::Interrupted, .. })
                    if moves >= MOVES_MAX =>
                {
                    report.interrupted += 1;
                }
                Some(EventKind::RunEnded { end, .. }) => {
                    self.find(format!("run {run} ended with {end:?} after {moves} moves"));
                }
                other => self.find(format!("run {run} goes on behind its end: {other:?}")),
            }
        }
    }

    fn check_effects(&mut self, ledger: &[Event], report: &mut ChaosReport) {
        let mut started: BTreeMap<&str, String> = BTreeMap::new();
        let mut ended = BTreeSet::new();
        for event in ledger {
            match &event.kind {
                EventKind::ToolStarted { call, input, .. } => {
                    let effect = input["effect"].as_str().unwrap_or_default().to_owned();
                    if started.insert(call, effect).is_some() {
                        self.find(format!("call {call} started twice"));
                    }
                }
                EventKind::ToolEnded { call, status, .. } => {
                    if !ended.insert(call.as_str()) {
                        self.find(format!("call {call} ended twice"));
                    }
                    let effect = started.get(call.as_str()).cloned().unwrap_or_default();
                    let happened = self.history.effects.get(&effect).copied().unwrap_or_default();
                    match status {
                        ToolCallStatus::Completed if happened == 1 => report.known += 1,
                        ToolCallStatus::Completed => self.find(format!(
                            "the ledger has a result of {effect}, which happened {happened} times"
                        )),
                        _ => report.unknown += 1,
                    }
                }
                _ => {}
            }
        }
        for call in started.keys() {
            if !ended.contains(call) {
                self.find(format!("call {call} has no end"));
            }
        }
        let names: BTreeSet<&String> = started.values().collect();
        for (effect, count) in &self.history.effects {
            report.effects += 1;
            if *count > 1 {
                self.find(format!("{effect} happened {count} times"));
            }
            if !names.contains(effect) {
                self.find(format!("{effect} happened, and the ledger does not know it"));
            }
        }
    }
}
