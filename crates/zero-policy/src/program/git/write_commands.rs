//! Commands of git that change something or connect to a host.
//!
//! Those about branches, history and settings are here. Commands about files, patches and remotes have
//! files of their own.

use super::config_effect::GitConfigEffect;
use super::patch_commands::{analyze_apply, analyze_bundle, analyze_files, analyze_format_patch};
use super::remote_commands::{
    add_push, add_templates, analyze_clone, analyze_remote, analyze_submodule, analyze_svn,
    analyze_transfer,
};
use super::setting_changes;
use super::unknown_arguments::{caution_unknown_words, mark_critical_if};
use super::work_tree_commands::{
    analyze_checkout, analyze_checkout_index, analyze_clean, analyze_merge_file, analyze_mv,
    analyze_read_tree, analyze_reset, analyze_restore, analyze_rm, analyze_stash, analyze_switch,
};
use crate::program::arguments::{args_from, known_text};
use crate::program::command_analysis::{CommandAnalysis, FileAccess, NestedExecution};
use crate::program::options::{ParsedArguments, ValueUse, options};
use crate::shell::ShellArg;
use crate::word_list::words;

/// The known effects of a command that needs a rule.
pub(super) fn analyze(name: &str, args: &[ShellArg]) -> CommandAnalysis {
    match name {
        "clone" => analyze_clone(args),
        "push" => analyze_transfer(name, args).with_git_settings(setting_changes::from_push(args)),
        "fetch" | "pull" | "ls-remote" | "fetch-pack" => analyze_transfer(name, args),
        "send-pack" | "http-push" => add_push(analyze_transfer(name, args), args),
        "subtree" | "lfs" if known_text(args.first()) == "push" => {
            add_push(CommandAnalysis::opaque(), args_from(args, 1))
        }
        "svn" => analyze_svn(args),
        "remote" => analyze_remote(args).with_git_settings(setting_changes::from_remote(args)),
        "submodule" => analyze_submodule(args),
        "reset" => analyze_reset(args),
        "checkout" => analyze_checkout(args),
        "switch" => analyze_switch(args),
        "restore" => analyze_restore(args),
        "clean" => analyze_clean(args),
        "stash" => analyze_stash(args),
        "rm" => analyze_rm(args),
        "mv" => analyze_mv(args),
        "checkout-index" => analyze_checkout_index(args),
        "merge-file" => analyze_merge_file(args),
        "read-tree" => analyze_read_tree(args),
        "apply" | "am" => analyze_apply(name, args),
        "format-patch" => analyze_format_patch(args),
        "bundle" => analyze_bundle(args),
        "fast-export" | "mailsplit" | "mailinfo" | "interpret-trailers" | "index-pack"
        | "pack-objects" | "bugreport" | "diagnose" | "hash-object" => analyze_files(name, args),
        "branch" => analyze_branch(args).with_git_settings(setting_changes::from_branch(args)),
        "tag" => analyze_tag(args),
        "commit" | "merge" => analyze_commit(args),
        "notes" => analyze_notes(args),
        "reflog" => analyze_reflog(args),
        "gc" => analyze_gc(args),
        "prune" | "filter-repo" => {
            CommandAnalysis::opaque().mark_critical("removes history for good")
        }
        "filter-branch" => analyze_filter_branch(args),
        "update-ref" => analyze_update_ref(args),
        "rebase" => analyze_rebase(args),
        "bisect" => analyze_bisect(args),
        "worktree" => analyze_worktree(args),
        "init" => analyze_init(args),
        "config" => analyze_config(args).with_git_settings(setting_changes::from_config(args)),
        "difftool" | "mergetool" => analyze_tool(args),
        "merge-index" => analyze_merge_index(args),
        "for-each-repo" => analyze_for_each_repo(args),
        "hook" => CommandAnalysis::opaque().with_run(NestedExecution::Unknown("it runs a hook")),
        "credential" => CommandAnalysis::opaque().with_caution("it gives out credentials"),
        "send-email" | "instaweb" | "daemon" | "gui" | "gitk" | "citool" | "web--browse"
        | "shell" | "remote-ext" | "remote-fd" | "cvsserver" | "fast-import" | "imap-send"
        | "upload-pack" | "receive-pack" | "upload-archive" | "maintenance" | "scalar" => {
            CommandAnalysis::opaque().with_caution("it runs programs or serves others")
        }
        name if is_known(name) => CommandAnalysis::opaque(),
        _ => CommandAnalysis::opaque()
            .with_caution("it is not a git command and may be an alias that runs anything"),
    }
}

