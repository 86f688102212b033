//! Evaluates resources reserved for a tool: notes, and private hosts that settings name for it.
//! They need no allow rule for files or hosts, but deny and ask rules apply.

use zero_core::{NoteChange, RiskLevel};

use super::{EffectAssessment, RequestEvaluator};
use crate::command_access::ChangeScope;
use crate::decision::Verdict;
use crate::host::HostName;
use crate::program::FileAccess;
use crate::rule_set::{PathViews, RuleSet};

impl<'a> RequestEvaluator<'a> {
    /// Evaluates a change of a note.
    pub(super) fn evaluate_note(&self, note: &NoteChange) -> EffectAssessment {
        let NoteChange { scope, name, forgets, file } = note;
        let target = format!("{scope}/{name}");
        let access = if *forgets { FileAccess::Delete } else { FileAccess::Write };
        let ruled = file.as_ref().and_then(|file| {
            let written = crate::path::normalize_lexically(&self.folder().join(file.written()));
            let views = PathViews { written, canonical: file.canonical().to_owned() };
            self.engine.rules.find_strictest_path_rule(self.request.tool, access, &views)
        });
        match ruled {
            Some(rule) if rule.verdict != Verdict::Allow => {
                let judged = EffectAssessment::from_rule("note", target, rule.verdict, rule);
                EffectAssessment {
                    changes: ChangeScope::Unknown,
                    ..judged.with_risk(self.request.risk)
                }
            }
            _ => self.evaluate_by_tool("note", target),
        }
    }

    /// Evaluates a host that settings name for the tool.
    pub(super) fn evaluate_endpoint(&self, text: &str) -> EffectAssessment {
        let tool = self.request.tool;
        let target = text.to_owned();
        let judged = match HostName::from_host(text) {
            Ok(host) => {
                let ruled = self.find_strictest_rule(|rules: &'a RuleSet, verdict| {
                    rules.find_host_rule(verdict, tool, &host)
                });
                match ruled {
                    Some((verdict, rule)) if verdict != Verdict::Allow => {
                        EffectAssessment::from_rule("endpoint", target, verdict, rule)
                    }
                    // An allow rule for hosts, possibly for all of them and from a project, does
                    // not cover a private host.
                    _ => return self.evaluate_by_tool("endpoint", target),
                }
            }
            // No rule can match it.
            Err(error) => {
                EffectAssessment::new("endpoint", target, Verdict::Ask, error.to_string())
            }
        };
        EffectAssessment { changes: ChangeScope::Unknown, ..judged.with_risk(self.request.risk) }
    }

    /// Evaluates an effect by the rule for the tool itself, or else by its risk.
    pub(super) fn evaluate_by_tool(&self, kind: &'static str, target: String) -> EffectAssessment {
        let (tool, risk) = (self.request.tool, self.request.risk);
        let rules = &self.engine.rules;
        let decided = match rules.find_tool_rule(Verdict::Allow, tool, self.request.arguments) {
            Some(rule) => EffectAssessment::from_rule(kind, target, Verdict::Allow, rule),
            None => {
                let verdict = if risk == RiskLevel::Low { Verdict::Allow } else { Verdict::Ask };
                EffectAssessment::new(kind, target, verdict, format!("its risk is {risk}"))
            }
        };
        let changes = match risk {
            RiskLevel::Low => ChangeScope::Nothing,
            _ => ChangeScope::Unknown,
        };
        EffectAssessment { changes, ..decided.with_risk(risk) }
    }
}
