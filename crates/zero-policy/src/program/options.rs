//! Parses command lines: which argument is an option, its value, or an operand.
//!
//! The options of a program are written as one text, which [`options!`] parses at compile time:
//!
//! ```text
//! -vq -LI: o,output:write color:: R,recursive!beneath =version!no-files
//! ```
//!
//! `-vq` and `-LI:` are short options, a letter each. The names of one option are separated by
//! commas, and a name of one letter is short. `:` takes a value, `::` only an attached one. A word
//! after that is the use of the value ([`ValueUse`]), one after `!` is the effect of the option
//! ([`OptionChange`]). An option after `=` cannot be abbreviated.

use std::cmp::Ordering;

use crate::program::arguments::{args_from, strip_arg_prefix};
use crate::shell::ShellArg;

/// Creates an [`OptionTable`] from a text.
macro_rules! options {
    ($text:expr) => {{
        const COUNT: usize = $crate::program::options::count_names($text);
        const ENTRIES: &[$crate::program::options::OptionEntry] =
            &$crate::program::options::parse_table::<COUNT>($text);
        $crate::program::options::OptionTable::new(ENTRIES)
    }};
}
pub(super) use options;

/// The options of a program, and the rules for parsing its command lines.
#[derive(Clone, Copy, Debug)]
pub(super) struct OptionTable {
    /// Sorted by name, so that all matches of an abbreviation are adjacent.
    entries: &'static [OptionEntry],
    reading: OptionReading,
    until_operand: bool,
    single_dash: bool,
}

/// One name of an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct OptionEntry {
    pub(super) name: &'static str,
    takes: OptionValueKind,
    pub(super) value_use: ValueUse,
    pub(super) change: OptionChange,
    in_full_only: bool,
    /// Index of the option in the text: effects are added in this order.
    pub(super) place: u16,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OptionValueKind {
    Nothing,
    Value,
    AttachedValue,
    /// A value, after which there are no options: `env -S`.
    LastValue,
}

/// The use of an option's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ValueUse {
    Nothing,
    /// A file that is read.
    Read,
    /// A file with which the program proves who it is. It is read, and its content goes to no host.
    Identity,
    /// A file, or `-`, that lists the files to read.
    List,
    /// A file that is written; `-` is standard output.
    Write,
    /// A host.
    Host,
    /// A program that gets further arguments.
    Command,
    /// A script for a shell.
    Script,
    /// The working folder.
    Folder,
    /// A path, which must be inside the workspace.
    Path,
}

/// The effect of an option's presence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OptionChange {
    Nothing,
    /// The program descends into folders.
    Beneath,
    /// It replaces the first operands, so that none is skipped.
    Pattern,
    /// The program does more than its row says.
    More,
    /// The operands are written instead of read.
    WriteOperands,
    /// The operands are not files.
    NoFiles,
    /// The program runs no command but acts on an existing process.
    ActOnProcess,
    /// A mode that only shows something; a [`OptionChange::Mode`] beside it may replace it.
    Show,
    /// The output goes to standard output or to the value, in every mode.
    Redirect,
    /// A mode that changes files.
    Mode,
    /// Its value or its presence selects code to run.
    Code,
    /// Something unknown runs.
    Run(&'static str),
    /// A rule for the name alone does not cover it.
    Caution(&'static str),
}

/// How a command line is parsed where the table does not decide.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OptionReading {
    /// An unlisted option takes no value. An abbreviation counts as each option that it matches:
    /// which one it is depends on the version of the program.
    Lenient,
    /// For programs that run another one. An unlisted option may or may not take the next word, so
    /// everything after it is a guess.
    Strict,
    /// git accepts any unambiguous abbreviation of its options, and not all of them are listed.
    Git,
}

/// Options of git whose name is a prefix of another's.
const GIT_PREFIX_OPTIONS: &[&str] = &["text", "no-index", "all"];

impl OptionTable {
    pub(super) const fn new(entries: &'static [OptionEntry]) -> Self {
        let reading = OptionReading::Lenient;
        Self { entries, reading, until_operand: false, single_dash: false }
    }

