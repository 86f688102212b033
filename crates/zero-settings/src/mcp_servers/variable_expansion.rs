//! Expands `${VAR}` and `${VAR:-default}` in the settings of a server.

use zero_core::text_shortening::shorten_end;

/// The text with its variables expanded. The error names the variable that is unset or invalid.
pub fn expand<'a>(
    text: &str,
    variable: &dyn Fn(&str) -> Option<&'a str>,
) -> Result<String, String> {
    let mut expanded = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("${") {
        expanded.push_str(before);
        let Some((inside, after)) = after.split_once('}') else {
            return Err("a `${` is not closed; write `${NAME}`".to_owned());
        };
        rest = after;
        let (name, default) = match inside.split_once(":-") {
            Some((name, default)) => (name, Some(default)),
            None => (inside, None),
        };
        if !is_variable(name) {
            let shown = shorten_end(inside, 60);
            return Err(format!(
                "`${{{shown}}}` is not a variable; write `${{NAME}}` or `${{NAME:-default}}`"
            ));
        }
        // As in a shell, the default also replaces an empty value.
        let value = match default {
            Some(default) => variable(name).filter(|value| !value.is_empty()).or(Some(default)),
            None => variable(name),
        };
        let Some(value) = value else {
            return Err(format!(
                "the variable `{name}` is not set; set it before you start zero, or write `${{{name}:-default}}`"
            ));
        };
        expanded.push_str(value);
    }
    expanded.push_str(rest);
    Ok(expanded)
}

/// Whether a text is a valid name of an environment variable.
pub fn is_variable(name: &str) -> bool {
    !name.is_empty()
        && !name.starts_with(|c: char| c.is_ascii_digit())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// Whether a text is a single variable and nothing else.
pub fn is_reference(text: &str) -> bool {
    let inside = text.strip_prefix("${").and_then(|rest| rest.strip_suffix('}'));
    inside.is_some_and(is_variable)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: Result<&str, &str>) {
        let variable = |name: &str| match name {
            "A" => Some("a"),
            "EMPTY" => Some(""),
            "TRICKY" => Some("${A}"),
            _ => None,
        };
        match (expand(text, &variable), expected) {
            (Ok(found), Ok(expected)) => assert_eq!(found, expected, "{text}"),
            (Err(found), Err(expected)) => assert!(found.contains(expected), "{text}: {found}"),
            (found, _) => panic!("{text}: {found:?}"),
        }
    }

    #[test]
    fn variables_are_expanded_once() {
        check("plain $A", Ok("plain $A"));
        check("Bearer ${A}", Ok("Bearer a"));
        check("${A}${A}-${B:-b}", Ok("aa-b"));
        check("${EMPTY}|${EMPTY:-x}|${B:-}", Ok("|x|"));
        check("${TRICKY}", Ok("${A}"));
        check("ü${A}ü", Ok("üaü"));
    }

    #[test]
    fn unset_or_invalid_variables_are_reported() {
        check("${B}", Err("the variable `B` is not set"));
        check("x ${A", Err("is not closed"));
        for none in ["${}", "${input:x}", "${1A}", "${A-b}", "${A:+b}"] {
            check(none, Err("is not a variable"));
        }
    }

    #[test]
    fn only_bare_variable_is_reference() {
        for (text, expected) in
            [("${A}", true), ("x${A}", false), ("${A:-secret}", false), ("${A}${B}", false)]
        {
            assert_eq!(is_reference(text), expected, "{text}");
        }
    }
}
