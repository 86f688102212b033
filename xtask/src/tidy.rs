//! Checks what neither the compiler nor clippy can: dependencies between crates, cycles of imports
//! inside them, files that are not compiled, the documentation of modules, forbidden words, and the
//! tests that the threat model names.
//!
//! It runs as a test, so that no boundary changes unnoticed: a new dependency has to be added to
//! the table in [`crate_boundaries`], where a reviewer sees it.

mod build_profiles;
mod crate_boundaries;
mod document_links;
mod document_references;
mod import_cycles;
mod item_docs;
mod module_files;
mod text_checks;
mod tidy_finding;
mod vocabulary;

use std::process::ExitCode;

use anyhow::Result;

use self::tidy_finding::TidyFinding;
use crate::repository::{self, CargoMetadata, RepositoryFile};

/// Prints all violations.
pub(crate) fn run() -> Result<ExitCode> {
    let findings = check_repository()?;
    for finding in &findings {
        eprintln!("{finding}");
    }
    Ok(if findings.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn check_repository() -> Result<Vec<TidyFinding>> {
    let root = repository::root();
    let metadata = CargoMetadata::load()?;
    let files = repository::read_files(&root)?;
    let mut findings = crate_boundaries::check(&metadata, &root);
    findings.extend(crate_boundaries::check_reasons(&metadata, find_architecture(&files)));
    findings.extend(files.iter().flat_map(text_checks::check));
    findings.extend(files.iter().flat_map(item_docs::check));
    findings.extend(import_cycles::check(&files));
    findings.extend(module_files::check(&files));
    findings.extend(build_profiles::check(&files));
    findings.extend(vocabulary::check(&files));
    findings.extend(document_references::check(&files));
    findings.extend(document_links::check(&files, &|path| root.join(path).exists()));
    Ok(findings)
}

fn find_architecture(files: &[RepositoryFile]) -> &str {
    files.iter().find(|file| file.path == "ARCHITECTURE.md").map_or("", |file| &file.text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repository_is_tidy() {
        let findings: Vec<String> =
            check_repository().unwrap().iter().map(TidyFinding::to_string).collect();
        assert!(findings.is_empty(), "\n{}", findings.join("\n"));
    }
}
