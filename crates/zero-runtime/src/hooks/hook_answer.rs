//! Parses the answer of a hook: its exit code, and JSON on its standard output.
//!
//! Parsing is strict: an answer with anything unknown in it is a failure of the hook.

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use zero_core::sanitize::{to_line, to_quoted_line};
use zero_core::text_shortening::head_chars;

/// The exit code that denies a call, or adds a remark, with the standard error as its text.
const DENY_EXIT_CODE: i32 = 2;

/// The exit code and output of a hook that ended by itself.
#[derive(Debug)]
pub(super) struct HookOutput {
    pub(super) exit_code: i32,
    pub(super) stdout: Vec<u8>,
    /// Its standard error, as plain text.
    pub(super) stderr: String,
}

/// The answer of a hook before a call.
#[derive(Debug, PartialEq)]
pub(super) struct PreHookOutcome {
    pub(super) ruling: HookRuling,
    /// The new input, if the hook rewrote it.
    pub(super) input: Option<Value>,
}

/// The hook's ruling on the call, with its reason.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum HookRuling {
    /// No ruling.
    Nothing,
    Ask(String),
    Deny(String),
}

impl HookRuling {
    pub(super) fn reason(&self) -> Option<&str> {
        match self {
            Self::Nothing => None,
            Self::Ask(reason) | Self::Deny(reason) => Some(reason),
        }
    }
}

