//! What is left of the budgets of the settings.

use std::collections::BTreeSet;

use zero_core::UsageDimension;

use crate::budget::{BudgetMeasure, BudgetScope, budget_uses};
use crate::run_usage::{RunUsageQuery, UsageTotal};
use crate::sessions::session_worker::day_start_ms;
use crate::sessions::{SessionError, SessionManager};
use crate::usage_report::UsageReport;

/// Agents and owners that are named at most.
const NAMES_MAX: usize = 100;

/// A limit of a budget.
#[derive(Clone, Debug, PartialEq)]
pub struct BudgetLimit {
    /// What the budget is for.
    pub scope: BudgetScope,
    /// The agent or owner; `None` for a run and a session, whose limits apply to each of them.
    pub name: Option<String>,
    /// What it limits.
    pub measure: BudgetMeasure,
    /// How much may be used.
    pub most: f64,
    /// How much was used today; `None` for a run and a session.
    pub spent: Option<f64>,
}

impl SessionManager {
    /// The limits of the budgets: of `reader` and of all owners or only the `visible` one, and of their
    /// agents, as far as they were active today.
    pub async fn budget_limits(
        &self,
        reader: &str,
        visible: Option<&str>,
    ) -> Result<Vec<BudgetLimit>, SessionError> {
        let (rules, store) = (self.inner.config.limits.budgets, &*self.inner.config.store);
        let today = RunUsageQuery { since_ms: day_start_ms(), ..RunUsageQuery::default() };
        let mut limits = Vec::new();
        for scope in BudgetScope::ALL {
            let budget = rules.get(scope);
            if !budget.is_limited() {
                continue;
            }
            let by = match scope {
                BudgetScope::Run | BudgetScope::Session => {
                    let uses = budget_uses(&budget, scope, &UsageTotal::default());
                    limits.extend(uses.iter().map(|used| BudgetLimit {
                        scope,
                        name: None,
                        measure: used.measure,
                        most: used.most(),
                        spent: None,
                    }));
                    continue;
                }
                BudgetScope::Agent => UsageDimension::Agent,
                BudgetScope::Owner => UsageDimension::Owner,
            };
            let seen = RunUsageQuery { owner: visible.map(str::to_owned), ..today.clone() };
            let active = UsageReport::read(store, seen, by).await?;
            let active = active.rows.into_iter().map(|(name, _)| name).take(NAMES_MAX);
            let mut names: BTreeSet<String> = active.collect();
            if scope == BudgetScope::Owner {
                names.insert(reader.to_owned());
            }
            for name in names {
                let of_name = match scope {
                    BudgetScope::Agent => {
                        RunUsageQuery { agent: Some(name.clone()), ..today.clone() }
                    }
                    _ => RunUsageQuery { owner: Some(name.clone()), ..today.clone() },
                };
                let spent = store.usage_total(of_name, None).await?;
                limits.extend(budget_uses(&budget, scope, &spent).iter().map(|used| BudgetLimit {
                    scope,
                    name: Some(name.clone()),
                    measure: used.measure,
                    most: used.most(),
                    spent: Some(used.spent()),
                }));
            }
        }
        Ok(limits)
    }
}

/// When the budgets of a day start again, in milliseconds since the Unix epoch.
pub fn day_end_ms() -> i64 {
    let now = jiff::Zoned::now();
    let next = now.tomorrow().and_then(|next| next.start_of_day()).unwrap_or(now);
    next.timestamp().as_millisecond()
}
