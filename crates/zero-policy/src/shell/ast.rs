//! A shell script as a syntax tree.
//!
//! The tree keeps everything that can run something or name a file, with its position in the
//! source. Quotes are removed; whether a text was quoted is kept, because only unquoted text is
//! split, globbed and brace-expanded.

/// Bytes `start..end` of the source. Text that was parsed separately (backticks, for example) has
/// the span of the whole construct.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SourceSpan {
    /// First byte.
    pub start: usize,
    /// One past the last byte.
    pub end: usize,
}

/// A sequence of commands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CommandList {
    /// The pipelines, in order.
    pub items: Vec<ListItem>,
}

/// A pipeline and its connection to the one before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListItem {
    /// The operator before it; `Then` for the first.
    pub joint: ListOperator,
    /// The pipeline.
    pub pipeline: Pipeline,
    /// Whether it runs in the background: the `&&` list it belongs to ended with `&`.
    pub background: bool,
}

/// How a pipeline follows the one before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListOperator {
    /// `;`, `&` or a newline.
    Then,
    /// `&&`.
    And,
    /// `||`.
    Or,
}

/// Commands joined by `|` or `|&`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pipeline {
    /// The commands, first to last; at least one.
    pub commands: Vec<ShellCommand>,
    /// Whether one or more `!` precede it.
    pub negated: bool,
}

/// One command with its redirections.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShellCommand {
    /// Its kind.
    pub kind: ShellCommandKind,
    /// Its redirections, in order.
    pub redirects: Vec<Redirection>,
    /// Its position.
    pub span: SourceSpan,
}

/// The kind of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ShellCommandKind {
    /// Assignments, a program and its arguments; any of them may be missing.
    Simple(SimpleCommand),
    /// `( … )`.
    Subshell(CommandList),
    /// `{ …; }`.
    Group(CommandList),
    /// `if`, with each condition and its body, and `else`.
    If {
        /// Conditions and their bodies.
        branches: Vec<(CommandList, CommandList)>,
        /// The `else` body.
        otherwise: Option<CommandList>,
    },
    /// `while` and `until`.
    While {
        /// Runs before each iteration.
        condition: CommandList,
        /// Runs in each iteration.
        body: CommandList,
    },
    /// `for NAME in WORDS` and `select`.
    For {
        /// Name of the variable that is set before each iteration.
        variable: String,
        /// The values; `None` without `in`: the positional parameters.
        words: Option<Vec<ShellWord>>,
        /// Whether it is `select`, whose variable is empty after an invalid answer.
        asks: bool,
        /// Runs in each iteration.
        body: CommandList,
    },
    /// `for (( … ))`; the whole header is one arithmetic word.
    ArithmeticFor {
        /// Everything between `((` and `))`, with its two `;`.
        header: ShellWord,
        /// Runs in each iteration.
        body: CommandList,
    },
    /// `case`, which runs the bodies whose patterns match a word.
    Case {
        /// The word to match.
        subject: ShellWord,
        /// Patterns and bodies.
        arms: Vec<(Vec<ShellWord>, CommandList)>,
    },
    /// `(( … ))`.
    Arithmetic(ShellWord),
    /// `[[ … ]]`: its operands and the operators between them (`-f`, `==`), as words in order;
    /// without `!`, `&&`, `||` and parentheses.
    Test(Vec<ShellWord>),
    /// A function definition; the body runs when the function is called.
    Function {
        /// The name that later commands call it by.
        name: String,
        /// The command that runs when the function is called.
        body: Box<ShellCommand>,
    },
    /// `coproc`.
    Coprocess(Box<ShellCommand>),
}

/// Assignments, a program and its arguments.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SimpleCommand {
    /// `NAME=value` before the program.
    pub assignments: Vec<VariableAssignment>,
    /// The program's name and its arguments. For `export`, `declare`, `local`, `readonly` and
    /// `typeset` an argument `NAME=value` is an ordinary word here.
    pub words: Vec<ShellWord>,
}

