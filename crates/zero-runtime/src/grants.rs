//! What a person settled for the rest of a session: what is allowed, and what is not asked again.
//!
//! It is kept in memory, and dies with the session unless its owner keeps it: they are told what
//! stands whenever that changes, and may bring it back. A later answer about the same thing takes the
//! place of an earlier one, so nothing is ever both allowed and rejected.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use serde::Serialize;
use zero_policy::GrantScope;

/// Most answers a session keeps; once there is no room for more, none is offered.
const STANDING_MAX: usize = 1_000;

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
    /// It is allowed.
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
    pub(crate) fn restored(standing: Vec<SavedGrant>, keeper: Option<GrantStore>) -> Self {
        let mut kept = GrantTableState::default();
        for SavedGrant { stand, grant, time, by } in standing {
            kept.put(stand, grant, time, by);
        }
        let too_many = kept.answers.len().saturating_sub(STANDING_MAX);
        kept.answers.drain(..too_many);
        Self { kept: Mutex::new(kept), keeper, telling: Mutex::default() }
    }

    /// Whether so many more can be kept.
    pub(crate) fn has_room(&self, more: usize) -> bool {
        self.kept().answers.len().saturating_add(more) <= STANDING_MAX
    }

    /// Settles all of `grants`, or, where there is no room for them, none. True when it did.
    pub(crate) fn settle(&self, stand: GrantDecision, grants: &[GrantScope], by: &str) -> bool {
        let mut kept = self.kept();
        let others =
            kept.answers.iter().filter(|(_, answer)| !grants.contains(&answer.grant)).count();
        if others.saturating_add(grants.len()) > STANDING_MAX {
            return false;
        }
        let time = Timestamp::now();
        for grant in grants {
            kept.put(stand, grant.clone(), time, by.to_owned());
        }
        drop(kept);
        self.tell();
        true
    }

    /// All that stands, oldest first.
    pub(crate) fn standing(&self) -> Vec<SavedGrant> {
        let standing = |(stand, answer): &(GrantDecision, SessionGrant)| {
            let SessionGrant { grant, time, by, .. } = answer.clone();
            SavedGrant { stand: *stand, grant, time, by }
        };
        self.kept().answers.iter().map(standing).collect()
    }

    /// What was settled this way, oldest first.
    pub(crate) fn list(&self, stand: GrantDecision) -> Vec<SessionGrant> {
        self.each(stand, Clone::clone)
    }

    /// The same, without when and by whom.
    pub(crate) fn of(&self, stand: GrantDecision) -> Vec<GrantScope> {
        self.each(stand, |answer| answer.grant.clone())
    }

    /// Takes one back; false when there is none of that id.
    pub(crate) fn revoke(&self, id: u64) -> bool {
        let mut kept = self.kept();
        let before = kept.answers.len();
        kept.answers.retain(|(_, answer)| answer.id != id);
        let is_gone = kept.answers.len() < before;
        drop(kept);
        if is_gone {
            self.tell();
        }
        is_gone
    }

    /// Takes all back; says how many there were.
    pub(crate) fn revoke_all(&self) -> usize {
        let revoked = std::mem::take(&mut self.kept().answers).len();
        if revoked > 0 {
            self.tell();
        }
        revoked
    }

    fn tell(&self) {
        let Some(keeper) = &self.keeper else { return };
        let _in_order = self.telling.lock().unwrap_or_else(PoisonError::into_inner);
        keeper(self.standing());
    }

    fn each<T>(&self, stand: GrantDecision, wanted: impl Fn(&SessionGrant) -> T) -> Vec<T> {
        let kept = self.kept();
        let ours = kept.answers.iter().filter(|(other, _)| *other == stand);
        ours.map(|(_, answer)| wanted(answer)).collect()
    }

    fn kept(&self) -> MutexGuard<'_, GrantTableState> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl GrantTableState {
    /// Settles one thing, in the place of what was settled about it before.
    fn put(&mut self, stand: GrantDecision, grant: GrantScope, time: Timestamp, by: String) {
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
pub(crate) fn rule(text: &str) -> GrantScope {
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
    fn the_later_answer_takes_the_place_of_the_earlier() {
        let grants = GrantTable::default();
        assert!(grants.settle(
            GrantDecision::Allowed,
            &[rule("a"), rule("b"), rule("a")],
            "person"
        ));
        check(&grants, GrantDecision::Allowed, &[(2, "b"), (3, "a")]);
        let elsewhere = GrantScope { folder: Some("/x".to_owned()), ..rule("a") };
        assert!(grants.settle(GrantDecision::Rejected, &[rule("a"), elsewhere.clone()], "person"));
        check(&grants, GrantDecision::Allowed, &[(2, "b")]);
        check(&grants, GrantDecision::Rejected, &[(4, "a"), (5, "a")]);
        assert!(grants.settle(GrantDecision::Allowed, &[rule("a")], "person"));
        assert_eq!(
            grants.of(GrantDecision::Rejected),
            [elsewhere],
            "another folder is another thing"
        );
    }

    #[test]
    fn what_is_revoked_is_gone_and_its_id_with_it() {
        let grants = GrantTable::default();
        grants.settle(GrantDecision::Allowed, &[rule("a"), rule("b")], "person");
        grants.settle(GrantDecision::Rejected, &[rule("c")], "person");
        assert!(grants.revoke(2) && !grants.revoke(2) && !grants.revoke(99));
        check(&grants, GrantDecision::Allowed, &[(1, "a")]);
        assert_eq!(grants.revoke_all(), 2);
        grants.settle(GrantDecision::Allowed, &[rule("b")], "person");
        check(&grants, GrantDecision::Allowed, &[(4, "b")]);
        check(&grants, GrantDecision::Rejected, &[]);
    }

    #[test]
    fn whoever_keeps_them_hears_what_stands_and_can_bring_it_back() {
        let heard: Arc<Mutex<Vec<Vec<SavedGrant>>>> = Arc::default();
        let keeper: GrantStore = {
            let heard = Arc::clone(&heard);
            Arc::new(move |standing| heard.lock().unwrap().push(standing))
        };
        let told = || heard.lock().unwrap().len();
        let grants = GrantTable::restored(Vec::new(), Some(Arc::clone(&keeper)));
        grants.settle(GrantDecision::Allowed, &[rule("a"), rule("b")], "person");
        grants.settle(GrantDecision::Rejected, &[rule("b"), rule("c")], "person");
        assert_eq!(told(), 2);
        assert!(!grants.revoke(99));
        assert_eq!(told(), 2, "nothing changed");
        let kept = heard.lock().unwrap().pop().unwrap();
        assert_eq!(kept, grants.standing());

        let restored = GrantTable::restored(kept.clone(), Some(keeper));
        assert_eq!(restored.standing(), kept);
        check(&restored, GrantDecision::Allowed, &[(1, "a")]);
        check(&restored, GrantDecision::Rejected, &[(2, "b"), (3, "c")]);
        assert!(restored.revoke(2));
        assert_eq!(heard.lock().unwrap().pop().unwrap().len(), 2);
        assert_eq!(restored.revoke_all(), 2);
        assert_eq!(heard.lock().unwrap().pop().unwrap(), []);
        assert_eq!((restored.revoke_all(), told()), (0, 1));
    }

    #[test]
    fn what_is_brought_back_is_bounded_and_never_both() {
        let one = |number: usize, stand| SavedGrant {
            stand,
            grant: rule(&number.to_string()),
            time: Timestamp::UNIX_EPOCH,
            by: "person".to_owned(),
        };
        let many =
            (0..STANDING_MAX + 5).map(|number| one(number, GrantDecision::Allowed)).collect();
        let grants = GrantTable::restored(many, None);
        assert_eq!(grants.standing().len(), STANDING_MAX);
        assert_eq!(grants.of(GrantDecision::Allowed)[0], rule("5"), "the newest stay");
        let both = vec![one(1, GrantDecision::Allowed), one(1, GrantDecision::Rejected)];
        let grants = GrantTable::restored(both, None);
        check(&grants, GrantDecision::Allowed, &[]);
        check(&grants, GrantDecision::Rejected, &[(2, "1")]);
    }

    #[test]
    fn there_is_room_for_so_many_and_no_more() {
        let grants = GrantTable::default();
        let many: Vec<GrantScope> = (0..STANDING_MAX).map(|n| rule(&n.to_string())).collect();
        assert!(grants.has_room(STANDING_MAX) && !grants.has_room(STANDING_MAX + 1));
        assert!(grants.settle(GrantDecision::Allowed, &many, "person"));
        assert!(!grants.has_room(1));
        assert!(!grants.settle(GrantDecision::Rejected, &[rule("0"), rule("new")], "person"));
        assert_eq!(grants.of(GrantDecision::Allowed).len(), STANDING_MAX, "all or nothing");
        assert!(
            grants.settle(GrantDecision::Rejected, &[rule("0")], "person"),
            "it takes a place it has"
        );
    }
}
