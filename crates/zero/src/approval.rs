//! Who answers when a call must be asked about.

use std::fmt::Write as _;

use anstyle::Style;
use zero_core::{Display, Effect, Risk};
use zero_runtime::tool::BoxFuture;
use zero_runtime::{Answer, AnswerOption, Approver, JudgedEffect, Question, Verdict};

use crate::terminal::{
    Answers, BAD, FAINT, NOTABLE, STRONG, Stream, Terminal, escape_line, escape_lines,
};

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
        let choices = Choices(question.options());
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

/// Everything a person should know before they answer.
fn questionnaire(stream: &Stream, question: &Question) -> String {
    let mut text = format!("\n{}\n", stream.paint(STRONG, &escape_line(&question.title)));
    let mut fact = |name: &str, value: &str, style| {
        let name = format!("{name:<5}");
        let _ = writeln!(text, "  {} {}", stream.paint(FAINT, &name), stream.paint(style, value));
    };
    fact("why", &escape_line(&question.reason), Style::new());
    fact("risk", question.risk.word(), risk_style(question.risk));
    for effect in &question.effects {
        fact("will", &will(effect), Style::new());
    }
    for part in asking_parts(question) {
        fact("asks", &escape_line(&part), NOTABLE);
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
    text.push_str(&Choices(question.options()).explained(stream));
    text
}

/// An effect in words. A command is shown whole, each of its lines behind a bar, so that no line
/// of it can pass for one of ours.
fn will(effect: &Effect) -> String {
    let Effect::Exec(command) = effect else {
        return escape_line(&effect.to_string()).into_owned();
    };
    let command = command.to_string();
    match command.trim_end().contains('\n') {
        false => escape_line(&effect.to_string()).into_owned(),
        true => {
            escape_lines(command.trim_end()).lines().fold("run".to_owned(), |mut text, line| {
                let _ = write!(text, "\n        │ {line}");
                text
            })
        }
    }
}

/// What of the call has to be asked about and why, beyond what was already said.
fn asking_parts(question: &Question) -> Vec<String> {
    let said = |part: &JudgedEffect| {
        let named = |effect: &Effect| effect.kind() == part.kind && effect.target() == part.target;
        part.reason == question.reason && question.effects.iter().any(named)
    };
    let asks = |part: &&JudgedEffect| part.decision == Verdict::Ask && !said(part);
    let parts = question.judged.iter().filter(asks);
    parts.map(|part| format!("{} {}: {}", verb(part.kind), part.target, part.reason)).collect()
}

fn verb(kind: &str) -> &str {
    match kind {
        "exec" => "run",
        "net" => "connect to",
        "mcp" => "use",
        "state" => "change",
        other => other,
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
    use zero_core::{Execution, FileDiff, ToolName};
    use zero_runtime::Grant;

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
            judged: vec![],
            grants: vec![],
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
    fn a_command_is_shown_whole_with_the_part_that_asks_and_all_answers() {
        let command = "cd src\n  risk  low\ngit push origin main\n";
        let part = |kind, target: &str, decision, reason: &str| JudgedEffect {
            kind,
            target: target.to_owned(),
            decision,
            rule: None,
            source: None,
            reason: reason.to_owned(),
        };
        let question = Question {
            tool: ToolName::new("Bash").unwrap(),
            title: "Run `cd src …`".to_owned(),
            reason: "it would reach github.com".to_owned(),
            risk: Risk::High,
            effects: vec![Effect::Exec(Execution::shell(command))],
            judged: vec![
                part("exec", "cd src", Verdict::Allow, "it only looks"),
                part("exec", "git push origin main", Verdict::Ask, "no rule allows it"),
                part("exec", command, Verdict::Ask, "it would reach github.com"),
            ],
            grants: vec![Grant {
                rule: "Bash(git push:*)".to_owned(),
                folder: None,
                program: None,
            }],
            preview: None,
        };
        let stream = Terminal::for_test().err.watched(80).without_colours();
        insta::assert_snapshot!(questionnaire(&stream, &question).trim(), @r"
        Run `cd src …`
          why   it would reach github.com
          risk  high
          will  run
                │ cd src
                │   risk  low
                │ git push origin main
          asks  run git push origin main: no rule allows it

          y  Allow once
          s  Allow `git push:*` in this session
          n  Reject
          d  Reject `git push:*` in this session
        ");
    }

    #[track_caller]
    fn check(risk: Risk, rules: &[&str], keys: &str, typed: &[(&str, Answer)]) {
        let grant = |rule: &&str| Grant { rule: (*rule).to_owned(), folder: None, program: None };
        let question = Question {
            tool: ToolName::new("Bash").unwrap(),
            title: String::new(),
            reason: String::new(),
            risk,
            effects: vec![],
            judged: vec![],
            grants: rules.iter().map(grant).collect(),
            preview: None,
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

    #[test]
    fn a_long_preview_is_cut() {
        let text = "x\n".repeat(PREVIEW_LINES_MAX + 5);
        assert!(shortened(&text).ends_with("… and 5 more lines\n"));
    }
}
