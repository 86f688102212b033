//! Checks rules against the examples in their settings.

use std::path::PathBuf;
use std::sync::{Arc, LazyLock};

use serde_json::{Map, Value, json};
use zero_policy::{EmptyMachine, PolicyEngine, PolicyEngineConfig, PolicyRule};
use zero_runtime::ToolRegistry;
use zero_runtime::dialect::BUILTIN;
use zero_runtime::simulated_call::CallSimulator;
use zero_sandbox::Workspace;
use zero_tools::examples::find_example;

/// Workspace of the examples. No file of the machine is looked at, so that results are the same on
/// every machine.
const WORKSPACE: &str = "/workspace";
const HOME: &str = "/home/me";

/// The fields that an example of a rule can stand for; a tool has at most one of them.
const SUBJECT_FIELDS: [&str; 6] = ["command", "url", "paths", "file_path", "filePath", "path"];

static SIMULATOR: LazyLock<Result<CallSimulator, String>> = LazyLock::new(|| {
    let registry = ToolRegistry::default();
    registry.add(BUILTIN, zero_tools::builtin_tools()).map_err(|error| error.to_string())?;
    registry.add_missing(&zero_tools::missing_tools());
    Ok(CallSimulator::new(Arc::new(registry)))
});

/// The examples that a rule contradicts, each as a sentence.
pub fn failed_examples(rule: &PolicyRule, matches: &[String], not_match: &[String]) -> Vec<String> {
    if matches.is_empty() && not_match.is_empty() {
        return Vec::new();
    }
    let wanted = matches.iter().map(|example| (example, true));
    let unwanted = not_match.iter().map(|example| (example, false));
    let mut broken = Vec::new();
    for (example, should) in wanted.chain(unwanted) {
        match is_match(rule, example) {
            Err(error) => broken.push(format!("could not check example `{example}`: {error}")),
            Ok(does) if does.is_none_or(|does| does == should) => {}
            Ok(_) if should => {
                broken.push(format!("does not match `{example}`, which is listed in `match`"))
            }
            Ok(_) => broken.push(format!("matches `{example}`, which is listed in `not_match`")),
        }
    }
    broken
}

/// Whether a rule matches an example; `None` if this build lacks the tool, so that nothing can.
fn is_match(rule: &PolicyRule, example: &str) -> Result<Option<bool>, String> {
    let simulator = SIMULATOR.as_ref().map_err(Clone::clone)?;
    let (tool, input) = match (rule.tool_name(), example.split_once(char::is_whitespace)) {
        (Some(tool), _) => (tool, None),
        (None, Some((tool, input))) => (tool, Some(parse_input(input)?)),
        (None, None) => (example, None),
    };
    if simulator.registry().missing_advice(tool).is_some() {
        return Ok(None);
    }
    let input = input.unwrap_or_else(|| example_input(simulator, tool, example));
    let (roots, home) = (vec![PathBuf::from(WORKSPACE)], Some(PathBuf::from(HOME)));
    let workspace =
        Workspace::on_empty_machine(&roots, home.clone()).map_err(|error| error.message)?;
    let call = simulator.simulate(tool, &input, None, &workspace).map_err(|error| error.message)?;
    let engine = PolicyEngine::new(PolicyEngineConfig {
        rules: vec![rule.clone()],
        roots,
        home,
        ..PolicyEngineConfig::default()
    });
    let decision = engine.decide(call.to_request(&[], &EmptyMachine));
    let is_own = |by: Option<&str>| by == Some(rule.text.as_str());
    Ok(Some(decision.effects.iter().any(|effect| is_own(effect.rule.as_deref()))))
}

/// The input after the name of a tool in an example.
fn parse_input(text: &str) -> Result<Value, String> {
    serde_json::from_str(text)
        .map_err(|error| format!("after the name of the tool, its input must be JSON: {error}"))
}

