//! The end of a run, as the response to its prompt.

use agent_client_protocol::v1::schema::{Meta, PromptResponse, StopReason, Usage};
use agent_client_protocol::{Error, ErrorCode};
use serde_json::{Value, json};
use zero_client::GatewayLocality;
use zero_core::event::{RunOutcome, TokenUsage};

use crate::text_sanitizer::visible_line;

/// Longest error message, in characters.
const MESSAGE_CHARS_MAX: usize = 500;

/// The response to the prompt of a run. The gateway's state is in `_meta.zero.state`: `complete`,
/// `aborted` or `error`. A missing or rejected key is an authentication error if the model is
/// called from here; the user cannot supply the key of a remote gateway. `usage` is that of the run;
/// a run that asked no model has none.
pub(crate) fn build_response(
    end: &RunOutcome,
    usage: TokenUsage,
    run: &str,
    locality: GatewayLocality,
) -> Result<PromptResponse, Error> {
    let response = outcome_response(end, run, locality)?;
    Ok(response.usage(turn_usage(usage)))
}

fn turn_usage(usage: TokenUsage) -> Option<Usage> {
    let TokenUsage { input_tokens, output_tokens, cache_read_tokens, cache_write_tokens, .. } =
        usage;
    let total = input_tokens.saturating_add(output_tokens);
    let known = |tokens: u64| (tokens > 0).then_some(tokens);
    (total > 0).then(|| {
        Usage::new(total, input_tokens, output_tokens)
            .cached_read_tokens(known(cache_read_tokens))
            .cached_write_tokens(known(cache_write_tokens))
    })
}

fn outcome_response(
    end: &RunOutcome,
    run: &str,
    locality: GatewayLocality,
) -> Result<PromptResponse, Error> {
    match end {
        RunOutcome::Completed => Ok(stop_response(StopReason::EndTurn, "complete", run, None)),
        RunOutcome::MaxTokens => {
            let message = end.describe_limit();
            Ok(stop_response(StopReason::MaxTokens, "complete", run, message.as_deref()))
        }
        RunOutcome::MaxTurns { .. } | RunOutcome::Budget { .. } => {
            let message = end.describe_limit();
            Ok(stop_response(StopReason::MaxTurnRequests, "complete", run, message.as_deref()))
        }
        RunOutcome::Refused { message } => {
            Ok(stop_response(StopReason::Refusal, "error", run, Some(message)))
        }
        RunOutcome::Aborted { by } => {
            let message = format!("stopped by {by}");
            Ok(stop_response(StopReason::Cancelled, "aborted", run, Some(&message)))
        }
        RunOutcome::Failed { kind, message } if kind == "context_length" => {
            Ok(stop_response(StopReason::MaxTokens, "error", run, Some(message)))
        }
        RunOutcome::Failed { kind, message }
            if kind == "auth" && locality == GatewayLocality::InProcess =>
        {
            let mut error = failure_error(kind, message, run);
            error.code = ErrorCode::AUTH_REQUIRED;
            Err(error)
        }
        RunOutcome::Failed { kind, message } => Err(failure_error(kind, message, run)),
        RunOutcome::Interrupted => Err(failure_error(
            "interrupted",
            "zero was stopped during this run; review its changes before you continue",
            run,
        )),
    }
}

/// The error response to a prompt that failed.
fn failure_error(kind: &str, message: &str, run: &str) -> Error {
    let retryable = matches!(kind, "rate_limit" | "network" | "timeout" | "server");
    Error::new(ErrorCode::INTERNAL_ERROR, visible_line(message, MESSAGE_CHARS_MAX)).data(json!({
        "kind": kind,
        "retryable": retryable,
        "advice": failure_advice(kind),
        "runId": run,
        "state": "error",
    }))
}

/// What to do about a run that failed in this way.
fn failure_advice(kind: &str) -> &'static str {
    match kind {
        "rate_limit" => "wait a minute, then send the prompt again",
        "network" | "timeout" | "server" => {
            "check the connection to the model, then send the prompt again"
        }
        "auth" => "give the model's key: `zero acp --login`, or `zero config set-key`",
        "interrupted" => "review the changes of the run before you continue",
        _ => "read the message, change what it names, and send the prompt again",
    }
}

