//! What is assumed of a command of git whose arguments are not all known.

use crate::program::command_analysis::CommandAnalysis;
use crate::program::options::ParsedArguments;
use crate::shell::ShellArg;

/// A command that loses something if `holds`, or if one of its arguments may be the option for that.
pub(super) fn mark_critical_if(
    holds: bool,
    line: &ParsedArguments<'_>,
    why: &'static str,
) -> CommandAnalysis {
    let analysis = match holds {
        true => CommandAnalysis::opaque().mark_critical(why),
        false => CommandAnalysis::opaque(),
    };
    analysis
        .with_caution_if(line.uncertain, "an argument may be an option that throws something away")
}

/// Adds a caution if a word that determines the effect is unknown.
pub(super) fn caution_unknown_words(
    analysis: CommandAnalysis,
    words: &[ShellArg],
) -> CommandAnalysis {
    let open = words.iter().any(|arg| arg.as_known().is_none() && arg.may_be_option());
    analysis.with_caution_if(open, "an argument that is not known may decide what it does")
}
