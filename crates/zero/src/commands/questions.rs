//! `zero questions`: lists, shows and answers the questions of runs that wait.

use std::collections::VecDeque;

use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;
use zero_core::event::ApprovalRequest;
use zero_runtime::ApprovalAnswer;
use zero_session::output_schema::OutputSchema;
use zero_wire::zero_sessions::{
    ApprovalsListParams, ApprovalsListResult, ApprovalsResolveParams, QuestionsResolveParams,
    SessionOpenParams, ZeroApprovalsList, ZeroApprovalsResolve, ZeroQuestionsResolve,
    ZeroSessionsOpen,
};

use crate::AppContext;
use crate::cli::{
    OutputFormat, QuestionsAnswerArgs, QuestionsCommand, QuestionsListArgs, QuestionsShowArgs,
    RemoteGatewayArgs,
};
use crate::commands::run::run_printer::{RunDetails, RunPrinter};
use crate::commands::run::unattended_run::{
    ParkedQuestion, UnattendedRun, answer_id, answer_word, describe_approval, describe_form,
    render_preview,
};
use crate::commands::tools_call::signals;
use crate::exit::{ExitOutcome, UsageError};
use crate::gateway_connection::CliGatewayConnection;
use crate::host_setup::small_runtime;
use crate::terminal::{
    ElapsedCounter, FAINT, STRONG, TableCell, TerminalStream, TextTable, escape_line,
};

/// A question, whichever kind it is.
struct WaitingQuestion {
    id: String,
    session_key: String,
    run_id: Option<String>,
    created_at_ms: i64,
    is_form: bool,
    title: String,
    answers: Vec<String>,
    /// JSON Schema of a form.
    schema: Option<Value>,
    /// The question in a sentence, with the command that answers it.
    description: String,
    /// The call that it is about; `None` for a form.
    call: Option<ApprovalRequest>,
}

pub(super) fn run(app: &AppContext, command: &QuestionsCommand) -> anyhow::Result<ExitOutcome> {
    let (runtime, cancel) = (small_runtime()?, CancellationToken::new());
    let done = runtime.block_on(async {
        match command {
            QuestionsCommand::List(args) => list(app, args).await,
            QuestionsCommand::Show(args) => show(app, args).await,
            QuestionsCommand::Answer(args) => {
                signals::cancel_on_interrupt(&cancel);
                answer(app, args, &cancel).await
            }
        }
    });
    runtime.shutdown_background();
    done
}

async fn connect(
    app: &AppContext,
    remote: &RemoteGatewayArgs,
    files: &[std::path::PathBuf],
) -> anyhow::Result<CliGatewayConnection> {
    let workspace = app.config.open_workspace(&[])?;
    let settings = app.load_settings(&workspace, files)?;
    app.connect(remote, &settings, files, workspace.cwd()).await
}

async fn list(app: &AppContext, args: &QuestionsListArgs) -> anyhow::Result<ExitOutcome> {
    let connection = connect(app, &args.remote, &[]).await?;
    let params = ApprovalsListParams::default();
    let found = connection.client.request::<ZeroApprovalsList>(params).await;
    connection.close().await;
    let (found, out) = (found?, &app.terminal.out);
    if args.json {
        out.write_pretty_json(&found)?;
        return Ok(ExitOutcome::Ok);
    }
    let questions = to_questions(found);
    if questions.is_empty() {
        app.terminal.print_note("no question waits for an answer");
        return Ok(ExitOutcome::Ok);
    }
    let mut table = TextTable::new(["QUESTION", "SESSION", "WHAT", "ANSWERS"]);
    let meanings: Vec<String> = ApprovalAnswer::ALL
        .into_iter()
        .map(|answer| (answer_word(answer.id()), answer))
        .filter(|(word, _)| questions.iter().any(|it| it.answers.iter().any(|id| id == word)))
        .map(|(word, answer)| format!("`{word}`: {}", describe_answer(answer)))
        .collect();
    for question in questions {
        table.add_row([
            TableCell::whole(question.id),
            TableCell::whole(question.session_key),
            escape_line(&question.title).into_owned().into(),
            question.answers.join(" ").into(),
        ]);
    }
    out.write(&table.render(out))?;
    if !meanings.is_empty() {
        app.terminal.print_note(&meanings.join("; "));
    }
    Ok(ExitOutcome::Ok)
}

