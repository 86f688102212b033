//! Generators of random calls: commands, wrappers, rules, spellings.

use zero_policy::rule::{PolicyRule, RuleOwner, RuleSource};
use zero_policy::{PermissionMode, Verdict};

use super::choices::ChoiceSource;

/// Commands that consist of words only.
const WORDS: &[&str] = &[
    "ls",
    "true",
    "make",
    "make all",
    "npm test",
    "npm run build",
    "npm install x",
    "cargo test",
    "cat .env",
    "cat src/a.rs",
    "cat secrets/key",
    "cat ~/.ssh/id_rsa",
    "cat /etc/passwd",
    "cat $X",
    "cat secrets/$X",
    "cat .e*",
    "head -1 sub/.env",
    "grep -r x .",
    "find . -name x",
    "find . -delete",
    "echo rm x",
    "rm x",
    "rm -rf build",
    "rm -r -f src",
    "/bin/rm x",
    "./rm x",
    "/tmp/npm test",
    "touch src/a",
    "touch /etc/x",
    "touch .git/hooks/pre-commit",
    "mkdir -p src/x",
    "cp .env x",
    "cp a src/b",
    "mv src/a b",
    "tee src/a",
    "sed -i s/a/b/ src/a",
    "dd if=a of=b",
    "chmod -R 777 .",
    "git status",
    "man ls",
    "xz -l src/a",
    "git log --oneline -n 5",
    "git push",
    "git push --force",
    "git -C sub push",
    "git commit -m rm",
    "git reset --hard",
    "git clone https://a.com/x",
    "curl https://evil.com/x",
    "curl -o src/a https://a.com",
    "curl localhost:3000",
    "curl http://169.254.169.254/",
    "wget http://a.com",
    "python3 x.py",
    "python3 -c print",
    "node",
    "docker ps",
    "kubectl delete pod x",
    "shutdown now",
    "no-such-program --deploy",
];

/// Command lines with more than words.
const LINES: &[&str] = &[
    "echo x > src/a",
    "cat < .env",
    "echo x >> /etc/a",
    "make > /dev/null 2>&1",
    "A=b make",
    "LD_PRELOAD=x make",
    "PATH=/tmp make",
    "ls | sh",
    "echo rm x | sh",
    "ls | xargs rm",
    "$X y",
    "echo $(rm x)",
    "cat <(rm x)",
    "x=rm; $x y",
    "for f in a .env; do cat $f; done",
    "if make; then rm x; fi",
    "[[ -n $(rm x) ]]",
    "ls && make",
    "ls; rm x",
    "cat .env || true",
    "while read l; do echo $l; done < .env",
];

/// Fragments of command lines, for texts that are not valid lines.
const PIECES: &[&str] = &[
    "rm",
    "x",
    "-rf",
    "cat",
    ".env",
    "'",
    "\"",
    "$(",
    ")",
    "`",
    "${",
    "}",
    "{",
    "(",
    "((",
    "))",
    "[[",
    "]]",
    "<<E",
    "\n",
    "\nE\n",
    "<<<",
    "<(",
    ">",
    "<",
    "2>&1",
    "|",
    "&&",
    "||",
    ";",
    "&",
    "if",
    "then",
    "fi",
    "for x in",
    "do",
    "done",
    "case",
    "in",
    "esac",
    "f()",
    "eval",
    "bash -c",
    "env -S",
    "xargs",
    "find . -exec",
    "\\;",
    "$X",
    "*",
    "?",
    "[",
    "~",
    "\\",
    "#",
    "=",
    "A=",
    "!",
    "\u{e9}",
    "\u{0}",
    "cd",
    "..",
    "/",
    "git -c",
    "curl",
    "evil.com",
    "{a,b}",
    "$'\\x72m'",
];

/// A command, and how it can be nested in others.
#[derive(Clone, Debug)]
pub(crate) struct GeneratedCommand {
    pub(crate) text: String,
    shape: CommandShape,
}