    /// Parses strictly, for a program that runs another one.
    pub(super) const fn strict(self) -> Self {
        Self { reading: OptionReading::Strict, ..self }
    }

    /// Parses like git.
    pub(super) const fn git(self) -> Self {
        Self { reading: OptionReading::Git, ..self }
    }

    /// Ends the options at the first operand, not only at `--`.
    pub(super) const fn until_operand(self) -> Self {
        Self { until_operand: true, ..self }
    }

    /// Accepts long options with one dash too, as `go` and `xmllint` do.
    pub(super) const fn single_dash(self) -> Self {
        Self { single_dash: true, ..self }
    }

    /// The entries of the table.
    pub(super) fn entries(&self) -> &'static [OptionEntry] {
        self.entries
    }

    /// Whether the short option `letter` takes a value.
    pub(super) fn takes_value(&self, letter: &str) -> bool {
        self.find(letter).iter().any(|entry| entry.takes != OptionValueKind::Nothing)
    }

    /// Parses the arguments after the program's name.
    pub(super) fn parse<'a>(&self, args: &'a [ShellArg]) -> ParsedArguments<'a> {
        let parsed = ParsedArguments::default();
        let mut reader = ArgumentReader { table: *self, args, at: 0, ended: false, parsed };
        while let (false, Some(arg)) = (reader.ended, args.get(reader.at)) {
            let start = arg.known_prefix();
            let known = arg.as_known().is_some();
            if known && start == "--" {
                reader.at += 1;
                reader.parsed.separator = Some(reader.parsed.operands.len());
                break;
            }
            let is_option = match self.reading {
                _ if known => true,
                OptionReading::Lenient => self.names_option(start),
                OptionReading::Strict | OptionReading::Git => true,
            };
            reader.note_doubt(arg, known, is_option);
            let long = start.strip_prefix("--").or_else(|| {
                let name = start.strip_prefix('-').filter(|name| name.len() > 1)?;
                self.single_dash.then_some(name)
            });
            if let Some(long) = long.filter(|_| is_option) {
                reader.at += 1;
                reader.read_long(arg, long);
            } else if let Some(letters) =
                start.strip_prefix('-').filter(|rest| is_option && !rest.is_empty())
            {
                reader.at += 1;
                reader.read_cluster(arg, letters);
            } else if self.until_operand {
                break;
            } else {
                reader.at += 1;
                reader.parsed.operands.push(arg.clone());
            }
        }
        let ArgumentReader { at, mut parsed, .. } = reader;
        parsed.operands.extend_from_slice(args_from(args, at));
        parsed
    }

    /// Whether an argument with this known prefix certainly is a listed option: `--out=$x` and
    /// `-o$x` are, `-v$x` may contain further options.
    fn names_option(&self, start: &str) -> bool {
        match start.strip_prefix("--") {
            Some(long) => long.contains('='),
            None => start.strip_prefix('-').is_some_and(|letters| {
                !self.single_dash
                    && letters.char_indices().any(|(at, letter)| {
                        self.takes_value(letters.get(at..at + letter.len_utf8()).unwrap_or(""))
                    })
            }),
        }
    }

    /// The entry of this name, as a slice of at most one.
    fn find(&self, name: &str) -> &'static [OptionEntry] {
        match self.entries.binary_search_by(|entry| entry.name.cmp(name)) {
            Ok(at) => self.entries.get(at..=at).unwrap_or_default(),
            Err(_) => &[],
        }
    }

    /// The entries of the long options that a name may mean.
    fn find_long(&self, name: &str) -> &'static [OptionEntry] {
        let from = self.entries.partition_point(|entry| entry.name < name);
        let fits = self.entries.get(from..).unwrap_or_default();
        let end = fits.partition_point(|entry| entry.name.starts_with(name));
        let fits = fits.get(..end).unwrap_or_default();
        let fits = match fits {
            [letter, rest @ ..] if letter.name.len() <= 1 => rest,
            fits => fits,
        };
        match (self.reading, fits) {
            (OptionReading::Git, _) if GIT_PREFIX_OPTIONS.contains(&name) => self.find(name),
            (OptionReading::Git | OptionReading::Strict, _) if name.is_empty() => &[],
            (OptionReading::Git, _) => fits,
            (_, [exact, ..]) if exact.name == name => fits.get(..1).unwrap_or_default(),
            _ => fits,
        }
    }
}

