//! Names of secret files in the words of commands that may send them, whatever grammar the words have.
//!
//! `lftp -c "put .env"`, `tool '{.env,x}'` and `tool --file=@.env` are options in no table. But a file that is sent has to be
//! named, so each part of a word that may name a secret file is kept. Words never allow anything here: they only add a
//! question.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::RequestEvaluator;
use crate::command_access::SentName;
use crate::program::{CommandClass, FileAccess, find_client_settings, sends_operands};
use crate::shell::ShellArg;
use crate::shell::analysis::CommandInvocation;
use crate::word_list::words;

/// Most texts that the braces of one word make; of more, the word itself is used.
const BRACE_TEXTS_MAX: usize = 64;
/// Longest word that is taken apart, in bytes. A longer one is a program or data, of which the beginning is.
const WORD_BYTES_MAX: usize = 64 << 10;

/// Programs that use the files which their words name on this machine only, or whose analysis says
/// what they send.
const LOCAL_PROGRAMS: &[&str] = words!(
    ". age certutil code direnv dotenv dotenvx emacs foreman git gpg gpg2 honcho keytool mkcert nano nvim openssl source \
     ssh-keygen vi vim"
);

/// Options that name variables, settings or passwords for the program itself.
const OWN_OPTIONS: &[&str] = words!(
    "dotenv env-file env-files env_file envfile kubeconfig password-file passfile userconfig \
     var-file vault-password-file"
);

/// Ends of the names of keys and certificates, with which programs prove who they are.
const KEY_ENDINGS: &[&str] = words!(".pem .key .crt .p12 .pfx .jks .keystore .ppk .json");

impl RequestEvaluator<'_> {
    /// Whether a command may send files that its words name: it is known to, or it is not known what it
    /// does and commands of the call can reach a host.
    pub(super) fn may_send_words(&self, invocation: &CommandInvocation) -> bool {
        if self.engine.masked_files.is_empty() {
            return false;
        }
        if sends_operands(&invocation.argv) {
            return true;
        }
        let name = invocation.argv.first().and_then(ShellArg::as_known).unwrap_or_default();
        let name = name.rsplit('/').next().unwrap_or_default();
        let is_unknown = invocation.analysis.class == CommandClass::Opaque;
        is_unknown && !LOCAL_PROGRAMS.contains(&name) && self.can_reach_hosts()
    }

    /// Whether settings, rules or answers let commands connect to a host.
    fn can_reach_hosts(&self) -> bool {
        let is_about_host = |rule: &str| rule.starts_with("WebFetch");
        !self.engine.network.listed.is_empty()
            || self.engine.rules.allows_hosts()
            || self.request.grants.iter().any(|grant| is_about_host(&grant.rule))
    }

    /// The secret files that arguments of a command name as paths, also by links.
    pub(super) fn list_secret_operands(&self, invocation: &CommandInvocation) -> Vec<PathBuf> {
        let secret = &self.engine.masked_files;
        let values = sent_words(invocation).filter_map(super::operands::operand_values).flatten();
        let found = values.flat_map(|value| {
            self.resolve_candidates(FileAccess::Read, &value, &invocation.folders).files
        });
        found.map(|views| views.canonical).filter(|path| secret.contains(path)).collect()
    }

    /// The names and patterns in the words of a command that may send files, as far as secret files
    /// have them.
    pub(super) fn list_sent_names(&self, invocation: &CommandInvocation) -> BTreeSet<SentName> {
        let secret = &self.engine.masked_files;
        let is_known_sender = sends_operands(&invocation.argv);
        let is_meant = |part: &str| match SentName::is_pattern(part) {
            // A program that is not known to send files may use `*` for anything.
            true => is_known_sender || part.contains(char::is_alphanumeric),
            false => secret.contains(Path::new(part)),
        };
        let texts = sent_words(invocation).flat_map(|arg| expand_braces(&plain_text(arg)));
        let names = texts.flat_map(|text| {
            let parts = split_word(&text).filter(|part| is_meant(part));
            parts.filter_map(SentName::new).collect::<Vec<_>>()
        });
        SentName::collect(names)
    }
}

/// The words of a command after its program, without files that only set up the program itself.
pub(super) fn sent_words(invocation: &CommandInvocation) -> impl Iterator<Item = &ShellArg> {
    let CommandInvocation { argv, analysis, .. } = invocation;
    let settings = find_client_settings(argv);
    let is_known_sender = sends_operands(argv);
    // The same word may be sent elsewhere on the line.
    let is_identity = |arg: &ShellArg| {
        analysis.identity_files.contains(arg) && argv.iter().filter(|it| *it == arg).count() == 1
    };
    let is_own = move |at: usize, arg: &ShellArg| {
        settings.contains(&at) || !is_known_sender && (is_own_setting(arg) || is_identity(arg))
    };
    argv.iter().enumerate().skip(1).filter(move |(at, arg)| !is_own(*at, arg)).map(|(_, arg)| arg)
}

