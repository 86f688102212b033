//! Paths in a rule, in the syntax of gitignore.

use super::name_glob::NameGlob;
use super::rule_error::RuleError;

/// The paths that a rule matches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RulePathPattern {
    /// Its base.
    pub(crate) base: PatternBase,
    /// Its components; each is a glob for one name, or `**` for any number of folders.
    pub(crate) parts: Vec<String>,
    /// Whether it ended with `/**`: matches the contents, not the folder itself.
    pub(crate) beneath: bool,
    /// Whether it ended with `/`.
    pub(super) folder: bool,
}

/// The base of a pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PatternBase {
    /// `//x`: the root folder.
    Machine,
    /// `~/x`.
    Home,
    /// `/x`, `./x`, `a/b`: a folder of the workspace.
    Workspace,
    /// `x`, `**/x`: any folder.
    AnyFolder,
    /// `x/**`: any folder for deny and ask rules, the workspace for allow rules.
    AnyFolderUnlessAllow,
}

impl RulePathPattern {
    pub(super) fn parse(text: &str) -> Result<Self, RuleError> {
        if text.starts_with('!') {
            return Err(RuleError::Negation(text.to_owned()));
        }
        if let Some(prefix) = text.strip_suffix(":*") {
            return Err(RuleError::PrefixOfPath(prefix.to_owned()));
        }
        if lists_alternatives(text) {
            return Err(RuleError::Braces(text.to_owned()));
        }
        let (base, body) = if let Some(body) = text.strip_prefix("//") {
            (Some(PatternBase::Machine), body)
        } else if text == "~" {
            (Some(PatternBase::Home), "")
        } else if let Some(body) = text.strip_prefix("~/") {
            (Some(PatternBase::Home), body)
        } else if let Some(body) = text.strip_prefix('/') {
            (Some(PatternBase::Workspace), body)
        } else if text == "." || text.starts_with("./") {
            (Some(PatternBase::Workspace), text)
        } else {
            (None, text)
        };
        let mut parts: Vec<String> = Vec::new();
        for part in body.split('/').filter(|part| !part.is_empty() && *part != ".") {
            if part == ".." {
                return Err(RuleError::Parent(text.to_owned()));
            }
            if part != "**" || parts.last().is_none_or(|last| last != "**") {
                NameGlob::parse(part)
                    .map_err(|reason| RuleError::Glob { pattern: text.to_owned(), reason })?;
                parts.push(part.to_owned());
            }
        }
        let folder = body.ends_with('/');
        let beneath = parts.last().is_some_and(|last| last == "**");
        if beneath {
            parts.pop();
        }
        let base = base.unwrap_or(match parts.as_slice() {
            [] => PatternBase::AnyFolder,
            [first, ..] if first == "**" => PatternBase::AnyFolder,
            [_] if beneath => PatternBase::AnyFolderUnlessAllow,
            [_] => PatternBase::AnyFolder,
            _ => PatternBase::Workspace,
        });
        Ok(Self { base, parts, beneath, folder })
    }

    pub(super) fn is_exact(&self) -> bool {
        !self.beneath && !self.folder && self.parts.iter().all(|part| literal(part).is_some())
    }
}

/// Whether it contains `{a,b}`, which other tools read as two patterns.
fn lists_alternatives(text: &str) -> bool {
    let mut letters = text.chars();
    let (mut open, mut comma) = (false, false);
    while let Some(letter) = letters.next() {
        match letter {
            '\\' => {
                letters.next();
            }
            '{' => (open, comma) = (true, false),
            ',' => comma = open,
            '}' if comma => return true,
            '}' => open = false,
            _ => {}
        }
    }
    false
}

/// The name that a component matches, if it matches only one.
pub(crate) fn literal(part: &str) -> Option<String> {
    let mut name = String::with_capacity(part.len());
    let mut letters = part.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '\\' => name.push(letters.next()?),
            '*' | '?' | '[' => return None,
            letter => name.push(letter),
        }
    }
    Some(name)
}
