//! The user's answers for the rest of a session: allowed and rejected scopes.
//!
//! Grants are kept in memory and end with the session, unless its owner stores them: the owner is
//! notified of every change and may restore them. A later answer about the same scope replaces an
//! earlier one, so no scope is both allowed and rejected.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use zero_policy::GrantScope;

/// Most grants of a session; when it is full, no session answers are offered.
const GRANTS_MAX: usize = 1_000;

/// An answer of the user for the rest of a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SessionGrant {
    /// The id by which it is revoked; never reused in a session.
    pub id: u64,
    /// The scope that it covers.
    #[serde(flatten)]
    pub grant: GrantScope,
    /// When it was given.
    pub time: Timestamp,
    /// Who gave it.
    pub by: String,
}

/// Whether a scope is allowed or rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GrantDecision {
    /// Allowed without asking for the rest of the session.
    Allowed,
    /// Rejected without asking for the rest of the session.
    Rejected,
}

/// A grant as the session's owner stores and restores it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SavedGrant {
    /// Allowed or rejected.
    pub decision: GrantDecision,
    /// The scope that it covers.
    pub grant: GrantScope,
    /// When it was given.
    pub time: Timestamp,
    /// Who gave it.
    pub by: String,
}

/// A grant as it is stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GrantRecord {
    /// Whether it is allowed; rejected otherwise.
    pub allowed: bool,
    /// What it covers.
    pub grant: GrantScope,
    /// Time, in milliseconds since the Unix epoch.
    pub time_ms: i64,
    /// Who decided it.
    pub by: String,
}

impl From<SavedGrant> for GrantRecord {
    fn from(saved: SavedGrant) -> Self {
        let SavedGrant { decision, grant, time, by } = saved;
        let allowed = decision == GrantDecision::Allowed;
        Self { allowed, grant, time_ms: time.as_millisecond(), by }
    }
}

impl From<GrantRecord> for SavedGrant {
    fn from(record: GrantRecord) -> Self {
        let GrantRecord { allowed, grant, time_ms, by } = record;
        let time = Timestamp::from_millisecond(time_ms).unwrap_or(Timestamp::UNIX_EPOCH);
        let decision = if allowed { GrantDecision::Allowed } else { GrantDecision::Rejected };
        Self { decision, grant, time, by }
    }
}

/// Receives all grants, oldest first, whenever they change. Must return at once, and must not call
/// the session.
pub type GrantStore = Arc<dyn Fn(Vec<SavedGrant>) + Send + Sync>;

/// The grants of one session.
#[derive(Default)]
pub(crate) struct GrantTable {
    grant_table: Mutex<GrantTableState>,
    store: Option<GrantStore>,
    /// Held while the store is notified, so that its last notification is the current state.
    notify_lock: Mutex<()>,
}

#[derive(Debug, Default)]
struct GrantTableState {
    last_id: u64,
    answers: Vec<(GrantDecision, SessionGrant)>,
}

impl GrantTable {
    /// Restores grants. If there are too many, the newest are kept.
    pub(crate) fn restore(saved: Vec<SavedGrant>, store: Option<GrantStore>) -> Self {
        let mut table = GrantTableState::default();
        for SavedGrant { decision, grant, time, by } in saved {
            table.insert(decision, grant, time, by);
        }
        let too_many = table.answers.len().saturating_sub(GRANTS_MAX);
        table.answers.drain(..too_many);
        Self { grant_table: Mutex::new(table), store, notify_lock: Mutex::default() }
    }

    /// Whether `more` further grants fit.
    pub(crate) fn has_room(&self, more: usize) -> bool {
        self.lock_state().answers.len().saturating_add(more) <= GRANTS_MAX
    }

    /// Records all of `grants`, or none if they do not fit. Returns whether it did.
    pub(crate) fn record(&self, decision: GrantDecision, grants: &[GrantScope], by: &str) -> bool {
        let mut grant_table = self.lock_state();
        let others = grant_table
            .answers
            .iter()
            .filter(|(_, answer)| !grants.contains(&answer.grant))
            .count();
        if others.saturating_add(grants.len()) > GRANTS_MAX {
            return false;
        }
        let time = Timestamp::now();
        for grant in grants {
            grant_table.insert(decision, grant.clone(), time, by.to_owned());
        }
        drop(grant_table);
        self.notify_store();
        true
    }

    /// All grants, oldest first.
    pub(crate) fn saved_grants(&self) -> Vec<SavedGrant> {
        let saved = |(decision, answer): &(GrantDecision, SessionGrant)| {
            let SessionGrant { grant, time, by, .. } = answer.clone();
            SavedGrant { decision: *decision, grant, time, by }
        };
        self.lock_state().answers.iter().map(saved).collect()
    }

    /// The grants with this decision, oldest first.
    pub(crate) fn list(&self, decision: GrantDecision) -> Vec<SessionGrant> {
        self.map_matching(decision, Clone::clone)
    }

    /// The scopes with this decision, oldest first.
    pub(crate) fn list_grants(&self, decision: GrantDecision) -> Vec<GrantScope> {
        self.map_matching(decision, |answer| answer.grant.clone())
    }

