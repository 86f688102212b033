//! `find` and `fd`: they look, unless told to run or remove what they find.

use super::wrappers::filled;
use super::{Access, Nature, Run, Study, from, unknown, word};
use crate::shell::Arg;

pub(super) fn study(name: &str, args: &[Arg]) -> Option<Study> {
    match name {
        "find" => Some(find(args)),
        "fd" | "fdfind" => Some(fd(args)),
        _ => None,
    }
}

/// Tests and actions with how many words follow them. What is not here is not known to be harmless.
const PREDICATES: &[(&str, usize)] = &[
    ("amin", 1),
    ("anewer", 1),
    ("atime", 1),
    ("cmin", 1),
    ("cnewer", 1),
    ("context", 1),
    ("ctime", 1),
    ("fstype", 1),
    ("gid", 1),
    ("group", 1),
    ("ilname", 1),
    ("iname", 1),
    ("inum", 1),
    ("ipath", 1),
    ("iregex", 1),
    ("iwholename", 1),
    ("links", 1),
    ("lname", 1),
    ("maxdepth", 1),
    ("mindepth", 1),
    ("mmin", 1),
    ("mtime", 1),
    ("name", 1),
    ("newer", 1),
    ("path", 1),
    ("perm", 1),
    ("printf", 1),
    ("regex", 1),
    ("regextype", 1),
    ("samefile", 1),
    ("size", 1),
    ("type", 1),
    ("uid", 1),
    ("used", 1),
    ("user", 1),
    ("wholename", 1),
    ("xtype", 1),
    ("depth", 0),
    ("d", 0),
    ("follow", 0),
    ("ignore_readdir_race", 0),
    ("noignore_readdir_race", 0),
    ("mount", 0),
    ("xdev", 0),
    ("x", 0),
    ("noleaf", 0),
    ("daystart", 0),
    ("warn", 0),
    ("nowarn", 0),
    ("empty", 0),
    ("executable", 0),
    ("readable", 0),
    ("writable", 0),
    ("false", 0),
    ("true", 0),
    ("nogroup", 0),
    ("nouser", 0),
    ("print", 0),
    ("print0", 0),
    ("ls", 0),
    ("prune", 0),
    ("quit", 0),
    ("not", 0),
    ("a", 0),
    ("and", 0),
    ("o", 0),
    ("or", 0),
    ("help", 0),
    ("version", 0),
    ("E", 0),
    ("s", 0),
    ("X", 0),
];

fn find(args: &[Arg]) -> Study {
    let at = start_points(args);
    let points: Vec<Arg> = args
        .get(..at)
        .unwrap_or_default()
        .iter()
        .filter(|arg| !word(Some(arg)).starts_with('-'))
        .cloned()
        .collect();
    let points = if points.is_empty() { vec![Arg::known(".")] } else { points };
    let mut walk = Find { args, at, points: &points, study: Study::read_only(), changes: false };
    walk.expression();
    let Find { mut study, changes, .. } = walk;
    for point in &points {
        study = study.touches_beneath(Access::Read, point);
    }
    // What it runs needs judging, and what it changes is said; it does nothing else.
    study.nature = match (study.nature, study.runs.is_empty(), changes) {
        (Nature::Program, _, _) => Nature::Program,
        (_, false, _) => Nature::Wrapper,
        (_, true, true) => Nature::Files,
        (_, true, false) => Nature::ReadOnly,
    };
    study
}

/// Where the expression begins: at the first word that can only be part of one.
fn start_points(args: &[Arg]) -> usize {
    let mut at = 0;
    while let Some(arg) = args.get(at) {
        match arg.as_known() {
            Some("-H" | "-L" | "-P" | "-E" | "-X" | "-d" | "-s" | "-x") => at += 1,
            Some("-D" | "-f") => at += 2,
            Some(text) if text.starts_with("-O") => at += 1,
            _ => break,
        }
    }
    let begins = |arg: &Arg| {
        let start = arg.certain_start();
        arg.may_be_option() || matches!(start.chars().next(), Some('(' | ')' | '!' | ','))
    };
    from(args, at).iter().position(begins).map_or(args.len(), |more| at + more)
}

