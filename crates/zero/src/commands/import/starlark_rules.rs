//! The rules files of Codex: calls of `prefix_rule` and `host_executable` with literal arguments.
//!
//! They are written in a programming language. zero reads the form that Codex itself writes, and refuses
//! a file with anything else, because a rule in it could be lost.

/// Largest number of tokens in a file.
const TOKENS_MAX: usize = 200_000;
/// How deep lists are nested.
const DEPTH_MAX: usize = 8;

/// A literal value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum StarlarkValue {
    Text(String),
    List(Vec<StarlarkValue>),
}

/// A call with its named arguments.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct StarlarkCall {
    pub(super) function: String,
    pub(super) line: usize,
    pub(super) arguments: Vec<(String, StarlarkValue)>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum StarlarkToken {
    Name(String),
    Text(String),
    Mark(char),
}

/// The calls of a file; the error is the line with something else.
pub(super) fn parse_calls(text: &str) -> Result<Vec<StarlarkCall>, usize> {
    let tokens = tokenize(text)?;
    let mut parser = CallParser { tokens: &tokens, at: 0 };
    let mut calls = Vec::new();
    while parser.at < tokens.len() {
        calls.push(parser.call()?);
    }
    Ok(calls)
}

fn tokenize(text: &str) -> Result<Vec<(usize, StarlarkToken)>, usize> {
    let mut tokens = Vec::new();
    let mut line = 1;
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        if tokens.len() > TOKENS_MAX {
            return Err(line);
        }
        let token = match letter {
            '\n' => {
                line += 1;
                continue;
            }
            letter if letter.is_whitespace() => continue,
            '#' => {
                while letters.peek().is_some_and(|next| *next != '\n') {
                    letters.next();
                }
                continue;
            }
            '(' | ')' | '[' | ']' | ',' | '=' => StarlarkToken::Mark(letter),
            quote @ ('"' | '\'') => {
                let mut value = String::new();
                loop {
                    match letters.next() {
                        Some(end) if end == quote => break,
                        Some('\\') => match letters.next() {
                            Some('n') => value.push('\n'),
                            Some('t') => value.push('\t'),
                            Some(escaped @ ('\\' | '"' | '\'')) => value.push(escaped),
                            _ => return Err(line),
                        },
                        Some('\n') | None => return Err(line),
                        Some(letter) => value.push(letter),
                    }
                }
                // Three quotes begin a text of several lines, which no rule needs.
                if value.is_empty() && letters.peek() == Some(&quote) {
                    return Err(line);
                }
                StarlarkToken::Text(value)
            }
            letter if letter.is_ascii_alphabetic() || letter == '_' => {
                let mut name = letter.to_string();
                while let Some(next) =
                    letters.peek().filter(|c| c.is_ascii_alphanumeric() || **c == '_')
                {
                    name.push(*next);
                    letters.next();
                }
                StarlarkToken::Name(name)
            }
            _ => return Err(line),
        };
        tokens.push((line, token));
    }
    Ok(tokens)
}

struct CallParser<'a> {
    tokens: &'a [(usize, StarlarkToken)],
    at: usize,
}

impl CallParser<'_> {
    fn call(&mut self) -> Result<StarlarkCall, usize> {
        let line = self.line();
        let function = self.name()?;
        self.mark('(')?;
        let mut arguments = Vec::new();
        while !self.takes(')') {
            let name = self.name()?;
            self.mark('=')?;
            arguments.push((name, self.value(0)?));
            if !self.takes(',') {
                self.mark(')')?;
                break;
            }
        }
        Ok(StarlarkCall { function, line, arguments })
    }

    fn value(&mut self, depth: usize) -> Result<StarlarkValue, usize> {
        let line = self.line();
        if depth > DEPTH_MAX {
            return Err(line);
        }
        match self.next() {
            Some(StarlarkToken::Text(text)) => Ok(StarlarkValue::Text(text)),
            Some(StarlarkToken::Mark('[')) => {
                let mut items = Vec::new();
                while !self.takes(']') {
                    items.push(self.value(depth + 1)?);
                    if !self.takes(',') {
                        self.mark(']')?;
                        break;
                    }
                }
                Ok(StarlarkValue::List(items))
            }
            _ => Err(line),
        }
    }

    fn line(&self) -> usize {
        self.tokens.get(self.at).or(self.tokens.last()).map_or(1, |(line, _)| *line)
    }

    fn next(&mut self) -> Option<StarlarkToken> {
        let token = self.tokens.get(self.at).map(|(_, token)| token.clone());
        self.at += 1;
        token
    }

    fn name(&mut self) -> Result<String, usize> {
        let line = self.line();
        match self.next() {
            Some(StarlarkToken::Name(name)) => Ok(name),
            _ => Err(line),
        }
    }

    fn mark(&mut self, mark: char) -> Result<(), usize> {
        let line = self.line();
        match self.takes(mark) {
            true => Ok(()),
            false => Err(line),
        }
    }

    fn takes(&mut self, mark: char) -> bool {
        let is_next = matches!(self.tokens.get(self.at), Some((_, StarlarkToken::Mark(next))) if *next == mark);
        self.at += usize::from(is_next);
        is_next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_with_literals_are_read() {
        let text = "# mine\nprefix_rule(\n    pattern = [\"git\", [\"push\", 'pull']], # both\n    decision = \"forbidden\",\n)\nprefix_rule(pattern=[\"ls\"])\n";
        let calls = parse_calls(text).unwrap();
        let word = |text: &str| StarlarkValue::Text(text.to_owned());
        assert_eq!(calls.len(), 2);
        assert_eq!(calls[0].line, 2);
        assert_eq!(
            calls[0].arguments[0].1,
            StarlarkValue::List(vec![
                word("git"),
                StarlarkValue::List(vec![word("push"), word("pull")])
            ])
        );
        assert_eq!(parse_calls(""), Ok(Vec::new()));
    }

    #[test]
    fn anything_else_is_an_error_with_its_line() {
        for (text, line) in [
            ("\nx = 1", 2),
            ("def f():\n  pass", 1),
            ("prefix_rule(pattern = a + b)", 1),
            ("prefix_rule(\"x\")", 1),
            ("prefix_rule(pattern = [\"a\"", 1),
            ("prefix_rule(pattern = \"a\n\")", 1),
            ("prefix_rule(pattern = \"\"\"a\"\"\")", 1),
            ("load(\"x\")", 1),
            ("prefix_rule(pattern = [[[[[[[[[[[\"a\"]]]]]]]]]]])", 1),
        ] {
            assert_eq!(parse_calls(text), Err(line), "{text}");
        }
    }
}
