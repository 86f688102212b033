//! `zero tools conformance`: does this build do what the tool specification says?
//!
//! Each tool is called for real, through the whole path, in a temporary workspace. What is asked
//! of it stands in [`cases`] as data; this file only runs it.

mod cases;
mod shape;

use std::path::Path;
use std::sync::Arc;

use anyhow::Context;
use serde::Serialize;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;
use zero_core::{ErrorType, ToolCall, ToolError};
use zero_runtime::host::new_call_id;
use zero_runtime::tool::BoxFuture;
use zero_runtime::{
    Dialect, DialectName, Elicitation, ElicitationAnswer, Elicitor, HostConfig, Outcome, Session,
    ToolHost, Wanted,
};
use zero_sandbox::{StateDir, Workspace};

use self::cases::{CASES, Case, FILES};
use crate::App;
use crate::approval::AlwaysYes;
use crate::cli::ConformanceArgs;
use crate::exit::Exit;
use crate::settings::Settings;
use crate::terminal::{BAD, Cell, Counter, GOOD, NOTABLE, Stream, Table};

pub(super) fn run(app: &App, args: &ConformanceArgs) -> anyhow::Result<Exit> {
    let counter = Counter::new(&app.terminal.err);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("could not start the asynchronous runtime")?;
    let checked = runtime.block_on(check_level(app, args.level, &counter));
    runtime.shutdown_background();
    counter.end();
    let checks = checked?;
    let passed = checks.iter().all(|check| check.result == Verdict::Pass);
    let out = &app.terminal.out;
    if args.json {
        out.write_pretty(&json!({"level": args.level, "ok": passed, "checks": checks}))?;
    } else {
        out.write(&table(&checks, out))?;
        out.write(&summary(args.level, &checks))?;
    }
    Ok(if passed { Exit::Ok } else { Exit::Error })
}

/// One line of the table.
#[derive(Debug, Serialize)]
struct Check {
    tool: &'static str,
    level: u8,
    check: String,
    result: Verdict,
    #[serde(skip_serializing_if = "Option::is_none")]
    detail: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Verdict {
    Pass,
    Fail,
    /// The tool is not in this build.
    Missing,
}

async fn check_level(app: &App, level: u8, counter: &Counter) -> anyhow::Result<Vec<Check>> {
    let bench = Bench::new(app)?;
    let mut checks = Vec::new();
    for case in CASES.iter().filter(|case| case.level <= level) {
        counter.begin(&format!("checking {}", case.tool));
        checks.extend(bench.check(case).await);
    }
    Ok(checks)
}

/// A host in a temporary workspace.
struct Bench {
    folder: TempDir,
    host: ToolHost,
    session: Session,
    dialect: Dialect,
}

impl Bench {
    fn new(app: &App) -> anyhow::Result<Self> {
        let folder = tempfile::tempdir().context("could not make a temporary folder")?;
        lay_out(folder.path()).context("could not fill the temporary workspace")?;
        let workspace = Workspace::open(&[workspace_of(folder.path())], None)?;
        let mut config = HostConfig::new(workspace, StateDir::new(folder.path().join("state")));
        config.commands = app.config.commands();
        config.approver = Some(Arc::new(AlwaysYes { name: "conformance" }));
        config.elicitor = Some(Arc::new(FirstOption));
        let host = app.host(config, &Settings::none())?;
        app.add_language_servers(&host, zero_lsp::definition::known());
        let session = host.one_shot()?;
        Ok(Self { folder, host, session, dialect: Dialect::new(DialectName::Canonical) })
    }

    /// All that is asked of one tool.
    async fn check(&self, case: &'static Case) -> Vec<Check> {
        let Some(registered) = self.host.registry().get(case.tool) else {
            let detail = "not in this build".to_owned();
            let check = "registered".to_owned();
            return vec![Check {
                tool: case.tool,
                level: case.level,
                check,
                result: Verdict::Missing,
                detail: Some(detail),
            }];
        };
        let mut checks = Checks { case, done: Vec::new() };
        checks.add("registered", Ok(()));
        checks.add("parameters", shape::parameters(case, &registered.tool.spec().input_schema));
        checks.add("required parameters", self.refuses_without(case).await);
        for (number, example) in case.examples.iter().enumerate() {
            let (runs, fields) = self.example(case, example).await;
            checks.add(format!("example {} runs", number + 1), runs);
            checks.add(format!("example {} result", number + 1), fields);
        }
        checks.add("wrong input", self.refuses_nonsense(case).await);
        if let Some(missing) = case.missing {
            let outcome = self.call(case.tool, missing).await;
            checks.add("missing file", expect_error(outcome, case.tool, ErrorType::NotFound));
        }
        checks.done
    }

