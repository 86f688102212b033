//! Budgets, and what `zero usage` says was spent.

use serde_json::{Value, json};

use crate::config::{USER_FILE, write_file};
use crate::model_server::{BilledAnswer, ModelServer};
use crate::test_program::TestProgram;

/// A program whose model costs a dollar per input token, with more settings. Each request has 10 input
/// and 5 output tokens.
fn program_with_prices(more: Value) -> (TestProgram, ModelServer) {
    let (zero, model) = (TestProgram::new(), ModelServer::start());
    let mut settings: Value = serde_json::from_str(&model.settings_json(more)).unwrap();
    settings["models"]["scripted"]["prices"] =
        json!({"input": 1_000_000, "output": 0, "cacheRead": 0, "cacheWrite": 0});
    write_file(&zero, USER_FILE, settings.to_string());
    (zero, model)
}

const TWO_STEPS: &str =
    "script:\ncall LS {\"path\": \".\"}\nturn\ncall LS {\"path\": \".\"}\nturn\nsay Well.";

fn usage(zero: &TestProgram, args: &[&str]) -> Value {
    let args: Vec<&str> = ["usage", "--json"].iter().chain(args).copied().collect();
    serde_json::from_str(&zero.stdout(&args)).unwrap()
}

#[test]
fn run_ends_at_its_budget_and_usage_is_that_of_the_provider() {
    let (zero, model) = program_with_prices(json!({}));
    let seen = zero.run(&["run", "--session", "s", "--budget", "20", TWO_STEPS]);
    assert!(seen.starts_with("exit 4"), "{seen}");
    assert!(seen.contains("the budget for this run ($20.0000 of $20.00) is used up"), "{seen}");
    assert_eq!(model.requests().len(), 2);
    // It goes on where it was.
    let seen = zero.run(&["run", "--session", "s", "--budget", "20", "hello"]);
    assert!(seen.starts_with("exit 0"), "{seen}");
    let by_session = usage(&zero, &["--by", "session"]);
    let expected = json!({"runs": 2, "requests": 3, "inputTokens": 30, "outputTokens": 15,
        "toolCalls": 2, "costUsd": 30.0});
    for (name, value) in expected.as_object().unwrap() {
        assert_eq!(by_session["total"][name], *value, "{name}: {by_session}");
    }
    assert_eq!(by_session["rows"].as_array().unwrap().len(), 1);
    // What was spent stays known when the session is deleted.
    zero.stdout(&["sessions", "delete", "s", "--yes"]);
    assert_eq!(usage(&zero, &["--by", "model"])["total"]["costUsd"], 30.0);
    let table = zero.stdout(&["usage"]);
    assert!(table.contains("$30.0000"), "{table}");
}

#[test]
fn budget_of_the_day_counts_all_sessions() {
    let (zero, model) = program_with_prices(json!({"budgets": {"owner": {"requests": 2}}}));
    for (session, exit) in [("a", "exit 0"), ("b", "exit 0"), ("c", "exit 4")] {
        let seen = zero.run(&["run", "--session", session, "hello"]);
        assert!(seen.starts_with(exit), "{session}: {seen}");
    }
    assert_eq!(model.requests().len(), 2);
    let seen = zero.run(&["run", "/read missing.txt"]);
    assert!(!seen.contains("budget"), "{seen}");
}

#[test]
fn unknown_price_is_said_and_counts() {
    let (zero, model) = (TestProgram::new(), ModelServer::start());
    write_file(&zero, USER_FILE, model.settings_json(json!({})));
    let seen = zero.run(&["run", "--budget", "0.0001", TWO_STEPS]);
    assert!(seen.starts_with("exit 4"), "{seen}");
    assert!(seen.contains("the price of `scripted` is not known"), "{seen}");
}

#[test]
fn invalid_budget_is_refused_with_its_place() {
    let zero = TestProgram::new();
    for (budgets, expected) in [
        (json!({"run": {}}), "this budget limits nothing"),
        (json!({"run": {"dollars": 1}}), "unknown key `budgets.run.dollars`"),
        (json!({"week": {"usd": 1}}), "unknown key `budgets.week`"),
        (json!({"run": {"usd": -1}}), "`usd` must be an amount of dollars"),
    ] {
        write_file(&zero, USER_FILE, json!({ "budgets": budgets }).to_string());
        let seen = zero.run(&["usage"]);
        assert!(seen.starts_with("exit 2") && seen.contains(expected), "{budgets}: {seen}");
    }
    write_file(&zero, USER_FILE, "{}");
    for args in [
        &["run", "--budget", "much", "hello"][..],
        &["run", "--budget", "-1", "hello"],
        &["run", "--max-time", "0s", "hello"],
        &["usage", "--by", "week"],
    ] {
        let seen = zero.run(args);
        assert!(seen.starts_with("exit 2"), "{args:?}: {seen}");
    }
}

#[test]
fn prompt_without_model_makes_no_request() {
    let (zero, model) = program_with_prices(json!({}));
    write_file(&zero, "a.txt", "hello");
    assert!(zero.run(&["run", "/read a.txt"]).starts_with("exit 0"));
    assert!(model.requests().is_empty());
    let spent = usage(&zero, &[]);
    assert_eq!((&spent["total"]["runs"], &spent["total"]["requests"]), (&json!(1), &json!(0)));
}