/// Whether a word is an option of a program that is not known, with a setting of the program itself. A
/// value in a word of its own may be sent: the word before may be the value of another option.
fn is_own_setting(arg: &ShellArg) -> bool {
    let text = arg.known_prefix();
    let Some((option, value)) = text.split_once('=') else { return false };
    let Some(option) = option.strip_prefix('-') else { return false };
    let option = option.trim_start_matches('-').to_ascii_lowercase();
    let names_key =
        || ["key", "cert", "identity", "credential"].iter().any(|it| option.contains(it));
    let is_key = || KEY_ENDINGS.iter().any(|end| value.to_ascii_lowercase().ends_with(end));
    OWN_OPTIONS.contains(&&*option) || names_key() && is_key()
}

/// A word without the backslashes of the shell.
fn plain_text(arg: &ShellArg) -> String {
    let mut text = match arg {
        ShellArg::Pattern(pattern) => pattern.replace('\\', ""),
        ShellArg::Known(text) => text.clone(),
        ShellArg::Unknown { written, .. } => written.clone(),
    };
    if text.len() > WORD_BYTES_MAX {
        text.truncate(text.floor_char_boundary(WORD_BYTES_MAX));
    }
    text
}

/// The texts that a program makes of `{a,b}`, and the text itself.
fn expand_braces(text: &str) -> Vec<String> {
    let mut done = vec![text.to_owned()];
    let mut open = vec![text.to_owned()];
    while let Some(next) = open.pop() {
        let Some((before, inside, after)) = find_braces(&next) else {
            done.push(next);
            continue;
        };
        for piece in inside.split(',') {
            if open.len() + done.len() >= BRACE_TEXTS_MAX {
                return vec![text.to_owned()];
            }
            open.push(format!("{before}{piece}{after}"));
        }
    }
    done
}

/// The first list in braces without braces inside, and what is around it.
fn find_braces(text: &str) -> Option<(&str, &str, &str)> {
    let mut start = None;
    for (at, char) in text.char_indices() {
        match (char, start) {
            ('{', _) => start = Some(at),
            ('}', Some(from)) => {
                let inside = text.get(from + 1..at)?;
                if inside.contains(',') && !inside.contains(char::is_whitespace) {
                    return Some((text.get(..from)?, inside, text.get(at + 1..)?));
                }
                start = None;
            }
            _ => {}
        }
    }
    None
}

/// The parts of a word that may be paths. What follows a colon is at another host, except after `file:`.
fn split_word(text: &str) -> impl Iterator<Item = &str> {
    let is_between = |char: char| char.is_whitespace() || "\"'`\\;,=@<>()|&#{}".contains(char);
    text.split(is_between).map(|chunk| {
        let path = match chunk.split_once(':') {
            Some(("file" | "fileb" | "path", path)) => path.trim_start_matches("//"),
            Some((_, rest)) if rest.starts_with("//") => "",
            Some((path, _)) => path,
            None => chunk,
        };
        match path.strip_prefix('-') {
            // A long option, without a value.
            Some(option) if option.starts_with('-') => "",
            // `-f.env`
            Some(option) => option
                .char_indices()
                .nth(1)
                .and_then(|(at, _)| option.get(at..))
                .unwrap_or_default(),
            None => path,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::secret_file_set::SecretFileSet;

    fn list_names(word: &str, set: &SecretFileSet) -> Vec<String> {
        let texts = expand_braces(word);
        let parts = texts.iter().flat_map(|text| split_word(text));
        let found = parts.filter(|part| set.contains(Path::new(part))).map(str::to_owned);
        found.collect::<BTreeSet<_>>().into_iter().collect()
    }

    #[test]
    fn names_are_found_in_words_of_any_grammar() {
        let set = SecretFileSet::standard();
        for (word, expected) in [
            ("put .env", &[".env"][..]),
            ("-f.env", &[".env"]),
            ("--file=.env", &[".env"]),
            ("x=@.env", &[".env"]),
            ("{\"file\": \".env\"}", &[".env"]),
            ("fileb://.env", &[".env"]),
            ("a/../.env", &["a/../.env"]),
            ("{.env,a.txt}", &[".env"]),
            ("{.e,x}nv", &[".env"]),
            ("{a,{.env,b}}", &[".env"]),
            (".env#shown", &[".env"]),
            ("\\copy x from '.env'", &[".env"]),
            ("open('conf/secrets.yml')", &["conf/secrets.yml"]),
            ("pod:/x/.env", &[]),
            ("https://a.example.com/.env", &[]),
            (".env.example", &[]),
            ("environment", &[]),
        ] {
            assert_eq!(list_names(word, &set), expected, "{word}");
        }
        let many = "{a,b}".repeat(12);
        assert_eq!(expand_braces(&many), [many]);
    }
}
