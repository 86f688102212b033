//! Builtins that set variables named in their arguments.
//!
//! Only a few forms are supported, and then only those variables change. With any other form, all
//! variables are unknown afterwards.

use super::super::analysis::UncertaintyKind;
use super::super::arg::ShellArg;
use super::super::ast::{ShellWord, WordPart};
use super::super::shell_state::{ShellState, VariableValue};
use super::super::variables::VariableEffect;
use super::array_values::ValueEvaluation;
use super::{NodeContext, ScriptWalker};

/// Options of `read` without a value. `-a` is missing: it sets another variable to a list.
const READ_FLAGS: &str = "ers";
/// Options of `read` with a value.
const READ_VALUED: &str = "dinNptu";

/// The variables that a builtin sets; `None` if they are unknown.
pub(super) fn find_set_variables(builtin: &str, args: &[ShellArg]) -> Option<Vec<String>> {
    let (mut names, operands) = match builtin {
        "read" => (vec!["REPLY".to_owned()], skip_read_options(args)?),
        "unset" => match args {
            [ShellArg::Known(option), rest @ ..] if option == "-v" || option == "--" => {
                (Vec::new(), rest)
            }
            operands => (Vec::new(), operands),
        },
        _ => return None,
    };
    for operand in operands {
        let name = operand.as_known().filter(|name| is_identifier(name))?;
        names.push(name.to_owned());
    }
    Some(names)
}

/// The arguments after the options of `read`.
fn skip_read_options(args: &[ShellArg]) -> Option<&[ShellArg]> {
    let mut rest = args;
    while let [first, after @ ..] = rest {
        let first = first.as_known()?;
        if first == "--" {
            return Some(after);
        }
        let Some(letters) = first.strip_prefix('-').filter(|letters| !letters.is_empty()) else {
            break;
        };
        rest = after;
        let valued = letters.trim_start_matches(|letter| READ_FLAGS.contains(letter));
        let mut valued = valued.chars();
        match valued.next() {
            None => {}
            // Its value is the rest of the word or the next one, which must be one word.
            Some(letter) if READ_VALUED.contains(letter) && valued.next().is_none() => {
                let (value, after) = rest.split_first()?;
                if value.may_split() {
                    return None;
                }
                rest = after;
            }
            Some(letter) if READ_VALUED.contains(letter) => {}
            Some(_) => return None,
        }
    }
    Some(rest)
}

pub(super) fn is_identifier(text: &str) -> bool {
    text.starts_with(|char: char| char.is_ascii_alphabetic() || char == '_')
        && text.chars().all(|char| char.is_ascii_alphanumeric() || char == '_')
}

