//! Starts programs and confines them: commands of calls, jobs that outlive them, services that run
//! beside them, and the proxy through which all of these reach other hosts.
//!
//! Not here: who asked for a program and whether it may run at all. Whoever starts one brings the
//! answers: a [`CommandPolicy`] for what a program may reach, a [`egress::ConnectionLog`] for what
//! is recorded of its connections. How a sandbox is built is in `zero_sandbox`.

mod command_policy;
pub mod detached_thread;
pub mod egress;

pub use command_policy::{CommandPolicy, DeniedFiles};
pub use egress::{EgressConfig, EgressProxy, ResolverConfig};
