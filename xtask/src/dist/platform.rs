//! The platforms that zero is released for, and their names in each package format.

use anyhow::{Context, Result, bail};
use object::Architecture;

/// A platform, under the name that each tool has for it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Platform {
    /// Of archives: what `uname -m` and `uname -s` print, in lower case.
    pub(super) label: &'static str,
    pub(super) rust_target: &'static str,
    pub(super) debian: &'static str,
    pub(super) rpm: &'static str,
    /// `process.arch` of Node.
    pub(super) node: &'static str,
    /// In the tag of a wheel.
    pub(super) wheel: &'static str,
    /// In a Homebrew formula.
    pub(super) homebrew: &'static str,
    /// Key in an entry of the ACP registry.
    pub(super) acp: &'static str,
    architecture: Architecture,
}

pub(super) const PLATFORMS: [Platform; 2] = [
    Platform {
        label: "x86_64-linux",
        rust_target: "x86_64-unknown-linux-gnu",
        debian: "amd64",
        rpm: "x86_64",
        node: "x64",
        wheel: "x86_64",
        homebrew: "on_intel",
        acp: "linux-x86_64",
        architecture: Architecture::X86_64,
    },
    Platform {
        label: "aarch64-linux",
        rust_target: "aarch64-unknown-linux-gnu",
        debian: "arm64",
        rpm: "aarch64",
        node: "arm64",
        wheel: "aarch64",
        homebrew: "on_arm",
        acp: "linux-aarch64",
        architecture: Architecture::Aarch64,
    },
];

/// The platform with this label or Rust target.
pub(super) fn find(name: &str) -> Result<&'static Platform> {
    let named =
        PLATFORMS.iter().find(|platform| platform.label == name || platform.rust_target == name);
    named.with_context(|| {
        format!("zero is not released for `{name}`, but for {}", names().join(" and "))
    })
}

/// The platform of a program.
pub(super) fn of_architecture(architecture: Architecture) -> Result<&'static Platform> {
    match PLATFORMS.iter().find(|platform| platform.architecture == architecture) {
        Some(platform) => Ok(platform),
        None => bail!(
            "it is a program for {architecture:?}; zero is released for {}",
            names().join(" and ")
        ),
    }
}

fn names() -> Vec<&'static str> {
    PLATFORMS.iter().map(|platform| platform.label).collect()
}

impl Platform {
    /// Whether its programs run here.
    pub(super) fn is_this_machine(&self) -> bool {
        self.label == format!("{}-{}", std::env::consts::ARCH, std::env::consts::OS)
    }
}