impl ScriptWalker<'_> {
    /// `declare` and similar builtins.
    pub(super) fn walk_declaration(
        &mut self,
        builtin: &str,
        args: &[ShellArg],
        context: NodeContext,
        state: &mut ShellState,
    ) {
        let span = context.span.unwrap_or_default();
        let options =
            args.iter().any(|arg| arg.may_be_option() || arg.known_prefix().starts_with('+'));
        let exports = builtin == "export";
        let may_export = args.iter().any(|arg| {
            arg.may_be_option() && (arg.as_known().is_none() || arg.known_prefix().contains('x'))
        });
        if builtin == "readonly" || (options && !exports) {
            self.distrust_variables(context, state);
        } else if options {
            *state = state.without_variables();
        }
        let evaluation = ValueEvaluation::new(builtin, args);
        // The positions of lists count the builtin itself.
        let lists = std::mem::take(&mut self.declared_lists);
        for (at, arg) in args.iter().enumerate() {
            let list = lists.iter().find(|(position, _)| *position == at + 1);
            let start = arg.known_prefix().to_owned();
            let name: String = start
                .chars()
                .take_while(|char| char.is_ascii_alphanumeric() || *char == '_')
                .collect();
            if start.starts_with('-') || start.starts_with('+') {
                // `-n` makes a name refer to another, other letters change later assignments, and
                // an exported function exists in other shells.
                let letters = start.get(1..).unwrap_or_default();
                if arg.as_known().is_none()
                    || letters.contains(['n', 'i', 'l', 'u', 'c'])
                    || (letters.contains('f') && (exports || letters.contains('x')))
                {
                    let reason = "the variable may not get the value that is assigned".to_owned();
                    self.record_uncertainty(context, span, UncertaintyKind::Unresolved, reason);
                }
                continue;
            }
            let whole = start.len() > name.len() || matches!(arg, ShellArg::Known(_));
            if !whole || name.is_empty() {
                let reason = format!("which variable `{arg}` sets is only known when it runs");
                self.record_uncertainty(context, span, UncertaintyKind::Unresolved, reason);
                *state = state.without_variables();
                continue;
            }
            self.check_deferred_evaluation(arg, span, context);
            self.record_declared_list(arg, state, context);
            if list.is_some() || evaluation == ValueEvaluation::Always {
                self.arrays.insert(&name);
            }
            match list {
                // Its substitutions are known; subscripts of its elements are calculated.
                Some((_, written)) if written.contains('[') => {
                    self.walk_inner_script(&ShellArg::known(*written), context, &mut state.clone());
                }
                Some(_) => {}
                None => {
                    let value = arg.skip_prefix(name.len());
                    self.walk_declared_value(&name, &value, evaluation, context, state);
                }
            }
            if exports || may_export {
                self.exports |= VariableEffect::new(&name, None) == VariableEffect::Unknown;
            }
            let Some(rest) = start.get(name.len()..).filter(|rest| !rest.is_empty()) else {
                if !exports && builtin != "readonly" {
                    // `local x` creates another variable of that name.
                    state.set(&name, VariableValue::Unknown);
                }
                continue;
            };
            let assigned = rest.strip_prefix('=').map(ShellArg::known);
            let assigned = assigned.filter(|_| arg.as_known().is_some());
            self.check_assigned_value(&name, assigned.as_ref(), span, context);
            if rest.starts_with('[') {
                // The subscript of an element is evaluated, which can set other variables.
                *state = state.without_variables();
            }
            let value = match rest.strip_prefix('=') {
                Some(value) if arg.as_known().is_some() => VariableValue::Known(value.to_owned()),
                _ => VariableValue::Unknown,
            };
            state.set(&name, value);
        }
    }

    /// `declare -a x=(/etc/*)`: globs in a list are expanded.
    fn record_declared_list(&mut self, arg: &ShellArg, state: &ShellState, context: NodeContext) {
        let text = arg.to_string();
        let Some((_, list)) = text.split_once("=(") else { return };
        let globs = list.split_whitespace().filter(|word| word.contains(['*', '?', '[']));
        let globs: Vec<ShellArg> = globs
            .map(|word| match (word.strip_prefix("~/"), self.home) {
                (Some(rest), Some(home)) => format!("{}/{rest}", home.display()),
                _ => word.to_owned(),
            })
            .map(ShellArg::Pattern)
            .collect();
        self.record_listed_folders(&globs, state, context);
    }

    /// Builtins that set variables named in their arguments, or evaluate them as numbers.
    pub(super) fn walk_variable_setter(
        &mut self,
        builtin: &str,
        args: &[ShellArg],
        context: NodeContext,
        state: &mut ShellState,
    ) {
        let span = context.span.unwrap_or_default();
        for arg in args {
            self.check_deferred_evaluation(arg, span, context);
        }
        match builtin {
            "let" => return self.walk_let(args, context, state),
            "unset" => self.unset_functions(args, context, state),
            // Without an option nothing is set.
            "printf" | "wait" if !args.first().is_some_and(ShellArg::may_be_option) => return,
            "test" | "[" => {
                if args.iter().any(|arg| matches!(arg.as_known(), Some("-v" | "-R"))) {
                    *state = state.without_variables();
                }
                return;
            }
            _ => {}
        }
        let named = find_set_variables(builtin, args);
        if named.is_none() && builtin != "unset" {
            args.iter().for_each(|arg| self.arrays.insert_argument(arg));
        }
        if let Some(names) = named {
            for name in names {
                // If it is unset, the shell uses a default.
                let matters = matches!(name.as_str(), "HOME" | "PATH" | "PWD" | "OLDPWD");
                if builtin != "unset" || matters {
                    self.check_assigned_variable(&name, span, context);
                }
                state.set(&name, VariableValue::Unknown);
            }
            return;
        }
        *state = state.without_variables();
        for arg in args {
            match arg {
                // It may be a name, or an option with a name at its end.
                ShellArg::Known(text) => {
                    let target = text.split(['[', '=', '+']).next().unwrap_or(text);
                    let attached = target.trim_start_matches('-').char_indices();
                    let names = attached.filter_map(|(at, _)| {
                        target.trim_start_matches('-').get(at..).filter(|name| is_identifier(name))
                    });
                    let changes = super::super::variables::changes_what_runs;
                    if let Some(name) = names.take(4).find(|name| changes(name)) {
                        self.check_assigned_variable(name, span, context);
                    }
                }
                arg if arg.known_prefix().is_empty() && builtin != "unset" => {
                    let reason = format!("which variable `{arg}` sets is only known when it runs");
                    self.record_uncertainty(context, span, UncertaintyKind::Unresolved, reason);
                }
                _ => {}
            }
        }
    }

    /// `unset` may remove functions, which then no longer take precedence over programs.
    fn unset_functions(&mut self, args: &[ShellArg], context: NodeContext, state: &mut ShellState) {
        let mut removes_function = false;
        for arg in args {
            match arg.as_known() {
                Some(name) => {
                    removes_function |= self.functions.contains(name);
                    removes_function |= name.starts_with('-') && name.contains('f');
                    state.undefine(name);
                }
                None => removes_function = true,
            }
        }
        if removes_function {
            let reason = "a function may be gone afterwards".to_owned();
            self.record_uncertainty(
                context,
                context.span.unwrap_or_default(),
                UncertaintyKind::Unresolved,
                reason,
            );
        }
    }

    /// `let` evaluates each of its arguments.
    fn walk_let(&mut self, args: &[ShellArg], context: NodeContext, state: &mut ShellState) {
        for arg in args {
            let text = arg.to_string();
            let part = WordPart::Text { text, quoted: true };
            let word = ShellWord { parts: vec![part], span: context.span.unwrap_or_default() };
            if arg.as_known().is_some() {
                self.walk_arithmetic(&word, context, state);
            } else {
                self.arrays.insert_any();
                *state = state.without_variables();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(line: &str, expected: Option<&str>) {
        let words: Vec<ShellArg> = line.split_whitespace().map(ShellArg::known).collect();
        let (builtin, args) = words.split_first().unwrap();
        let found = find_set_variables(builtin.as_known().unwrap(), args);
        assert_eq!(found.map(|names| names.join(" ")).as_deref(), expected, "{line}");
    }

    #[test]
    fn only_plain_spellings_name_set_variables() {
        check("read", Some("REPLY"));
        check("read -r a b", Some("REPLY a b"));
        check("read -rs -p text -t5 a", Some("REPLY a"));
        check("read -rd x -- a", Some("REPLY a"));
        check("read -a x", None);
        check("read -rax", None);
        check("read a[x=2]", None);
        check("read -p", None);
        check("unset a b", Some("a b"));
        check("unset -v a", Some("a"));
        check("unset -f a", None);
        check("unset a[x=2]", None);
        check("mapfile a", None);
    }
}