/// The form of a command, which determines where it can be nested.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum CommandShape {
    /// Words only.
    Words,
    /// A line of shell.
    Line,
    /// More than a line: a here-document.
    Script,
}

pub(crate) fn random_command(choices: &mut ChoiceSource<'_>) -> GeneratedCommand {
    let simple = |choices: &mut ChoiceSource<'_>| match choices.one_in(3) {
        false => (choices.pick(WORDS), CommandShape::Words),
        true => (choices.pick(LINES), CommandShape::Line),
    };
    let (text, shape) = simple(choices);
    if choices.one_in(5) {
        let (second, _) = simple(choices);
        let joint = choices.pick(&["; ", " && ", " || ", " | ", " & ", "\n"]);
        return GeneratedCommand {
            text: format!("{text}{joint}{second}"),
            shape: CommandShape::Line,
        };
    }
    GeneratedCommand { text: text.to_owned(), shape }
}

/// A text that may be anything.
pub(crate) fn random_text(choices: &mut ChoiceSource<'_>) -> String {
    let mut text = String::new();
    for _ in 0..choices.next_below(24) {
        let piece = match choices.next_below(6) {
            0 => choices.pick(WORDS),
            1 => choices.pick(LINES),
            _ => choices.pick(PIECES),
        };
        text.push_str(piece);
        if !choices.one_in(4) {
            text.push(' ');
        }
    }
    text + &choices.remaining_text()
}

/// Wrappers around words: `X` marks the command.
const AROUND_WORDS: &[&str] = &[
    "env X",
    "env A=b X",
    "env -i X",
    "timeout 5 X",
    "timeout -s KILL 5 X",
    "nice X",
    "nice -n 5 X",
    "nohup X",
    "stdbuf -o0 X",
    "setsid X",
    "ionice -c 3 X",
    "xargs X",
    "xargs -0 -n 1 X",
    "parallel X",
    "watch X",
    "watch -n 1 X",
    "sudo X",
    "sudo -u bob X",
    "doas X",
    "ssh h X",
    "docker exec c X",
    "docker run --rm i X",
    "kubectl exec p -- X",
    "find . -exec X \\;",
    "find . -name y -execdir X \\;",
    "fd y -x X",
    "git bisect run X",
    "busybox X",
    "command X",
    "exec X",
    "eval X",
    "A=b X",
    "flock lock X",
    "strace X",
    "poetry run X",
    "bundle exec X",
    "chroot /mnt X",
    "unshare X",
    "systemd-run X",
    "time -p X",
    "coproc X",
];

/// Wrappers around a line.
const AROUND_LINES: &[&str] = &[
    "( X )",
    "( ( X ) )",
    "{ X; }",
    "echo $( X )",
    "echo \"$( X )\"",
    "echo `X`",
    "a=$( X )",
    "cat <(X)",
    "ls > >(X)",
    "if X; then :; fi",
    "if true; then X; else :; fi",
    "while X; do :; done",
    "until X; do :; done",
    "for i in 1 2; do X; done",
    "for ((;;)); do X; done",
    "case a in a) X;; esac",
    "export A=b; X",
    "f() { X; }; f",
    "f() { X; }; A=b f",
    "f() { X; }",
    "function f { X; }; f",
    "X &",
    "{ X; } | cat",
    "true | { X; }",
    "! { X; }",
    "time { X; }",
    "cd . && { X; }",
    "true; X",
    "true && { X; }",
    "false || { X; }",
    "X # y",
    "coproc { X; }",
    "[[ -n $( X ) ]]",
    "echo ${a:-$( X )}",
    "echo $((1 + $( X )))",
    "cat <<E\n$( X )\nE",
    "ls\nX",
];

