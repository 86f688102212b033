//! Who answers when a call must be asked about.

pub(crate) mod elicitation;
mod questionnaire;

use std::fmt::Write as _;

use anstyle::Style;
use zero_core::{Definition, Effect, Risk};
use zero_runtime::tool::BoxFuture;
use zero_runtime::{Answer, AnswerOption, Approver, Question};

use crate::terminal::{Answers, BAD, NOTABLE, STRONG, Stream, Terminal, escape_line};

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

/// Stands where nobody can be asked, and says what would let the call pass.
pub(crate) struct Nobody {
    /// What helps with any call.
    pub(crate) how_to_allow: String,
}

impl Approver for Nobody {
    fn name(&self) -> &str {
        "nobody"
    }

    fn unreachable(&self, question: &Question) -> Option<String> {
        let how = &self.how_to_allow;
        // A call that stands alone is offered nothing for later; a rule is for later all the same.
        let is_remote = question
            .effects
            .iter()
            .any(|effect| matches!(effect, Effect::Mcp { definition: Definition::Steady, .. }));
        Some(match is_remote {
            true => format!("{how}, or allow it by a rule: `{}`", question.tool),
            false => format!("{how}, or allow it by a rule in settings"),
        })
    }

    fn ask<'a>(&'a self, _question: &'a Question) -> BoxFuture<'a, Answer> {
        Box::pin(std::future::ready(Answer::RejectOnce))
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
        let choices = Choices(question.options());
        let text = questionnaire::text(&self.terminal.err, question)
            + &choices.explained(&self.terminal.err);
        let (terminal, answers) = (self.terminal.clone(), self.answers.clone());
        Box::pin(async move {
            // Reading blocks until they answer; the call can be cancelled meanwhile.
            let mut line = OpenLine { stream: self.terminal.err.clone(), open: true };
            let asked = tokio::task::spawn_blocking(move || {
                terminal.err.write(&text).ok()?;
                let typed = terminal.ask(&answers, "Allow?", &choices.keys())?;
                Some(choices.chosen(&typed))
            });
            let answer = asked.await.ok().flatten();
            line.open = false;
            answer.unwrap_or(Answer::RejectOnce)
        })
    }
}

/// The answers a person can type, each by its key.
struct Choices(Vec<AnswerOption>);

impl Choices {
    /// `y/N`, or `y/s/N/d`: what Enter alone means is the large one.
    fn keys(&self) -> String {
        self.0.iter().map(|option| key(option.kind)).collect::<Vec<_>>().join("/")
    }

    /// What was meant; anything that is not offered is no.
    fn chosen(&self, typed: &str) -> Answer {
        let answer = match typed {
            "y" | "yes" => Answer::AllowOnce,
            "s" | "session" => Answer::AllowSession,
            "d" | "don't" | "dont" => Answer::RejectSession,
            _ => Answer::RejectOnce,
        };
        let offered = self.0.iter().any(|option| option.kind == answer);
        if offered { answer } else { Answer::RejectOnce }
    }

    /// One line for each key, where there is more to choose from than yes and no.
    fn explained(&self, stream: &Stream) -> String {
        let mut text = String::new();
        if self.0.len() > 2 {
            for option in &self.0 {
                let key = key(option.kind).to_ascii_lowercase();
                let name = escape_line(&option.name);
                let _ = writeln!(text, "  {}  {name}", stream.paint(STRONG, &key));
            }
        }
        text
    }
}

fn key(answer: Answer) -> &'static str {
    match answer {
        Answer::AllowOnce => "y",
        Answer::AllowSession => "s",
        Answer::RejectOnce => "N",
        Answer::RejectSession => "d",
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

/// The colour of a risk.
pub(crate) fn risk_style(risk: Risk) -> Style {
    match risk {
        Risk::Low => Style::new(),
        Risk::Medium => NOTABLE,
        Risk::High => BAD,
        Risk::Critical => BAD.bold(),
    }
}

#[cfg(test)]
mod tests {
    use zero_core::{CallId, ToolName};
    use zero_runtime::Grant;

    use super::*;

    #[track_caller]
    fn check(risk: Risk, rules: &[&str], keys: &str, typed: &[(&str, Answer)]) {
        let grant = |rule: &&str| Grant { rule: (*rule).to_owned(), folder: None, program: None };
        let question = Question {
            call: CallId::from_bits(1),
            tool: ToolName::new("Bash").unwrap(),
            title: String::new(),
            reason: String::new(),
            risk,
            effects: vec![],
            judged: vec![],
            grants: rules.iter().map(grant).collect(),
            preview: None,
            rewritten: None,
            workspace: std::path::PathBuf::new(),
        };
        let choices = Choices(question.options());
        assert_eq!(choices.keys(), keys);
        for (typed, answer) in typed {
            assert_eq!(choices.chosen(typed), *answer, "{typed}");
        }
    }

    #[test]
    fn only_what_is_offered_can_be_chosen() {
        use Answer::{AllowOnce, AllowSession, RejectOnce, RejectSession};
        let plain = [("y", AllowOnce), ("s", RejectOnce), ("d", RejectOnce), ("", RejectOnce)];
        check(Risk::Medium, &[], "y/N", &plain);
        let all = [
            ("yes", AllowOnce),
            ("s", AllowSession),
            ("session", AllowSession),
            ("n", RejectOnce),
            ("d", RejectSession),
            ("x", RejectOnce),
        ];
        check(Risk::Medium, &["Bash(ls)"], "y/s/N/d", &all);
        let critical = [("y", AllowOnce), ("s", RejectOnce), ("d", RejectSession)];
        check(Risk::Critical, &["Bash(ls)"], "y/N/d", &critical);
    }
}
