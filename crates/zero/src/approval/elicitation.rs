//! Questions of MCP servers and the agent, asked on the terminal.
//!
//! The prompt names the asker first. The message is escaped and each line has a bar in front, so that
//! no line can imitate zero's own output. What the user answers to the agent is sent at once, because
//! the model is who they talk to anyway; nothing is sent to a server until the user has seen all
//! values again and confirmed. Escape declines; Ctrl-C ends the run, as it does at an
//! approval. zero never opens a page.

mod form_field;

use std::fmt::Write as _;
use std::io;
use std::sync::Arc;

use serde_json::{Map, Value};
use zero_runtime::tool::BoxFuture;
use zero_runtime::{
    AGENT_ORIGIN, Elicitation, ElicitationAnswer, ElicitationMode, Elicitor, QuestionWithdrawal,
    WithdrawalNote,
};
use zero_sandbox::typed_input::SignalKeys;

use self::form_field::{ElicitationField, FieldOptions};
use crate::terminal::choice_list::{ChoiceList, ChoiceOutcome};
use crate::terminal::dialog::{
    DialogRun, KeyChoice, KeyOutcome, TextOutcome, ask_for_key, edit_text,
};
use crate::terminal::key_reader::KeyReader;
use crate::terminal::live_area::LiveArea;
use crate::terminal::text_field::{FieldLines, TextField};
use crate::terminal::{
    AnswerSource, FAINT, PromptTurn, STRONG, Terminal, TerminalStream, escape_line,
};

/// Largest number of fields in a form.
const FIELDS_MAX: usize = 50;
/// Lines shown of a message.
const MESSAGE_LINES_MAX: usize = 60;
/// Longest text that can be typed, in characters.
const TEXT_CHARS_MAX: usize = 8_000;
/// The choice that stands for a text of the user's own, in the field of the same name with this
/// ending.
const OTHER: &str = "other";
const OTHER_ENDING: &str = "_other";

/// Asks the user on the terminal for MCP servers and the agent.
struct TerminalElicitor {
    terminal: Terminal,
    answers: AnswerSource,
    turn: PromptTurn,
    withdrawal: WithdrawalNote,
}

/// Creates an elicitor for this terminal.
pub(crate) fn terminal_elicitor(
    terminal: &Terminal,
    answers: AnswerSource,
    turn: PromptTurn,
    withdrawal: WithdrawalNote,
) -> Arc<dyn Elicitor> {
    Arc::new(TerminalElicitor { terminal: terminal.clone(), answers, turn, withdrawal })
}

impl Elicitor for TerminalElicitor {
    fn elicit<'a>(&'a self, elicitation: &'a Elicitation) -> BoxFuture<'a, ElicitationAnswer> {
        let stream = self.terminal.err.clone();
        Box::pin(async move {
            let turn = self.turn.begin().await;
            let dialog = TerminalElicitation {
                stream: stream.fitted_to_window(),
                elicitation: elicitation.clone(),
            };
            let dialog_run = DialogRun {
                stream: &stream,
                answers: &self.answers,
                // Ctrl-C ends the run: going on would cost another request.
                signal_keys: SignalKeys::SendSignals,
                withdrawal: &|| {
                    let reason = self.withdrawal.reason();
                    reason.unwrap_or(QuestionWithdrawal::CallCancelled).to_string()
                },
            };
            let shown = dialog_run.run(&turn, move |keys| dialog.run(keys)).await;
            shown.unwrap_or(ElicitationAnswer::Cancel)
        })
    }
}

/// One question to the user.
struct TerminalElicitation {
    stream: TerminalStream,
    elicitation: Elicitation,
}

/// What the user entered into a field.
enum FieldAnswer {
    Value(Value),
    /// The choice for a text of the user's own, besides other choices, and that text.
    OwnText(Value, String),
    /// Left out.
    Skipped,
    Declined,
    Ended,
}

impl TerminalElicitation {
    fn run(&self, keys: &KeyReader) -> io::Result<ElicitationAnswer> {
        self.stream.write(&render_introduction(&self.stream, &self.elicitation))?;
        match &self.elicitation.mode {
            ElicitationMode::Form(schema) => self.ask_form(keys, schema),
            ElicitationMode::Url(url) => self.ask_visit(keys, url),
        }
    }

