//! The AskUserQuestion tool: asks the user to choose between options.
//!
//! The questions go to whichever client the user is connected with. If no user can be reached, the
//! model gets an error; no answer is ever made up.

mod question_form;

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use zero_core::{
    Effect, Effects, ErrorReason, ErrorType, RiskLevel, SchemaViolation, SessionId, TimeoutClass,
    ToolCategory, ToolError, ToolKind,
};
use zero_runtime::{
    AGENT_ORIGIN, CallContext, CallDescription, ElicitationAnswer, ElicitationMode, Tool,
    ToolBound, ToolInfo, ToolNotes, ToolReply,
};
use zero_sandbox::Workspace;

use self::question_form::{QuestionForm, UserQuestionAnswer};
use crate::text_format::to_single_line;

/// How long the user may take to answer. The client may give up earlier.
const ANSWER_WAIT_MAX: Duration = Duration::from_secs(24 * 60 * 60);
/// Most calls of a session that may wait for an answer at a time.
const PENDING_CALLS_MAX: usize = 4;
/// Most questions in one call.
const QUESTIONS_MAX: usize = 4;
/// Fewest and most options of a question.
const OPTIONS_MIN: usize = 2;
const OPTIONS_MAX: usize = 4;
/// Longest texts of a question, in characters.
const HEADER_CHARS_MAX: usize = 12;
const QUESTION_CHARS_MAX: usize = 1_000;
const LABEL_CHARS_MAX: usize = 80;
/// Most words of a label, besides the mark of the option that the agent would choose.
const LABEL_WORDS_MAX: usize = 5;
const RECOMMENDED: &str = "(recommended)";
const DESCRIPTION_CHARS_MAX: usize = 500;
/// The value that stands for a free-text answer, which every question allows.
const OTHER: &str = "other";

/// Asks the user to choose, and waits for the answer. Use it when you cannot continue well without
/// something that only the user knows or decides: a preference, which of several approaches to
/// take, what an unclear request means. Do not ask what you can find out yourself, nor for
/// permission to use a tool: zero asks for that by itself. Put related questions into one call.
/// Every question can also be answered with free text, so do not add an option such as `Other`. Put
/// the option that you would choose first and add `(recommended)` to its label.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AskUserQuestionArgs {
    /// 1 to 4 questions.
    #[schemars(length(min = 1, max = QUESTIONS_MAX))]
    questions: Vec<ChoiceQuestion>,
}

/// A question with its options.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[schemars(inline)]
pub struct ChoiceQuestion {
    /// The whole question, such as `Which database should we use?`.
    #[schemars(length(min = 1, max = QUESTION_CHARS_MAX))]
    question: String,
    /// A short heading for it, of at most 12 characters: `Database`.
    #[schemars(length(min = 1, max = HEADER_CHARS_MAX))]
    header: String,
    /// 2 to 4 answers to choose from.
    #[schemars(length(min = OPTIONS_MIN, max = OPTIONS_MAX))]
    options: Vec<QuestionChoice>,
    /// Whether several options may be chosen. Default false.
    #[serde(default)]
    multi_select: bool,
}

/// An option to choose.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(inline)]
pub struct QuestionChoice {
    /// The answer, in 1 to 5 words.
    #[schemars(length(min = 1, max = LABEL_CHARS_MAX))]
    label: String,
    /// What the option means, or what follows from it.
    #[schemars(length(min = 1, max = DESCRIPTION_CHARS_MAX))]
    description: String,
}

/// The answers of the user.
#[derive(Debug, Serialize, JsonSchema)]
pub struct AskUserQuestionOutput {
    /// For each answered question, by its text: the chosen labels, or the user's free text. Several
    /// are separated by commas.
    pub answers: BTreeMap<String, String>,
    /// The questions that the user wants to answer in free text but could not where they were
    /// asked: put them into your reply, and end your turn.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub in_own_words: Vec<String>,
}

/// Asks the user to choose between answers.
#[derive(Default)]
pub struct AskUserQuestionTool {
    /// Number of calls of each session that wait for an answer.
    open: Arc<Mutex<HashMap<Option<SessionId>, usize>>>,
}

