//! Compares the parser with the real bash: both must accept the same scripts.
//!
//! A deterministic generator builds scripts from pieces. Bash checks all of them with `-n`, and
//! runs those that our parser accepts, with an empty `PATH`: each command that it looks up must be
//! one that our parser found.
#![expect(clippy::disallowed_methods, reason = "the test asks the real bash")]
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::collections::BTreeSet;
use std::fs;
use std::process::{Command, Stdio};

use zero_policy::shell::ast::{
    self, AssignmentValue, CommandList, ShellCommandKind, ShellWord, WordPart,
};
use zero_policy::shell::parse;

/// Pieces of scripts: whole commands and halves of constructs.
const PIECES: &[&str] = &[
    "a", "b", "if", "then", "else", "elif", "fi", "while", "do", "done", "for", "x", "in", "case",
    "esac", "{", "}", "(", ")", ";", ";", "\n", "\n", "&&", "||", "|", "&", ";;", "!", "time",
    "function", "f()", "[[", "]]", "((", "))", "$(", "`", "${", "}", "'", "\"", "<", ">", "2>&1",
    ">&-", "<<E", "\nE\n", "<<<", "#", "\\", "\\\n", "$x", "x=1", "x=(", "x[1]=", "declare", "-f",
    "==", "=~", "$((", "1", "+", "coproc", "select", ":", "-", "|&", "&>", "<(", "{v}>", "*", "a)",
    "(a|b)", "$'", "$\"", ":-", "${x", "[", "]", "$[",
];

/// Whole constructs, combined in sequence and nested at `@`.
const SHAPES: &[&str] = &[
    "a @",
    "@; b",
    "@ && @",
    "@ | b",
    "( @ )",
    "{ @; }",
    "if @; then @; fi",
    "while @; do @; done",
    "for x in @; do b; done",
    "for x do @; done",
    "case @ in a|b) @;; *) b;; esac",
    "case x in (a) @ ;& b) esac",
    "f() { @; }",
    "function f { @; }",
    "function f () ( @ )",
    "a $(@)",
    "a \"$(@)\"",
    "a `b`",
    "a \"${x:-@}\"",
    "a ${x:-$(@)}",
    "a <(@)",
    "x=@",
    "x=(@)",
    "x=$(@) b",
    "declare x=(@)",
    "! @",
    "time @",
    "[[ -n @ ]]",
    "[[ a == @ ]]",
    "[[ ( @ ) && b ]]",
    "(( 1 + 2 ))",
    "a $(( 1 + $(@) ))",
    "@ > b",
    "@ 2>&1",
    "a <<E\n@\nE\n",
    "a <<'E'\n@\nE\n",
    "$(a <<E\n@\nE\n)",
    "a <<<@",
    "coproc @",
    "@ & @",
    "@\n@",
    "a # @",
    "a '@'",
    "a \"@\"",
    "a $'@'",
    "a \\\n@",
    "a ${x/@/b}",
    "a ${x#@}",
    "a ${x[@]}",
    "a @#b",
    "select x in a; do @; done",
    "for ((;;)); do @; done",
    "until @; do b; done",
    "a{@,b}",
    "a @=b",
    "a >@",
    "@ <b",
    "if a; then b; else @; fi",
    "$((a) ; @)",
    "((a) ; @)",
    "`a $(b)`",
    "[[ a =~ ^(@|b)$ ]]",
    "{ @ }",
    "( @",
    "@ )",
    "@ ;; b",
    "@ fi",
    "a @ (",
];

/// Allowed differences, by a text in the script.
///
/// Our parser rejects some scripts that bash accepts: those that fail only at run time, and those
/// that are expanded twice. That is the safe direction. No difference in the other direction is
/// known.
const REFUSED_ONLY_HERE: &[(&str, &str)] = &[
    ("bad `${ … }`", "bash finds a bad substitution only when it runs it"),
    ("expected `}` after `${`", "the same"),
    ("a quoted expansion within arithmetic", "expanded twice"),
    ("a parenthesis in an expansion within parentheses", "read differently when it runs"),
    ("single quotes that do not quote", "expanded although quoted"),
    ("`$'…'` with a special character within an expansion", "expanded although quoted"),
    ("a here-document without a body before `)`", "versions of bash differ"),
    ("expected the name of", "bash finds a bad name only when it runs it"),
    ("expected a plain name before `()`", "the same"),
    ("`!(` has two meanings", "a pattern with `extglob` on"),
    ("unexpected text after an array", "a list or a text, depending on the variable"),
    ("a backslash at the end", "bash keeps or drops it, depending on the lines before"),
    ("a list cannot be assigned to an element", "bash finds that only when it runs it"),
    ("a `}` within a subscript", "bash finds a bad substitution only when it runs it"),
    ("something unbalanced within counted parentheses", "bash counts without reading"),
];

