//! How the running zero was installed, as the file says that its package put beside it.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use serde::Deserialize;
use zero_sandbox::ConfigFile;

/// The file, from the prefix that has the program in `bin`.
const RECEIPT: &str = "share/zero/install.json";
/// Largest file that is read.
const RECEIPT_BYTES_MAX: u64 = 64 * 1024;

/// Who installed zero.
#[derive(Debug)]
pub(super) enum InstallMethod {
    /// An archive of a release, which `zero update` replaces.
    Archive(InstallReceipt),
    /// A package manager, or a build from source.
    Other {
        name: &'static str,
        /// The command that updates it.
        command: &'static str,
    },
}

/// What an archive of a release says about itself.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct InstallReceipt {
    method: String,
    /// In the name of the archive, such as `x86_64-linux`.
    pub(super) platform: String,
    pub(super) address: Option<String>,
    pub(super) public_key: Option<String>,
    /// The folder with `bin` and `share`.
    #[serde(skip)]
    pub(super) prefix: PathBuf,
}

impl InstallReceipt {
    /// How the program at this path was installed.
    pub(super) fn find(program: &Path, home: Option<&Path>) -> anyhow::Result<InstallMethod> {
        let prefix = program.ancestors().nth(2).filter(|_| is_in_bin(program));
        let Some(prefix) = prefix else { return Ok(built_from_source(program, home)) };
        let path = prefix.join(RECEIPT);
        let unusable = || format!("could not read how zero was installed from {}", path.display());
        let Some(bytes) =
            ConfigFile::Own(path.clone()).read(RECEIPT_BYTES_MAX).with_context(unusable)?
        else {
            return Ok(built_from_source(program, home));
        };
        let receipt: Self = serde_json::from_slice(&bytes).with_context(unusable)?;
        let other = |name, command| Ok(InstallMethod::Other { name, command });
        match receipt.method.as_str() {
            "archive" => Ok(InstallMethod::Archive(Self { prefix: prefix.to_owned(), ..receipt })),
            "deb" => {
                other("apt", "sudo apt-get update && sudo apt-get install --only-upgrade zero")
            }
            "rpm" => other("dnf", "sudo dnf upgrade zero"),
            "npm" => other("npm", "npm install --global zero@latest"),
            "pip" => other(
                "pip",
                "pipx upgrade zero   # or: uv tool upgrade zero, pip install --upgrade zero",
            ),
            "brew" => other("brew", "brew upgrade zero"),
            "container" => other("its image", "podman pull IMAGE   # or: docker pull IMAGE"),
            method => anyhow::bail!(
                "{} says that zero was installed by `{method}`, which this version does not know; update it in the same way",
                path.display()
            ),
        }
    }
}

fn is_in_bin(program: &Path) -> bool {
    program.parent().and_then(Path::file_name).is_some_and(|name| name == "bin")
}

fn built_from_source(program: &Path, home: Option<&Path>) -> InstallMethod {
    let by_cargo = home.is_some_and(|home| program.starts_with(home.join(".cargo/bin")));
    let command =
        "cargo install --path crates/zero --locked --profile dist   # in a newer checkout";
    let name = if by_cargo { "cargo" } else { "a build from source" };
    InstallMethod::Other { name, command }
}
