//! Which values in a file or environment are secret.
//!
//! A name or a format tells: `DB_PASSWORD` holds a secret whatever it is, `DATABASE_URL` only if it has
//! a password. The rule has to be right in both directions. A secret that is missed reaches the model;
//! an ordinary word that is masked makes results unreadable.

use std::borrow::Cow;
use std::path::Path;

use serde_json::Value;
use zero_core::SecretValue;
use zero_core::secret_mask::VALUE_CHARS_MIN;

use super::code_words::is_code;
use super::{is_secret_field, redact_text, snake_case};

/// Most secret values.
pub(super) const VALUES_MAX: usize = 4_096;
/// Most bytes of all secret values.
pub(super) const VALUE_BYTES_MAX: usize = 2 << 20;
/// Shortest line of a key that counts as a part of it.
const KEY_LINE_CHARS_MIN: usize = 16;
/// Shortest value with a harmless name that is secret because it looks random.
const RANDOM_CHARS_MIN: usize = 32;
/// Deepest level of a file that is searched for values.
const DEPTH_MAX: usize = 64;

/// Last words of names that describe a secret, but do not hold it.
const DESCRIBING_WORDS: &[&str] = &[
    "algorithm",
    "audience",
    "count",
    "dir",
    "duration",
    "enabled",
    "endpoint",
    "env",
    "expiration",
    "expires",
    "expiry",
    "file",
    "format",
    "header",
    "host",
    "id",
    "issuer",
    "length",
    "lifetime",
    "limit",
    "max",
    "min",
    "name",
    "path",
    "port",
    "prefix",
    "region",
    "size",
    "timeout",
    "ttl",
    "type",
    "uri",
    "url",
    "user",
    "username",
    "version",
];
/// Variables that the shell sets to folders.
const FOLDER_VARIABLES: &[&str] = &["PWD", "OLDPWD"];
/// Words in names of values that are public.
const PUBLIC_WORDS: &[&str] = &["public", "publishable"];
/// The same, unless the value has the format of a secret.
const USUALLY_PUBLIC_WORDS: &[&str] = &["pub", "sha", "checksum", "integrity", "commit"];
/// Most values of a file. If it has more, they are not known.
const FILE_VALUES_MAX: usize = 4_096;
/// Most names of values that are not secret and are listed.
const LEFT_ALONE_MAX: usize = 1_000;
/// Most lines of a quoted value.
const QUOTED_LINES_MAX: usize = 200;
/// Last words of names whose values are secret even if they look ordinary.
const CERTAIN_WORDS: &[&str] =
    &["password", "passwd", "passphrase", "passwort", "pwd", "secret", "token", "key", "apikey"];
/// Values that many people use while they develop.
const COMMON_VALUES: &[&str] = &[
    "administrator",
    "changeme",
    "change-me",
    "change_me",
    "development",
    "disabled",
    "dummy",
    "enabled",
    "example",
    "localhost",
    "mysecret",
    "passw0rd",
    "password",
    "password1",
    "password123",
    "placeholder",
    "postgres",
    "postgresql",
    "production",
    "required",
    "secretkey",
    "staging",
    "supersecret",
    "testing",
    "testpass",
    "testpassword",
    "undefined",
    "username",
    "00000000",
    "11111111",
    "12345678",
    "123456789",
    "1234567890",
];
/// Words in texts that stand for a value.
const PLACEHOLDER_WORDS: &[&str] =
    &["your", "change", "example", "placeholder", "replace", "todo", "insert", "dummy", "xxx"];

/// What a file says about secrets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct FileSecrets {
    pub(super) values: Vec<SecretValue>,
    /// Names of values that are not secret.
    pub(super) left_alone: Vec<String>,
    /// Whether all of its values are known.
    pub(super) is_complete: bool,
}

/// How much the place of a value says about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ValueContext {
    /// Its name tells.
    Mixed,
    /// The file contains secrets and little else.
    Secrets,
}

/// The secrets of a file. Not all are known if it is not text or has too many.
pub(super) fn read_file(path: &Path, content: &[u8]) -> FileSecrets {
    let text = String::from_utf8_lossy(content);
    let is_text = matches!(text, Cow::Borrowed(text) if !text.contains('\0'));
    // A byte that is not text, among lines that are, must not hide them.
    let text = if is_text { text } else { Cow::Owned(text.replace('\0', "\n")) };
    let text = text.trim_start_matches('\u{feff}');
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let lower = name.to_lowercase();
    let mut found = FileSecrets::default();
    found.add_private_keys(&name, text);
    let is_only_secrets = ["secret", "credential"].iter().any(|word| lower.contains(word));
    let context = if is_only_secrets { ValueContext::Secrets } else { ValueContext::Mixed };
    let is_key = lower.starts_with("id_") || lower.ends_with(".ppk");
    match lower.rsplit('.').next().unwrap_or_default() {
        _ if is_key && found.values.is_empty() => found.add_key_lines(&name, text),
        "json" => match serde_json::from_str::<Value>(text) {
            Ok(value) => found.add_json(&name, &value, context, DEPTH_MAX),
            Err(_) => found.add_assignments(&name, text, context),
        },
        "netrc" | "_netrc" => found.add_netrc(text),
        "pgpass" | "htpasswd" => found.add_last_fields(&name, text),
        _ => found.add_assignments(&name, text, context),
    }
    if !is_text {
        found.values.retain(|value| !value.text.contains(char::REPLACEMENT_CHARACTER));
    }
    match found.values.len() < FILE_VALUES_MAX {
        true => FileSecrets { is_complete: is_text, ..found },
        false => FileSecrets::default(),
    }
}

