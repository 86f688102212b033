//! Removes secrets from text that is about to be stored or logged.
//!
//! Audit rows, logs and titles quote what a model or a user typed. A secret is recognized by the
//! name of its field or by its own format, and the secrets of the workspace by their values:
//! [`WorkspaceSecrets`] knows them, and replaces them in everything that leaves a call.

mod code_words;
mod git_settings;
mod named_secrets;
mod search_record;
mod secret_search;
mod secret_shapes;
mod secret_value_store;
mod secret_values;
mod workspace_key;
mod workspace_secrets;

use std::borrow::Cow;
use std::sync::LazyLock;

use aho_corasick::{AhoCorasick, AhoCorasickKind};
use zero_core::sanitize::escape_unsafe_chars;
use zero_core::text_shortening::head;

use regex::Regex;
use serde_json::{Map, Value};

use self::secret_shapes::SHAPES;
pub use self::workspace_secrets::{SecretMaskConfig, SecretReport, WorkspaceSecrets};

/// Replaces a secret.
pub const REDACTED: &str = "[redacted]";

/// Longest text of one value, in bytes.
const TEXT_BYTES_MAX: usize = 1_024;
/// Longest field name, in bytes.
const NAME_BYTES_MAX: usize = 128;
/// Bytes at the end of a truncated text that may contain half a secret.
const EDGE_BYTES: usize = 256;
/// Most items of one list or object.
const ITEMS_MAX: usize = 64;

/// All markers of secret formats and names. If they cannot be searched for together, each is
/// searched for separately. Every process builds this, so it is built fast.
static MARKS: LazyLock<Option<AhoCorasick>> = LazyLock::new(|| {
    let shapes = SHAPES.iter().chain([&named_secrets::NAMES]);
    AhoCorasick::builder()
        .ascii_case_insensitive(true)
        .kind(Some(AhoCorasickKind::ContiguousNFA))
        .build(shapes.flat_map(|shape| shape.marks))
        .ok()
});

/// Fields with file contents or data to send. They can hold anything, so only their size is
/// recorded.
const CONTENT_FIELDS: &[&str] = &[
    "content",
    "old_string",
    "new_string",
    "oldString",
    "newString",
    "oldText",
    "newText",
    "body",
];

/// The field with the headers of a request, and the headers that are recorded in full.
const HEADERS: &str = "headers";
const PLAIN_HEADERS: &[&str] = &[
    "accept",
    "accept-language",
    "cache-control",
    "content-language",
    "content-type",
    "if-modified-since",
    "if-none-match",
    "range",
    "user-agent",
];

/// Words in field names whose values are secrets, whatever they look like.
const SECRET_WORDS: &[&str] = &[
    "password",
    "passwd",
    "passphrase",
    "pass",
    "pwd",
    "secret",
    "token",
    "api_key",
    "apikey",
    "access_key",
    "accesskey",
    "private_key",
    "privatekey",
    "credential",
    "credentials",
    "authorization",
    "auth",
    "cookie",
    "master_key",
    "ssh_key",
    "signing_key",
    "encryption_key",
    "key_data",
    "session_id",
    "otp",
    "passwort",
];

/// Whether a field holds a secret. A number in a plural field such as `tokens` may be a count.
fn is_secret_field(name: &str, field: &Value) -> bool {
    let name = snake_case(name);
    let is_many = |name: &str| name.strip_suffix('s').is_some_and(is_secret_name);
    is_secret_name(&name) || !field.is_number() && is_many(&name)
}

/// Converts `accessToken` and `X-API-Key` to `access_token` and `x_api_key`.
fn snake_case(name: &str) -> String {
    let characters: Vec<char> = name.chars().collect();
    let mut snake = String::with_capacity(name.len() + 4);
    for (index, character) in characters.iter().enumerate() {
        let last = index.checked_sub(1).map(|last| characters[last]);
        let begins_word = character.is_uppercase()
            && last.is_some_and(|last| {
                let next_is_small =
                    characters.get(index + 1).is_some_and(|next| next.is_lowercase());
                last.is_lowercase() || last.is_numeric() || last.is_uppercase() && next_is_small
            });
        if begins_word {
            snake.push('_');
        }
        snake.push(if *character == '-' || *character == '.' {
            '_'
        } else {
            character.to_ascii_lowercase()
        });
    }
    snake
}

fn is_secret_name(name: &str) -> bool {
    SECRET_WORDS.iter().any(|word| {
        name.match_indices(word).any(|(start, _)| {
            let (before, after) = (&name[..start], &name[start + word.len()..]);
            (before.is_empty() || before.ends_with('_'))
                && (after.is_empty() || after.starts_with('_'))
        })
    })
}

