//! Adds up what the runs of a session used.

use zero_core::event::TokenUsage;

/// What a session used, and how full the model's context window is.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SessionUsage {
    /// Tokens that the next request would send; 0 if not known.
    pub context_tokens: u64,
    /// Size of the model's context window, in tokens; 0 if not known.
    pub context_window: u64,
    /// Tokens and cost of the last run, or of the one that is running, with its sub-agents.
    pub last_run: TokenUsage,
    /// Tokens and cost of all runs that were seen.
    pub total: TokenUsage,
}

/// Counts from events.
#[derive(Debug, Default)]
pub(super) struct UsageCounter {
    context_tokens: u64,
    context_window: u64,
    /// Runs that ended.
    ended: TokenUsage,
    /// The last run, without its sub-agents.
    run: TokenUsage,
    /// The sub-agents of the last run.
    subagents: TokenUsage,
    is_running: bool,
}

impl UsageCounter {
    pub(super) fn start_run(&mut self) {
        self.count_ended();
        (self.run, self.subagents) = (TokenUsage::default(), TokenUsage::default());
        self.is_running = true;
    }

    pub(super) fn set_run(&mut self, usage: TokenUsage) {
        self.run = usage;
    }

    pub(super) fn set_context(&mut self, tokens: u64, window: Option<u64>) {
        self.context_tokens = tokens;
        self.context_window = window.unwrap_or(self.context_window);
    }

    /// Adds a sub-agent. It works beside others, so that its time does not count.
    pub(super) fn add_subagent(&mut self, usage: TokenUsage) {
        self.subagents += TokenUsage { work_ms: 0, ..usage };
    }

    /// Ends the run, and returns what it used with its sub-agents.
    pub(super) fn end_run(&mut self, usage: TokenUsage) -> TokenUsage {
        if !self.is_running {
            // The beginning of the run was not seen.
            self.start_run();
        }
        self.run = usage;
        self.count_ended();
        self.last_run()
    }

    pub(super) fn session_usage(&self) -> SessionUsage {
        let last_run = self.last_run();
        let mut total = self.ended;
        if self.is_running {
            total += last_run;
        }
        let Self { context_tokens, context_window, .. } = *self;
        SessionUsage { context_tokens, context_window, last_run, total }
    }

    fn last_run(&self) -> TokenUsage {
        let mut usage = self.run;
        usage += self.subagents;
        usage
    }

    fn count_ended(&mut self) {
        if std::mem::take(&mut self.is_running) {
            self.ended += self.last_run();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_and_subagents_are_added_up_once() {
        let usage = |cost: f64| TokenUsage {
            input_tokens: 10,
            cost_usd: Some(cost),
            work_ms: 5,
            ..TokenUsage::default()
        };
        let mut counter = UsageCounter::default();
        counter.start_run();
        counter.set_run(usage(1.0));
        counter.add_subagent(usage(0.5));
        counter.set_context(7, Some(100));
        let now = counter.session_usage();
        assert_eq!((now.last_run, now.total), (now.total, now.last_run));
        assert_eq!((now.total.cost_usd, now.total.input_tokens), (Some(1.5), 20));
        assert_eq!(counter.end_run(usage(2.0)).cost_usd, Some(2.5));
        counter.start_run();
        counter.set_run(usage(4.0));
        counter.set_context(3, None);
        let now = counter.session_usage();
        assert_eq!((now.last_run.cost_usd, now.total.cost_usd), (Some(4.0), Some(6.5)));
        assert_eq!((now.context_tokens, now.context_window), (3, 100));
        assert_eq!(now.total.work_ms, 10);
    }
}
