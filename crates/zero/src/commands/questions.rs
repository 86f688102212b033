//! `zero questions`: lists and answers the questions of runs that wait.

use std::collections::VecDeque;

use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;
use zero_wire::zero_sessions::{
    ApprovalsListParams, ApprovalsListResult, ApprovalsResolveParams, QuestionsResolveParams,
    SessionOpenParams, ZeroApprovalsList, ZeroApprovalsResolve, ZeroQuestionsResolve,
    ZeroSessionsOpen,
};

use crate::AppContext;
use crate::cli::{
    OutputFormat, QuestionsAnswerArgs, QuestionsCommand, QuestionsListArgs, RemoteGatewayArgs,
};
use crate::commands::run::run_printer::{RunDetails, RunPrinter};
use crate::commands::run::unattended_run::{UnattendedRun, describe_approval, describe_form};
use crate::commands::tools_call::signals;
use crate::exit::{ExitOutcome, UsageError};
use crate::gateway_connection::CliGatewayConnection;
use crate::host_setup::small_runtime;
use crate::terminal::{ElapsedCounter, TextTable, escape_line};

/// A question, whichever kind it is.
struct WaitingQuestion {
    id: String,
    session_key: String,
    run_id: Option<String>,
    is_form: bool,
    title: String,
    answers: Vec<String>,
    /// The question in a sentence, with the command that answers it.
    description: String,
}

pub(super) fn run(app: &AppContext, command: &QuestionsCommand) -> anyhow::Result<ExitOutcome> {
    let (runtime, cancel) = (small_runtime()?, CancellationToken::new());
    let done = runtime.block_on(async {
        match command {
            QuestionsCommand::List(args) => list(app, args).await,
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
    let wanted = ApprovalsListParams::default();
    let found = connection.client.request::<ZeroApprovalsList>(wanted).await;
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
    for question in questions {
        table.add_row([
            question.id.into(),
            question.session_key.into(),
            escape_line(&question.title).into_owned().into(),
            question.answers.join(" ").into(),
        ]);
    }
    out.write(&table.render(out))?;
    Ok(ExitOutcome::Ok)
}

fn to_questions(found: ApprovalsListResult) -> Vec<WaitingQuestion> {
    let approvals = found.approvals.into_iter().map(|pending| WaitingQuestion {
        description: describe_approval(&pending.request),
        id: pending.request.id,
        session_key: pending.session_key,
        run_id: pending.run_id,
        is_form: false,
        title: pending.request.title,
        answers: pending.request.options.into_iter().map(|option| option.id).collect(),
    });
    let forms = found.questions.into_iter().map(|pending| WaitingQuestion {
        description: describe_form(&pending.question),
        id: pending.question.id,
        session_key: pending.session_key,
        run_id: pending.run_id,
        is_form: true,
        title: pending.question.message,
        answers: vec!["JSON".to_owned(), "decline".to_owned()],
    });
    approvals.chain(forms).collect()
}

async fn answer(
    app: &AppContext,
    args: &QuestionsAnswerArgs,
    cancel: &CancellationToken,
) -> anyhow::Result<ExitOutcome> {
    let connection = connect(app, &args.remote, &args.settings).await?;
    match answer_and_subscribe(app, args, &connection).await {
        Ok((run, others)) => match (run, others) {
            (None, _) => {
                connection.close().await;
                Ok(ExitOutcome::Ok)
            }
            (Some(run), Some(other)) => run.park(connection, &other).await,
            (Some(run), None) => run.follow(connection, cancel).await,
        },
        Err(error) => {
            connection.close().await;
            Err(error)
        }
    }
}

/// Answers the question. Returns its run, and another question that the run waits for.
async fn answer_and_subscribe<'a>(
    app: &'a AppContext,
    args: &QuestionsAnswerArgs,
    connection: &CliGatewayConnection,
) -> anyhow::Result<(Option<UnattendedRun<'a>>, Option<String>)> {
    let client = &connection.client;
    let found = client.request::<ZeroApprovalsList>(ApprovalsListParams::default()).await?;
    let mut questions = to_questions(found);
    let matching: Vec<usize> = (0..questions.len())
        .filter(|at| questions.get(*at).is_some_and(|it| it.id.starts_with(&args.id)))
        .collect();
    let at = match matching[..] {
        [at] if !args.id.is_empty() => at,
        [] => {
            let what = format!(
                "no question `{}` waits for an answer: it was answered, withdrawn or never asked; see `zero questions list`",
                escape_line(&args.id)
            );
            return Err(UsageError(what).into());
        }
        _ => {
            let what = format!(
                "several questions begin with `{}`; write more of the id",
                escape_line(&args.id)
            );
            return Err(UsageError(what).into());
        }
    };
    let question = questions.swap_remove(at);
    // Subscribes, so that nothing of the run is missed.
    let open = SessionOpenParams {
        session_key: Some(question.session_key.clone()),
        ..SessionOpenParams::default()
    };
    client.request::<ZeroSessionsOpen>(open).await?;
    match question.is_form {
        true => {
            let (action, content) = parse_form_answer(&args.answer)?;
            let resolve = QuestionsResolveParams { id: question.id, action, content };
            client.request::<ZeroQuestionsResolve>(resolve).await?;
        }
        false => {
            let resolve = ApprovalsResolveParams { id: question.id, answer: args.answer.clone() };
            client.request::<ZeroApprovalsResolve>(resolve).await?;
        }
    }
    let Some(run_id) = question.run_id else { return Ok((None, None)) };
    let other = questions
        .into_iter()
        .find(|other| other.run_id.as_ref() == Some(&run_id))
        .map(|other| other.description);
    let form = if args.json { OutputFormat::StreamJson } else { OutputFormat::Text };
    let counter = ElapsedCounter::new(&app.terminal.err);
    let printer = RunPrinter::new(&app.terminal, form, RunDetails::default(), counter);
    let session_key = question.session_key;
    let run = UnattendedRun { app, session_key, run_id, printer, early: VecDeque::new() };
    Ok((Some(run), other))
}

/// The action and the values of an answer to a form.
fn parse_form_answer(written: &str) -> Result<(String, Map<String, Value>), UsageError> {
    if written == "decline" {
        return Ok((written.to_owned(), Map::new()));
    }
    match serde_json::from_str(written) {
        Ok(Value::Object(content)) => Ok(("accept".to_owned(), content)),
        _ => Err(UsageError(
            "the answer to a form is a JSON object, such as '{\"answer\": \"a\"}', or `decline`; `zero questions list --json` shows the fields"
                .to_owned(),
        )),
    }
}
