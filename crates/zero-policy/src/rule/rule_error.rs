//! What is wrong with a rule, and how to write it instead.

/// Why a text is no rule. Says how to write it instead.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RuleError {
    /// Nothing is there.
    #[error("the rule is empty; write a tool such as `Read` or `Bash(git status)`")]
    Empty,
    /// A control character or one that cannot be seen.
    #[error("the rule contains a character that cannot be seen (U+{:04X}); take it out", u32::from(*.0))]
    Invisible(char),
    /// A parenthesis without its partner.
    #[error(
        "the parentheses of `{0}` do not match; write `Tool(pattern)`, and a backslash before a \
         parenthesis that belongs to the pattern"
    )]
    Parentheses(String),
    /// Something follows the pattern.
    #[error("`{0}` goes on after `)`; a rule ends there")]
    AfterPattern(String),
    /// `Tool()`.
    #[error("`{tool}()` has no pattern; write `{tool}` for everything, or a pattern")]
    EmptyPattern {
        /// The tool as it is written.
        tool: String,
    },
    /// No tool has that name.
    #[error("there is no tool `{name}`{}", format_suggestion(.nearest.as_deref()))]
    UnknownTool {
        /// The name as it is written.
        name: String,
        /// The tool that may be meant.
        nearest: Option<String>,
    },
    /// A name of an MCP tool that is none.
    #[error(
        "`{0}` names no MCP tool; write `server__tool`, `server__*` for all of a server, or \
         `mcp__*` for all servers"
    )]
    McpName(String),
    /// An MCP tool with a pattern.
    #[error("a rule for an MCP tool takes no pattern; write `{0}`")]
    McpPattern(String),
    /// A tool whose calls have nothing that a pattern could match.
    #[error("`{0}` takes no pattern; write `{0}`")]
    NoPattern(&'static str),
    /// A host for a tool that has none.
    #[error("`{tool}` has no hosts; write `WebFetch(domain:{domain})`, which covers commands too")]
    NoHosts {
        /// Name of the tool that the rule is for.
        tool: &'static str,
        /// The host as it is written.
        domain: String,
    },
    /// Something other than a host for a tool that has only those.
    #[error("`{tool}` is matched by host; write `{tool}(domain:example.com)`")]
    OnlyHosts {
        /// Name of the tool that the rule is for.
        tool: &'static str,
    },
    /// A host that is none.
    #[error(
        "`domain:{0}` names no host; write it without scheme, port and path, such as \
         `domain:example.com` or `domain:*.example.com`"
    )]
    Domain(String),
    /// A host that commands may connect to, and is none.
    #[error(
        "`{0}` names no host; write it without scheme and path, such as `example.com`, \
         `*.example.com` or `example.com:8443`"
    )]
    Network(String),
    /// `:*` before the end.
    #[error("`:*` in `{0}` is not at the end; write `*` for any text in between")]
    PrefixNotAtEnd(String),
    /// `:*` at the end of a path; holds the path before it.
    #[error("`:*` is for commands; write `{0}/**` for everything beneath a folder")]
    PrefixOfPath(String),
    /// Several commands in one rule, or a redirect.
    #[error(
        "`{0}` holds a shell operator; each command is judged alone, so write a rule for each, and \
         `Edit(path)` for what a redirect writes"
    )]
    Operator(String),
    /// `!x`.
    #[error("`{0}` starts with `!`; write the exception as a rule of its own, in another list")]
    Negation(String),
    /// `..`.
    #[error(
        "`..` in `{0}`; write the path from the workspace (`/x`), home (`~/x`) or root (`//x`)"
    )]
    Parent(String),
    /// `{a,b}`.
    #[error(
        "`{0}` lists several in braces, which paths in rules do not know; write a rule for each, or \
         a backslash before `{{` if it is meant as is"
    )]
    Braces(String),
    /// A pattern that cannot be read.
    #[error(
        "`{pattern}` is no pattern: {reason}; write a backslash before `[` if it is meant as is"
    )]
    Glob {
        /// The path pattern as it is written in the rule.
        pattern: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// More than anyone writes by hand.
    #[error("the rule is longer than {0} characters; write a shorter one with a wildcard")]
    TooLong(usize),
}

fn format_suggestion(nearest: Option<&str>) -> String {
    match nearest {
        Some(nearest) => format!("; did you mean `{nearest}`?"),
        None => "; `zero tools` lists them, and an MCP tool is written `server__tool`".to_owned(),
    }
}