    fn ask_form(&self, keys: &KeyReader, schema: &Value) -> io::Result<ElicitationAnswer> {
        let fields = match parse_fields(schema) {
            Ok(fields) => fields,
            Err(why) => {
                let note = format!("cannot show this form: {why}; the request is cancelled\n");
                self.stream.write(&escape_line(note.trim_end()))?;
                self.stream.write("\n")?;
                return Ok(ElicitationAnswer::Cancel);
            }
        };
        let is_agent = self.elicitation.origin == AGENT_ORIGIN;
        let mut values = Map::new();
        for field in &fields {
            // Asked with the choice that it belongs to.
            if is_own_text(field, &fields) {
                continue;
            }
            let own_field = fields.iter().find(|other| is_own_text_of(other, field));
            match self.ask_field(keys, field, own_field, is_agent)? {
                FieldAnswer::Value(value) => {
                    values.insert(field.name.clone(), value);
                }
                FieldAnswer::OwnText(value, text) => {
                    values.insert(field.name.clone(), value);
                    if let Some(own) = own_field {
                        values.insert(own.name.clone(), Value::String(text));
                    }
                }
                FieldAnswer::Skipped => {}
                FieldAnswer::Declined => return Ok(ElicitationAnswer::Decline),
                FieldAnswer::Ended => return Ok(ElicitationAnswer::Cancel),
            }
        }
        if is_agent {
            // Left empty, it says as much as declining.
            return Ok(match values.is_empty() && !fields.is_empty() {
                true => ElicitationAnswer::Decline,
                false => ElicitationAnswer::Accept(values),
            });
        }
        let mut summary = String::from("\n");
        for field in &fields {
            if let Some(value) = values.get(&field.name) {
                let (title, value) = (escape_line(field.title()), field.format_value(value));
                let _ = writeln!(summary, "  {}  {value}", self.stream.paint(STRONG, &title));
            }
        }
        if values.is_empty() {
            summary.push_str("  (no values)\n");
        }
        self.stream.write(&summary)?;
        let origin = escape_line(&self.elicitation.origin);
        self.ask_consent(keys, &format!("Send this to {origin}?"), values)
    }

    fn ask_field(
        &self,
        keys: &KeyReader,
        field: &ElicitationField,
        own_field: Option<&ElicitationField>,
        is_agent: bool,
    ) -> io::Result<FieldAnswer> {
        self.stream.write(&field.render_description(&self.stream))?;
        match field.options(is_agent) {
            Some(options) => self.ask_choice(keys, field, own_field, &options),
            None => self.ask_text(keys, field),
        }
    }

    fn ask_choice(
        &self,
        keys: &KeyReader,
        field: &ElicitationField,
        own_field: Option<&ElicitationField>,
        options: &FieldOptions,
    ) -> io::Result<FieldAnswer> {
        let mut chosen = options.preset.clone();
        loop {
            let list = ChoiceList::new(&options.titles, options.count, &chosen);
            chosen = match list.run(&self.stream, keys, field.title())? {
                ChoiceOutcome::Chosen(chosen) => chosen,
                ChoiceOutcome::Declined => return Ok(FieldAnswer::Declined),
                ChoiceOutcome::Ended => return Ok(FieldAnswer::Ended),
            };
            let value = match field.value_of_options(options, &chosen) {
                Ok(Some(value)) => value,
                Ok(None) => return Ok(FieldAnswer::Skipped),
                Err(why) => {
                    self.stream.write(&format!("  {}\n", escape_line(&why)))?;
                    continue;
                }
            };
            let wants_text = match &value {
                Value::String(one) => one == OTHER,
                Value::Array(many) => many.iter().any(|one| one == OTHER),
                _ => false,
            };
            let Some(own) = own_field.filter(|_| wants_text) else {
                return Ok(FieldAnswer::Value(value));
            };
            // Going back from the text leads to the options.
            match self.ask_text(keys, own)? {
                FieldAnswer::Value(Value::String(text)) => {
                    return Ok(FieldAnswer::OwnText(value, text));
                }
                FieldAnswer::Ended => return Ok(FieldAnswer::Ended),
                _ => {}
            }
        }
    }

