//! `zero policy explain`: a shell command as a tree, with the verdict on each part.

use std::collections::HashMap;
use std::fmt::Write as _;

use serde_json::{Value, json};
use zero_policy::Verdict;
use zero_policy::engine::{VerdictNode, VerdictTree};

use crate::AppContext;
use crate::cli::PolicyExplainArgs;
use crate::exit::ExitOutcome;
use crate::policy::to_json;
use crate::terminal::{FAINT, STRONG, TerminalStream, escape_line, verdict_style};

pub(super) fn run(app: &AppContext, args: &PolicyExplainArgs) -> anyhow::Result<ExitOutcome> {
    let evaluator = app.policy_evaluator(&args.place, args.mode)?;
    let input = json!({ "command": args.command });
    let subject = evaluator.resolve_call("Bash", &input, None).map_err(crate::exit::UsageError)?;
    let (decision, trees) = evaluator.explain(&subject);
    let hooks = match decision.verdict {
        // Hooks are not run for calls that rules deny.
        Verdict::Deny => Vec::new(),
        Verdict::Allow | Verdict::Ask => evaluator.hooks_before("Bash"),
    };
    let out = &app.terminal.out;
    if args.json {
        let mut answer = to_json(&decision);
        answer["tree"] = trees.first().map_or(json!([]), |tree| tree_to_json(&tree.nodes));
        if !hooks.is_empty() {
            answer["hooks"] = json!(hooks);
        }
        out.write_json_line(&answer)?;
    } else {
        let mut text = String::new();
        for tree in &trees {
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
        for hook in &hooks {
            let _ = writeln!(text, "  {} may still deny it, ask or change it", escape_line(hook));
        }
        out.write(&text)?;
    }
    Ok(ExitOutcome::from_verdict(decision.verdict))
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
        if let Some(reason) = &node.reason {
            let _ = write!(line, "  {}", out.paint(FAINT, &escape_line(reason)));
        }
        let _ = writeln!(text, "{line}");
        stems.push(stem);
    }
}
