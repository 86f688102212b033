//! `zero policy check --batch`: one request per line, one answer per line.
//!
//! An invalid request gets an answer with `error` and does not end the batch. Answers are buffered only
//! while more input is available, so a client can write one request and wait for its answer.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context;
use serde_json::{Map, Value, json};
use zero_policy::{PermissionMode, PolicyDecision, PolicyRule};
use zero_runtime::DialectName;
use zero_runtime::json_reader;
use zero_runtime::simulated_call::CallSimulator;
use zero_settings::{SettingsError, WorkspaceSettings};

use super::apply_headless;
use crate::AppContext;
use crate::cli::PolicyCheckArgs;
use crate::error_chain::describe_error;
use crate::exit::{ExitOutcome, UsageError};
use crate::policy::{PolicyEvaluator, to_json};

/// Longest request line, in bytes.
const LINE_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Bytes read at once.
const READ_BYTES: usize = 64 * 1024;
/// Largest amount of buffered answers, in bytes.
const BUFFERED_BYTES_MAX: usize = 64 * 1024;
/// Compiled rule sets that are cached during a batch.
const EVALUATORS_MAX: usize = 64;

/// Evaluates one request per line.
pub(super) fn run(
    app: &AppContext,
    args: &PolicyCheckArgs,
    file: &Path,
) -> anyhow::Result<ExitOutcome> {
    let mut lines = BoundedLineReader::new(open_batch(app, file)?);
    let mut evaluator = BatchEvaluator::new(app, args)?;
    let mut held = String::new();
    let mut number = 0usize;
    while let Some(line) = lines.next_line(|| flush(app, &mut held))? {
        number += 1;
        let answer = match line {
            BatchLine::Blank => continue,
            BatchLine::TooLong => {
                let error = format!("the request is longer than {LINE_BYTES_MAX} bytes");
                json!({"id": null, "line": number, "error": error})
            }
            BatchLine::Request(line) => evaluator.answer_line(number, line),
        };
        held.push_str(&serde_json::to_string(&answer)?);
        held.push('\n');
        if held.len() > BUFFERED_BYTES_MAX {
            flush(app, &mut held)?;
        }
    }
    flush(app, &mut held)?;
    Ok(ExitOutcome::Ok)
}

fn flush(app: &AppContext, held: &mut String) -> anyhow::Result<()> {
    if !held.is_empty() {
        app.terminal.out.write_json_text(held)?;
        held.clear();
    }
    Ok(())
}

#[expect(clippy::disallowed_methods, reason = "a file that was named on the command line")]
fn open_batch(app: &AppContext, file: &Path) -> anyhow::Result<Box<dyn Read>> {
    if file == Path::new("-") {
        return Ok(Box::new(std::io::stdin().lock()));
    }
    let path = app.config.cwd()?.join(file);
    let unreadable = |error: std::io::Error| {
        UsageError(format!("could not read the batch `{}`: {error}", file.display()))
    };
    let opened = std::fs::File::open(&path).map_err(unreadable)?;
    if opened.metadata().map_err(unreadable)?.is_dir() {
        return Err(unreadable(std::io::ErrorKind::IsADirectory.into()).into());
    }
    Ok(Box::new(opened))
}

/// Reads lines in bounded memory; longer ones are skipped and reported.
struct BoundedLineReader {
    reader: BufReader<Box<dyn Read>>,
    line: Vec<u8>,
}

/// One line of a batch.
enum BatchLine<'a> {
    Blank,
    TooLong,
    Request(&'a [u8]),
}

impl BoundedLineReader {
    fn new(source: Box<dyn Read>) -> Self {
        Self { reader: BufReader::with_capacity(READ_BYTES, source), line: Vec::new() }
    }

    /// The next line. Calls `before_waiting` before a read that may block.
    fn next_line(
        &mut self,
        before_waiting: impl FnOnce() -> anyhow::Result<()>,
    ) -> anyhow::Result<Option<BatchLine<'_>>> {
        if !self.reader.buffer().contains(&b'\n') {
            before_waiting()?;
        }
        self.line.clear();
        if self.read_chunk()? == 0 {
            return Ok(None);
        }
        if self.line.len() > LINE_BYTES_MAX {
            while !self.line.ends_with(b"\n") {
                self.line.clear();
                if self.read_chunk()? == 0 {
                    break;
                }
            }
            return Ok(Some(BatchLine::TooLong));
        }
        let is_blank = self.line.iter().all(u8::is_ascii_whitespace);
        Ok(Some(if is_blank { BatchLine::Blank } else { BatchLine::Request(&self.line) }))
    }

    fn read_chunk(&mut self) -> anyhow::Result<usize> {
        let mut limited = self.reader.by_ref().take(LINE_BYTES_MAX as u64 + 1);
        limited.read_until(b'\n', &mut self.line).context("could not read the batch")
    }
}

/// Evaluates requests, with cached rule sets.
struct BatchEvaluator<'a> {
    app: &'a AppContext,
    args: &'a PolicyCheckArgs,
    simulator: Arc<CallSimulator>,
    /// Evaluators by permissions, mode, workspace and home.
    evaluators: HashMap<String, PolicyEvaluator>,
    /// Rules of `--settings`.
    shared: Vec<PolicyRule>,
    /// The mode of `--settings`.
    shared_mode: PermissionMode,
}

