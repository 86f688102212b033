//! Links and headings of Markdown files, as far as this repository writes them.

use std::path::{Component, Path, PathBuf};

/// A link to another file, or to a heading of the same one.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct PageLink {
    /// Where its target begins and ends in the text.
    pub(crate) start: usize,
    pub(crate) end: usize,
    /// Line, from 1.
    pub(crate) line: usize,
    /// The path as written; empty for a heading of the same file.
    pub(crate) path: String,
    pub(crate) anchor: Option<String>,
}

/// The links of a text to files. Code and links to the web are left out.
pub(crate) fn find_links(text: &str) -> Vec<PageLink> {
    let mut links = Vec::new();
    let (mut at, mut is_code) = (0, false);
    for (index, line) in text.split_inclusive('\n').enumerate() {
        if is_fence(line) {
            is_code = !is_code;
        } else if !is_code {
            let mut from = 0;
            while let Some(found) = line[from..].find("](") {
                let start = from + found + 2;
                let end = line[start..].find([')', '\n']).map_or(line.len(), |end| start + end);
                from = end;
                let is_inline_code = line[..start].matches('`').count() % 2 == 1;
                let target = line[start..end].trim();
                if is_inline_code || target.contains("://") || target.starts_with("mailto:") {
                    continue;
                }
                let (path, anchor) = match target.split_once('#') {
                    Some((path, anchor)) => (path, Some(anchor.to_owned())),
                    None => (target, None),
                };
                let path = path.to_owned();
                links.push(PageLink {
                    start: at + start,
                    end: at + end,
                    line: index + 1,
                    path,
                    anchor,
                });
            }
        }
        at += line.len();
    }
    links
}

/// The file that a link of a page leads to, relative to the repository; `None` if it leaves that.
pub(crate) fn resolve(page: &Path, link: &str) -> Option<PathBuf> {
    if link.is_empty() {
        return Some(page.to_owned());
    }
    let mut resolved = page.parent().unwrap_or(Path::new("")).to_owned();
    for part in Path::new(link).components() {
        match part {
            Component::ParentDir if !resolved.pop() => return None,
            Component::ParentDir | Component::CurDir => {}
            Component::Normal(name) => resolved.push(name),
            _ => return None,
        }
    }
    Some(resolved)
}

/// The anchors of the headings of a text, as mdBook and code hosts make them.
pub(crate) fn find_anchors(text: &str) -> Vec<String> {
    let mut anchors: Vec<String> = Vec::new();
    let mut is_code = false;
    for line in text.lines() {
        if is_fence(line) {
            is_code = !is_code;
        }
        let heading = line.trim_start_matches('#');
        if is_code || heading.len() == line.len() || !heading.starts_with(' ') {
            continue;
        }
        let base = anchor(heading.trim());
        let same = |name: &String| {
            *name == base
                || name.strip_prefix(&base).is_some_and(|end| {
                    end.strip_prefix('-').is_some_and(|number| number.parse::<u32>().is_ok())
                })
        };
        match anchors.iter().filter(|name| same(name)).count() {
            0 => anchors.push(base),
            count => anchors.push(format!("{base}-{count}")),
        }
    }
    anchors
}

fn anchor(heading: &str) -> String {
    // Of a link, only the words count.
    let mut words = String::new();
    let mut rest = heading;
    while let Some((before, after)) = rest.split_once("](") {
        words += before;
        rest = after.split_once(')').map_or("", |(_, after)| after);
    }
    words += rest;
    let plain = |c: char| match c {
        ' ' => Some('-'),
        c if c.is_alphanumeric() || "_-".contains(c) => Some(c),
        _ => None,
    };
    words.to_lowercase().chars().filter_map(plain).collect()
}

fn is_fence(line: &str) -> bool {
    line.trim_start().starts_with("```")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_outside_code_are_found() {
        let text =
            "[a](b.md#c) `[x](y)` [d](https://e.org)\n```\n[f](g)\n```\n![h](i.svg) [j](#k)\n";
        let found: Vec<(usize, String, Option<String>)> =
            find_links(text).into_iter().map(|link| (link.line, link.path, link.anchor)).collect();
        assert_eq!(
            found,
            [
                (1, "b.md".to_owned(), Some("c".to_owned())),
                (5, "i.svg".to_owned(), None),
                (5, String::new(), Some("k".to_owned())),
            ]
        );
    }

    #[test]
    fn anchors_are_those_of_code_hosts() {
        let text = "# Use `zero mcp`\n## A, b & c\n## A, b & c\n```\n# no\n```\n### [x](y.md) z\n";
        assert_eq!(find_anchors(text), ["use-zero-mcp", "a-b--c", "a-b--c-1", "x-z"]);
    }

    #[test]
    fn target_stays_in_repository() {
        let page = Path::new("docs/how-to/undo.md");
        assert_eq!(resolve(page, "../../README.md"), Some("README.md".into()));
        assert_eq!(resolve(page, "../../../x"), None);
        assert_eq!(resolve(page, "/x"), None);
        assert_eq!(resolve(page, ""), Some(page.into()));
    }
}
