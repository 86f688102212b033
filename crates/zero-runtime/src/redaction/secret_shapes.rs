//! Secrets with a recognizable format: a vendor prefix, a header, an option on a command line.

use std::sync::OnceLock;

use regex::Regex;

/// One secret format. If the pattern has a group, only the group is redacted.
pub(super) struct SecretShape {
    /// A text without any of these markers, ignoring case, cannot match. The pattern is only
    /// compiled for texts with a marker, because that is expensive.
    pub(super) marks: &'static [&'static str],
    pub(super) pattern: &'static str,
    built: OnceLock<Option<Regex>>,
}

impl SecretShape {
    pub(super) const fn new(marks: &'static [&'static str], pattern: &'static str) -> Self {
        Self { marks, pattern, built: OnceLock::new() }
    }

    /// The pattern, if `lower`, a text in lower case, may match.
    pub(super) fn regex_for(&self, lower: &str) -> Option<&Regex> {
        let may_have = self.marks.iter().any(|mark| lower.contains(mark));
        let built = may_have.then(|| self.built.get_or_init(|| Regex::new(self.pattern).ok()));
        built.and_then(Option::as_ref)
    }
}

pub(super) static SHAPES: [SecretShape; 29] = [
    // Private keys in PEM format, complete or truncated.
    SecretShape::new(
        &["-----begin"],
        r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----[\s\S]*?(?:-----END [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----|\z)",
    ),
    // Keys with a vendor prefix: OpenAI, Anthropic, Stripe, GitHub, GitLab, Slack, AWS, Google, …
    SecretShape::new(
        &["sk-", "pk-", "rk-", "sk_", "pk_", "rk_"],
        r"\b(?:sk|pk|rk)[-_](?:[A-Za-z]+[-_])*[A-Za-z0-9_-]{16,}",
    ),
    SecretShape::new(
        &["gh", "glpat"],
        r"\b(?:gh[pousr]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,}|glpat-[A-Za-z0-9_-]{16,})",
    ),
    SecretShape::new(&["xox"], r"\bxox[abeoprs]-[A-Za-z0-9-]{10,}"),
    SecretShape::new(&["akia", "asia"], r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b"),
    SecretShape::new(&["aiza"], r"\bAIza[A-Za-z0-9_-]{30,}"),
    SecretShape::new(
        &["npm_", "pypi-", "hf_", "dop_v1_", "sg.", "ya29.", "whsec_", "age-secret-key-"],
        r"\b(?:npm_|pypi-|hf_|dop_v1_|SG\.|ya29\.|whsec_|AGE-SECRET-KEY-)[A-Za-z0-9_.-]{16,}",
    ),
    // JSON web tokens.
    SecretShape::new(&["eyj"], r"\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*"),
    // `Authorization: Bearer …`, `Basic …`.
    SecretShape::new(&["bearer", "basic"], r"(?i)\b(?:bearer|basic)\s+([A-Za-z0-9._~+/=-]{8,})"),
    // `https://user:password@host`, `https://token@host`; a password may contain `@` and `/` too. A
    // number after the colon is a port, and the text after its slash a path.
    SecretShape::new(&["://"], r#"[a-zA-Z][a-zA-Z0-9+.-]*://[^\s/:@]*:([^\s/"'<>]+)@"#),
    SecretShape::new(&["://"], r#"[a-zA-Z][a-zA-Z0-9+.-]*://[^\s/:@]+:([^\s\d/"'<>][^\s"'<>]*)@"#),
    SecretShape::new(&["://"], r#"[a-zA-Z][a-zA-Z0-9+.-]*://([^\s/:@"'<>]{8,})@"#),
    // Headers, whatever their scheme.
    SecretShape::new(
        &["authorization", "cookie"],
        r#"(?i)\b(?:proxy-)?(?:authorization|(?:set-)?cookie)["']?\s*[:=]\s*["']?([^\r\n"']+)"#,
    ),
    // `curl -u name:password`.
    SecretShape::new(&["-u", "--user"], r"(?:^|\s)(?:-u|--user)[= ]?[^\s:]+:(\S+)"),
    // `<password>…</password>`, `setPassword("…")`.
    SecretShape::new(
        &["passw", "secret", "token", "key>"],
        r"(?i)<[\w:-]*(?:passw(?:or)?d|secret|token|api-?key)[\w:-]*>([^<]+)</",
    ),
    SecretShape::new(
        &["passw", "secret", "token", "key("],
        r#"(?i)(?:passw(?:or)?d|secret|token|api_?key)\w*\(\s*(?:\[\]byte\()?["'`]([^"'`]+)"#,
    ),
    // `let password: &str = "…"`: the value follows the type.
    SecretShape::new(
        &["passw", "secret", "token", "key"],
        r#"(?i)(?:passw(?:or)?d|secret|token|api_?key)\w*\s*:\s*[^=\n"']{1,60}=\s*\w*["'`]+([^"'`]+)"#,
    ),
    // Webhook URLs, with which anyone can post: Slack, Discord.
    SecretShape::new(
        &["hooks.slack.com", "/webhooks/"],
        r"(?i)(?:hooks\.slack\.com/[a-z]+|discord(?:app)?\.com/api/(?:v\d+/)?webhooks/\d+)/([\w/+-]+)",
    ),
    // Telegram bot tokens.
    SecretShape::new(&[":aa"], r"\d{6,12}:AA[A-Za-z0-9_-]{30,}"),
    // Vault, Shopify.
    SecretShape::new(
        &["hvs.", "hvb.", "hvr.", "shpat_", "shpss_", "shpca_", "shppa_"],
        r"\b(?:hv[sbr]\.|shp(?:at|ss|ca|pa)_)[A-Za-z0-9_.-]{16,}",
    ),
    // Signed URLs and URLs with a key; a short code is not a secret.
    SecretShape::new(
        &["sig=", "signature=", "x-amz-", "x-goog-"],
        r#"(?i)[?&;](?:sig|signature|x-(?:amz|goog)-(?:signature|credential|security-token))=([^&#\s"'<>]+)"#,
    ),
    SecretShape::new(&["key=", "code=", "auth="], r#"(?i)[?&](?:key|code|auth)=([^&#\s"'<>]{6,})"#),
    // `curl -b name=value`, `--cookie "…"`.
    SecretShape::new(
        &["curl", "--cookie"],
        r#"(?:\bcurl\b[^\r\n|]*?\s-b|--cookie)[ =]?["']([^"'\r\n]*=[^"'\r\n]*)"#,
    ),
    SecretShape::new(
        &["curl", "--cookie"],
        r#"(?:\bcurl\b[^\r\n|]*?\s-b|--cookie)[ =]?([^\s"'=]+=[^\s"']+)"#,
    ),
    // Programs with a one-letter option for a password.
    SecretShape::new(
        &["sshpass", "login"],
        r#"\b(?:sshpass|(?:docker|podman|buildah|skopeo|oras|registry|az)\s+login)\b[^\r\n|;&]*?\s-p[ =]?["']?([^\s"']+)"#,
    ),
    SecretShape::new(
        &["mysql", "mariadb", "7z"],
        r#"\b(?:mysql\w*|mariadb\w*|7z\w*)\b[^\r\n|;&]*?\s-p["']?([^\s"']+)"#,
    ),
    SecretShape::new(
        &["redis-cli", "zip", "openssl"],
        r#"\b(?:redis-cli\b[^\r\n|;&]*?\s-a|(?:un)?zip\b[^\r\n|;&]*?\s-P|openssl\b[^\r\n|;&]*?\s-[kK])[ =]?["']?([^\s"']+)"#,
    ),
    SecretShape::new(
        &["htpasswd"],
        r#"\bhtpasswd\b[^\r\n|;&]*?\s-\w*b\w*\s+\S+\s+\S+\s+["']?([^\s"']+)"#,
    ),
    // Credentials of Docker and npm: a name and a password in one text.
    SecretShape::new(&["auth"], r#"(?:"auth"\s*:\s*"|\b_?auth=["']?)([^\s"'&]{6,})"#),
];
