//! Commands of git that access another repository, on this machine or elsewhere.

use super::config_effect::GitConfigEffect;
use super::unknown_arguments::{caution_unknown_words, mark_critical_if};
use crate::program::arguments::{args_from, known_text, prefix_args, strip_arg_prefix};
use crate::program::command_analysis::{CommandAnalysis, FileAccess, NestedExecution};
use crate::program::options::{ParsedArguments, options};
use crate::shell::ShellArg;
use crate::word_list::words;

/// Whether a word is an address and not the name of a remote.
pub(super) fn is_address(arg: &ShellArg) -> bool {
    let start = arg.known_prefix();
    let head = start.split('/').next().unwrap_or_default();
    head.contains(':') || head.contains('@')
}

/// Adds an address: a host, a folder of this machine, or (`ext::`) a command.
pub(super) fn add_address(analysis: CommandAnalysis, address: &ShellArg) -> CommandAnalysis {
    if let Some(text) = strip_arg_prefix(address, "ext::") {
        return analysis
            .with_run(NestedExecution::from_script(&text))
            .with_caution("`ext::` runs a command");
    }
    let start = address.known_prefix();
    if let Some(path) = strip_arg_prefix(address, "file://") {
        return analysis.with_recursive_touch(FileAccess::Read, &path);
    }
    if start.contains("::") && !start.contains("://") {
        return analysis.with_host(address).with_caution("its address names a helper to run");
    }
    if is_address(address) {
        return analysis.with_host(address);
    }
    if start.starts_with(['/', '.', '~']) {
        return analysis.with_recursive_touch(FileAccess::Read, address);
    }
    analysis
}

/// Programs named for the other end; for an address on this machine they run here.
pub(super) fn add_transport_programs(
    analysis: CommandAnalysis,
    line: &ParsedArguments<'_>,
    names: &[&str],
) -> CommandAnalysis {
    analysis
        .with_scripts(&line.all_values(names))
        .with_caution_if(line.has(names), "an option names the program at the other end")
}

pub(super) fn add_templates(
    mut study: CommandAnalysis,
    line: &ParsedArguments<'_>,
) -> CommandAnalysis {
    for template in line.all_values(&["template"]) {
        study = study
            .with_recursive_touch(FileAccess::Read, &template)
            .with_caution("a template may bring hooks that run later");
    }
    study
}

pub(super) fn analyze_clone(args: &[ShellArg]) -> CommandAnalysis {
    let line = options!(
        "-obucj: origin: branch: upload-pack: config: template: reference: reference-if-able: \
         separate-git-dir: depth: shallow-since: shallow-exclude: jobs: server-option: filter: \
         bundle-uri: revision: ref-format:"
    )
    .git()
    .parse(args);
    let mut analysis = add_templates(CommandAnalysis::opaque(), &line);
    analysis = add_transport_programs(analysis, &line, &["upload-pack"]);
    analysis = analysis
        .with_scripts(&line.all_values(&["u"]))
        .with_caution_if(line.has(&["u"]), "an option names the program at the other end");
    for setting in line.all_values(&["c", "config"]) {
        if let GitConfigEffect::Runs(text) = GitConfigEffect::from_assignment(&setting) {
            analysis.runs.extend(text.map(|text| NestedExecution::from_script(&text)));
            analysis = analysis.with_caution("it sets something that may run a command");
        }
    }
    let words = &line.operands;
    for address in words.iter().take(1) {
        analysis = if is_address(address) {
            add_address(analysis, address)
        } else {
            analysis.with_recursive_touch(FileAccess::Read, address)
        };
    }
    for uri in line.all_values(&["bundle-uri"]) {
        analysis = add_address(analysis, &uri);
    }
    match args_from(words, 1) {
        [] => {
            let folder = words.first().map(default_clone_folder);
            analysis = analysis.with_recursive_touches(FileAccess::Write, folder.as_slice());
        }
        folders => analysis = analysis.with_recursive_touches(FileAccess::Write, folders),
    }
    analysis =
        analysis.with_recursive_touches(FileAccess::Write, &line.all_values(&["separate-git-dir"]));
    analysis.with_caution_if(line.uncertain, "an argument may be an option that runs something")
}

