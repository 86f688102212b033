//! The pages of the documentation that are in the program.

/// A page.
#[derive(Debug)]
pub(super) struct HelpTopic {
    /// Its folder below `docs`.
    folder: &'static str,
    /// The name of its file, without the ending.
    pub(super) name: &'static str,
    pub(super) text: &'static str,
}

macro_rules! topics {
    ($($folder:literal / $name:literal,)*) => {
        &[$(HelpTopic {
            folder: $folder,
            name: $name,
            text: include_str!(concat!("../../../../../docs/", $folder, "/", $name, ".md")),
        }),*]
    };
}

/// All pages, sorted by name within their folder.
pub(super) static TOPICS: &[HelpTopic] = topics![
    "start" / "editor",
    "start" / "first-project",
    "start" / "install",
    "start" / "quickstart",
    "how-to" / "budgets",
    "how-to" / "chat",
    "how-to" / "ci",
    "how-to" / "console",
    "how-to" / "dev-servers",
    "how-to" / "docker",
    "how-to" / "gateway",
    "how-to" / "hooks",
    "how-to" / "mcp-servers",
    "how-to" / "model-providers",
    "how-to" / "models",
    "how-to" / "monorepos",
    "how-to" / "move-in",
    "how-to" / "node",
    "how-to" / "package-managers",
    "how-to" / "permissions",
    "how-to" / "private-registries",
    "how-to" / "python",
    "how-to" / "questions",
    "how-to" / "rewind",
    "how-to" / "rust",
    "how-to" / "scripts",
    "how-to" / "several-gateways",
    "how-to" / "skills",
    "how-to" / "sub-agents",
    "how-to" / "team-gateway",
    "how-to" / "undo",
    "how-to" / "write-tools",
    "reference" / "acp",
    "reference" / "built-in-tools",
    "reference" / "cli",
    "reference" / "errors",
    "reference" / "files",
    "reference" / "gateway-protocol",
    "reference" / "limits",
    "reference" / "mcp",
    "reference" / "settings",
    "reference" / "tools-serve",
    "help" / "faq",
    "help" / "troubleshooting",
];

impl HelpTopic {
    /// Its name with the folder.
    pub(super) fn full_name(&self) -> String {
        format!("{}/{}", self.folder, self.name)
    }

    /// Its heading.
    pub(super) fn title(&self) -> &'static str {
        self.text.lines().next().unwrap_or_default().trim_start_matches('#').trim()
    }
}

/// The text of a page for a terminal: the lines of a paragraph are joined, and links to other pages are
/// only their words, because a terminal cannot follow them.
pub(super) fn prepare_page(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut is_code = false;
    let mut is_open = false;
    for line in text.lines() {
        let is_fence = line.trim_start().starts_with("```");
        let is_prose = !is_code && !is_fence && !is_block_start(line) && !line.trim().is_empty();
        if is_open && is_prose {
            plain.push(' ');
            push_without_links(&mut plain, line.trim_start());
            continue;
        }
        if !plain.is_empty() {
            plain.push('\n');
        }
        match is_code || is_fence {
            true => plain.push_str(line),
            false => push_without_links(&mut plain, line),
        }
        is_code ^= is_fence;
        // Headings and rows of tables are whole lines.
        let is_row = line.starts_with(['#', '|']);
        is_open = !is_code && !is_fence && !is_row && !line.trim().is_empty();
    }
    plain + "\n"
}

/// Whether a line begins a block of its own: a heading, a row of a table, an item of a list.
fn is_block_start(line: &str) -> bool {
    let line = line.trim_start();
    let number = line.trim_start_matches(|c: char| c.is_ascii_digit());
    line.starts_with(['#', '|', '>'])
        || line.starts_with("- ")
        || line.starts_with("* ")
        || (number.len() < line.len() && number.starts_with(". "))
}

fn push_without_links(plain: &mut String, line: &str) {
    let mut rest = line;
    while let Some(open) = rest.find('[') {
        let (before, link) = rest.split_at(open);
        let parts = link.find("](").and_then(|middle| {
            let end = link.get(middle..)?.find(')')? + middle;
            Some((link.get(1..middle)?, link.get(middle + 2..end)?, link.get(end + 1..)?))
        });
        // A bracket within inline code is none.
        let is_in_code = before.matches('`').count() % 2 == 1;
        match parts {
            Some((words, target, after))
                if !is_in_code && !target.contains("://") && !words.contains('[') =>
            {
                let before = before.strip_suffix('!').unwrap_or(before);
                plain.push_str(before);
                plain.push_str(words);
                rest = after;
            }
            _ => {
                plain.push_str(before);
                plain.push('[');
                rest = link.get(1..).unwrap_or_default();
            }
        }
    }
    plain.push_str(rest);
}

#[cfg(test)]
mod tests {
    #![expect(clippy::disallowed_methods, reason = "the test reads the repository")]
    use super::*;

    /// Reference pages that are not in the program: on how zero is tested and measured, and the
    /// schemas of the tools, which `zero tools show` prints.
    const LEFT_OUT: [&str; 5] = ["chaos", "contracts", "interop", "performance", "tools"];

    #[test]
    fn every_page_for_users_is_a_topic() {
        for folder in ["start", "how-to", "reference"] {
            let path = format!("{}/../../docs/{folder}", env!("CARGO_MANIFEST_DIR"));
            let mut files: Vec<String> = std::fs::read_dir(path)
                .unwrap()
                .map(|entry| {
                    entry.unwrap().file_name().to_string_lossy().trim_end_matches(".md").to_owned()
                })
                .filter(|name| folder != "reference" || !LEFT_OUT.contains(&name.as_str()))
                .collect();
            files.sort();
            let topics: Vec<&str> = TOPICS
                .iter()
                .filter(|topic| topic.folder == folder)
                .map(|topic| topic.name)
                .collect();
            assert_eq!(topics, files);
        }
    }

    #[test]
    fn topic_names_are_unique() {
        let mut names: Vec<&str> = TOPICS.iter().map(|topic| topic.name).collect();
        names.sort_unstable();
        let count = names.len();
        names.dedup();
        assert_eq!(names.len(), count);
    }

    #[test]
    fn page_links_become_words() {
        for (text, expected) in [
            ("see [rules](../concepts/policy.md#rules).\n", "see rules.\n"),
            ("[a](b.md) and [c](https://d.org)\n", "a and [c](https://d.org)\n"),
            ("`[x](y)` stays\n", "`[x](y)` stays\n"),
            ("- [ ] [a](b)\n", "- [ ] a\n"),
            ("```\n[x](y)\n```\n", "```\n[x](y)\n```\n"),
            ("![picture](a.svg)\n", "picture\n"),
        ] {
            assert_eq!(prepare_page(text), expected);
        }
    }

    #[test]
    fn lines_of_a_paragraph_are_joined() {
        for (text, expected) in [
            ("# A\nb\nc\n\nd\n", "# A\nb c\n\nd\n"),
            ("- a\n  b\n- c\n1. d\n", "- a b\n- c\n1. d\n"),
            ("| a |\n|---|\n| b |\n", "| a |\n|---|\n| b |\n"),
            ("a\n```sh\nb\nc\n```\nd\n", "a\n```sh\nb\nc\n```\nd\n"),
        ] {
            assert_eq!(prepare_page(text), expected);
        }
    }
}
