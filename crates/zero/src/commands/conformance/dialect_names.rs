//! Runs the example of every tool under each of its names, in every dialect.

use serde_json::json;
use zero_core::{ErrorType, ToolError};
use zero_runtime::DialectName;
use zero_runtime::dialect::DialectTool;
use zero_runtime::tool_host::new_call_id;
use zero_tools::examples::{self, ExampleRequirement};

use super::code_samples::{self, RespondingServer, ServerProbe};
use super::{ConformanceVerdict, NEEDS_SERVER_DETAIL, ToolConformanceCheck, expect_error};
use crate::AppContext;
use crate::terminal::ElapsedCounter;
use crate::trial_host::{DialectCall, TrialHost};

/// Checks every name of every dialect.
pub(super) async fn check_all_names(
    app: &AppContext,
    counter: &ElapsedCounter,
) -> anyhow::Result<Vec<ToolConformanceCheck>> {
    let trial = TrialHost::new(app, examples::FILES, TrialHost::example_pages()).await?;
    let probe = code_samples::probe_servers(app, &trial).await;
    let mut checks = Vec::new();
    for dialect in DialectName::ALL {
        counter.start(&format!("checking the names of {dialect}"));
        for tool in app.tools_in_dialect(trial.host().registry(), dialect) {
            checks.push(check_name(&trial, dialect, &tool, &probe).await);
        }
    }
    Ok(checks)
}

async fn check_name(
    trial: &TrialHost,
    dialect: DialectName,
    tool: &DialectTool,
    probe: &ServerProbe,
) -> ToolConformanceCheck {
    let named = DialectCall { dialect, name: &tool.name };
    let canonical = tool.registered.tool.spec().name.to_string();
    let of_server = examples::find_example(&canonical)
        .is_some_and(|example| example.needs == Some(ExampleRequirement::LanguageServer));
    let (result, detail) = match probe {
        ServerProbe::NoServer(_) if of_server => {
            (ConformanceVerdict::Needs, Some(NEEDS_SERVER_DETAIL.to_owned()))
        }
        ServerProbe::Failed(why) if of_server => (ConformanceVerdict::Fail, Some(why.clone())),
        _ => {
            let answering = match probe {
                ServerProbe::Found(answering) if of_server => Some(*answering),
                _ => None,
            };
            match check_call(trial, named, &canonical, answering).await {
                Ok(()) => (ConformanceVerdict::Pass, None),
                Err(why) => (ConformanceVerdict::Fail, Some(why)),
            }
        }
    };
    let check = format!("{dialect}: {}", tool.name);
    ToolConformanceCheck { tool: canonical, level: None, check, result, detail }
}

/// Whether the example runs under this name, and invalid input is rejected.
async fn check_call(
    trial: &TrialHost,
    named: DialectCall<'_>,
    canonical: &str,
    answering: Option<RespondingServer>,
) -> Result<(), String> {
    let message = |error: ToolError| error.message;
    let example = examples::find_example(canonical).ok_or("it has no example")?;
    let input = example.input_for(named.dialect, named.name).ok_or("it has no example")?;
    let mut input = trial.prepare_input(input).map_err(message)?;
    if let Some(answering) = answering {
        input = answering.adapt_input(trial, input).map_err(message)?;
    }
    let outcome = trial.run_example(example, named, input, new_call_id()).await.map_err(message)?;
    if outcome.rendered.content.is_empty() {
        return Err("its result is empty".to_owned());
    }
    let refused = trial.call(named, json!({"no_such_parameter": 1})).await;
    expect_error(refused, named.name, ErrorType::InvalidInput)
}
