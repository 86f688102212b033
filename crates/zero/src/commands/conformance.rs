//! `zero tools conformance`: checks this build against the tool specification.
//!
//! Each tool is called through the complete path, in a temporary workspace. The cases are data in
//! [`spec_cases`]; this file runs them. A local server replaces the web, so the check needs no network.
//! LSP uses any installed language server; without one, its check is reported as not run.

mod code_samples;
mod dialect_names;
mod spec_cases;
mod value_shape;

use serde::Serialize;
use serde_json::{Value, json};
use zero_core::{ErrorType, ToolError};
use zero_runtime::CallOutcome;

use self::code_samples::ServerProbe;
use self::spec_cases::{ExampleNeeds, FILES, PAGES, SpecExample, ToolCase};
use crate::AppContext;
use crate::cli::ToolsConformanceArgs;
use crate::exit::ExitOutcome;
use crate::host_setup::small_runtime;
use crate::terminal::{BAD, ElapsedCounter, GOOD, NOTABLE, TableCell, TerminalStream, TextTable};
use crate::trial_host::{DialectCall, TrialHost, TrialPage};

/// Detail of the LSP check if no language server is installed.
const NEEDS_SERVER_DETAIL: &str = "needs a language server: install one that `zero doctor` lists";

pub(super) fn run(app: &AppContext, args: &ToolsConformanceArgs) -> anyhow::Result<ExitOutcome> {
    let counter = ElapsedCounter::new(&app.terminal.err);
    let runtime = small_runtime()?;
    let checked = runtime.block_on(check_all(app, args, &counter));
    runtime.shutdown_background();
    counter.stop();
    let checks = checked?;
    let failed = |check: &ToolConformanceCheck| {
        matches!(check.result, ConformanceVerdict::Fail | ConformanceVerdict::Missing)
    };
    let passed = !checks.iter().any(failed);
    let out = &app.terminal.out;
    if args.json {
        let needs: Vec<&ToolConformanceCheck> =
            checks.iter().filter(|check| check.result == ConformanceVerdict::Needs).collect();
        let report = json!({"level": args.level, "ok": passed, "needs": needs, "checks": checks});
        out.write_pretty_json(&report)?;
    } else {
        out.write(&render_table(&checks, out))?;
        out.write(&render_summary(args, &checks))?;
    }
    Ok(if passed { ExitOutcome::Ok } else { ExitOutcome::Error })
}

/// One line of the table.
#[derive(Debug, Serialize)]
struct ToolConformanceCheck {
    tool: String,
    /// Lowest level that requires the check; `None` for dialect names.
    #[serde(skip_serializing_if = "Option::is_none")]
    level: Option<u8>,
    check: String,
    result: ConformanceVerdict,
    #[serde(skip_serializing_if = "Option::is_none")]
    detail: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum ConformanceVerdict {
    Pass,
    Fail,
    /// The build does not have the tool.
    Missing,
    /// Not run, because an external program is not installed.
    Needs,
}

async fn check_all(
    app: &AppContext,
    args: &ToolsConformanceArgs,
    counter: &ElapsedCounter,
) -> anyhow::Result<Vec<ToolConformanceCheck>> {
    let page = |(path, content_type, body): &(&str, &'static str, &str)| TrialPage {
        path: (*path).to_owned(),
        content_type,
        body: (*body).to_owned(),
    };
    // Rules that allow the web also apply to commands, which the specification does not require.
    let inside = ConformanceRunner { app, trial: TrialHost::new(app, FILES, Vec::new()).await? };
    let pages = PAGES.iter().map(page).collect();
    let outside = ConformanceRunner { app, trial: TrialHost::new(app, FILES, pages).await? };
    let mut checks = Vec::new();
    for case in spec_cases::load_cases()?.iter().filter(|case| case.level <= args.level) {
        counter.start(&format!("checking {}", case.tool));
        let runner = match case.needs {
            ExampleNeeds::Nothing | ExampleNeeds::LanguageServer => &inside,
            ExampleNeeds::Web => &outside,
        };
        checks.extend(runner.check_tool(case).await);
    }
    if args.dialects {
        checks.extend(dialect_names::check_all_names(app, counter).await?);
    }
    Ok(checks)
}

/// Runs the cases of the specification.
struct ConformanceRunner<'a> {
    app: &'a AppContext,
    trial: TrialHost,
}