struct Find<'a> {
    args: &'a [Arg],
    at: usize,
    points: &'a [Arg],
    study: Study,
    changes: bool,
}

impl Find<'_> {
    fn expression(&mut self) {
        while let Some(arg) = self.args.get(self.at) {
            self.at += 1;
            let Some(text) = arg.as_known() else {
                self.doubt("what it looks for may be an action");
                continue;
            };
            if matches!(text, "(" | ")" | "!" | "," | "\\(" | "\\)" | "--") {
                continue;
            }
            let Some(name) = text.strip_prefix('-') else {
                self.doubt("a word of its expression is not known");
                continue;
            };
            match name {
                "exec" | "ok" => self.exec(""),
                "execdir" | "okdir" => self.exec("./"),
                "delete" => self.delete(),
                "fprint" | "fprint0" | "fls" | "fprintf" => {
                    let file = self.args.get(self.at).cloned();
                    self.at += if name == "fprintf" { 2 } else { 1 };
                    self.changes = true;
                    if let Some(file) = file {
                        self.update(|study| study.touches(Access::Write, &file));
                    }
                }
                "files0-from" => {
                    let file = self.args.get(self.at).cloned();
                    self.at += 1;
                    if let Some(file) = file {
                        self.update(|study| {
                            // The folders it walks are named there.
                            study
                                .touches(Access::Read, &file)
                                .touches_beneath(Access::Read, &unknown("", "-files0-from"))
                        });
                    }
                }
                name => match words_after(name) {
                    Some(words) => {
                        // `-name $x`: unquoted, it may bring `-delete` along.
                        let open = from(self.args, self.at).iter().take(words).any(|value| {
                            matches!(value, Arg::Unknown { starts_with, .. } if starts_with.is_empty())
                        });
                        self.at += words;
                        if open {
                            self.doubt("what it looks for may be an action");
                        }
                    }
                    None => self.doubt("a word of its expression is not known"),
                },
            }
        }
    }

    /// `-exec command {} ;` or `-exec command {} +`.
    fn exec(&mut self, beneath: &str) {
        let words = from(self.args, self.at);
        let ends = |(at, arg): &(usize, &Arg)| match arg.as_known() {
            Some(";" | "\\;") => true,
            Some("+") => at
                .checked_sub(1)
                .and_then(|at| words.get(at))
                .is_some_and(|arg| word(Some(arg)) == "{}"),
            _ => false,
        };
        let end = words.iter().enumerate().find(ends).map_or(words.len(), |(at, _)| at);
        let many = word(words.get(end)) == "+";
        let command = words.get(..end).unwrap_or_default();
        // An end that is only known later could come earlier than seen here.
        let open =
            command.iter().any(|arg| arg.as_known().is_none() && arg.certain_start().is_empty());
        self.at += end + 1;
        let start = match (beneath, self.points) {
            ("", [point]) => point.certain_start(),
            ("", _) => "",
            (beneath, _) => beneath,
        };
        let argv: Vec<Arg> = command.iter().map(|arg| filled(arg, "{}", start)).collect();
        if argv.is_empty() {
            return self.doubt("what it runs is not there");
        }
        self.study.runs.push(Run::Command {
            argv,
            variables: Vec::new(),
            // Each runs beside the file it is for.
            folder: (!beneath.is_empty()).then(|| {
                unknown(
                    self.points
                        .first()
                        .filter(|_| self.points.len() == 1)
                        .map_or("", Arg::certain_start),
                    "-execdir",
                )
            }),
            more_arguments: many,
        });
        if open {
            self.update(|study| study.guess_if(true));
        }
    }

    fn delete(&mut self) {
        self.changes = true;
        let points = self.points.to_vec();
        self.update(|study| {
            points
                .iter()
                .fold(study, |study, point| study.touches_beneath(Access::Delete, point))
                .critical("removes every file it finds")
        });
    }

    fn doubt(&mut self, why: &'static str) {
        self.study.nature = Nature::Program;
        self.update(|study| study.caution(why));
    }

    fn update(&mut self, change: impl FnOnce(Study) -> Study) {
        self.study = change(std::mem::take(&mut self.study));
    }
}