/// Whether git has a command of this name, so that `git-name` is one too.
pub(super) fn is_git_command(name: &str) -> bool {
    let others = CommandAnalysis::opaque()
        .with_caution("it is not a git command and may be an alias that runs anything");
    analyze(name, &[]) != others
}

fn is_known(name: &str) -> bool {
    KNOWN_COMMANDS.contains(&name)
        || name.starts_with("diff-")
        || super::read_commands::analyze(name, &[]).is_some()
}

/// Known commands without further effects to list.
const KNOWN_COMMANDS: &[&str] = words!(
    "add cherry-pick revert sparse-checkout rerere replace repack commit-tree commit-graph \
     write-tree mktag mktree update-index update-server-info pack-refs \
     unpack-objects multi-pack-index prune-packed symbolic-ref verify-commit verify-tag \
     var fsck merge-tree request-pull range-diff show-index stage fmt-merge-msg column p4 \
     lfs backfill refs subtree flow cherry get-tar-commit-id unpack-file http-fetch"
);

fn analyze_branch(args: &[ShellArg]) -> CommandAnalysis {
    let line =
        options!("u: set-upstream-to: sort: format: points-at: force delete").git().parse(args);
    let forced = line.has(&["f", "force"]);
    let removes = line.has(&["d", "delete"]) && forced;
    mark_critical_if(line.has(&["D"]) || removes, &line, "removes a branch with what is only on it")
}

fn analyze_tag(args: &[ShellArg]) -> CommandAnalysis {
    let line = options!("-mFu: message: file: local-user: cleanup: delete").git().parse(args);
    let CommandAnalysis { publishes_reads, touches, .. } = with_message(&line);
    let analysis = mark_critical_if(line.has(&["d", "delete"]), &line, "removes a tag");
    CommandAnalysis { publishes_reads, touches, ..analysis }
}

/// `git commit` and `git merge`.
fn analyze_commit(args: &[ShellArg]) -> CommandAnalysis {
    let line =
        options!("-mFCct: message: file: template: reuse-message: author: date:").git().parse(args);
    with_message(&line).with_touches(FileAccess::Read, &line.all_values(&["t", "template"]))
}

fn analyze_notes(args: &[ShellArg]) -> CommandAnalysis {
    let line = options!("-mFCc: message: file: reuse-message: reedit-message: ref:");
    with_message(&line.git().parse(args))
}

/// A message that everybody gets who gets the repository: from a file, or made when it runs.
fn with_message(line: &ParsedArguments<'_>) -> CommandAnalysis {
    let is_unknown = |text: &ShellArg| text.as_known().is_none();
    let is_made = line.values(&["m", "message"]).any(is_unknown);
    let publishes_reads = is_made || line.has(&["F", "file"]);
    CommandAnalysis { publishes_reads, ..CommandAnalysis::opaque() }
        .with_touches(FileAccess::Read, &line.all_values(&["F", "file"]))
}

fn analyze_reflog(args: &[ShellArg]) -> CommandAnalysis {
    match args.first().map(ShellArg::as_known) {
        Some(Some("expire" | "delete" | "drop")) => {
            CommandAnalysis::opaque().mark_critical("removes the record of former states")
        }
        _ => caution_unknown_words(CommandAnalysis::opaque(), args),
    }
}

fn analyze_gc(args: &[ShellArg]) -> CommandAnalysis {
    let line = options!("prune").git().parse(args);
    mark_critical_if(line.has(&["prune"]), &line, "removes objects that could be recovered")
}

fn analyze_filter_branch(args: &[ShellArg]) -> CommandAnalysis {
    let line = options!(
        "d: \
         setup,env-filter,tree-filter,index-filter,parent-filter,msg-filter,commit-filter:script \
         tag-name-filter:script subdirectory-filter:"
    );
    let line = line.git().parse(args);
    let texts: Vec<ShellArg> = line.used_values(ValueUse::Script).cloned().collect();
    CommandAnalysis::opaque().with_scripts(&texts).mark_critical("rewrites history")
}

fn analyze_update_ref(args: &[ShellArg]) -> CommandAnalysis {
    let line = options!("m: stdin delete").git().parse(args);
    mark_critical_if(line.has(&["d", "stdin", "delete"]), &line, "removes a reference")
}

