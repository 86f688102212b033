//! Parses a git configuration as git does: several sections on a line, quoted names, continued
//! values.

/// A setting: its full name, in lower case where git ignores case, and its value.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct GitSetting {
    pub(crate) name: String,
    pub(crate) value: String,
}

/// The settings of a configuration; `None` if it is malformed.
pub(super) fn parse_settings(text: &str) -> Option<Vec<GitSetting>> {
    let mut reader = GitConfigReader { rest: text.strip_prefix('\u{feff}').unwrap_or(text) };
    let mut settings = Vec::new();
    let mut section = String::new();
    loop {
        reader.rest = reader.rest.trim_start();
        match reader.rest.chars().next() {
            None => return Some(settings),
            Some('#' | ';') => reader.skip_line(),
            Some('[') => section = reader.read_section()?,
            Some(first) if first.is_ascii_alphabetic() => {
                let (key, value) = reader.read_setting()?;
                settings.push(GitSetting { name: format!("{section}.{key}"), value });
            }
            Some(_) => return None,
        }
    }
}

struct GitConfigReader<'a> {
    rest: &'a str,
}

impl GitConfigReader<'_> {
    fn skip_line(&mut self) {
        self.rest = self.rest.find('\n').map_or("", |end| &self.rest[end + 1..]);
    }

    /// `[remote "origin"]` → `remote.origin`.
    fn read_section(&mut self) -> Option<String> {
        let inner = self.rest.strip_prefix('[')?;
        let end = inner.find(|char: char| char == ']' || char == '"' || char.is_whitespace())?;
        let mut name = inner[..end].to_ascii_lowercase();
        self.rest = inner[end..].trim_start_matches([' ', '\t']);
        if let Some(quoted) = self.rest.strip_prefix('"') {
            name.push('.');
            let mut chars = quoted.char_indices();
            loop {
                match chars.next()? {
                    (at, '"') => {
                        self.rest = &quoted[at + 1..];
                        break;
                    }
                    (_, '\\') => name.push(chars.next()?.1),
                    (_, '\n') => return None,
                    (_, char) => name.push(char),
                }
            }
        }
        self.rest = self.rest.strip_prefix(']')?;
        Some(name)
    }

    fn read_setting(&mut self) -> Option<(String, String)> {
        let end = self
            .rest
            .find(|char: char| !char.is_ascii_alphanumeric() && char != '-')
            .unwrap_or(self.rest.len());
        let key = self.rest[..end].to_ascii_lowercase();
        self.rest = self.rest[end..].trim_start_matches([' ', '\t']);
        let Some(written) = self.rest.strip_prefix('=') else {
            // A name without a value is a switch that is on; anything else after it is malformed.
            let alone = self.rest.is_empty() || self.rest.starts_with(['\n', '\r', '#', ';']);
            self.skip_line();
            return alone.then(|| (key, "true".to_owned()));
        };
        let mut value = String::new();
        let (mut quoted, mut commented) = (false, false);
        let mut chars = written.char_indices();
        loop {
            match chars.next() {
                None => {
                    self.rest = "";
                    break;
                }
                Some((at, '\n')) => {
                    self.rest = &written[at + 1..];
                    break;
                }
                Some(_) if commented => {}
                Some((_, '"')) => quoted = !quoted,
                Some((_, '#' | ';')) if !quoted => commented = true,
                Some((_, '\\')) => match chars.next() {
                    // The value continues on the next line.
                    Some((_, '\n')) => {}
                    Some((_, '\r')) => {
                        chars.next();
                    }
                    Some((_, char)) => value.push(char),
                    None => return None,
                },
                Some((_, char)) => value.push(char),
            }
        }
        Some((key, value.trim().to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: Option<&[(&str, &str)]>) {
        let found = parse_settings(text);
        let shown: Option<Vec<(&str, &str)>> = found
            .as_ref()
            .map(|found| found.iter().map(|s| (s.name.as_str(), s.value.as_str())).collect());
        assert_eq!(shown.as_deref(), expected, "{text:?}");
    }

    #[test]
    fn config_is_read_as_git_reads_it() {
        check("[core]\n\tbare = false\n", Some(&[("core.bare", "false")]));
        check("\u{feff}[core]\nfsmonitor=x", Some(&[("core.fsmonitor", "x")]));
        check("[a] [core] fsmonitor = ./x", Some(&[("core.fsmonitor", "./x")]));
        check(
            "[a]\nx = b\\\n[foo]\n[core]\nfsmonitor=y",
            Some(&[("a.x", "b[foo]"), ("core.fsmonitor", "y")]),
        );
        check("[filter \"]\"]\nclean = z", Some(&[("filter.].clean", "z")]));
        check("[a]\nb = \"x # y\" # z\nc", Some(&[("a.b", "x # y"), ("a.c", "true")]));
        check("[a\nb", None);
        check("[a]\nb c d", None);
    }
}
