//! Edits a git configuration: sets and removes single settings, and leaves everything else as it is.
//!
//! Only plain text is written, so that git and zero cannot read it differently, and the result is
//! parsed again: it must have exactly the wanted settings.

use zero_policy::GitSettingChange;

use super::git_config::{GitSetting, parse_settings};

/// Longest value that is written, in bytes.
const VALUE_BYTES_MAX: usize = 2_000;

/// Why two configurations cannot be compared.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum SettingDiffError {
    #[error("the settings that the command wrote cannot be read")]
    Malformed,
    #[error("`{0}` has several values; zero does not change such a setting")]
    SeveralValues(String),
}

/// The changes that lead from one configuration to another, by the names of the settings. Fails if
/// one is malformed, or if a setting that differs has several values in one of them.
pub(crate) fn diff_settings(
    before: &str,
    after: &str,
) -> Result<Vec<GitSettingChange>, SettingDiffError> {
    let parse = |text| parse_settings(text).ok_or(SettingDiffError::Malformed);
    let (before, after) = (parse(before)?, parse(after)?);
    let mut names: Vec<&str> =
        before.iter().chain(&after).map(|setting| setting.name.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    let mut changes = Vec::new();
    for name in names {
        let (old, new) = (values(&before, name), values(&after, name));
        if old == new {
            continue;
        }
        if old.len() > 1 || new.len() > 1 {
            return Err(SettingDiffError::SeveralValues(name.to_owned()));
        }
        let value = new.first().map(|value| (*value).to_owned());
        changes.push(GitSettingChange { name: name.to_owned(), value });
    }
    Ok(changes)
}

/// The text with the changes made; `None` if they cannot be written in a plain form.
pub(crate) fn apply_changes(text: &str, changes: &[GitSettingChange]) -> Option<String> {
    let mut edited = text.to_owned();
    for change in changes {
        edited = apply_change(&edited, change)?;
    }
    // Whatever the text looks like: exactly these settings may have changed.
    let found = diff_settings(text, &edited).ok()?;
    let is_wanted = found.len() == changes.len() && found.iter().all(|it| changes.contains(it));
    is_wanted.then_some(edited)
}

fn apply_change(text: &str, change: &GitSettingChange) -> Option<String> {
    let name = PlainName::parse(&change.name)?;
    if !change.value.as_deref().is_none_or(is_plain_value) {
        return None;
    }
    let new_line = change.value.as_ref().map(|value| format!("\t{} = {value}\n", name.key));
    let mut edited = String::with_capacity(text.len() + 64);
    let mut in_section = false;
    let mut is_done = false;
    // Where a new setting belongs: after the last line of its section.
    let mut section_end = None;
    for line in text.split_inclusive('\n') {
        if line.trim_start().starts_with('[') {
            in_section = line.trim() == name.header();
        } else if in_section && line_key(line).as_deref() == Some(name.key) {
            // A second one would be a value of its own, and a continued line would lose its end.
            if is_done || line.trim_end().ends_with('\\') {
                return None;
            }
            is_done = true;
            edited.push_str(new_line.as_deref().unwrap_or_default());
            continue;
        }
        edited.push_str(line);
        if in_section && !line.trim().is_empty() {
            section_end = Some(edited.len());
        }
    }
    if is_done {
        return Some(edited);
    }
    let new_line = new_line?;
    let at = section_end.unwrap_or(edited.len());
    let (head, tail) = edited.split_at_checked(at)?;
    let line_end = if head.is_empty() || head.ends_with('\n') { "" } else { "\n" };
    let header = match section_end {
        Some(_) => String::new(),
        None => format!("{}\n", name.header()),
    };
    Some(format!("{head}{line_end}{header}{new_line}{tail}"))
}

/// The key of a line such as `url = x`, in lower case.
fn line_key(line: &str) -> Option<String> {
    let end = line.find(['=', '#', ';']).unwrap_or(line.len());
    let key = line.get(..end)?.trim();
    (!key.is_empty()).then(|| key.to_ascii_lowercase())
}

/// A name of a setting that is written without quotes or escapes.
struct PlainName<'a> {
    section: &'a str,
    subsection: Option<&'a str>,
    key: &'a str,
}