/// An option of a command line with what the table knows about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ParsedOption<'a> {
    /// The name as written, without dashes; with them if git has no such option.
    pub(super) written: &'a str,
    fits: &'static [OptionEntry],
    /// Its value, if it has one.
    pub(super) value: Option<ShellArg>,
}

impl<'a> ParsedOption<'a> {
    /// The entries it may mean; several for an abbreviation.
    pub(super) fn entries(&self) -> impl Iterator<Item = &'static OptionEntry> {
        self.fits.iter().filter(|entry| !entry.in_full_only || entry.name == self.written)
    }

    /// The names it may mean: itself if it is not listed.
    pub(super) fn names(&self) -> impl Iterator<Item = &'a str> {
        let listed = self.entries().next().is_some();
        self.entries().map(|entry| entry.name).chain((!listed).then_some(self.written))
    }

    pub(super) fn is_one_of(&self, names: &[&str]) -> bool {
        match self.fits {
            [] => names.contains(&self.written),
            [only] => names.contains(&only.name),
            _ => self.names().any(|own| names.contains(&own)),
        }
    }
}

/// A parsed command line without its program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ParsedArguments<'a> {
    /// The options, in order.
    pub(super) parsed: Vec<ParsedOption<'a>>,
    /// Everything else, in order.
    pub(super) operands: Vec<ShellArg>,
    /// The number of operands before `--`, if there is one.
    separator: Option<usize>,
    /// Whether an unknown argument may be an option or, in strict parsing, an option is not listed.
    pub(super) uncertain: bool,
}

impl ParsedArguments<'_> {
    /// Whether one of these options is present.
    pub(super) fn has(&self, names: &[&str]) -> bool {
        self.parsed.iter().any(|option| option.is_one_of(names))
    }

    /// Whether one of these options is present, and none may take it back; for programs such as
    /// git, which accept `--no-name`, abbreviations of that and perhaps `--name=no`.
    pub(super) fn keeps(&self, names: &[&str]) -> bool {
        let may_negate = |given: &ParsedOption<'_>| {
            let long = given.written.strip_prefix("--").unwrap_or(given.written);
            let takes_back = match long.strip_prefix("no-") {
                Some(rest) => names.iter().any(|name| name.starts_with(rest)),
                None => long.len() > 1 && "no-".starts_with(long) || given.written == "--n",
            };
            let has_value = |entry: &OptionEntry| {
                entry.takes == OptionValueKind::Nothing && names.contains(&entry.name)
            };
            takes_back || given.value.is_some() && given.entries().any(has_value)
        };
        self.has(names) && !self.parsed.iter().any(may_negate)
    }

    /// The values of these options, in order.
    pub(super) fn values<'s>(&'s self, names: &'s [&str]) -> impl Iterator<Item = &'s ShellArg> {
        let given = self.parsed.iter().filter(|option| option.is_one_of(names));
        given.filter_map(|parsed_option| parsed_option.value.as_ref())
    }

    /// Whether an option with this effect is present.
    pub(super) fn has_change(&self, change: OptionChange) -> bool {
        self.parsed.iter().any(|option| option.entries().any(|entry| entry.change == change))
    }

    /// Whether an option keeps the program from changing its operands, and no other one may undo
    /// that: the order of modes differs between programs, and an unlisted option may negate one.
    pub(super) fn only_shows(&self) -> bool {
        use OptionChange::{Beneath, Mode, Nothing, Redirect, Show};
        self.is_set_beside(Redirect, &[Nothing, Beneath, Show, Redirect, Mode])
            || self.is_set_beside(Show, &[Nothing, Beneath, Show, Redirect])
    }

    /// Whether an option with this effect is present, and all options have one of the others.
    fn is_set_beside(&self, change: OptionChange, others: &[OptionChange]) -> bool {
        let means = |given: &ParsedOption<'_>, changes: &[OptionChange]| {
            let mut entries = given.entries().peekable();
            entries.peek().is_some()
                && entries.all(|entry| {
                    let negated = entry.takes == OptionValueKind::Nothing && given.value.is_some();
                    !negated && changes.contains(&entry.change)
                })
        };
        self.parsed.iter().any(|option| means(option, &[change]))
            && self.parsed.iter().all(|parsed_option| means(parsed_option, others))
    }

    /// The values with this use, in order.
    pub(super) fn used_values(&self, value_use: ValueUse) -> impl Iterator<Item = &ShellArg> {
        let is_used = move |entry: &OptionEntry| entry.value_use == value_use;
        let given = self.parsed.iter().filter(move |option| option.entries().any(is_used));
        given.filter_map(|parsed_option| parsed_option.value.as_ref())
    }

    /// The values of these options, cloned.
    pub(super) fn all_values(&self, names: &[&str]) -> Vec<ShellArg> {
        self.values(names).cloned().collect()
    }

    /// The options in the order of the table: every entry each may mean, with its value.
    pub(super) fn by_place(&self) -> Vec<(&'static OptionEntry, Option<&ShellArg>)> {
        let mut argument: Vec<_> = Vec::new();
        for option in &self.parsed {
            argument.extend(option.entries().map(|entry| (entry, option.value.as_ref())));
        }
        argument.sort_by_key(|(entry, _)| entry.place);
        argument
    }

    /// Whether every option is one of these, written in full; for git.
    pub(super) fn has_only(&self, letters: &str, names: &[&str]) -> bool {
        self.parsed.iter().all(|option| match option.written.strip_prefix("--") {
            Some(name) => names.contains(&name),
            None => letters.contains(option.written),
        })
    }

    /// The operands before `--`, and those after it.
    pub(super) fn split_at_separator(&self) -> (&[ShellArg], &[ShellArg]) {
        self.operands.split_at(self.separator.unwrap_or(self.operands.len()))
    }
}