/// `NAME=value`, `NAME+=value`, `NAME[i]=value` or `NAME=(a b)`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VariableAssignment {
    /// The variable.
    pub name: String,
    /// The subscript, if there is one.
    pub subscript: Option<ShellWord>,
    /// Whether it is `+=`.
    pub append: bool,
    /// One word, or the elements of an array.
    pub value: AssignmentValue,
    /// Its position.
    pub span: SourceSpan,
}

/// The assigned value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AssignmentValue {
    /// One word; empty for `NAME=`.
    Scalar(ShellWord),
    /// `( … )`.
    Array(Vec<ShellWord>),
}

/// A word before expansion.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ShellWord {
    /// Its parts. Adjacent text of the same quoting is one part.
    pub parts: Vec<WordPart>,
    /// Its position.
    pub span: SourceSpan,
}

/// A part of a word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WordPart {
    /// Literal text, unless it is unquoted and contains a glob, brace or tilde.
    Text {
        /// The text, quotes and backslashes removed.
        text: String,
        /// Whether it was quoted or escaped: then `*`, `?`, `[`, `{` and `~` in it are literal. An
        /// empty quoted text is kept: `''` is a word.
        quoted: bool,
    },
    /// `$name`, `${…}`, `$1`, `$@`, …
    Parameter(ParameterExpansion),
    /// `$( … )` or backticks.
    Command {
        /// The commands.
        list: CommandList,
        /// Whether it is inside double quotes.
        quoted: bool,
    },
    /// `<( … )` or `>( … )`, which expands to the path of a pipe.
    Process {
        /// The commands.
        list: CommandList,
    },
    /// `$(( … ))` or `$[ … ]`: its text as a word, because it can contain expansions.
    Arithmetic(ShellWord),
}

/// A `$name` or `${…}` in a word, with the operation on its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParameterExpansion {
    /// Name, number or special character: `HOME`, `1`, `@`, `?`. For `${!name}` the `name`.
    pub name: String,
    /// Whether it is inside double quotes.
    pub quoted: bool,
    /// The operation on the value.
    pub operation: ParameterOperation,
    /// Words inside the braces: subscript, default, pattern, replacement. They are expanded, and
    /// substitutions in them run.
    pub words: Vec<ShellWord>,
}

/// The operation of a parameter expansion on the value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParameterOperation {
    /// `$name`, `${name}`.
    Plain,
    /// `${name:-word}`, `${name-word}`: the last of [`ParameterExpansion::words`] replaces an empty
    /// value.
    Default,
    /// `${name:=word}`, `${name=word}`: the same, and it is assigned.
    Assign,
    /// `${name:+word}`, `${name+word}`.
    Alternative,
    /// `${name:?word}`, `${name?word}`.
    Error,
    /// `${#name}`: a number.
    Length,
    /// `${name:1:2}`: a part of it. The words are arithmetic.
    Substring,
    /// `${name#…}`, `${name%…}`, `${name/…/…}`, `${name^}`: a part or a modification of it.
    Change,
    /// `${!name}`, `${!name@}`, `${name@P}` and other transformations: any value.
    Indirect,
}

/// A redirection of a command's descriptor, here-documents included.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Redirection {
    /// Its kind.
    pub kind: RedirectionKind,
    /// For `{name}> file`, the variable that is set to the number of the descriptor.
    pub variable: Option<String>,
    /// The file, the number or `-` of a duplication, the text of a here-document or here-string.
    pub target: ShellWord,
    /// Its position, without the body of a here-document.
    pub span: SourceSpan,
}

/// The kind of a redirection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RedirectionKind {
    /// `<`.
    Read,
    /// `>`, `>>`, `>|`, `&>`, `&>>`.
    Write,
    /// `<>`.
    ReadWrite,
    /// `<&` and `>&` with a number or `-`. `>& file` is a [`RedirectionKind::Write`].
    Duplicate,
    /// `<<`, `<<-`: the target is the body, which is expanded unless the delimiter was quoted (then
    /// it is one quoted text).
    HereDocument,
    /// `<<<`.
    HereString,
}
