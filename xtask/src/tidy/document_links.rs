//! Checks that links between documents lead somewhere, that their headings exist, and that the book
//! has every page.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::tidy_finding::TidyFinding;
use crate::markdown_links::{find_anchors, find_links, resolve};
use crate::repository::RepositoryFile;

/// The list of chapters of the book.
const SUMMARY: &str = "docs/SUMMARY.md";

/// Returns a finding for each link that leads nowhere, and each page that the book does not have.
pub(super) fn check(files: &[RepositoryFile], exists: &dyn Fn(&Path) -> bool) -> Vec<TidyFinding> {
    let pages: BTreeMap<&str, &RepositoryFile> = files
        .iter()
        .filter(|file| file.path.ends_with(".md"))
        .map(|file| (file.path.as_str(), file))
        .collect();
    let anchors: BTreeMap<&str, BTreeSet<String>> = pages
        .iter()
        .map(|(path, file)| (*path, find_anchors(&file.text).into_iter().collect()))
        .collect();
    let mut findings = Vec::new();
    for (path, page) in &pages {
        for link in find_links(&page.text) {
            let target = resolve(Path::new(path), &link.path);
            let shown = target.as_deref().map(|target| target.display().to_string());
            let shown = shown.unwrap_or_default();
            let problem = match (&target, &link.anchor) {
                (None, _) => Some(format!("the link `{}` leaves the repository", link.path)),
                (Some(target), _) if !exists(target) => Some(format!("there is no `{shown}`")),
                (Some(_), Some(anchor)) => match anchors.get(shown.as_str()) {
                    Some(known) if !known.contains(anchor) => {
                        Some(format!("`{shown}` has no heading `#{anchor}`"))
                    }
                    _ => None,
                },
                _ => None,
            };
            findings.extend(problem.map(|what| {
                let place = format!("{path}:{}", link.line);
                TidyFinding::new(&place, what, "link to a file and heading that exist")
            }));
        }
    }
    findings.extend(find_missing_chapters(&pages));
    findings
}

/// Pages in `docs` that are not in the list of chapters.
fn find_missing_chapters(pages: &BTreeMap<&str, &RepositoryFile>) -> Vec<TidyFinding> {
    let Some(summary) = pages.get(SUMMARY) else { return Vec::new() };
    let links = find_links(&summary.text);
    let chapters: BTreeSet<String> = links
        .iter()
        .filter_map(|link| resolve(Path::new(SUMMARY), &link.path))
        .map(|path| path.display().to_string())
        .collect();
    let is_page = |path: &&&str| path.starts_with("docs/") && **path != SUMMARY;
    let missing = pages.keys().filter(is_page).filter(|path| !chapters.contains(**path));
    missing
        .map(|path| {
            TidyFinding::new(*path, "it is not in the book".to_owned(), "add it to docs/SUMMARY.md")
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn broken_link_and_missing_chapter_are_found() {
        let file = |path: &str, text: &str| RepositoryFile { path: path.into(), text: text.into() };
        let files = [
            file(SUMMARY, "[A](a.md)\n"),
            file(
                "docs/a.md",
                "# A\n[b](b.md#here) [b](b.md#gone) [c](c.md) [up](../../x) [self](#a)\n",
            ),
            file("docs/b.md", "# Here\n"),
        ];
        let exists = |path: &Path| files.iter().any(|file| Path::new(&file.path) == path);
        let found: Vec<String> = check(&files, &exists).iter().map(ToString::to_string).collect();
        assert_eq!(
            found,
            [
                "docs/a.md:2: `docs/b.md` has no heading `#gone`; link to a file and heading that exist",
                "docs/a.md:2: there is no `docs/c.md`; link to a file and heading that exist",
                "docs/a.md:2: the link `../../x` leaves the repository; link to a file and heading that exist",
                "docs/b.md: it is not in the book; add it to docs/SUMMARY.md",
            ]
        );
    }
}
