//! The front matter of a Markdown file: fields between two lines of `---`, in a subset of YAML.
//!
//! The files come from checkouts, so the reader is strict and its cost is bounded by the size of the
//! text. Read are texts (plain, quoted, `|` and `>` blocks, continued on indented lines) and lists of
//! texts (`[a, b]` or lines with `- a`). Nested mappings are skipped, so that fields of other programs
//! do no harm; anchors, aliases, tags and merge keys are errors.

use crate::text_shortening::excerpt;

/// Most bytes of the lines between the two `---`.
pub const FRONT_MATTER_BYTES_MAX: usize = 16 * 1024;
/// Most fields.
pub const FIELDS_MAX: usize = 64;
/// Most items of a list.
pub const ITEMS_MAX: usize = 256;
/// Most characters of a field's name.
const KEY_CHARS_MAX: usize = 64;
/// Characters of a wrong line that its error quotes.
const QUOTED_CHARS_MAX: usize = 60;

/// The fields of a file, in their order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FrontMatter {
    fields: Vec<FrontMatterField>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct FrontMatterField {
    key: String,
    line: usize,
    value: FieldValue,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum FieldValue {
    Text(String),
    List(Vec<String>),
    /// A nested mapping, which is not read.
    Mapping,
}

/// What is wrong with the front matter of a file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {message}")]
pub struct FrontMatterError {
    /// Line of the file, from 1.
    pub line: usize,
    /// What is wrong there and what to write instead.
    pub message: String,
}

impl FrontMatter {
    /// Splits a file into its front matter and the text after it. A file that does not begin with
    /// `---` has no fields.
    pub fn parse(text: &str) -> Result<(Self, &str), FrontMatterError> {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let Some(after) = strip_marker(text) else { return Ok((Self::default(), text)) };
        let mut lines = Vec::new();
        let mut rest = after;
        loop {
            if after.len() - rest.len() > FRONT_MATTER_BYTES_MAX {
                let message = format!(
                    "the front matter is larger than {FRONT_MATTER_BYTES_MAX} bytes, or its end `---` is missing"
                );
                return Err(error_at(1, message));
            }
            if let Some(body) = strip_marker(rest) {
                return Ok((Self::from_lines(&lines)?, body));
            }
            if rest.is_empty() {
                return Err(error_at(
                    1,
                    "the front matter has no end; add a line `---` after its fields",
                ));
            }
            let (line, below) = rest.split_once('\n').unwrap_or((rest, ""));
            lines.push(line.strip_suffix('\r').unwrap_or(line));
            rest = below;
        }
    }

    /// The text of a field; `None` if the field is absent or empty.
    pub fn text(&self, key: &str) -> Result<Option<&str>, FrontMatterError> {
        match self.find(key) {
            None => Ok(None),
            Some(FrontMatterField { value: FieldValue::Text(text), .. }) => {
                Ok(Some(text.as_str()).filter(|text| !text.trim().is_empty()))
            }
            Some(field) => {
                Err(error_at(field.line, format!("`{key}` must be a text, not a list or mapping")))
            }
        }
    }

    /// The items of a list, or of a text with commas; `None` if the field is absent.
    pub fn list(&self, key: &str) -> Result<Option<Vec<String>>, FrontMatterError> {
        match self.find(key) {
            None => Ok(None),
            Some(FrontMatterField { value: FieldValue::List(items), .. }) => {
                Ok(Some(items.clone()))
            }
            Some(FrontMatterField { value: FieldValue::Text(text), .. }) => {
                let items = text.split(',').map(str::trim).filter(|item| !item.is_empty());
                Ok(Some(items.map(str::to_owned).collect()))
            }
            Some(field) => {
                Err(error_at(field.line, format!("`{key}` must be a list, not a mapping")))
            }
        }
    }

    /// Line of a field in the file, for errors about its value; 1 if it is absent.
    pub fn line(&self, key: &str) -> usize {
        self.find(key).map_or(1, |field| field.line)
    }

    /// Names of the fields.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.fields.iter().map(|field| field.key.as_str())
    }

    fn find(&self, key: &str) -> Option<&FrontMatterField> {
        self.fields.iter().find(|field| field.key == key)
    }

    fn from_lines(lines: &[&str]) -> Result<Self, FrontMatterError> {
        let mut fields: Vec<FrontMatterField> = Vec::new();
        let mut reader = FrontMatterLines { lines, next: 0 };
        while let Some((line, text)) = reader.take() {
            if is_blank(text) {
                continue;
            }
            let (key, value) = split_field(line, text)?;
            if fields.iter().any(|field| field.key == key) {
                return Err(error_at(line, format!("`{key}` is there twice; remove one")));
            }
            if fields.len() >= FIELDS_MAX {
                return Err(error_at(line, format!("more than {FIELDS_MAX} fields")));
            }
            let value = reader.read_value(line, value)?;
            fields.push(FrontMatterField { key: key.to_owned(), line, value });
        }
        Ok(Self { fields })
    }
}