struct ArgumentReader<'a> {
    table: OptionTable,
    args: &'a [ShellArg],
    at: usize,
    ended: bool,
    parsed: ParsedArguments<'a>,
}

impl<'a> ArgumentReader<'a> {
    fn note_doubt(&mut self, arg: &ShellArg, known: bool, is_option: bool) {
        let may_be_option = !known && arg.may_be_option();
        self.parsed.uncertain |= match self.table.reading {
            OptionReading::Lenient => may_be_option && !is_option,
            OptionReading::Strict => may_be_option,
            OptionReading::Git => {
                // `--since="$x"` is that option, whatever its value.
                let start = arg.known_prefix();
                let is_valued = start.starts_with("--") && start.contains('=');
                arg.may_split() || may_be_option && !is_valued
            }
        };
    }

    fn read_long(&mut self, arg: &'a ShellArg, long: &'a str) {
        let written = long.split_once('=').map_or(long, |(name, _)| name);
        let dashes = arg.known_prefix().len() - long.len();
        let attached = (written.len() < long.len())
            .then(|| self.strip(arg, dashes + written.len() + "=".len()));
        let is_candidate = |entry: &OptionEntry| !entry.in_full_only || entry.name == written;
        let mut fits = self.table.find_long(written);
        if !fits.iter().any(is_candidate) {
            fits = &[];
        }
        let reading = self.table.reading;
        if reading == OptionReading::Strict && fits.len() != 1 {
            self.parsed.uncertain = true;
            fits = &[];
        }
        let is_exact = matches!(fits, [] | [_]) && fits.iter().all(|entry| entry.name == written);
        let takes_value = fits.iter().any(|entry| {
            is_candidate(entry)
                && matches!(entry.takes, OptionValueKind::Value | OptionValueKind::LastValue)
        });
        let value = match attached {
            Some(value) => Some(value),
            None if !takes_value => None,
            // An apparent abbreviation may be an unlisted option, and then the next argument is not
            // its value.
            None if reading == OptionReading::Lenient && !self.table.until_operand && !is_exact => {
                self.args.get(self.at).cloned()
            }
            None if reading == OptionReading::Git && arg.as_known().is_none() => None,
            None => self.next_value(),
        };
        self.ended = fits.iter().any(|entry| entry.takes == OptionValueKind::LastValue);
        if fits.is_empty() && reading == OptionReading::Lenient {
            // Versions differ; one letter after two dashes can only mean that option.
            fits = self.table.find(written);
        }
        let written = match reading {
            OptionReading::Git => arg.known_prefix().split('=').next().unwrap_or_default(),
            _ => written,
        };
        self.parsed.parsed.push(ParsedOption { written, fits, value });
    }