    /// Whether an example runs, and whether its result is as specified.
    async fn example(
        &self,
        case: &Case,
        example: &cases::Example,
    ) -> (Result<(), String>, Result<(), String>) {
        let outcome = match self.call(case.tool, example.input).await {
            Ok(outcome) => outcome,
            Err(error) => return (Err(error.message), Err("there is no result".to_owned())),
        };
        let structured = &outcome.result.structured;
        let fields = case.result.map_or(Ok(()), |fields| shape::exactly(fields, structured));
        let fields = fields.and_then(|()| {
            let wanted = serde_json::from_str(example.holds).map_err(|error| error.to_string())?;
            shape::holds(&wanted, structured)
        });
        (Ok(()), fields)
    }

    /// Whether each required parameter is one: without it the first example is refused.
    async fn refuses_without(&self, case: &Case) -> Result<(), String> {
        let Some(example) = case.examples.first() else { return Ok(()) };
        for parameter in case.parameters.iter().filter(|parameter| parameter.required) {
            let mut input = self.input(example.input)?;
            if let Some(input) = input.as_object_mut() {
                input.shift_remove(parameter.name);
            }
            let outcome = self.call_with(case.tool, input).await;
            expect_error(outcome, case.tool, ErrorType::InvalidInput)
                .map_err(|why| format!("without `{}`: {why}", parameter.name))?;
        }
        Ok(())
    }

    /// Whether a wrong type and an unknown field are refused in the agreed form.
    async fn refuses_nonsense(&self, case: &Case) -> Result<(), String> {
        let mut nonsense = vec![json!({"no_such_parameter": 1})];
        nonsense.extend(
            case.parameters.first().map(|parameter| json!({parameter.name: {"wrong": "type"}})),
        );
        for input in nonsense {
            let outcome = self.call_with(case.tool, input).await;
            expect_error(outcome, case.tool, ErrorType::InvalidInput)?;
        }
        Ok(())
    }

    async fn call(&self, tool: &str, input: &str) -> Result<Outcome, ToolError> {
        let input =
            self.input(input).map_err(|why| ToolError::failed(zero_core::Reason::Io, why))?;
        self.call_with(tool, input).await
    }

    async fn call_with(&self, tool: &str, input: Value) -> Result<Outcome, ToolError> {
        let call = ToolCall {
            id: new_call_id(),
            session: None,
            tool: tool.to_owned(),
            input,
            timeout: None,
        };
        self.host.call(&self.session, &self.dialect, call, &CancellationToken::new()).await.outcome
    }

    /// An input of the specification, in a workspace as good as new.
    fn input(&self, text: &str) -> Result<Value, String> {
        lay_out(self.folder.path())
            .map_err(|error| format!("the workspace could not be filled: {error}"))?;
        let root = workspace_of(self.folder.path());
        let mut input = serde_json::from_str(text).map_err(|error| error.to_string())?;
        put_root(&mut input, &root.to_string_lossy());
        Ok(input)
    }
}

/// Stands in for the person that the specification's questions are for: takes what comes first.
struct FirstOption;

impl Elicitor for FirstOption {
    fn elicit<'a>(&'a self, elicitation: &'a Elicitation) -> BoxFuture<'a, ElicitationAnswer> {
        let first = |field: &Value| field.pointer("/oneOf/0/const").cloned();
        let answer = match &elicitation.wanted {
            Wanted::Form(schema) => {
                let fields = schema.get("properties").and_then(Value::as_object);
                let chosen = |(name, field): (&String, &Value)| Some((name.clone(), first(field)?));
                let values = fields.into_iter().flatten().filter_map(chosen).collect();
                ElicitationAnswer::Accept(values)
            }
            Wanted::Visit(_) => ElicitationAnswer::Decline,
        };
        Box::pin(std::future::ready(answer))
    }
}

fn put_root(value: &mut Value, root: &str) {
    match value {
        Value::String(text) => *text = text.replace("{root}", root),
        Value::Array(items) => items.iter_mut().for_each(|item| put_root(item, root)),
        Value::Object(fields) => fields.values_mut().for_each(|field| put_root(field, root)),
        _ => {}
    }
}

fn workspace_of(folder: &Path) -> std::path::PathBuf {
    folder.join("workspace")
}

/// Makes the workspace as the specification's examples expect it, whatever happened there before.
#[expect(
    clippy::disallowed_methods,
    reason = "a temporary folder of our own, before any tool sees it"
)]
fn lay_out(folder: &Path) -> std::io::Result<()> {
    for (path, content) in FILES {
        let path = workspace_of(folder).join(path);
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent)?;
        }
        std::fs::write(path, content)?;
    }
    match std::fs::remove_file(workspace_of(folder).join("path/to/new-file.go")) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Checks that a call failed in the agreed form.
