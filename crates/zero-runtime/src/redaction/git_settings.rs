//! Secret values in git's settings: passwords in addresses, headers, tokens.
//!
//! Git reads these files all the time, and so do people who look for a remote, so zero does not ask
//! before they are read. Their secrets are few and easy to recognize.

use std::path::{Path, PathBuf};

use base64::Engine as _;
use zero_sandbox::path_survey;

use super::code_words::is_code;
use super::secret_values::{
    FileSecrets, has_secret_format, is_common, is_path, is_random, is_reference,
};

/// Largest file that names another folder.
const LINK_BYTES_MAX: u64 = 4_096;
/// Shortest word that is secret because of its format.
const WORD_CHARS_MIN: usize = 16;
/// Ends of keys whose values are secrets: `github.token`, `sendemail.smtppass`.
const SECRET_KEY_ENDS: &[&str] =
    &["token", "password", "passwd", "passphrase", "pass", "secret", "apikey"];
/// Passwords which say that the user name is the token.
const NO_PASSWORDS: &[&str] = &["x-oauth-basic", "x-token-auth"];
/// Before a password that a helper prints.
const PRINTED_PASSWORD: &str = "password=";

/// The settings files of the repository with this `.git`, which is a folder, or a file that names one.
pub(super) fn find_files(dot_git: &Path) -> Vec<PathBuf> {
    let mut folders = vec![dot_git.to_owned()];
    if let Some(folder) = read_link(dot_git, "gitdir:", dot_git.parent()) {
        // The settings of a worktree are those of its repository.
        let common = read_link(&folder.join("commondir"), "", Some(&folder));
        folders = std::iter::once(folder).chain(common).collect();
    }
    let names = ["config", "config.worktree"];
    let files = folders.iter().flat_map(|folder| names.map(|name| folder.join(name)));
    files.filter(|file| path_survey::exists(file)).collect()
}

/// The path in a small file, relative to a folder.
fn read_link(file: &Path, start: &str, base: Option<&Path>) -> Option<PathBuf> {
    let content = path_survey::read_small_file(file, LINK_BYTES_MAX)?;
    let text = String::from_utf8(content).ok()?;
    let target = text.trim().strip_prefix(start)?.trim();
    (!target.is_empty()).then(|| base.map(|base| base.join(target))).flatten()
}

/// The secrets in a settings file.
pub(super) fn read_file(content: &[u8]) -> FileSecrets {
    let text = String::from_utf8_lossy(content).replace("\\\r\n", "").replace("\\\n", "");
    let mut found = FileSecrets { is_complete: true, ..FileSecrets::default() };
    let mut section = String::new();
    for line in text.lines().map(str::trim) {
        let mut line = line;
        if line.starts_with('[') {
            let (header, rest) = split_header(line);
            section = header.split([' ', '.', ']']).next().unwrap_or_default().to_lowercase();
            // `[url "https://me:secret@host/"]`: only the first word is shown as a name.
            found.add_addresses(&section, header);
            line = rest.trim();
        }
        let Some((key, value)) = line.split_once('=') else { continue };
        let key = key.trim_start_matches(['#', ';', ' ', '\t']).trim().to_lowercase();
        if key.is_empty() || !key.chars().all(|c| c.is_ascii_alphanumeric() || c == '-') {
            continue;
        }
        let name = format!("{section}.{key}");
        found.add_setting(&name, &key, &read_value(value));
    }
    found
}

/// A section's name, and what follows it on its line. A quoted part of the name may contain brackets.
fn split_header(line: &str) -> (&str, &str) {
    let mut is_quoted = false;
    let end = line.char_indices().find(|(_, c)| {
        is_quoted ^= *c == '"';
        *c == ']' && !is_quoted
    });
    let (header, rest) = line.split_at(end.map_or(line.len(), |(at, _)| at));
    (header.trim_start_matches('['), rest.trim_start_matches(']'))
}

