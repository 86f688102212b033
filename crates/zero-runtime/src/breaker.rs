//! A rest for tools that keep failing by themselves.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;
use zero_core::{Limits, Reason, ToolError, ToolName};

/// One circuit per tool. It opens after failures in a row that are the tool's own, and after a
/// pause lets a single call through to see whether the tool is well again.
#[derive(Debug)]
pub struct Breakers {
    failures_max: u32,
    pause: Duration,
    circuits: Mutex<HashMap<ToolName, Circuit>>,
}

#[derive(Debug)]
enum Circuit {
    Closed {
        failures: u32,
    },
    Open {
        since: Instant,
    },
    /// One call is trying.
    HalfOpen {
        since: Instant,
    },
}

/// How a call that was let through ended, as far as its tool is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Health {
    /// The tool worked.
    Well,
    /// The tool failed by itself.
    Unwell,
    /// It says nothing about the tool: bad input, a denial, a cancel.
    Unknown,
}

impl Breakers {
    /// Circuits as the limits say, all closed.
    pub fn new(limits: &Limits) -> Self {
        Self {
            failures_max: limits.breaker_failures_max,
            pause: limits.breaker_pause,
            circuits: Mutex::default(),
        }
    }

    /// Lets a call through, or says when to try again.
    pub fn check(&self, tool: &ToolName) -> Result<(), ToolError> {
        let mut circuits = self.circuits.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(circuit) = circuits.get_mut(tool) else { return Ok(()) };
        let since = match circuit {
            Circuit::Closed { .. } => return Ok(()),
            Circuit::Open { since } | Circuit::HalfOpen { since } => *since,
        };
        // A probe that never came back must not keep the circuit shut for ever.
        if since.elapsed() >= self.pause {
            *circuit = Circuit::HalfOpen { since: Instant::now() };
            return Ok(());
        }
        let wait = self.pause.saturating_sub(since.elapsed());
        let message = format!(
            "`{tool}` failed {} times in a row and rests; try again in {} s or use another tool",
            self.failures_max,
            wait.as_secs().max(1)
        );
        let wait_ms = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX);
        Err(ToolError::failed(Reason::CircuitOpen, message).with("retry_after_ms", wait_ms))
    }

    /// Learns how a call that was let through ended.
    pub fn learn(&self, tool: &ToolName, health: Health) {
        let mut circuits = self.circuits.lock().unwrap_or_else(PoisonError::into_inner);
        match (health, circuits.get_mut(tool)) {
            (Health::Well, Some(_)) => {
                circuits.remove(tool);
            }
            (Health::Unwell, None) => {
                circuits.insert(tool.clone(), self.after_failures(1));
            }
            (Health::Unwell, Some(circuit)) => {
                *circuit = match circuit {
                    Circuit::Closed { failures } => self.after_failures(*failures + 1),
                    Circuit::Open { .. } | Circuit::HalfOpen { .. } => {
                        Circuit::Open { since: Instant::now() }
                    }
                };
            }
            // A probe that proved nothing: the next call may probe at once.
            (Health::Unknown, Some(circuit @ Circuit::HalfOpen { .. })) => {
                let since = Instant::now().checked_sub(self.pause).unwrap_or_else(Instant::now);
                *circuit = Circuit::Open { since };
            }
            (Health::Well, None) | (Health::Unknown, _) => {}
        }
    }

    fn after_failures(&self, failures: u32) -> Circuit {
        if failures >= self.failures_max {
            Circuit::Open { since: Instant::now() }
        } else {
            Circuit::Closed { failures }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn it_opens_rests_and_probes() {
        let limits = Limits { breaker_failures_max: 2, ..Limits::default() };
        let (breakers, tool) = (Breakers::new(&limits), ToolName::new("T").unwrap());
        breakers.learn(&tool, Health::Unwell);
        breakers.learn(&tool, Health::Unknown);
        assert!(breakers.check(&tool).is_ok(), "one failure is not enough");
        breakers.learn(&tool, Health::Unwell);
        assert_eq!(breakers.check(&tool).unwrap_err().reason(), Some(Reason::CircuitOpen));

        tokio::time::advance(limits.breaker_pause).await;
        assert!(breakers.check(&tool).is_ok(), "one probe passes");
        assert!(breakers.check(&tool).is_err(), "and only one");
        breakers.learn(&tool, Health::Unwell);
        assert!(breakers.check(&tool).is_err(), "a failed probe opens it again");

        tokio::time::advance(limits.breaker_pause).await;
        assert!(breakers.check(&tool).is_ok());
        breakers.learn(&tool, Health::Well);
        assert!(
            breakers.check(&tool).is_ok() && breakers.check(&tool).is_ok(),
            "a good probe closes it"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_success_between_failures_starts_the_count_afresh() {
        let limits = Limits { breaker_failures_max: 2, ..Limits::default() };
        let (breakers, tool) = (Breakers::new(&limits), ToolName::new("T").unwrap());
        for _ in 0..10 {
            breakers.learn(&tool, Health::Unwell);
            breakers.learn(&tool, Health::Well);
        }
        assert!(breakers.check(&tool).is_ok());
    }
}
