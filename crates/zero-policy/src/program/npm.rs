//! The commands of npm, which accepts abbreviations: `npm publ` publishes.

use crate::program::arguments::known_text;
use crate::program::command_analysis::CommandAnalysis;
use crate::shell::ShellArg;
use crate::word_list::words;

/// The names of npm's commands.
const COMMANDS: &[&str] = words!(
    "access adduser audit bugs cache ci completion config dedupe deprecate diff dist-tag docs \
     doctor edit exec explain explore find-dupes fund get help help-search init install \
     install-ci-test install-test link ll login logout ls org outdated owner pack ping pkg prefix \
     profile prune publish query rebuild repo restart root run run-script sbom search set \
     shrinkwrap star stars start stop team test token undeprecate uninstall unpublish unstar \
     update version view whoami"
);

/// Aliases, each followed by its command if that matters here.
const ALIASES: &[&str] = words!(
    "author owner dist-tags dist-tag x exec home docs issues bugs info view show view v view find \
     search s search se search add install i install in install unlink uninstall remove uninstall \
     rm uninstall r uninstall un uninstall rb rebuild list ls ln link create init innit init it \
     install-test cit install-ci-test sit install-ci-test up update upgrade update udpate update c \
     config t test tst test ddp dedupe rum run-script urn run-script clean-install ci ic ci why \
     explain la ll ogr org add-user adduser hlep help"
);

/// Commands whose abbreviations must be recognized: publishing and access control.
const CRITICAL: &[&str] =
    &["publish", "unpublish", "deprecate", "undeprecate", "access", "owner", "dist-tag", "token"];

/// The command that a word means: its full name, or the word itself if it is not one.
pub(super) fn expand_command(written: &str) -> String {
    // `distTag` is `dist-tag`.
    let mut name = String::new();
    for letter in written.chars() {
        if letter.is_ascii_uppercase() {
            name.push('-');
        }
        name.push(letter.to_ascii_lowercase());
    }
    let aliases = ALIASES.as_chunks::<2>().0.iter();
    if COMMANDS.contains(&name.as_str()) {
        return name;
    }
    if let Some([_, command]) = aliases.clone().find(|[alias, _]| *alias == name) {
        return (*command).to_owned();
    }
    let is_completion = |command: &&str| !name.is_empty() && command.starts_with(&name);
    let aliases = aliases.filter(|[alias, _]| is_completion(alias)).map(|[_, command]| *command);
    let mut fits: Vec<&str> =
        COMMANDS.iter().copied().filter(is_completion).chain(aliases).collect();
    fits.sort_unstable();
    fits.dedup();
    match fits.as_slice() {
        [only] => (*only).to_owned(),
        // Versions have different commands, so one that publishes is assumed.
        many if name.len() > 1 => {
            let critical = many.iter().find(|command| CRITICAL.contains(command));
            critical.map_or_else(|| written.to_owned(), |command| (*command).to_owned())
        }
        _ => written.to_owned(),
    }
}

/// The arguments with the names of critical commands in full.
pub(super) fn expand_critical_command(args: &[ShellArg]) -> Vec<ShellArg> {
    let full = |arg: &ShellArg| {
        let written = known_text(Some(arg));
        let name = expand_command(written);
        if CRITICAL.contains(&name.as_str()) { ShellArg::Known(name) } else { arg.clone() }
    };
    args.iter().map(full).collect()
}

/// For an abbreviated critical command, adds the full command as well, so that rules for it apply.
/// `None` for all others.
pub(super) fn analyze(name: &str, args: &[ShellArg]) -> Option<CommandAnalysis> {
    if name != "npm" {
        return None;
    }
    let mut argv = vec![ShellArg::known("npm")];
    argv.extend(expand_critical_command(args));
    let differs = argv.iter().skip(1).ne(args);
    let critical = super::critical_actions::assess(name, args).critical.is_some();
    (differs && critical).then(|| CommandAnalysis::opaque().with_command(&argv))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(written: &str, expected: &str) {
        assert_eq!(expand_command(written), expected, "{written}");
    }

    #[test]
    fn npm_unique_prefix_expands_to_command() {
        check("publ", "publish");
        check("pu", "publish");
        check("unp", "unpublish");
        check("own", "owner");
        check("author", "owner");
        check("distTag", "dist-tag");
        check("exe", "exec");
        check("ins", "ins");
        check("instal", "instal");
        check("", "");
    }

    #[test]
    fn npm_alias_is_not_a_prefix() {
        check("un", "uninstall");
        check("t", "test");
        check("i", "install");
        check("p", "p");
        check("nothing", "nothing");
    }
}
