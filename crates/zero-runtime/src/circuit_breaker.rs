//! Pauses tools that fail repeatedly.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;
use zero_core::{ErrorReason, HostLimits, ToolError, ToolName};

/// One circuit per tool, for the sessions of one owner: failures in one owner's calls do not pause a
/// tool for another. It opens after consecutive failures of the tool itself, and after a pause lets
/// a single call through to test the tool.
#[derive(Debug)]
pub struct CircuitBreakers {
    failures_max: u32,
    pause: Duration,
    circuits: Mutex<HashMap<ToolName, CircuitState>>,
}

#[derive(Debug)]
enum CircuitState {
    Closed {
        failures: u32,
    },
    Open {
        since: Instant,
    },
    /// One call tests the tool.
    HalfOpen {
        since: Instant,
    },
}

/// What the result of a call says about its tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ToolHealth {
    /// The tool worked.
    Healthy,
    /// The tool itself failed.
    Failing,
    /// Nothing: bad input, a denial, a cancellation.
    Unknown,
}

impl CircuitBreakers {
    /// Closed circuits with the given limits.
    pub fn new(limits: &HostLimits) -> Self {
        Self {
            failures_max: limits.breaker_failures_max,
            pause: limits.breaker_pause,
            circuits: Mutex::default(),
        }
    }

    /// Lets a call through, or returns when to try again.
    pub fn check(&self, tool: &ToolName) -> Result<(), ToolError> {
        let mut circuits = self.circuits.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(circuit) = circuits.get_mut(tool) else { return Ok(()) };
        let since = match circuit {
            CircuitState::Closed { .. } => return Ok(()),
            CircuitState::Open { since } | CircuitState::HalfOpen { since } => *since,
        };
        // A probe that never returned must not keep the circuit open forever.
        if since.elapsed() >= self.pause {
            *circuit = CircuitState::HalfOpen { since: Instant::now() };
            return Ok(());
        }
        let wait = self.pause.saturating_sub(since.elapsed());
        let message = format!(
            "`{tool}` failed {} times in a row and is paused; try again in {} s or use another tool",
            self.failures_max,
            wait.as_secs().max(1)
        );
        let wait_ms = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX);
        Err(ToolError::failed(ErrorReason::CircuitOpen, message)
            .with_detail("retry_after_ms", wait_ms))
    }

    /// Records how a call that was let through ended.
    pub fn record_health(&self, tool: &ToolName, health: ToolHealth) {
        let mut circuits = self.circuits.lock().unwrap_or_else(PoisonError::into_inner);
        match (health, circuits.get_mut(tool)) {
            (ToolHealth::Healthy, Some(_)) => {
                circuits.remove(tool);
            }
            (ToolHealth::Failing, None) => {
                circuits.insert(tool.clone(), self.state_after_failures(1));
            }
            (ToolHealth::Failing, Some(circuit)) => {
                *circuit = match circuit {
                    CircuitState::Closed { failures } => self.state_after_failures(*failures + 1),
                    CircuitState::Open { .. } | CircuitState::HalfOpen { .. } => {
                        CircuitState::Open { since: Instant::now() }
                    }
                };
            }
            // The probe was inconclusive: the next call may probe at once.
            (ToolHealth::Unknown, Some(circuit @ CircuitState::HalfOpen { .. })) => {
                let since = Instant::now().checked_sub(self.pause).unwrap_or_else(Instant::now);
                *circuit = CircuitState::Open { since };
            }
            (ToolHealth::Healthy, None) | (ToolHealth::Unknown, _) => {}
        }
    }

    fn state_after_failures(&self, failures: u32) -> CircuitState {
        if failures >= self.failures_max {
            CircuitState::Open { since: Instant::now() }
        } else {
            CircuitState::Closed { failures }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn breaker_opens_pauses_and_probes() {
        let limits = HostLimits { breaker_failures_max: 2, ..HostLimits::default() };
        let (breakers, tool) = (CircuitBreakers::new(&limits), ToolName::new("T").unwrap());
        breakers.record_health(&tool, ToolHealth::Failing);
        breakers.record_health(&tool, ToolHealth::Unknown);
        assert!(breakers.check(&tool).is_ok(), "one failure is not enough");
        breakers.record_health(&tool, ToolHealth::Failing);
        assert_eq!(breakers.check(&tool).unwrap_err().reason(), Some(ErrorReason::CircuitOpen));

        tokio::time::advance(limits.breaker_pause).await;
        assert!(breakers.check(&tool).is_ok(), "one probe passes");
        assert!(breakers.check(&tool).is_err(), "and only one");
        breakers.record_health(&tool, ToolHealth::Failing);
        assert!(breakers.check(&tool).is_err(), "a failed probe opens it again");

        tokio::time::advance(limits.breaker_pause).await;
        assert!(breakers.check(&tool).is_ok());
        breakers.record_health(&tool, ToolHealth::Healthy);
        assert!(
            breakers.check(&tool).is_ok() && breakers.check(&tool).is_ok(),
            "a good probe closes it"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn success_between_failures_resets_count() {
        let limits = HostLimits { breaker_failures_max: 2, ..HostLimits::default() };
        let (breakers, tool) = (CircuitBreakers::new(&limits), ToolName::new("T").unwrap());
        for _ in 0..10 {
            breakers.record_health(&tool, ToolHealth::Failing);
            breakers.record_health(&tool, ToolHealth::Healthy);
        }
        assert!(breakers.check(&tool).is_ok());
    }
}
