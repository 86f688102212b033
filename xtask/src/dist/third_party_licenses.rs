//! The licences of the crates in the program, as most of them demand: each text once, with the crates that it is for.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use anyhow::{Context, Result};

use super::software_bill::{CratePackage, DependencyTree};

/// How the names of files with licences begin.
const FILE_NAMES: [&str; 5] = ["license", "licence", "copying", "copyright", "notice"];
/// Largest file that is taken for a licence.
const LICENSE_BYTES_MAX: u64 = 256 * 1024;

/// All texts in one, ordered by the first crate of each.
pub(super) fn collect(tree: &DependencyTree) -> Result<String> {
    let mut crates_by_text: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut list = String::new();
    let mut packages: Vec<&CratePackage> =
        tree.packages.values().filter(|package| package.is_foreign()).collect();
    packages.sort_by(|a, b| (&a.name, &a.version).cmp(&(&b.name, &b.version)));
    for package in packages {
        let name = format!("{} {}", package.name, package.version);
        writeln!(list, "{name}: {}", package.license.as_deref().unwrap_or("see its text"))?;
        let folder = package.folder().context("a crate has no folder")?;
        for text in read_licenses(folder)? {
            crates_by_text.entry(text).or_default().push(name.clone());
        }
    }
    let mut texts: Vec<(&String, &Vec<String>)> = crates_by_text.iter().collect();
    texts.sort_by(|a, b| (a.1, a.0).cmp(&(b.1, b.0)));
    let mut all = format!("zero contains these crates, under these licences:\n\n{list}");
    for (text, crates) in texts {
        write!(all, "\n{}\n{}\n\n{text}\n", "=".repeat(80), crates.join(", "))?;
    }
    Ok(all)
}

/// The texts in a crate's folder, in the order of their names.
fn read_licenses(folder: &Path) -> Result<Vec<String>> {
    let mut paths = Vec::new();
    for entry in
        std::fs::read_dir(folder).with_context(|| format!("could not list {}", folder.display()))?
    {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().to_lowercase();
        let is_file = entry.file_type()?.is_file() && entry.metadata()?.len() <= LICENSE_BYTES_MAX;
        if is_file && FILE_NAMES.iter().any(|start| name.starts_with(start)) {
            paths.push(entry.path());
        }
    }
    paths.sort();
    let mut texts = Vec::new();
    for path in paths {
        let text = String::from_utf8_lossy(&std::fs::read(&path)?).replace("\r\n", "\n");
        texts.push(text.trim().to_owned());
    }
    Ok(texts)
}
