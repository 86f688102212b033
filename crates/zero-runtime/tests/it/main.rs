//! The path of a call, walked from outside with tools made for the purpose.
#![expect(clippy::disallowed_methods, reason = "tests set up real files")]

mod fixture;
mod outcomes;
mod registry;
mod safety;