impl PreHookOutcome {
    /// Stable word for audit rows.
    pub(super) fn audit_label(&self) -> &'static str {
        match (&self.ruling, &self.input) {
            (HookRuling::Deny(_), _) => "deny",
            (HookRuling::Ask(_), _) => "ask",
            (HookRuling::Nothing, Some(_)) => "rewrite",
            (HookRuling::Nothing, None) => "nothing",
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PreHookAnswer {
    decision: Option<HookDecision>,
    reason: Option<String>,
    input: Option<Map<String, Value>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum HookDecision {
    /// Has no effect: a hook cannot allow.
    Allow,
    Ask,
    Deny,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PostHookAnswer {
    context: Option<String>,
}

/// Parses the answer of a hook before a call; the error says why the hook failed.
pub(super) fn parse_pre_answer(words: &HookOutput) -> Result<PreHookOutcome, String> {
    let example = r#"{"decision": "deny", "reason": "…"}"#;
    let answer: Option<PreHookAnswer> = match words.exit_code {
        DENY_EXIT_CODE => {
            let ruling = HookRuling::Deny(reason_or_default(words.stderr.trim()));
            return Ok(PreHookOutcome { ruling, input: None });
        }
        _ => parse_json_answer(words, example)?,
    };
    let Some(PreHookAnswer { decision, reason: why, input }) = answer else {
        return Ok(PreHookOutcome { ruling: HookRuling::Nothing, input: None });
    };
    let why = reason_or_default(why.unwrap_or_default().trim());
    let ruling = match decision {
        Some(HookDecision::Deny) => {
            return Ok(PreHookOutcome { ruling: HookRuling::Deny(why), input: None });
        }
        Some(HookDecision::Ask) => HookRuling::Ask(why),
        Some(HookDecision::Allow) | None => HookRuling::Nothing,
    };
    Ok(PreHookOutcome { ruling, input: input.map(Value::Object) })
}

/// Parses the remark of a hook after a call, if any; the error says why the hook failed.
pub(super) fn parse_post_answer(words: &HookOutput) -> Result<Option<String>, String> {
    let context = match words.exit_code {
        DENY_EXIT_CODE => Some(words.stderr.clone()),
        _ => parse_json_answer::<PostHookAnswer>(words, r#"{"context": "…"}"#)?
            .and_then(|answer| answer.context),
    };
    Ok(context.filter(|context| !context.trim().is_empty()))
}

fn reason_or_default(text: &str) -> String {
    if text.is_empty() { "no reason given".to_owned() } else { text.to_owned() }
}

/// The JSON of a hook that succeeded; `None` if it printed nothing.
fn parse_json_answer<T: DeserializeOwned>(
    words: &HookOutput,
    example: &str,
) -> Result<Option<T>, String> {
    if words.exit_code != 0 {
        return Err(format!(
            "it ended with exit code {}{}",
            words.exit_code,
            format_stderr(&words.stderr)
        ));
    }
    if words.stdout.trim_ascii().is_empty() {
        return Ok(None);
    }
    serde_json::from_slice(&words.stdout).map(Some).map_err(|error| {
        let printed = String::from_utf8_lossy(&words.stdout);
        format!(
            "its output {} is not a valid answer: {}; print nothing or JSON such as `{example}`, and write messages to stderr",
            to_quoted_line(head_chars(&printed, 80)),
            to_line(&error.to_string())
        )
    })
}

/// The standard error, as part of a message.
pub(super) fn format_stderr(stderr: &str) -> String {
    match stderr.trim() {
        "" => String::new(),
        stderr => format!(" and printed {}", to_quoted_line(stderr)),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn hook_output(exit_code: i32, stdout: &str, stderr: &str) -> HookOutput {
        HookOutput { exit_code, stdout: stdout.into(), stderr: stderr.to_owned() }
    }

    #[track_caller]
    fn check(exit_code: i32, stdout: &str, stderr: &str, expected: Result<PreHookOutcome, &str>) {
        match (parse_pre_answer(&hook_output(exit_code, stdout, stderr)), expected) {
            (Err(found), Err(part)) => assert!(found.contains(part), "{stdout}: {found}"),
            (found, expected) => assert_eq!(found, expected.map_err(str::to_owned), "{stdout}"),
        }
    }

    fn ruling_outcome(ruling: HookRuling) -> Result<PreHookOutcome, &'static str> {
        Ok(PreHookOutcome { ruling, input: None })
    }

    #[test]
    fn pre_hook_answer_is_exit_code_or_json() {
        let text = str::to_owned;
        check(0, "", "chatter", ruling_outcome(HookRuling::Nothing));
        check(0, " \n", "", ruling_outcome(HookRuling::Nothing));
        check(0, "{}", "", ruling_outcome(HookRuling::Nothing));
        check(2, "ignored", " not here\n", ruling_outcome(HookRuling::Deny(text("not here"))));
        check(
            2,
            r#"{"decision": "allow"}"#,
            "",
            ruling_outcome(HookRuling::Deny(text("no reason given"))),
        );
        let deny = r#"{"decision": "deny", "reason": "no", "input": {"a": 1}}"#;
        check(0, deny, "", ruling_outcome(HookRuling::Deny(text("no"))));
        check(
            0,
            r#"{"decision": "ask"}"#,
            "",
            ruling_outcome(HookRuling::Ask(text("no reason given"))),
        );
        check(
            0,
            r#"{"decision": "allow", "reason": "fine"}"#,
            "",
            ruling_outcome(HookRuling::Nothing),
        );
        let input = Some(json!({"a": 1}));
        let rewritten = Ok(PreHookOutcome { ruling: HookRuling::Nothing, input });
        check(0, r#"{"decision": "allow", "input": {"a": 1}}"#, "", rewritten);
        check(0, r#"{"input": null}"#, "", ruling_outcome(HookRuling::Nothing));
    }

    #[test]
    fn unparsable_answer_is_a_failure() {
        check(1, "", "boom", Err("exit code 1 and printed `boom`"));
        check(127, "{}", "", Err("exit code 127"));
        for nonsense in [
            "ok",
            "[]",
            "{} {}",
            "{",
            "nan",
            r#"{"decision": "yes"}"#,
            r#"{"decision": "Deny"}"#,
            r#"{"decision": "deny", "decision": "allow"}"#,
            r#"{"hookSpecificOutput": {"permissionDecision": "deny"}}"#,
            r#"{"input": "rm"}"#,
            r#"{"reason": 3}"#,
        ] {
            check(0, nonsense, "", Err("is not a valid answer"));
        }
        let error = parse_pre_answer(&hook_output(0, "\u{1b}[2J\nok", "")).unwrap_err();
        assert!(error.starts_with("its output `[2J ok`"), "{error}");
    }

    #[test]
    fn post_hook_remark_is_exit_code_or_json() {
        let remark = |exit_code, stdout: &str| {
            parse_post_answer(&hook_output(exit_code, stdout, "2 warnings\n"))
        };
        assert_eq!(remark(0, ""), Ok(None));
        assert_eq!(remark(0, r#"{"context": " "}"#), Ok(None));
        assert_eq!(remark(0, r#"{"context": "formatted"}"#), Ok(Some("formatted".to_owned())));
        assert_eq!(remark(2, "x"), Ok(Some("2 warnings\n".to_owned())));
        assert!(remark(1, "").unwrap_err().contains("exit code 1"));
        assert!(
            remark(0, r#"{"decision": "deny"}"#).unwrap_err().contains("is not a valid answer")
        );
    }
}
