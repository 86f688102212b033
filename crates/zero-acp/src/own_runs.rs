//! The runs that this client started in a session, to tell them from those of other clients.

use std::collections::VecDeque;

use zero_core::RunId;

/// Runs that are remembered; the oldest are forgotten first. A run is forgotten when it ends.
const RUNS_MAX: usize = 1_024;

/// The runs that this client started and that have not ended.
#[derive(Default)]
pub(crate) struct OwnRuns {
    runs: VecDeque<String>,
}

impl OwnRuns {
    pub(crate) fn add(&mut self, run: &str) {
        if self.runs.len() >= RUNS_MAX {
            self.runs.pop_front();
        }
        self.runs.push_back(run.to_owned());
    }

    pub(crate) fn contains(&self, run: &RunId) -> bool {
        self.runs.iter().any(|known| known == run.as_str())
    }

    /// Forgets a run that has ended: nothing of it follows.
    pub(crate) fn remove(&mut self, run: &RunId) {
        self.runs.retain(|known| known != run.as_str());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_runs_are_bounded() {
        let mut runs = OwnRuns::default();
        for number in 0..=RUNS_MAX {
            runs.add(&format!("r{number}"));
        }
        let run = |number: usize| RunId::new(format!("r{number}")).unwrap();
        assert!(!runs.contains(&run(0)) && runs.contains(&run(1)) && runs.contains(&run(RUNS_MAX)));
        runs.remove(&run(1));
        assert!(!runs.contains(&run(1)));
    }
}
