//! Checks the values of limits and budgets that match the schema.

use serde::Deserialize;
use serde_json::Value;
use zero_core::host_limits::InvalidLimitError;
use zero_core::schema_violation::join_pointer;
use zero_core::{Budget, HostLimitChange, HostLimits};

use crate::limit_range;
use crate::limit_setting::LimitSetting;
use crate::notify;

/// Limits that match the schema but have an invalid value, by JSON pointer.
pub(crate) fn find_wrong_limits(value: &Value) -> Vec<(String, String)> {
    let in_object = |pointer: String, tool: &str| {
        let limits = value.pointer(&pointer).and_then(Value::as_object).into_iter().flatten();
        let wrong = limits.filter_map(|(name, limit)| {
            Some((join_pointer(&pointer, name), find_wrong_limit(&format!("{tool}{name}"), limit)?))
        });
        wrong.collect::<Vec<_>>()
    };
    let of_tools = HostLimits::COMMAND_TOOLS
        .iter()
        .flat_map(|tool| in_object(join_pointer("/limits", tool), &format!("{tool}.")));
    in_object("/limits".to_owned(), "").into_iter().chain(of_tools).collect()
}

/// Budgets that match the schema but limit nothing or have an invalid value, by JSON pointer.
pub(crate) fn find_wrong_budgets(value: &Value) -> Vec<(String, String)> {
    let budgets = value.pointer("/budgets").and_then(Value::as_object).into_iter().flatten();
    let wrong = budgets.filter_map(|(name, budget)| {
        // The schema check reports what is no budget.
        let parsed = Budget::deserialize(budget).ok()?;
        let why = match parsed.check() {
            Err(why) => why.to_owned(),
            Ok(()) if parsed.is_limited() => return None,
            Ok(()) => "this budget limits nothing; remove it, or write one of `usd`, `tokens`, `requests`, `toolCalls`, `seconds`".to_owned(),
        };
        Some((join_pointer("/budgets", name), why))
    });
    wrong.collect()
}

/// A webhook that matches the schema and must not be called, by JSON pointer.
pub(crate) fn find_wrong_webhook(value: &Value) -> Vec<(String, String)> {
    const POINTER: &str = "/notify/webhook";
    let address = value.pointer(POINTER).and_then(Value::as_str);
    let why = address.and_then(notify::webhook_problem);
    why.map(|why| (POINTER.to_owned(), why.to_owned())).into_iter().collect()
}

/// Programs of the user that match the schema and cannot be one, by JSON pointer.
pub(crate) fn find_wrong_programs(value: &Value) -> Vec<(String, String)> {
    let programs = [
        ("/notify/command", r#"["notify-send", "{title}", "{text}"]"#),
        ("/chat/statusLine", r#"["my-status-line"]"#),
    ];
    let wrong = programs.into_iter().filter_map(|(pointer, example)| {
        let words = value.pointer(pointer).and_then(Value::as_array)?;
        let words: Vec<&str> = words.iter().filter_map(Value::as_str).collect();
        Some((pointer.to_owned(), notify::command_problem(&words, example)?))
    });
    wrong.collect()
}

/// What is wrong with a limit that matches the schema.
fn find_wrong_limit(name: &str, limit: &Value) -> Option<String> {
    let text = match (LimitSetting::deserialize(limit), limit) {
        // The schema check reports it.
        (Ok(LimitSetting::Number(0)), _) => return None,
        (Ok(value), _) => value.to_text(),
        // `4.0`, and numbers outside the supported range.
        (Err(_), Value::Number(number)) => number.to_string(),
        (Err(_), _) => return None,
    };
    match HostLimitChange::parse(name, &text) {
        // The schema check reports it.
        Err(InvalidLimitError::UnknownName { .. }) => None,
        _ => limit_range::parse_limit(name, &text).err(),
    }
}