/// The folder that git creates for a repository if none is named.
fn default_clone_folder(address: &ShellArg) -> ShellArg {
    let Some(address) = address.as_known() else { return address.clone() };
    let path = address.trim_end_matches('/').trim_end_matches(".git").trim_end_matches('/');
    let name = path.rsplit(['/', ':']).next().unwrap_or(path);
    ShellArg::known(if name.is_empty() { "." } else { name })
}

pub(super) fn analyze_transfer(name: &str, args: &[ShellArg]) -> CommandAnalysis {
    macro_rules! transfer_options {
        ($letters:literal) => {
            options!(concat!(
                $letters,
                "upload-pack: receive-pack: exec: repo: push-option: server-option: depth: \
                 deepen: shallow-since: shallow-exclude: jobs: refmap: strategy: strategy-option: \
                 filter: negotiation-tip: sort: force force-with-lease force-if-includes mirror \
                 delete prune"
            ))
        };
    }
    let table = match name {
        "push" => transfer_options!("o: "),
        "pull" => transfer_options!("-osXj: "),
        _ => transfer_options!("-oj: "),
    };
    let line = table.git().parse(args);
    let mut analysis = add_transport_programs(
        CommandAnalysis::opaque(),
        &line,
        &["upload-pack", "receive-pack", "exec"],
    );
    let words = &line.operands;
    for address in words.iter().take(1).chain(&line.all_values(&["repo"])) {
        analysis = add_address(analysis, address);
    }
    if name == "push" {
        let forced =
            line.has(words!("f d force force-with-lease force-if-includes mirror delete prune"));
        let refs = words.iter().any(|word| word.known_prefix().starts_with([':', '+']));
        if forced || refs {
            analysis = analysis.mark_critical("overwrites or removes what others may have pushed");
        }
        analysis = caution_unknown_words(analysis, words);
    }
    analysis.with_caution_if(
        line.uncertain,
        "an argument may be an option that overwrites or runs something",
    )
}

pub(super) fn analyze_remote(args: &[ShellArg]) -> CommandAnalysis {
    let line = options!("-tm:").git().parse(args_from(args, 1));
    match known_text(args.first()) {
        "add" | "set-url" => {
            line.operands.iter().skip(1).fold(CommandAnalysis::opaque(), add_address)
        }
        _ => caution_unknown_words(CommandAnalysis::opaque(), args),
    }
}

pub(super) fn analyze_submodule(args: &[ShellArg]) -> CommandAnalysis {
    let at =
        args.iter().position(|arg| !known_text(Some(arg)).starts_with('-')).unwrap_or(args.len());
    let rest = args_from(args, at + 1);
    match args.get(at).map(ShellArg::as_known) {
        Some(Some("foreach")) => {
            let flags =
                rest.iter().take_while(|arg| known_text(Some(arg)).starts_with('-')).count();
            CommandAnalysis::opaque()
                .with_run(NestedExecution::from_script_words(args_from(rest, flags)))
        }
        Some(Some("add")) => {
            let line = options!("b: branch: name: reference: depth: ref-format:").git().parse(rest);
            let words = &line.operands;
            let analysis = words.iter().take(1).fold(CommandAnalysis::opaque(), add_address);
            analysis.with_recursive_touches(FileAccess::Write, args_from(words, 1))
        }
        Some(Some("deinit")) => {
            let line = options!("force").git().parse(rest);
            mark_critical_if(
                line.has(&["f", "force"]),
                &line,
                "removes a submodule with its changes",
            )
        }
        _ => caution_unknown_words(CommandAnalysis::opaque(), args),
    }
}

/// Adds a push under the name that rules use for it.
pub(super) fn add_push(analysis: CommandAnalysis, args: &[ShellArg]) -> CommandAnalysis {
    analysis.with_command(&prefix_args(&["git", "push"], args))
}

/// `git svn` runs a program to get the names of authors.
pub(super) fn analyze_svn(args: &[ShellArg]) -> CommandAnalysis {
    let line = options!("A: authors-prog: authors-file:").git().parse(args);
    let analysis = CommandAnalysis::opaque().with_scripts(&line.all_values(&["authors-prog"]));
    analysis
        .with_caution_if(line.has(&["authors-prog"]), "an option names a program to run")
        .with_caution_if(line.uncertain, "an argument may be an option that runs something")
        .with_touches(FileAccess::Read, &line.all_values(&["A", "authors-file"]))
}
