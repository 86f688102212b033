//! A gateway on loopback, and clients that mean well or do not.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on fails")]

mod approvers;
mod attacks;
mod bounds;
mod bridge;
mod bridge_frames;
mod bridge_rig;
mod handshake;
mod lab;
mod life;
mod own_client;
mod reads;
mod remote_tools;
mod rig;
mod store;
mod talk;
mod tls;