/// The secrets at the beginning and the end of a file that is too large. Lines that were cut are left
/// out.
pub(super) fn read_file_ends(path: &Path, head: &[u8], tail: &[u8]) -> FileSecrets {
    let is_break = |byte: &u8| *byte == b'\n';
    let head_end = head.iter().rposition(is_break).unwrap_or(0);
    let tail_start = tail.iter().position(is_break).unwrap_or(tail.len());
    let mut found = read_file(path, head.get(..head_end).unwrap_or_default());
    let end = read_file(path, tail.get(tail_start..).unwrap_or_default());
    for value in end.values {
        found.push(&value.name, &value.text);
    }
    end.left_alone.iter().for_each(|name| found.leave_alone(name));
    FileSecrets { is_complete: false, ..found }
}

/// The secrets among environment variables.
pub(super) fn read_variables(variables: &[(String, String)]) -> Vec<SecretValue> {
    let mut found = FileSecrets::default();
    for (name, value) in variables {
        // `PWD` is not a password, and masking a folder would make every path unreadable.
        let is_folder = FOLDER_VARIABLES.contains(&name.as_str()) || value.starts_with('/');
        if !is_folder || has_secret_format(value) {
            found.add(name, value, ValueContext::Mixed);
        }
    }
    found.values
}

impl FileSecrets {
    /// Adds a value if it is secret.
    fn add(&mut self, name: &str, text: &str, context: ValueContext) {
        let text = text.trim();
        if text.is_empty() {
            return;
        }
        if let Some(address) = UrlPassword::find(text) {
            if address.is_local_default() || address.password.contains("${") {
                return self.leave_alone(name);
            }
            self.push(name, text);
            if !is_common(address.password) {
                self.push(name, address.password);
            }
        } else if is_secret(name, text, context) {
            // Long values are printed line by line, and each line is a part of the secret.
            let lines: Vec<&str> =
                text.split(['\n', '\r']).flat_map(|line| line.split("\\n")).collect();
            let is_key = lines.iter().any(|line| line.trim().len() >= KEY_LINE_CHARS_MIN);
            match &lines[..] {
                [line] => self.push(name, line),
                lines if is_key => lines.iter().for_each(|line| self.add_key_line(name, line)),
                lines if !consists_of_words(&lines.join(" ")) => self.push(name, text),
                _ => {}
            }
        } else {
            self.leave_alone(name);
        }
    }

    /// Adds a value that is secret, unless it is too short.
    pub(super) fn push(&mut self, name: &str, text: &str) {
        if text.chars().count() >= VALUE_CHARS_MIN && self.values.len() < FILE_VALUES_MAX {
            let value = SecretValue { name: name.to_owned(), text: text.to_owned() };
            if !self.values.contains(&value) {
                self.values.push(value);
            }
        }
    }

    fn leave_alone(&mut self, name: &str) {
        let has_room = self.left_alone.len() < LEFT_ALONE_MAX;
        if has_room && !self.left_alone.iter().any(|known| known == name) {
            self.left_alone.push(name.to_owned());
        }
    }

    fn add_key_line(&mut self, name: &str, line: &str) {
        let line = line.trim();
        if line.chars().count() >= KEY_LINE_CHARS_MIN && !line.starts_with("-----") {
            self.push(name, line);
        }
    }

    fn add_key_lines(&mut self, name: &str, text: &str) {
        text.lines().for_each(|line| self.add_key_line(name, line));
    }

    /// Adds the lines of private keys in PEM format. Certificates beside them are public.
    fn add_private_keys(&mut self, name: &str, text: &str) {
        let mut is_inside = false;
        for line in text.lines().map(str::trim) {
            match line.strip_prefix("-----BEGIN ") {
                Some(kind) => is_inside = kind.contains("PRIVATE KEY"),
                None if line.starts_with("-----END ") => is_inside = false,
                None if is_inside => self.add_key_line(name, line),
                None => {}
            }
        }
    }

    fn add_json(&mut self, name: &str, value: &Value, context: ValueContext, depth: usize) {
        match value {
            Value::String(text) => self.add(name, text, context),
            Value::Number(number) => self.add(name, &number.to_string(), context),
            Value::Array(items) if depth > 0 => {
                items.iter().for_each(|item| self.add_json(name, item, context, depth - 1));
            }
            Value::Object(fields) if depth > 0 => {
                for (name, field) in fields {
                    self.add_json(name, field, context, depth - 1);
                }
            }
            _ => {}
        }
    }