/// The text after a line that consists of `---`.
fn strip_marker(text: &str) -> Option<&str> {
    let after = text.strip_prefix("---")?;
    let (rest, below) = after.split_once('\n').unwrap_or((after, ""));
    rest.trim_end().is_empty().then_some(below)
}

fn split_field(line: usize, text: &str) -> Result<(&str, &str), FrontMatterError> {
    let wrong = || {
        let quoted = excerpt(text, QUOTED_CHARS_MAX);
        error_at(line, format!("`{quoted}` is not a field; write `name: value`"))
    };
    if text.starts_with([' ', '\t']) {
        let quoted = excerpt(text, QUOTED_CHARS_MAX);
        return Err(error_at(line, format!("`{quoted}` is indented and belongs to no field")));
    }
    let (key, value) = text.split_once(':').ok_or_else(wrong)?;
    let is_key = !key.is_empty()
        && key.chars().count() <= KEY_CHARS_MAX
        && key.chars().all(|c| c.is_ascii_alphanumeric() || "_-.".contains(c));
    // `a:b` is a text in YAML.
    let is_separated = value.is_empty() || value.starts_with([' ', '\t']);
    match is_key && is_separated {
        true => Ok((key, value.trim())),
        false => Err(wrong()),
    }
}

/// The lines between the markers. The first one is line 2 of the file.
struct FrontMatterLines<'a> {
    lines: &'a [&'a str],
    next: usize,
}

impl<'a> FrontMatterLines<'a> {
    fn take(&mut self) -> Option<(usize, &'a str)> {
        let text = self.lines.get(self.next)?;
        self.next += 1;
        Some((self.next + 1, text))
    }

    /// The next line if it belongs to the present field: blank, a comment or indented.
    fn take_below(&mut self) -> Option<(usize, &'a str)> {
        let text = self.lines.get(self.next)?;
        (is_blank(text) || text.starts_with([' ', '\t'])).then(|| self.take()).flatten()
    }

    fn read_value(&mut self, line: usize, value: &str) -> Result<FieldValue, FrontMatterError> {
        let value = if value.starts_with('#') { "" } else { value };
        if let Some(style) = value.strip_prefix(['|', '>']) {
            let style = style.split(" #").next().unwrap_or_default().trim();
            if !matches!(style, "" | "-" | "+") {
                let message = "write a block of text as `|` or `>` without a number";
                return Err(error_at(line, message));
            }
            return self.read_block(line, value.starts_with('>'));
        }
        match value.chars().next() {
            None => self.read_nested(),
            Some('[') => self.read_inline_list(line, value),
            Some('{') => {
                self.skip_below();
                match strip_comment(value).ends_with('}') {
                    true => Ok(FieldValue::Mapping),
                    false => Err(error_at(line, "a mapping must end on its line, with `}`")),
                }
            }
            Some('"' | '\'') => {
                let (text, rest) = read_quoted(line, value)?;
                expect_end(line, rest)?;
                Ok(FieldValue::Text(text))
            }
            Some(_) => self.read_plain(line, value).map(FieldValue::Text),
        }
    }

    /// A text without quotes. Indented lines continue it.
    fn read_plain(&mut self, line: usize, value: &str) -> Result<String, FrontMatterError> {
        let mut text = check_plain(line, strip_comment(value))?.to_owned();
        while let Some((_, more)) = self.take_below() {
            let more = strip_comment(more.trim());
            if !more.is_empty() && !more.starts_with('#') {
                text.push(' ');
                text.push_str(more);
            }
        }
        Ok(text)
    }

