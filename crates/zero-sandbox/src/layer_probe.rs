//! Finds out by trying which layers of the sandbox this machine can enforce.
//!
//! A version number says little: bubblewrap may be installed but forbidden, and namespaces may
//! exist but be closed to us. So each layer is used once, and the result says why it does not work
//! and what would help.

mod bubblewrap;
mod kernel_info;

use std::sync::OnceLock;

use serde::Serialize;

pub(crate) use self::bubblewrap::BubblewrapProgram;
pub use self::kernel_info::KernelInfo;
use crate::confinement::landlock;

/// The sandbox layers that work on this machine.
#[derive(Clone, Debug)]
pub struct SandboxLayers {
    pub(crate) bubblewrap: Result<BubblewrapProgram, MissingLayer>,
    pub(crate) landlock: Result<i32, MissingLayer>,
    pub(crate) seccomp: Result<(), MissingLayer>,
}

/// Why a layer does not work, and what would help.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MissingLayer {
    pub(crate) why: String,
    pub(crate) fix: Option<String>,
}

/// One layer as a row for `zero doctor`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LayerReport {
    /// The name of the layer.
    pub name: &'static str,
    /// Whether it works on this machine.
    pub holds: bool,
    /// What was found, as a lowercase fragment.
    pub why: String,
    /// What the user can do to make it work.
    pub fix: Option<String>,
}

impl SandboxLayers {
    /// Tries each layer. The result of the first call is cached.
    pub fn probe() -> Self {
        static FOUND: OnceLock<SandboxLayers> = OnceLock::new();
        FOUND.get_or_init(Self::detect).clone()
    }

    fn detect() -> Self {
        Self {
            bubblewrap: bubblewrap::probe(),
            landlock: probe_landlock(),
            seccomp: probe_seccomp(),
        }
    }

    /// Whether commands can have namespaces of their own, networks among them.
    pub fn has_namespaces(&self) -> bool {
        self.bubblewrap.is_ok()
    }

    /// The same layers without bubblewrap.
    #[must_use]
    pub fn without_bubblewrap(mut self) -> Self {
        let fix = Some("allow bubblewrap in the settings".to_owned());
        self.bubblewrap = Err(MissingLayer { why: "bubblewrap is disabled".to_owned(), fix });
        self
    }

    /// The same layers without Landlock.
    #[must_use]
    pub fn without_landlock(mut self) -> Self {
        self.landlock = Err(MissingLayer { why: "Landlock is disabled".to_owned(), fix: None });
        self
    }

    /// The same layers without a filter of system calls.
    #[must_use]
    pub fn without_seccomp(mut self) -> Self {
        self.seccomp = Err(MissingLayer { why: "seccomp is disabled".to_owned(), fix: None });
        self
    }

    /// One row per layer, for `zero doctor`.
    pub fn report(&self) -> Vec<LayerReport> {
        vec![
            layer_report("bubblewrap", &self.bubblewrap, BubblewrapProgram::describe),
            layer_report("landlock", &self.landlock, |abi| {
                format!("the kernel supports version {abi}")
            }),
            layer_report("seccomp", &self.seccomp, |()| {
                "the kernel supports system call filters".to_owned()
            }),
        ]
    }
}

fn layer_report<T>(
    name: &'static str,
    layer: &Result<T, MissingLayer>,
    found: impl Fn(&T) -> String,
) -> LayerReport {
    match layer {
        Ok(layer) => LayerReport { name, holds: true, why: found(layer), fix: None },
        Err(MissingLayer { why, fix }) => {
            LayerReport { name, holds: false, why: why.clone(), fix: fix.clone() }
        }
    }
}

fn probe_landlock() -> Result<i32, MissingLayer> {
    landlock::detect_abi().ok_or_else(|| MissingLayer {
        why: "the kernel has no Landlock, or it is disabled".to_owned(),
        fix: Some("use Linux 6.2 or later, with `landlock` in the boot option `lsm=`".to_owned()),
    })
}

#[expect(unsafe_code, reason = "the system call has no wrapper")]
fn probe_seccomp() -> Result<(), MissingLayer> {
    let action: u32 = libc::SECCOMP_RET_ERRNO;
    // SAFETY: `action` is live and only read; nothing is installed.
    let answer = unsafe {
        libc::syscall(
            libc::SYS_seccomp,
            libc::SECCOMP_GET_ACTION_AVAIL,
            0_u32,
            std::ptr::from_ref(&action),
        )
    };
    let known = cfg!(any(target_arch = "x86_64", target_arch = "aarch64"));
    if answer == 0 && known {
        return Ok(());
    }
    let why = if known {
        "the kernel does not support seccomp filters"
    } else {
        "there is no filter for this processor"
    };
    let fix = known.then(|| "use a kernel built with CONFIG_SECCOMP_FILTER".to_owned());
    Err(MissingLayer { why: why.to_owned(), fix })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_layer_reports_reason() {
        let layers = SandboxLayers::probe().without_bubblewrap().without_landlock();
        for report in layers.report().iter().take(2) {
            assert!(!report.holds && report.why.contains("is disabled"), "{report:?}");
        }
    }

    #[test]
    fn layer_report_describes_what_was_found() {
        for report in SandboxLayers::probe().report() {
            assert!(!report.why.is_empty(), "{report:?}");
        }
    }
}
