//! The counts and figures of a run.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::json;

use crate::chaos_options::ChaosOptions;
use crate::fault::{Fault, FaultKind};

/// What happened, and what came of it.
#[derive(Default)]
pub(crate) struct ChaosReport {
    seed: u64,
    faults: BTreeMap<FaultKind, usize>,
    pub(crate) duration: Duration,
    /// From the last fault until every run had ended.
    pub(crate) idle_after: Duration,
    pub(crate) prompts: usize,
    pub(crate) completed: usize,
    pub(crate) interrupted: usize,
    pub(crate) moves: usize,
    pub(crate) entries: usize,
    pub(crate) shown: usize,
    pub(crate) effects: usize,
    pub(crate) known: usize,
    pub(crate) unknown: usize,
    pub(crate) claims: usize,
    pub(crate) refusals: BTreeMap<String, u64>,
}

impl ChaosReport {
    pub(crate) fn new(options: &ChaosOptions) -> Self {
        Self { seed: options.seed, ..Self::default() }
    }

    pub(crate) fn count(&mut self, fault: &Fault) {
        *self.faults.entry(fault.kind).or_default() += 1;
    }

    pub(crate) fn fault_count(&self) -> usize {
        self.faults.values().sum()
    }

    /// Prints it, and writes it where it is wanted.
    pub(crate) fn publish(&self, options: &ChaosOptions) {
        let faults: BTreeMap<String, usize> =
            self.faults.iter().map(|(kind, count)| (kind.to_string(), *count)).collect();
        let figures = json!({
            "seed": self.seed,
            "seconds": self.duration.as_secs(),
            "faults": faults,
            "figures": {
                "prompts that a gateway acknowledged": self.prompts,
                "runs that completed": self.completed,
                "runs that were interrupted after three moves": self.interrupted,
                "moves of runs to another claim": self.moves,
                "entries of ledgers": self.entries,
                "entries that clients were shown": self.shown,
                "side effects at tool hosts": self.effects,
                "calls with their result": self.known,
                "calls without a result": self.unknown,
                "changes of an owner": self.claims,
                "prompts and openings that were refused and sent again":
                    self.refusals.values().sum::<u64>(),
                "seconds from the last fault until everything was idle":
                    self.idle_after.as_secs_f64().ceil() as u64,
            },
        });
        println!("{figures:#}");
        for (refusal, count) in &self.refusals {
            println!("{count:>5} × {refusal}");
        }
        if let Some(path) = &options.report {
            std::fs::write(path, figures.to_string()).unwrap();
        }
    }
}