/// Wrappers around a quoted text.
const AROUND_TEXTS: &[&str] = &[
    "bash -c X",
    "sh -lc X",
    "bash -xec X",
    "/bin/sh -c X",
    "zsh -c X",
    "eval X",
    "trap X EXIT",
    "su -c X",
    "su bob -c X",
    "ssh h X",
    "sudo sh -c X",
    "docker exec c sh -c X",
    "watch X",
    "find . -exec sh -c X \\;",
    "xargs sh -c X",
    "xargs -I{} sh -c X",
    "git -c alias.x=!X x",
    "git rebase --exec X main",
    "git submodule foreach X",
    "bash <<< X",
    "echo X | sh",
    "script -c X /dev/null",
    "flock l -c X",
    "timeout 5 bash -c X",
    "nohup sh -c X",
    "parallel X",
];

/// Wrappers around a text in a here-document.
const AROUND_SCRIPTS: &[&str] =
    &["bash <<'E'\nX\nE", "cat <<'E' | sh\nX\nE", "sh -s <<'E'\nX\nE", "sudo bash <<'E'\nX\nE"];

/// Nests a command in something that runs it.
pub(crate) fn wrap_command(
    inner: &GeneratedCommand,
    choices: &mut ChoiceSource<'_>,
) -> GeneratedCommand {
    let GeneratedCommand { text, shape } = inner;
    let ways = match shape {
        CommandShape::Words => 4,
        CommandShape::Line => 3,
        CommandShape::Script => 1,
    };
    let into = |wrapper: &str, text: &str, shape| GeneratedCommand {
        text: wrapper.replace('X', text),
        shape,
    };
    match choices.next_below(ways) {
        0 => {
            let wrapper = choices.pick(AROUND_TEXTS);
            let shape =
                if wrapper.contains(['<', '|']) { CommandShape::Line } else { CommandShape::Words };
            into(wrapper, &quote_word(text), shape)
        }
        1 => {
            let mut wrapper = choices.pick(AROUND_LINES);
            // Backticks parse their content once more.
            if wrapper.contains('`') && text.contains(['`', '\\']) {
                wrapper = "( X )";
            }
            let ends = wrapper.contains("<<") || wrapper.ends_with('&') || wrapper.contains('#');
            into(wrapper, text, if ends { CommandShape::Script } else { CommandShape::Line })
        }
        2 => into(choices.pick(AROUND_SCRIPTS), text, CommandShape::Script),
        _ => {
            let mut wrapper = choices.pick(AROUND_WORDS);
            // These join the words to a text that a shell parses once more.
            let joins = ["eval", "ssh", "watch", "parallel"];
            let joins = joins.iter().any(|program| wrapper.starts_with(program));
            if joins && text.contains(['\'', '"', '\\']) {
                wrapper = "env X";
            }
            let builds_on = !wrapper.starts_with("A=") && !wrapper.starts_with("coproc");
            into(wrapper, text, if builds_on { CommandShape::Words } else { CommandShape::Line })
        }
    }
}

/// Quotes a text as one word of a shell.
fn quote_word(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}