/// A call that waits for an answer. Dropping it ends the count of that call.
struct OpenQuestionGuard {
    open: Arc<Mutex<HashMap<Option<SessionId>, usize>>>,
    session: Option<SessionId>,
}

impl AskUserQuestionTool {
    /// Counts one more waiting call. Fails if the session has reached the limit.
    fn register_call(&self, session: Option<SessionId>) -> Result<OpenQuestionGuard, ToolError> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let count = open.entry(session.clone()).or_default();
        if *count >= PENDING_CALLS_MAX {
            let message = format!(
                "{PENDING_CALLS_MAX} calls of this tool already wait for the user; wait for their answers, and put related questions into one call"
            );
            return Err(ToolError::failed(ErrorReason::QueueFull, message));
        }
        *count += 1;
        Ok(OpenQuestionGuard { open: Arc::clone(&self.open), session })
    }
}

impl Drop for OpenQuestionGuard {
    fn drop(&mut self) {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = open.get_mut(&self.session) {
            *count -= 1;
            if *count == 0 {
                open.remove(&self.session);
            }
        }
    }
}

impl Tool for AskUserQuestionTool {
    type Args = AskUserQuestionArgs;
    type Output = AskUserQuestionOutput;
    type Plan = QuestionForm;
    const NAME: &'static str = "AskUserQuestion";

    fn info(&self) -> ToolInfo {
        ToolInfo {
            display_name: "Ask the user",
            category: ToolCategory::Ui,
            kind: ToolKind::Other,
            risk: RiskLevel::Low,
            timeout_class: TimeoutClass::File,
            idempotent: false,
            fallback: None,
        }
    }

    fn notes(&self) -> ToolNotes {
        ToolNotes::new("asks the user; changes nothing").with_bounds([
            ToolBound::range("questions in a call", 1, QUESTIONS_MAX),
            ToolBound::range("options of a question", OPTIONS_MIN, OPTIONS_MAX),
            ToolBound::characters("`header`", HEADER_CHARS_MAX),
            ToolBound::characters("`question`", QUESTION_CHARS_MAX),
            ToolBound::characters("`label`", LABEL_CHARS_MAX),
            ToolBound::count("words in `label`, besides `(recommended)`", LABEL_WORDS_MAX),
            ToolBound::characters("`description`", DESCRIPTION_CHARS_MAX),
            ToolBound::characters("a free-text answer", question_form::FREE_TEXT_CHARS_MAX),
            ToolBound::count("calls of a session that wait for an answer", PENDING_CALLS_MAX),
        ])
    }

    fn plan(
        &self,
        args: AskUserQuestionArgs,
        _workspace: &Workspace,
    ) -> Result<QuestionForm, ToolError> {
        let wrong = find_violations(&args.questions);
        match wrong.is_empty() {
            true => Ok(QuestionForm::new(args.questions)),
            false => Err(ToolError::from_violations(&wrong)),
        }
    }

    fn describe(&self, form: &QuestionForm) -> CallDescription {
        CallDescription { title: format!("Ask: {}", form.title()), locations: Vec::new() }
    }

    fn effects(&self, _form: &QuestionForm) -> Effects {
        vec![Effect::Ask]
    }

    fn deadline(&self, _form: &QuestionForm) -> Option<Duration> {
        Some(ANSWER_WAIT_MAX)
    }

    async fn run(
        &self,
        form: Arc<QuestionForm>,
        cx: CallContext,
    ) -> Result<ToolReply<AskUserQuestionOutput>, ToolError> {
        let _waiting = self.register_call(cx.session().cloned())?;
        let mode = ElicitationMode::Form(form.schema());
        let values = match cx.elicit(AGENT_ORIGIN, form.message(), mode).await? {
            ElicitationAnswer::Accept(values) => values,
            ElicitationAnswer::Decline => {
                return Err(unanswered_error(ErrorReason::Rejected, DECLINED));
            }
            ElicitationAnswer::Cancel => {
                return Err(unanswered_error(ErrorReason::NoApprover, NO_ANSWER));
            }
        };
        let replies = form.parse_answers(values)?;
        if replies.iter().all(|(_, reply)| *reply == UserQuestionAnswer::Unanswered) {
            return Err(unanswered_error(ErrorReason::Rejected, DECLINED));
        }
        Ok(render_answers(replies))
    }
}