    /// `machine x login me password …`.
    fn add_netrc(&mut self, text: &str) {
        let words: Vec<&str> = text.split_whitespace().collect();
        for pair in words.windows(2) {
            if let [name @ ("password" | "account"), value] = pair {
                self.push(name, value);
            }
        }
    }

    /// `host:port:database:user:password`, `user:hash`.
    fn add_last_fields(&mut self, name: &str, text: &str) {
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            if let Some((_, value)) = line.rsplit_once(':') {
                self.push(name, value.trim());
            }
        }
    }

    /// The quoted texts of a list or map: `["first", "second"]`, `{ name = "value" }`.
    fn add_quoted(&mut self, name: &str, text: &str, context: ValueContext) {
        let mut rest = text;
        let mut before = "";
        while let Some(start) = rest.find(['"', '\'']) {
            let quote = rest.get(start..).and_then(|quoted| quoted.chars().next()).unwrap_or('"');
            let (between, quoted) = rest.split_at(start);
            let (value, _) = read_quoted(quoted, quote, &[]);
            let end = start + 1 + value.len() + 1;
            rest = rest.get(end.min(rest.len())..).unwrap_or_default();
            let is_name = rest.trim_start().starts_with([':', '=']);
            if !is_name {
                // The name is before it, with quotes or without.
                let key = between.trim().strip_suffix(['=', ':']).map(str::trim_end);
                let key = key.map(|key| key.rsplit([' ', ',', '{', '[']).next().unwrap_or(key));
                let key = key.map(|key| if key.is_empty() { before } else { key });
                self.add(key.filter(|key| !key.is_empty()).unwrap_or(name), &value, context);
            }
            before = if is_name { text_of(quoted, value.len()) } else { "" };
        }
    }

    /// `NAME=value`, `name: value`, also where a `#` takes it out of use.
    fn add_assignments(&mut self, file: &str, text: &str, context: ValueContext) {
        let lines: Vec<&str> = text.lines().collect();
        let count = lines.iter().filter(|line| !line.trim().is_empty()).count();
        let mut rest = &lines[..];
        while let [line, after @ ..] = rest {
            rest = after;
            let indent = indent_of(line);
            let line = line.trim();
            let is_comment = line.starts_with(['#', ';']);
            let line = line.trim_start_matches(['#', ';', '-', ' ', '\t']);
            let (line, is_command) = match strip_command(line) {
                Some(rest) => (rest, true),
                None => (line.into(), false),
            };
            let line = &*line;
            let Some((name, value)) = split_assignment(line) else {
                // A token alone in its file or line, or an address with a password.
                let is_token = || is_random(line) || has_secret_format(line);
                if count == 1 || UrlPassword::find(line).is_some() || is_token() {
                    self.add(file, line, ValueContext::Secrets);
                }
                continue;
            };
            let mut value = value.trim().to_owned();
            let quote = value.chars().next().filter(|c| matches!(c, '"' | '\'' | '`'));
            let block = BlockStart::parse(&value);
            if value.starts_with(['[', '{']) {
                self.add_quoted(&name, &value, context);
            }
            if let Some(quote) = quote {
                // A quoted value may go on in the next lines. A quote that nothing ends does not hide
                // the lines below it, and neither does one in a comment.
                let further = if is_comment { &[][..] } else { rest };
                let (text, used) = read_quoted(&value, quote, further);
                rest = rest.get(used..).unwrap_or_default();
                value = text;
            } else if let Some(block) = block.filter(|_| !is_comment) {
                let (lines, used) = block.read(rest, indent);
                rest = rest.get(used..).unwrap_or_default();
                match block {
                    // A folded text is one line to who reads it.
                    BlockStart::Folded => value = lines.join(" "),
                    BlockStart::Literal | BlockStart::Document(_) => value = lines.join("\n"),
                    BlockStart::List => {
                        self.add_quoted(&name, &lines.join(" "), context);
                        continue;
                    }
                    BlockStart::Map if is_secret_field(&name, &Value::Null) => {
                        self.add_assignments(file, &lines.join("\n"), ValueContext::Secrets);
                        continue;
                    }
                    BlockStart::Map => {
                        self.add_assignments(file, &lines.join("\n"), context);
                        continue;
                    }
                }
            } else {
                value = value.split(" #").next().unwrap_or_default().trim().to_owned();
                if is_command && let Some((first, more)) = value.split_once(char::is_whitespace) {
                    // `export A=x B=y`.
                    self.add_assignments(file, more, context);
                    value = first.to_owned();
                }
                value = value.trim_end_matches([',', ';']).to_owned();
            }
            self.add(&name, &value, context);
            if is_list_name(&name) {
                value.split([',', ';']).skip_while(|item| *item == value).for_each(|item| {
                    self.add(&name, item, context);
                });
            }
        }
    }
}

/// The quoted text at the beginning, of so many bytes.
fn text_of(quoted: &str, len: usize) -> &str {
    quoted.get(1..1 + len).unwrap_or_default()
}

/// What begins a value that goes on in the next lines.
#[derive(Clone, Debug, PartialEq, Eq)]
enum BlockStart {
    /// `|`: YAML text with its line breaks.
    Literal,
    /// `>`: YAML text whose lines are joined.
    Folded,
    /// `<<EOF`: a document of Terraform or a shell, up to this line.
    Document(String),
    /// `[`: one item in each line.
    List,
    /// `{`: one name with its value in each line.
    Map,
}

