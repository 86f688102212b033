//! What a person settled for the rest of a session: what is allowed, and what is not asked again.
//!
//! It is kept in memory, and dies with the session unless its owner keeps it: they are told what
//! stands whenever that changes, and may bring it back. A later answer about the same thing takes the
//! place of an earlier one, so nothing is ever both allowed and rejected.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use zero_policy::GrantScope;

/// Most answers a session keeps; once there is no room for more, none is offered.
const GRANTS_MAX: usize = 1_000;

/// Something a person settled for the rest of a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SessionGrant {
    /// What it is revoked by; never used twice in a session.
    pub id: u64,
    /// What it is about.
    #[serde(flatten)]
    pub grant: GrantScope,
    /// When they said so.
    pub time: Timestamp,
    /// Who said so.
    pub by: String,
}

/// Which way something was settled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GrantDecision {
    /// It is allowed without asking for the rest of the session.
    Allowed,
    /// It is not, and not asked again.
    Rejected,
}

/// A standing answer as the owner of a session keeps it, and brings it back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SavedGrant {
    /// Which way.
    pub stand: GrantDecision,
    /// What it is about.
    pub grant: GrantScope,
    /// When they said so.
    pub time: Timestamp,
    /// Who said so.
    pub by: String,
}

/// A standing answer as it is written down.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GrantRecord {
    /// Whether it is allowed; rejected otherwise.
    pub allowed: bool,
    /// What.
    pub grant: GrantScope,
    /// When, in milliseconds since 1970.
    pub time_ms: i64,
    /// Who said so.
    pub by: String,
}

impl From<SavedGrant> for GrantRecord {
    fn from(standing: SavedGrant) -> Self {
        let SavedGrant { stand, grant, time, by } = standing;
        let allowed = stand == GrantDecision::Allowed;
        Self { allowed, grant, time_ms: time.as_millisecond(), by }
    }
}

impl From<GrantRecord> for SavedGrant {
    fn from(kept: GrantRecord) -> Self {
        let GrantRecord { allowed, grant, time_ms, by } = kept;
        let time = Timestamp::from_millisecond(time_ms).unwrap_or(Timestamp::UNIX_EPOCH);
        let stand = if allowed { GrantDecision::Allowed } else { GrantDecision::Rejected };
        Self { stand, grant, time, by }
    }
}

/// Hears all that stands, oldest first, whenever it changes. Must return at once, and must not ask
/// the session anything.
pub type GrantStore = Arc<dyn Fn(Vec<SavedGrant>) + Send + Sync>;

/// The standing answers of one session.
#[derive(Default)]
pub(crate) struct GrantTable {
    kept: Mutex<GrantTableState>,
    keeper: Option<GrantStore>,
    /// Held while the keeper hears, so that what it hears last is what stands.
    telling: Mutex<()>,
}

#[derive(Debug, Default)]
struct GrantTableState {
    last_id: u64,
    answers: Vec<(GrantDecision, SessionGrant)>,
}

impl GrantTable {
    /// What stood before, for a keeper. Of too much, the newest is kept.
    pub(crate) fn restore(standing: Vec<SavedGrant>, keeper: Option<GrantStore>) -> Self {
        let mut kept = GrantTableState::default();
        for SavedGrant { stand, grant, time, by } in standing {
            kept.insert(stand, grant, time, by);
        }
        let too_many = kept.answers.len().saturating_sub(GRANTS_MAX);
        kept.answers.drain(..too_many);
        Self { kept: Mutex::new(kept), keeper, telling: Mutex::default() }
    }

    /// Whether so many more can be kept.
    pub(crate) fn has_room(&self, more: usize) -> bool {
        self.lock_state().answers.len().saturating_add(more) <= GRANTS_MAX
    }

    /// Settles all of `grants`, or, where there is no room for them, none. True when it did.
    pub(crate) fn record(&self, stand: GrantDecision, grants: &[GrantScope], by: &str) -> bool {
        let mut kept = self.lock_state();
        let others =
            kept.answers.iter().filter(|(_, answer)| !grants.contains(&answer.grant)).count();
        if others.saturating_add(grants.len()) > GRANTS_MAX {
            return false;
        }
        let time = Timestamp::now();
        for grant in grants {
            kept.insert(stand, grant.clone(), time, by.to_owned());
        }
        drop(kept);
        self.notify_store();
        true
    }

