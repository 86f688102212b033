//! The names of tools, and their names on other platforms.

/// What the pattern of a rule for a tool is matched against.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PatternSubject {
    Command,
    Path,
    Host,
    Nothing,
}

const TOOLS: &[(&str, PatternSubject)] = &[
    ("Read", PatternSubject::Path),
    ("ReadMany", PatternSubject::Path),
    ("Write", PatternSubject::Path),
    ("Edit", PatternSubject::Path),
    ("Delete", PatternSubject::Path),
    ("LS", PatternSubject::Path),
    ("Glob", PatternSubject::Path),
    ("Grep", PatternSubject::Path),
    ("Bash", PatternSubject::Command),
    ("BashOutput", PatternSubject::Nothing),
    ("BashKill", PatternSubject::Nothing),
    ("LSP", PatternSubject::Path),
    ("TodoWrite", PatternSubject::Nothing),
    ("Plan", PatternSubject::Nothing),
    ("Memory", PatternSubject::Path),
    ("Skill", PatternSubject::Path),
    ("WebFetch", PatternSubject::Host),
    ("WebSearch", PatternSubject::Host),
    ("WebRequest", PatternSubject::Host),
    ("AskUserQuestion", PatternSubject::Nothing),
];

/// Names on other platforms, in lower case and without `_` and `-`.
const OTHER_NAMES: &[(&str, &str)] = &[
    ("readfile", "Read"),
    ("readmanyfiles", "ReadMany"),
    ("writefile", "Write"),
    ("createfile", "Write"),
    ("editfile", "Edit"),
    ("multiedit", "Edit"),
    ("notebookedit", "Edit"),
    ("deletefile", "Delete"),
    ("list", "LS"),
    ("listdirectory", "LS"),
    ("listdir", "LS"),
    ("grepsearch", "Grep"),
    ("searchfiles", "Grep"),
    ("searchfilecontent", "Grep"),
    ("runcommand", "Bash"),
    ("runshellcommand", "Bash"),
    ("run", "Bash"),
    ("shell", "Bash"),
    ("killbash", "BashKill"),
    ("killshell", "BashKill"),
    ("todo", "TodoWrite"),
    ("savememory", "Memory"),
    ("googlewebsearch", "WebSearch"),
    ("question", "AskUserQuestion"),
    ("lspdiagnostics", "LSP"),
    ("lsphover", "LSP"),
];

/// The tool that a name means, on any platform.
pub fn canonical_tool(name: &str) -> Option<&'static str> {
    find_tool(name).map(|(tool, _)| tool)
}

pub(super) fn find_tool(name: &str) -> Option<(&'static str, PatternSubject)> {
    let folded = fold_tool_name(name);
    let same = |tool: &str| tool.eq_ignore_ascii_case(&folded);
    let tool = OTHER_NAMES.iter().find(|(other, _)| *other == folded).map(|(_, tool)| *tool);
    TOOLS.iter().find(|(known, _)| tool.map_or_else(|| same(known), |tool| tool == *known)).copied()
}

/// The tool with the most similar name, if one is similar enough.
pub(super) fn find_nearest_tool(name: &str) -> Option<String> {
    const SIMILARITY_MIN: f64 = 0.75;
    let folded = fold_tool_name(name);
    let known = TOOLS.iter().map(|(tool, _)| (tool.to_ascii_lowercase(), *tool));
    let others = OTHER_NAMES.iter().map(|(other, tool)| ((*other).to_owned(), *tool));
    known
        .chain(others)
        .map(|(other, tool)| (strsim::jaro_winkler(&folded, &other), tool))
        .filter(|(near, _)| *near >= SIMILARITY_MIN)
        .max_by(|(a, _), (b, _)| a.total_cmp(b))
        .map(|(_, tool)| tool.to_owned())
}

fn fold_tool_name(name: &str) -> String {
    name.chars().filter(|c| !matches!(c, '_' | '-')).collect::<String>().to_ascii_lowercase()
}
