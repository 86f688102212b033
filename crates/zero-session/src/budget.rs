//! Budgets: how much a run, a session, an agent or an owner may spend.

use std::fmt;

use zero_core::Budget;

use crate::model::cost::cost;
use crate::model::known_models;
use crate::run_usage::UsageTotal;

/// Share of a budget, in percent, from which the user is told.
const NOTICE_PERCENT: f64 = 80.0;

/// The budgets of the settings.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct BudgetRules {
    /// For each run.
    pub run: Budget,
    /// For each session, over all its runs.
    pub session: Budget,
    /// For each agent, of all owners, in a day.
    pub agent: Budget,
    /// For each owner in a day.
    pub owner: Budget,
}

impl BudgetRules {
    /// The budget of a scope.
    pub fn get(&self, scope: BudgetScope) -> Budget {
        match scope {
            BudgetScope::Run => self.run,
            BudgetScope::Session => self.session,
            BudgetScope::Agent => self.agent,
            BudgetScope::Owner => self.owner,
        }
    }
}

/// What a budget is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BudgetScope {
    /// One run.
    Run,
    /// All runs of a session.
    Session,
    /// All runs of an agent today.
    Agent,
    /// All runs of an owner today.
    Owner,
}

impl BudgetScope {
    /// All scopes, the narrowest first.
    pub const ALL: [Self; 4] = [Self::Run, Self::Session, Self::Agent, Self::Owner];

    /// Name of the scope in the settings.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Run => "run",
            Self::Session => "session",
            Self::Agent => "agent",
            Self::Owner => "owner",
        }
    }

    /// The scope as a message says it.
    fn describe(self) -> &'static str {
        match self {
            Self::Run => "this run",
            Self::Session => "this session",
            Self::Agent => "this agent today",
            Self::Owner => "you today",
        }
    }
}

/// What a budget limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BudgetMeasure {
    /// US dollars.
    Usd,
    /// Input and output tokens.
    Tokens,
    /// Requests to models.
    Requests,
    /// Calls of tools.
    ToolCalls,
    /// Working time.
    Time,
}

impl BudgetMeasure {
    /// Name of the limit in the settings.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Usd => "usd",
            Self::Tokens => "tokens",
            Self::Requests => "requests",
            Self::ToolCalls => "toolCalls",
            Self::Time => "seconds",
        }
    }
}

/// How much of a budget is used.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BudgetUse {
    /// What the budget is for.
    pub scope: BudgetScope,
    /// What it limits.
    pub measure: BudgetMeasure,
    spent: f64,
    most: f64,
}

impl BudgetUse {
    /// How much is used.
    pub fn spent(&self) -> f64 {
        self.spent
    }

    /// How much may be used.
    pub fn most(&self) -> f64 {
        self.most
    }

    /// Whether nothing is left.
    pub fn is_used_up(&self) -> bool {
        // A call that the budget has no room for was not run, and counts.
        match self.measure {
            BudgetMeasure::ToolCalls => self.spent > self.most,
            _ => self.spent >= self.most,
        }
    }

    /// Whether so much is used that the user is told.
    pub fn is_notable(&self) -> bool {
        self.share() >= NOTICE_PERCENT
    }

    /// The notice for the user when most of it is used.
    pub fn notice(&self) -> String {
        format!("{:.0} % of the budget for {self} is used", self.share().floor())
    }

    /// The message for the user when nothing is left.
    pub fn end_message(&self) -> String {
        let key = format!("budgets.{}.{}", self.scope.as_str(), self.measure.as_str());
        let option = match (self.scope, self.measure) {
            (BudgetScope::Run, BudgetMeasure::Usd) => ", and `--budget` if you used it",
            (BudgetScope::Run, BudgetMeasure::Time) => ", and `--max-time` if you used it",
            _ => "",
        };
        let advice = match self.scope {
            BudgetScope::Run => "send \"continue\" in the same session (`zero -c \"continue\"`)",
            BudgetScope::Session => "start another session",
            BudgetScope::Agent | BudgetScope::Owner => "wait until tomorrow",
        };
        format!("the budget for {self} is used up; to go on, {advice}, or raise `{key}`{option}")
    }

    /// What is used, in percent.
    fn share(&self) -> f64 {
        if self.most > 0.0 { self.spent / self.most * 100.0 } else { 100.0 }
    }
}

impl fmt::Display for BudgetUse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (spent, most) = (self.spent, self.most);
        write!(f, "{} (", self.scope.describe())?;
        match self.measure {
            // A budget below a cent has more digits.
            BudgetMeasure::Usd if most > 0.0 && most < 0.01 => write!(f, "${spent:.4} of ${most}")?,
            BudgetMeasure::Usd => write!(f, "${spent:.4} of ${most:.2}")?,
            BudgetMeasure::Tokens => write!(f, "{spent:.0} of {most:.0} tokens")?,
            BudgetMeasure::Requests => write!(f, "{spent:.0} of {most:.0} model requests")?,
            // The call that the budget had no room for was not run.
            BudgetMeasure::ToolCalls => {
                write!(f, "{:.0} of {most:.0} tool calls", spent.min(most))?
            }
            BudgetMeasure::Time => write!(f, "{spent:.0} of {most:.0} seconds")?,
        }
        f.write_str(")")
    }
}