    fn read_cluster(&mut self, arg: &'a ShellArg, letters: &'a str) {
        for (at, letter) in letters.char_indices() {
            let end = at + letter.len_utf8();
            let written = letters.get(at..end).unwrap_or_default();
            let fits = self.table.find(written);
            self.parsed.uncertain |= fits.is_empty() && self.table.reading == OptionReading::Strict;
            let takes = fits.first().map_or(OptionValueKind::Nothing, |entry| entry.takes);
            if takes == OptionValueKind::Nothing {
                self.parsed.parsed.push(ParsedOption { written, fits, value: None });
                continue;
            }
            let attached = Some(self.strip(arg, "-".len() + end));
            let value = match attached.filter(|rest| *rest != ShellArg::known("")) {
                None if takes != OptionValueKind::AttachedValue => self.next_value(),
                attached => attached,
            };
            self.parsed.parsed.push(ParsedOption { written, fits, value });
            self.ended = takes == OptionValueKind::LastValue;
            return;
        }
    }

    /// Takes the next argument as a value.
    fn next_value(&mut self) -> Option<ShellArg> {
        let next = self.args.get(self.at)?;
        match self.table.reading {
            OptionReading::Lenient => {}
            // Unquoted, it may expand to no word or to several.
            OptionReading::Strict => {
                self.parsed.uncertain |= next.may_split() || matches!(next, ShellArg::Pattern(_));
            }
            // One that looks like an option is parsed as an option: if it is a value after all, the
            // result is only too strict.
            OptionReading::Git if next.known_prefix().starts_with('-') => return None,
            OptionReading::Git => {
                let is_pattern = matches!(next, ShellArg::Pattern(_));
                self.parsed.uncertain |= next.may_split() || is_pattern && next.may_be_option();
            }
        }
        self.at += 1;
        Some(next.clone())
    }

    /// The part of an argument after the first bytes.
    fn strip(&self, arg: &ShellArg, length: usize) -> ShellArg {
        match self.table.reading {
            OptionReading::Lenient => strip_start(arg, length),
            _ => {
                let prefix = arg.known_prefix().get(..length).unwrap_or_default();
                strip_arg_prefix(arg, prefix).unwrap_or_else(|| arg.clone())
            }
        }
    }
}

/// An argument without the first `length` bytes of its known prefix. An unknown argument keeps its
/// written form for display.
pub(super) fn strip_start(arg: &ShellArg, length: usize) -> ShellArg {
    let cut = |text: &str| text.get(length..).unwrap_or_default().to_owned();
    match arg {
        ShellArg::Known(text) => ShellArg::Known(cut(text)),
        ShellArg::Pattern(pattern) => ShellArg::Pattern(cut(pattern)),
        ShellArg::Unknown { starts_with, written } => {
            ShellArg::Unknown { starts_with: cut(starts_with), written: written.clone() }
        }
    }
}

/// The number of names in an option text.
pub(super) const fn count_names(text: &str) -> usize {
    let bytes = text.as_bytes();
    let (mut at, mut count) = (0, 0);
    while at < bytes.len() {
        let end = find_end(bytes, at);
        let letters = bytes[at] == b'-';
        count += !letters as usize;
        at += 1;
        while at < end && !is_name_end(bytes[at]) {
            count += (letters || bytes[at] == b',') as usize;
            at += 1;
        }
        at = end + 1;
    }
    count
}

