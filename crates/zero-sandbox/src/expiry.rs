//! Which of zero's own files are no longer kept, by age and size.
//!
//! Each kind of data lists its items; the rules pick from the oldest on. Nothing is removed unless a
//! rule says so, and nothing that is younger than a day.
//!
//! Items belong to shares, such as those of an owner. If all together are too large, only shares that
//! are larger than a fair part give something up, so no owner loses data because of others.

use std::collections::BTreeMap;
use std::io;
use std::time::Duration;

/// Items that are younger are kept, whatever the rules say.
const RECENT_MAX: Duration = Duration::from_secs(24 * 60 * 60);
/// Maximum number of items that one pass removes; the next one goes on.
const PASS_MAX: u64 = 10_000;

/// Which items of a kind are no longer kept. By default all are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExpiryRules {
    /// How long an item is kept; for ever if `None`.
    pub age_max: Option<Duration>,
    /// Size of all items in bytes above which the oldest are removed.
    pub bytes_max: Option<u64>,
}

impl ExpiryRules {
    /// Whether a size is at least nine tenths of the limit.
    pub fn is_near_limit(&self, bytes: u64) -> bool {
        self.bytes_max.is_some_and(|most| bytes >= most.saturating_sub(most / 10))
    }
}

/// Whether a pass removes what it finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExpiryMode {
    /// Only reports it.
    DryRun,
    /// Removes it.
    Remove,
}

/// A number of items and their size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoredAmount {
    /// Number of items.
    pub count: u64,
    /// Their size in bytes.
    pub bytes: u64,
}

impl StoredAmount {
    fn add(&mut self, bytes: u64) {
        self.count = self.count.saturating_add(1);
        self.bytes = self.bytes.saturating_add(bytes);
    }
}

/// What a pass removed, or would remove, and what is left.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExpiryReport {
    /// What is removed.
    pub removed: StoredAmount,
    /// What is kept, including what could not be removed.
    pub remaining: StoredAmount,
    /// Number of items that the rules no longer keep and that could not be removed.
    pub failed: u64,
    /// Why the first of these could not be removed.
    pub problem: Option<String>,
    /// The shares that are left, with their sizes in bytes.
    pub shares: BTreeMap<String, u64>,
}

impl ExpiryReport {
    /// The largest share, if there are several, and its size in bytes.
    pub fn largest_share(&self) -> Option<(&str, u64)> {
        let shares = (self.shares.len() > 1).then_some(&self.shares)?.iter();
        shares.max_by_key(|(_, bytes)| **bytes).map(|(share, bytes)| (share.as_str(), *bytes))
    }
}

/// Something that is stored.
#[derive(Clone, Debug)]
pub struct StoredItem<K> {
    /// What it is, for its removal.
    pub key: K,
    /// How long ago it was last changed or used.
    pub age: Duration,
    /// Its size in bytes.
    pub bytes: u64,
    /// The share that it counts towards, such as that of an owner.
    pub share: String,
    /// Whether it is of no use any more, so that it is removed whatever the rules say.
    pub is_useless: bool,
    /// Whether a process may use it, so that it is kept whatever the rules say.
    pub is_in_use: bool,
}

/// Removes the items that the rules no longer keep, oldest first.
pub fn expire<K>(
    mut items: Vec<StoredItem<K>>,
    rules: &ExpiryRules,
    mode: ExpiryMode,
    mut remove: impl FnMut(&K) -> io::Result<()>,
) -> ExpiryReport {
    items.sort_by_key(|item| std::cmp::Reverse(item.age));
    let mut shares: BTreeMap<String, u64> = BTreeMap::new();
    for item in &items {
        let bytes = shares.entry(item.share.clone()).or_default();
        *bytes = bytes.saturating_add(item.bytes);
    }
    let part = rules.bytes_max.map(|most| fair_part(shares.values().copied().collect(), most));
    let mut bytes_left: u64 = items.iter().map(|item| item.bytes).sum();
    let mut report = ExpiryReport::default();
    for item in items {
        let is_old = rules.age_max.is_some_and(|most| item.age > most);
        let share_left = shares.get(&item.share).copied().unwrap_or_default();
        let is_too_much = rules.bytes_max.is_some_and(|most| bytes_left > most)
            && part.is_some_and(|part| share_left > part);
        let is_expired =
            item.age > RECENT_MAX && !item.is_in_use && (item.is_useless || is_old || is_too_much);
        if !is_expired || report.removed.count >= PASS_MAX {
            report.remaining.add(item.bytes);
            continue;
        }
        let removed = match mode {
            ExpiryMode::DryRun => Ok(()),
            ExpiryMode::Remove => remove(&item.key),
        };
        match removed {
            Ok(()) => {
                bytes_left = bytes_left.saturating_sub(item.bytes);
                shares.insert(item.share, share_left.saturating_sub(item.bytes));
                report.removed.add(item.bytes);
            }
            Err(error) => {
                report.problem.get_or_insert_with(|| error.to_string());
                report.failed = report.failed.saturating_add(1);
                report.remaining.add(item.bytes);
            }
        }
    }
    report.shares = shares;
    report
}

