//! Compares the arguments of a program with guarded files and hosts.
//!
//! The effects of a program that is in no table are unknown, but its arguments are visible: `gpg -c
//! .env` names a denied file, `lynx http://evil.com` a host. Such an argument never allows
//! anything; it only restricts what a command rule or the mode would allow.

use std::borrow::Cow;
use std::path::PathBuf;

use zero_core::RiskLevel;

use super::files::{CandidateCompleteness, CoveringRule, PathCandidates};
use super::{EffectAssessment, RequestEvaluator};
use crate::command_access::ChangeScope;
use crate::decision::Verdict;
use crate::host::{HostName, HostNameError};
use crate::permission_mode::PermissionMode;
use crate::program::{CommandClass, FileAccess, sends_operands};
use crate::protected_paths;
use crate::rule::PolicyRule;
use crate::shell::ShellArg;
use crate::shell::analysis::CommandInvocation;
use crate::word_list::words;

/// Most values that are checked in one argument: `a:b:c` has four. With more, the user is asked.
const VALUES_MAX: usize = 64;

/// Most paths of files that one command may send. zero asks about a call with fewer already.
const SENT_OPERANDS_MAX: usize = 1_000;

/// Programs whose operands are keywords, or files that they read or run. A rule against changing a
/// file does not apply to naming it here: `npm run build`, `pytest tests/a.py`.
const READ_ONLY_OPERANDS: &[&str] = words!(
    "ant bazel bun bundle cabal cargo cmake composer dart deno docker dotnet flutter gh git go \
     gradle gradlew helm java jest just kubectl make meson mix mocha mvn mvnw ninja node nox npm \
     npx nx perl php phpunit pip pip3 playwright pnpm podman poetry pytest python python3 rails \
     rake rspec ruby sbt stack swift task terraform tox tsc turbo uv vitest yarn zig"
);

/// A guarded file or host that an argument names.
struct GuardedOperand<'a> {
    verdict: Verdict,
    reason: String,
    rule: Option<&'a PolicyRule>,
}