/// Parses an option text and sorts it by name.
pub(super) const fn parse_table<const COUNT: usize>(text: &'static str) -> [OptionEntry; COUNT] {
    let bytes = text.as_bytes();
    let mut entries = [OptionEntry {
        name: "",
        takes: OptionValueKind::Nothing,
        value_use: ValueUse::Nothing,
        change: OptionChange::Nothing,
        in_full_only: false,
        place: 0,
    }; COUNT];
    let (mut at, mut count, mut place) = (0, 0, 0);
    while at < bytes.len() {
        let end = find_end(bytes, at);
        let mut names_end = at + 1;
        while names_end < end && !is_name_end(bytes[names_end]) {
            names_end += 1;
        }
        let mut mark = names_end;
        while mark < end && bytes[mark] == b':' {
            mark += 1;
        }
        let mut change = mark;
        while change < end && bytes[change] != b'!' {
            change += 1;
        }
        let value_use = cut(text, mark, change);
        let entry = OptionEntry {
            name: "",
            takes: match mark - names_end {
                0 => OptionValueKind::Nothing,
                1 if is_same(value_use, "last") => OptionValueKind::LastValue,
                1 => OptionValueKind::Value,
                _ => OptionValueKind::AttachedValue,
            },
            value_use: parse_value_use(value_use),
            change: if change < end {
                parse_change(cut(text, change + 1, end))
            } else {
                OptionChange::Nothing
            },
            in_full_only: bytes[at] == b'=',
            place,
        };
        let letters = bytes[at] == b'-';
        let mut from = if letters || entry.in_full_only { at + 1 } else { at };
        while from < names_end {
            let mut to = from + 1;
            while !letters && to < names_end && bytes[to] != b',' {
                to += 1;
            }
            entries[count] = OptionEntry { name: cut(text, from, to), ..entry };
            count += 1;
            from = if letters { to } else { to + 1 };
        }
        place += 1;
        at = end + 1;
    }
    sort_by_name(entries)
}

/// The end of the entry that begins at `at`.
const fn find_end(bytes: &[u8], mut at: usize) -> usize {
    while at < bytes.len() && bytes[at] != b' ' {
        at += 1;
    }
    at
}

const fn is_name_end(byte: u8) -> bool {
    matches!(byte, b':' | b'!')
}