/// The size up to which a share is kept if all together may have `most` bytes: the space that small
/// shares leave is divided equally among the large ones.
pub fn fair_part(mut sizes: Vec<u64>, most: u64) -> u64 {
    sizes.sort_unstable();
    let mut left = most;
    for (at, size) in sizes.iter().enumerate() {
        let part = left / u64::try_from(sizes.len() - at).unwrap_or(u64::MAX);
        if *size > part {
            return part;
        }
        left -= size;
    }
    u64::MAX
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: Duration = Duration::from_secs(24 * 60 * 60);

    /// Items of ten bytes with these ages in days; names those that are removed.
    #[track_caller]
    fn check(ages: &[u32], age_max: Option<u32>, bytes_max: Option<u64>, expected: &[u32]) {
        let item = |days: &u32| StoredItem {
            key: *days,
            age: DAY * *days + Duration::from_secs(1),
            bytes: 10,
            share: String::new(),
            is_useless: false,
            is_in_use: false,
        };
        let items: Vec<_> = ages.iter().map(item).collect();
        let rules = ExpiryRules { age_max: age_max.map(|days| DAY * days), bytes_max };
        let mut removed = Vec::new();
        let report = expire(items.clone(), &rules, ExpiryMode::Remove, |key| {
            removed.push(*key);
            Ok(())
        });
        assert_eq!(removed, expected);
        let all = ages.len() as u64;
        let count = expected.len() as u64;
        assert_eq!(report.removed, StoredAmount { count, bytes: 10 * count });
        assert_eq!(
            report.remaining,
            StoredAmount { count: all - count, bytes: 10 * (all - count) }
        );
        let dry = expire(items, &rules, ExpiryMode::DryRun, |key| panic!("removes {key}"));
        assert_eq!(dry, report);
    }

    #[test]
    fn oldest_items_beyond_age_or_size_expire() {
        check(&[9, 3, 40, 5], None, None, &[]);
        check(&[9, 3, 40, 5], Some(5), None, &[40, 9, 5]);
        check(&[9, 3, 40, 5], None, Some(25), &[40, 9]);
        check(&[9, 3, 40, 5], Some(8), Some(15), &[40, 9, 5]);
        check(&[0, 0, 3], Some(1), Some(1), &[3]);
    }

    #[test]
    fn item_that_cannot_be_removed_stays_counted() {
        let item = StoredItem {
            key: (),
            age: DAY * 9,
            bytes: 7,
            share: String::new(),
            is_useless: true,
            is_in_use: false,
        };
        let failed = |_: &()| Err(io::Error::other("no"));
        let report = expire(vec![item], &ExpiryRules::default(), ExpiryMode::Remove, failed);
        assert_eq!((report.failed, report.removed.count, report.remaining.bytes), (1, 0, 7));
        assert_eq!(report.problem.as_deref(), Some("no"));
    }

    #[test]
    fn limit_is_near_at_nine_tenths() {
        let rules = ExpiryRules { bytes_max: Some(100), ..ExpiryRules::default() };
        assert!(!rules.is_near_limit(89) && rules.is_near_limit(90));
        assert!(!ExpiryRules::default().is_near_limit(u64::MAX));
    }

    #[test]
    fn only_shares_above_a_fair_part_give_up() {
        for (sizes, most, expected) in [
            (vec![10, 20, 70], 60, 30),
            (vec![10, 10], 60, u64::MAX),
            (vec![50, 50], 60, 30),
            (vec![5, 100, 100], 65, 30),
            (vec![], 1, u64::MAX),
        ] {
            assert_eq!(fair_part(sizes.clone(), most), expected, "{sizes:?} {most}");
        }
        // One owner has the oldest items, the other one by far the most.
        let item = |share: &str, days: u32| StoredItem {
            key: (share.to_owned(), days),
            age: DAY * days,
            bytes: 10,
            share: share.to_owned(),
            is_useless: false,
            is_in_use: false,
        };
        let mut items = vec![item("small", 100), item("small", 90)];
        items.extend((10..20).map(|days| item("large", days)));
        let rules = ExpiryRules { age_max: None, bytes_max: Some(60) };
        let mut removed = Vec::new();
        let report = expire(items, &rules, ExpiryMode::Remove, |key| {
            removed.push(key.clone());
            Ok(())
        });
        assert!(removed.iter().all(|(share, days)| share == "large" && *days > 13), "{removed:?}");
        assert_eq!(report.remaining.bytes, 60);
        assert_eq!(report.largest_share(), Some(("large", 40)));
    }
}
