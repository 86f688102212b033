//! Options of programs that run another one, read strictly.
//!
//! Where the options end is where the inner command begins. An option that is not in the table may
//! take the next word as its value or not, so from there on everything is a guess, and the result
//! says so. The tables are written as getopt wants them: `a:` takes a value, `a::` only an attached
//! one.

use super::options::{ParsedArguments, ParsedOption};
use crate::shell::ShellArg;

/// The options of a program.
#[derive(Clone, Copy, Debug)]
pub(super) struct GetoptSpec {
    /// One letter each, then its mark. `S!` takes a value and ends the options.
    pub(super) short: &'static str,
    /// Names without dashes, with spaces between.
    pub(super) long: &'static str,
}

/// Where options end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OptionTerminator {
    /// At the first operand.
    AtOperand,
    /// At `--` only.
    Never,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OptionValueKind {
    Nothing,
    Value,
    AttachedValue,
    ValueAndEnds,
}

impl GetoptSpec {
    /// Takes the arguments apart. `uncertain` is set when an option is not in the table, or when an
    /// argument that is not known could be one.
    pub(super) fn parse(&self, args: &[ShellArg], ends: OptionTerminator) -> ParsedArguments {
        let mut reader = GetoptReader {
            table: self,
            args,
            at: 0,
            ended: false,
            read: ParsedArguments::default(),
        };
        while let (false, Some(arg)) = (reader.ended, args.get(reader.at)) {
            let start = arg.known_prefix();
            let known = arg.as_known().is_some();
            reader.read.uncertain |= arg.may_be_option() && !known;
            if let Some(long) = start.strip_prefix("--") {
                reader.at += 1;
                if long.is_empty() && known {
                    break;
                }
                reader.read_long(arg, long);
            } else if let Some(letters) = start.strip_prefix('-').filter(|rest| !rest.is_empty()) {
                reader.at += 1;
                reader.read_cluster(arg, letters);
            } else if ends == OptionTerminator::AtOperand {
                break;
            } else {
                reader.at += 1;
                reader.read.operands.push(arg.clone());
            }
        }
        let GetoptReader { at, mut read, .. } = reader;
        read.operands.extend_from_slice(super::args_from(args, at));
        read
    }

    fn find_letter(&self, wanted: char) -> Option<OptionValueKind> {
        let rest = self.short.split_once(wanted).map(|(_, rest)| rest)?;
        Some(parse_value_marks(rest))
    }

    /// The full name of a long option and what it takes; abbreviations that fit one name count.
    fn find_name(&self, written: &str) -> Option<(&'static str, OptionValueKind)> {
        let mut fits = self.long.split_whitespace().filter(|entry| entry.starts_with(written));
        let exact = self
            .long
            .split_whitespace()
            .find(|entry| entry.trim_end_matches([':', '!']) == written);
        let entry = match (exact, fits.next(), fits.next()) {
            (Some(exact), _, _) => exact,
            (None, Some(only), None) => only,
            _ => return None,
        };
        let name = entry.trim_end_matches([':', '!']);
        Some((name, parse_value_marks(entry.get(name.len()..).unwrap_or_default())))
    }
}

/// What the marks behind a name in the table say.
fn parse_value_marks(marks: &str) -> OptionValueKind {
    if marks.starts_with("::") {
        OptionValueKind::AttachedValue
    } else if marks.starts_with(':') {
        OptionValueKind::Value
    } else if marks.starts_with('!') {
        OptionValueKind::ValueAndEnds
    } else {
        OptionValueKind::Nothing
    }
}

struct GetoptReader<'a> {
    table: &'a GetoptSpec,
    args: &'a [ShellArg],
    at: usize,
    ended: bool,
    read: ParsedArguments,
}

