//! Any rules, any mode, any command: no panic, and the laws that the tests try hold here too.
#![no_main]

#[path = "../../crates/zero-policy/tests/it/properties/choices.rs"]
mod choices;
#[path = "../../crates/zero-policy/tests/it/properties/generators.rs"]
mod generators;
#[path = "../../crates/zero-policy/tests/it/properties/invariants.rs"]
mod invariants;

use libfuzzer_sys::fuzz_target;

use choices::ChoiceSource;

fuzz_target!(|bytes: &[u8]| {
    let mut choices = ChoiceSource::new(bytes);
    let (_, check) = choices.pick(invariants::INVARIANTS);
    check(&mut choices);
});
