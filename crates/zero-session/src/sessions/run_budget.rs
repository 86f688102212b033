//! The budgets that a run must keep, and how much of them others have used.

use std::collections::HashSet;
use std::time::Duration;

use zero_core::{Budget, RunId};

use crate::budget::{BudgetMeasure, BudgetRules, BudgetScope, budget_uses};
use crate::event::{RootRun, RunOutcome, TokenUsage};
use crate::run_usage::{RunUsageQuery, UsageTotal};
use crate::store::{RunAddress, SessionRecord, Store, StoreError};

/// The budgets of a run.
pub(super) struct RunBudget {
    run: RunAddress,
    scopes: Vec<ScopeBudget>,
    /// What the user was told about.
    reported: HashSet<(BudgetScope, BudgetMeasure)>,
    /// The lowest limits that were left when the run began.
    left: Budget,
}

/// A budget and the runs that share it.
struct ScopeBudget {
    scope: BudgetScope,
    budget: Budget,
    /// The runs that share it, this one included.
    shared_by: RunUsageQuery,
}

/// What follows from the budgets.
#[derive(Debug, Default, PartialEq)]
pub(super) struct BudgetCheck {
    /// For the user, each once in a run.
    pub(super) notices: Vec<String>,
    /// How the run ends, if a budget is used up.
    pub(super) end: Option<RunOutcome>,
}

impl RunBudget {
    /// The budgets that apply to a run; `own` is of its prompt. A sub-agent's run counts to the
    /// budgets of the run `root`, and to those of its own agent.
    pub(super) fn new(
        rules: &BudgetRules,
        run_budget: Budget,
        run: &RunId,
        session: &SessionRecord,
        day_start_ms: i64,
        root: Option<&RootRun>,
    ) -> Self {
        let all = RunUsageQuery::default;
        let today = || RunUsageQuery { since_ms: day_start_ms, ..all() };
        let query = |scope| match scope {
            BudgetScope::Run => RunUsageQuery {
                run: Some(root.map_or(run, |root| &root.run).clone()),
                session: Some(root.map_or(&session.id, |root| &root.session).clone()),
                ..all()
            },
            BudgetScope::Session => RunUsageQuery {
                session: Some(root.map_or(&session.id, |root| &root.session).clone()),
                ..all()
            },
            BudgetScope::Agent => RunUsageQuery {
                agent: Some(root.map_or(&session.agent, |root| &root.agent).clone()),
                ..today()
            },
            BudgetScope::Owner => RunUsageQuery { owner: Some(session.owner.clone()), ..today() },
        };
        let budget = |scope| match scope {
            BudgetScope::Run => rules.get(scope).with_lower(run_budget),
            _ => rules.get(scope),
        };
        // A sub-agent's own agent has its own budget of the day.
        let own_agent = root.filter(|root| root.agent != session.agent).map(|_| ScopeBudget {
            scope: BudgetScope::Agent,
            budget: budget(BudgetScope::Agent),
            shared_by: RunUsageQuery { agent: Some(session.agent.clone()), ..today() },
        });
        let scopes = BudgetScope::ALL
            .into_iter()
            .map(|scope| ScopeBudget { scope, budget: budget(scope), shared_by: query(scope) })
            .chain(own_agent)
            .filter(|one| one.budget.is_limited());
        Self {
            run: RunAddress::new(&session.id, run),
            scopes: scopes.collect(),
            reported: HashSet::new(),
            left: Budget::default(),
        }
    }

    /// Whether dollars are limited.
    pub(super) fn limits_cost(&self) -> bool {
        self.scopes.iter().any(|one| one.budget.usd.is_some())
    }

    /// Most tool calls of this run.
    pub(super) fn calls_max(&self) -> Option<u64> {
        self.left.tool_calls
    }

    /// Longest working time of this run.
    pub(super) fn time_max(&self) -> Option<Duration> {
        self.left.seconds.map(Duration::from_secs)
    }

    /// Compares what was used with the budgets. `own` is what this run has used so far.
    pub(super) async fn check(
        &mut self,
        store: &dyn Store,
        own: TokenUsage,
    ) -> Result<BudgetCheck, StoreError> {
        let mut check = BudgetCheck::default();
        for one in &self.scopes {
            let others = store.usage_total(one.shared_by.clone(), Some(self.run.clone()));
            let mut spent = others.await?;
            self.left = self.left.with_lower(left_for_run(&one.budget, &spent.usage));
            spent += UsageTotal::of_run(own);
            for used in budget_uses(&one.budget, one.scope, &spent) {
                if used.is_used_up() {
                    let message = used.end_message();
                    check.end.get_or_insert(RunOutcome::Budget { message });
                } else if used.is_notable() && self.reported.insert((used.scope, used.measure)) {
                    check.notices.push(used.notice());
                }
            }
        }
        Ok(check)
    }
}

/// What others leave of the limits that are enforced within a run.
fn left_for_run(budget: &Budget, others: &TokenUsage) -> Budget {
    Budget {
        tool_calls: budget.tool_calls.map(|most| most.saturating_sub(others.tool_calls)),
        seconds: budget.seconds.map(|most| most.saturating_sub(others.work_ms / 1_000)),
        ..Budget::default()
    }
}