impl BlockStart {
    fn parse(value: &str) -> Option<Self> {
        let value = value.split(" #").next().unwrap_or_default().trim();
        let is_indicator =
            |rest: &str| rest.chars().all(|c| "+-".contains(c) || c.is_ascii_digit());
        match value {
            "[" => Some(Self::List),
            "{" => Some(Self::Map),
            _ if value.strip_prefix('|').is_some_and(is_indicator) => Some(Self::Literal),
            _ if value.strip_prefix('>').is_some_and(is_indicator) => Some(Self::Folded),
            _ => {
                let marker = value.strip_prefix("<<")?.trim_start_matches(['-', '~']);
                let marker = marker.trim_matches(['"', '\'']);
                let is_word = marker.chars().all(|c| c.is_alphanumeric() || c == '_');
                (is_word && !marker.is_empty()).then(|| Self::Document(marker.to_owned()))
            }
        }
    }

    /// The lines of the value, and how many of those below it takes. Without an end, the lines that may
    /// belong to it are read on their own.
    fn read<'l>(&self, below: &[&'l str], indent: usize) -> (Vec<&'l str>, usize) {
        let is_last = |line: &&str| match self {
            Self::Document(marker) => line.trim() == marker,
            Self::List => line.trim_start().starts_with(']'),
            Self::Map => line.trim_start().starts_with('}'),
            Self::Literal | Self::Folded => indent_of(line) <= indent && !line.trim().is_empty(),
        };
        let mut lines = below.iter().take(QUOTED_LINES_MAX);
        let count = match (self, lines.position(is_last)) {
            (Self::Literal | Self::Folded, end) => {
                let end = end.unwrap_or(below.len().min(QUOTED_LINES_MAX));
                return (trimmed(below.get(..end)), end);
            }
            (_, Some(end)) => end,
            (_, None) => return (Vec::new(), 0),
        };
        (trimmed(below.get(..count)), count + 1)
    }
}

fn indent_of(line: &str) -> usize {
    line.len() - line.trim_start().len()
}

/// The lines without blanks around them, and without empty ones.
fn trimmed<'l>(lines: Option<&[&'l str]>) -> Vec<&'l str> {
    let lines = lines.unwrap_or_default().iter().map(|line| line.trim());
    lines.filter(|line| !line.is_empty()).collect()
}

/// What a command of a shell sets: `export NAME=value`, `setenv NAME value`, `set -gx NAME value`.
fn strip_command(line: &str) -> Option<Cow<'_, str>> {
    if let Some(rest) = line.strip_prefix("export ") {
        return Some(rest.trim_start().into());
    }
    let rest = match line.strip_prefix("setenv ") {
        Some(rest) => rest,
        None => line.strip_prefix("set -")?.split_once(' ')?.1,
    };
    let (name, value) = rest.trim_start().split_once(' ')?;
    Some(format!("{name}={}", value.trim_start()).into())
}

/// Whether a name may hold several secrets: `API_KEYS`, `TOKENS_2`.
fn is_list_name(name: &str) -> bool {
    let snake = snake_case(name);
    let mut words = snake.rsplit(['_', ' ']);
    let last = words.find(|word| !word.bytes().all(|byte| byte.is_ascii_digit()));
    last.and_then(|last| last.strip_suffix('s')).is_some_and(|word| CERTAIN_WORDS.contains(&word))
}

/// The name and the value of a line.
fn split_assignment(line: &str) -> Option<(String, &str)> {
    let at = line.find(['=', ':'])?;
    // `//registry.example.org:443/:_authToken=…` and `https://…`.
    let has_scheme = line.get(at..).is_some_and(|rest| rest.starts_with("://"));
    let at = match has_scheme || line.starts_with("//") {
        true => line.find('=')?,
        false => at,
    };
    let (name, value) = (line.get(..at)?, line.get(at + 1..)?);
    // The padding of base64 is no value, and what is before it is no name.
    if line.as_bytes().get(at) == Some(&b'=') && value.trim_end() == "="
        || value.trim().is_empty() && is_random(name.trim())
    {
        return None;
    }
    let name = name.rsplit([':', '/']).next().unwrap_or(name);
    let name = name.trim().trim_matches(['"', '\'', '[', ']']);
    let is_name = |c: char| c.is_alphanumeric() || "_-. ".contains(c);
    (!name.is_empty() && name.len() <= 128 && name.chars().all(is_name))
        .then(|| (name.to_owned(), value))
}

/// A text that begins with a quote, up to the quote that ends it, and how many of the further lines
/// it takes. Without such a quote, it is the rest of its line.
fn read_quoted(first: &str, quote: char, further: &[&str]) -> (String, usize) {
    let first = first.get(1..).unwrap_or_default();
    let mut text = String::new();
    let mut is_escaped = false;
    for (used, line) in std::iter::once(&first).chain(further).take(QUOTED_LINES_MAX).enumerate() {
        if used > 0 {
            text.push('\n');
        }
        for c in line.chars() {
            if c == quote && !is_escaped {
                return (text, used);
            }
            is_escaped = c == '\\' && !is_escaped && quote == '"';
            text.push(c);
        }
        is_escaped = false;
    }
    (first.to_owned(), 0)
}

