//! Questions of MCP servers and the agent, asked on the terminal.
//!
//! The prompt names the asker first. The message is escaped and each line has a bar in front, so that
//! no line can imitate zero's own output. Nothing is sent until the user has seen all values again and
//! confirmed. zero never opens a page.

mod form_field;

use std::fmt::Write as _;
use std::sync::Arc;

use serde_json::{Map, Value};
use zero_runtime::tool::BoxFuture;
use zero_runtime::{Elicitation, ElicitationAnswer, ElicitationMode, Elicitor};

use self::form_field::ElicitationField;
use crate::terminal::{
    AnswerSource, FAINT, NOTABLE, PromptTurn, STRONG, Terminal, TerminalStream, escape_line,
};

/// Largest number of fields in a form.
const FIELDS_MAX: usize = 50;
/// Lines shown of a message.
const MESSAGE_LINES_MAX: usize = 60;
/// Attempts to enter a valid value.
const TRIES_MAX: usize = 5;

/// Asks the user on the terminal for MCP servers and the agent.
#[derive(Clone)]
struct TerminalElicitor {
    terminal: Terminal,
    answers: AnswerSource,
    turn: PromptTurn,
}

/// Creates an elicitor for this terminal.
pub(crate) fn terminal_elicitor(
    terminal: &Terminal,
    answers: AnswerSource,
    turn: PromptTurn,
) -> Arc<dyn Elicitor> {
    Arc::new(TerminalElicitor { terminal: terminal.clone(), answers, turn })
}

impl TerminalElicitor {
    /// Asks and waits for the user. `None` if the input ended.
    fn ask(&self, elicitation: &Elicitation) -> Option<ElicitationAnswer> {
        let stream = &self.terminal.err;
        stream.write(&render_introduction(stream, elicitation)).ok()?;
        match &elicitation.wanted {
            ElicitationMode::Form(schema) => self.ask_form(&elicitation.origin, schema),
            ElicitationMode::Url(url) => self.ask_visit(url),
        }
    }

    fn ask_form(&self, origin: &str, schema: &Value) -> Option<ElicitationAnswer> {
        let fields = match parse_fields(schema) {
            Ok(fields) => fields,
            Err(why) => {
                self.terminal
                    .print_note(&format!("cannot show this form: {why}; the request is cancelled"));
                return None;
            }
        };
        let mut values = Map::new();
        for field in &fields {
            if let Some(value) = self.ask_field(field)? {
                values.insert(field.name.clone(), value);
            }
        }
        let stream = &self.terminal.err;
        let mut summary = String::from("\n");
        for field in &fields {
            if let Some(value) = values.get(&field.name) {
                let (title, value) = (escape_line(field.title()), field.format_value(value));
                let _ = writeln!(summary, "  {}  {value}", stream.paint(STRONG, &title));
            }
        }
        if values.is_empty() {
            summary.push_str("  (no values)\n");
        }
        stream.write(&summary).ok()?;
        self.ask_consent(&format!("Send this to {}?", escape_line(origin)), values)
    }

    /// Asks for one value; `Some(None)` if it is omitted, `None` if the input ended.
    fn ask_field(&self, field: &ElicitationField) -> Option<Option<Value>> {
        let stream = &self.terminal.err;
        stream.write(&field.render_description(stream)).ok()?;
        for _ in 0..TRIES_MAX {
            stream.write(&field.render_prompt(stream)).ok()?;
            match field.parse_input(&self.answers.read_answer()?) {
                Ok(value) => return Some(value),
                Err(why) => {
                    let why = format!("  {}\n", escape_line(&why));
                    stream.write(&stream.paint(NOTABLE, &why)).ok()?;
                }
            }
        }
        None
    }

    fn ask_visit(&self, url: &str) -> Option<ElicitationAnswer> {
        let stream = &self.terminal.err;
        let shown = format!(
            "\n  {}\n\n{}\n",
            escape_line(url),
            stream.paint(
                FAINT,
                "zero does not open this URL. Open it yourself if you trust the site."
            )
        );
        stream.write(&shown).ok()?;
        self.ask_consent("Confirm that you will open it?", Map::new())
    }

    /// Yes sends the values, no declines, and the end of the input cancels.
    fn ask_consent(&self, question: &str, values: Map<String, Value>) -> Option<ElicitationAnswer> {
        let stream = &self.terminal.err;
        stream.write(&format!("{} [y/N] ", stream.paint(STRONG, question))).ok()?;
        Some(match self.answers.read_answer()?.trim().to_ascii_lowercase().as_str() {
            "y" | "yes" => ElicitationAnswer::Accept(values),
            _ => ElicitationAnswer::Decline,
        })
    }
}

impl Elicitor for TerminalElicitor {
    fn elicit<'a>(&'a self, elicitation: &'a Elicitation) -> BoxFuture<'a, ElicitationAnswer> {
        let (form, elicitation) = (self.clone(), elicitation.clone());
        Box::pin(async move {
            // Reading blocks until the user answers; the asker can cancel in the meantime.
            let _turn = self.turn.begin().await;
            let mut line = PromptLineGuard { stream: self.terminal.err.clone(), open: true };
            let asked = tokio::task::spawn_blocking(move || form.ask(&elicitation));
            let answer = asked.await.ok().flatten();
            line.open = answer.is_none();
            answer.unwrap_or(ElicitationAnswer::Cancel)
        })
    }
}

/// Ends the line of a question that was cancelled before the user pressed Enter.
struct PromptLineGuard {
    stream: TerminalStream,
    open: bool,
}

impl Drop for PromptLineGuard {
    fn drop(&mut self) {
        if self.open {
            let _ = self.stream.write("\n");
        }
    }
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
