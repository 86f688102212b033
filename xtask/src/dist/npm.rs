//! The npm packages: one with a launcher, and one for each platform with the program.
//!
//! The launcher's package names the others as optional dependencies, so that npm fetches the one for this platform. No
//! package runs a script when it is installed.

use std::path::Path;

use anyhow::{Context, Result};
use serde_json::{Map, Value, json};

use super::archive::{gzip, tar};
use super::platform::Platform;
use super::program_tree::{ProgramTree, TreeFile};
use super::release_info::{LICENSE, ReleaseFile, ReleaseInfo, SUMMARY};

/// The name of the launcher's package. Those of the platforms begin with it.
const NAME: &str = "zero";
/// The oldest Node that the launcher runs with.
const NODE: &str = ">=18";

pub(super) fn platform_package(
    root: &Path,
    tree: &ProgramTree,
    platform: &Platform,
    release: &ReleaseInfo,
) -> Result<ReleaseFile> {
    let name = platform_name(platform);
    let manifest = json!({
        "name": name,
        "version": release.version,
        "description": format!("{SUMMARY}: the program for Linux on {}", platform.node),
        "license": LICENSE,
        "os": ["linux"],
        "cpu": [platform.node],
        "libc": ["glibc"],
        "preferUnplugged": true,
    });
    let mut files = tree.files.clone();
    files.push(TreeFile::text("package.json", format!("{manifest:#}\n")));
    files.push(TreeFile::text("README.md", read(root, "platform.md")?));
    pack(&name, &files, release)
}

pub(super) fn launcher_package(
    root: &Path,
    platforms: &[&Platform],
    release: &ReleaseInfo,
) -> Result<ReleaseFile> {
    let dependencies: Map<String, Value> = platforms
        .iter()
        .map(|platform| (platform_name(platform), json!(release.version)))
        .collect();
    let manifest = json!({
        "name": NAME,
        "version": release.version,
        "description": SUMMARY,
        "license": LICENSE,
        "bin": {"zero": "bin/zero.js"},
        "engines": {"node": NODE},
        "optionalDependencies": dependencies,
    });
    let files = [
        TreeFile::text("package.json", format!("{manifest:#}\n")),
        TreeFile::program("bin/zero.js", read(root, "zero.js")?),
        TreeFile::text("README.md", read(root, "README.md")?),
        TreeFile::text("LICENSE-MIT", std::fs::read(root.join("LICENSE-MIT"))?),
        TreeFile::text("LICENSE-APACHE", std::fs::read(root.join("LICENSE-APACHE"))?),
    ];
    pack(NAME, &files, release)
}

pub(super) fn platform_name(platform: &Platform) -> String {
    format!("{NAME}-linux-{}", platform.node)
}

fn read(root: &Path, name: &str) -> Result<Vec<u8>> {
    std::fs::read(root.join("packaging/npm").join(name))
        .with_context(|| format!("could not read packaging/npm/{name}"))
}

/// Archives as `npm pack` names and lays them out.
fn pack(name: &str, files: &[TreeFile], release: &ReleaseInfo) -> Result<ReleaseFile> {
    let archive = gzip(&tar("package/", files, release.time)?, release.effort)?;
    Ok(ReleaseFile::new(format!("npm/{name}-{}.tgz", release.version), archive))
}
