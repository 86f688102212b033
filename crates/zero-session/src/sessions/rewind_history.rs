//! Which entries of a ledger are part of the conversation, after rewinds.
//!
//! A rewind of the conversation takes back everything from a point to itself, earlier rewinds
//! included. Read from the newest on, each rewind that is in effect therefore hides the entries from
//! its point to itself, and whatever is hidden hides nothing.

use crate::store::{RewindPoint, RewindPointKind};

/// Topics of the entry that ends the copied part of a copy's ledger.
pub(super) const FORKED: &str = "forked";
pub(super) const FORKED_DURING_RUN: &str = "forked_during_run";

/// Whether an entry is part of the conversation, given all points of its session.
pub fn is_in_effect(points: &[RewindPoint], seq: u64) -> bool {
    let mut end = u64::MAX;
    for point in points.iter().rev() {
        if point.seq >= end {
            continue;
        }
        // A rewind hides what was before it, and not itself.
        if point.seq <= seq {
            break;
        }
        if let RewindPointKind::Rewind { before: Some(before), .. } = point.kind {
            end = before;
        }
    }
    seq < end
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::RewindScope;

    fn rewind(seq: u64, before: u64) -> RewindPoint {
        let (id, before) = (String::new(), Some(before).filter(|before| *before > 0));
        let kind = RewindPointKind::Rewind { id, before, scope: RewindScope::Both };
        RewindPoint { seq, time_ms: 0, kind, position: None }
    }

    #[track_caller]
    fn check(rewinds: &[(u64, u64)], last: u64, expected: &[u64]) {
        let points: Vec<RewindPoint> =
            rewinds.iter().map(|(seq, before)| rewind(*seq, *before)).collect();
        let kept: Vec<u64> = (1..=last).filter(|seq| is_in_effect(&points, *seq)).collect();
        assert_eq!(kept, expected, "{rewinds:?}");
    }

    #[test]
    fn rewind_hides_entries_from_its_point_on() {
        check(&[], 3, &[1, 2, 3]);
        check(&[(4, 2)], 5, &[1, 4, 5]);
        check(&[(4, 2), (7, 3)], 8, &[1, 2, 7, 8]);
        check(&[(4, 2), (7, 5)], 8, &[1, 4, 7, 8]);
        // Only files.
        check(&[(4, 0)], 5, &[1, 2, 3, 4, 5]);
    }

    #[test]
    fn rewind_before_a_rewind_takes_it_back() {
        check(&[(4, 2), (6, 4)], 7, &[1, 2, 3, 6, 7]);
        check(&[(4, 2), (6, 4), (8, 6)], 9, &[1, 4, 5, 8, 9]);
    }
}
