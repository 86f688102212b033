//! Compares what the arguments of a program name with what is guarded.
//!
//! What a program does that no table knows, nobody can say. But what it is told is in plain sight:
//! `gpg -c .env` names a file that a rule denies, `lynx http://evil.com` a host. Such a name never
//! allows anything; it only holds back what a rule for the command, or the mode, would let run.

use std::borrow::Cow;

use zero_core::Risk;

use super::files::{Certain, Cover, Meaning};
use super::{Case, Judged};
use crate::decision::Verdict;
use crate::host::{HostError, HostName};
use crate::mode::Mode;
use crate::program::{Access, Nature};
use crate::protected;
use crate::rule::Rule;
use crate::shell::Arg;
use crate::shell::analysis::Invocation;

/// Values that are looked at in one argument: `a:b:c` has four. With more, it is asked.
const VALUES_MAX: usize = 64;

/// Programs whose operands are words of their own or files that they read or run. To forbid that a
/// file is changed does not forbid them to name it: `npm run build`, `pytest tests/a.py`.
const ONLY_READ: &[&str] = &[
    "ant",
    "bazel",
    "bun",
    "bundle",
    "cabal",
    "cargo",
    "cmake",
    "composer",
    "dart",
    "deno",
    "docker",
    "dotnet",
    "flutter",
    "gh",
    "git",
    "go",
    "gradle",
    "gradlew",
    "helm",
    "java",
    "jest",
    "just",
    "kubectl",
    "make",
    "meson",
    "mix",
    "mocha",
    "mvn",
    "mvnw",
    "ninja",
    "node",
    "nox",
    "npm",
    "npx",
    "nx",
    "perl",
    "php",
    "phpunit",
    "pip",
    "pip3",
    "playwright",
    "pnpm",
    "podman",
    "poetry",
    "pytest",
    "python",
    "python3",
    "rails",
    "rake",
    "rspec",
    "ruby",
    "sbt",
    "stack",
    "swift",
    "task",
    "terraform",
    "tox",
    "tsc",
    "turbo",
    "uv",
    "vitest",
    "yarn",
    "zig",
];

/// What is guarded and named by an argument.
struct Named<'a> {
    verdict: Verdict,
    reason: String,
    rule: Option<&'a Rule>,
}

impl<'a> Case<'a> {
    /// The strictest verdict on what the arguments of an unknown program name, if one is needed.
    pub(super) fn operands(
        &self,
        invocation: &Invocation,
        label: &str,
        cover: Option<Cover<'a>>,
    ) -> Option<Judged> {
        let Invocation { argv, study, .. } = invocation;
        if study.nature != Nature::Program {
            return None;
        }
        let name = argv.first().and_then(Arg::as_known).unwrap_or_default();
        let name = name.rsplit('/').next().unwrap_or_default();
        let rules = &self.engine.rules;
        let (files, hosts) = (rules.guards_paths(), rules.guards_hosts());
        // What git does to protected files is in its table.
        let exact = cover.is_some_and(|cover| cover.exact);
        let protected = self.mode() == Mode::Auto && !exact && name != "git";
        let access = if ONLY_READ.contains(&name) { Access::Read } else { Access::Write };
        if !(files || hosts || protected) {
            return None;
        }
        let mut strictest: Option<Named<'a>> = None;
        let mut keep = |named: Named<'a>| {
            if strictest.as_ref().is_none_or(|known| known.verdict < named.verdict) {
                strictest = Some(named);
            }
        };
        for arg in argv.iter().skip(1) {
            let Some(values) = values(arg) else {
                let reason = "it names more than can be compared with what is denied".to_owned();
                keep(Named { verdict: Verdict::Ask, reason, rule: None });
                continue;
            };
            for value in &values {
                let file = || self.named_file(value, invocation, access, protected);
                (files || protected).then(file).flatten().into_iter().for_each(&mut keep);
                hosts.then(|| self.named_host(value)).flatten().into_iter().for_each(&mut keep);
            }
        }
        let Named { verdict, reason, rule } = strictest?;
        let judged = Judged::new("exec", label.to_owned(), verdict, reason).at_risk(Risk::High);
        let (source, rule) = (rule.map(|r| r.source.to_string()), rule.map(|r| r.text.clone()));
        Some(Judged { changes: true, source, rule, ..judged })
    }

    /// A file that a value names and that is guarded.
    fn named_file(
        &self,
        value: &Arg,
        invocation: &Invocation,
        access: Access,
        protected: bool,
    ) -> Option<Named<'a>> {
        let Meaning { files, certain } = self.meaning(access, value, &invocation.folders);
        let guards = files.iter().filter_map(|views| {
            let rule = self.engine.rules.guard(self.request.tool, access, views)?;
            Some((rule, views.canonical.display().to_string()))
        });
        let uncertain = match certain {
            Certain::No(Some(rule)) => Some((rule, value.to_string())),
            _ => None,
        };
        let strictest = guards.chain(uncertain).max_by_key(|(rule, _)| rule.verdict);
        if let Some((rule, file)) = strictest {
            return Some(by_rule(rule, &format!("`{file}`")));
        }
        let inside = files.iter().filter(|views| protected && self.is_inside(&views.canonical));
        let why = inside.filter_map(|views| self.of_either(views, protected::protected)).next()?;
        let reason = format!("it names `{value}`, which is {why}, and may change it");
        Some(Named { verdict: Verdict::Ask, reason, rule: None })
    }

    /// A host that a value names and that is guarded.
    fn named_host(&self, value: &Arg) -> Option<Named<'a>> {
        let text = match value {
            Arg::Known(text) => Cow::Borrowed(text.as_str()),
            Arg::Pattern(pattern) => Cow::Owned(pattern.replace('\\', "")),
            // `https://host/$path` names its host all the same.
            Arg::Unknown { starts_with, .. } => {
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
            true => rules.host(verdict, tool, host),
            false => rules.named_host(verdict, tool, host),
        };
        match HostName::parse(&text) {
            Ok(host) => [Verdict::Deny, Verdict::Ask]
                .into_iter()
                .find_map(|verdict| lookup(verdict, &host))
                .map(|rule| by_rule(rule, &format!("the host `{host}`"))),
            Err(HostError::Missing) => None,
            Err(_) if !certain => None,
            Err(error) => {
                let reason = format!("which host `{text}` names is not certain: {error}");
                Some(Named { verdict: Verdict::Ask, reason, rule: None })
            }
        }
    }
}

fn by_rule<'a>(rule: &'a Rule, what: &str) -> Named<'a> {
    let says = match rule.verdict {
        Verdict::Deny => "denies it",
        Verdict::Ask | Verdict::Allow => "says to ask about it",
    };
    let reason = format!("it names {what}, and rule `{}` {says}", rule.text);
    Named { verdict: rule.verdict, reason, rule: Some(rule) }
}

/// The values that an argument may hand over: itself, what follows `=` or an option's letter, and
/// the parts of a list such as `./secrets:/mnt`. `None` when there are too many.
fn values(arg: &Arg) -> Option<Vec<Arg>> {
    let start = arg.certain_start();
    let (text, rebuild): (&str, fn(&str) -> Arg) = match arg {
        Arg::Known(text) => (text, |value| Arg::known(value)),
        Arg::Pattern(text) => (text, |value| Arg::Pattern(value.to_owned())),
        Arg::Unknown { .. } => (start, |value| Arg::Unknown {
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