impl<'a> PlainName<'a> {
    fn parse(name: &'a str) -> Option<Self> {
        let (section, rest) = name.split_once('.')?;
        let (subsection, key) = match rest.rsplit_once('.') {
            Some((subsection, key)) => (Some(subsection), key),
            None => (None, rest),
        };
        let is_word = |text: &str| {
            text.starts_with(|c: char| c.is_ascii_alphabetic())
                && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
        };
        let is_inner = |text: &str| {
            let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._/@+-".contains(&byte);
            !text.is_empty() && text.bytes().all(is_plain)
        };
        let is_plain = is_word(section) && is_word(key) && subsection.is_none_or(is_inner);
        is_plain.then_some(Self { section, subsection, key })
    }

    fn header(&self) -> String {
        match self.subsection {
            Some(subsection) => format!("[{} \"{subsection}\"]", self.section),
            None => format!("[{}]", self.section),
        }
    }
}

/// Whether git reads a value as it is written: no quotes, escapes or comments, and no blank at an end.
fn is_plain_value(value: &str) -> bool {
    let is_plain = |c: char| !c.is_control() && !matches!(c, '"' | '\\' | '#' | ';');
    value.len() <= VALUE_BYTES_MAX
        && !value.is_empty()
        && value.trim() == value
        && value.chars().all(is_plain)
}

fn values<'a>(settings: &'a [GitSetting], name: &str) -> Vec<&'a str> {
    let of_name = settings.iter().filter(|setting| setting.name == name);
    of_name.map(|setting| setting.value.as_str()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str =
        "[core]\n\tbare = false\n[remote \"a\"]\n\turl = x # old\n\n[user]\n\tname = Me\n";

    fn change(name: &str, value: Option<&str>) -> GitSettingChange {
        GitSettingChange { name: name.to_owned(), value: value.map(str::to_owned) }
    }

    #[test]
    fn one_setting_changes_and_the_rest_stays() {
        for (name, value, expected) in [
            (
                "remote.a.url",
                Some("https://h/p"),
                TEXT.replace("\turl = x # old", "\turl = https://h/p"),
            ),
            ("remote.a.fetch", Some("+a:b"), TEXT.replace("# old\n", "# old\n\tfetch = +a:b\n")),
            ("user.email", Some("a@b"), format!("{TEXT}\temail = a@b\n")),
            (
                "branch.x/y.merge",
                Some("refs/heads/x"),
                format!("{TEXT}[branch \"x/y\"]\n\tmerge = refs/heads/x\n"),
            ),
            ("user.name", None, TEXT.replace("\tname = Me\n", "")),
        ] {
            let edited = apply_changes(TEXT, &[change(name, value)]);
            assert_eq!(edited, Some(expected), "{name}");
        }
        let without_end = apply_changes("[a]\n\tb = c", &[change("d.e", Some("f"))]);
        assert_eq!(without_end.unwrap(), "[a]\n\tb = c\n[d]\n\te = f\n");
    }

    #[test]
    fn what_is_not_plain_is_refused() {
        for (name, value) in [
            ("user.name", Some("a\nb")),
            ("user.name", Some("a\\")),
            ("user.name", Some("\"a")),
            ("user.name", Some("a # b")),
            ("user.name", Some(" a")),
            ("user.name", Some("")),
            ("user", Some("a")),
            ("user.na me", Some("a")),
            ("remote.a\"b.url", Some("a")),
            ("remote.a]b.url", Some("a")),
            ("core.bare]\n[alias", Some("a")),
            ("user.none", None),
        ] {
            assert_eq!(apply_changes(TEXT, &[change(name, value)]), None, "{name} {value:?}");
        }
        // Written in another form, or several times.
        for text in [
            "[USER]\n\tname = a\n[user]\n\tname = b\n",
            "[user] name = a\n",
            "[user]\n\tname = a\\\nb\n",
            "[user]\n\tname = a\n\tname = b\n",
            "[user\n",
        ] {
            assert_eq!(apply_changes(text, &[change("user.name", Some("c"))]), None, "{text}");
        }
    }

    #[test]
    fn difference_lists_changed_settings() {
        let after = TEXT.replace("Me", "You") + "[x \"Y\"]\n\tz = 1\n";
        let found = diff_settings(TEXT, &after).unwrap();
        assert_eq!(found, [change("user.name", Some("You")), change("x.Y.z", Some("1"))]);
        assert_eq!(diff_settings(TEXT, "[core"), Err(SettingDiffError::Malformed));
        let several = Err(SettingDiffError::SeveralValues("user.name".to_owned()));
        assert_eq!(diff_settings(TEXT, &format!("{TEXT}name = x\n")), several);
    }
}