/// Renders the answers for the model.
fn render_answers(replies: Vec<(String, UserQuestionAnswer)>) -> ToolReply<AskUserQuestionOutput> {
    let mut text = String::from("The user answered:");
    let (mut answers, mut in_own_words) = (BTreeMap::new(), Vec::new());
    for (question, reply) in replies {
        let line = match &reply {
            UserQuestionAnswer::Answer(answer) => to_single_line(answer),
            UserQuestionAnswer::Unanswered => "(no answer)".to_owned(),
            UserQuestionAnswer::FreeTextPending(chosen) => {
                let chosen =
                    chosen.as_ref().map(|chosen| format!("{}, and ", to_single_line(chosen)));
                format!("{}(something else, in their own words)", chosen.unwrap_or_default())
            }
        };
        text.push_str(&format!("\n- {}\n  {line}", to_single_line(&question)));
        if let UserQuestionAnswer::FreeTextPending(_) = reply {
            in_own_words.push(question.clone());
        }
        if let UserQuestionAnswer::Answer(answer)
        | UserQuestionAnswer::FreeTextPending(Some(answer)) = reply
        {
            answers.insert(question, answer);
        }
    }
    if !in_own_words.is_empty() {
        text.push_str(IN_OWN_WORDS);
    }
    ToolReply::from_text(text, AskUserQuestionOutput { answers, in_own_words })
}

const IN_OWN_WORDS: &str = "\nThe user could not enter free text where they were asked. Ask for it in your reply, in plain words, and end your turn: they answer with their next message. Do not guess the answer, and do not ask with this tool again.";

const DECLINED: &str = "the user chose not to answer; do not ask the same again: continue without the answer if you can, or explain in your reply what you need";
const NO_ANSWER: &str = "no answer: no user is connected, or their client cannot show the question; nothing was chosen. Put the question into your reply instead, or continue with what you know and say what you assumed";

fn unanswered_error(reason: ErrorReason, message: &'static str) -> ToolError {
    ToolError::new(ErrorType::PermissionDenied, reason, message)
}

/// Returns violations that the JSON schema cannot express.
fn find_violations(questions: &[ChoiceQuestion]) -> Vec<SchemaViolation> {
    let mut wrong = Vec::new();
    for (at, question) in questions.iter().enumerate() {
        let at_question = format!("/questions/{at}");
        let mut text = |pointer: String, text: &str| {
            if text.trim().is_empty() {
                wrong.push(SchemaViolation::new(pointer, "a text", "an empty text"));
            }
        };
        text(format!("{at_question}/question"), &question.question);
        text(format!("{at_question}/header"), &question.header);
        for (index, option) in question.options.iter().enumerate() {
            let at_option = format!("{at_question}/options/{index}");
            text(format!("{at_option}/label"), &option.label);
            text(format!("{at_option}/description"), &option.description);
        }
        let same = |other: &ChoiceQuestion| other.question.trim() == question.question.trim();
        if let Some(first) = questions.iter().take(at).position(same) {
            let expected =
                format!("a text that differs from question {first}, since answers are keyed by it");
            wrong.push(SchemaViolation::new(
                format!("{at_question}/question"),
                expected,
                "the same",
            ));
        }
        for (index, option) in question.options.iter().enumerate() {
            let pointer = format!("{at_question}/options/{index}/label");
            let label = option.label.trim();
            let words = label.split_whitespace();
            let words = words.filter(|word| !word.eq_ignore_ascii_case(RECOMMENDED)).count();
            if words > LABEL_WORDS_MAX {
                let expected = format!("at most {LABEL_WORDS_MAX} words; explain in `description`");
                wrong.push(SchemaViolation::new(&pointer, expected, format!("{words} words")));
            }
            let same = |other: &QuestionChoice| other.label.trim().eq_ignore_ascii_case(label);
            if label.eq_ignore_ascii_case(OTHER) {
                let expected = "an answer: free text is always offered";
                wrong.push(SchemaViolation::new(pointer, expected, "`Other`"));
            } else if question.options.iter().take(index).any(same) {
                wrong.push(SchemaViolation::new(
                    pointer,
                    "a label that no other option has",
                    "one twice",
                ));
            }
        }
    }
    wrong
}

#[cfg(test)]
mod tests;