    fn ask_text(&self, keys: &KeyReader, field: &ElicitationField) -> io::Result<FieldAnswer> {
        let mut area = LiveArea::new(&self.stream);
        let mut text = TextField::new("", TEXT_CHARS_MAX, FieldLines::One);
        let hint = field.describe_input();
        let mut note = format!("{hint}; Esc: back");
        loop {
            match edit_text(&mut area, &self.stream, keys, " >", &note, &mut text)? {
                TextOutcome::Submitted => {}
                TextOutcome::Cancelled => {
                    area.finish("  (no answer)")?;
                    return Ok(FieldAnswer::Declined);
                }
                TextOutcome::Ended => {
                    area.finish(&format!("  {}", keys.describe_end("(no answer)")))?;
                    return Ok(FieldAnswer::Ended);
                }
            }
            match field.parse_input(&text.text()) {
                Ok(value) => {
                    area.finish(&format!("  {}", escape_line(&text.text())))?;
                    return Ok(value.map_or(FieldAnswer::Skipped, FieldAnswer::Value));
                }
                Err(why) => note = why,
            }
        }
    }

    fn ask_visit(&self, keys: &KeyReader, url: &str) -> io::Result<ElicitationAnswer> {
        let advice = "zero does not open this URL. Open it yourself if you trust the site.";
        let advice = self.stream.paint(FAINT, advice);
        self.stream.write(&format!("\n  {}\n\n{advice}\n", escape_line(url)))?;
        self.ask_consent(keys, "Confirm that you will open it?", Map::new())
    }

    /// Yes sends the values, no declines, and the end of the input cancels.
    fn ask_consent(
        &self,
        keys: &KeyReader,
        question: &str,
        values: Map<String, Value>,
    ) -> io::Result<ElicitationAnswer> {
        let choices = [KeyChoice::new('y', "yes"), KeyChoice::new('n', "no")];
        Ok(match ask_for_key(&self.stream, keys, question, &choices)? {
            KeyOutcome::Chosen('y') => ElicitationAnswer::Accept(values),
            KeyOutcome::Chosen(_) => ElicitationAnswer::Decline,
            KeyOutcome::Interrupted | KeyOutcome::Ended => ElicitationAnswer::Cancel,
        })
    }
}

/// Whether a field takes the text of the choice `other` of another field.
fn is_own_text(field: &ElicitationField, fields: &[ElicitationField]) -> bool {
    fields.iter().any(|choice| is_own_text_of(field, choice))
}

fn is_own_text_of(field: &ElicitationField, choice: &ElicitationField) -> bool {
    field.name.strip_suffix(OTHER_ENDING) == Some(choice.name.as_str())
        && field.is_text()
        && choice.has_choice(OTHER)
}

/// Renders the asker and the message.
fn render_introduction(stream: &TerminalStream, elicitation: &Elicitation) -> String {
    let asker = elicitation.asker();
    let origin = escape_line(&asker);
    let mut text = format!("\n{} asks:\n", stream.paint(STRONG, &origin));
    let count = elicitation.message.lines().count();
    for line in elicitation.message.lines().take(MESSAGE_LINES_MAX) {
        let _ = writeln!(text, "  {} {}", stream.paint(FAINT, "│"), escape_line(line));
    }
    if count > MESSAGE_LINES_MAX {
        let _ = writeln!(text, "  … and {} more lines", count - MESSAGE_LINES_MAX);
    }
    text
}

/// Parses the fields of a form; the error is the reason why it cannot be shown.
fn parse_fields(schema: &Value) -> Result<Vec<ElicitationField>, String> {
    let properties = schema.get("properties").and_then(Value::as_object);
    let properties = properties.ok_or("it has no fields")?;
    if properties.len() > FIELDS_MAX {
        return Err(format!("it has more than {FIELDS_MAX} fields"));
    }
    let required = schema.get("required").and_then(Value::as_array);
    let is_required =
        |name: &str| required.is_some_and(|names| names.iter().any(|one| one == name));
    properties
        .iter()
        .map(|(name, schema)| ElicitationField::from_schema(name, schema, is_required(name)))
        .collect()
}

#[cfg(test)]
mod tests;