    /// A block of text, as it is or with its lines joined.
    fn read_block(&mut self, line: usize, is_folded: bool) -> Result<FieldValue, FrontMatterError> {
        let mut lines: Vec<&str> = Vec::new();
        while let Some(text) = self.lines.get(self.next) {
            if !text.trim().is_empty() && !text.starts_with([' ', '\t']) {
                break;
            }
            if text.trim_start_matches(' ').starts_with('\t') {
                return Err(error_at(line, "indent a block of text with spaces, not tabs"));
            }
            self.next += 1;
            lines.push(text);
        }
        let indent = |text: &&str| text.len() - text.trim_start_matches(' ').len();
        let written = lines.iter().filter(|text| !text.trim().is_empty());
        let least = written.map(indent).min().unwrap_or(0);
        let lines = lines.into_iter().map(|text| text.get(least..).unwrap_or_default().trim_end());
        if !is_folded {
            let text = lines.collect::<Vec<_>>().join("\n");
            return Ok(FieldValue::Text(text.trim_end().to_owned()));
        }
        let mut text = String::new();
        for line in lines {
            match (line.is_empty(), text.is_empty() || text.ends_with('\n')) {
                (true, _) => text.push('\n'),
                (false, true) => text.push_str(line),
                (false, false) => {
                    text.push(' ');
                    text.push_str(line);
                }
            }
        }
        Ok(FieldValue::Text(text.trim().to_owned()))
    }

    /// What is below a field without a value: a list, a text, a mapping, or nothing.
    fn read_nested(&mut self) -> Result<FieldValue, FrontMatterError> {
        let mut items: Option<Vec<String>> = None;
        let mut text: Option<String> = None;
        while let Some(&below) = self.lines.get(self.next) {
            let trimmed = below.trim();
            let is_item = trimmed == "-" || trimmed.starts_with("- ");
            if !is_blank(below) && !below.starts_with([' ', '\t']) && !is_item {
                break;
            }
            let Some((line, _)) = self.take() else { break };
            if is_blank(below) {
                continue;
            }
            if below.starts_with('\t') {
                return Err(error_at(line, "indent with spaces, not tabs"));
            }
            match (is_item, &mut items, &mut text) {
                (true, items, None) => {
                    let items = items.get_or_insert_default();
                    if items.len() >= ITEMS_MAX {
                        return Err(error_at(line, format!("more than {ITEMS_MAX} items")));
                    }
                    let item = trimmed.strip_prefix('-').unwrap_or_default().trim();
                    items.push(read_item(line, item)?);
                }
                (false, None, text) => {
                    if text.is_none() && split_field(line, trimmed).is_ok() {
                        self.skip_below();
                        return Ok(FieldValue::Mapping);
                    }
                    let more = check_plain(line, strip_comment(trimmed))?;
                    let text = text.get_or_insert_default();
                    if !text.is_empty() {
                        text.push(' ');
                    }
                    text.push_str(more);
                }
                _ => return Err(error_at(line, "a list and a text cannot be mixed")),
            }
        }
        Ok(match items {
            Some(items) => FieldValue::List(items),
            None => FieldValue::Text(text.unwrap_or_default()),
        })
    }

    fn read_inline_list(
        &mut self,
        line: usize,
        value: &str,
    ) -> Result<FieldValue, FrontMatterError> {
        let mut items = Vec::new();
        let mut rest = value.strip_prefix('[').unwrap_or(value).trim_start();
        loop {
            if let Some(after) = rest.strip_prefix(']') {
                expect_end(line, after)?;
                return Ok(FieldValue::List(items));
            }
            if rest.is_empty() {
                return Err(error_at(line, "a list in `[` must end on its line, with `]`"));
            }
            if items.len() >= ITEMS_MAX {
                return Err(error_at(line, format!("more than {ITEMS_MAX} items")));
            }
            let (item, after) = match rest.starts_with(['"', '\'']) {
                true => read_quoted(line, rest)?,
                false => {
                    let end = rest.find([',', ']']).unwrap_or(rest.len());
                    let (item, after) = rest.split_at(end);
                    (check_plain(line, item.trim())?.to_owned(), after)
                }
            };
            if item.starts_with(['[', '{']) {
                return Err(error_at(line, "a list may contain texts only"));
            }
            items.push(item);
            let after = after.trim_start();
            rest = match after.strip_prefix(',') {
                Some(after) => after.trim_start(),
                None if after.starts_with(']') || after.is_empty() => after,
                None => return Err(error_at(line, "separate the items of a list by commas")),
            };
        }
    }

    fn skip_below(&mut self) {
        while self.take_below().is_some() {}
    }
}