    /// All that stands, oldest first.
    pub(crate) fn saved_grants(&self) -> Vec<SavedGrant> {
        let standing = |(stand, answer): &(GrantDecision, SessionGrant)| {
            let SessionGrant { grant, time, by, .. } = answer.clone();
            SavedGrant { stand: *stand, grant, time, by }
        };
        self.lock_state().answers.iter().map(standing).collect()
    }

    /// What was settled this way, oldest first.
    pub(crate) fn list(&self, stand: GrantDecision) -> Vec<SessionGrant> {
        self.map_matching(stand, Clone::clone)
    }

    /// The same, without when and by whom.
    pub(crate) fn list_grants(&self, stand: GrantDecision) -> Vec<GrantScope> {
        self.map_matching(stand, |answer| answer.grant.clone())
    }

    /// Takes one back; false when there is none of that id.
    pub(crate) fn revoke(&self, id: u64) -> bool {
        let mut kept = self.lock_state();
        let before = kept.answers.len();
        kept.answers.retain(|(_, answer)| answer.id != id);
        let is_gone = kept.answers.len() < before;
        drop(kept);
        if is_gone {
            self.notify_store();
        }
        is_gone
    }

    /// Takes all back; says how many there were.
    pub(crate) fn revoke_all(&self) -> usize {
        let revoked = std::mem::take(&mut self.lock_state().answers).len();
        if revoked > 0 {
            self.notify_store();
        }
        revoked
    }

    fn notify_store(&self) {
        let Some(keeper) = &self.keeper else { return };
        let _in_order = self.telling.lock().unwrap_or_else(PoisonError::into_inner);
        keeper(self.saved_grants());
    }

    fn map_matching<T>(&self, stand: GrantDecision, wanted: impl Fn(&SessionGrant) -> T) -> Vec<T> {
        let kept = self.lock_state();
        let ours = kept.answers.iter().filter(|(other, _)| *other == stand);
        ours.map(|(_, answer)| wanted(answer)).collect()
    }

    fn lock_state(&self) -> MutexGuard<'_, GrantTableState> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl GrantTableState {
    /// Settles one thing, in the place of what was settled about it before.
    fn insert(&mut self, stand: GrantDecision, grant: GrantScope, time: Timestamp, by: String) {
        self.answers.retain(|(_, answer)| answer.grant != grant);
        self.last_id += 1;
        self.answers.push((stand, SessionGrant { id: self.last_id, grant, time, by }));
    }
}

impl fmt::Debug for GrantTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Grants").field("kept", &self.kept).finish_non_exhaustive()
    }
}