/// An address with a password: `postgres://me:secret@db/x`.
struct UrlPassword<'a> {
    password: &'a str,
    host: &'a str,
}

impl<'a> UrlPassword<'a> {
    fn find(text: &'a str) -> Option<Self> {
        let (_, rest) = text.split_once("://")?;
        let end = rest.find(['/', '?', '#', ' ']).unwrap_or(rest.len());
        // A password may contain a slash.
        let (login, host) = match rest.get(..end)?.rsplit_once('@') {
            Some(parts) => parts,
            None => rest.rsplit_once('@').filter(|(login, _)| !login.contains(' '))?,
        };
        let (_, password) = login.split_once(':')?;
        (!password.is_empty()).then_some(Self { password, host })
    }

    /// Whether it is a server of this machine with a well-known password.
    fn is_local_default(&self) -> bool {
        let host = self.host.split(['/', '?']).next().unwrap_or_default();
        let host = host.rsplit_once(':').map_or(host, |(host, _)| host);
        let is_local =
            matches!(host, "localhost" | "127.0.0.1" | "[::1]" | "0.0.0.0" | "db" | "redis");
        is_local && is_common(self.password)
    }
}

fn is_secret(name: &str, text: &str, context: ValueContext) -> bool {
    if is_common(text) || is_reference(text) || is_path(text) || is_code(text) {
        return false;
    }
    let snake = snake_case(name);
    let words: Vec<&str> = snake.split(['_', ' ']).filter(|word| !word.is_empty()).collect();
    if words.iter().any(|word| PUBLIC_WORDS.contains(word)) {
        return false;
    }
    if words.iter().any(|word| USUALLY_PUBLIC_WORDS.contains(word)) {
        return has_secret_format(text);
    }
    let last = words.last().copied().unwrap_or_default();
    let last = match is_list_name(name) {
        true => "key",
        false => last,
    };
    let is_url = text.contains("://");
    let is_number = text.bytes().all(|byte| byte.is_ascii_digit() || b".,_-+:".contains(&byte));
    let describes = DESCRIBING_WORDS.contains(&last) && snake != "session_id";
    let is_named = !describes
        && (is_secret_field(name, &Value::Null) || CERTAIN_WORDS.contains(&last) || last == "salt");
    if is_named && CERTAIN_WORDS.contains(&last) && !is_url {
        // `CACHE_KEY=application`. A password may well consist of words.
        let is_label = matches!(last, "key" | "token") && consists_of_words(text);
        return !is_placeholder(text) && (!is_label || has_secret_format(text));
    }
    if is_named || context == ValueContext::Secrets && !describes {
        return !is_url && !is_ordinary(text) && !is_number || has_secret_format(text);
    }
    has_secret_format(text) || is_random(text)
}

/// Whether a value is too short or too common to be searched for.
pub(super) fn is_common(text: &str) -> bool {
    let lower = text.to_lowercase();
    text.chars().count() < VALUE_CHARS_MIN
        || COMMON_VALUES.contains(&lower.as_str())
        || lower.chars().all(|c| lower.starts_with(c))
}

/// Whether a value stands for another: `${NAME}`, `$NAME`, `<token>`, `op://vault/item`.
pub(super) fn is_reference(text: &str) -> bool {
    ["${", "$(", "{{", "%(", "op://", "vault:", "ssm:", "arn:", "file:", "data:"]
        .iter()
        .any(|start| text.starts_with(start))
        || text.starts_with('<') && text.ends_with('>')
        || text.strip_prefix('$').is_some_and(is_variable_name)
}

fn is_variable_name(text: &str) -> bool {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') && text.chars().all(is_part)
}

fn is_placeholder(text: &str) -> bool {
    let lower = text.to_lowercase();
    is_ordinary(text) && PLACEHOLDER_WORDS.iter().any(|word| lower.contains(word))
}

pub(super) fn is_path(text: &str) -> bool {
    let is_rooted = ["/", "./", "../", "~/"].iter().any(|start| text.starts_with(start));
    is_rooted && (is_ordinary(text.trim_start_matches(['~', '.'])) || text.contains(". "))
        || text.get(1..3) == Some(":\\")
}

/// Whether a text consists of words and small numbers: a host name, an email address, a region.
fn is_ordinary(text: &str) -> bool {
    let is_word = |word: &str| {
        let letters = word.trim_end_matches(|c: char| c.is_ascii_digit());
        let digits = word.len() - letters.len();
        let rest = letters.chars().skip(1);
        let is_plain = letters.chars().all(char::is_lowercase)
            || letters.chars().all(char::is_uppercase)
            || rest.clone().all(char::is_lowercase);
        is_plain && letters.chars().count() <= 20 && digits <= 4
    };
    text.split(|c: char| "-_./:@, ".contains(c)).all(is_word)
}

