//! Text of an approval prompt: everything the user needs to decide, the most important first.
//!
//! Invisible characters are escaped, and no row of a command is dropped. After the command come the
//! rules that an answer can add, and the result of the policy check: the parts of the command, the
//! files and hosts it uses, and the reasons. Then comes the preview of the call. If that does not fit
//! into the window, rows are folded, and a key shows all of them. Each line of a command or preview
//! has a bar in front, so that no line can imitate zero's own output.

use std::fmt::Write as _;
use std::path::Path;

use anstyle::Style;
use zero_core::shell_quoting::quote_shell_word;
use zero_core::tool_result::render_checklist;
use zero_core::{CommandExecution, CommandLine, ResultDisplay};
use zero_runtime::{ApprovalQuestion, EffectDecision, Verdict};

use super::risk_style;
use super::rule_coverage::describe_rules;
use crate::terminal::{
    FAINT, STRONG, TerminalStream, diff_line_style, escape_line, verdict_style, wrap_after_blanks,
    wrap_words,
};

/// Fewest rows of a command that are shown in a window of the usual size.
const COMMAND_ROWS_MIN: usize = 4;
/// Fewest rows with a mark among them: beside a single row, it would take the room of a second one.
const FOLDED_ROWS_MIN: usize = 3;
/// A prompt with fewer rows than this has only what no answer can be given without.
const ROWS_MIN: usize = 12;
/// Rows of the reason, and of the folder and variables of a command, that are shown if not all rows
/// fit.
const FACT_ROWS_MAX: usize = 4;
/// Rows shown per kind of effect; those that ask come first.
const ROWS_MAX: usize = 50;
/// Width of the name column.
const NAME_COLUMNS: usize = 10;
/// In a window with fewer columns, a name has a row of its own.
const NAMED_COLUMNS_MIN: usize = 40;
/// What rows are indented by below such a name.
const NARROW_INDENT: usize = 4;
/// Width of the verdict column.
const VERDICT_COLUMNS: usize = 7;

/// What precedes the title, in the first column: a chat lets no row of an answer begin with it.
const TITLE_MARK: &str = "?";

/// Kinds of effects and their headings, in display order.
const KINDS: &[(&str, &str)] = &[
    ("exec", "parts"),
    ("write", "writes"),
    ("delete", "deletes"),
    ("secret", "secrets"),
    ("net", "hosts"),
    ("endpoint", "engine"),
    ("read", "reads"),
    ("mcp", "uses"),
    ("note", "notes"),
    ("state", "changes"),
];

/// The parts of a prompt as rows that fit into the width of the terminal.
pub(super) struct PromptText {
    /// The title.
    title: Vec<String>,
    /// The risk, and why approval is needed.
    risk: Vec<String>,
    /// The command.
    command: Vec<String>,
    /// Its folder and variables.
    place: Vec<String>,
    /// The rules that an answer for a session or for always adds.
    rules: Vec<String>,
    /// What these cover, in words.
    cover: Vec<String>,
    /// The effects of the call, with their verdicts.
    effects: Vec<String>,
    /// The preview.
    preview: Vec<String>,
    /// Columns before the values.
    indent: usize,
}

/// A prompt that fits into a number of rows.
pub(super) struct FittedPrompt {
    pub(super) rows: Vec<String>,
    /// Number of rows that are folded.
    pub(super) folded: usize,
    /// Whether rows of the command are among them.
    pub(super) folds_command: bool,
}

/// Renders the prompt without the possible answers.
pub(super) fn render(stream: &TerminalStream, question: &ApprovalQuestion) -> PromptText {
    let build = |fill: &dyn Fn(&mut PromptTextBuilder<'_>)| {
        let mut page = PromptTextBuilder { stream, text: String::new() };
        fill(&mut page);
        page.text.lines().map(str::to_owned).collect::<Vec<String>>()
    };
    let preview = CallPreview::new(question);
    let rules: Vec<&str> = question.grants.iter().map(|grant| grant.rule.as_str()).collect();
    PromptText {
        title: build(&|page| {
            let title = format!("{TITLE_MARK} {}", escape_line(&question.title));
            let title = stream.truncate_line(&title, 0);
            page.push_line(&format!("\n{}", stream.paint(STRONG, &title)));
        }),
        risk: build(&|page| page.push_risk(question)),
        command: build(&|page| {
            question.commands().for_each(|command| page.push_command(command));
        }),
        place: build(&|page| {
            let commands = question.commands();
            commands.for_each(|command| page.push_place(command, &question.workspace));
        }),
        rules: build(&|page| {
            if !rules.is_empty() {
                page.push_fact("rules", &escape_line(&rules.join(", ")), Style::new());
            }
        }),
        cover: build(&|page| {
            if !rules.is_empty() {
                let covered = describe_rules(rules.iter().copied());
                page.push_fact("cover", &escape_line(&covered), FAINT);
            }
        }),
        effects: build(&|page| {
            for (kind, name) in KINDS {
                page.push_judged_rows(name, &collect_rows(question, kind));
            }
        }),
        preview: build(&|page| preview.iter().for_each(|preview| page.push_preview(preview))),
        indent: PromptTextBuilder { stream, text: String::new() }.indent(),
    }
}

