//! Words with which programs that send files are set up themselves: `kubectl --client-key KEY`.
//!
//! Such a program may send whatever another word names. So an option counts only where it cannot be the
//! value of another one, and only in the grammar of its program.

use std::collections::BTreeSet;

use crate::program::arguments::known_text;
use crate::program::containers::{COMPOSE_GLOBALS, DOCKER_GLOBALS, RUN};
use crate::program::options::{OptionTable, ParsedArguments};
use crate::shell::ShellArg;
use crate::word_list::words;

/// Programs, and their options for keys, certificates and settings, which stay on this machine.
/// Each takes a value, and may be anywhere before `--`.
const CLIENT_OPTIONS: &[(&[&str], &[&str])] = &[
    (words!("aws"), words!("--ca-bundle")),
    (words!("grpcurl"), words!("--cacert --cert --key -cacert -cert -key")),
    (words!("hurl mosquitto_pub"), words!("--cacert --cafile --cert --key")),
    (
        words!("k kubectl oc"),
        words!("--certificate-authority --client-certificate --client-key --kubeconfig"),
    ),
    (words!("rclone"), words!("--ca-cert --client-cert --client-key --config")),
    (words!("restic"), words!("--cacert --password-file --tls-client-cert")),
    (words!("s3cmd"), words!("--config")),
    (words!("swaks"), words!("--tls-cert --tls-key")),
];

/// The options of `docker` itself for its keys and certificates.
const DOCKER_KEYS: &[&str] = words!("identity tlscacert tlscert tlskey");
/// The options that choose another machine for containers.
const DOCKER_HOSTS: &[&str] = words!("H address c connection context host remote url");
/// The option for a file with variables of a container, or of the files of `compose`.
const VARIABLES: &[&str] = &["env-file"];

/// The positions of the words with files that only set up the program of this name itself.
pub(super) fn find(name: &str, argv: &[ShellArg], is_known_sender: bool) -> BTreeSet<usize> {
    match name {
        "docker" | "nerdctl" | "podman" => find_container_settings(argv, is_known_sender),
        "docker-compose" | "podman-compose" => find_compose_settings(argv, 1),
        _ => {
            let rows = CLIENT_OPTIONS.iter().filter(|(programs, _)| programs.contains(&name));
            rows.flat_map(|(_, options)| find_values(argv, options)).collect()
        }
    }
}

/// The positions of the values of these options, as far as each certainly is one.
fn find_values(argv: &[ShellArg], options: &[&str]) -> BTreeSet<usize> {
    let mut found = BTreeSet::new();
    // Whether the word before cannot take this one as its value.
    let mut begins = true;
    let mut words = argv.iter().enumerate().skip(1);
    while let Some((at, word)) = words.next() {
        let Some(text) = word.as_known().filter(|text| *text != "--") else { break };
        let (option, value) = match text.split_once('=') {
            Some((option, value)) => (option, Some(value)),
            None => (text, None),
        };
        match (begins && options.contains(&option), value) {
            (true, Some(_)) => {
                found.insert(at);
            }
            (true, None) => match words.next() {
                Some((at, ShellArg::Known(_))) => {
                    found.insert(at);
                }
                _ => break,
            },
            (false, value) => {
                begins = !text.starts_with('-') || text.starts_with("--") && value.is_some();
            }
        }
    }
    found
}

fn find_container_settings(argv: &[ShellArg], is_known_sender: bool) -> BTreeSet<usize> {
    let (globals, at) = parse_options(argv, 1, DOCKER_GLOBALS);
    let mut found = find_parsed_values(argv, 1..at, &globals, DOCKER_KEYS);
    let words = |at: usize| known_text(argv.get(at));
    let run = match (words(at), words(at + 1)) {
        ("compose", _) => {
            found.extend(find_compose_settings(argv, at + 1));
            None
        }
        ("container", "create" | "exec" | "run") => Some(at + 2),
        ("create" | "exec" | "run", _) => Some(at + 1),
        _ => None,
    };
    // The variables are for a container on this machine.
    if let Some(first) = run
        && !globals.uncertain
        && !globals.has(DOCKER_HOSTS)
        && !is_known_sender
    {
        let (options, image) = parse_options(argv, first, RUN);
        found.extend(find_parsed_values(argv, first..image, &options, VARIABLES));
    }
    found
}

fn find_compose_settings(argv: &[ShellArg], first: usize) -> BTreeSet<usize> {
    let (globals, end) = parse_options(argv, first, COMPOSE_GLOBALS);
    find_parsed_values(argv, first..end, &globals, VARIABLES)
}

/// Parses the options from a position on, and returns the position of the first operand.
fn parse_options(
    argv: &[ShellArg],
    first: usize,
    table: OptionTable,
) -> (ParsedArguments<'_>, usize) {
    let args = argv.get(first..).unwrap_or_default();
    let parsed = table.until_operand().parse(args);
    let end = first + args.len().saturating_sub(parsed.operands.len());
    (parsed, end)
}

/// The positions of the values that a table found for these options.
fn find_parsed_values(
    argv: &[ShellArg],
    range: std::ops::Range<usize>,
    parsed: &ParsedArguments<'_>,
    names: &[&str],
) -> BTreeSet<usize> {
    if parsed.uncertain {
        return BTreeSet::new();
    }
    let word = |at: usize| argv.get(at).and_then(ShellArg::as_known);
    let is_value = |at: usize| {
        let Some(text) = word(at) else { return false };
        let (option, value) = match text.split_once('=').filter(|_| text.starts_with("--")) {
            Some((option, value)) => (option, value),
            None if at > range.start => (word(at - 1).unwrap_or_default(), text),
            None => return false,
        };
        let is_named = option.strip_prefix("--").is_some_and(|option| names.contains(&option));
        is_named && parsed.values(names).any(|known| known.as_known() == Some(value))
    };
    range.clone().filter(|at| is_value(*at)).collect()
}