/// What an answer to an approval does. None of them changes settings, unlike "allow always" on a
/// terminal.
fn describe_answer(answer: ApprovalAnswer) -> &'static str {
    match answer {
        ApprovalAnswer::AllowOnce => "this call",
        ApprovalAnswer::AllowSession => "for this session",
        ApprovalAnswer::RejectOnce => "not this call",
        ApprovalAnswer::RejectSession => "not in this session",
        ApprovalAnswer::RejectTool => "no call of this tool in this session",
    }
}

/// The questions, oldest first.
fn to_questions(found: ApprovalsListResult) -> Vec<WaitingQuestion> {
    let approvals = found.approvals.into_iter().map(|pending| WaitingQuestion {
        description: describe_approval(&pending.request),
        id: pending.request.id.clone(),
        session_key: pending.session_key,
        run_id: pending.run_id,
        created_at_ms: pending.created_at_ms,
        is_form: false,
        title: pending.request.title.clone(),
        answers: pending
            .request
            .options
            .iter()
            .map(|option| answer_word(&option.id).to_owned())
            .collect(),
        schema: None,
        call: Some(pending.request),
    });
    let forms = found.questions.into_iter().map(|pending| WaitingQuestion {
        description: describe_form(&pending.question),
        id: pending.question.id,
        session_key: pending.session_key,
        run_id: pending.run_id,
        created_at_ms: pending.created_at_ms,
        is_form: true,
        title: pending.question.message,
        answers: vec![form_example(pending.question.schema.as_ref()), "decline".to_owned()],
        schema: pending.question.schema,
        call: None,
    });
    let mut questions: Vec<WaitingQuestion> = approvals.chain(forms).collect();
    questions.sort_by_key(|question| question.created_at_ms);
    questions
}

async fn answer(
    app: &AppContext,
    args: &QuestionsAnswerArgs,
    cancel: &CancellationToken,
) -> anyhow::Result<ExitOutcome> {
    let connection = connect(app, &args.remote, &args.settings).await?;
    match answer_and_subscribe(app, args, &connection).await {
        Ok(Some(run)) => run.follow(connection, cancel).await,
        Ok(None) => {
            connection.close().await;
            Ok(ExitOutcome::Ok)
        }
        Err(error) => {
            connection.close().await;
            Err(error)
        }
    }
}

/// Finds a question by the first characters of its id.
fn find_question(questions: &[WaitingQuestion], id: &str) -> Result<usize, UsageError> {
    let matching: Vec<usize> = (0..questions.len())
        .filter(|at| questions.get(*at).is_some_and(|it| it.id.starts_with(id)))
        .collect();
    match matching[..] {
        [at] if !id.is_empty() => Ok(at),
        [] => Err(UsageError(format!(
            "no question `{}` waits for an answer: it was answered, withdrawn or never asked; see `zero questions list`",
            escape_line(id)
        ))),
        _ => Err(UsageError(format!(
            "several questions begin with `{}`; write more of the id",
            escape_line(id)
        ))),
    }
}

async fn show(app: &AppContext, args: &QuestionsShowArgs) -> anyhow::Result<ExitOutcome> {
    let connection = connect(app, &args.remote, &[]).await?;
    let found = connection.client.request::<ZeroApprovalsList>(ApprovalsListParams::default());
    let found = found.await;
    connection.close().await;
    let mut questions = to_questions(found?);
    let question = questions.swap_remove(find_question(&questions, &args.id)?);
    let out = &app.terminal.out;
    out.write(&render_question(out, &question))?;
    Ok(ExitOutcome::Ok)
}

/// A question with all that it is about.
fn render_question(stream: &TerminalStream, question: &WaitingQuestion) -> String {
    let mut text = format!("{}\n", stream.paint(STRONG, &escape_line(&question.title)));
    let mut fact = |name: &str, value: &str| {
        text.push_str(&format!("  {} {}\n", stream.paint(FAINT, name), escape_line(value)));
    };
    fact("session", &question.session_key);
    if let Some(call) = &question.call {
        fact("tool", &call.tool);
        fact("why", &call.reason);
        fact("risk", &call.risk);
        fact("in", &call.cwd);
        call.commands.iter().for_each(|command| fact("runs", command));
        for effect in &call.effects {
            fact("touches", &format!("{} {}", effect.kind, effect.target));
        }
    }
    fact("answers", &question.answers.join(" "));
    let call = question.call.as_ref();
    text + &call.map(|call| render_preview(stream, call)).unwrap_or_default()
}