impl PromptText {
    pub(super) fn all_rows(&self) -> Vec<String> {
        let blank = (!self.preview.is_empty()).then(String::new);
        let Self { title, risk, command, place, rules, cover, effects, preview, .. } = self;
        let before = [title, risk, command, place, rules, cover, effects];
        let before = before.into_iter().flatten().cloned();
        before.chain(blank).chain(preview.iter().cloned()).collect()
    }

    /// The prompt in at most `rows_max` rows. The title, the risk, the rules and as much of the
    /// command as possible are in it, whatever else is folded; the rows are more only if these
    /// alone are.
    pub(super) fn fit(&self, rows_max: usize) -> FittedPrompt {
        let all = self.all_rows();
        if all.len() <= rows_max {
            return FittedPrompt { rows: all, folded: 0, folds_command: false };
        }
        let mut shown = match rows_max < ROWS_MIN {
            true => self.shorten(),
            false => self.shorten_facts(),
        };
        // One row says how much is folded.
        let mut room = rows_max.saturating_sub(shown.row_count() + 1);
        let command_max =
            if rows_max < ROWS_MIN { room.max(1) } else { room.max(COMMAND_ROWS_MIN) };
        shown.command = fold_middle(&self.command, command_max, self.indent);
        let folds_command = shown.command.len() < self.command.len();
        room = room.saturating_sub(shown.command.len());
        // The preview says more than the effects do, if there are both.
        let effects_max = if self.preview.is_empty() { room } else { room / 2 };
        shown.effects = self.effects.iter().take(effects_max).cloned().collect();
        room = room.saturating_sub(shown.effects.len());
        shown.preview = self.preview.iter().take(room).cloned().collect();
        let has_mark = folds_command && command_max >= FOLDED_ROWS_MIN;
        let blank = self.title.len() - shown.title.len();
        let folded = self.row_count() + usize::from(has_mark) - shown.row_count() - blank;
        let PromptText { title, risk, command, place, rules, cover, effects, preview, .. } = shown;
        let parts = [title, risk, command, place, rules, cover, effects, preview];
        let mut rows: Vec<String> = parts.into_iter().flatten().collect();
        rows.push(match self.is_narrow() {
            true => format!("  … {folded} more: v"),
            false => format!("  … {folded} more rows; v shows all"),
        });
        FittedPrompt { rows, folded, folds_command }
    }

    /// The facts in a window of the usual size, without what is fitted into the room that they leave.
    fn shorten_facts(&self) -> Self {
        let take = |rows: &[String]| rows.iter().take(FACT_ROWS_MAX).cloned().collect();
        Self {
            title: self.title.clone(),
            risk: take(&self.risk),
            command: Vec::new(),
            place: take(&self.place),
            rules: self.rules.clone(),
            cover: self.cover.clone(),
            effects: Vec::new(),
            preview: Vec::new(),
            indent: self.indent,
        }
    }

    fn is_narrow(&self) -> bool {
        self.indent < NAME_COLUMNS
    }

    /// The same in a very small window: the risk without the reason, and the rules without words.
    fn shorten(&self) -> Self {
        let is_text = |row: &&String| !row.is_empty();
        Self {
            title: self.title.iter().filter(is_text).cloned().collect(),
            risk: self.risk.iter().take(if self.is_narrow() { 2 } else { 1 }).cloned().collect(),
            place: Vec::new(),
            cover: Vec::new(),
            ..self.shorten_facts()
        }
    }

    /// The number of rows, without the blank row before the preview.
    fn row_count(&self) -> usize {
        let Self { title, risk, command, place, rules, cover, effects, preview, .. } = self;
        [title, risk, command, place, rules, cover, effects, preview]
            .iter()
            .map(|it| it.len())
            .sum()
    }
}

