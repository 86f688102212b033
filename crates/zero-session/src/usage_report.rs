//! [`UsageReport`]: what runs used, by day, session, model, agent or owner.

use std::collections::BTreeMap;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use zero_core::UsageDimension;

use crate::run_usage::{RunUsage, RunUsageQuery, UsageTotal};
use crate::store::{Store, StoreError};

/// What the selected runs used.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct UsageReport {
    /// The name of each group and what it used: days in their order, else the most expensive first.
    pub rows: Vec<(String, UsageTotal)>,
    /// What all of them used.
    pub total: UsageTotal,
}

impl UsageReport {
    /// Sums what the selected runs used.
    pub async fn read(
        store: &dyn Store,
        mut query: RunUsageQuery,
        by: UsageDimension,
    ) -> Result<Self, StoreError> {
        let mut groups = BTreeMap::<String, UsageTotal>::new();
        let mut total = UsageTotal::default();
        loop {
            let page = store.run_usages(query.clone()).await?;
            for usage in &page {
                total.add(usage);
                let parts = match by {
                    UsageDimension::Model => usage.by_model(),
                    _ => vec![usage.clone()],
                };
                for part in &parts {
                    groups.entry(group_name(by, part)).or_default().add(part);
                }
            }
            match page.last() {
                Some(last) if page.len() == RunUsageQuery::PAGE_MAX => {
                    query.after = Some((last.started_ms, last.address()));
                }
                _ => break,
            }
        }
        let mut rows: Vec<_> = groups.into_iter().collect();
        if by != UsageDimension::Day {
            rows.sort_by(|(_, a), (_, b)| weigh_usage(b).total_cmp(&weigh_usage(a)));
        }
        Ok(Self { rows, total })
    }
}

fn group_name(by: UsageDimension, usage: &RunUsage) -> String {
    match by {
        UsageDimension::Day => {
            let time = Timestamp::from_millisecond(usage.started_ms).unwrap_or_default();
            time.to_zoned(TimeZone::system()).date().to_string()
        }
        UsageDimension::Session => usage.session_key.clone(),
        UsageDimension::Model => usage.model.clone(),
        UsageDimension::Agent => usage.agent.clone(),
        UsageDimension::Owner => usage.owner.clone(),
    }
}

/// The value that orders rows and scales bars: the cost, or the tokens if nothing has a price.
pub fn weigh_usage(spent: &UsageTotal) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "for comparison")]
    let tokens = spent.tokens() as f64 / 1e12;
    spent.usage.cost_usd.unwrap_or(0.0) + tokens
}
