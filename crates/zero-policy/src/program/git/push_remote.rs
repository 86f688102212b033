//! The remote to which `git push` sends.
//!
//! A result of this search only adds a question about a repository on this machine: a form that is
//! not recognized opens nothing.

use crate::shell::ShellArg;

/// The remote that git uses if the command names none.
const DEFAULT_REMOTE: &str = "origin";
/// Options of `git push` that take no value.
const SWITCHES: &[&str] = &[
    "-u",
    "--set-upstream",
    "-q",
    "--quiet",
    "-v",
    "--verbose",
    "--tags",
    "--follow-tags",
    "--all",
    "--branches",
    "-f",
    "--force",
    "--atomic",
    "--no-verify",
    "--progress",
    "--prune",
    "-d",
    "--delete",
    "-n",
    "--dry-run",
];

/// The remote of a plain `git push`: a name, or a path.
pub(crate) fn find_push_remote(argv: &[ShellArg]) -> Option<&str> {
    let words: Vec<&str> = argv.iter().map_while(ShellArg::as_known).collect();
    let [program, "push", args @ ..] = words.as_slice() else { return None };
    let is_option = |word: &&str| word.starts_with('-');
    let are_switches = args.iter().filter(|word| is_option(word)).all(|it| SWITCHES.contains(it));
    if program.rsplit('/').next() != Some("git") || !are_switches || words.len() < argv.len() {
        return None;
    }
    Some(args.iter().find(|word| !is_option(word)).copied().unwrap_or(DEFAULT_REMOTE))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remote_of_plain_push_is_found() {
        for (line, expected) in [
            ("git push", Some("origin")),
            ("git push -u backup main", Some("backup")),
            ("/usr/bin/git push --quiet ../x.git main", Some("../x.git")),
            ("git push --repo=x", None),
            ("git push -o x y", None),
            ("git -C a push", None),
            ("git pull origin", None),
            ("hg push origin", None),
        ] {
            let words = line.split(' ').map(|word| ShellArg::Known(word.to_owned()));
            let argv: Vec<ShellArg> = words.collect();
            assert_eq!(find_push_remote(&argv), expected, "{line}");
        }
    }
}
