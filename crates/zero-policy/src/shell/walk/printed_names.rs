//! Commands that print only file names.
//!
//! `xargs` and `$( )` turn the output of a command into arguments. If that output can only be names
//! found beneath certain folders, their use can be evaluated by those folders. Any other word in
//! the output would be a file that was not evaluated, so an unlisted option ends the analysis.

use super::super::arg::ShellArg;
use crate::program::{self, CommandClass};
use crate::word_list::words;

/// The folders whose file names a command prints, if it prints nothing else. `read` are the folders
/// of the names that it reads.
pub(super) fn find_printed_names(
    argv: &[ShellArg],
    read: Option<Vec<ShellArg>>,
) -> Option<Vec<ShellArg>> {
    let (program, args) = argv.split_first()?;
    let program = program.as_known()?;
    let analysis = program::analyze(argv);
    let touched = || Some(analysis.touches.iter().map(|touch| touch.path.clone()).collect());
    let here = || Some(vec![ShellArg::known(".")]);
    // Whole lines of the input are passed on, unless a file is given to read instead.
    let passed = |table: &NamePrinterOptions, operands: usize| {
        let line = table.parse(args)?;
        read.clone().filter(|_| line.operands == operands)
    };
    match program {
        "find" => {
            let words = || args.iter().filter_map(ShellArg::as_known);
            let prints_more = words().any(|word| matches!(word, "-ls" | "-printf"));
            touched().filter(|_| analysis.class == CommandClass::ReadOnly && !prints_more)
        }
        "fd" | "fdfind" => FD.parse(args).and_then(|_| touched()),
        "rg" => {
            let line = RG.parse(args)?;
            touched().filter(|_| line.has(&["l", "files", "files-with-matches"]))
        }
        "grep" => match GREP_FOR_NAMES.parse(args) {
            Some(line) if line.has(&["l", "files-with-matches"]) => touched(),
            _ => passed(&GREP_FOR_LINES, 1),
        },
        "git" => {
            let args = args.strip_prefix(&[ShellArg::known("--no-pager")]).unwrap_or(args);
            let (command, args) = args.split_first()?;
            let (table, needs): (_, &[&str]) = match command.as_known()? {
                "ls-files" => (&LS_FILES, &[]),
                "diff" => (&DIFF, &["name-only"]),
                "grep" => (&GREP_FOR_NAMES, &["l", "files-with-matches"]),
                _ => return None,
            };
            let line = table.parse(args)?;
            here().filter(|_| needs.is_empty() || line.has(needs))
        }
        "ls" if args.is_empty() => here(),
        "head" | "tail" | "shuf" => passed(&HEAD, 0),
        "sort" => passed(&NamePrinterOptions { letters: "urnfhVRz", ..NO_OPTIONS }, 0),
        "uniq" => passed(&NamePrinterOptions { letters: "udiz", ..NO_OPTIONS }, 0),
        "cat" | "tac" => passed(&NO_OPTIONS, 0),
        _ => None,
    }
}

/// Words that a text may define as functions, so that they do not mean the program: `find()`,
/// `function find`. Too many are harmless, too few are not.
pub(super) fn find_defined_functions(text: &str) -> impl Iterator<Item = &str> {
    let is_name = |char: char| !char.is_whitespace() && !"();&|<>{}$`'\"=".contains(char);
    let called = text.match_indices('(').filter_map(move |(at, _)| {
        let blank = [' ', '\t', '\\', '\n'];
        text.get(at + 1..)?.trim_start_matches(blank).strip_prefix(')')?;
        let before = text.get(..at)?.trim_end_matches(blank);
        before.rsplit(|char| !is_name(char)).next()
    });
    let mut after_keyword = false;
    let declared = text.split(move |char| !is_name(char)).filter(move |word| {
        let is_declared = after_keyword;
        after_keyword = *word == "function" || word.is_empty() && after_keyword;
        is_declared
    });
    called.chain(declared).filter(|name| !name.is_empty())
}

/// The options with which a command still prints only names.
struct NamePrinterOptions {
    /// Letters without a value.
    letters: &'static str,
    /// Names without a value, or with one after `=`.
    names: &'static [&'static str],
    /// Options, as written, that take the next word as their value.
    valued: &'static [&'static str],
}

const NO_OPTIONS: NamePrinterOptions = NamePrinterOptions { letters: "", names: &[], valued: &[] };

const HEAD: NamePrinterOptions =
    NamePrinterOptions { letters: "n0123456789z", names: &[], valued: &["-n"] };

const GREP_FOR_LINES: NamePrinterOptions = NamePrinterOptions {
    letters: "viEFPGwxz",
    names: &["invert-match", "ignore-case"],
    valued: &[],
};

const GREP_FOR_NAMES: NamePrinterOptions = NamePrinterOptions {
    letters: "lrRniwxEFPGsIvzZ",
    names: &["files-with-matches", "include", "exclude", "exclude-dir", "recursive", "null"],
    valued: &[],
};

