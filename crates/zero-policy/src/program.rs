//! Analyzes the command lines of known programs: what they read, write, run and connect to.
//!
//! There is one table per kind of program. A program in no table is [`CommandClass::Opaque`]: it
//! may do anything its process may do, and only a rule can allow it.

#[cfg(test)]
mod analysis_text;
mod arguments;
mod builtins;
mod client_settings;
mod command_analysis;
mod containers;
mod critical_actions;
mod files;
mod find;
mod git;
mod npm;
mod option_overrides;
mod options;
pub(crate) mod package_managers;
mod privilege;
mod remote;
mod runners;
mod shells;
mod wrappers;
mod zero_cli;

use std::collections::{BTreeSet, HashSet};

pub use self::command_analysis::{
    CommandAnalysis, CommandClass, FileAccess, FileTouch, GitSettingChange, NestedExecution,
};
pub use self::package_managers::{PackageDownload, PackageManager, registry_addresses};
use crate::shell::ShellArg;
use crate::word_list::words;
pub(crate) use builtins::find_sourced_file;
pub(crate) use git::{find_push_remote, resolve_setting_changes};

/// Analyzes a command line: its program first, then its arguments.
///
/// The program is looked up by the last component of its path. `argv` must not be empty.
pub fn analyze(argv: &[ShellArg]) -> CommandAnalysis {
    let Some((program, args)) = argv.split_first() else {
        return CommandAnalysis::opaque();
    };
    let Some(written) = program.as_known() else {
        return CommandAnalysis::opaque()
            .with_run(NestedExecution::Unknown("the program is only known at run time"));
    };
    let name = plain_name(written);
    // On a case-insensitive file system, `RM` runs `rm`.
    let folded = name.to_ascii_lowercase();
    let mut analysis = analyze_by_table(name, args)
        .or_else(|| {
            Some(CommandAnalysis {
                class: CommandClass::Opaque,
                ..analyze_by_table(&folded, args)?
            })
        })
        .unwrap_or_default();
    if analysis.class != CommandClass::Opaque {
        analysis = add_listed_folders(analysis, args);
    }
    let judged = critical_actions::assess(&folded, args);
    analysis.critical = analysis.critical.or(judged.critical);
    analysis.caution = analysis.caution.or(judged.caution);
    let steered = option_overrides::find_overrides(&folded, args);
    analysis.caution = analysis.caution.or(steered.caution);
    if let Some(folder) = steered.folder {
        analysis = analysis.in_folder(&folder);
    }
    if only_fetches(name, args) && analysis.runs.is_empty() && analysis.caution.is_none() {
        // Only hosts and files are accessed: rules about those decide.
        analysis.class = CommandClass::Files;
    }
    if !is_in_system_folder(written) {
        // `./ls` may be any program, whatever its name. The restrictions known for the name apply,
        // but it still needs a rule.
        analysis.class = CommandClass::Opaque;
    }
    analysis
}

/// Adds the folders that globs list: `echo ~/.ssh/*` shows as much as `ls`. A glob that names files
/// which the command accesses says so already.
fn add_listed_folders(mut analysis: CommandAnalysis, args: &[ShellArg]) -> CommandAnalysis {
    let is_glob =
        |arg: &&ShellArg| !matches!(arg, ShellArg::Known(_)) && !arg.known_prefix().contains("://");
    let mut globs = args.iter().filter(is_glob).peekable();
    if globs.peek().is_none() {
        return analysis;
    }
    let mut touched: HashSet<String> =
        analysis.touches.iter().map(|touch| touch.path.to_string()).collect();
    for glob in globs.filter(|glob| !touched.contains(&glob.to_string())).collect::<Vec<_>>() {
        if let Some(folder) = glob.listed_folder()
            && touched.insert(folder.to_string())
        {
            analysis = analysis.with_touch(FileAccess::Read, &folder);
        }
    }
    analysis
}

/// Whether a program only fetches from the hosts it names.
fn only_fetches(name: &str, args: &[ShellArg]) -> bool {
    match name {
        "curl" | "wget" | "wget2" => true,
        "git" => args.first().and_then(ShellArg::as_known) == Some("clone"),
        _ => false,
    }
}

/// Programs that use the files that their arguments name and, unless an argument says so, nothing
/// beneath them.
const NAMED_FILE_PROGRAMS: &[&str] = words!(
    ": [ basename base64 cat cd chmod cmp comm cp cut date df dirname echo egrep exit expand export \
     false fgrep file fmt fold grep head hexdump id join ls md5sum mkdir mktemp mv nl od paste popd \
     printf pushd pwd readlink realpath return rev rm rmdir seq set sha1sum sha256sum shift sleep \
     sort stat strings tac tail tee test touch tr true type uname uniq unset wc which whoami xxd"
);

/// Programs that send files which their operands name, and whose options are in no table.
const SENDING_PROGRAMS: &[&str] = words!(
    "aws az azcopy b2 borg coscli croc curlie doctl duplicity ffsend firebase fly flyctl ftp gcloud gh glab \
     grpcurl gsutil heroku hub hurl ipfs k kafkacat kcat kubectl lftp mail mailx mc mosquitto_pub mutt \
     ncftpput netlify oc oras ossutil railway rclone restic s3cmd s4cmd s5cmd sendmail skopeo smbclient socat \
     supabase swaks tftp twine unison vc vercel websocat wormhole wrangler"
);