fn analyze_rebase(args: &[ShellArg]) -> CommandAnalysis {
    let line =
        options!("-xsXC: exec: onto: strategy: strategy-option: whitespace:").git().parse(args);
    CommandAnalysis::opaque()
        .with_scripts(&line.all_values(&["x", "exec"]))
        .with_caution_if(line.uncertain, "an argument may be `--exec`")
}

fn analyze_bisect(args: &[ShellArg]) -> CommandAnalysis {
    match known_text(args.first()) {
        "run" => CommandAnalysis::opaque().with_command(args_from(args, 1)),
        "visualize" | "view" | "replay" => {
            CommandAnalysis::opaque().with_caution("it runs what it is given")
        }
        _ => caution_unknown_words(CommandAnalysis::opaque(), args),
    }
}

fn analyze_worktree(args: &[ShellArg]) -> CommandAnalysis {
    let line = options!("-bB: reason: expire: force").git().parse(args_from(args, 1));
    let words = &line.operands;
    match known_text(args.first()) {
        "add" => CommandAnalysis::opaque()
            .with_recursive_touches(FileAccess::Write, words.get(..1).unwrap_or_default()),
        "remove" => {
            let analysis = mark_critical_if(
                line.has(&["f", "force"]),
                &line,
                "removes a worktree with its changes",
            );
            words.iter().take(1).fold(analysis, |command_analysis, path| {
                command_analysis.with_recursive_touch(FileAccess::Delete, path)
            })
        }
        "move" => CommandAnalysis::opaque().with_recursive_touches(FileAccess::Write, words),
        _ => caution_unknown_words(CommandAnalysis::opaque(), args),
    }
}

fn analyze_init(args: &[ShellArg]) -> CommandAnalysis {
    let line =
        options!("b: template: separate-git-dir: initial-branch: object-format: ref-format:")
            .git()
            .parse(args);
    add_templates(CommandAnalysis::opaque(), &line)
        .with_touches(FileAccess::Write, &line.operands)
        .with_touches(FileAccess::Write, &line.all_values(&["separate-git-dir"]))
}

fn analyze_config(args: &[ShellArg]) -> CommandAnalysis {
    let line = options!(
        "f: file: blob: type: default: comment: value: global system edit unset unset-all \
         remove-section"
    )
    .git()
    .parse(args);
    let words = match known_text(line.operands.first()) {
        "set" => args_from(&line.operands, 1),
        _ => line.operands.as_slice(),
    };
    let mut targets = line.all_values(&["f", "file"]);
    targets.extend(line.has(&["global"]).then(|| ShellArg::known("~/.gitconfig")));
    targets.extend(line.has(&["system"]).then(|| ShellArg::known("/etc/gitconfig")));
    if !line.keeps(&["f", "file", "global", "system"]) {
        targets.push(ShellArg::known(".git/config"));
    }
    let mut analysis = CommandAnalysis::opaque().with_touches(FileAccess::Write, &targets);
    if line.has(&["e", "edit"]) || line.uncertain || known_text(words.first()) == "edit" {
        return analysis.with_caution("what it sets is not known");
    }
    if line.keeps(&["unset", "unset-all", "remove-section"]) || known_text(words.first()) == "unset"
    {
        return analysis;
    }
    if let Some(key) = words.first()
        && let GitConfigEffect::Runs(text) = GitConfigEffect::new(key, words.get(1))
    {
        analysis.runs.extend(text.map(|text| NestedExecution::from_script(&text)));
        analysis = analysis.with_caution("it sets something that may run a command");
    }
    analysis
}

/// `git difftool` and `git mergetool`.
fn analyze_tool(args: &[ShellArg]) -> CommandAnalysis {
    let line = options!("-xt: extcmd: tool:").git().parse(args);
    CommandAnalysis::opaque()
        .with_scripts(&line.all_values(&["x", "extcmd"]))
        .with_caution("it runs a tool that the settings name")
}

fn analyze_merge_index(args: &[ShellArg]) -> CommandAnalysis {
    let line = options!("").git().until_operand().parse(args);
    let program = line.operands.into_iter().take(1).collect();
    CommandAnalysis::opaque().with_run(NestedExecution::from_argv_and_more(program))
}

fn analyze_for_each_repo(args: &[ShellArg]) -> CommandAnalysis {
    let at = args.iter().position(|arg| arg.as_known() == Some("--"));
    let mut argv = vec![ShellArg::known("git")];
    argv.extend_from_slice(at.map_or(args, |at| args_from(args, at + 1)));
    CommandAnalysis::opaque()
        .with_command(&argv)
        .with_caution("it runs in every repository it knows")
}
