//! The repository: its location, its files, and its metadata from cargo.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

/// Folders with generated files only.
const GENERATED: &[&str] = &["target", ".git", "corpus", "artifacts", "node_modules"];

/// The repository's top folder.
pub(crate) fn root() -> PathBuf {
    // Cargo sets the folder of this package whenever it runs it; the compiled-in path is for a
    // binary that is started by hand.
    let package = std::env::var_os("CARGO_MANIFEST_DIR")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
    package.parent().map_or_else(|| package.clone(), Path::to_owned)
}

/// A cargo command that runs in the repository.
pub(crate) fn cargo_command(args: &[&str]) -> Command {
    let program = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(program);
    command.args(args).current_dir(root());
    // The variables that cargo sets for this process must not reach the inner cargo: build scripts
    // of dependencies depend on some of them, and everything that needs these would be rebuilt each
    // time.
    for (name, _) in std::env::vars_os() {
        let name_text = name.to_string_lossy();
        if ["CARGO_PKG_", "CARGO_MANIFEST_"].iter().any(|about| name_text.starts_with(about)) {
            command.env_remove(&name);
        }
    }
    command
}

/// The output of `cargo metadata`, as far as it is needed here.
#[derive(Debug, Deserialize)]
pub(crate) struct CargoMetadata {
    pub(crate) packages: Vec<WorkspacePackage>,
    pub(crate) target_directory: PathBuf,
}

/// One crate of the workspace.
#[derive(Debug, Deserialize)]
pub(crate) struct WorkspacePackage {
    pub(crate) name: String,
    pub(crate) manifest_path: PathBuf,
    pub(crate) dependencies: Vec<ManifestDependency>,
}

/// One dependency in a manifest.
#[derive(Debug, Deserialize)]
pub(crate) struct ManifestDependency {
    pub(crate) name: String,
    /// `None` for an ordinary dependency, else `dev` or `build`.
    pub(crate) kind: Option<String>,
    /// Set for a crate of the workspace.
    pub(crate) path: Option<PathBuf>,
}

impl CargoMetadata {
    /// Runs `cargo metadata`. Needs no network.
    pub(crate) fn load() -> Result<Self> {
        let output =
            cargo_command(&["metadata", "--no-deps", "--format-version", "1", "--offline"])
                .output()
                .context("could not start cargo")?;
        ensure!(
            output.status.success(),
            "cargo metadata: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        serde_json::from_slice(&output.stdout).context("could not read what cargo metadata printed")
    }
}

/// One file of the repository, with its path relative to the top.
#[derive(Debug)]
pub(crate) struct RepositoryFile {
    pub(crate) path: String,
    pub(crate) text: String,
}

/// Every text file that is not generated, in order.
pub(crate) fn read_files(root: &Path) -> Result<Vec<RepositoryFile>> {
    let mut files = Vec::new();
    collect_files(root, root, &mut files)?;
    files.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(files)
}

fn collect_files(root: &Path, folder: &Path, files: &mut Vec<RepositoryFile>) -> Result<()> {
    let listing = std::fs::read_dir(folder)
        .with_context(|| format!("could not list {}", folder.display()))?;
    for entry in listing {
        let entry = entry?;
        let (path, kind) = (entry.path(), entry.file_type()?);
        let generated = GENERATED.iter().any(|name| entry.file_name() == *name);
        if kind.is_dir() && !generated {
            collect_files(root, &path, files)?;
        } else if kind.is_file() && !generated {
            let bytes = std::fs::read(&path)
                .with_context(|| format!("could not read {}", path.display()))?;
            // Binary files, such as pictures, are skipped: these checks are about text.
            if let Ok(text) = String::from_utf8(bytes) {
                let relative = path.strip_prefix(root).unwrap_or(&path);
                files.push(RepositoryFile { path: relative.to_string_lossy().into_owned(), text });
            }
        }
    }
    Ok(())
}
