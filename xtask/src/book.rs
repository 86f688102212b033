//! Builds the documentation as a book with search: `cargo xtask book`.
//!
//! The pages in `docs` are read on their own, too, so their links are those of the repository. In a
//! copy, links that leave `docs` lead to a copy of their target; pages among them become chapters.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::Instant;

use anyhow::{Context as _, Result, bail};

use crate::markdown_links::{find_links, resolve};
use crate::repository::{self, cargo_command};

/// The version of mdBook, so that the book is the same everywhere.
const MDBOOK: &str = "mdbook@0.5.4";
const TOOLS: &str = "target/tools";
const SOURCE: &str = "target/book/src";
const SUMMARY: &str = "docs/SUMMARY.md";
/// Longest time of a build without the installation of mdBook.
const SECONDS_MAX: f32 = 20.0;

/// Builds the book into `target/book/html`.
pub(crate) fn run() -> Result<ExitCode> {
    let root = repository::root();
    let program = root.join(TOOLS).join("bin/mdbook");
    if !program.is_file() {
        install(&root)?;
    }
    let began = Instant::now();
    let pages = write_source(&root)?;
    let mut build = Command::new(&program);
    build.args(["build", "--dest-dir"]).arg(root.join("target/book/html")).arg(&root);
    let done = build.stdin(Stdio::null()).status().context("could not start mdbook")?;
    if !done.success() {
        bail!("mdbook failed");
    }
    let seconds = began.elapsed().as_secs_f32();
    println!("{pages} pages in {seconds:.1} s: target/book/html/index.html");
    if seconds > SECONDS_MAX {
        bail!("the book took longer than {SECONDS_MAX} s");
    }
    Ok(ExitCode::SUCCESS)
}

fn install(root: &Path) -> Result<()> {
    eprintln!("== cargo install {MDBOOK} (once, into {TOOLS})");
    let mut install = cargo_command(&["install", MDBOOK, "--locked", "--no-default-features"]);
    install.args(["--features", "search", "--root"]).arg(root.join(TOOLS));
    install.arg("--target-dir").arg(root.join(TOOLS).join("build"));
    let done = install.status().context("could not start cargo")?;
    if !done.success() {
        bail!("mdBook could not be installed; is there a way to the package registry?");
    }
    let _ = std::fs::remove_dir_all(root.join(TOOLS).join("build"));
    Ok(())
}

/// Copies the pages and what they link to. Returns the number of chapters.
fn write_source(root: &Path) -> Result<usize> {
    let source = root.join(SOURCE);
    if source.exists() {
        std::fs::remove_dir_all(&source).context("could not remove the old copy")?;
    }
    let summary = std::fs::read_to_string(root.join(SUMMARY)).context(SUMMARY)?;
    let mut copied = BTreeSet::new();
    let mut waiting: Vec<PathBuf> = Vec::new();
    let mut chapters = Vec::new();
    copy_folder(root, Path::new("docs"), &mut waiting)?;
    while let Some(path) = waiting.pop() {
        if !copied.insert(path.clone()) {
            continue;
        }
        let target = source.join(book_path(&path));
        std::fs::create_dir_all(target.parent().unwrap_or(&source))?;
        if path.extension().is_none_or(|ending| ending != "md") || path == Path::new(SUMMARY) {
            std::fs::copy(root.join(&path), &target).with_context(|| path.display().to_string())?;
            continue;
        }
        let text = std::fs::read_to_string(root.join(&path))
            .with_context(|| path.display().to_string())?;
        let (text, linked) = rewrite_links(root, &path, &text);
        std::fs::write(&target, text)?;
        waiting.extend(linked);
        if !path.starts_with("docs") {
            chapters.push(path);
        }
    }
    chapters.sort();
    let mut whole = summary;
    if !chapters.is_empty() {
        whole += "\n# Repository\n\n";
    }
    for chapter in &chapters {
        let name = chapter.display();
        whole += &format!("- [{name}]({})\n", book_path(chapter).display());
    }
    std::fs::write(source.join("SUMMARY.md"), &whole)?;
    Ok(whole.matches("](").count())
}

fn copy_folder(root: &Path, folder: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    let mut entries: Vec<_> = std::fs::read_dir(root.join(folder))?.collect::<Result<_, _>>()?;
    entries.sort_by_key(std::fs::DirEntry::file_name);
    for entry in entries {
        let path = folder.join(entry.file_name());
        match entry.file_type()?.is_dir() {
            true => copy_folder(root, &path, files)?,
            false => files.push(path),
        }
    }
    Ok(())
}

/// Where a file of the repository is in the book.
fn book_path(path: &Path) -> PathBuf {
    match path.strip_prefix("docs") {
        Ok(page) => page.to_owned(),
        Err(_) => Path::new("repository").join(path),
    }
}

/// The text with links as they are in the book, and the files outside `docs` that it links to.
fn rewrite_links(root: &Path, page: &Path, text: &str) -> (String, Vec<PathBuf>) {
    let mut rewritten = String::with_capacity(text.len());
    let (mut end, mut linked) = (0, Vec::new());
    let depth = book_path(page).components().count().saturating_sub(1);
    for link in find_links(text) {
        let Some(target) = resolve(page, &link.path) else { continue };
        if target.starts_with("docs") && page.starts_with("docs") {
            continue;
        }
        rewritten += &text[end..link.start];
        end = link.end;
        let anchor = link.anchor.as_deref().map(|anchor| format!("#{anchor}")).unwrap_or_default();
        let is_file = root.join(&target).is_file();
        if is_file && !target.starts_with("docs") {
            linked.push(target.clone());
        }
        // A folder has no page of its own.
        let shown = match is_file {
            true => book_path(&target).display().to_string(),
            false => "index.html".to_owned(),
        };
        rewritten += &format!("{}{shown}{anchor}", "../".repeat(depth));
    }
    rewritten += &text[end..];
    (rewritten, linked)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_that_leave_the_pages_are_rewritten() {
        let root = repository::root();
        let text = "[a](../README.md#use), [b](undo.md), [c](https://x.org), `[d](../x)`\n";
        let (text, linked) = rewrite_links(&root, Path::new("docs/security.md"), text);
        assert_eq!(
            text,
            "[a](repository/README.md#use), [b](undo.md), [c](https://x.org), `[d](../x)`\n"
        );
        assert_eq!(linked, [PathBuf::from("README.md")]);
    }
}
