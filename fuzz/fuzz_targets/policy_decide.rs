//! Any rules, any mode, any command: no panic, and the laws that the tests try hold here too.
#![no_main]

#[path = "../../crates/zero-policy/tests/it/properties/choices.rs"]
mod choices;
#[path = "../../crates/zero-policy/tests/it/properties/laws.rs"]
mod laws;
#[path = "../../crates/zero-policy/tests/it/properties/material.rs"]
mod material;

use libfuzzer_sys::fuzz_target;

use choices::Choices;

fuzz_target!(|bytes: &[u8]| {
    let mut choices = Choices::new(bytes);
    let (_, law) = choices.pick(laws::LAWS);
    law(&mut choices);
});