fn words_after(name: &str) -> Option<usize> {
    // `-newerXY` compares times of any two kinds.
    if name.strip_prefix("newer").is_some_and(|kinds| kinds.len() == 2) {
        return Some(1);
    }
    PREDICATES.iter().find(|(known, _)| *known == name).map(|(_, words)| *words)
}

fn fd(args: &[Arg]) -> Study {
    let mut study = Study::read_only();
    let mut points: Vec<Arg> = Vec::new();
    let mut operands = 0;
    let mut at = 0;
    while let Some(arg) = args.get(at) {
        at += 1;
        let start = arg.certain_start();
        let Some(text) = arg.as_known() else {
            if arg.may_be_option() {
                study = study.caution("an argument may be `--exec`");
                study.nature = Nature::Program;
            }
            operands += 1;
            if operands > 1 {
                points.push(arg.clone());
            }
            continue;
        };
        match fd_option(text) {
            FdOption::Exec { attached } => {
                let argv = match attached {
                    Some(program) => {
                        let mut argv = vec![Arg::known(program)];
                        argv.extend_from_slice(from(args, at));
                        argv
                    }
                    None => from(args, at).to_vec(),
                };
                return fd_runs(study, &argv, points);
            }
            FdOption::Folder { attached } => {
                let folder = attached.map(Arg::known).or_else(|| {
                    at += 1;
                    args.get(at - 1).cloned()
                });
                points.extend(folder);
            }
            FdOption::Value => at += 1,
            FdOption::Flag => {}
            FdOption::Unknown => {
                study = study.caution("an option is not known");
                study.nature = Nature::Program;
            }
            FdOption::None => {
                operands += 1;
                if operands > 1 {
                    points.push(Arg::known(start));
                }
            }
        }
    }
    fd_reads(study, points)
}

enum FdOption<'a> {
    Exec { attached: Option<&'a str> },
    Folder { attached: Option<&'a str> },
    Value,
    Flag,
    Unknown,
    None,
}

fn fd_option(text: &str) -> FdOption<'_> {
    const VALUES: &[&str] = &[
        "and",
        "max-depth",
        "min-depth",
        "exact-depth",
        "exclude",
        "type",
        "extension",
        "size",
        "changed-within",
        "changed-before",
        "owner",
        "format",
        "batch-size",
        "ignore-file",
        "color",
        "threads",
        "max-results",
        "path-separator",
        "max-buffer-time",
        "gen-completions",
    ];
    const FLAGS: &[&str] = &[
        "hidden",
        "no-ignore",
        "no-ignore-vcs",
        "no-ignore-parent",
        "no-global-ignore-file",
        "unrestricted",
        "case-sensitive",
        "ignore-case",
        "glob",
        "regex",
        "fixed-strings",
        "absolute-path",
        "relative-path",
        "list-details",
        "follow",
        "full-path",
        "print0",
        "prune",
        "quiet",
        "show-errors",
        "one-file-system",
        "strip-cwd-prefix",
        "require-git",
        "no-require-git",
        "no-follow",
        "no-hidden",
        "ignore",
        "ignore-vcs",
        "help",
        "version",
        "hyperlink",
    ];
    if let Some(long) = text.strip_prefix("--") {
        let (name, attached) = match long.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (long, None),
        };
        return match name {
            "" => FdOption::Flag,
            // `--exec-batch` too; abbreviations are refused by fd, but cost nothing here.
            name if "exec".starts_with(name) || name.starts_with("exec") => {
                FdOption::Exec { attached }
            }
            "base-directory" | "search-path" => FdOption::Folder { attached },
            name if VALUES.contains(&name) => {
                if attached.is_some() {
                    FdOption::Flag
                } else {
                    FdOption::Value
                }
            }
            name if FLAGS.contains(&name) => FdOption::Flag,
            _ => FdOption::Unknown,
        };
    }
    let Some(letters) = text.strip_prefix('-').filter(|letters| !letters.is_empty()) else {
        return FdOption::None;
    };
    for (at, letter) in letters.char_indices() {
        let rest = letters.get(at + letter.len_utf8()..).filter(|rest| !rest.is_empty());
        match letter {
            'x' | 'X' => return FdOption::Exec { attached: rest },
            'C' => return FdOption::Folder { attached: rest },
            'd' | 'E' | 't' | 'e' | 'S' | 'o' | 'c' | 'j' => {
                return if rest.is_some() { FdOption::Flag } else { FdOption::Value };
            }
            'H' | 'I' | 'u' | 's' | 'i' | 'g' | 'F' | 'a' | 'l' | 'L' | 'p' | '0' | '1' | 'q'
            | 'h' | 'V' => {}
            _ => return FdOption::Unknown,
        }
    }
    FdOption::Flag
}

