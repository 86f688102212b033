//! What a person settled for the rest of a session: what is allowed, and what is not asked again.
//!
//! It is kept in memory only and dies with the session. A later answer about the same thing takes
//! the place of an earlier one, so nothing is ever both allowed and rejected.

use std::sync::{Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use serde::Serialize;
use zero_policy::Grant;

/// Most answers a session keeps; once there is no room for more, none is offered.
const STANDING_MAX: usize = 1_000;

/// Something a person settled for the rest of a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct StandingAnswer {
    /// What it is revoked by; never used twice in a session.
    pub id: u64,
    /// What it is about.
    #[serde(flatten)]
    pub grant: Grant,
    /// When they said so.
    pub time: Timestamp,
    /// Who said so.
    pub by: String,
}

/// Which way something was settled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stand {
    Allowed,
    Rejected,
}

/// The standing answers of one session.
#[derive(Debug, Default)]
pub(crate) struct Grants {
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    last_id: u64,
    answers: Vec<(Stand, StandingAnswer)>,
}

impl Grants {
    /// Whether so many more can be kept.
    pub(crate) fn has_room(&self, more: usize) -> bool {
        self.kept().answers.len().saturating_add(more) <= STANDING_MAX
    }

    /// Settles all of `grants`, or, where there is no room for them, none. True when it did.
    pub(crate) fn settle(&self, stand: Stand, grants: &[Grant], by: &str) -> bool {
        let mut kept = self.kept();
        let others =
            kept.answers.iter().filter(|(_, answer)| !grants.contains(&answer.grant)).count();
        if others.saturating_add(grants.len()) > STANDING_MAX {
            return false;
        }
        let time = Timestamp::now();
        for grant in grants {
            kept.answers.retain(|(_, answer)| answer.grant != *grant);
            kept.last_id += 1;
            let (id, grant, by) = (kept.last_id, grant.clone(), by.to_owned());
            kept.answers.push((stand, StandingAnswer { id, grant, time, by }));
        }
        true
    }

    /// What was settled this way, oldest first.
    pub(crate) fn list(&self, stand: Stand) -> Vec<StandingAnswer> {
        self.each(stand, Clone::clone)
    }

    /// The same, without when and by whom.
    pub(crate) fn of(&self, stand: Stand) -> Vec<Grant> {
        self.each(stand, |answer| answer.grant.clone())
    }

    /// Takes one back; false when there is none of that id.
    pub(crate) fn revoke(&self, id: u64) -> bool {
        let mut kept = self.kept();
        let before = kept.answers.len();
        kept.answers.retain(|(_, answer)| answer.id != id);
        kept.answers.len() < before
    }

    /// Takes all back; says how many there were.
    pub(crate) fn revoke_all(&self) -> usize {
        std::mem::take(&mut self.kept().answers).len()
    }

    fn each<T>(&self, stand: Stand, wanted: impl Fn(&StandingAnswer) -> T) -> Vec<T> {
        let kept = self.kept();
        let ours = kept.answers.iter().filter(|(other, _)| *other == stand);
        ours.map(|(_, answer)| wanted(answer)).collect()
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The same text as a grant of nothing but a rule.
#[cfg(test)]
pub(crate) fn rule(text: &str) -> Grant {
    Grant { rule: text.to_owned(), folder: None, program: None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(grants: &Grants, stand: Stand, expected: &[(u64, &str)]) {
        let list = grants.list(stand);
        let found: Vec<(u64, &str)> =
            list.iter().map(|answer| (answer.id, answer.grant.rule.as_str())).collect();
        assert_eq!(found, expected, "{stand:?}");
        assert!(list.iter().all(|answer| answer.by == "person"));
    }

    #[test]
    fn the_later_answer_takes_the_place_of_the_earlier() {
        let grants = Grants::default();
        assert!(grants.settle(Stand::Allowed, &[rule("a"), rule("b"), rule("a")], "person"));
        check(&grants, Stand::Allowed, &[(2, "b"), (3, "a")]);
        let elsewhere = Grant { folder: Some("/x".to_owned()), ..rule("a") };
        assert!(grants.settle(Stand::Rejected, &[rule("a"), elsewhere.clone()], "person"));
        check(&grants, Stand::Allowed, &[(2, "b")]);
        check(&grants, Stand::Rejected, &[(4, "a"), (5, "a")]);
        assert!(grants.settle(Stand::Allowed, &[rule("a")], "person"));
        assert_eq!(grants.of(Stand::Rejected), [elsewhere], "another folder is another thing");
    }

    #[test]
    fn what_is_revoked_is_gone_and_its_id_with_it() {
        let grants = Grants::default();
        grants.settle(Stand::Allowed, &[rule("a"), rule("b")], "person");
        grants.settle(Stand::Rejected, &[rule("c")], "person");
        assert!(grants.revoke(2) && !grants.revoke(2) && !grants.revoke(99));
        check(&grants, Stand::Allowed, &[(1, "a")]);
        assert_eq!(grants.revoke_all(), 2);
        grants.settle(Stand::Allowed, &[rule("b")], "person");
        check(&grants, Stand::Allowed, &[(4, "b")]);
        check(&grants, Stand::Rejected, &[]);
    }

    #[test]
    fn there_is_room_for_so_many_and_no_more() {
        let grants = Grants::default();
        let many: Vec<Grant> = (0..STANDING_MAX).map(|n| rule(&n.to_string())).collect();
        assert!(grants.has_room(STANDING_MAX) && !grants.has_room(STANDING_MAX + 1));
        assert!(grants.settle(Stand::Allowed, &many, "person"));
        assert!(!grants.has_room(1));
        assert!(!grants.settle(Stand::Rejected, &[rule("0"), rule("new")], "person"));
        assert_eq!(grants.of(Stand::Allowed).len(), STANDING_MAX, "all or nothing");
        assert!(grants.settle(Stand::Rejected, &[rule("0")], "person"), "it takes a place it has");
    }
}