/// Whether every part of a text can be pronounced: a label, and nothing that was made at random.
fn consists_of_words(text: &str) -> bool {
    let is_vowel = |c: char| "aeiouyAEIOUY".contains(c);
    let is_spoken = |word: &str| {
        let runs = word.split(is_vowel).map(str::len).max().unwrap_or(0);
        let is_short = word.len() <= 4;
        word.chars().all(|c| c.is_ascii_alphabetic())
            && (is_short || word.contains(is_vowel) && runs <= 4)
    };
    is_ordinary(text) && text.split(|c: char| "-_./:@, ".contains(c)).all(is_spoken)
}

/// Whether the format alone tells that it is a secret.
pub(super) fn has_secret_format(text: &str) -> bool {
    matches!(redact_text(text), Cow::Owned(_))
}

/// Whether a text has no words: long, and with letters of both cases and digits.
pub(super) fn is_random(text: &str) -> bool {
    let has = |kind: fn(&char) -> bool| text.chars().filter(kind).count() >= 3;
    text.chars().count() >= RANDOM_CHARS_MIN
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+/=_-".contains(&byte))
        && has(char::is_ascii_lowercase)
        && has(char::is_ascii_uppercase)
        && has(char::is_ascii_digit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(file: &str, text: &str, secret: &[&str]) {
        let found = read_file(Path::new(file), text.as_bytes());
        let names: Vec<&str> = found.values.iter().map(|value| &*value.name).collect();
        assert_eq!(names, secret, "{text}\n{:?}", found.left_alone);
    }

    #[test]
    fn paths_in_variables_are_not_secret() {
        let variables = [
            ("PWD", "/var/tmp/w.9fK2mQ4x"),
            ("OLDPWD", "9fK2mQ4xW7"),
            ("SSH_KEY", "/home/me/9fK2mQ4xW7"),
            ("CI_TOKEN", "9fK2mQ4xW7"),
        ];
        let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let names: Vec<String> = read_variables(&variables).into_iter().map(|it| it.name).collect();
        assert_eq!(names, ["CI_TOKEN"]);
    }

    #[test]
    fn quote_without_end_hides_nothing_below_it() {
        for start in ["# sha: `", "X='", "A_NOTE=\"it"] {
            check(".env", &format!("{start}\nB_TOKEN=abc123def456\n"), &["B_TOKEN"]);
        }
        let long = format!("X=\"{}\"\nB_TOKEN=abc123def456\n", "\n".repeat(QUOTED_LINES_MAX));
        check(".env", &long, &["B_TOKEN"]);
        check(".env", "K_KEY='one two three\nfour five six'\n", &["K_KEY"; 0]);
    }

    #[test]
    fn file_with_too_many_values_is_not_known() {
        let many: String =
            (0..FILE_VALUES_MAX).map(|n| format!("K{n}_KEY=abc123def{n}\n")).collect();
        assert_eq!(read_file(Path::new(".env"), many.as_bytes()), FileSecrets::default());
        let names: String = (0..100_000).map(|n| format!("A{n}=b\n")).collect();
        let found = read_file(Path::new(".env"), names.as_bytes());
        assert_eq!(found.left_alone.len(), LEFT_ALONE_MAX);
    }

    #[test]
    fn bytes_that_are_not_text_hide_nothing() {
        for junk in [&b"\0"[..], b"\xff", b"\n\xff\xfe\n\0"] {
            let content = [b"A_TOKEN=abc123def456\n", junk, b"\nB_TOKEN=def456abc123\n"].concat();
            let found = read_file(Path::new(".env"), &content);
            let names: Vec<&str> = found.values.iter().map(|value| &*value.name).collect();
            assert_eq!((names, found.is_complete), (vec!["A_TOKEN", "B_TOKEN"], false));
        }
    }

    #[test]
    fn secret_variables_are_recognized() {
        for (name, value) in [
            ("COMMIT_TOKEN", "ghp_0123456789abcdefghij0123"),
            ("DB_PASSWORD", "<kd8#mQ4x9fK2"),
            ("DB_PASSWORD", "correct-horse-battery"),
            ("DB_PASSWORD", "qzxvkwpj"),
            ("DB_PASSWORD", "import-horse-battery"),
            ("DB_PASSWORD", "83749283"),
            ("API_KEY", "k3y-with-9-parts"),
            ("STRIPE_KEY", "sk_live_51H8xYzAbCdEfGhIjKl"),
            ("JWT_SECRET", "a long sentence as a secret"),
            ("SECRET_KEY_BASE", "3f2a9c7be1d04568a7c2f19e"),
            ("GITHUB_TOKEN", "ghp_0123456789abcdefghij0123"),
            ("SENTRY", "https://0123456789abcdef@o1.ingest.example.com/2"),
            ("SLACK_WEBHOOK_URL", "https://hooks.slack.com/services/T0/B0/abcdefGHIJ"),
            ("AWS_ACCESS_KEY_ID", "AKIAIOSFODNN7EXAMPLE"),
            ("APP", "Zm9vYmFyYmF6cXV4MTIzNDU2Nzg5MEFCQ0RFRg"),
            ("COOKIE_SALT", "9fK2mQ4xW7"),
            ("REDIS_AUTH", "9fK2mQ4xW7"),
        ] {
            check(".env", &format!("{name}={value}\n"), &[name]);
        }
        check(
            ".env",
            "DATABASE_URL=postgres://me:s3cr3t-pw@db.example.com/x",
            &["DATABASE_URL"; 2],
        );
        check(".env", "DATABASE_URL=postgres://me:short@db.example.com/x", &["DATABASE_URL"]);
        check(".env", "\u{feff}A_TOKEN=\"ab\\\"c12345\" # a \"note\"\n", &["A_TOKEN"]);
        check(
            ".env",
            "# OLD_TOKEN=abc123def456\nexport 'X_TOKEN'=\"abc 123 # def\" # note\n",
            &["OLD_TOKEN", "X_TOKEN"],
        );
        check(
            ".env",
            "KEY=\"-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0B\nAQEFAASCBKcwggSjAgEAAoIB\n-----END PRIVATE KEY-----\"",
            &["KEY", "KEY"],
        );
    }

    #[test]
    fn lines_that_are_tokens_are_secret() {
        let padded = "3q2+7wAAAABBBBccccDDDDeeeeFFFFgggg1234567890=";
        check("session.key", &format!("{padded}\n"), &["session.key"]);
        check("session.key", &format!("{padded}=\n"), &["session.key"]);
        check(".secrets", &format!("first line\n{padded}\n\n{padded}=\n"), &[".secrets"; 2]);
        check(".env", &format!("A=b\n{padded}\n"), &[".env"]);
    }

    #[test]
    fn values_of_several_shells_and_lists_are_secret() {
        check(
            ".envrc",
            "export A_PASSWORD=abc123def456 B_TOKEN=def456abc123\n",
            &["B_TOKEN", "A_PASSWORD"],
        );
        check("x.env", "set -gx X_TOKEN abc123def456\n", &["X_TOKEN"]);
        check("x.env", "setenv X_TOKEN abc123def456\n", &["X_TOKEN"]);
        check(".env", "LIST_KEYS=abc123def456,def456abc123\n", &["LIST_KEYS"; 3]);
        check(".env", "API_KEYS_2=abc123def456;def456abc123\n", &["API_KEYS_2"; 3]);
    }

    #[test]
    fn values_over_several_lines_are_secret() {
        let read = |file: &str, text: &str| {
            let found = read_file(Path::new(file), text.as_bytes());
            let values = found.values.into_iter().map(|it| format!("{}={}", it.name, it.text));
            // A list in one line is also a value as a whole.
            values.filter(|it| !it.contains("=[") && !it.ends_with([']', '}'])).collect::<Vec<_>>()
        };
        for start in [">", ">-", ">2-", "> # folded"] {
            assert_eq!(
                read(
                    "secrets.yml",
                    &format!("api_key: {start}\n  abc123def\n  ghi456jkl\nport: 1\n")
                ),
                ["api_key=abc123def ghi456jkl"]
            );
        }
        assert_eq!(
            read("secrets.yml", "api_key: |\n  abc123def\n  ghi456jkl\nport: 1\n"),
            ["api_key=abc123def\nghi456jkl"]
        );
        assert_eq!(
            read("x.tfvars", "db_password = <<-EOT\n  abc123def456\n  EOT\nregion = \"eu-1\"\n"),
            ["db_password=abc123def456"]
        );
        assert_eq!(
            read("x.tfvars", "api_keys = [\"abc123def\", \"ghi456jkl\"]\n"),
            ["api_keys=abc123def", "api_keys=ghi456jkl"]
        );
        assert_eq!(
            read("x.tfvars", "api_keys = [\n  \"abc123def\",\n  \"ghi456jkl\",\n]\nx = 1\n"),
            ["api_keys=abc123def", "api_keys=ghi456jkl"]
        );
        assert_eq!(
            read("x.tfvars", "secrets = {\n  stripe = \"abc123def\"\n}\nname = \"abc123xyz\"\n"),
            ["stripe=abc123def"]
        );
        assert_eq!(
            read("x.tfvars", "db = { user = \"me\", password = \"abc123def\" }\n"),
            ["password=abc123def"]
        );
        assert_eq!(
            read("secrets.yml", "db: {\"user\": \"me\", \"password\": \"abc123def\"}\n"),
            ["password=abc123def"]
        );
        assert_eq!(
            read("secrets.yml", "a:\n  api_key: >\n    abc123def\n  b_token: ghi456jkl\n"),
            ["api_key=abc123def", "b_token=ghi456jkl"]
        );
        // What nothing ends hides nothing below it.
        assert_eq!(read("x.tfvars", "a = [\nb_token = \"abc123def\"\n"), ["b_token=abc123def"]);
    }

    #[test]
    fn value_is_what_programs_see() {
        let value = |text: &str| {
            let found = read_file(Path::new(".env"), text.as_bytes());
            found.values.into_iter().map(|value| value.text).collect::<Vec<_>>().join("|")
        };
        assert_eq!(value(r#"A_TOKEN="ab\"c12345" # a "note""#), r#"ab\"c12345"#);
        assert_eq!(value("A_TOKEN='ab\\' # it's"), "");
        assert_eq!(value("A_TOKEN=abc12345 # a note"), "abc12345");
        assert_eq!(value("A_TOKEN='abc 12345' B"), "abc 12345");
        assert_eq!(value("//x.org:443/:_authToken=abc12345"), "abc12345");
        assert_eq!(value("U=x://a:${PASS_WORD}@b.example.com"), "");
    }

    #[test]
    fn ordinary_variables_are_left_alone() {
        for (name, value) in [
            ("PORT", "30000000"),
            ("NODE_ENV", "development"),
            ("DEBUG", "app:server,app:db"),
            ("LOG_LEVEL", "information"),
            ("HOST", "api.internal.example.com"),
            ("API_URL", "https://api.example.com/v1"),
            ("DATABASE_URL", "postgres://postgres:postgres@localhost:5432/app_dev"),
            ("REDIS_URL", "redis://localhost:6379/0"),
            ("ADMIN_EMAIL", "admin@example.com"),
            ("AUTH_HOST", "auth.example.com"),
            ("AUTH_SERVER", "https://auth.example.com/oauth"),
            ("TOKEN_TTL", "86400000"),
            ("SESSION_COOKIE_NAME", "my-app-session"),
            ("DB_PASSWORD", "postgres"),
            ("DB_PASSWORD", "password"),
            ("DB_PASSWORD", "changeme"),
            ("API_KEY", "your-api-key-here"),
            ("API_KEY", "<your api key>"),
            ("API_KEY", "${OTHER_KEY}"),
            ("SECRET", "short"),
            ("SSH_AUTH_SOCK", "/run/user/1000/keyring/ssh"),
            ("GOOGLE_APPLICATION_CREDENTIALS", "/home/me/keys/service-account.json"),
            ("PWD", "/home/me/projects/shop"),
            ("NEXT_PUBLIC_KEY", "pkpub7Hd83jJ2k3l4M5n6P7q8R9s0TuVw"),
            ("GIT_COMMIT", "0123456789abcdef0123456789abcdef01234567"),
            ("BUILD_ID", "01234567-89ab-cdef-0123-456789abcdef"),
            ("FEATURE_FLAGS", "new-checkout,dark-mode"),
            ("AWS_REGION", "eu-central-1"),
            ("VERSION", "1.24.3-beta.1"),
            ("TZ", "Europe/Berlin"),
            ("A_SECRET", "function"),
            ("I_TOKEN", "\"import os\""),
            ("G_SECRET", "\"return x\""),
            ("C_PASSWORD", "console.log"),
            ("D_KEY", "package.json"),
            ("CACHE_KEY", "application"),
            ("PRIMARY_KEY", "customer_id"),
            ("AUTH_TOKEN", "Authorization"),
            ("ADMIN_PASSWORD", "administrator"),
            ("LICENSE_KEY", "community"),
            ("CSRF_TOKEN", "X-CSRF-Token"),
        ] {
            check(".env", &format!("{name}={value}\n"), &[]);
        }
    }

    #[test]
    fn credential_files_are_read() {
        check(
            ".npmrc",
            "registry=https://registry.example.org/\n//registry.example.org:443/:_authToken=npm_abcDEF123456\n",
            &["_authToken"],
        );
        check(".netrc", "machine x.org login me password s3cr3t-word\n", &["password"]);
        check(
            ".pypirc",
            "[pypi]\nusername = __token__\npassword = pypi-AgEIcHlwaS5vcmc\n",
            &["password"],
        );
        check(".pgpass", "db.example.com:5432:shop:me:s3cr3t-word\n", &[".pgpass"]);
        check(".git-credentials", "https://me:s3cr3t-word@example.com\n", &[".git-credentials"; 2]);
        check("master.key", "0123456789abcdef0123456789abcdef\n", &["master.key"]);
        check(
            "credentials.json",
            r#"{"type": "service_account", "client_email": "a@b.example.com", "region": "eu-central-1",
               "private_key": "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0B\n-----END PRIVATE KEY-----\n",
               "inner": [{"client_secret": "GOCSPX-abcdef123"}]}"#,
            &["private_key", "client_secret"],
        );
        check(
            "secrets.yml",
            "production:\n  region: eu-central-1\n  sendgrid: SGx9fK2mQ4xW7\n  pem: |\n    0123456789abcdefXYZ\n    fedcba9876543210XYZ\n",
            &["sendgrid", "pem", "pem"],
        );
        let key = "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXktdjEAAAAA\n-----END OPENSSH PRIVATE KEY-----\n";
        check("id_ed25519", key, &["id_ed25519"]);
        check(
            "cert.pem",
            "-----BEGIN CERTIFICATE-----\nMIIDdzCCAl+gAwIBAgIEAgAAuTANBg\n-----END CERTIFICATE-----\n",
            &[],
        );
        let binary = read_file(Path::new("x.p12"), b"\x00\xff");
        assert_eq!((binary.values, binary.is_complete), (Vec::new(), false));
    }
}