    /// Revokes one grant; returns false if there is none with that id.
    pub(crate) fn revoke(&self, id: u64) -> bool {
        let mut grant_table = self.lock_state();
        let before = grant_table.answers.len();
        grant_table.answers.retain(|(_, answer)| answer.id != id);
        let is_gone = grant_table.answers.len() < before;
        drop(grant_table);
        if is_gone {
            self.notify_store();
        }
        is_gone
    }

    /// Revokes the grants with this rule; returns how many there were.
    pub(crate) fn revoke_rule(&self, rule: &str) -> usize {
        let mut grant_table = self.lock_state();
        let before = grant_table.answers.len();
        grant_table.answers.retain(|(_, answer)| answer.grant.rule != rule);
        let revoked = before - grant_table.answers.len();
        drop(grant_table);
        if revoked > 0 {
            self.notify_store();
        }
        revoked
    }

    /// Revokes all grants; returns how many there were.
    pub(crate) fn revoke_all(&self) -> usize {
        let revoked = std::mem::take(&mut self.lock_state().answers).len();
        if revoked > 0 {
            self.notify_store();
        }
        revoked
    }

    /// Forgets grants that are no longer stored, without a notification of the store.
    pub(crate) fn forget(&self, revoked: &[GrantRecord]) {
        let is_revoked = |decision: GrantDecision, answer: &SessionGrant| {
            let SessionGrant { grant, time, by, .. } = answer.clone();
            revoked.contains(&SavedGrant { decision, grant, time, by }.into())
        };
        self.lock_state().answers.retain(|(decision, answer)| !is_revoked(*decision, answer));
    }

    fn notify_store(&self) {
        let Some(store) = &self.store else { return };
        let _in_order = self.notify_lock.lock().unwrap_or_else(PoisonError::into_inner);
        store(self.saved_grants());
    }

    fn map_matching<T>(
        &self,
        decision: GrantDecision,
        convert: impl Fn(&SessionGrant) -> T,
    ) -> Vec<T> {
        let grant_table = self.lock_state();
        let ours = grant_table.answers.iter().filter(|(other, _)| *other == decision);
        ours.map(|(_, answer)| convert(answer)).collect()
    }

    fn lock_state(&self) -> MutexGuard<'_, GrantTableState> {
        self.grant_table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl GrantTableState {
    /// Adds a grant and replaces an earlier one about the same scope.
    fn insert(&mut self, decision: GrantDecision, grant: GrantScope, time: Timestamp, by: String) {
        self.answers.retain(|(_, answer)| answer.grant != grant);
        self.last_id += 1;
        self.answers.push((decision, SessionGrant { id: self.last_id, grant, time, by }));
    }
}

impl fmt::Debug for GrantTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Grants").field("kept", &self.grant_table).finish_non_exhaustive()
    }
}

/// A scope with only a rule.
#[cfg(test)]
pub(crate) fn rule_grant(text: &str) -> GrantScope {
    GrantScope { rule: text.to_owned(), folder: None, program: None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(grants: &GrantTable, decision: GrantDecision, expected: &[(u64, &str)]) {
        let list = grants.list(decision);
        let found: Vec<(u64, &str)> =
            list.iter().map(|answer| (answer.id, answer.grant.rule.as_str())).collect();
        assert_eq!(found, expected, "{decision:?}");
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
            "another folder is another scope"
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
        let notifications: Arc<Mutex<Vec<Vec<SavedGrant>>>> = Arc::default();
        let store: GrantStore = {
            let notifications = Arc::clone(&notifications);
            Arc::new(move |saved| notifications.lock().unwrap().push(saved))
        };
        let count = || notifications.lock().unwrap().len();
        let grants = GrantTable::restore(Vec::new(), Some(Arc::clone(&store)));
        grants.record(GrantDecision::Allowed, &[rule_grant("a"), rule_grant("b")], "person");
        grants.record(GrantDecision::Rejected, &[rule_grant("b"), rule_grant("c")], "person");
        assert_eq!(count(), 2);
        assert!(!grants.revoke(99));
        assert_eq!(count(), 2, "nothing changed");
        let kept = notifications.lock().unwrap().pop().unwrap();
        assert_eq!(kept, grants.saved_grants());

        let restored = GrantTable::restore(kept.clone(), Some(store));
        assert_eq!(restored.saved_grants(), kept);
        check(&restored, GrantDecision::Allowed, &[(1, "a")]);
        check(&restored, GrantDecision::Rejected, &[(2, "b"), (3, "c")]);
        assert!(restored.revoke(2));
        assert_eq!(notifications.lock().unwrap().pop().unwrap().len(), 2);
        assert_eq!(restored.revoke_all(), 2);
        assert_eq!(notifications.lock().unwrap().pop().unwrap(), []);
        assert_eq!((restored.revoke_all(), count()), (0, 1));
    }

    #[test]
    fn restored_grants_are_bounded_and_unambiguous() {
        let one = |number: usize, decision| SavedGrant {
            decision,
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
            "the newest are kept"
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
            "it replaces an existing grant"
        );
    }
}