/// The text without anything that looks like a secret.
pub fn redact_text(text: &str) -> Cow<'_, str> {
    // Most texts end here: one search for all markers at once.
    if MARKS.as_ref().is_some_and(|marks| !marks.is_match(text)) {
        return Cow::Borrowed(text);
    }
    let lower = text.to_ascii_lowercase();
    let mut clean = Cow::Borrowed(text);
    for pattern in SHAPES.iter().filter_map(|shape| shape.regex_for(&lower)) {
        if pattern.is_match(&clean) {
            clean = Cow::Owned(replace_matches(pattern, &clean));
        }
    }
    match named_secrets::redact_values(&clean, &lower) {
        Cow::Borrowed(_) => clean,
        Cow::Owned(cleaner) => Cow::Owned(cleaner),
    }
}

fn replace_matches(shape: &Regex, text: &str) -> String {
    let mut clean = String::with_capacity(text.len());
    let mut end = 0;
    for found in shape.captures_iter(text) {
        let Some(secret) = found.get(1).or_else(|| found.get(0)) else { continue };
        clean.push_str(&text[end..secret.start()]);
        clean.push_str(REDACTED);
        end = secret.end();
    }
    clean.push_str(&text[end..]);
    clean
}

/// The value without secrets, and short enough to be stored.
pub fn redact_value(value: &Value) -> Value {
    match value {
        Value::String(long) => Value::String(redact_and_shorten(long)),
        Value::Array(items) => {
            Value::Array(items.iter().take(ITEMS_MAX).map(self::redact_value).collect())
        }
        Value::Object(fields) => {
            let clean = |(name, field): (&String, &Value)| {
                // Everything below a secret field is secret, at any depth.
                let clean = match field {
                    Value::Null | Value::Bool(_) => field.clone(),
                    Value::String(text) if CONTENT_FIELDS.contains(&name.as_str()) => {
                        size_placeholder(text)
                    }
                    Value::Object(headers) if name == HEADERS => self::redact_headers(headers),
                    field if is_secret_field(name, field) => Value::String(REDACTED.to_owned()),
                    field => self::redact_value(field),
                };
                (shorten_name(name), clean)
            };
            Value::Object(fields.iter().take(ITEMS_MAX).map(clean).collect::<Map<_, _>>())
        }
        other => other.clone(),
    }
}

/// The value of a field without secrets: fully redacted if the name denotes a secret.
pub fn redact_field<'a>(name: &str, value: &'a str) -> Cow<'a, str> {
    match is_secret_field(name, &Value::Null) {
        true => Cow::Borrowed(REDACTED),
        false => redact_text(value),
    }
}

/// Headers of a request: every header that is not known to be harmless is redacted.
fn redact_headers(headers: &Map<String, Value>) -> Value {
    let clean = |(name, header): (&String, &Value)| {
        let is_plain = PLAIN_HEADERS.iter().any(|plain| name.eq_ignore_ascii_case(plain));
        let clean = match header {
            Value::String(text) if is_plain => Value::String(redact_and_shorten(text)),
            Value::String(_) if is_secret_field(name, header) => Value::String(REDACTED.to_owned()),
            Value::String(text) => size_placeholder(text),
            Value::Null | Value::Bool(_) => header.clone(),
            _ => Value::String(REDACTED.to_owned()),
        };
        (shorten_name(name), clean)
    };
    Value::Object(headers.iter().take(ITEMS_MAX).map(clean).collect::<Map<_, _>>())
}

/// The size of a text instead of its contents.
fn size_placeholder(text: &str) -> Value {
    Value::String(format!("[{} bytes]", text.len()))
}

/// Whether a stored text is a size instead of its contents.
pub fn is_size_placeholder(text: &str) -> bool {
    let size = text.strip_prefix('[').and_then(|text| text.strip_suffix(" bytes]"));
    size.is_some_and(|size| !size.is_empty() && size.bytes().all(|byte| byte.is_ascii_digit()))
}

/// A shortened field name, because the caller chooses it.
fn shorten_name(name: &str) -> String {
    redact_and_cut(&escape_unsafe_chars(head(name, TEXT_BYTES_MAX * 4)), NAME_BYTES_MAX)
}

/// The text without secrets, shortened for an audit row. Redacts a longer part than it keeps before
/// it cuts, so that no half of a secret remains at the edge.
pub fn redact_and_shorten(long: &str) -> String {
    redact_and_cut(long, TEXT_BYTES_MAX)
}

