//! The files that a setting of git makes it run.
//!
//! Git hands most of these values to a shell. Only the places are read in which a shell looks for a
//! program or an interpreter for its script: other words are data, which commands have to change.

/// Most nested `sh -c` that are read.
const DEPTH_MAX: usize = 3;
/// Most files of one value.
const FILES_MAX: usize = 64;
/// What stands for the top folder of a working folder, in which git runs most programs.
const TOP_FOLDER: &[&str] =
    &["$(git rev-parse --show-toplevel)", "`git rev-parse --show-toplevel`", "${PWD}", "$PWD"];
/// Characters between two commands.
const SEPARATORS: &[char] = &[';', '|', '&', '(', ')', '{', '}', '\n', '`', '<', '>'];
/// Words before a program.
const PREFIXES: &[&str] = &[
    "!", "command", "do", "elif", "else", "env", "exec", "if", "nice", "nohup", "sudo", "then",
    "time", "until", "while",
];
/// Programs that run the file that their first operand names.
const INTERPRETERS: &[&str] = &[
    ".", "bash", "bun", "dash", "deno", "fish", "ksh", "lua", "node", "perl", "php", "python",
    "python2", "python3", "ruby", "sh", "source", "tsx", "zsh",
];

/// The files that a value names as programs, as written.
pub(super) fn list_program_files(value: &str) -> Vec<String> {
    let mut files = Vec::new();
    collect_files(value, DEPTH_MAX, &mut files);
    files.truncate(FILES_MAX);
    files
}

fn collect_files(value: &str, depth: usize, files: &mut Vec<String>) {
    let mut value = value.to_owned();
    for top in TOP_FOLDER {
        value = value.replace(top, ".");
    }
    for words in split_commands(&value) {
        let mut words = words.into_iter().skip_while(|word| is_prefix(word));
        let Some(program) = words.next() else { continue };
        let name = program.rsplit('/').next().unwrap_or(&program);
        if program.contains('/') {
            files.push(program.clone());
        }
        if !INTERPRETERS.contains(&name) {
            continue;
        }
        while let Some(word) = words.next() {
            match word.strip_prefix('-') {
                Some(option) if option.ends_with('c') && !option.starts_with('-') => {
                    if let Some(inner) = words.next().filter(|_| depth > 0) {
                        collect_files(&inner, depth - 1, files);
                    }
                    break;
                }
                Some(_) => {}
                None => {
                    files.push(word);
                    break;
                }
            }
        }
    }
}

fn is_prefix(word: &str) -> bool {
    let is_variable = |name: &str| {
        !name.is_empty() && name.chars().all(|char| char.is_ascii_alphanumeric() || char == '_')
    };
    PREFIXES.contains(&word)
        || word.starts_with('-')
        || word.split_once('=').is_some_and(|(name, _)| is_variable(name))
}

/// The words of each command, without quotes.
fn split_commands(value: &str) -> Vec<Vec<String>> {
    let mut commands = vec![Vec::new()];
    let mut word: Option<String> = None;
    let mut quote = None;
    let mut chars = value.trim_start_matches('!').chars();
    while let Some(char) = chars.next() {
        match (char, quote) {
            (char, Some(open)) if char == open => quote = None,
            ('\\', None | Some('"')) => word.get_or_insert_default().extend(chars.next()),
            (char, Some(_)) => word.get_or_insert_default().push(char),
            ('\'' | '"', None) => {
                quote = Some(char);
                word.get_or_insert_default();
            }
            (char, None) if char.is_whitespace() || SEPARATORS.contains(&char) => {
                let command = commands.last_mut().into_iter();
                command.for_each(|command| command.extend(word.take()));
                if !char.is_whitespace() || char == '\n' {
                    commands.push(Vec::new());
                }
            }
            (char, None) => word.get_or_insert_default().push(char),
        }
    }
    commands.last_mut().into_iter().for_each(|command| command.extend(word.take()));
    commands
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_in_program_position_are_listed() {
        for (value, expected) in [
            ("./tools/fsm.sh", &["./tools/fsm.sh"][..]),
            ("tools/clean.sh --fast %f src/main.rs", &["tools/clean.sh"]),
            ("'my tools/x' a", &["my tools/x"]),
            ("my\\ tools/x", &["my tools/x"]),
            ("!f() { ./a.sh \"$@\" && ./b.sh; }; f", &["./a.sh", "./b.sh"]),
            ("!git add src/lib.rs && cargo fmt", &[]),
            ("sh tools/x.sh src/a", &["tools/x.sh"]),
            ("env A=b python3 -u x.py", &["x.py"]),
            ("bash -ec './a.sh; exec sh b.sh'", &["./a.sh", "b.sh"]),
            ("$(git rev-parse --show-toplevel)/x.sh", &["./x.sh"]),
            ("git-lfs clean -- %f", &[]),
            ("/usr/bin/node tools/x.js", &["/usr/bin/node", "tools/x.js"]),
            ("if ./a; then ./b; fi", &["./a", "./b"]),
            ("", &[]),
            ("'", &[]),
        ] {
            assert_eq!(list_program_files(value), expected, "{value}");
        }
    }
}