fn stop_response(
    reason: StopReason,
    state: &str,
    run: &str,
    message: Option<&str>,
) -> PromptResponse {
    let mut zero = json!({ "state": state, "runId": run });
    if let (Some(message), Some(zero)) = (message, zero.as_object_mut()) {
        let message = visible_line(message, MESSAGE_CHARS_MAX);
        zero.insert("message".to_owned(), Value::String(message));
    }
    let mut meta = Meta::new();
    meta.insert("zero".to_owned(), zero);
    PromptResponse::new(reason).meta(meta)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(end: RunOutcome, expected: Value) {
        check_at(GatewayLocality::Remote, end, expected);
    }

    #[track_caller]
    fn check_at(locality: GatewayLocality, end: RunOutcome, expected: Value) {
        let response = match build_response(&end, TokenUsage::default(), "r1", locality) {
            Ok(response) => serde_json::to_value(response),
            Err(error) => serde_json::to_value(error),
        };
        assert_eq!(response.unwrap(), expected, "{end:?}");
    }

    #[test]
    fn response_has_the_usage_of_its_turn() {
        let usage = TokenUsage {
            input_tokens: 12,
            output_tokens: 3,
            cache_read_tokens: 10,
            ..TokenUsage::default()
        };
        let response =
            build_response(&RunOutcome::Completed, usage, "r1", GatewayLocality::Remote).unwrap();
        assert_eq!(
            serde_json::to_value(response).unwrap()["usage"],
            json!({"totalTokens": 15, "inputTokens": 12, "outputTokens": 3, "cachedReadTokens": 10})
        );
    }

    #[test]
    fn every_run_end_maps_to_one_response() {
        let stop = |reason: &str, state: &str, message: Option<&str>| {
            let mut zero = json!({"state": state, "runId": "r1"});
            if let Some(message) = message {
                zero["message"] = json!(message);
            }
            json!({"stopReason": reason, "_meta": {"zero": zero}})
        };
        let failed = |kind: &str, message: &str| RunOutcome::Failed {
            kind: kind.to_owned(),
            message: message.to_owned(),
        };
        let error = |kind: &str, retryable: bool, message: &str| {
            json!({"code": -32603, "message": message,
                   "data": {"kind": kind, "retryable": retryable, "advice": failure_advice(kind),
                            "runId": "r1", "state": "error"}})
        };
        check(RunOutcome::Completed, stop("end_turn", "complete", None));
        let cut = "the model's output limit is reached, and the reply is cut off; to go on, send \"continue\"";
        check(RunOutcome::MaxTokens, stop("max_tokens", "complete", Some(cut)));
        let used_up = "the budget of the run is used up";
        check(
            RunOutcome::Budget { message: used_up.to_owned() },
            stop("max_turn_requests", "complete", Some(used_up)),
        );
        let often = "the run reached its limit of 7 model requests; to go on, send \"continue\", or raise `maxTurns` of the agent";
        check(
            RunOutcome::MaxTurns { turns: 7 },
            stop("max_turn_requests", "complete", Some(often)),
        );
        let refused = RunOutcome::Refused { message: "no\nway".to_owned() };
        check(refused, stop("refusal", "error", Some("no way")));
        let aborted = RunOutcome::Aborted { by: "rpc".to_owned() };
        check(aborted, stop("cancelled", "aborted", Some("stopped by rpc")));
        check(failed("context_length", "long"), stop("max_tokens", "error", Some("long")));
        check(failed("auth", "the key\nis wrong"), error("auth", false, "the key is wrong"));
        let mut required = error("auth", false, "no key; set one");
        required["code"] = json!(-32000);
        check_at(GatewayLocality::InProcess, failed("auth", "no key; set one"), required);
        check_at(GatewayLocality::InProcess, failed("server", "x"), error("server", true, "x"));
        for passing in ["rate_limit", "network", "timeout", "server"] {
            check(failed(passing, "x"), error(passing, true, "x"));
        }
        check(
            RunOutcome::Interrupted,
            error(
                "interrupted",
                false,
                "zero was stopped during this run; review its changes before you continue",
            ),
        );
    }
}