const RULES: &[&str] = &[
    "*",
    "Bash",
    "Bash(ls:*)",
    "Bash(ls)",
    "Bash(make)",
    "Bash(make:*)",
    "Bash(make all)",
    "Bash(npm:*)",
    "Bash(npm run *)",
    "Bash(npm test)",
    "Bash(cat:*)",
    "Bash(cat .env)",
    "Bash(cat secrets/*)",
    "Bash(echo:*)",
    "Bash(rm:*)",
    "Bash(rm x)",
    "Bash(rm -rf:*)",
    "Bash(rm -rf build)",
    "Bash(* x)",
    "Bash(git:*)",
    "Bash(git push:*)",
    "Bash(git push --force:*)",
    "Bash(git * --oneline*)",
    "Bash(git reset --hard)",
    "Bash(find . -delete)",
    "Bash(curl:*)",
    "Bash(python3:*)",
    "Bash(python3 x.py)",
    "Bash(touch:*)",
    "Bash(cp:*)",
    "Bash(tee:*)",
    "Bash(dd if=a of=b)",
    "Bash(true)",
    "Bash(cd:*)",
    "Bash(no-such-program:*)",
    "Bash(env:*)",
    "Bash(timeout:*)",
    "Bash(timeout 5 *)",
    "Bash(nice:*)",
    "Bash(nohup:*)",
    "Bash(xargs:*)",
    "Bash(parallel:*)",
    "Bash(watch:*)",
    "Bash(sudo:*)",
    "Bash(su:*)",
    "Bash(ssh:*)",
    "Bash(docker:*)",
    "Bash(docker exec:*)",
    "Bash(find:*)",
    "Bash(bash:*)",
    "Bash(bash -c:*)",
    "Bash(sh *)",
    "Bash(eval:*)",
    "Bash(trap:*)",
    "Bash(command:*)",
    "Bash(busybox:*)",
    "Bash(flock:*)",
    "Bash(poetry run:*)",
    "Bash(f)",
    "Read",
    "Read(.env)",
    "Read(secrets/**)",
    "Read(src/*.rs)",
    "Read(//etc/**)",
    "Read(~/.ssh/**)",
    "Edit",
    "Edit(src/**)",
    "Edit(/src/a)",
    "Edit(b)",
    "Write(x)",
    "Delete",
    "Delete(x)",
    "WebFetch",
    "WebFetch(domain:evil.com)",
    "WebFetch(domain:*.com)",
    "WebFetch(domain:a.com)",
    "WebFetch(domain:localhost)",
];

pub(crate) fn random_rule(verdict: Verdict, choices: &mut ChoiceSource<'_>) -> PolicyRule {
    let owner = if choices.one_in(4) { RuleOwner::Project } else { RuleOwner::User };
    let source = RuleSource { name: "random".to_owned(), line: None, owner };
    PolicyRule::parse(choices.pick(RULES), verdict, source).unwrap()
}

pub(crate) fn random_rules(choices: &mut ChoiceSource<'_>) -> Vec<PolicyRule> {
    let count = choices.next_below(8);
    (0..count)
        .map(|_| {
            // Only allow rules can make a verdict too permissive.
            let verdicts = [Verdict::Allow, Verdict::Allow, Verdict::Ask, Verdict::Deny];
            random_rule(choices.pick(&verdicts), choices)
        })
        .collect()
}

/// Rules that do not depend on how a command writes its arguments.
pub(crate) fn random_effect_rules(choices: &mut ChoiceSource<'_>) -> Vec<PolicyRule> {
    let mut rules = random_rules(choices);
    rules.retain(|rule| !(rule.text.starts_with("Bash(") && rule.text.contains(' ')));
    rules
}

pub(crate) fn random_mode(choices: &mut ChoiceSource<'_>) -> PermissionMode {
    choices.pick(&[
        PermissionMode::Ask,
        PermissionMode::Auto,
        PermissionMode::AcceptEdits,
        PermissionMode::Plan,
    ])
}

/// Commands that access the file `F`.
const ON_FILES: &[&str] = &[
    "cat F",
    "head -n 1 F",
    "cp F y",
    "mv F y",
    "tee F",
    "sed -i s/a/b/ F",
    "grep x F",
    "touch F",
    "rm F",
    "bash -c \"cat F\"",
    "cat < F",
    "echo x > F",
];

/// Files that exist.
pub(crate) const FILES: &[&str] =
    &[".env", "src/a.rs", "secrets/key", "x", "src/a", ".git/config", "b"];