fn expect_error(
    outcome: Result<Outcome, ToolError>,
    tool: &str,
    expected: ErrorType,
) -> Result<(), String> {
    let error = match outcome {
        Ok(_) => return Err(format!("it succeeded instead of `{}`", expected.word())),
        Err(error) => error,
    };
    if error.error_type != expected {
        return Err(format!(
            "`{}` instead of `{}`: {}",
            error.error_type.word(),
            expected.word(),
            error.message
        ));
    }
    let value = serde_json::to_value(&error).map_err(|error| error.to_string())?;
    let names: Vec<&str> = value
        .as_object()
        .into_iter()
        .flat_map(|fields| fields.keys())
        .map(String::as_str)
        .collect();
    if names != ["tool", "error_type", "message", "details"]
        || error.tool != tool
        || error.message.is_empty()
    {
        return Err(format!("the error has not the agreed form: {value}"));
    }
    Ok(())
}

/// Collects the checks of one tool.
struct Checks {
    case: &'static Case,
    done: Vec<Check>,
}

impl Checks {
    fn add(&mut self, check: impl Into<String>, outcome: Result<(), String>) {
        let result = if outcome.is_ok() { Verdict::Pass } else { Verdict::Fail };
        let (tool, level) = (self.case.tool, self.case.level);
        self.done.push(Check { tool, level, check: check.into(), result, detail: outcome.err() });
    }
}

fn table(checks: &[Check], out: &Stream) -> String {
    let mut table = Table::new(["TOOL", "LEVEL", "CHECK", "RESULT", "DETAIL"]);
    for check in checks {
        let (word, style) = match check.result {
            Verdict::Pass => ("pass", GOOD),
            Verdict::Fail => ("FAIL", BAD),
            Verdict::Missing => ("missing", NOTABLE),
        };
        table.row([
            check.tool.into(),
            check.level.to_string().into(),
            (&check.check).into(),
            Cell::styled(word, style),
            check.detail.as_deref().unwrap_or_default().into(),
        ]);
    }
    table.render(out)
}

/// Each level in one line: which of its tools conform, and which do not.
fn summary(highest: u8, checks: &[Check]) -> String {
    let mut text = String::from("\n");
    for level in 1..=highest {
        let tools = CASES.iter().filter(|case| case.level <= level).map(|case| case.tool);
        let fails = |tool: &str, verdict| {
            checks.iter().any(|check| check.tool == tool && check.result == verdict)
        };
        let named = |verdict| {
            tools.clone().filter(|tool| fails(tool, verdict)).collect::<Vec<_>>().join(", ")
        };
        let verdict = match (named(Verdict::Fail), named(Verdict::Missing)) {
            (failing, missing) if failing.is_empty() && missing.is_empty() => "conforms".to_owned(),
            (failing, missing) if failing.is_empty() => format!("missing {missing}"),
            (failing, missing) if missing.is_empty() => format!("failing {failing}"),
            (failing, missing) => format!("failing {failing}; missing {missing}"),
        };
        text.push_str(&format!("level {level}: {verdict}\n"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cases_are_well_formed() {
        for case in CASES {
            for example in case.examples {
                let input: Value = serde_json::from_str(example.input).unwrap();
                let holds: Value = serde_json::from_str(example.holds).unwrap();
                for parameter in case.parameters.iter().filter(|parameter| parameter.required) {
                    assert!(
                        input.get(parameter.name).is_some(),
                        "{} {}",
                        case.tool,
                        parameter.name
                    );
                }
                for name in holds.as_object().unwrap().keys() {
                    assert!(
                        case.result.unwrap().iter().any(|field| field.name == name),
                        "{} {name}",
                        case.tool
                    );
                }
            }
            case.missing.map(|input| serde_json::from_str::<Value>(input).unwrap());
        }
    }
}
