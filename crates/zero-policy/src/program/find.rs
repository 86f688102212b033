//! `find` is read-only, unless it runs or removes what it finds.

mod fd;

use super::wrappers::fill_placeholder;
use crate::program::arguments::{args_from, known_text, unknown_arg};
use crate::program::command_analysis::{
    CommandAnalysis, CommandClass, FileAccess, NestedExecution,
};
use crate::shell::ShellArg;
use crate::word_list::words;

pub(super) fn analyze(name: &str, args: &[ShellArg]) -> Option<CommandAnalysis> {
    match name {
        "find" => Some(analyze_find(args)),
        "fd" | "fdfind" => Some(fd::analyze(args)),
        _ => None,
    }
}

/// Read-only tests and actions that take a value. A predicate in neither list is not known to be
/// harmless.
const VALUE_PREDICATES: &[&str] = words!(
    "amin anewer atime cmin cnewer context ctime fstype gid group ilname iname inum ipath iregex \
     iwholename links lname maxdepth mindepth mmin mtime name newer path perm printf regex \
     regextype samefile size type uid used user wholename xtype"
);

/// Read-only tests and actions without a value.
const PLAIN_PREDICATES: &[&str] = words!(
    "depth d follow ignore_readdir_race noignore_readdir_race mount xdev x noleaf daystart warn \
     nowarn empty executable readable writable false true nogroup nouser print print0 ls prune \
     quit not a and o or help version E s X"
);

fn analyze_find(args: &[ShellArg]) -> CommandAnalysis {
    let (at, points) = split_start_points(args);
    let points = if points.is_empty() { vec![ShellArg::known(".")] } else { points };
    let mut walk = FindParser {
        args,
        at,
        points: &points,
        analysis: CommandAnalysis::read_only(),
        changes: false,
    };
    walk.parse_expression();
    let FindParser { analysis: mut study, changes, .. } = walk;
    for point in &points {
        study = study.with_recursive_touch(FileAccess::Read, point);
    }
    // The commands it runs are judged, and its changes are listed; it does nothing else.
    study.class = match (study.class, study.runs.is_empty(), changes) {
        (CommandClass::Opaque, _, _) => CommandClass::Opaque,
        (_, false, _) => CommandClass::Wrapper,
        (_, true, true) => CommandClass::Files,
        (_, true, false) => CommandClass::ReadOnly,
    };
    study
}

/// The start of the expression, which is the first word that can only be part of one, and the start
/// points before it.
fn split_start_points(args: &[ShellArg]) -> (usize, Vec<ShellArg>) {
    let mut points = Vec::new();
    let mut at = 0;
    while let Some(arg) = args.get(at) {
        match arg.as_known() {
            Some("-H" | "-L" | "-P" | "-E" | "-X" | "-d" | "-s" | "-x") => at += 1,
            Some("-D") => at += 2,
            // BSD names a start point like this.
            Some("-f") => {
                points.extend(args.get(at + 1).cloned());
                at += 2;
            }
            Some(text) if text.starts_with("-O") => at += 1,
            _ => break,
        }
    }
    let begins = |arg: &&ShellArg| {
        let start = arg.known_prefix();
        arg.may_be_option() || start.starts_with(['(', ')', '!', ','])
    };
    let plain = args_from(args, at).iter().take_while(|arg| !begins(arg));
    points.extend(plain.cloned());
    let end = args_from(args, at)
        .iter()
        .position(|arg| begins(&arg))
        .map_or(args.len(), |more| at + more);
    (end, points)
}

struct FindParser<'a> {
    args: &'a [ShellArg],
    at: usize,
    points: &'a [ShellArg],
    analysis: CommandAnalysis,
    changes: bool,
}