impl GetoptReader<'_> {
    fn read_long(&mut self, arg: &ShellArg, long: &str) {
        let written = long.split_once('=').map_or(long, |(name, _)| name);
        let attached = super::strip_arg_prefix(arg, &format!("--{written}="));
        let Some((name, takes)) = self.table.find_name(written) else {
            self.read.uncertain = true;
            self.read.given.push(ParsedOption { name: written.to_owned(), value: attached });
            return;
        };
        let value = match takes {
            OptionValueKind::Value | OptionValueKind::ValueAndEnds if attached.is_none() => {
                self.next_value()
            }
            _ => attached,
        };
        self.read.given.push(ParsedOption { name: name.to_owned(), value });
        self.ended = takes == OptionValueKind::ValueAndEnds;
    }

    fn read_cluster(&mut self, arg: &ShellArg, letters: &str) {
        for (at, letter) in letters.char_indices() {
            let before = letters.get(..at + letter.len_utf8()).unwrap_or(letters);
            let attached = super::strip_arg_prefix(arg, &format!("-{before}"))
                .filter(|rest| *rest != ShellArg::known(""));
            let takes = self.table.find_letter(letter).filter(|_| !matches!(letter, ':' | '!'));
            let value = match takes {
                None => {
                    self.read.uncertain = true;
                    None
                }
                Some(OptionValueKind::Nothing) => None,
                Some(OptionValueKind::AttachedValue) => attached,
                Some(OptionValueKind::Value | OptionValueKind::ValueAndEnds) => {
                    attached.or_else(|| self.next_value())
                }
            };
            self.read.given.push(ParsedOption { name: letter.to_string(), value });
            if !matches!(takes, None | Some(OptionValueKind::Nothing)) {
                self.ended = takes == Some(OptionValueKind::ValueAndEnds);
                return;
            }
        }
    }

    fn next_value(&mut self) -> Option<ShellArg> {
        let next = self.args.get(self.at)?;
        self.at += 1;
        // Unquoted, it may turn out to be no word or several.
        self.read.uncertain |= next.may_split() || matches!(next, ShellArg::Pattern(_));
        Some(next.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::super::analysis_text::parse_argument;
    use super::*;

    const TABLE: GetoptSpec =
        GetoptSpec { short: "vn:i::S!", long: "verbose number: in:: split! version" };

    #[track_caller]
    fn check(ends: OptionTerminator, line: &str, expected: &str) {
        let args: Vec<ShellArg> = line.split_whitespace().map(parse_argument).collect();
        let options = TABLE.parse(&args, ends);
        let mut shown: Vec<String> = options
            .given
            .iter()
            .map(|given| match &given.value {
                Some(value) => format!("{}={value}", given.name),
                None => given.name.clone(),
            })
            .collect();
        shown.extend(options.operands.iter().map(|operand| format!("<{operand}>")));
        shown.extend(options.uncertain.then(|| "?".to_owned()));
        assert_eq!(shown.join(" "), expected, "{line}");
    }

    #[test]
    fn getopt_options_end_at_inner_command() {
        check(OptionTerminator::AtOperand, "-v -n 3 cmd -v", "v n=3 <cmd> <-v>");
        check(OptionTerminator::AtOperand, "-vn3 -i5 -i cmd", "v n=3 i=5 i <cmd>");
        check(OptionTerminator::AtOperand, "--num 3 --in=4 --in cmd", "number=3 in=4 in <cmd>");
        check(OptionTerminator::AtOperand, "-n 3 -- -v cmd", "n=3 <-v> <cmd>");
        check(OptionTerminator::AtOperand, "-vS text -v cmd", "v S=text <-v> <cmd>");
        check(OptionTerminator::AtOperand, "--split=text -v", "split=text <-v>");
        check(OptionTerminator::Never, "a -v b -- -n", "v <a> <b> <-n>");
    }

    #[test]
    fn getopt_unlisted_option_makes_result_uncertain() {
        check(OptionTerminator::AtOperand, "-z cmd", "z <cmd> ?");
        check(OptionTerminator::AtOperand, "--ver cmd", "ver <cmd> ?");
        check(OptionTerminator::AtOperand, "--other=1 cmd", "other=1 <cmd> ?");
        check(OptionTerminator::AtOperand, "$X cmd", "<$X> <cmd> ?");
        check(OptionTerminator::AtOperand, "-n $X cmd", "n=$X <cmd> ?");
        check(OptionTerminator::AtOperand, "--number=$X cmd", "number=$X <cmd> ?");
        check(OptionTerminator::AtOperand, "a$X cmd", "<a$X> <cmd>");
    }
}
