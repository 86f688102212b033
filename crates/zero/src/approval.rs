//! Who answers when a call must be asked about.

use std::fmt::Write as _;

use anstyle::Style;
use zero_core::{Display, Risk};
use zero_runtime::tool::BoxFuture;
use zero_runtime::{Answer, Approver, Question};

use crate::terminal::{Answers, BAD, FAINT, NOTABLE, STRONG, Stream, Terminal, escape_line};

/// Lines of a preview that are shown before a question.
const PREVIEW_LINES_MAX: usize = 200;

/// Says yes to everything that is asked, because somebody said so beforehand.
pub(crate) struct AlwaysYes {
    /// Who that was, for the audit log.
    pub(crate) name: &'static str,
}

impl Approver for AlwaysYes {
    fn name(&self) -> &str {
        self.name
    }

    fn ask<'a>(&'a self, _question: &'a Question) -> BoxFuture<'a, Answer> {
        Box::pin(std::future::ready(Answer::AllowOnce))
    }
}

/// The person at the terminal.
pub(crate) struct Person {
    pub(crate) terminal: Terminal,
    pub(crate) answers: Answers,
}

impl Approver for Person {
    fn name(&self) -> &str {
        "person"
    }

    fn ask<'a>(&'a self, question: &'a Question) -> BoxFuture<'a, Answer> {
        let text = questionnaire(&self.terminal.err, question);
        let (terminal, answers) = (self.terminal.clone(), self.answers.clone());
        Box::pin(async move {
            // Reading blocks until they answer; the call can be cancelled meanwhile.
            let mut line = OpenLine { stream: self.terminal.err.clone(), open: true };
            let asked = tokio::task::spawn_blocking(move || {
                terminal.err.write(&text).is_ok() && terminal.confirm(&answers, "Allow?")
            });
            let allowed = asked.await.unwrap_or(false);
            line.open = false;
            if allowed { Answer::AllowOnce } else { Answer::Reject }
        })
    }
}

/// The line of a question. Their Enter ends it; a question that is given up ends it by itself.
struct OpenLine {
    stream: Stream,
    open: bool,
}

impl Drop for OpenLine {
    fn drop(&mut self) {
        if self.open {
            let _ = self.stream.write("\n");
        }
    }
}

/// Everything a person should know before they answer.
fn questionnaire(stream: &Stream, question: &Question) -> String {
    let mut text = format!("\n{}\n", stream.paint(STRONG, &escape_line(&question.title)));
    let mut fact = |name: &str, value: &str, style| {
        let name = format!("{name:<5}");
        let _ = writeln!(
            text,
            "  {} {}",
            stream.paint(FAINT, &name),
            stream.paint(style, &escape_line(value))
        );
    };
    fact("why", &question.reason, Style::new());
    fact("risk", question.risk.word(), risk_style(question.risk));
    for effect in &question.effects {
        fact("will", &effect.to_string(), Style::new());
    }
    match &question.preview {
        Some(Display::Diff(diff)) => {
            let _ = write!(text, "\n{}", stream.diff(&shortened(&diff.unified)));
        }
        Some(Display::Markdown { text: plain }) => {
            let _ = writeln!(text, "\n{}", stream.foreign(&shortened(plain)));
        }
        None => {}
    }
    text.push('\n');
    text
}

/// The colour of a risk.
pub(crate) fn risk_style(risk: Risk) -> Style {
    match risk {
        Risk::Low => Style::new(),
        Risk::Medium => NOTABLE,
        Risk::High => BAD,
        Risk::Critical => BAD.bold(),
    }
}

fn shortened(text: &str) -> String {
    let count = text.lines().count();
    if count <= PREVIEW_LINES_MAX {
        return text.to_owned();
    }
    let shown: Vec<&str> = text.lines().take(PREVIEW_LINES_MAX).collect();
    format!("{}\n… and {} more lines\n", shown.join("\n"), count - PREVIEW_LINES_MAX)
}

#[cfg(test)]
mod tests {
    use zero_core::{Effect, Execution, FileDiff, ToolName};

    use super::*;

    #[test]
    fn a_person_sees_what_why_and_the_change_itself() {
        let diff = FileDiff {
            path: "a".to_owned(),
            unified: "@@ -1 +1 @@\n-old\n+new\x1b[2J\n".to_owned(),
            old_text: None,
            new_text: None,
            partial: false,
        };
        let question = Question {
            tool: ToolName::new("Edit").unwrap(),
            title: "Edit `a\u{202E}b`".to_owned(),
            reason: "its risk is medium".to_owned(),
            risk: Risk::Medium,
            effects: vec![Effect::Exec(Execution::shell("ls"))],
            preview: Some(Display::Diff(diff)),
        };
        let stream = Terminal::for_test().err.watched(80).without_colours();
        insta::assert_snapshot!(questionnaire(&stream, &question).trim(), @r"
        Edit `a\u{202e}b`
          why   its risk is medium
          risk  medium
          will  run `ls`

        @@ -1 +1 @@
        -old
        +new\u{1b}[2J
        ");
    }

    #[test]
    fn a_long_preview_is_cut() {
        let text = "x\n".repeat(PREVIEW_LINES_MAX + 5);
        assert!(shortened(&text).ends_with("… and 5 more lines\n"));
    }
}
