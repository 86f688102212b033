//! Tests of the call path from outside, with tools made for the purpose.
#![expect(clippy::disallowed_methods, reason = "tests set up real files")]
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod approvals;
mod audit_chain;
mod call_outcomes;
mod egress;
mod egress_clients;
mod egress_fixture;
mod fixture;
mod held_connections;
mod owner_shares;
mod redaction_and_limits;
mod registry;
mod sessions;