/// Answers the question. Returns its run, with the other questions that the run waits for.
async fn answer_and_subscribe<'a>(
    app: &'a AppContext,
    args: &QuestionsAnswerArgs,
    connection: &CliGatewayConnection,
) -> anyhow::Result<Option<UnattendedRun<'a>>> {
    let client = &connection.client;
    let found = client.request::<ZeroApprovalsList>(ApprovalsListParams::default()).await?;
    let mut questions = to_questions(found);
    let question = questions.remove(find_question(&questions, &args.id)?);
    if let Some(call) = &question.call {
        // Shows the call before its answer is sent, in case the user has not seen it.
        let err = &app.terminal.err;
        err.write(&render_preview(err, call))?;
    }
    // Subscribes, so that nothing of the run is missed.
    let open = SessionOpenParams {
        session_key: Some(question.session_key.clone()),
        ..SessionOpenParams::default()
    };
    client.request::<ZeroSessionsOpen>(open).await?;
    match question.is_form {
        true => {
            let (action, content) = parse_form_answer(&args.answer, question.schema.as_ref())?;
            let resolve = QuestionsResolveParams { id: question.id, action, content };
            client.request::<ZeroQuestionsResolve>(resolve).await?;
        }
        false => {
            let answer = answer_id(&args.answer);
            let offered = &question.answers;
            if answer != ApprovalAnswer::RejectOnce.id()
                && !offered.iter().any(|word| answer_id(word) == answer)
            {
                let what =
                    format!("that answer is not offered; answer one of {}", offered.join(", "));
                return Err(UsageError(what).into());
            }
            let resolve = ApprovalsResolveParams { id: question.id, answer: answer.to_owned() };
            client.request::<ZeroApprovalsResolve>(resolve).await?;
        }
    }
    let Some(run_id) = question.run_id else { return Ok(None) };
    let is_of_run = |other: &WaitingQuestion| other.run_id.as_ref() == Some(&run_id);
    let waiting = questions.into_iter().filter(is_of_run).map(|other| {
        let call = other.call.as_ref();
        let preview = call.map(|call| render_preview(&app.terminal.err, call)).unwrap_or_default();
        ParkedQuestion { id: other.id, preview, description: other.description }
    });
    let waiting = waiting.collect();
    let form = if args.json { OutputFormat::StreamJson } else { OutputFormat::Text };
    let counter = ElapsedCounter::new(&app.terminal.err);
    let printer = RunPrinter::new(&app.terminal, form, RunDetails::default(), counter);
    let session_key = question.session_key;
    let run = UnattendedRun { app, session_key, run_id, printer, early: VecDeque::new(), waiting };
    Ok(Some(run))
}

/// The action and the values of an answer to a form, which has to fit its schema: an answer counts
/// once.
fn parse_form_answer(
    written: &str,
    schema: Option<&Value>,
) -> Result<(String, Map<String, Value>), UsageError> {
    if written == "decline" {
        return Ok((written.to_owned(), Map::new()));
    }
    let wrong = |why: String| {
        let example = form_example(schema);
        UsageError(format!(
            "{why}; the answer to this form is a JSON object such as '{example}', or `decline`; `zero questions list --json` shows its fields and their values"
        ))
    };
    let Ok(Value::Object(content)) = serde_json::from_str(written) else {
        return Err(wrong("the answer is not a JSON object".to_owned()));
    };
    if let Some(schema) = schema {
        if let Some(name) = content.keys().find(|name| form_field(schema, name).is_none()) {
            return Err(wrong(format!("the form has no field `{}`", escape_line(name))));
        }
        if content.is_empty() {
            return Err(wrong("the answer is empty".to_owned()));
        }
        let checked = OutputSchema::new(schema.clone()).map(|schema| schema.parse_answer(written));
        if let Ok(Err(error)) = checked {
            return Err(wrong(error));
        }
    }
    Ok(("accept".to_owned(), content))
}

fn form_field<'a>(schema: &'a Value, name: &str) -> Option<&'a Value> {
    schema.get("properties")?.get(name)
}

/// An answer to a form, with its first field.
fn form_example(schema: Option<&Value>) -> String {
    let fields = schema.and_then(|schema| schema.get("properties")?.as_object());
    let name = fields.and_then(|fields| fields.keys().next()).map_or("field", String::as_str);
    serde_json::json!({ name: "…" }).to_string()
}
