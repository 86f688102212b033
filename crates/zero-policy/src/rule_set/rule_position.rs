//! Positions of rules in a rule set; the first match decides.

/// The earlier of two rules.
pub(super) fn earlier_rule(a: Option<usize>, b: Option<usize>) -> Option<usize> {
    a.into_iter().chain(b).min()
}

pub(super) fn set_if_empty(slot: &mut Option<usize>, place: usize) {
    slot.get_or_insert(place);
}
