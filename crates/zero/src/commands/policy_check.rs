//! `zero policy check`: what would become of a call, without making it.

use std::collections::HashMap;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

use anyhow::Context;
use serde_json::{Value, json};
use zero_core::Limits;
use zero_policy::rule::Owner;
use zero_policy::{Decision, Mode, Rule, Source, Verdict};
use zero_runtime::DialectName;

use crate::App;
use crate::cli::PolicyCheckArgs;
use crate::exit::{Exit, UsageError};
use crate::json_input;
use crate::policy::{Judge, as_json};
use crate::terminal::{FAINT, Stream, escape_line, verdict_style};

/// Longest line of a batch, in bytes.
const LINE_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Sets of rules that are kept compiled while a batch runs.
const JUDGES_MAX: usize = 64;

pub(super) fn run(app: &App, args: &PolicyCheckArgs) -> anyhow::Result<Exit> {
    match &args.batch {
        Some(file) => batch(app, args, file),
        None => single(app, args),
    }
}

fn single(app: &App, args: &PolicyCheckArgs) -> anyhow::Result<Exit> {
    let (Some(tool), Some(input)) = (&args.tool, &args.input) else {
        let message = "name a tool and its input, or a file with --batch";
        return Err(UsageError(message.to_owned()).into());
    };
    let input = json_input::read(app, input, &Limits::default())?;
    let judge = app.judge(&args.place, args.mode)?;
    let usage = |message: String| UsageError(message);
    let subject = judge.subject(tool, &input, args.dialect).map_err(usage)?;
    let (decision, _) = judge.judge(&subject, &[]);
    let decision = answered(decision, args.headless);
    let out = &app.terminal.out;
    if args.json || !app.config.streams.stdout_is_terminal {
        out.write_line(&as_json(&decision))?;
    } else {
        out.write(&shown(out, &decision))?;
    }
    Ok(Exit::of_verdict(decision.verdict))
}

/// Where nobody can be asked, what would be asked is denied.
fn answered(decision: Decision, headless: bool) -> Decision {
    if !headless || decision.verdict != Verdict::Ask {
        return decision;
    }
    let reason = format!("{}, and nobody can be asked", decision.reason);
    Decision { verdict: Verdict::Deny, reason, grants: Vec::new(), ..decision }
}

/// A decision for a person.
fn shown(out: &Stream, decision: &Decision) -> String {
    use std::fmt::Write as _;
    let mut text = String::new();
    let style = verdict_style(decision.verdict);
    let _ = writeln!(
        text,
        "{}  {}",
        out.paint(style, decision.verdict.word()),
        escape_line(&decision.reason)
    );
    if let (Some(rule), Some(source)) = (&decision.rule, &decision.source) {
        let _ = writeln!(text, "  rule   {rule}  {}", out.paint(FAINT, source));
    }
    let _ = writeln!(text, "  risk   {}", decision.risk);
    for effect in &decision.effects {
        let about = format!("{} {}", effect.kind, escape_line(&effect.target));
        let word = format!("{:<5}", effect.decision.word());
        let _ = writeln!(
            text,
            "  {}  {about}  {}",
            out.paint(verdict_style(effect.decision), &word),
            out.paint(FAINT, &escape_line(&effect.reason))
        );
    }
    for grant in &decision.grants {
        let _ = writeln!(text, "  could be allowed for a session by {grant}");
    }
    text
}

/// Judges one request a line.
fn batch(app: &App, args: &PolicyCheckArgs, file: &Path) -> anyhow::Result<Exit> {
    let mut reader = open(app, file)?;
    let mut bench = Bench {
        app,
        args,
        judges: HashMap::new(),
        shared: match &args.place.settings[..] {
            [] => Vec::new(),
            files => app.settings_of(files)?.policy_rules(),
        },
    };
    let mut line = Vec::new();
    let mut number = 0usize;
    loop {
        line.clear();
        let mut limited = std::io::Read::take(&mut reader, LINE_BYTES_MAX as u64 + 1);
        let read = limited.read_until(b'\n', &mut line).context("the batch cannot be read")?;
        if read == 0 {
            return Ok(Exit::Ok);
        }
        number += 1;
        if line.len() > LINE_BYTES_MAX {
            let message =
                format!("line {number} of the batch is longer than {LINE_BYTES_MAX} bytes");
            return Err(UsageError(message).into());
        }
        if line.iter().all(u8::is_ascii_whitespace) {
            continue;
        }
        app.terminal.out.write_line(&bench.line(number, &line))?;
    }
}

#[expect(clippy::disallowed_methods, reason = "a file that was named on the command line")]
fn open(app: &App, file: &Path) -> anyhow::Result<Box<dyn BufRead>> {
    if file == Path::new("-") {
        return Ok(Box::new(std::io::stdin().lock()));
    }
    let path = app.config.cwd()?.join(file);
    let opened = std::fs::File::open(&path).map_err(|error| {
        UsageError(format!("the batch `{}` cannot be read: {error}", file.display()))
    })?;
    Ok(Box::new(BufReader::new(opened)))
}

/// What a batch works with.
struct Bench<'a> {
    app: &'a App,
    args: &'a PolicyCheckArgs,
    /// Judges by what makes them: permissions, mode, workspace and home.
    judges: HashMap<String, Judge>,
    /// Rules of `--settings`.
    shared: Vec<Rule>,
}