/// The first and last rows, with a mark between them if they are more than `rows_max`.
fn fold_middle(rows: &[String], rows_max: usize, indent: usize) -> Vec<String> {
    if rows.len() <= rows_max || rows_max < FOLDED_ROWS_MIN {
        return rows.iter().take(rows_max).cloned().collect();
    }
    let kept = rows_max - 1;
    let first = kept - kept / 2;
    let last = rows.len() - kept / 2;
    let mark = format!("{:indent$}┆ … {} rows …", "", last - first);
    let before = rows.iter().take(first).cloned();
    before.chain([mark]).chain(rows.iter().skip(last).cloned()).collect()
}

/// What the tool shows of its call.
struct CallPreview {
    text: String,
    line_style: fn(&str) -> Style,
}

impl CallPreview {
    fn new(question: &ApprovalQuestion) -> Option<Self> {
        let plain = |text: String| Self { text, line_style: |_| Style::new() };
        let preview = match question.preview.as_ref()? {
            ResultDisplay::Diff(diff) => {
                Self { text: diff.unified.clone(), line_style: diff_line_style }
            }
            ResultDisplay::Markdown { text } => {
                plain(question.strip_command_preview(text).to_owned())
            }
            ResultDisplay::Plan { entries } => plain(render_checklist(entries)),
        };
        (!preview.text.is_empty()).then_some(preview)
    }
}

/// Builds the prompt text.
struct PromptTextBuilder<'a> {
    stream: &'a TerminalStream,
    text: String,
}

impl PromptTextBuilder<'_> {
    fn push_line(&mut self, line: &str) {
        self.text.push_str(line);
        self.text.push('\n');
    }

    fn push_risk(&mut self, question: &ApprovalQuestion) {
        self.push_fact("risk", question.risk.as_str(), risk_style(question.risk));
        self.push_fact("why", &escape_line(&question.reason), Style::new());
    }

    /// Adds a name and a wrapped value.
    fn push_fact(&mut self, name: &str, value: &str, style: Style) {
        let lines = wrap_words(value, self.stream.remaining_columns(self.indent()));
        for (at, line) in lines.iter().enumerate() {
            self.push_name_column(if at == 0 { name } else { "" });
            let shown = self.stream.paint(style, line).into_owned();
            self.push_line(&shown);
        }
    }

    fn push_name_column(&mut self, name: &str) {
        let indent = self.indent();
        if indent < NAME_COLUMNS {
            if !name.is_empty() {
                let _ = writeln!(self.text, "  {}", self.stream.paint(FAINT, name));
            }
            let _ = write!(self.text, "{:indent$}", "");
            return;
        }
        let name = format!("{name:<width$}", width = NAME_COLUMNS - 2);
        let _ = write!(self.text, "  {}", self.stream.paint(FAINT, &name));
    }

    /// Columns before the values.
    fn indent(&self) -> usize {
        match self.stream.remaining_columns(0) < NAMED_COLUMNS_MIN {
            true => NARROW_INDENT,
            false => NAME_COLUMNS,
        }
    }

    /// Adds a command.
    fn push_command(&mut self, execution: &CommandExecution) {
        let command = spell_out_words(execution);
        let room = self.stream.remaining_columns(self.indent() + 2);
        let mut name = "run";
        for line in command.split('\n') {
            // A wrapped row has a different bar than the first row of a line.
            let mut bar = "│";
            for row in wrap_after_blanks(&escape_line(line), room) {
                self.push_name_column(name);
                let line = format!("{} {row}", self.stream.paint(FAINT, bar));
                self.push_line(&line);
                (name, bar) = ("", "┆");
            }
        }
    }

    /// Adds the folder and variables of a command.
    fn push_place(&mut self, execution: &CommandExecution, workspace: &Path) {
        let folder = execution.folder.as_ref().map_or(workspace, |folder| folder.canonical());
        self.push_fact("in", &escape_line(&folder.display().to_string()), Style::new());
        for (variable, value) in &execution.variables {
            let shown = format!("{variable}={}", quote_shell_word(value));
            self.push_fact("with", &escape_line(&shown), Style::new());
        }
    }

    /// Adds the lines of a preview, each with a bar in front.
    fn push_preview(&mut self, preview: &CallPreview) {
        let room = self.stream.remaining_columns(4);
        for line in preview.text.lines() {
            let style = (preview.line_style)(line);
            // A wrapped row has a different bar than the first row of a line.
            let mut bar = "│";
            for row in wrap_after_blanks(&self.stream.escape_exactly(line), room) {
                let line = format!(
                    "  {} {}",
                    self.stream.paint(FAINT, bar),
                    self.stream.paint(style, &row)
                );
                self.push_line(line.trim_end());
                bar = "┆";
            }
        }
    }

    /// Adds the effects of one kind with their verdicts.
    fn push_judged_rows(&mut self, name: &str, rows: &[JudgedRow]) {
        let room = self.stream.remaining_columns(self.indent() + VERDICT_COLUMNS);
        let mut name = name;
        for row in rows.iter().take(ROWS_MAX) {
            let verdict = format!("{:<VERDICT_COLUMNS$}", row.verdict.as_str());
            let verdict = self.stream.paint(verdict_style(row.verdict), &verdict).into_owned();
            let target = escape_line(&row.target);
            for (at, line) in wrap_after_blanks(&target, room).iter().enumerate() {
                self.push_name_column(name);
                let before = if at == 0 { verdict.as_str() } else { "       " };
                let _ = writeln!(self.text, "{before}{line}");
                name = "";
            }
            for reason in &row.reasons {
                for line in wrap_words(&escape_line(reason), room.saturating_sub(2)) {
                    self.push_name_column("");
                    let line = self.stream.paint(FAINT, &line).into_owned();
                    let _ = writeln!(self.text, "{:VERDICT_COLUMNS$}  {line}", "");
                }
            }
        }
        if let Some(more) = rows.len().checked_sub(ROWS_MAX).filter(|more| *more > 0) {
            self.push_name_column("");
            self.push_line(&format!("… and {more} more"));
        }
    }
}