/// A value without its quotes, escapes and comment.
fn read_value(text: &str) -> String {
    let (mut value, mut is_quoted, mut is_escaped) = (String::new(), false, false);
    for c in text.trim().chars() {
        match c {
            _ if is_escaped => {
                value.push(c);
                is_escaped = false;
            }
            '\\' => is_escaped = true,
            '"' => is_quoted = !is_quoted,
            '#' | ';' if !is_quoted => break,
            c => value.push(c),
        }
    }
    value.trim().to_owned()
}

impl FileSecrets {
    fn add_setting(&mut self, name: &str, key: &str, value: &str) {
        self.add_addresses(name, value);
        if key == "extraheader" {
            return self.add_header(name, value);
        }
        for printed in value.split(PRINTED_PASSWORD).skip(1) {
            let end = printed.find([';', '"', '\'', ' ', '}']).unwrap_or(printed.len());
            self.add_certain(name, printed.get(..end).unwrap_or_default());
        }
        let is_named = SECRET_KEY_ENDS.iter().any(|end| key.ends_with(end));
        let is_program = name.starts_with("alias.") || key == "askpass";
        if is_named && !is_program && !value.starts_with('!') && !value.contains("://") {
            self.add_certain(name, value);
        }
        for word in value.split([' ', '\t', '"', '\'', ';']) {
            let is_token = word.chars().count() >= WORD_CHARS_MIN && !word.contains(['=', ':']);
            if is_token && has_secret_format(word) {
                self.push(name, word);
            }
        }
    }

    fn add_certain(&mut self, name: &str, value: &str) {
        if !is_common(value) && !is_reference(value) && !is_path(value) && !is_code(value) {
            self.push(name, value);
        }
    }

    /// The logins of all addresses in a text. The rest of an address is not secret: masking it would
    /// hide which remote it is.
    fn add_addresses(&mut self, name: &str, text: &str) {
        for rest in text.split("://").skip(1) {
            let end = rest.find(['/', ' ', '"', '\'']).unwrap_or(rest.len());
            let Some((login, host)) = rest.get(..end).and_then(|text| text.rsplit_once('@')) else {
                continue;
            };
            let (user, password) = login.split_once(':').unwrap_or((login, ""));
            if has_secret_format(user) || is_random(user) {
                self.push(name, user);
            }
            match NO_PASSWORDS.contains(&password) || password.is_empty() {
                true => {}
                // Too short to be found alone.
                false if is_common(password) => self.push(name, &format!("{login}@{host}")),
                false => self.add_certain(name, password),
            }
        }
    }