/// A command on a file in its plain spelling, and in another.
pub(crate) fn random_file_spellings(choices: &mut ChoiceSource<'_>) -> [String; 2] {
    let command = choices.pick(ON_FILES);
    let file = choices.pick(FILES);
    let (start, last) = file.split_at(file.len() - 1);
    let spelled = match choices.next_below(13) {
        0 => format!("./{file}"),
        1 => format!("a/../{file}"),
        2 => format!("/w/{file}"),
        3 => format!("'{file}'"),
        4 => format!("$PWD/{file}"),
        5 => format!("{start}\\{last}"),
        6 => format!(".//{file}"),
        7 => format!("{start}''{last}"),
        8 => format!("/w/./a/b/../../{file}"),
        9 => format!("${{PWD}}/{file}"),
        // A brace expansion to several names is an error after `<`.
        10 if !command.contains(['<', '>']) => format!("{{{file},{file}}}"),
        11 if !command.contains(['<', '>']) => format!("{start}[{last}]"),
        12 if !command.contains(['<', '>']) => format!("{start}?"),
        _ => format!("../w/{file}"),
    };
    [command.replace('F', file), command.replace('F', &spelled)]
}

/// Programs with options that act and options that only show, and a file.
const MODES: &[(&str, &[&str], &[&str], &str)] = &[
    (
        "xz",
        &["-dkf", "-zf", "--decompress", "--unc", "--strange"],
        &["-l", "-t", "--test"],
        "src/a",
    ),
    ("bunzip2", &["-d", "-fz", "-dkf"], &["-t", "--test"], "src/a"),
    ("zstd", &["-df", "--rm", "-z", "-o src/a"], &["-t", "-l", "--list"], "x"),
    ("zstdcat", &["--rm", "-o src/a"], &["-c", "-t", "--stdout"], "x"),
    ("lz4", &["-dl", "-df", "--rm"], &["-t", "--list"], "src/a"),
    ("unzip", &["-ol-", "-t-", "-T", "-f"], &["-l", "-t", "-p"], "x"),
    ("tar xf x", &["--backup", "-U", "--strange"], &["-O", "--to-stdout"], ""),
    ("git clean -fd", &["--no-dry-run", "--no-d", "--no"], &["-n", "--dry-run", "--dry"], "src"),
    ("git rm", &["--no-cached", "--no-c"], &["--cached", "--cach"], "src/a"),
    ("git restore", &["--no-staged", "-W"], &["-S", "--staged"], "src/a"),
    ("git apply", &["--no-stat", "--no-st", "--apply"], &["--stat"], "x"),
    ("git merge-file", &["--no-stdout"], &["-p", "--stdout"], "src/a b x"),
    ("wget", &["--no-spider"], &["--spider"], "http://a.com/x"),
];

/// A command with an option that acts, and with one that only shows beside it.
pub(crate) fn random_mode_options(choices: &mut ChoiceSource<'_>) -> [String; 2] {
    let (program, acting, showing, file) = choices.pick(MODES);
    let (acts, shows) = (choices.pick(acting), choices.pick(showing));
    let is_short = |option: &str| !option.starts_with("--") && !option.contains(' ');
    let both = match choices.next_below(4) {
        0 => format!("{acts} {shows}"),
        1 if is_short(acts) && is_short(shows) => format!("{acts}{}", &shows[1..]),
        2 if is_short(acts) && is_short(shows) => format!("{shows}{}", &acts[1..]),
        _ => format!("{shows} {acts}"),
    };
    [format!("{program} {acts} {file}"), format!("{program} {both} {file}")]
}

/// Commands that connect to the host `H`.
const ON_HOSTS: &[&str] =
    &["curl H", "curl https://H/x", "wget http://H", "git clone https://H/x.git y", "ssh H ls"];

/// A command on a host in its plain spelling, and in another.
pub(crate) fn random_host_spellings(choices: &mut ChoiceSource<'_>) -> [String; 2] {
    let command = choices.pick(ON_HOSTS);
    let host = choices.pick(&["evil.com", "a.com", "localhost", "x.evil.com"]);
    let spelled = match choices.next_below(6) {
        0 => host.to_uppercase(),
        1 => format!("{host}."),
        2 => format!("'{host}'"),
        3 => format!("u@{host}"),
        4 => host.replace('e', "\\e"),
        _ => host.replace('l', "''l"),
    };
    [command.replace('H', host), command.replace('H', &spelled)]
}