/// Programs that send files to a service which builds or runs containers, and the words that make
/// them.
const CONTAINER_PROGRAMS: &[&str] = words!("buildah buildctl docker finch nerdctl podman");
const CONTAINER_SENDS: &[&str] = words!("bake bud build buildx copy cp import load");

/// Most words in which the action of a program is searched for.
const WORDS_MAX: usize = 4;

/// Whether a command may send the files that its operands name to another machine.
pub(crate) fn sends_operands(argv: &[ShellArg]) -> bool {
    let known = |at: usize| argv.get(at).and_then(ShellArg::as_known).unwrap_or_default();
    let name = plain_name(known(0));
    let sends_context = || {
        let words =
            argv.iter().skip(1).filter_map(ShellArg::as_known).filter(|it| !it.starts_with('-'));
        CONTAINER_PROGRAMS.contains(&name)
            && words.take(WORDS_MAX).any(|it| CONTAINER_SENDS.contains(&it))
    };
    SENDING_PROGRAMS.contains(&name)
        || name == "openssl" && known(1) == "s_client"
        || sends_context()
}

/// The positions of the words of a command with files that only set up its program: keys, settings, variables.
pub(crate) fn find_client_settings(argv: &[ShellArg]) -> BTreeSet<usize> {
    let name = argv.first().and_then(ShellArg::as_known).map_or("", plain_name);
    client_settings::find(name, argv, sends_operands(argv))
}

/// Whether a command uses the files that its arguments name and no others, except for folders whose
/// contents its analysis lists.
pub(crate) fn reads_named_files_only(argv: &[ShellArg]) -> bool {
    let name = argv.first().and_then(ShellArg::as_known).map_or("", plain_name);
    NAMED_FILE_PROGRAMS.contains(&name)
}

/// Whether a command reads by default and writes only with certain options: a rule that allows `git
/// log` with any arguments is not meant to include `--output`.
pub(crate) fn reads_by_default(argv: &[ShellArg], class: CommandClass) -> bool {
    let name = argv.first().and_then(ShellArg::as_known).map_or("", plain_name);
    let fetches = only_fetches(name, argv.get(1..).unwrap_or_default());
    match name {
        "git" => class != CommandClass::Opaque && !fetches,
        "sort" | "uniq" | "find" | "fd" | "fdfind" | "tree" | "rg" | "grep" | "awk" | "gawk"
        | "mawk" | "jq" | "xxd" | "diff" | "sdiff" | "shuf" | "iconv" | "xmllint" => true,
        _ => false,
    }
}

/// Whether a command is not steered by variables other than those that steer programs in general:
/// builtins of the shell, basic tools, and tools whose variables are all listed.
pub(crate) fn ignores_environment(argv: &[ShellArg]) -> bool {
    const NAMES: &[&str] = words!(
        "cat tac rev head tail wc cut paste join tr sort uniq comm cmp diff nl fold fmt expand \
         unexpand column od hexdump xxd base64 md5sum sha1sum sha256sum sha512sum cksum stat \
         readlink realpath df ls du basename dirname uname whoami id seq expr date sleep grep egrep \
         fgrep sed awk gawk mawk find fd rg tree jq xargs tee cp mv ln mkdir rmdir rm touch chmod \
         truncate env printenv which git curl wget"
    );
    let name = argv.first().and_then(ShellArg::as_known).map_or("", plain_name);
    NAMES.contains(&name) || builtins::analyze(name, &[]).is_some()
}

/// Tries each table in turn. Tables of programs that run others come first: the programs that they
/// run must be found even if another table has the same name.
fn analyze_by_table(name: &str, args: &[ShellArg]) -> Option<CommandAnalysis> {
    shells::analyze(name, args)
        .or_else(|| builtins::analyze(name, args))
        .or_else(|| wrappers::analyze(name, args))
        .or_else(|| runners::analyze(name, args))
        .or_else(|| privilege::analyze(name, args))
        .or_else(|| remote::analyze(name, args))
        .or_else(|| containers::analyze(name, args))
        .or_else(|| find::analyze(name, args))
        .or_else(|| (name == "git").then(|| git::analyze(args)))
        .or_else(|| git::analyze_dashed_name(name, args))
        .or_else(|| npm::analyze(name, args))
        .or_else(|| zero_cli::analyze(name, args))
        .or_else(|| critical_actions::analyze(name, args))
        .or_else(|| files::analyze(name, args))
}

/// The name in the tables: without folders, without `.exe`, and without the `g` prefix of GNU
/// programs.
fn plain_name(written: &str) -> &str {
    const GNU: &[&str] = &[
        "chgrp", "chmod", "chown", "chroot", "dd", "echo", "env", "find", "kill", "nice", "nohup",
        "printf", "rm", "rmdir", "shred", "stdbuf", "test", "time", "timeout", "truncate",
        "unlink", "xargs",
    ];
    let base = written.rsplit('/').next().unwrap_or(written);
    let base = base.strip_suffix(".exe").unwrap_or(base);
    base.strip_prefix('g').filter(|rest| GNU.contains(rest)).unwrap_or(base)
}

/// Whether a program is in a system folder. True for a bare name: the caller checks which file it
/// resolves to.
pub(crate) fn is_in_system_folder(written: &str) -> bool {
    const FOLDERS: &[&str] = words!(
        "/bin /sbin /usr/bin /usr/sbin /usr/local/bin /usr/local/sbin /opt/homebrew/bin \
         /run/current-system/sw/bin"
    );
    written.rsplit_once('/').is_none_or(|(folder, _)| FOLDERS.contains(&folder))
}

#[cfg(test)]
mod tests;