/// The documented call of a tool, with the example of the rule as its subject.
fn example_input(simulator: &CallSimulator, tool: &str, example: &str) -> Value {
    let documented = find_example(tool).and_then(|documented| documented.canonical_input());
    let mut fields: Map<String, Value> =
        documented.and_then(|input| serde_json::from_str(input).ok()).unwrap_or_default();
    let registered = simulator.registry().get(tool);
    let schema = registered.as_ref().map(|registered| &registered.tool.spec().input_schema);
    let properties = schema.and_then(|schema| schema.get("properties"));
    let is_known = |name: &&str| properties.is_some_and(|known| known.get(name).is_some());
    if let Some(name) = SUBJECT_FIELDS.into_iter().find(is_known) {
        let subject = match name {
            "paths" => json!([example]),
            // Rules match only the host, so that an example may be just that.
            "url" if !example.contains("://") => json!(format!("https://{example}")),
            _ => json!(example),
        };
        fields.insert(name.to_owned(), subject);
    }
    Value::Object(fields)
}

#[cfg(test)]
mod tests {
    use zero_policy::Verdict;
    use zero_policy::rule::{RuleOwner, RuleSource};

    use super::*;

    #[track_caller]
    fn check(rule: &str, matches: &[&str], not_match: &[&str]) {
        let source = RuleSource { owner: RuleOwner::User, name: "test".to_owned(), line: None };
        let rule = PolicyRule::parse(rule, Verdict::Deny, source).unwrap();
        let texts = |examples: &[&str]| examples.iter().map(|text| (*text).to_owned()).collect();
        let (matches, not_match): (Vec<String>, Vec<String>) = (texts(matches), texts(not_match));
        assert_eq!(failed_examples(&rule, &matches, &not_match), Vec::<String>::new());
        // The same examples the other way round fail, each of them.
        let failed = failed_examples(&rule, &not_match, &matches);
        assert_eq!(failed.len(), matches.len() + not_match.len(), "{failed:?}");
    }

    #[test]
    fn example_names_subject_of_its_tool() {
        check("Bash(git push:*)", &["git push -f", "cd x && git push"], &["git pull"]);
        check("Read(/secrets/**)", &["secrets/key", "/workspace/secrets/a/b"], &["src/a", "~/x"]);
        check("Read(~/.ssh/**)", &["~/.ssh/id", "/home/me/.ssh/id"], &[".ssh/id"]);
        check("Edit(/src/**)", &["src/a.rs"], &["a.rs"]);
        check("Write(/src/**)", &["src/a.rs"], &["a.rs"]);
        check("Delete(/src/**)", &["src/a.rs"], &["a.rs"]);
        check("Grep(/src/**)", &["src/a"], &["lib"]);
        check("ReadMany(/secrets/**)", &["secrets/key"], &["src/a"]);
        check("LSP(/src/**)", &["src/a.rs"], &["a.rs"]);
        check("WebFetch(domain:x.org)", &["x.org", "https://x.org/a"], &["y.org"]);
        check("github__*", &["github__make", "mcp__github__make"], &["gitlab__make"]);
    }

    #[test]
    fn example_of_external_tool_can_have_input() {
        check(
            "bank__send(recipient:mallory@*)",
            &[
                r#"bank__send {"recipient": "mallory@example.com"}"#,
                r#"mcp__bank__send  {"recipient": ["Mallory@x", "alice@x"], "amount": 1}"#,
            ],
            &["bank__send", "bank__send {}", r#"bank__send {"recipient": "alice@example.com"}"#],
        );
        check("bank__*", &[r#"bank__send {"recipient": "alice"}"#], &["shop__buy {}"]);
        let source = RuleSource { owner: RuleOwner::User, name: "test".to_owned(), line: None };
        let rule = PolicyRule::parse("bank__send(to:x)", Verdict::Allow, source).unwrap();
        for (example, expected) in [
            ("bank__send to:x", "after the name of the tool, its input must be JSON"),
            ("bank__send [1]", "the input must be a JSON object"),
        ] {
            let failed = failed_examples(&rule, &[example.to_owned()], &[]);
            assert!(failed.len() == 1 && failed[0].contains(expected), "{failed:?}");
        }
    }

    #[test]
    fn examples_do_not_depend_on_the_machine() {
        // A link on many machines.
        check("Read(//var/run/**)", &["/var/run/docker.sock"], &["/run/docker.sock"]);
    }
}