const RG: NamePrinterOptions = NamePrinterOptions {
    letters: "lniwxFPsSuUv.0",
    names: words!(
        "files files-with-matches hidden no-ignore null ignore-case fixed-strings glob iglob type \
         type-not sort"
    ),
    valued: &["-g", "-t", "-T", "--glob", "--iglob", "--type", "--type-not", "--sort"],
};

const FD: NamePrinterOptions = NamePrinterOptions {
    letters: "HIusigFp0",
    names: &["hidden", "no-ignore", "type", "extension", "exclude", "max-depth", "print0"],
    valued: &["-e", "-t", "-E", "-d", "--type", "--extension", "--exclude", "--max-depth"],
};

const LS_FILES: NamePrinterOptions = NamePrinterOptions {
    letters: "cmodz",
    names: &["cached", "modified", "others", "deleted", "exclude-standard"],
    valued: &[],
};

const DIFF: NamePrinterOptions = NamePrinterOptions {
    letters: "z",
    names: &["name-only", "cached", "staged", "diff-filter"],
    valued: &[],
};

/// The parsed arguments of such a command.
struct NamePrinterArguments {
    arguments: Vec<String>,
    operands: usize,
}

impl NamePrinterArguments {
    fn has(&self, options: &[&str]) -> bool {
        self.arguments.iter().any(|given| options.contains(&given.as_str()))
    }
}

impl NamePrinterOptions {
    /// `None` if there is, or may be, an option that is not in the table.
    fn parse(&self, args: &[ShellArg]) -> Option<NamePrinterArguments> {
        let mut line = NamePrinterArguments { arguments: Vec::new(), operands: 0 };
        let mut rest = args.iter();
        while let Some(arg) = rest.next() {
            let option = arg.as_known().filter(|text| text.starts_with('-') && text.len() > 1);
            match option {
                Some("--") => {
                    line.operands += rest.len();
                    return Some(line);
                }
                Some(option) if self.valued.contains(&option) => {
                    rest.next()?;
                }
                Some(option) => match option.strip_prefix("--") {
                    Some(long) => {
                        let name = long.split('=').next().unwrap_or(long);
                        line.arguments.push(name.to_owned());
                        self.names.contains(&name).then_some(())?;
                    }
                    None => {
                        let letters = option.chars().skip(1);
                        line.arguments.extend(letters.clone().map(String::from));
                        letters
                            .into_iter()
                            .all(|letter| self.letters.contains(letter))
                            .then_some(())?;
                    }
                },
                None if arg.may_be_option() && arg.as_known().is_none() => return None,
                None => line.operands += 1,
            }
        }
        Some(line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(line: &str, expected: Option<&str>) {
        let argv: Vec<ShellArg> = line.split_whitespace().map(ShellArg::known).collect();
        let read = Some(vec![ShellArg::known("read")]);
        let found = find_printed_names(&argv, read);
        let shown =
            found.map(|roots| roots.iter().map(ToString::to_string).collect::<Vec<_>>().join(" "));
        assert_eq!(shown.as_deref(), expected, "{line}");
    }

    #[test]
    fn printed_names_are_found_beneath_folders() {
        check("find src tests -name x -print0", Some("src tests"));
        check("fd -e rs x src", Some("src"));
        check("rg -l -g !target foo src", Some("src"));
        check("rg --files", Some("."));
        check("grep -rlE --include=*.rs foo src", Some("src"));
        check("git ls-files -z", Some("."));
        check("git --no-pager diff --name-only HEAD", Some("."));
        check("git grep -l foo", Some("."));
    }

    #[test]
    fn function_definition_shadows_program_name() {
        let found = |text| find_defined_functions(text).collect::<Vec<_>>().join(" ");
        assert_eq!(found("ls; find() { :; }; a;b ( ) (c)"), "find b");
        assert_eq!(found("function  git { :; }"), "git");
        assert_eq!(found("echo $(ls) $((1+2))"), "");
    }

    #[test]
    fn line_filters_pass_names_on() {
        for line in
            ["head -5", "head -n 5", "sort -u", "uniq", "grep -v x", "grep x", "shuf -n 1", "cat"]
        {
            check(line, Some("read"));
        }
    }

    #[test]
    fn commands_printing_other_words_are_rejected() {
        for line in [
            "find . -ls",
            "find . -printf /etc/passwd",
            "find . -exec cat x ;",
            "fd --format /etc/passwd",
            "fd -HX cat x",
            "rg foo",
            "rg -e -l foo",
            "grep -l --label=/etc/passwd x",
            "grep -h -e -l list",
            "grep -o /etc/.*",
            "grep x list",
            "git ls-files --format=/etc/passwd",
            "git diff --name-only --line-prefix=/etc/passwd",
            "git diff",
            "git log --name-only",
            "shuf -e /etc/passwd",
            "head -c 5",
            "head list",
            "sort -o x",
            "cat list",
            "ls /etc",
        ] {
            check(line, None);
        }
    }
}
