//! Checks the invariants on many random calls. The fuzz target `policy_decide` checks them on many
//! more.

mod choices;
mod generators;
mod invariants;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{RngSeed, TestRunner};

use self::choices::ChoiceSource;

/// Checks one invariant. The cases are the same each time, because failures that occur only
/// sometimes tend to be ignored.
fn check_invariant(name: &str, cases: u32) {
    let (_, law) = invariants::INVARIANTS.iter().find(|(law, _)| *law == name).unwrap();
    let config =
        ProptestConfig { rng_seed: RngSeed::Fixed(2026), ..ProptestConfig::with_cases(cases) };
    let result = TestRunner::new(config).run(&vec(any::<u8>(), 0..64), |bytes| {
        law(&mut ChoiceSource::new(&bytes));
        Ok(())
    });
    if let Err(error) = result {
        panic!("{name}: {error}");
    }
}

#[test]
fn any_text_gets_decision() {
    check_invariant("any text is judged", 1000);
}

#[test]
fn stricter_rule_never_loosens_verdict() {
    check_invariant("a stricter rule makes nothing milder", 1000);
}

#[test]
fn allow_rule_never_overrides_stricter_rule() {
    check_invariant("an allow rule opens nothing that a rule closes", 1000);
}

#[test]
fn rule_order_does_not_change_verdict() {
    check_invariant("the order of rules means nothing", 1000);
}

#[test]
fn wrapper_never_loosens_verdict() {
    check_invariant("a wrapper makes nothing milder", 4000);
}

#[test]
fn spelling_never_loosens_verdict() {
    check_invariant("a spelling makes nothing milder", 1000);
}

#[test]
fn showing_option_never_loosens_verdict() {
    check_invariant("an option that shows makes nothing milder", 2000);
}

#[test]
fn grant_covers_exactly_its_call() {
    check_invariant("a grant does what it says and no more", 1000);
}

#[test]
fn session_mode_equals_engine_mode() {
    check_invariant("a session's mode counts like the engine's own", 1_000);
}
