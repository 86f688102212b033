//! What all packages of a release have in common: texts, version, time, and their files.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

/// What the packages say about zero.
pub(super) const SUMMARY: &str = "Coding agent and sandboxed tool runtime in one binary";
pub(super) const DESCRIPTION: &str = "zero checks every tool call against your rules before it runs and records it in an audit \
                           log. Commands run in a sandbox. File edits can be undone.";
/// As in the licence. There is no address: SECURITY.md and the page of the repository say how to reach them.
pub(super) const MAINTAINER: &str = "The zero contributors";
pub(super) const LICENSE: &str = "MIT OR Apache-2.0";

/// How much time packing may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PackingEffort {
    /// As small as possible, for releases.
    Smallest,
    /// As fast as possible, for tests of what is installed.
    #[cfg(test)]
    Fastest,
}

/// What all packages of a release have in common.
#[derive(Clone, Debug)]
pub(super) struct ReleaseInfo {
    pub(super) version: String,
    /// Seconds since 1970: the time of the commit, which every file gets.
    pub(super) time: u32,
    pub(super) maintainer: String,
    /// Where the files will be fetched from, with a `/` at the end.
    pub(super) address: Option<String>,
    /// The minisign key that the sums are signed with, as `minisign` prints it.
    pub(super) public_key: Option<String>,
    pub(super) effort: PackingEffort,
}

/// One file of a release.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ReleaseFile {
    /// Path in the folder of the release.
    pub(super) name: String,
    pub(super) content: Vec<u8>,
}

impl ReleaseFile {
    pub(super) fn new(name: impl Into<String>, content: impl Into<Vec<u8>>) -> Self {
        Self { name: name.into(), content: content.into() }
    }
}

impl ReleaseInfo {
    pub(super) fn read(
        root: &Path,
        address: Option<String>,
        public_key: Option<String>,
    ) -> Result<Self> {
        Ok(Self {
            version: workspace_version(root)?,
            time: commit_time(root)?,
            maintainer: MAINTAINER.to_owned(),
            address,
            public_key,
            effort: PackingEffort::Smallest,
        })
    }
}

/// The version in the top manifest.
pub(super) fn workspace_version(root: &Path) -> Result<String> {
    let manifest = std::fs::read_to_string(root.join("Cargo.toml"))?;
    let mut lines = manifest.lines().skip_while(|line| *line != "[workspace.package]");
    let version = lines.find_map(|line| line.strip_prefix("version = \"")?.strip_suffix('"'));
    Ok(version.context("Cargo.toml has no version below [workspace.package]")?.to_owned())
}

/// The time of the newest commit; without a repository, as in an unpacked source archive, what SOURCE_DATE_EPOCH says.
fn commit_time(root: &Path) -> Result<u32> {
    if let Ok(named) = std::env::var("SOURCE_DATE_EPOCH") {
        return named.parse().context("SOURCE_DATE_EPOCH is no number of seconds since 1970");
    }
    let git = Command::new("git").args(["log", "-1", "--format=%ct"]).current_dir(root).output();
    let output = git.context("could not start git; or set SOURCE_DATE_EPOCH")?;
    let text = String::from_utf8_lossy(&output.stdout);
    text.trim()
        .parse()
        .context("git knows no commit here; set SOURCE_DATE_EPOCH to the time of the release")
}
