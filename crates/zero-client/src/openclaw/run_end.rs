//! Translates the end and the usage of a run into ledger types.

use serde_json::Value;
use zero_core::event::{RunOutcome, TokenUsage};

/// Failure kinds of the ledger.
const FAILURE_KINDS: [&str; 11] = [
    "auth",
    "rate_limit",
    "context_length",
    "network",
    "timeout",
    "server",
    "invalid_request",
    "store",
    "tool_host",
    "session_full",
    "internal",
];
const NO_REASON: &str = "the run failed, and the gateway gave no reason; see its log";

/// The end of a run by its last `chat` event; `None` if the run continues.
pub(crate) fn parse_run_end(chat: &Value) -> Option<RunOutcome> {
    let word = |key: &str| chat.get(key).and_then(Value::as_str).filter(|text| !text.is_empty());
    match word("state")? {
        "final" => Some(match word("stopReason") {
            Some("max_tokens" | "length") => RunOutcome::MaxTokens,
            Some("max_turns") => RunOutcome::MaxTurns { turns: 0 },
            Some("budget") => RunOutcome::Budget {
                message: word("errorMessage").unwrap_or("the budget is used up").to_owned(),
            },
            Some("refusal" | "content_filter") => {
                RunOutcome::Refused { message: "the model declined to answer".to_owned() }
            }
            _ => RunOutcome::Completed,
        }),
        "aborted" => {
            let by = word("stopReason").unwrap_or("rpc");
            Some(RunOutcome::Aborted { by: by.to_owned() })
        }
        "error" => {
            let message = word("errorMessage").unwrap_or(NO_REASON).to_owned();
            Some(match word("errorKind") {
                Some("refusal") => RunOutcome::Refused { message },
                kind => {
                    let detail = chat.get("errorDetail");
                    let finer = detail.and_then(|detail| detail.get("providerErrorType"));
                    let words = [finer.and_then(Value::as_str), kind];
                    failed_run(words.into_iter().flatten(), message)
                }
            })
        }
        _ => None,
    }
}

/// A failed run whose reason is only a text.
pub(crate) fn failed_with_message(message: Option<&str>) -> RunOutcome {
    failed_run([], message.unwrap_or(NO_REASON).to_owned())
}

fn failed_run<'a>(words: impl IntoIterator<Item = &'a str>, message: String) -> RunOutcome {
    let known = words.into_iter().find(|word| FAILURE_KINDS.contains(word));
    RunOutcome::Failed { kind: known.unwrap_or("internal").to_owned(), message }
}

/// Token usage. OpenClaw counts cached tokens separately from the input, not as part of it.
pub(crate) fn parse_usage(usage: &Value) -> TokenUsage {
    let count = |key: &str| usage.get(key).and_then(Value::as_u64).unwrap_or(0);
    let (input, output) = (count("input"), count("output"));
    let (read, written) = (count("cacheRead"), count("cacheWrite"));
    let cached = read.saturating_add(written);
    let total = input.saturating_add(output).saturating_add(cached);
    let is_beside = count("totalTokens") == total;
    let cost = usage.get("cost").and_then(|cost| cost.get("total")).and_then(Value::as_f64);
    TokenUsage {
        input_tokens: if is_beside { input.saturating_add(cached) } else { input },
        output_tokens: output,
        cache_read_tokens: read,
        cache_write_tokens: written,
        cost_usd: cost,
        ..TokenUsage::default()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(chat: Value, expected: Option<RunOutcome>) {
        assert_eq!(parse_run_end(&chat), expected, "{chat}");
    }

    #[test]
    fn each_final_chat_state_maps_to_run_end() {
        check(json!({"state": "delta"}), None);
        check(json!({"state": "status", "phase": "starting_model"}), None);
        check(json!({"state": "final"}), Some(RunOutcome::Completed));
        check(json!({"state": "final", "stopReason": "stop"}), Some(RunOutcome::Completed));
        for cut in ["length", "max_tokens"] {
            check(json!({"state": "final", "stopReason": cut}), Some(RunOutcome::MaxTokens));
        }
        let used_up = json!({"state": "final", "stopReason": "budget", "errorMessage": "all used"});
        check(used_up, Some(RunOutcome::Budget { message: "all used".to_owned() }));
        let by = |by: &str| Some(RunOutcome::Aborted { by: by.to_owned() });
        check(json!({"state": "aborted", "stopReason": "rpc"}), by("rpc"));
        check(json!({"state": "aborted"}), by("rpc"));
        let error = |kind: &str, finer: &str| json!({"state": "error", "errorKind": kind, "errorMessage": "why", "errorDetail": {"providerErrorType": finer}});
        let failed =
            |kind: &str| Some(RunOutcome::Failed { kind: kind.into(), message: "why".into() });
        check(error("refusal", ""), Some(RunOutcome::Refused { message: "why".into() }));
        check(error("context_length", "x"), failed("context_length"));
        check(error("unknown", "auth"), failed("auth"));
        check(error("unknown", "odd"), failed("internal"));
        let bare = json!({"state": "error"});
        check(
            bare,
            Some(RunOutcome::Failed { kind: "internal".into(), message: NO_REASON.into() }),
        );
    }

    #[test]
    fn cached_tokens_are_counted_once() {
        let theirs = json!({"input": 10, "output": 5, "cacheRead": 100, "totalTokens": 115});
        assert_eq!(parse_usage(&theirs).input_tokens, 110);
        let ours = json!({"input": 110, "output": 5, "cacheRead": 100, "totalTokens": 115});
        assert_eq!(parse_usage(&ours).input_tokens, 110);
        assert_eq!(parse_usage(&Value::Null), TokenUsage::default());
    }
}