impl<'a> RequestEvaluator<'a> {
    /// The strictest verdict on the arguments of an unknown program; `None` if none is guarded.
    pub(super) fn evaluate_operands(
        &self,
        invocation: &CommandInvocation,
        label: &str,
        cover: Option<CoveringRule<'a>>,
    ) -> Option<EffectAssessment> {
        let CommandInvocation { argv, analysis, .. } = invocation;
        if analysis.class != CommandClass::Opaque {
            return None;
        }
        let name = argv.first().and_then(ShellArg::as_known).unwrap_or_default();
        let name = name.rsplit('/').next().unwrap_or_default();
        let rules = &self.engine.rules;
        let (files, hosts) = (rules.guards_paths(), rules.guards_hosts());
        // The table for git covers its changes to protected files.
        let exact = cover.is_some_and(|cover| cover.exact);
        let protected = self.mode() == PermissionMode::Auto && !exact && name != "git";
        let access =
            if READ_ONLY_OPERANDS.contains(&name) { FileAccess::Read } else { FileAccess::Write };
        if !(files || hosts || protected) {
            return None;
        }
        let mut strictest: Option<GuardedOperand<'a>> = None;
        let mut keep = |named: GuardedOperand<'a>| {
            if strictest.as_ref().is_none_or(|known| known.verdict < named.verdict) {
                strictest = Some(named);
            }
        };
        for arg in argv.iter().skip(1) {
            let Some(values) = operand_values(arg) else {
                let reason = "it names too many files to compare with the deny rules".to_owned();
                keep(GuardedOperand { verdict: Verdict::Ask, reason, rule: None });
                continue;
            };
            for value in &values {
                let file = || self.find_guarded_file(value, invocation, access, protected);
                (files || protected).then(file).flatten().into_iter().for_each(&mut keep);
                hosts
                    .then(|| self.find_guarded_host(value))
                    .flatten()
                    .into_iter()
                    .for_each(&mut keep);
            }
        }
        let GuardedOperand { verdict, reason, rule } = strictest?;
        let judged = EffectAssessment::new("exec", label.to_owned(), verdict, reason)
            .with_risk(RiskLevel::High);
        let (source, rule) = (rule.map(|r| r.source.to_string()), rule.map(|r| r.text.clone()));
        Some(EffectAssessment { changes: ChangeScope::Unknown, source, rule, ..judged })
    }

    /// The paths that the arguments of a command may name, if it may send files to another machine.
    pub(super) fn list_sent_operands(&self, invocation: &CommandInvocation) -> Vec<PathBuf> {
        if !sends_operands(&invocation.argv) {
            return Vec::new();
        }
        let values = |arg: &ShellArg| operand_values(arg).unwrap_or_else(|| vec![arg.clone()]);
        let found = super::sent_names::sent_words(invocation).flat_map(values).flat_map(|value| {
            self.resolve_candidates(FileAccess::Read, &value, &invocation.folders).files
        });
        found.take(SENT_OPERANDS_MAX).map(|views| views.canonical).collect()
    }

    /// A guarded file that a value names.
    fn find_guarded_file(
        &self,
        value: &ShellArg,
        invocation: &CommandInvocation,
        access: FileAccess,
        protected: bool,
    ) -> Option<GuardedOperand<'a>> {
        let PathCandidates { files, certain } =
            self.resolve_candidates(access, value, &invocation.folders);
        let guards = files.iter().filter_map(|views| {
            let rule = self.engine.rules.find_path_guard(self.request.tool, access, views)?;
            Some((rule, views.canonical.display().to_string()))
        });
        let uncertain = match certain {
            CandidateCompleteness::Incomplete(Some(rule)) => Some((rule, value.to_string())),
            _ => None,
        };
        let strictest = guards.chain(uncertain).max_by_key(|(rule, _)| rule.verdict);
        if let Some((rule, file)) = strictest {
            return Some(guarded_by_rule(rule, &format!("`{file}`")));
        }
        let inside = files.iter().filter(|views| protected && self.is_inside(&views.canonical));
        let why = inside
            .filter_map(|views| self.check_both_views(views, protected_paths::protected_reason))
            .next()?;
        let reason = format!("it names `{value}`, which is {why}, and may change it");
        Some(GuardedOperand { verdict: Verdict::Ask, reason, rule: None })
    }

    /// A guarded host that a value names.
    fn find_guarded_host(&self, value: &ShellArg) -> Option<GuardedOperand<'a>> {
        let text = match value {
            ShellArg::Known(text) => Cow::Borrowed(text.as_str()),
            ShellArg::Pattern(pattern) => Cow::Owned(pattern.replace('\\', "")),
            // `https://host/$path` has a known host.
            ShellArg::Unknown { starts_with, .. } => {
                let (_, rest) = starts_with.split_once("://")?;
                rest.contains(['/', '?', '#']).then_some(Cow::Borrowed(starts_with.as_str()))?
            }
        };
        let user = text.split([':', '/']).next().is_some_and(|start| start.contains('@'));
        let certain = text.contains("://") || user && text.contains(':');
        let looks_like_one = text.split(['/', ':']).next().is_some_and(|host| host.contains('.'));
        if !certain && !looks_like_one {
            return None;
        }
        let (rules, tool) = (&self.engine.rules, self.request.tool);
        let lookup = |verdict, host: &HostName| match certain {
            true => rules.find_host_rule(verdict, tool, host),
            false => rules.find_named_host_rule(verdict, tool, host),
        };
        match HostName::parse(&text) {
            Ok(host) => [Verdict::Deny, Verdict::Ask]
                .into_iter()
                .find_map(|verdict| lookup(verdict, &host))
                .map(|rule| guarded_by_rule(rule, &format!("the host `{host}`"))),
            Err(HostNameError::Missing) => None,
            Err(_) if !certain => None,
            Err(error) => {
                let reason = format!("the host in `{text}` is ambiguous: {error}");
                Some(GuardedOperand { verdict: Verdict::Ask, reason, rule: None })
            }
        }
    }
}

fn guarded_by_rule<'a>(rule: &'a PolicyRule, what: &str) -> GuardedOperand<'a> {
    let says = match rule.verdict {
        Verdict::Deny => "denies it",
        Verdict::Ask | Verdict::Allow => "requires approval",
    };
    let reason = format!("it names {what}, and rule `{}` {says}", rule.text);
    GuardedOperand { verdict: rule.verdict, reason, rule: Some(rule) }
}

/// The values in an argument: the whole argument, the part after `=` or after an option letter, and
/// the parts of a list such as `./secrets:/mnt`. `None` if there are too many.
pub(super) fn operand_values(arg: &ShellArg) -> Option<Vec<ShellArg>> {
    let start = arg.known_prefix();
    let (text, rebuild): (&str, fn(&str) -> ShellArg) = match arg {
        ShellArg::Known(text) => (text, |value| ShellArg::known(value)),
        ShellArg::Pattern(text) => (text, |value| ShellArg::Pattern(value.to_owned())),
        ShellArg::Unknown { .. } => (start, |value| ShellArg::Unknown {
            starts_with: value.to_owned(),
            written: format!("{value}…"),
        }),
    };
    let mut values: Vec<&str> = Vec::new();
    let is_option = text.starts_with('-');
    let assigned = text.split_once('=').map(|(_, value)| value);
    if !is_option {
        values.push(text);
        values.extend(text.strip_prefix('@'));
    } else if assigned.is_none() && !text.starts_with("--") {
        values.extend(text.char_indices().nth(2).and_then(|(at, _)| text.get(at..)));
    }
    values.extend(assigned);
    let lists: Vec<&str> = values.iter().copied().filter(|value| !value.contains("://")).collect();
    for list in lists.into_iter().filter(|list| list.contains([':', ','])) {
        values.extend(list.split([':', ',']));
    }
    values.retain(|value| !value.is_empty());
    values.dedup();
    (values.len() <= VALUES_MAX).then(|| values.into_iter().map(rebuild).collect())
}
