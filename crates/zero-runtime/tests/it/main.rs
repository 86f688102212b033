//! The path of a call, walked from outside with tools made for the purpose.
#![expect(clippy::disallowed_methods, reason = "tests set up real files")]
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod answers;
mod audit_chain;
mod egress;
mod egress_clients;
mod egress_fixture;
mod fixture;
mod outcomes;
mod registry;
mod safety;
mod sessions;
