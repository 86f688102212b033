//! The files that every package contains, as they are below a prefix such as `/usr` or `~/.local`.
//!
//! `share/zero/install.json` says how the program beside it was installed, so that `zero update` knows whether to replace
//! it or which package manager does.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::json;

use super::program_build::BuiltProgram;
use super::release_info::ReleaseInfo;

/// Where the program finds how it was installed, from the prefix.
const RECEIPT: &str = "share/zero/install.json";
/// The list of all files of an archive, with which `install.sh --remove` removes them.
const FILE_LIST: &str = "share/zero/files.txt";

/// Documents of the repository that are packed.
const DOCUMENTS: [&str; 4] = ["LICENSE-APACHE", "LICENSE-MIT", "CHANGELOG.md", "README.md"];

/// Shells, and where their completions are.
const COMPLETIONS: [(&str, &str); 3] = [
    ("bash", "share/bash-completion/completions/zero"),
    ("zsh", "share/zsh/site-functions/_zero"),
    ("fish", "share/fish/vendor_completions.d/zero.fish"),
];

/// A file below a prefix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TreeFile {
    pub(super) path: String,
    pub(super) mode: u32,
    pub(super) content: Vec<u8>,
}

impl TreeFile {
    pub(super) fn text(path: &str, content: impl Into<Vec<u8>>) -> Self {
        Self { path: path.to_owned(), mode: 0o644, content: content.into() }
    }

    pub(super) fn program(path: &str, content: impl Into<Vec<u8>>) -> Self {
        Self { path: path.to_owned(), mode: 0o755, content: content.into() }
    }
}

/// All files of one package.
#[derive(Clone, Debug)]
pub(super) struct ProgramTree {
    /// In the order of their paths.
    pub(super) files: Vec<TreeFile>,
}

impl ProgramTree {
    /// The files for one way of installing, such as `deb`.
    pub(super) fn new(
        program: &BuiltProgram,
        shared: &[TreeFile],
        release: &ReleaseInfo,
        method: &str,
    ) -> Self {
        let mut files = shared.to_vec();
        files.push(TreeFile::program("bin/zero", program.content.clone()));
        let mut receipt = json!({
            "method": method,
            "version": release.version,
            "platform": program.platform.label,
        });
        if method == "archive" {
            receipt["address"] = json!(release.address);
            receipt["publicKey"] = json!(release.public_key);
        }
        files.push(TreeFile::text(RECEIPT, format!("{receipt:#}\n")));
        if method == "archive" {
            let mut paths: Vec<&str> = files.iter().map(|file| file.path.as_str()).collect();
            paths.push(FILE_LIST);
            paths.sort_unstable();
            let list = paths.join("\n") + "\n";
            files.push(TreeFile::text(FILE_LIST, list));
        }
        files.sort_by(|a, b| a.path.cmp(&b.path));
        Self { files }
    }
}

/// The files that do not depend on the platform. The program prints some of them.
pub(super) fn shared_files(root: &Path, program: &Path, licenses: &str) -> Result<Vec<TreeFile>> {
    let mut files = Vec::new();
    for name in DOCUMENTS {
        let content =
            std::fs::read(root.join(name)).with_context(|| format!("could not read {name}"))?;
        files.push(TreeFile::text(&format!("share/doc/zero/{name}"), content));
    }
    files.push(TreeFile::text("share/doc/zero/THIRD-PARTY-LICENSES.txt", licenses));
    for (shell, path) in COMPLETIONS {
        files.push(TreeFile::text(path, print(program, &["completions", shell])?));
    }
    add_manual_pages(program, &mut Vec::new(), &mut files)?;
    Ok(files)
}

/// Adds the page of a command and those of its subcommands, which the page itself lists.
fn add_manual_pages(
    program: &Path,
    command: &mut Vec<String>,
    files: &mut Vec<TreeFile>,
) -> Result<()> {
    let mut args = vec!["man"];
    args.extend(command.iter().map(String::as_str));
    let page = print(program, &args)?;
    let subcommands = listed_subcommands(&String::from_utf8_lossy(&page), command);
    let name = ["zero"]
        .into_iter()
        .chain(command.iter().map(String::as_str))
        .collect::<Vec<_>>()
        .join("-");
    files.push(TreeFile::text(&format!("share/man/man1/{name}.1"), page));
    for subcommand in subcommands {
        command.push(subcommand);
        add_manual_pages(program, command, files)?;
        command.pop();
    }
    Ok(())
}

/// The subcommands that a manual page refers to, as `zero\-tools\-call(1)`.
fn listed_subcommands(page: &str, command: &[String]) -> Vec<String> {
    let prefix = ["zero"]
        .into_iter()
        .chain(command.iter().map(String::as_str))
        .collect::<Vec<_>>()
        .join("\\-");
    let references = page.lines().filter_map(|line| line.strip_suffix("(1)"));
    let names = references.filter_map(|line| line.strip_prefix(&prefix)?.strip_prefix("\\-"));
    names.filter(|name| *name != "help").map(|name| name.replace("\\-", "-")).collect()
}

/// What the program prints. It sees no home folder, so that nothing of this machine is in it.
fn print(program: &Path, args: &[&str]) -> Result<Vec<u8>> {
    let output = Command::new(program)
        .args(args)
        .env_clear()
        .output()
        .with_context(|| format!("could not start {}", program.display()))?;
    ensure!(
        output.status.success() && !output.stdout.is_empty(),
        "`zero {}` failed: {}",
        args.join(" "),
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(output.stdout)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subcommands_are_read_from_manual_page() {
        let page = ".TP\nzero\\-tools(1)\nTools\n.TP\nzero\\-help(1)\n.TP\nzero\\-mcp(1)\n";
        assert_eq!(listed_subcommands(page, &[]), ["tools", "mcp"]);
        let page = ".TP\nzero\\-tools\\-call(1)\nCall\n";
        assert_eq!(listed_subcommands(page, &["tools".to_owned()]), ["call"]);
    }
}