impl<'a> BatchEvaluator<'a> {
    fn new(app: &'a AppContext, args: &'a PolicyCheckArgs) -> anyhow::Result<Self> {
        let (shared, shared_mode) = match &args.place.settings[..] {
            [] => (Vec::new(), PermissionMode::default()),
            files => {
                let settings = app.load_settings_files(files)?;
                (settings.policy_rules(), settings.mode())
            }
        };
        let simulator = app.builtin_simulator()?;
        Ok(Self { app, args, simulator, evaluators: HashMap::new(), shared, shared_mode })
    }

    fn answer_line(&mut self, number: usize, line: &[u8]) -> Value {
        let request = match json_reader::parse_unique(line) {
            Ok(Value::Object(request)) => request,
            Ok(_) => {
                return json!({"id": null, "line": number, "error": "a request must be a JSON object"});
            }
            Err(error) => {
                let error = format!("the request is not JSON: {error}");
                return json!({"id": null, "line": number, "error": error});
            }
        };
        let id = request.get("id").cloned().unwrap_or(Value::Null);
        match self.decide(&request) {
            Ok(decision) => {
                let mut answer = json!({ "id": id });
                if let (Value::Object(answer), Value::Object(decided)) =
                    (&mut answer, to_json(&decision))
                {
                    answer.extend(decided);
                }
                answer
            }
            Err(error) => json!({"id": id, "line": number, "error": error}),
        }
    }

    fn decide(&mut self, request: &Map<String, Value>) -> Result<PolicyDecision, String> {
        check_fields(request)?;
        let text = |name: &str| match request.get(name) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.as_str())),
            Some(_) => Err(format!("`{name}` must be a string")),
        };
        let tool = text("tool")?.ok_or("the request has no `tool`")?;
        let nothing = Value::Object(Map::new());
        let input = request.get("input").unwrap_or(&nothing);
        let mode = match text("mode")? {
            Some(mode) => Some(mode.parse::<PermissionMode>().map_err(|error| error.to_string())?),
            None => self.args.mode,
        };
        let dialect = match text("dialect")? {
            Some(name) => Some(name.parse::<DialectName>().map_err(|error| error.to_string())?),
            None => self.args.dialect,
        };
        let headless = match request.get("headless") {
            None | Some(Value::Null) => self.args.headless,
            Some(Value::Bool(headless)) => *headless,
            Some(_) => return Err("`headless` must be true or false".to_owned()),
        };
        let permissions = request.get("permissions").filter(|lists| !lists.is_null());
        let permissions = permissions.unwrap_or(&nothing);
        let (workspace, home) = (text("workspace")?, text("home")?);
        let key =
            json!([permissions, mode.map(PermissionMode::as_str), workspace, home]).to_string();
        if !self.evaluators.contains_key(&key) {
            let evaluator = self.build_evaluator(permissions, mode, workspace, home)?;
            if self.evaluators.len() >= EVALUATORS_MAX {
                self.evaluators.clear();
            }
            self.evaluators.insert(key.clone(), evaluator);
        }
        let evaluator = self.evaluators.get(&key).ok_or("could not compile the rules")?;
        let subject = evaluator.resolve_call(tool, input, dialect)?;
        let decision = evaluator.evaluate(&subject, &[]);
        let decision = evaluator.judge_secrets(decision, input, &subject);
        Ok(apply_headless(decision, headless))
    }

    fn build_evaluator(
        &self,
        permissions: &Value,
        mode: Option<PermissionMode>,
        workspace: Option<&str>,
        home: Option<&str>,
    ) -> Result<PolicyEvaluator, String> {
        let own = WorkspaceSettings::from_request(permissions).map_err(error_message)?;
        let rules = self.shared.iter().cloned().chain(own.policy_rules()).collect();
        let place = &self.args.place;
        let workspace = workspace.map(PathBuf::from).or_else(|| place.workspace.clone());
        let home = home.map(PathBuf::from).or_else(|| place.home.clone());
        let context = self
            .app
            .policy_context(workspace.as_deref(), home.as_deref())
            .map_err(|error| describe_error(&error))?;
        let mode = mode.or(own.own_mode()).unwrap_or(self.shared_mode);
        let simulator = Arc::clone(&self.simulator);
        PolicyEvaluator::new(rules, mode, context, simulator).map_err(|error| error.0)
    }
}

/// All fields that a request of a batch can have.
const REQUEST_FIELDS: [&str; 9] =
    ["id", "tool", "input", "permissions", "mode", "workspace", "home", "dialect", "headless"];

/// Wrong field names for rules, which belong in `permissions`.
const RULE_FIELDS: [&str; 6] = ["allow", "ask", "deny", "rules", "permission", "settings"];

/// Rejects misspelled fields. Other unknown fields are ignored, so that scripts can add their own.
fn check_fields(request: &Map<String, Value>) -> Result<(), String> {
    for name in request.keys().filter(|name| !REQUEST_FIELDS.contains(&name.as_str())) {
        if RULE_FIELDS.contains(&name.as_str()) {
            return Err(format!(
                "unknown field `{name}`; put rules in `permissions`, as in `{{\"permissions\": {{\"deny\": [\"Read(.env)\"]}}}}`"
            ));
        }
        if let Some(similar) =
            zero_runtime::name_suggestions::suggest_names(name, REQUEST_FIELDS, 1).first()
        {
            return Err(format!("unknown field `{name}`; did you mean `{similar}`?"));
        }
    }
    Ok(())
}

/// Error in the permissions of a request, in one line.
fn error_message(error: SettingsError) -> String {
    let SettingsError::Invalid(problems) = error else { return error.to_string() };
    let problems: Vec<String> = problems.into_iter().map(|problem| problem.what).collect();
    problems.join("; ")
}