impl ConformanceRunner<'_> {
    /// All checks of one tool.
    async fn check_tool(&self, case: &ToolCase) -> Vec<ToolConformanceCheck> {
        let registry = self.trial.host().registry();
        let Some(registered) = registry.get(&case.tool) else {
            let detail = registry.missing_advice(&case.tool).unwrap_or("not in this build");
            let check = "registered".to_owned();
            return vec![ToolConformanceCheck {
                tool: case.tool.clone(),
                level: Some(case.level),
                check,
                result: ConformanceVerdict::Missing,
                detail: Some(detail.to_owned()),
            }];
        };
        let mut checks = ToolChecks { case, done: Vec::new() };
        checks.add("registered", Ok(()));
        checks.add(
            "parameters",
            value_shape::check_parameters(case, &registered.tool.spec().input_schema),
        );
        checks.add("required parameters", self.check_missing_parameters(case).await);
        match case.needs {
            ExampleNeeds::Nothing | ExampleNeeds::Web => {
                for (number, example) in case.examples.iter().enumerate() {
                    let (runs, fields) = self.check_example(case, example).await;
                    checks.add(format!("example {} runs", number + 1), runs);
                    checks.add(format!("example {} result", number + 1), fields);
                }
            }
            ExampleNeeds::LanguageServer => checks.done.push(self.check_code_query(case).await),
        }
        checks.add("wrong input", self.check_unknown_parameters(case).await);
        if let Some(input) = &case.missing_file {
            let outcome = self.call_with_spec_input(&case.tool, input).await;
            checks.add("missing file", expect_error(outcome, &case.tool, ErrorType::NotFound));
        }
        checks.done
    }

    /// Whether an example runs, and whether its result matches the specification.
    async fn check_example(
        &self,
        case: &ToolCase,
        example: &SpecExample,
    ) -> (Result<(), String>, Result<(), String>) {
        let outcome = match self.call_with_spec_input(&case.tool, &example.input).await {
            Ok(outcome) => outcome,
            Err(error) => return (Err(error.message), Err("there is no result".to_owned())),
        };
        let structured = &outcome.result.structured;
        let fields = case
            .result
            .as_ref()
            .map_or(Ok(()), |fields| value_shape::check_exact_fields(fields, structured));
        (Ok(()), fields.and_then(|()| value_shape::check_contains(&example.result, structured)))
    }

    /// Whether each required parameter is enforced: without it, the first example must be rejected.
    async fn check_missing_parameters(&self, case: &ToolCase) -> Result<(), String> {
        let Some(example) = case.examples.first() else { return Ok(()) };
        for parameter in case.parameters().filter(|parameter| parameter.is_required) {
            let mut input = self.prepare_input(&example.input).map_err(|error| error.message)?;
            if let Some(input) = input.as_object_mut() {
                input.shift_remove(parameter.name);
            }
            let outcome = self.call_with(&case.tool, input).await;
            expect_error(outcome, &case.tool, ErrorType::InvalidInput)
                .map_err(|why| format!("without `{}`: {why}", parameter.name))?;
        }
        Ok(())
    }

    /// Whether a wrong type and an unknown field are rejected with the specified error.
    async fn check_unknown_parameters(&self, case: &ToolCase) -> Result<(), String> {
        let mut nonsense = vec![json!({"no_such_parameter": 1})];
        nonsense.extend(
            case.parameters().next().map(|parameter| json!({parameter.name: {"wrong": "type"}})),
        );
        for input in nonsense {
            let outcome = self.call_with(&case.tool, input).await;
            expect_error(outcome, &case.tool, ErrorType::InvalidInput)?;
        }
        Ok(())
    }

    /// Whether an installed language server finds a definition.
    async fn check_code_query(&self, case: &ToolCase) -> ToolConformanceCheck {
        let (result, check, detail) = match code_samples::probe_servers(self.app, &self.trial).await
        {
            ServerProbe::Found(by) => {
                (ConformanceVerdict::Pass, format!("`{}` answers", by.server()), None)
            }
            ServerProbe::Failed(why) => {
                (ConformanceVerdict::Fail, "a server answers".to_owned(), Some(why))
            }
            ServerProbe::NoServer(found) => {
                let found = found.iter().map(|why| format!("; {why}")).collect::<String>();
                let detail = format!("{NEEDS_SERVER_DETAIL}{found}");
                (ConformanceVerdict::Needs, "a server answers".to_owned(), Some(detail))
            }
        };
        ToolConformanceCheck {
            tool: case.tool.clone(),
            level: Some(case.level),
            check,
            result,
            detail,
        }
    }

    async fn call_with_spec_input(
        &self,
        tool: &str,
        input: &Value,
    ) -> Result<CallOutcome, ToolError> {
        let input = self.prepare_input(input)?;
        self.call_with(tool, input).await
    }

    async fn call_with(&self, tool: &str, input: Value) -> Result<CallOutcome, ToolError> {
        self.trial.call(DialectCall::canonical(tool), input).await
    }

    /// Restores the workspace and fills the placeholders of an input of the specification.
    fn prepare_input(&self, input: &Value) -> Result<Value, ToolError> {
        let input = self.trial.prepare_input(&input.to_string())?;
        self.trial.remove_file("path/to/new-file.go");
        Ok(input)
    }
}