/// Constructs that bash parses only at run time, so that `-n` finds no error in them; and `coproc`,
/// after which it accepts only some reserved words.
const READ_WHEN_RUN: &[&str] = &["`", "$((", "$[", "<<", "coproc"];

#[test]
fn bash_accepts_what_parser_accepts() {
    let scripts = build_scripts();
    assert!(scripts.len() > 500, "{}", scripts.len());
    let mut wrong = Vec::new();
    let answers = ask_bash(&scripts);
    assert_eq!(answers.len(), scripts.len(), "bash reads each of them");
    for (script, bash_reads) in scripts.iter().zip(answers) {
        let error = parse(script).error.map(|error| error.message);
        match (&error, bash_reads) {
            (None, true) | (Some(_), false) => {}
            (None, false) => wrong.push(format!("bash refuses {script:?}")),
            (Some(error), true) => {
                let read_later = READ_WHEN_RUN.iter().any(|sign| script.contains(sign));
                if !read_later && !REFUSED_ONLY_HERE.iter().any(|(known, _)| error.contains(known))
                {
                    wrong.push(format!("bash reads {script:?}, we say {error}"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), scripts.len(), wrong.join("\n"));
}

#[test]
fn bash_runs_only_parsed_commands() {
    let asked = Command::new("bash").args(["-c", "printf %s \"$BASH\""]).output().unwrap();
    let program = String::from_utf8(asked.stdout).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    let setup = folder.path().join("setup");
    fs::write(
        &setup,
        r#"command_not_found_handle() { local IFS=$'\37'; printf '%s\37\36' "$*"; } >>"$LOG""#,
    )
    .unwrap();
    let mut ran = 0;
    for (index, script) in build_scripts().iter().enumerate() {
        let parsed = parse(script);
        // Scripts that may run forever, or in the background after bash has ended.
        let endless = ["until", "while", "((;;", "select", "coproc", "&"];
        if parsed.error.is_some() || endless.iter().any(|word| script.contains(word)) {
            continue;
        }
        let mut seen = ParsedCommands::default();
        seen.collect_list(&parsed.list);
        if seen.unknown {
            continue;
        }
        let work = folder.path().join(index.to_string());
        fs::create_dir(&work).unwrap();
        fs::write(&log, "").unwrap();
        let mut bash = Command::new(&program);
        bash.args(["-c", "--", script]).current_dir(&work).env_clear();
        bash.env("PATH", "/nonexistent").env("BASH_ENV", &setup).env("LOG", &log);
        bash.stdin(Stdio::null()).output().unwrap();
        for line in fs::read_to_string(&log).unwrap().split_terminator("\x1F\x1E") {
            let argv: Vec<&str> = line.split('\x1F').collect();
            assert!(seen.has(&argv), "bash ran {argv:?} in {script:?}; we saw {:?}", seen.commands);
            ran += 1;
        }
    }
    assert!(ran > 200, "{ran} commands ran");
}

/// The commands of a tree: each known argument, and `None` for the others.
#[derive(Default)]
struct ParsedCommands {
    commands: Vec<Vec<Option<String>>>,
    /// Whether the program of one of them is unknown.
    unknown: bool,
}

impl ParsedCommands {
    /// Whether they include a command that ran. Anything matches after an unknown argument.
    fn has(&self, argv: &[&str]) -> bool {
        self.commands.iter().any(|command| {
            let certain = command.iter().take_while(|arg| arg.is_some()).count();
            let alike = command.iter().flatten().take(certain).eq(argv.iter().take(certain));
            alike && (certain < command.len() || certain == argv.len())
        })
    }

    fn collect_list(&mut self, list: &CommandList) {
        list.items
            .iter()
            .flat_map(|item| &item.pipeline.commands)
            .for_each(|c| self.collect_command(c));
    }

    fn collect_command(&mut self, command: &ast::ShellCommand) {
        command.redirects.iter().for_each(|redirect| self.collect_word(&redirect.target));
        match &command.kind {
            ShellCommandKind::Simple(simple) => {
                for assignment in &simple.assignments {
                    match &assignment.value {
                        AssignmentValue::Scalar(word) => self.collect_word(word),
                        AssignmentValue::Array(words) => self.collect_words(words),
                    }
                }
                self.collect_words(&simple.words);
                let argv: Vec<Option<String>> = simple.words.iter().map(literal_text).collect();
                self.unknown |= argv.first().is_some_and(Option::is_none);
                self.commands.push(argv);
            }
            ShellCommandKind::Subshell(list) | ShellCommandKind::Group(list) => {
                self.collect_list(list)
            }
            ShellCommandKind::If { branches, otherwise } => {
                branches.iter().flat_map(|(a, b)| [a, b]).for_each(|list| self.collect_list(list));
                otherwise.iter().for_each(|list| self.collect_list(list));
            }
            ShellCommandKind::While { condition, body } => {
                self.collect_list(condition);
                self.collect_list(body);
            }
            ShellCommandKind::For { words, body, .. } => {
                words.iter().for_each(|words| self.collect_words(words));
                self.collect_list(body);
            }
            ShellCommandKind::ArithmeticFor { header, body } => {
                self.collect_word(header);
                self.collect_list(body);
            }
            ShellCommandKind::Case { subject, arms } => {
                self.collect_word(subject);
                for (patterns, body) in arms {
                    self.collect_words(patterns);
                    self.collect_list(body);
                }
            }
            ShellCommandKind::Arithmetic(word) => self.collect_word(word),
            ShellCommandKind::Test(words) => self.collect_words(words),
            ShellCommandKind::Function { body, .. } | ShellCommandKind::Coprocess(body) => {
                self.collect_command(body)
            }
        }
    }

    fn collect_words(&mut self, words: &[ShellWord]) {
        words.iter().for_each(|word| self.collect_word(word));
    }

    fn collect_word(&mut self, word: &ShellWord) {
        for part in &word.parts {
            match part {
                WordPart::Text { .. } => {}
                WordPart::Parameter(parameter) => self.collect_words(&parameter.words),
                WordPart::Command { list, .. } | WordPart::Process { list } => {
                    self.collect_list(list)
                }
                WordPart::Arithmetic(word) => self.collect_word(word),
            }
        }
    }
}

/// The text of a word without expansions.
fn literal_text(word: &ShellWord) -> Option<String> {
    let mut all = String::new();
    for part in &word.parts {
        match part {
            WordPart::Text { text, quoted }
                if *quoted || !text.contains(['*', '?', '[', '{', '~']) =>
            {
                all += text
            }
            _ => return None,
        }
    }
    Some(all)
}

/// The corpus: every construct with every simple filling, some nested, and random pieces.
fn build_scripts() -> Vec<String> {
    let mut random = RandomSource(2026);
    let mut scripts = BTreeSet::new();
    for shape in SHAPES {
        for filling in ["a", "$x", "a b", "'c d'"] {
            scripts.insert(shape.replace('@', filling));
        }
        for _ in 0..6 {
            let inner = random.pick(SHAPES).replace('@', "a");
            scripts.insert(shape.replacen('@', &inner, 1).replace('@', "b"));
        }
    }
    for _ in 0..700 {
        let count = 1 + random.next_below(7);
        let pieces: Vec<&str> = (0..count).map(|_| random.pick(PIECES)).collect();
        scripts.insert(pieces.join(if random.next_below(3) == 0 { "" } else { " " }));
    }
    scripts.into_iter().collect()
}

/// Whether bash accepts each of the scripts. It reports an error within `[[` only on standard
/// error, where warnings go as well.
fn ask_bash(scripts: &[String]) -> Vec<bool> {
    const ASK_SCRIPT: &str = r#"for script; do
        said=$("$BASH" --norc --noprofile -n -c -- "$script" 2>&1 </dev/null) || { echo n; continue; }
        answer=y
        while IFS= read -r line; do
            case $line in '' | *'warning: '*) ;; *) answer=n ;; esac
        done <<<"$said"
        echo $answer
    done"#;
    let mut answers = Vec::new();
    for batch in scripts.chunks(400) {
        let output =
            Command::new("bash").args(["-c", ASK_SCRIPT, "bash"]).args(batch).output().unwrap();
        answers.extend(String::from_utf8(output.stdout).unwrap().lines().map(|line| line == "y"));
    }
    assert_eq!(answers.len(), scripts.len());
    answers
}

/// A small deterministic random generator.
pub(crate) struct RandomSource(pub(crate) u64);

impl RandomSource {
    pub(crate) fn next_below(&mut self, limit: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % limit
    }

    pub(crate) fn pick<'a>(&mut self, from: &[&'a str]) -> &'a str {
        from[self.next_below(from.len())]
    }
}