/// The same text as a grant of nothing but a rule.
#[cfg(test)]
pub(crate) fn rule_grant(text: &str) -> GrantScope {
    GrantScope { rule: text.to_owned(), folder: None, program: None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(grants: &GrantTable, stand: GrantDecision, expected: &[(u64, &str)]) {
        let list = grants.list(stand);
        let found: Vec<(u64, &str)> =
            list.iter().map(|answer| (answer.id, answer.grant.rule.as_str())).collect();
        assert_eq!(found, expected, "{stand:?}");
        assert!(list.iter().all(|answer| answer.by == "person"));
    }

    #[test]
    fn later_answer_replaces_earlier() {
        let grants = GrantTable::default();
        assert!(grants.record(
            GrantDecision::Allowed,
            &[rule_grant("a"), rule_grant("b"), rule_grant("a")],
            "person"
        ));
        check(&grants, GrantDecision::Allowed, &[(2, "b"), (3, "a")]);
        let elsewhere = GrantScope { folder: Some("/x".to_owned()), ..rule_grant("a") };
        assert!(grants.record(
            GrantDecision::Rejected,
            &[rule_grant("a"), elsewhere.clone()],
            "person"
        ));
        check(&grants, GrantDecision::Allowed, &[(2, "b")]);
        check(&grants, GrantDecision::Rejected, &[(4, "a"), (5, "a")]);
        assert!(grants.record(GrantDecision::Allowed, &[rule_grant("a")], "person"));
        assert_eq!(
            grants.list_grants(GrantDecision::Rejected),
            [elsewhere],
            "another folder is another thing"
        );
    }

    #[test]
    fn revoked_grant_and_its_id_are_gone() {
        let grants = GrantTable::default();
        grants.record(GrantDecision::Allowed, &[rule_grant("a"), rule_grant("b")], "person");
        grants.record(GrantDecision::Rejected, &[rule_grant("c")], "person");
        assert!(grants.revoke(2) && !grants.revoke(2) && !grants.revoke(99));
        check(&grants, GrantDecision::Allowed, &[(1, "a")]);
        assert_eq!(grants.revoke_all(), 2);
        grants.record(GrantDecision::Allowed, &[rule_grant("b")], "person");
        check(&grants, GrantDecision::Allowed, &[(4, "b")]);
        check(&grants, GrantDecision::Rejected, &[]);
    }

    #[test]
    fn grant_store_is_notified_and_can_restore() {
        let heard: Arc<Mutex<Vec<Vec<SavedGrant>>>> = Arc::default();
        let keeper: GrantStore = {
            let heard = Arc::clone(&heard);
            Arc::new(move |standing| heard.lock().unwrap().push(standing))
        };
        let told = || heard.lock().unwrap().len();
        let grants = GrantTable::restore(Vec::new(), Some(Arc::clone(&keeper)));
        grants.record(GrantDecision::Allowed, &[rule_grant("a"), rule_grant("b")], "person");
        grants.record(GrantDecision::Rejected, &[rule_grant("b"), rule_grant("c")], "person");
        assert_eq!(told(), 2);
        assert!(!grants.revoke(99));
        assert_eq!(told(), 2, "nothing changed");
        let kept = heard.lock().unwrap().pop().unwrap();
        assert_eq!(kept, grants.saved_grants());

        let restored = GrantTable::restore(kept.clone(), Some(keeper));
        assert_eq!(restored.saved_grants(), kept);
        check(&restored, GrantDecision::Allowed, &[(1, "a")]);
        check(&restored, GrantDecision::Rejected, &[(2, "b"), (3, "c")]);
        assert!(restored.revoke(2));
        assert_eq!(heard.lock().unwrap().pop().unwrap().len(), 2);
        assert_eq!(restored.revoke_all(), 2);
        assert_eq!(heard.lock().unwrap().pop().unwrap(), []);
        assert_eq!((restored.revoke_all(), told()), (0, 1));
    }

    #[test]
    fn restored_grants_are_bounded_and_unambiguous() {
        let one = |number: usize, stand| SavedGrant {
            stand,
            grant: rule_grant(&number.to_string()),
            time: Timestamp::UNIX_EPOCH,
            by: "person".to_owned(),
        };
        let many = (0..GRANTS_MAX + 5).map(|number| one(number, GrantDecision::Allowed)).collect();
        let grants = GrantTable::restore(many, None);
        assert_eq!(grants.saved_grants().len(), GRANTS_MAX);
        assert_eq!(
            grants.list_grants(GrantDecision::Allowed)[0],
            rule_grant("5"),
            "the newest stay"
        );
        let both = vec![one(1, GrantDecision::Allowed), one(1, GrantDecision::Rejected)];
        let grants = GrantTable::restore(both, None);
        check(&grants, GrantDecision::Allowed, &[]);
        check(&grants, GrantDecision::Rejected, &[(2, "1")]);
    }

    #[test]
    fn grant_table_rejects_more_than_its_limit() {
        let grants = GrantTable::default();
        let many: Vec<GrantScope> = (0..GRANTS_MAX).map(|n| rule_grant(&n.to_string())).collect();
        assert!(grants.has_room(GRANTS_MAX) && !grants.has_room(GRANTS_MAX + 1));
        assert!(grants.record(GrantDecision::Allowed, &many, "person"));
        assert!(!grants.has_room(1));
        assert!(!grants.record(
            GrantDecision::Rejected,
            &[rule_grant("0"), rule_grant("new")],
            "person"
        ));
        assert_eq!(grants.list_grants(GrantDecision::Allowed).len(), GRANTS_MAX, "all or nothing");
        assert!(
            grants.record(GrantDecision::Rejected, &[rule_grant("0")], "person"),
            "it takes a place it has"
        );
    }
}