const fn cut(text: &'static str, from: usize, to: usize) -> &'static str {
    text.split_at(to).0.split_at(from).1
}

const fn parse_value_use(word: &str) -> ValueUse {
    match word.as_bytes() {
        b"" | b"last" => ValueUse::Nothing,
        b"read" => ValueUse::Read,
        b"identity" => ValueUse::Identity,
        b"list" => ValueUse::List,
        b"write" => ValueUse::Write,
        b"host" => ValueUse::Host,
        b"command" => ValueUse::Command,
        b"script" => ValueUse::Script,
        b"folder" => ValueUse::Folder,
        b"path" => ValueUse::Path,
        _ => panic!("an option's value is put to a use that is not known"),
    }
}

const fn parse_change(word: &str) -> OptionChange {
    match word.as_bytes() {
        b"beneath" => OptionChange::Beneath,
        b"pattern" => OptionChange::Pattern,
        b"more" => OptionChange::More,
        b"write-operands" => OptionChange::WriteOperands,
        b"no-files" => OptionChange::NoFiles,
        b"process" => OptionChange::ActOnProcess,
        b"show" => OptionChange::Show,
        b"redirect" => OptionChange::Redirect,
        b"mode" => OptionChange::Mode,
        b"code" => OptionChange::Code,
        b"plugin" => OptionChange::Run("a plugin is code that is loaded"),
        b"perl" => OptionChange::Run("`--output` is a Perl expression"),
        b"pager-commands" => OptionChange::Run("the pager is given commands"),
        b"editor" => OptionChange::Run("it starts an editor, which runs commands from its input"),
        b"keys" => OptionChange::Caution("keys can be bound to commands"),
        b"option-file" => OptionChange::Caution("a file gives it options"),
        b"command-file" => OptionChange::Caution("a file gives it commands"),
        _ => panic!("an option changes something that is not known"),
    }
}

const fn is_same(left: &str, right: &str) -> bool {
    matches!(compare(left, right), Ordering::Equal)
}

const fn compare(left: &str, right: &str) -> Ordering {
    let (left, right) = (left.as_bytes(), right.as_bytes());
    let mut at = 0;
    while at < left.len() && at < right.len() {
        if left[at] != right[at] {
            return if left[at] < right[at] { Ordering::Less } else { Ordering::Greater };
        }
        at += 1;
    }
    if left.len() == right.len() {
        Ordering::Equal
    } else if left.len() < right.len() {
        Ordering::Less
    } else {
        Ordering::Greater
    }
}

/// Sorts entries; a duplicate name is a compile-time error.
const fn sort_by_name<const COUNT: usize>(
    mut entries: [OptionEntry; COUNT],
) -> [OptionEntry; COUNT] {
    let mut sorted = 1;
    while sorted < COUNT {
        let mut at = sorted;
        while at > 0 {
            match compare(entries[at - 1].name, entries[at].name) {
                Ordering::Less => break,
                Ordering::Equal => panic!("an option is listed twice"),
                Ordering::Greater => {}
            }
            let moved = entries[at];
            entries[at] = entries[at - 1];
            entries[at - 1] = moved;
            at -= 1;
        }
        sorted += 1;
    }
    entries
}

#[cfg(test)]
mod tests {
    use super::super::analysis_text::parse_argument;
    use super::*;

    #[track_caller]
    fn check(table: OptionTable, line: &str, expected: &str) {
        let args: Vec<ShellArg> = line.split_whitespace().map(parse_argument).collect();
        let options = table.parse(&args);
        let mut shown: Vec<String> = Vec::new();
        for given in &options.parsed {
            shown.extend(given.names().map(|name| match &given.value {
                Some(value) => format!("{name}={value}"),
                None => name.to_owned(),
            }));
        }
        shown.extend(options.operands.iter().map(|operand| format!("<{operand}>")));
        shown.extend(options.uncertain.then(|| "?".to_owned()));
        assert_eq!(shown.join(" "), expected, "{line}");
    }

    #[test]
    fn table_text_is_taken_apart_and_sorted() {
        let table =
            options!("-vq -LI: o,output:write color:: R,recursive!beneath =version!no-files");
        let shown: Vec<String> = table
            .entries()
            .iter()
            .map(|entry| {
                let OptionEntry { name, takes, value_use, change, in_full_only, place } = entry;
                format!("{name} {takes:?} {value_use:?} {change:?} {in_full_only} {place}")
            })
            .collect();
        assert_eq!(
            shown,
            [
                "I Value Nothing Nothing false 1",
                "L Value Nothing Nothing false 1",
                "R Nothing Nothing Beneath false 4",
                "color AttachedValue Nothing Nothing false 3",
                "o Value Write Nothing false 2",
                "output Value Write Nothing false 2",
                "q Nothing Nothing Nothing false 0",
                "recursive Nothing Nothing Beneath false 4",
                "v Nothing Nothing Nothing false 0",
                "version Nothing Nothing NoFiles true 5",
            ]
        );
    }

    const STRICT: OptionTable =
        options!("v n: i:: S:last verbose number: in:: split:last version").strict();

    #[test]
    fn strict_options_end_at_inner_command() {
        let table = STRICT.until_operand();
        check(table, "-v -n 3 cmd -v", "v n=3 <cmd> <-v>");
        check(table, "-vn3 -i5 -i cmd", "v n=3 i=5 i <cmd>");
        check(table, "--num 3 --in=4 --in cmd", "number=3 in=4 in <cmd>");
        check(table, "-n 3 -- -v cmd", "n=3 <-v> <cmd>");
        check(table, "-vS text -v cmd", "v S=text <-v> <cmd>");
        check(table, "--split=text -v", "split=text <-v>");
        check(STRICT, "a -v b -- -n", "v <a> <b> <-n>");
    }

    #[test]
    fn strict_unlisted_option_makes_result_uncertain() {
        let table = STRICT.until_operand();
        check(table, "-z cmd", "z <cmd> ?");
        check(table, "--ver cmd", "ver <cmd> ?");
        check(table, "--other=1 cmd", "other=1 <cmd> ?");
        check(table, "$X cmd", "<$X> <cmd> ?");
        check(table, "-n $X cmd", "n=$X <cmd> ?");
        check(table, "--number=$X cmd", "number=$X <cmd> ?");
        check(table, "a$X cmd", "<a$X> <cmd>");
    }

    const LENIENT: OptionTable = options!("o: output: recursive reverse =tree");

    #[test]
    fn lenient_value_prefix_starts_after_option() {
        let args = ["--out=/etc/$x", "-ro/etc/$x", "--output=a*"].map(parse_argument);
        let options = LENIENT.parse(&args);
        let starts: Vec<&str> =
            options.values(&["o", "output"]).map(|value| value.known_prefix()).collect();
        assert_eq!(starts, ["/etc/", "/etc/", "a"]);
    }

    #[test]
    fn lenient_options_parse_like_getopt() {
        check(LENIENT, "-rf a", "r f <a>");
        check(LENIENT, "-ro out a", "r o=out <a>");
        check(LENIENT, "-oout a -", "o=out <a> <->");
        check(LENIENT, "--out=x --rec --re", "output=x recursive recursive reverse");
        check(LENIENT, "--output x y -- -r", "output=x <y> <-r>");
        check(LENIENT, "$x --output=$y", "output=--output=$y <$x> ?");
        check(LENIENT, "--outp x -r", "output=x r <x>");
        check(LENIENT, "a$x", "<a$x>");
        check(LENIENT, "-ro$x -r$x a", "r o=-ro$x <-r$x> <a> ?");
        check(LENIENT, "--tree --tre", "tree tre");
    }

    #[test]
    fn mode_that_only_shows_may_be_replaced() {
        #[track_caller]
        fn check(line: &str, expected: bool) {
            const TABLE: OptionTable = options!(
                "t,test,l!show c,stdout!redirect o:write!redirect -dz!mode decompress!mode -fk \
                 threads: rm!more"
            );
            let args: Vec<ShellArg> = line.split_whitespace().map(parse_argument).collect();
            assert_eq!(TABLE.parse(&args).only_shows(), expected, "{line}");
        }
        for line in ["-t", "-tfk a", "a -l", "--test", "--tes -f", "-dc", "-c -d", "-zo x", "-tl"] {
            check(line, true);
        }
        for line in [
            "",
            "-d",
            "-f",
            "-td",
            "-dt",
            "-t --decompress",
            "-t --dec",
            "-t --no-test",
            "-t-t",
            "--test=no",
            "--t",
            "-c --rm",
            "-cx",
        ] {
            check(line, false);
        }
    }

    #[test]
    fn git_abbreviation_counts_for_every_name() {
        let table = options!("m: message: force force-with-lease text textconv").git();
        check(table, "--for a", "force force-with-lease <a>");
        check(table, "--force", "force force-with-lease");
        check(table, "--text", "text");
        check(table, "--mess a -m -x", "message=a m x");
        check(table, "--strange=$x", "--strange=$x ?");
    }

    #[test]
    fn git_option_may_be_negated() {
        let table = options!("n,dry-run exclude:").git();
        for (line, expected) in [
            ("-n", true),
            ("--dry-run", true),
            ("--dry", true),
            ("-n --no-quiet", true),
            ("-q", false),
            ("-n --no-dry-run", false),
            ("--no-dry-run -n", false),
            ("--dry-run --no-d", false),
            ("-n --no-", false),
            ("-n --no", false),
            ("-n --n", false),
            ("-n --dry-run=no", false),
            ("-n --no-n", false),
        ] {
            let args: Vec<ShellArg> = line.split_whitespace().map(parse_argument).collect();
            assert_eq!(table.parse(&args).keeps(&["n", "dry-run"]), expected, "{line}");
        }
    }
}