/// Checks that a call failed with the specified error.
fn expect_error(
    outcome: Result<CallOutcome, ToolError>,
    tool: &str,
    expected: ErrorType,
) -> Result<(), String> {
    let error = match outcome {
        Ok(_) => return Err(format!("succeeded instead of failing with `{}`", expected.as_str())),
        Err(error) => error,
    };
    if error.error_type != expected {
        return Err(format!(
            "`{}` instead of `{}`: {}",
            error.error_type.as_str(),
            expected.as_str(),
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
        return Err(format!("the error does not have the specified form: {value}"));
    }
    Ok(())
}

/// Collects the checks of one tool.
struct ToolChecks<'a> {
    case: &'a ToolCase,
    done: Vec<ToolConformanceCheck>,
}

impl ToolChecks<'_> {
    fn add(&mut self, check: impl Into<String>, outcome: Result<(), String>) {
        let result =
            if outcome.is_ok() { ConformanceVerdict::Pass } else { ConformanceVerdict::Fail };
        let (tool, level) = (self.case.tool.clone(), Some(self.case.level));
        self.done.push(ToolConformanceCheck {
            tool,
            level,
            check: check.into(),
            result,
            detail: outcome.err(),
        });
    }
}

fn render_table(checks: &[ToolConformanceCheck], out: &TerminalStream) -> String {
    let mut table = TextTable::new(["TOOL", "LEVEL", "CHECK", "RESULT", "DETAIL"]);
    for check in checks {
        let (word, style) = match check.result {
            ConformanceVerdict::Pass => ("pass", GOOD),
            ConformanceVerdict::Fail => ("FAIL", BAD),
            ConformanceVerdict::Missing => ("missing", NOTABLE),
            ConformanceVerdict::Needs => ("needs", NOTABLE),
        };
        table.add_row([
            (&check.tool).into(),
            check.level.map(|level| level.to_string()).unwrap_or_default().into(),
            (&check.check).into(),
            TableCell::styled(word, style),
            check.detail.as_deref().unwrap_or_default().into(),
        ]);
    }
    table.render(out)
}

/// One line per level with the tools that conform and those that do not; then the dialect names.
fn render_summary(args: &ToolsConformanceArgs, checks: &[ToolConformanceCheck]) -> String {
    let mut text = String::from("\n");
    for level in 1..=args.level {
        let of_level = checks.iter().filter(|check| check.level.is_some_and(|of| of <= level));
        text.push_str(&format!(
            "level {level}: {}\n",
            render_verdict(of_level, "conforms", |check| &check.tool)
        ));
    }
    if args.dialects {
        let names = checks.iter().filter(|check| check.level.is_none());
        text.push_str(&format!(
            "dialects: {}\n",
            render_verdict(names, "every name works", |check| &check.check)
        ));
    }
    text
}

/// Summary of some checks in one line; failed ones are named.
fn render_verdict<'a>(
    checks: impl Iterator<Item = &'a ToolConformanceCheck> + Clone,
    well: &str,
    name: impl Fn(&'a ToolConformanceCheck) -> &'a str,
) -> String {
    let named = |verdict| {
        let mut names: Vec<&str> =
            checks.clone().filter(|check| check.result == verdict).map(&name).collect();
        names.dedup();
        names.join(", ")
    };
    let parts = [
        ("failing ", named(ConformanceVerdict::Fail)),
        ("missing ", named(ConformanceVerdict::Missing)),
    ];
    let parts = parts.into_iter().filter(|(_, names)| !names.is_empty());
    let mut parts: Vec<String> = parts.map(|(word, names)| format!("{word}{names}")).collect();
    if parts.is_empty() {
        parts.push(well.to_owned());
    }
    let untried = named(ConformanceVerdict::Needs);
    if !untried.is_empty() {
        parts.push(format!("not run, because no language server is installed: {untried}"));
    }
    parts.join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spec_cases_are_well_formed() {
        for case in spec_cases::load_cases().unwrap() {
            for example in &case.examples {
                for parameter in case.parameters().filter(|parameter| parameter.is_required) {
                    let name = parameter.name;
                    assert!(example.input.get(name).is_some(), "{} {name}", case.tool);
                }
                for name in example.result.keys() {
                    assert!(case.result.as_ref().unwrap().contains_key(name), "{name}");
                }
            }
        }
    }
}