    /// `AUTHORIZATION: basic …`, `PRIVATE-TOKEN: …`.
    fn add_header(&mut self, name: &str, value: &str) {
        let (_, content) = value.split_once(':').unwrap_or(("", value));
        let Some(credential) = content.split_whitespace().next_back() else { return };
        self.add_certain(name, credential);
        let decoded = base64::engine::general_purpose::STANDARD.decode(credential);
        let login = decoded.ok().and_then(|bytes| String::from_utf8(bytes).ok());
        if let Some((_, password)) = login.as_deref().and_then(|login| login.split_once(':')) {
            self.add_certain(name, password);
        }
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::disallowed_methods, reason = "tests set up real files")]
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &[(&str, &str)]) {
        let found = read_file(text.as_bytes());
        let values: Vec<(&str, &str)> =
            found.values.iter().map(|value| (&*value.name, &*value.text)).collect();
        assert_eq!(values, expected, "{text}");
    }

    #[test]
    fn secrets_of_settings_are_found() {
        let token = "ghp_0123456789abcdefghij0123";
        check(
            &format!("[remote \"origin\"]\n\turl = https://bob:{token}@github.com/x/y # z\n"),
            &[("remote.url", token)],
        );
        check(
            &format!("[remote \"o\"] pushurl = https://{token}:x-oauth-basic@github.com/x\n"),
            &[("remote.pushurl", token)],
        );
        check(
            "[url \"https://me:glpat-9fK2mQ4xW7a_b@gitlab.com/[x]/\"]\n\tinsteadOf = gl:\n",
            &[("url", "glpat-9fK2mQ4xW7a_b")],
        );
        check(
            "[http \"https://github.com/\"]\nextraheader = AUTHORIZATION: basic bWU6czNjcjN0LXdvcmQ=\n",
            &[("http.extraheader", "bWU6czNjcjN0LXdvcmQ="), ("http.extraheader", "s3cr3t-word")],
        );
        check("[github]\n\ttoken = 9fK2mQ4xW7 ; old\n", &[("github.token", "9fK2mQ4xW7")]);
        check(
            "[sendemail]\nsmtpPass = \"a b#c \\\"d\\\"\"\n",
            &[("sendemail.smtppass", "a b#c \"d\"")],
        );
        check("[x]\n# token = 9fK2mQ4xW7\n", &[("x.token", "9fK2mQ4xW7")]);
        check(
            "[credential]\nhelper = \"!f() { echo username=me; echo password=9fK2mQ4xW7; }; f\"\n",
            &[("credential.helper", "9fK2mQ4xW7")],
        );
        check("[http]\nproxy = http://me:short@proxy:80\n", &[("http.proxy", "me:short@proxy:80")]);
        check("[alias]\nx = !curl -H \\\n  ghp_0123456789abcdefghij0123\n", &[("alias.x", token)]);
    }

    #[test]
    fn ordinary_settings_are_left_alone() {
        check(
            "[core]\n\trepositoryformatversion = 0\n\teditor = vim\n[user]\n\tname = Me Myself\n\
             \temail = me@example.com\n\tsigningkey = 0123456789ABCDEF\n[remote \"origin\"]\n\
             \turl = https://github.com/x/y.git\n\turl = git@github.com:x/y.git\n\
             \turl = https://somebody@dev.example.com/x\n\turl = ssh://git@github.com:22/x/y\n\
             \tfetch = +refs/heads/*:refs/remotes/origin/*\n[credential]\n\thelper = store --file ~/.git-x\n\
             [url \"git@github.com:\"]\n\tinsteadOf = https://github.com/\n[branch \"main\"]\n\tmerge = refs/heads/main\n",
            &[],
        );
        check(
            "[credential]\n\thelper = \"!f() { echo username=x; echo password=$GITHUB_TOKEN; }; f\"\n\
             [core]\n\taskPass = /usr/bin/ksshaskpass\n[alias]\n\tbypass = push --no-verify\n\
             [a]\n\ttoken = function\n\tbpass = import React\n[remote \"o\"]\n\
             \turl = https://u:${SOME_TOKEN}@example.com/x\n",
            &[],
        );
    }

    #[test]
    fn files_of_worktree_are_those_of_its_repository() {
        let temp = tempfile::tempdir().unwrap();
        let root = temp.path().canonicalize().unwrap();
        let worktree = root.join("main/.git/worktrees/w");
        std::fs::create_dir_all(&worktree).unwrap();
        std::fs::create_dir(root.join("w")).unwrap();
        std::fs::write(root.join("main/.git/config"), "").unwrap();
        std::fs::write(worktree.join("config.worktree"), "").unwrap();
        std::fs::write(worktree.join("commondir"), "../..\n").unwrap();
        std::fs::write(root.join("w/.git"), "gitdir: ../main/.git/worktrees/w\n").unwrap();
        let files: Vec<PathBuf> = find_files(&root.join("w/.git"))
            .iter()
            .map(|file| file.canonicalize().unwrap())
            .collect();
        let config = root.join("main/.git/config");
        assert_eq!(files, [worktree.join("config.worktree"), config.clone()]);
        assert_eq!(find_files(&root.join("main/.git")), [config]);
    }
}
