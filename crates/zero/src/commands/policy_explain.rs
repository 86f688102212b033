//! `zero policy explain`: a shell command as a tree, with the verdict on each part.

use std::collections::{BTreeSet, HashMap};
use std::fmt::Write as _;

use serde_json::{Value, json};
use zero_core::{CommandLimit, CommandLimits, ToolName};
use zero_policy::engine::{VerdictNode, VerdictTree};
use zero_policy::{
    CommandAccess, HostName, NetworkScope, PermissionMode, PolicyDecision, SecretFileScope,
    Verdict, WriteScope,
};

use crate::AppContext;
use crate::cli::{PolicyContextArgs, PolicyExplainArgs};
use crate::exit::ExitOutcome;
use crate::policy::{PolicyEvaluator, to_json};
use crate::terminal::{FAINT, STRONG, TerminalStream, escape_line, verdict_style};

pub(super) fn run(app: &AppContext, args: &PolicyExplainArgs) -> anyhow::Result<ExitOutcome> {
    let input = json!({ "command": args.command });
    let explained = ExplainedCall::new(app, &args.place, args.mode, "Bash", &input)?;
    let ExplainedCall { decision, trees, hooks, sandbox } = &explained;
    let out = &app.terminal.out;
    if args.json {
        out.write_json_line(&explained.to_json())?;
    } else {
        let mut text = String::new();
        for tree in trees {
            draw_tree(out, tree, &mut text);
        }
        let verdict = out.paint(verdict_style(decision.verdict), decision.verdict.as_str());
        let _ = writeln!(text, "\n{verdict}: {}", escape_line(&decision.reason));
        if let (Some(rule), Some(source)) = (&decision.rule, &decision.source) {
            let _ = writeln!(text, "  rule {rule}  {}", out.paint(FAINT, &escape_line(source)));
        }
        for grant in &decision.grants {
            let _ =
                writeln!(text, "  can be allowed for the session: {}", escape_line(&grant.rule));
        }
        for (name, value) in decision.limits.format_values() {
            let _ = writeln!(text, "  limit {name} is raised to {value}");
        }
        if let Some(sandbox) = sandbox {
            text.push_str(&sandbox.render(out));
        }
        for hook in hooks {
            let _ = writeln!(text, "  {} may still deny it, ask or change it", escape_line(hook));
        }
        out.write_prose(&text, 9)?;
    }
    Ok(ExitOutcome::from_verdict(decision.verdict))
}

/// A call with its verdict and the reasons.
pub(crate) struct ExplainedCall {
    decision: PolicyDecision,
    trees: Vec<VerdictTree>,
    /// Hooks that would run before it.
    hooks: Vec<String>,
    sandbox: Option<SandboxSummary>,
}

impl ExplainedCall {
    /// Judges a call without running it.
    pub(crate) fn new(
        app: &AppContext,
        place: &PolicyContextArgs,
        mode: Option<PermissionMode>,
        tool: &str,
        input: &Value,
    ) -> anyhow::Result<Self> {
        let evaluator = app.policy_evaluator(place, mode)?;
        let subject = evaluator.resolve_call(tool, input, None).map_err(crate::exit::UsageError)?;
        let (decision, trees) = evaluator.explain(&subject);
        let decision = evaluator.judge_secrets(decision, input, &subject);
        let hooks = match decision.verdict {
            // Hooks are not run for calls that rules deny.
            Verdict::Deny => Vec::new(),
            Verdict::Allow | Verdict::Ask => evaluator.hooks_before(tool),
        };
        let sandbox = SandboxSummary::new(&evaluator, &decision);
        Ok(Self { decision, trees, hooks, sandbox })
    }

    pub(crate) fn to_json(&self) -> Value {
        let mut answer = to_json(&self.decision);
        if let Some(sandbox) = &self.sandbox {
            answer["sandbox"] = sandbox.to_json();
        }
        answer["tree"] = self.trees.first().map_or(json!([]), |tree| tree_to_json(&tree.nodes));
        if !self.hooks.is_empty() {
            answer["hooks"] = json!(self.hooks);
        }
        answer
    }
}

/// What the sandbox will let the command do, if it runs.
struct SandboxSummary {
    access: CommandAccess,
    limits: CommandLimits,
}

impl SandboxSummary {
    /// `None` for a command that will not run.
    fn new(evaluator: &PolicyEvaluator, decision: &PolicyDecision) -> Option<Self> {
        let access = decision.access.clone().filter(|_| decision.verdict != Verdict::Deny)?;
        let limits = evaluator.command_limits(&ToolName::new("Bash").ok()?, decision);
        Some(Self { access, limits })
    }