impl Bench<'_> {
    fn line(&mut self, number: usize, line: &[u8]) -> Value {
        let request: Value = match serde_json::from_slice(line) {
            Ok(request @ Value::Object(_)) => request,
            Ok(_) => {
                return json!({"id": null, "line": number, "error": "a request must be a JSON object"});
            }
            Err(error) => {
                let error = format!("the request is not JSON: {error}");
                return json!({"id": null, "line": number, "error": error});
            }
        };
        let id = request.get("id").cloned().unwrap_or(Value::Null);
        match self.request(&request) {
            Ok(decision) => {
                let mut answer = json!({ "id": id });
                if let (Value::Object(answer), Value::Object(decided)) =
                    (&mut answer, as_json(&decision))
                {
                    answer.extend(decided);
                }
                answer
            }
            Err(error) => json!({"id": id, "error": error}),
        }
    }

    fn request(&mut self, request: &Value) -> Result<Decision, String> {
        check_fields(request)?;
        let text = |name: &str| match request.get(name) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.as_str())),
            Some(_) => Err(format!("`{name}` must be a text")),
        };
        let tool = text("tool")?.ok_or("the request lacks `tool`")?;
        let input = request.get("input").cloned().unwrap_or_else(|| json!({}));
        let mode = match text("mode")? {
            Some(mode) => Some(mode.parse::<Mode>().map_err(|error| error.to_string())?),
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
        let permissions = request.get("permissions").cloned().unwrap_or_else(|| json!({}));
        let workspace = text("workspace")?.map(PathBuf::from);
        let home = text("home")?.map(PathBuf::from);
        let key = json!([permissions, mode.map(Mode::as_str), workspace, home]).to_string();
        if !self.judges.contains_key(&key) {
            let judge = self.judge(&permissions, mode, workspace, home)?;
            if self.judges.len() >= JUDGES_MAX {
                self.judges.clear();
            }
            self.judges.insert(key.clone(), judge);
        }
        let judge = self.judges.get(&key).ok_or("the rules are gone")?;
        let subject = judge.subject(tool, &input, dialect)?;
        Ok(answered(judge.judge(&subject, &[]).0, headless))
    }

    fn judge(
        &self,
        permissions: &Value,
        mode: Option<Mode>,
        workspace: Option<PathBuf>,
        home: Option<PathBuf>,
    ) -> Result<Judge, String> {
        let mut rules = self.shared.clone();
        rules.extend(rules_of(permissions)?);
        let own_mode = match permissions.get("mode") {
            None | Some(Value::Null) => None,
            Some(mode) => {
                let word = mode.as_str().ok_or("`permissions.mode` must be a text")?;
                Some(word.parse::<Mode>().map_err(|error| error.to_string())?)
            }
        };
        let place = &self.args.place;
        let surroundings = self
            .app
            .surroundings(
                workspace.as_deref().or(place.workspace.as_deref()),
                home.as_deref().or(place.home.as_deref()),
            )
            .map_err(|error| format!("{error:#}"))?;
        Ok(Judge::new(rules, mode.or(own_mode).unwrap_or_default(), surroundings))
    }
}

/// Fields of a request.
const FIELDS: [&str; 9] =
    ["id", "tool", "input", "permissions", "mode", "workspace", "home", "dialect", "headless"];

/// Other fields are the script's own notes; but one that looks like a slip is one.
fn check_fields(request: &Value) -> Result<(), String> {
    for name in request.as_object().into_iter().flat_map(|fields| fields.keys()) {
        if FIELDS.contains(&name.as_str()) {
            continue;
        }
        let near = zero_runtime::nearest::nearest(name, FIELDS, 1);
        if let Some(near) = near.first() {
            return Err(format!("unknown field `{name}`; did you mean `{near}`?"));
        }
    }
    Ok(())
}

/// The rules of a `permissions` object.
fn rules_of(permissions: &Value) -> Result<Vec<Rule>, String> {
    let Value::Object(lists) = permissions else {
        return Err("`permissions` must be an object with `allow`, `ask` and `deny`".to_owned());
    };
    let mut rules = Vec::new();
    for (name, list) in lists {
        let verdict = match name.as_str() {
            "allow" => Verdict::Allow,
            "ask" => Verdict::Ask,
            "deny" => Verdict::Deny,
            "mode" => continue,
            other => {
                return Err(format!(
                    "`permissions` has no list `{other}`; it has allow, ask and deny"
                ));
            }
        };
        let Value::Array(list) = list else {
            return Err(format!("`permissions.{name}` must be a list of rules"));
        };
        for entry in list {
            let text = entry.as_str().or_else(|| entry.get("rule").and_then(Value::as_str));
            let text =
                text.ok_or_else(|| format!("`permissions.{name}` must be a list of rules"))?;
            let source = Source { name: "request".to_owned(), line: None, owner: Owner::Person };
            let rule = Rule::parse(text, verdict, source)
                .map_err(|error| format!("rule `{text}` of `permissions.{name}`: {error}"))?;
            rules.push(rule);
        }
    }
    Ok(rules)
}