fn fd_reads(mut study: Study, points: Vec<Arg>) -> Study {
    let points = if points.is_empty() { vec![Arg::known(".")] } else { points };
    for point in &points {
        study = study.touches_beneath(Access::Read, point);
    }
    study
}

/// `-x command ;`: everything up to `;`, with the path added when no mark stands for it.
fn fd_runs(study: Study, words: &[Arg], points: Vec<Arg>) -> Study {
    let mut study = fd_reads(study, points);
    if study.nature == Nature::ReadOnly {
        study.nature = Nature::Wrapper;
    }
    for command in words.split(|arg| matches!(arg.as_known(), Some(";" | "\\;"))).take(1) {
        let argv: Vec<Arg> = command.iter().map(|arg| filled(arg, "{", "")).collect();
        study = study.runs(Run::Command {
            argv,
            variables: Vec::new(),
            folder: None,
            more_arguments: true,
        });
    }
    // What follows `;` may hold another `-x`.
    let more = words.iter().position(|arg| matches!(arg.as_known(), Some(";" | "\\;")));
    study.guess_if(more.is_some_and(|at| at + 1 < words.len()))
}

#[cfg(test)]
mod tests {
    use super::super::shown::check;

    #[test]
    fn find_looks() {
        check("find", "read-only read(./**)");
        check("find a b -name *.rs -type f", "read-only read(a/**) read(b/**)");
        check("find -L a ( -name x -o -newermt y ) -print0", "read-only read(a/**)");
        check("find . -not -path x -prune", "read-only read(./**)");
        check("find . -fprint out", "files write(out) read(./**)");
        check("find . -fprintf out %p -fls o2", "files write(out) write(o2) read(./**)");
        check("find . -files0-from f", "read-only read(f) read(-files0-from/**) read(./**)");
    }

    #[test]
    fn find_acts() {
        check("find . -exec rm -rf {} ;", "wrapper read(./**) runs[rm -rf {}]");
        check("find . -exec rm {} +", "wrapper read(./**) runs[rm {} ...]");
        check("find . -ok rm {} ; -exec ls ;", "wrapper read(./**) runs[rm {}] runs[ls]");
        check("find a -execdir rm {} ;", "wrapper read(a/**) runs[-execdir: rm {}]");
        check("find . -exec sh -c rm_{} ;", "wrapper read(./**) runs[sh -c rm {}]");
        check("find . -name x -delete", "files delete(./**) read(./**) critical");
        check(
            "find a -delete -o -exec rm {} ;",
            "wrapper delete(a/**) read(a/**) runs[rm {}] critical",
        );
        check("find . $X", "program read(./**) caution");
        check("find . -name $X", "program read(./**) caution");
        check("find . -strange", "program read(./**) caution");
        check("find $X -name y", "program read(./**) caution");
        check("find . -exec rm $X {} ;", "wrapper read(./**) runs[rm $X {}] unknown");
    }

    #[test]
    fn fd_looks_and_acts() {
        check("fd", "read-only read(./**)");
        check("fd -e rs pattern src", "read-only read(src/**)");
        check("fd pattern -x rm -f", "wrapper read(./**) runs[rm -f ...]");
        check("fd -HX rm", "wrapper read(./**) runs[rm ...]");
        check("fd -Hxrm", "wrapper read(./**) runs[rm ...]");
        check("fd --exec=rm {}", "wrapper read(./**) runs[rm {} ...]");
        check("fdfind --exec-batch rm {}", "wrapper read(./**) runs[rm {} ...]");
        check("fd x $X", "program read($X/**) caution");
        check("fd --strange", "program read(./**) caution");
    }
}