impl FindParser<'_> {
    fn parse_expression(&mut self) {
        while let Some(arg) = self.args.get(self.at) {
            self.at += 1;
            let Some(text) = arg.as_known() else {
                self.add_caution("what it looks for may be an action");
                continue;
            };
            if matches!(text, "(" | ")" | "!" | "," | "\\(" | "\\)" | "--") {
                continue;
            }
            let Some(name) = text.strip_prefix('-') else {
                self.add_caution("a word of its expression is not known");
                continue;
            };
            match name {
                "exec" | "ok" => self.parse_exec(""),
                "execdir" | "okdir" => self.parse_exec("./"),
                "delete" => self.record_delete(),
                "fprint" | "fprint0" | "fls" | "fprintf" => {
                    let file = self.args.get(self.at).cloned();
                    self.at += if name == "fprintf" { 2 } else { 1 };
                    self.changes = true;
                    if let Some(file) = file {
                        self.update_analysis(|analysis| {
                            analysis.with_touch(FileAccess::Write, &file)
                        });
                    }
                }
                "files0-from" => {
                    let file = self.args.get(self.at).cloned();
                    self.at += 1;
                    if let Some(file) = file {
                        self.update_analysis(|command_analysis| {
                            // The file lists the folders to walk.
                            command_analysis
                                .with_touch(FileAccess::Read, &file)
                                .with_recursive_touch(
                                    FileAccess::Read,
                                    &unknown_arg("", "-files0-from"),
                                )
                        });
                    }
                }
                name => match predicate_word_count(name) {
                    Some(words) => {
                        // `-name $x`: unquoted, it may expand to include `-delete`.
                        let open = args_from(self.args, self.at)
                            .iter()
                            .take(words)
                            .any(|value| value.may_split());
                        self.at += words;
                        if open {
                            self.add_caution("what it looks for may be an action");
                        }
                    }
                    None => self.add_caution("a word of its expression is not known"),
                },
            }
        }
    }

    /// `-exec command {} ;` or `-exec command {} +`.
    fn parse_exec(&mut self, beneath: &str) {
        let words = args_from(self.args, self.at);
        let ends = |(at, arg): &(usize, &ShellArg)| match arg.as_known() {
            Some(";" | "\\;") => true,
            Some("+") => at
                .checked_sub(1)
                .and_then(|at| words.get(at))
                .is_some_and(|arg| known_text(Some(arg)) == "{}"),
            _ => false,
        };
        let end = words.iter().enumerate().find(ends).map_or(words.len(), |(at, _)| at);
        let command = words.get(..end).unwrap_or_default();
        // An unknown word could be an earlier end of the command.
        let open =
            command.iter().any(|arg| arg.as_known().is_none() && arg.known_prefix().is_empty());
        self.at += end + 1;
        let start = match (beneath, self.points) {
            ("", [point]) => point.known_prefix(),
            ("", _) => "",
            (beneath, _) => beneath,
        };
        let argv: Vec<ShellArg> =
            command.iter().map(|arg| fill_placeholder(arg, "{}", start)).collect();
        if argv.is_empty() {
            return self.add_caution("the command to run is missing");
        }
        self.analysis.runs.push(NestedExecution::Command {
            argv,
            variables: Vec::new(),
            // Each command runs in the folder of its file.
            folder: (!beneath.is_empty()).then(|| {
                unknown_arg(
                    self.points
                        .first()
                        .filter(|_| self.points.len() == 1)
                        .map_or("", ShellArg::known_prefix),
                    "-execdir",
                )
            }),
            // The found names replace `{}`, also if there are several.
            more_arguments: false,
        });
        if open {
            self.update_analysis(|analysis| analysis.mark_guess_if(true));
        }
    }

    fn record_delete(&mut self) {
        self.changes = true;
        let points = self.points.to_vec();
        self.update_analysis(|analysis| {
            points
                .iter()
                .fold(analysis, |command_analysis, point| {
                    command_analysis.with_recursive_touch(FileAccess::Delete, point)
                })
                .mark_critical("removes every file it finds")
        });
    }

    fn add_caution(&mut self, why: &'static str) {
        self.analysis.class = CommandClass::Opaque;
        self.update_analysis(|analysis| analysis.with_caution(why));
    }

    fn update_analysis(&mut self, change: impl FnOnce(CommandAnalysis) -> CommandAnalysis) {
        self.analysis = change(std::mem::take(&mut self.analysis));
    }
}

fn predicate_word_count(name: &str) -> Option<usize> {
    // `-newerXY` compares times of any two kinds.
    if name.strip_prefix("newer").is_some_and(|kinds| kinds.len() == 2) {
        return Some(1);
    }
    if VALUE_PREDICATES.contains(&name) {
        return Some(1);
    }
    PLAIN_PREDICATES.contains(&name).then_some(0)
}

#[cfg(test)]
mod tests {
    use super::super::analysis_text::check;

    #[test]
    fn find_without_action_is_read_only() {
        check("find", "read-only read(./**)");
        check("find a b -name *.rs -type f", "read-only read(a/**) read(b/**) read(.)");
        check("find -L a ( -name x -o -newermt y ) -print0", "read-only read(a/**)");
        check("find . -not -path x -prune", "read-only read(./**)");
        check("find . -fprint out", "files write(out) read(./**)");
        check("find . -fprintf out %p -fls o2", "files write(out) write(o2) read(./**)");
        check("find . -files0-from f", "read-only read(f) read(-files0-from/**) read(./**)");
    }

    #[test]
    fn find_actions_are_recorded() {
        check("find . -exec rm -rf {} ;", "wrapper read(./**) runs[rm -rf {}]");
        check("find . -exec rm {} +", "wrapper read(./**) runs[rm {}]");
        check("find . -ok rm {} ; -exec ls ;", "wrapper read(./**) runs[rm {}] runs[ls]");
        check("find a -execdir rm {} ;", "wrapper read(a/**) runs[-execdir: rm {}]");
        check("find . -exec sh -c rm_{} ;", "wrapper read(./**) runs[sh -c rm {}]");
        check("find -D tree -delete", "files delete(./**) read(./**) critical");
        check("find -f a -delete", "files delete(a/**) read(a/**) critical");
        check("find . -name x -delete", "files delete(./**) read(./**) critical");
        check(
            "find a -delete -o -exec rm {} ;",
            "wrapper delete(a/**) read(a/**) runs[rm {}] critical",
        );
        check("find . $X", "program read(./**) caution");
        check("find . -name $X", "program read(./**) caution");
        check("find . -name a$X", "program read(./**) caution");
        check("find . -name \"$X\"", "read-only read(./**)");
        check("find . -name \"$@\"", "program read(./**) caution");
        check("find . -strange", "program read(./**) caution");
        check("find $X -name y", "program read(./**) caution");
        check("find . -exec rm $X {} ;", "wrapper read(./**) runs[rm $X {}] unknown");
    }
}
