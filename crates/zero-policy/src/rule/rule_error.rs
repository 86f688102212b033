//! Errors in rules, with the correct form.

/// Why a text is not a rule, with the correct form.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RuleError {
    /// The text is empty.
    #[error("the rule is empty; write a tool such as `Read` or `Bash(git status)`")]
    Empty,
    /// It contains a control character or an invisible one.
    #[error("the rule contains a character that cannot be seen (U+{:04X}); take it out", u32::from(*.0))]
    Invisible(char),
    /// The parentheses are unbalanced.
    #[error(
        "the parentheses of `{0}` do not match; write `Tool(pattern)`, and a backslash before a \
         parenthesis that belongs to the pattern"
    )]
    Parentheses(String),
    /// Text follows the pattern.
    #[error("`{0}` continues after `)`, where a rule must end")]
    AfterPattern(String),
    /// `Tool()`.
    #[error("`{tool}()` has no pattern; write `{tool}` for everything, or a pattern")]
    EmptyPattern {
        /// The tool as written.
        tool: String,
    },
    /// No tool has that name.
    #[error("there is no tool `{name}`{}", format_suggestion(.nearest.as_deref()))]
    UnknownTool {
        /// The name as written.
        name: String,
        /// The most similar tool name.
        nearest: Option<String>,
    },
    /// The tool that starts sub-agents, which rules do not concern.
    #[error(
        "sub-agents are not subject to rules, only their calls are; `\"subagents\": \
         {{\"maxDepth\": 0}}` in settings turns them off"
    )]
    Subagents,
    /// An invalid MCP tool name.
    #[error(
        "`{0}` names no MCP tool; write `server__tool`, `server__*` for all of a server, or \
         `mcp__*` for all servers"
    )]
    McpName(String),
    /// A pattern for an external tool that names no argument.
    #[error(
        "`{0}` names no argument; write `argument:pattern`, and a backslash before a comma that \
         belongs to the pattern"
    )]
    NoArgument(String),
    /// An invalid name of an argument.
    #[error(
        "`{0}` is not the name of an argument; it has letters, digits, `_`, `-`, `$` or `@`, and a \
         dot before a field of an object, such as `filter.user`"
    )]
    ArgumentName(String),
    /// `argument:` without a pattern.
    #[error("`{0}:` has no pattern; write `{0}:*` for every value")]
    EmptyArgument(String),
    /// Two patterns for one argument.
    #[error(
        "the argument `{0}` is listed twice; all patterns of a rule must match, so write two rules"
    )]
    RepeatedArgument(String),
    /// A tool whose calls have nothing to match a pattern against.
    #[error("`{0}` takes no pattern; write `{0}`")]
    NoPattern(&'static str),
    /// A host for a tool that uses none.
    #[error("`{tool}` has no hosts; write `WebFetch(domain:{domain})`, which covers commands too")]
    NoHosts {
        /// Name of the tool that the rule is for.
        tool: &'static str,
        /// The host as written.
        domain: String,
    },
    /// Another pattern for a tool that takes only hosts.
    #[error("`{tool}` is matched by host; write `{tool}(domain:example.com)`")]
    OnlyHosts {
        /// Name of the tool that the rule is for.
        tool: &'static str,
    },
    /// An invalid host.
    #[error(
        "`domain:{0}` names no host; write it without scheme, port and path, such as \
         `domain:example.com` or `domain:*.example.com`"
    )]
    Domain(String),
    /// An invalid host in the list of hosts for commands.
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
    /// An invalid pattern.
    #[error("`{pattern}` is not a valid pattern: {reason}; escape a literal `[` with a backslash")]
    Glob {
        /// The path pattern as written in the rule.
        pattern: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// The rule is too long.
    #[error("the rule is longer than {0} characters; write a shorter one with a wildcard")]
    TooLong(usize),
}

fn format_suggestion(nearest: Option<&str>) -> String {
    match nearest {
        Some(nearest) => format!("; did you mean `{nearest}`?"),
        None => {
            "; `zero tools list` lists them, and an MCP tool is written `server__tool`".to_owned()
        }
    }
}