fn read_item(line: usize, item: &str) -> Result<String, FrontMatterError> {
    if item.starts_with(['"', '\'']) {
        let (text, rest) = read_quoted(line, item)?;
        expect_end(line, rest)?;
        return Ok(text);
    }
    if item.starts_with(['[', '{', '|', '>']) || split_field(line, item).is_ok() {
        return Err(error_at(line, "a list may contain texts only; quote this one"));
    }
    Ok(check_plain(line, strip_comment(item))?.to_owned())
}

/// Reads a quoted text; returns it and what follows it.
fn read_quoted(line: usize, value: &str) -> Result<(String, &str), FrontMatterError> {
    let mut chars = value.char_indices();
    let quote = chars.next().map_or('"', |(_, quote)| quote);
    let mut text = String::new();
    while let Some((at, c)) = chars.next() {
        let rest = value.get(at + c.len_utf8()..).unwrap_or_default();
        match c {
            '\'' if quote == '\'' && rest.starts_with('\'') => {
                text.push('\'');
                chars.next();
            }
            c if c == quote => return Ok((text, rest)),
            '\\' if quote == '"' => match chars.next() {
                Some((_, 'n')) => text.push('\n'),
                Some((_, 't')) => text.push('\t'),
                Some((_, c @ ('"' | '\\' | '/'))) => text.push(c),
                _ => {
                    let message = "in double quotes, `\\` must precede `\"`, `\\`, `/`, `n` or `t`";
                    return Err(error_at(line, message));
                }
            },
            c => text.push(c),
        }
    }
    Err(error_at(line, "a quoted text must end on its line"))
}

fn expect_end(line: usize, rest: &str) -> Result<(), FrontMatterError> {
    match strip_comment(rest).trim() {
        "" => Ok(()),
        more => {
            let quoted = excerpt(more, QUOTED_CHARS_MAX);
            Err(error_at(line, format!("`{quoted}` follows the end of the value")))
        }
    }
}

/// A text without quotes, unless YAML gives its first character another meaning.
fn check_plain(line: usize, text: &str) -> Result<&str, FrontMatterError> {
    match text.chars().next() {
        Some(c @ ('&' | '*' | '!' | '%' | '@' | '`')) => {
            let message = format!(
                "`{c}` has a special meaning in YAML that zero does not read; quote the text"
            );
            Err(error_at(line, message))
        }
        _ => Ok(text),
    }
}

fn strip_comment(text: &str) -> &str {
    if text.starts_with('#') {
        return "";
    }
    text.split_once(" #").map_or(text, |(before, _)| before).trim_end()
}

fn is_blank(text: &str) -> bool {
    let text = text.trim();
    text.is_empty() || text.starts_with('#')
}

