//! How a spawner confines its commands.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::layer_probe::SandboxLayers;

/// How long a prewarmed sandbox is kept after a command: about as long as a model thinks.
const PREWARM_FOR: Duration = Duration::from_secs(20);

/// Selects what enforces resource limits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LimitEnforcerChoice {
    /// Control groups where they are available, the watchdog for every other limit.
    #[default]
    Best,
    /// The watchdog for all limits.
    Watchdog,
}

/// Selects which layers of the sandbox are used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LayerSelection {
    /// All layers that work on this machine.
    #[default]
    All,
    /// All but bubblewrap: no namespaces.
    WithoutBubblewrap,
    /// All but Landlock.
    WithoutLandlock,
    /// None: the command runs outside the sandbox. Its limits apply, and it gains no privileges.
    Nothing,
}

impl LayerSelection {
    /// Removes the deselected layers from those of the machine.
    pub(super) fn apply(self, layers: SandboxLayers) -> SandboxLayers {
        match self {
            Self::All => layers,
            Self::WithoutBubblewrap => layers.without_bubblewrap(),
            Self::WithoutLandlock => layers.without_landlock(),
            Self::Nothing => layers.without_bubblewrap().without_landlock().without_seccomp(),
        }
    }
}

/// How a [`Spawner`](super::Spawner) confines commands; fixed for its lifetime.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpawnerSettings {
    /// What enforces resource limits.
    pub limits_by: LimitEnforcerChoice,
    /// Which layers of the sandbox are used.
    pub layers: LayerSelection,
    /// How long a sandbox is kept ready for the next command with the same profile. Placeholders
    /// for missing files stay on the host as long. With zero, no sandbox is prewarmed.
    pub ready_for: Duration,
}

impl Default for SpawnerSettings {
    fn default() -> Self {
        let (limits_by, layers) = (LimitEnforcerChoice::default(), LayerSelection::default());
        Self { limits_by, layers, ready_for: PREWARM_FOR }
    }
}