/// One effect with its verdict and the reasons for it.
struct JudgedRow {
    target: String,
    verdict: Verdict,
    reasons: Vec<String>,
}

/// Effects of one kind, those that ask first, without rows that add no information.
fn collect_rows(question: &ApprovalQuestion, kind: &str) -> Vec<JudgedRow> {
    let mut rows: Vec<JudgedRow> = Vec::new();
    let of_kind = question.judged.iter().filter(|part| part.kind == kind);
    for part in of_kind {
        let at = rows.iter().position(|row| row.target == part.target);
        let at = at.unwrap_or_else(|| {
            let (target, verdict) = (part.target.clone(), part.decision);
            rows.push(JudgedRow { target, verdict, reasons: Vec::new() });
            rows.len() - 1
        });
        let Some(row) = rows.get_mut(at) else { continue };
        row.verdict = row.verdict.max(part.decision);
        if is_worth_showing(part, question) && !row.reasons.contains(&part.reason) {
            row.reasons.push(part.reason.clone());
        }
    }
    // Effects that were not evaluated separately.
    for effect in question.effects.iter().filter(|effect| effect.kind() == kind) {
        let target = effect.target();
        let is_said = effect.execution().is_some() || rows.iter().any(|row| row.target == target);
        if !is_said {
            rows.push(JudgedRow { target, verdict: Verdict::Ask, reasons: Vec::new() });
        }
    }
    if kind == "exec" {
        let wholes: Vec<String> = question.commands().map(ToString::to_string).collect();
        let is_whole =
            |row: &JudgedRow| wholes.iter().any(|whole| whole.trim_end() == row.target.trim_end());
        let is_one = rows.len() == 1;
        rows.retain(|row| !(row.reasons.is_empty() && (is_one || is_whole(row))));
        // A part is allowed as far as its files and hosts are: where one of these asks, the verdict
        // on the part alone would contradict it.
        let asks_otherwise =
            question.judged.iter().any(|part| part.kind != kind && part.decision != Verdict::Allow);
        if asks_otherwise {
            rows.retain(|row| row.verdict != Verdict::Allow);
        }
    }
    rows.sort_by_key(|row| std::cmp::Reverse(row.verdict));
    rows
}

/// Reasons for allowed parts, and the reason already in the heading, are not repeated.
fn is_worth_showing(part: &EffectDecision, question: &ApprovalQuestion) -> bool {
    part.decision != Verdict::Allow && !question.reason.ends_with(&part.reason)
}

/// Renders a command as it would be typed; program arguments are quoted if necessary.
fn spell_out_words(execution: &CommandExecution) -> String {
    match &execution.command {
        CommandLine::Shell(line) => line.trim_end().to_owned(),
        CommandLine::Program(words) => {
            words.iter().map(|word| quote_shell_word(word)).collect::<Vec<_>>().join(" ")
        }
    }
}

#[cfg(test)]
mod tests;