fn error_at(line: usize, message: impl Into<String>) -> FrontMatterError {
    FrontMatterError { line, message: message.into() }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Checks the fields, each as `key=text` or `key=[a|b]`, or the error.
    #[track_caller]
    fn check(head: &str, expected: &str) {
        let text = format!("---\n{head}\n---\nBody.\n");
        let found = match FrontMatter::parse(&text) {
            Err(error) => error.to_string(),
            Ok((front, body)) => {
                assert_eq!(body, "Body.\n");
                let field = |field: &FrontMatterField| match &field.value {
                    FieldValue::Text(text) => format!("{}={text}", field.key),
                    FieldValue::List(items) => format!("{}=[{}]", field.key, items.join("|")),
                    FieldValue::Mapping => format!("{}={{}}", field.key),
                };
                front.fields.iter().map(field).collect::<Vec<_>>().join("; ")
            }
        };
        assert_eq!(found, expected, "{head:?}");
    }

    #[test]
    fn texts_are_read_in_every_style() {
        check("name: a b\ndescription:  c: d ", "name=a b; description=c: d");
        check("a: x # comment\n# whole line\n\nb: y#z", "a=x; b=y#z");
        check("a: \"x: \\\"y\\\"\\n\" # c\nb: 'it''s'", "a=x: \"y\"\n; b=it's");
        check("a: first\n  second\n  third\nb: x", "a=first second third; b=x");
        check("a:\n  first\n  second\nb:", "a=first second; b=");
        check("a: |\n  one\n    two\n\n  three\nb: x", "a=one\n  two\n\nthree; b=x");
        check("a: >-\n  one\n  two\n\n  three\n", "a=one two\nthree");
        check("a: 5\nb: true", "a=5; b=true");
        check("", "");
    }

    #[test]
    fn lists_are_read_inline_and_in_lines() {
        check("a: [x, 'y, z', \"w\"]", "a=[x|y, z|w]");
        check("a: []\nb: [x,]", "a=[]; b=[x]");
        check("a:\n  - x\n  - 'y: z'\nb:\n- w", "a=[x|y: z]; b=[w]");
        let (front, _) = FrontMatter::parse("---\ntools: Read, Grep ,\n---\n").unwrap();
        assert_eq!(front.list("tools").unwrap().unwrap(), ["Read", "Grep"]);
    }

    #[test]
    fn mappings_of_other_programs_are_skipped() {
        check("metadata:\n  author: x\n  deep:\n    - y\nname: n", "metadata={}; name=n");
        check("m: {a: b}\nname: n", "m={}; name=n");
        let (front, _) = FrontMatter::parse("---\nname:\n  a: b\n---\n").unwrap();
        let error = front.text("name").unwrap_err().to_string();
        assert_eq!(error, "line 2: `name` must be a text, not a list or mapping");
        assert_eq!(front.text("other"), Ok(None));
    }

    #[test]
    fn wrong_lines_are_reported_with_their_number() {
        check("a: x\nno field", "line 3: `no field` is not a field; write `name: value`");
        check("a:b", "line 2: `a:b` is not a field; write `name: value`");
        check("  a: x", "line 2: `  a: x` is indented and belongs to no field");
        check("a: x\na: y", "line 3: `a` is there twice; remove one");
        check("a: \"x", "line 2: a quoted text must end on its line");
        check("a: 'x' y", "line 2: `y` follows the end of the value");
        check("a: [x", "line 2: a list in `[` must end on its line, with `]`");
        check("a: [[x]]", "line 2: a list may contain texts only");
        check("a:\n  - b: c", "line 3: a list may contain texts only; quote this one");
        check("a:\n  - b\n  c", "line 4: a list and a text cannot be mixed");
        check("a: |2\n  x", "line 2: write a block of text as `|` or `>` without a number");
        let special = "has a special meaning in YAML that zero does not read; quote the text";
        check("a: &anchor x", &format!("line 2: `&` {special}"));
        check("b: *anchor", &format!("line 2: `*` {special}"));
        check("a: !!python/object x", &format!("line 2: `!` {special}"));
    }

    #[test]
    fn file_without_front_matter_is_all_text() {
        let all = |text: &str| {
            let (front, body) = FrontMatter::parse(text).unwrap();
            (front.fields.len(), body.to_owned())
        };
        assert_eq!(all("# Head\n---\n"), (0, "# Head\n---\n".to_owned()));
        assert_eq!(all("----\nx"), (0, "----\nx".to_owned()));
        assert_eq!(all("\u{feff}---\r\na: b\r\n---\r\nBody"), (1, "Body".to_owned()));
        assert_eq!(all("---\na: b\n---"), (1, String::new()));
        let error = FrontMatter::parse("---\na: b\n").unwrap_err().to_string();
        assert!(error.starts_with("line 1: the front matter has no end"), "{error}");
    }

    #[test]
    fn size_is_bounded() {
        let error = |text: String| FrontMatter::parse(&text).unwrap_err().to_string();
        let long = format!("---\na: {}\nb: c\n---\n", "x".repeat(FRONT_MATTER_BYTES_MAX));
        assert!(error(long).contains("is larger than 16384 bytes"));
        let fields: String = (0..=FIELDS_MAX).map(|at| format!("f{at}: x\n")).collect();
        assert!(error(format!("---\n{fields}---\n")).contains("more than 64 fields"));
        let items = "x,".repeat(ITEMS_MAX + 1);
        assert!(error(format!("---\na: [{items}]\n---\n")).contains("more than 256 items"));
        let items = "- x\n".repeat(ITEMS_MAX + 1);
        assert!(error(format!("---\na:\n{items}---\n")).contains("more than 256 items"));
    }

    proptest! {
        #[test]
        fn arbitrary_text_never_panics(text in "(---\n)?[ \t\n\r:#\\-\\[\\]{}|>'\"\\\\&,a-cü]{0,200}(\n---\n)?x?") {
            let _ = FrontMatter::parse(&text);
        }

        #[test]
        fn plain_text_is_read_as_written(value in "[a-z][a-z0-9 ,.]{0,40}[a-z]") {
            let text = format!("---\na: {value}\n---\n");
            let (front, _) = FrontMatter::parse(&text).unwrap();
            prop_assert_eq!(front.text("a").unwrap(), Some(value.as_str()));
        }
    }
}