    fn limits(&self) -> impl Iterator<Item = (&'static str, String)> {
        CommandLimit::ALL
            .into_iter()
            .map(|limit| (limit.name(), limit.format_value(self.limits.get(limit))))
    }

    fn to_json(&self) -> Value {
        let writes = match &self.access.writes {
            WriteScope::Nothing => json!([]),
            WriteScope::Paths(paths) => json!(paths),
            WriteScope::Workspace => json!("workspace"),
        };
        let hosts = match &self.access.network {
            NetworkScope::Nothing => json!([]),
            NetworkScope::Hosts(hosts) => json!(host_names(hosts)),
            NetworkScope::Allowed => json!("allowed"),
        };
        let limits: serde_json::Map<String, Value> =
            self.limits().map(|(name, value)| (name.to_owned(), json!(value))).collect();
        let secret_files = match self.access.secret_files {
            SecretFileScope::Hidden => "hidden",
            SecretFileScope::Named => "named",
            SecretFileScope::All => "all",
        };
        json!({"writes": writes, "hosts": hosts, "secretFiles": secret_files, "limits": limits})
    }

    fn render(&self, out: &TerminalStream) -> String {
        let writes = match &self.access.writes {
            WriteScope::Nothing => "read-only".to_owned(),
            WriteScope::Paths(paths) => {
                let paths: Vec<String> =
                    paths.iter().map(|path| format!("`{}`", path.display())).collect();
                format!("may change {}", paths.join(", "))
            }
            WriteScope::Workspace => "may change the workspace".to_owned(),
        };
        let hosts = match &self.access.network {
            NetworkScope::Nothing => "no network".to_owned(),
            NetworkScope::Hosts(hosts) => format!("network to {}", host_names(hosts).join(", ")),
            NetworkScope::Allowed => "network to allowed hosts only".to_owned(),
        };
        let limits: Vec<String> =
            self.limits().map(|(name, value)| format!("{name} {value}")).collect();
        let secrets = match self.access.secret_files {
            SecretFileScope::Hidden | SecretFileScope::Named => "; secret files are hidden",
            SecretFileScope::All => "",
        };
        let line = format!("sandbox: {writes}{secrets}; {hosts}; {}", limits.join(", "));
        format!("  {}\n", out.paint(FAINT, &escape_line(&line)))
    }
}

fn host_names(hosts: &BTreeSet<HostName>) -> Vec<String> {
    hosts.iter().map(ToString::to_string).collect()
}

/// The nodes as nested JSON. Parents precede their children, so iterating from the end completes each
/// node before its parent.
fn tree_to_json(nodes: &[VerdictNode]) -> Value {
    let mut below: Vec<Vec<Value>> = vec![Vec::new(); nodes.len()];
    let mut top = Vec::new();
    for (at, node) in nodes.iter().enumerate().rev() {
        let mut children = below.get_mut(at).map(std::mem::take).unwrap_or_default();
        children.reverse();
        let value = json!({
            "label": node.label,
            "decision": node.verdict.as_str(),
            "reason": node.reason,
            "rule": node.rule,
            "children": children,
        });
        node.parent.and_then(|parent| below.get_mut(parent)).unwrap_or(&mut top).push(value);
    }
    top.reverse();
    Value::Array(top)
}

/// Draws a tree, one node per line.
fn draw_tree(out: &TerminalStream, tree: &VerdictTree, text: &mut String) {
    let mut stems: Vec<String> = Vec::with_capacity(tree.nodes.len());
    let last_of: HashMap<Option<usize>, usize> =
        tree.nodes.iter().enumerate().map(|(at, node)| (node.parent, at)).collect();
    for (at, node) in tree.nodes.iter().enumerate() {
        let is_last = last_of.get(&node.parent) == Some(&at);
        let (branch, stem) = match node.parent {
            None => (String::new(), String::new()),
            Some(parent) => {
                let above = stems.get(parent).map_or("", String::as_str);
                let (branch, stem) =
                    if is_last { ("└─ ", "   ") } else { ("├─ ", "│  ") };
                (format!("{above}{branch}"), format!("{above}{stem}"))
            }
        };
        let verdict = format!("{:<5}", node.verdict.as_str());
        let label = escape_line(&node.label);
        let label = if node.reason.is_some() {
            out.paint(STRONG, &label).into_owned()
        } else {
            label.into_owned()
        };
        let mut line = format!(
            "{}  {}{label}",
            out.paint(verdict_style(node.verdict), &verdict),
            out.paint(FAINT, &branch)
        );
        if let Some(reason) = node.reason.as_ref().filter(|reason| **reason != node.label) {
            let _ = write!(line, "  {}", out.paint(FAINT, &escape_line(reason)));
        }
        let _ = writeln!(text, "{line}");
        stems.push(stem);
    }
}
