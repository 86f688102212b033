//! Logging in at a server, and out again.

pub(crate) mod renewal;
mod web;