/// How much of each limit of a budget is used.
#[expect(clippy::cast_precision_loss, reason = "for comparison and display")]
pub fn budget_uses(budget: &Budget, scope: BudgetScope, spent: &UsageTotal) -> Vec<BudgetUse> {
    let usage = &spent.usage;
    let most = |most: Option<u64>| most.map(|most| most as f64);
    let measures = [
        (BudgetMeasure::Usd, budget.usd, assumed_cost(spent)),
        (BudgetMeasure::Tokens, most(budget.tokens), spent.tokens() as f64),
        (BudgetMeasure::Requests, most(budget.requests), usage.requests as f64),
        (BudgetMeasure::ToolCalls, most(budget.tool_calls), usage.tool_calls as f64),
        (BudgetMeasure::Time, most(budget.seconds), usage.work_ms as f64 / 1_000.0),
    ];
    let uses = measures.into_iter().filter_map(|(measure, most, spent)| {
        Some(BudgetUse { scope, measure, spent, most: most? })
    });
    uses.collect()
}

/// Cost in US dollars. Tokens without a known price cost as much as those of the most expensive model
/// that zero knows, so that a budget in dollars always ends.
fn assumed_cost(spent: &UsageTotal) -> f64 {
    let unpriced = crate::event::TokenUsage {
        input_tokens: spent.unpriced_input_tokens,
        output_tokens: spent.unpriced_output_tokens,
        ..Default::default()
    };
    spent.usage.cost_usd.unwrap_or(0.0) + cost(&known_models::highest_prices(), &unpriced)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::TokenUsage;

    fn spent(usage: TokenUsage) -> UsageTotal {
        UsageTotal::of_run(usage)
    }

    #[test]
    fn budget_is_notable_at_80_percent_and_used_up_at_100() {
        let budget = Budget { tokens: Some(100), ..Budget::default() };
        for (tokens, notable, used_up) in
            [(79, false, false), (80, true, false), (99, true, false), (100, true, true)]
        {
            let usage = TokenUsage { input_tokens: tokens, ..TokenUsage::default() };
            let [found] = budget_uses(&budget, BudgetScope::Run, &spent(usage))[..] else {
                panic!()
            };
            assert_eq!((found.is_notable(), found.is_used_up()), (notable, used_up), "{tokens}");
        }
        let none = Budget { usd: Some(0.0), ..Budget::default() };
        let [found] = budget_uses(&none, BudgetScope::Owner, &UsageTotal::default())[..] else {
            panic!()
        };
        assert!(found.is_used_up());
        assert_eq!(budget_uses(&Budget::default(), BudgetScope::Run, &UsageTotal::default()), []);
    }

    #[test]
    fn unknown_price_counts_as_the_highest() {
        let usage = TokenUsage { output_tokens: 1_000_000, ..TokenUsage::default() };
        let highest = known_models::highest_prices().output;
        assert!((assumed_cost(&spent(usage)) - highest).abs() < 1e-9);
        let priced = TokenUsage { cost_usd: Some(0.5), ..usage };
        assert!((assumed_cost(&spent(priced)) - 0.5).abs() < 1e-9);
    }

    #[test]
    fn message_says_what_is_used_up_and_how_to_go_on() {
        let budget =
            Budget { usd: Some(0.5), tool_calls: Some(2), seconds: Some(600), ..Budget::default() };
        let usage = TokenUsage {
            cost_usd: Some(0.51),
            tool_calls: 3,
            work_ms: 480_000,
            ..TokenUsage::default()
        };
        let texts: Vec<String> = budget_uses(&budget, BudgetScope::Session, &spent(usage))
            .iter()
            .map(|one| if one.is_used_up() { one.end_message() } else { one.notice() })
            .collect();
        assert_eq!(
            texts,
            [
                "the budget for this session ($0.5100 of $0.50) is used up; to go on, start another session, or raise `budgets.session.usd`",
                "the budget for this session (2 of 2 tool calls) is used up; to go on, start another session, or raise `budgets.session.toolCalls`",
                "80 % of the budget for this session (480 of 600 seconds) is used",
            ]
        );
        let small = Budget { usd: Some(0.0004), ..Budget::default() };
        let [small] = budget_uses(&small, BudgetScope::Run, &spent(usage))[..] else { panic!() };
        assert_eq!(small.to_string(), "this run ($0.5100 of $0.0004)");
    }
}