#[test]
fn usage_of_a_day_is_what_the_provider_counted() {
    let (zero, model) = (TestProgram::new(), ModelServer::start());
    let prices = json!({"input": 1_000_000, "output": 1_000_000, "cacheRead": 0, "cacheWrite": 0});
    let mut settings: Value = serde_json::from_str(&model.settings_json(json!({
        "subagents": {"maxParallel": 3},
        "agents": {"other": {"model": "second"}}
    })))
    .unwrap();
    settings["models"]["scripted"]["prices"] = prices;
    let mut second = settings["models"]["scripted"].clone();
    second["model"] = json!("second-id");
    settings["models"]["second"] = second;
    settings["models"]["scripted"]["fallback"] = json!(["second"]);
    write_file(&zero, USER_FILE, settings.to_string());
    model.bill_each();
    let task =
        |prompt: &str| format!("call Task {}", json!({"description": "a part", "prompt": prompt}));
    let tasks = [task("hello"), task(TWO_STEPS), task("hello"), "turn".into(), "say Well.".into()];
    let (tasks, refused) = (format!("script:\n{}", tasks.join("\n")), "script:\nfail 400 {}");
    // The first model answers once and is limited then.
    let limited = "script:\ncall LS {\"path\": \".\"}\nturn\nlimit scripted\ncall LS {\"path\": \".\"}\nturn\nsay Well.";
    for (session, prompt, exit) in [
        ("a", "hello", "exit 0"),
        ("b", TWO_STEPS, "exit 0"),
        ("c", &tasks, "exit 0"),
        ("d", refused, "exit 1"),
        ("e", limited, "exit 0"),
        ("a", "hello again", "exit 0"),
        ("a", "/compact keep the names", "exit 0"),
        ("a", "once more", "exit 0"),
    ] {
        let seen = zero.run(&["run", "--yes", "--session", session, prompt]);
        assert!(seen.starts_with(exit), "{session}: {seen}");
    }
    let seen = zero.run(&["run", "--agent", "other", "--session", "f", "hello"]);
    assert!(seen.starts_with("exit 0"), "{seen}");
    let billed = model.billed();
    // Of `a`, three and the summary; of `c`, two and those of its sub-agents.
    assert_eq!(billed.len(), (3 + 1) + 3 + (2 + 1 + 3 + 1) + 3 + 1, "{billed:?}");
    zero.stdout(&["sessions", "delete", "b", "--yes"]);
    let sum = |of: &dyn Fn(&BilledAnswer) -> bool| {
        billed.iter().filter(|answer| of(answer)).fold((0, 0), |(input, output), answer| {
            (input + answer.input_tokens, output + answer.output_tokens)
        })
    };
    let all = sum(&|_| true);
    let mut spent = Value::Null;
    for by in ["day", "session", "agent", "owner", "model"] {
        spent = usage(&zero, &["--by", by]);
        let sum = |name: &str| -> u64 {
            let rows = spent["rows"].as_array().unwrap().iter();
            rows.map(|row| row[name].as_u64().unwrap()).sum()
        };
        assert_eq!((sum("inputTokens"), sum("outputTokens")), all, "{by}: {spent}");
        assert_eq!(spent["total"]["inputTokens"], all.0, "{by}: {spent}");
        assert_eq!(spent["total"]["outputTokens"], all.1, "{by}: {spent}");
        assert_eq!(spent["total"]["costUsd"], (all.0 + all.1) as f64, "{by}: {spent}");
    }
    // Each request counts under the model that it was sent to.
    for (name, id) in [("scripted", "scripted"), ("second", "second-id")] {
        let rows = spent["rows"].as_array().unwrap();
        let row = rows.iter().find(|row| row["name"] == name);
        let row = row.unwrap_or_else(|| panic!("{name}: {spent}"));
        let expected = sum(&|answer| answer.model == id);
        let counted = (row["inputTokens"].as_u64(), row["outputTokens"].as_u64());
        assert_eq!(counted, (Some(expected.0), Some(expected.1)), "{name}: {spent}");
    }
    assert_eq!(spent["rows"].as_array().unwrap().len(), 2, "{spent}");
    // The ledgers of the sessions that are left say the same.
    let by_session = usage(&zero, &["--by", "session"]);
    for row in by_session["rows"].as_array().unwrap() {
        let key = row["name"].as_str().unwrap();
        if key.ends_with(":b") {
            continue;
        }
        let ledger = zero.stdout(&["sessions", "export", key, "--format", "jsonl"]);
        let ends = ledger.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let ends: Vec<Value> = ends.filter(|event| event["type"] == "run_ended").collect();
        for (name, field) in [("inputTokens", "input_tokens"), ("outputTokens", "output_tokens")] {
            let sum: u64 = ends.iter().map(|end| end["usage"][field].as_u64().unwrap()).sum();
            assert_eq!(row[name], sum, "{key}: {name}: {ledger}");
        }
    }
}