fn redact_and_cut(long: &str, bytes_max: usize) -> String {
    let window = head(long, TEXT_BYTES_MAX * 4);
    let clean = redact_text(window);
    // Redaction may shift the edge of the window into the part that is kept.
    let edge = if window.len() < long.len() { EDGE_BYTES } else { 0 };
    let kept = head(&clean, bytes_max.min(clean.len().saturating_sub(edge)));
    if kept.len() == clean.len() && window.len() == long.len() {
        return clean.into_owned();
    }
    format!("{kept}… ({} bytes in all)", long.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[track_caller]
    fn check(dirty: &str, clean: &str) {
        assert_eq!(redact_text(dirty), clean);
    }

    #[test]
    fn field_is_secret_by_name_or_shape() {
        assert_eq!(redact_field("X-Api-Key", "k-93"), REDACTED);
        assert_eq!(redact_field("X-Mine", "own words"), "own words");
        assert_eq!(redact_field("X-Mine", "ghp_0123456789abcdefghij0123"), REDACTED);
    }

    #[test]
    fn secret_shapes_are_redacted() {
        check("use sk-ant-api03-abcdefghijklmnopqrstuv now", "use [redacted] now");
        check("ghp_0123456789abcdefghij0123", "[redacted]");
        check("AKIAIOSFODNN7EXAMPLE", "[redacted]");
        check(
            "curl -H 'Authorization: Bearer abcdef123456'",
            "curl -H 'Authorization: [redacted]'",
        );
        check("DB_PASSWORD=hunter22 make", "DB_PASSWORD=[redacted] make");
        check("mysql --password hunter22", "mysql --password [redacted]");
        check("zero login --password --yes", "zero login --password --yes");
        check("docker login --password-stdin --yes x", "docker login --password-stdin --yes x");
        check("tool --password --hunter22", "tool --password [redacted]");
        check("to allow it, pass `--yes`", "to allow it, pass `--yes`");
        check("pass `--hunter22`", "pass `[redacted]`");
        check(r#"{"api_key": "abcd1234"}"#, r#"{"api_key": "[redacted]"}"#);
        check("git clone https://me:pa55@host/x", "git clone https://me:[redacted]@host/x");
        check(
            "-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----\nrest",
            "[redacted]\nrest",
        );
        check("-----BEGIN PRIVATE KEY-----\nMIIE", "[redacted]");
    }

    #[test]
    fn common_secret_spellings_are_redacted() {
        for dirty in [
            r#"let password: &str = "LEAK1234";"#,
            r#"const apiKey: string = "LEAK1234""#,
            "Authorization: LEAK1234",
            "Authorization: Digest username=LEAK1234",
            "Set-Cookie: session=LEAK1234",
            "<password>LEAK1234</password>",
            r#"setPassword("LEAK1234")"#,
            r#"NewSecret([]byte("LEAK1234"))"#,
            "PASS=LEAK1234",
            "pass: LEAK1234",
            "postgres://u:LEAK1234/abc@host",
            "https://LEAK12345678@github.com/x",
            "curl -u user:LEAK1234 host",
            "signing_key=LEAK1234",
            "AccountKey=LEAK1234",
            "encryption_key: LEAK1234",
            "-----BEGIN PGP PRIVATE KEY BLOCK-----\nLEAK1234",
            "AGE-SECRET-KEY-1LEAK1234ABCDEFGH",
            "https://hooks.slack.com/services/T00000000/B00000000/LEAKXXXXXXXXXXXX",
            "https://discord.com/api/webhooks/123456789012345678/LEAKabcdefghijkl-ABC_12",
            "https://api.telegram.org/bot123456789:AALEAKabcdefghijklmnopqrstuvwxyz123/getMe",
            "hvs.LEAKabcdefghijklmnopqrstuvwx",
            "shpat_LEAK567890abcdef1234567890abcdef",
            "https://x.blob.core.windows.net/c?sv=2020&sig=LEAKabc%2Bdef%3D",
            "https://b.s3.amazonaws.com/x?X-Amz-Signature=LEAKab&X-Amz-Credential=LEAKA",
            "https://maps.x.com/?key=LEAKabcdef123",
            "https://x.com/cb?code=LEAKabcdef123",
            "https://x.com/?auth=LEAKabcdef123",
            "curl -b 'session=LEAKabc; other=LEAK' x",
            "curl -s -b sid=LEAKabc x",
            "wget --cookie sid=LEAKabc x",
            "Cookie: a=LEAK; b=LEAK",
            "mysql -uroot -pLEAKpw db",
            "sshpass -p LEAKpw ssh x",
            "sshpass -p'LEAKpw' ssh x",
            "docker login -u me -p LEAKpw",
            "az login -u a -p LEAKpw",
            "redis-cli -h x -a LEAKpw ping",
            "zip -r -P LEAKpw x y",
            "7z a -pLEAKpw x",
            "openssl enc -k LEAKpw -pass pass:LEAKpw2",
            "htpasswd -b f user LEAKpw",
            "psql --password LEAKpw",
            "RAILS_MASTER_KEY=LEAKpw",
            "STRIPE_KEY=LEAKpw rails s",
            "ssh_key=LEAKpw",
            "client-key-data: LEAKabcdef",
            r#"{"auths":{"x":{"auth":"LEAKabcdef=="}}}"#,
            "//registry.example.org/:_auth=LEAKpwLEAKpw",
            "session_id=LEAKpw",
            "pw=LEAKpw",
            "passwort=LEAKpw",
            "otp=LEAK123",
        ] {
            assert!(!redact_text(dirty).contains("LEAK"), "{dirty} -> {}", redact_text(dirty));
        }
    }

    #[test]
    fn file_content_is_counted_not_quoted() {
        let input =
            json!({"file_path": "a", "content": "x = 1", "edits": [{"newText": "secret stuff"}]});
        let clean =
            json!({"file_path": "a", "content": "[5 bytes]", "edits": [{"newText": "[12 bytes]"}]});
        assert_eq!(redact_value(&input), clean);
    }

    #[test]
    fn every_pattern_compiles() {
        assert!(MARKS.is_some());
        assert!(SHAPES.iter().all(|shape| Regex::new(shape.pattern).is_ok()));
    }

    #[test]
    fn ordinary_text_is_unchanged() {
        for plain in [
            "fn token_count(&self) -> usize",
            "src/tokens.rs",
            "a sketch of the tasks",
            "risk-free",
            "let x = 1;",
            "let token = next_token();",
            "let token = self.tokens.next()?;",
            "match Token::Comma {",
            "the token parser reads each token once",
            "- /api_key: expected one of `pattern`, found unknown field `api_key` (did you mean `key`?)",
            "/password: expected a string, found 3",
            "http://localhost:8080/users/@me",
            r#"{"password": null, "secret": true}"#,
            "primary_key: id",
            "let cache_key = path.join(name);",
            "sort --key=2 names.txt",
            "git checkout -b feature/x=y",
            "mkdir -p a/b && cp -p a b",
            "docker run -p 8080:80 web",
            "mysql -u root -p shop",
            "zip -r out.zip src",
            "https://example.org/error?code=404",
            "https://example.org/?page=2&sort=name",
            "auth: required",
            "the author of the session",
            "fn key(&self) -> &Key {",
        ] {
            check(plain, plain);
        }
    }

    #[test]
    fn whole_value_after_name_is_redacted() {
        check(r#"password="correct horse battery staple" x"#, r#"password="[redacted]" x"#);
        check("password = 'it is LEAK' # x", "password = '[redacted]' # x");
        check("PASSWORD=p,LEAK make", "PASSWORD=[redacted] make");
        check("PASSWORD=p;LEAK&LEAK make", "PASSWORD=[redacted] make");
        check(r#"password=p"LEAK x"#, "password=[redacted] x");
        check(r#"password="p"LEAK x"#, r#"password="[redacted] x"#);
        check(r#"password="never closed LEAK"#, r#"password="[redacted]"#);
        check(r#"password="an \" escape LEAK" x"#, r#"password="[redacted]" x"#);
        check("postgres://user:p@ssLEAK@host/db", "postgres://user:[redacted]@host/db");
        check(r#"{"db_pwd": "LEAK"}"#, r#"{"db_pwd": "[redacted]"}"#);
        check("DB_PASS=LEAK", "DB_PASS=[redacted]");
        check(r#"{"accessToken":"LEAK","a":1}"#, r#"{"accessToken":"[redacted]","a":1}"#);
        check(
            r#"{\"password\": \"LEAK\", \"a\": 1}"#,
            r#"{\"password\": \"[redacted]\", \"a\": 1}"#,
        );
        check(
            r#"{\\\"password\\\": \\\"a \\\\\\\" LEAK\\\"}"#,
            r#"{\\\"password\\\": \\\"[redacted]\\\"}"#,
        );
        check(
            r#"{"tokens": ["LEAK", {"a": ["LEAK"]}], "b": 1}"#,
            r#"{"tokens": [redacted], "b": 1}"#,
        );
        check(r#"config["secret"] = "LEAK";"#, r#"config["secret"] = "[redacted]";"#);
        check(r#"if password == "LEAK" {"#, r#"if password == "[redacted]" {"#);
        check("(password: LEAK)", "(password: [redacted])");
        check("--token LEAKED --verbose", "--token [redacted] --verbose");
        check(r#"--password "correct LEAK" x"#, r#"--password "[redacted]" x"#);
        check("the password correcthorse", "the password [redacted]");
        check("Authorization: token Abc1", "Authorization: [redacted]");
        check("api_key=LEAK, secret=LEAK", "api_key=[redacted], secret=[redacted]");
    }

    #[test]
    fn multiline_value_is_redacted() {
        check(
            "PRIVATE_TOKEN: |\n  LEAK\n  LEAK\nnext: 1",
            "PRIVATE_TOKEN: |\n  [redacted]\nnext: 1",
        );
        check(
            "a:\n  secret: >-\n    LEAK\n\n    LEAK\n  b: 1",
            "a:\n  secret: >-\n    [redacted]\n  b: 1",
        );
        check("passwords:\n- LEAK\n- LEAK\nnext: 1", "passwords:\n[redacted]\nnext: 1");
        check("password:\nnext: 1", "password:\nnext: 1");
        check("password: correct horse LEAK\nnext: 1", "password: [redacted]\nnext: 1");
        check("  secret = correct horse LEAK\nnext = 1", "  secret = [redacted]\nnext = 1");
        check("password=\nnext=1", "password=\nnext=1");
    }

    #[test]
    fn fields_named_after_secrets_lose_their_value() {
        let input = json!({"url": "x", "headers": {"Authorization": "zzz", "X-Api-Key": 12345}, "tokens": 3});
        assert_eq!(
            redact_value(&input),
            json!({"url": "x", "headers": {"Authorization": "[redacted]", "X-Api-Key": "[redacted]"}, "tokens": 3})
        );
    }

    #[test]
    fn only_plain_headers_are_recorded() {
        let input = json!({"headers": {
            "Content-Type": "application/json",
            "X-Custom": "LEAK-9f8e",
            "Cookie": "LEAK",
            "X-Numbers": [1, "LEAK"],
            "X-\u{1b}[2J\u{202e}\n": "LEAK",
        }});
        let clean = redact_value(&input);
        assert_eq!(
            clean["headers"],
            json!({
                "Content-Type": "application/json",
                "X-Custom": "[9 bytes]",
                "Cookie": "[redacted]",
                "X-Numbers": "[redacted]",
                "X-\\u{1b}[2J\\u{202e}\n": "[4 bytes]",
            })
        );
        let secret = "ghp_0123456789abcdefghij0123";
        let long = "n".repeat(10_000);
        let clean = redact_value(&json!({"headers": {secret: "x", long: "y"}})).to_string();
        assert!(!clean.contains(secret) && clean.len() < 500, "{clean}");
    }

    #[test]
    fn nothing_under_secret_field_remains() {
        for field in
            ["password", "accessToken", "APIKey", "X-Api-Key", "db_pwd", "dbPass", "secrets"]
        {
            for leak in [json!("LEAK"), json!(["LEAK"]), json!({"a": {"b": ["LEAK"]}})] {
                let clean = redact_value(&json!({"in": {field: leak}}));
                assert_eq!(clean, json!({"in": {field: "[redacted]"}}));
            }
        }
        for field in ["tokenizer", "compass", "secretary", "passes", "keyboard"] {
            let plain = json!({field: "kept"});
            assert_eq!(redact_value(&plain), plain);
        }
        assert_eq!(
            redact_value(&json!({"sk-ant-api03-abcdefghijklmnopqrstuv": 1, "password=LEAK": 2})),
            json!({"[redacted]": 1, "password=[redacted]": 2})
        );
        let long = redact_value(&json!({"x".repeat(5_000): 1}));
        assert!(long.as_object().unwrap().keys().all(|name| name.len() < 200));
    }

    #[test]
    fn long_text_is_cut_without_partial_secret() {
        let long = format!(
            "{}{}",
            "x".repeat(TEXT_BYTES_MAX - 10),
            " sk-abcdefghijklmnopqrstuvwxyz0123456789"
        );
        let short = redact_and_shorten(&long);
        assert!(!short.contains("sk-"), "{short}");
        let pem =
            format!("-----BEGIN PRIVATE KEY-----{}-----END PRIVATE KEY-----", "x".repeat(3_500));
        let filler = " ".repeat(TEXT_BYTES_MAX * 4 - pem.len() - 10);
        let short = redact_and_shorten(&format!("{pem}{filler}AKIAIOSFODNN7EXAMPLE and more"));
        assert!(!short.contains("AKIA"), "{short}");
        assert!(redact_and_shorten(&"é".repeat(5_000)).ends_with("… (10000 bytes in all)"));
    }
}
