//! Describes what a rule covers for users who do not know the syntax of rules.

/// What the rules of a question cover together. Rules are shown beside it, so that each has one clause.
pub(super) fn describe_rules<'a>(rules: impl Iterator<Item = &'a str>) -> String {
    let mut clauses: Vec<String> = Vec::new();
    for rule in rules {
        let clause = describe_rule(rule);
        if !clauses.contains(&clause) {
            clauses.push(clause);
        }
    }
    clauses.join("; ")
}

fn describe_rule(rule: &str) -> String {
    let parts = rule.split_once('(').and_then(|(tool, rest)| Some((tool, rest.strip_suffix(')')?)));
    let Some((tool, pattern)) = parts else { return format!("every call of `{rule}`") };
    match (tool, pattern.strip_prefix("domain:"), pattern.strip_suffix(":*")) {
        ("Bash", _, Some(start)) => format!("every command that begins with `{start}`"),
        // The only wildcard in a command; the others are ordinary characters there.
        ("Bash", ..) if pattern.contains('*') => format!("every command that matches `{pattern}`"),
        ("Bash", ..) => "exactly this command".to_owned(),
        (_, Some(host), _) => format!("connections to `{host}`"),
        ("Read" | "Edit" | "Write", ..) => {
            let verb = if tool == "Read" { "reading" } else { "changing" };
            let is_glob = pattern.contains(['*', '?', '[']);
            let pattern = as_written_path(pattern);
            match pattern.strip_suffix("/**") {
                Some(folder) => format!("{verb} any file below `{folder}`"),
                None if is_glob => format!("{verb} files that match `{pattern}`"),
                None => format!("{verb} `{pattern}`"),
            }
        }
        _ => format!("calls of `{tool}` that match `{pattern}`"),
    }
}

/// The path of a pattern as users write it: in rules, `//` starts at the root of the machine, and `/` in
/// the workspace.
fn as_written_path(pattern: &str) -> &str {
    match pattern.strip_prefix('/') {
        Some(path) if !path.is_empty() => path,
        _ => pattern,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_described_by_what_they_cover() {
        for (rules, expected) in [
            (&["Bash(npm ci)"][..], "exactly this command"),
            (&["Bash(git push:*)"], "every command that begins with `git push`"),
            (&["Bash(make *)"], "every command that matches `make *`"),
            (
                &["Bash(npm ci)", "WebFetch(domain:a.test)"],
                "exactly this command; connections to `a.test`",
            ),
            (&["Bash(pip install -e .[dev])"], "exactly this command"),
            (&["Edit(/src/**)"], "changing any file below `src`"),
            (&["Edit(/**)"], "changing files that match `**`"),
            (&["Edit(/src/[ab]?.c)"], "changing files that match `src/[ab]?.c`"),
            (&["Read(//etc/hosts)"], "reading `/etc/hosts`"),
            (&["Read(~/notes/**)"], "reading any file below `~/notes`"),
            (&["Bash(a)", "Bash(b)"], "exactly this command"),
            (&["db__query"], "every call of `db__query`"),
            (&["db__query(table:x)"], "calls of `db__query` that match `table:x`"),
        ] {
            assert_eq!(describe_rules(rules.iter().copied()), expected, "{rules:?}");
        }
    }
}
