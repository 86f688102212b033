//! A shell script as a tree.
//!
//! The tree keeps everything that can run something or name a file, and where it stands in the
//! source. Quotes are gone; whether a text was quoted is kept, because only unquoted text is
//! split, globbed and brace-expanded.

/// Bytes `start..end` of the source. What was parsed out of another text (backticks, for one) has
/// the span of the whole construct it came from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SourceSpan {
    /// First byte.
    pub start: usize,
    /// One past the last byte.
    pub end: usize,
}

/// Commands after each other.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CommandList {
    /// The pipelines, in order.
    pub items: Vec<ListItem>,
}

/// A pipeline and how it hangs on the one before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListItem {
    /// How it follows what stands before it; `JobReadiness` for the first.
    pub joint: ListOperator,
    /// What runs.
    pub pipeline: Pipeline,
    /// Whether it runs in the background: the `&&` list it belongs to ended with `&`.
    pub background: bool,
}

/// How a pipeline follows the one before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListOperator {
    /// `;`, `&` or a new line.
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
    /// Whether `!` stands before it, once or more often.
    pub negated: bool,
}

/// One command with its redirections.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShellCommand {
    /// What kind of command.
    pub kind: ShellCommandKind,
    /// Its redirections, in order.
    pub redirects: Vec<Redirection>,
    /// Where it stands.
    pub span: SourceSpan,
}

/// What kind of command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ShellCommandKind {
    /// Assignments, a program and its arguments; any of them may be missing.
    Simple(SimpleCommand),
    /// `( … )`.
    Subshell(CommandList),
    /// `{ …; }`.
    Group(CommandList),
    /// `if`, with each condition and what follows it, and `else`.
    If {
        /// Conditions and their bodies.
        branches: Vec<(CommandList, CommandList)>,
        /// The `else` body.
        otherwise: Option<CommandList>,
    },
    /// `while` and `until`.
    While {
        /// What is run to decide.
        condition: CommandList,
        /// What is run in each round.
        body: CommandList,
    },
    /// `for NAME in WORDS` and `select`.
    For {
        /// Name of the variable that is set before each round.
        variable: String,
        /// What it runs over; `None` without `in`: the positional parameters.
        words: Option<Vec<ShellWord>>,
        /// Whether it is `select`, whose variable is empty after an answer that is no choice.
        asks: bool,
        /// What is run in each round, once the variable is set.
        body: CommandList,
    },
    /// `for (( … ))`; the whole header is one arithmetic word.
    ArithmeticFor {
        /// Everything between `((` and `))`, with its two `;`.
        header: ShellWord,
        /// What is run in each round.
        body: CommandList,
    },
    /// `case`, which runs the bodies whose patterns match a word.
    Case {
        /// What is compared.
        subject: ShellWord,
        /// Patterns and bodies.
        arms: Vec<(Vec<ShellWord>, CommandList)>,
    },
    /// `(( … ))`.
    Arithmetic(ShellWord),
    /// `[[ … ]]`: its operands and the operators between them (`-f`, `==`), as words in order;
    /// without `!`, `&&`, `||` and parentheses.
    Test(Vec<ShellWord>),
    /// A definition; running it is up to whoever calls the name.
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
    /// Where it stands.
    pub span: SourceSpan,
}

/// What is assigned.
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
    /// Where it stands.
    pub span: SourceSpan,
}

/// A part of a word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WordPart {
    /// Text that stands for itself, unless it is unquoted and holds a glob, brace or tilde.
    Text {
        /// The text, quotes and backslashes removed.
        text: String,
        /// Whether it was quoted or escaped: then `*`, `?`, `[`, `{` and `~` in it mean
        /// themselves. An empty quoted text is kept: `''` is a word.
        quoted: bool,
    },
    /// `$name`, `${…}`, `$1`, `$@`, …
    Parameter(ParameterExpansion),
    /// `$( … )` or backticks.
    Command {
        /// What runs.
        list: CommandList,
        /// Whether the result is within double quotes.
        quoted: bool,
    },
    /// `<( … )` or `>( … )`, which expands to the path of a pipe.
    Process {
        /// What runs.
        list: CommandList,
    },
    /// `$(( … ))` or `$[ … ]`: its text as a word, because it may hold expansions.
    Arithmetic(ShellWord),
}

/// A `$name` or `${…}` in a word, with what is done to its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParameterExpansion {
    /// Name, number or special character: `HOME`, `1`, `@`, `?`. For `${!name}` the `name`.
    pub name: String,
    /// Whether the result is within double quotes.
    pub quoted: bool,
    /// What is done with the value.
    pub operation: ParameterOperation,
    /// Words inside the braces: subscript, default, pattern, replacement. They are expanded, and
    /// substitutions in them run.
    pub words: Vec<ShellWord>,
}

/// What a parameter expansion does with the value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParameterOperation {
    /// `$name`, `${name}`.
    Plain,
    /// `${name:-word}`, `${name-word}`: the last of [`ParameterExpansion::words`] stands in for nothing.
    Default,
    /// `${name:=word}`, `${name=word}`: the same, and it is assigned.
    Assign,
    /// `${name:+word}`, `${name+word}`.
    Alternative,
    /// `${name:?word}`, `${name?word}`.
    Error,
    /// `${#name}`: a number.
    Length,
    /// `${name:1:2}`: a part of it. The words are calculated.
    Substring,
    /// `${name#…}`, `${name%…}`, `${name/…/…}`, `${name^}`: some part or change of it.
    Change,
    /// `${!name}`, `${!name@}`, `${name@P}` and other transformations: anything.
    Indirect,
}

/// A redirection of a command's descriptor, here-documents included.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Redirection {
    /// What it does.
    pub kind: RedirectionKind,
    /// For `{name}> file` the variable that is set to the number of the descriptor.
    pub variable: Option<String>,
    /// The file, the number or `-` of a duplication, the text of a here-document or here-string.
    pub target: ShellWord,
    /// Where it stands, without a here-document's body.
    pub span: SourceSpan,
}

/// What a redirection does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RedirectionKind {
    /// `<`.
    Read,
    /// `>`, `>>`, `>|`, `&>`, `&>>`.
    Write,
    /// `<>`.
    ReadWrite,
    /// `<&` and `>&` with a number or `-`. `>& file` is a [`RedirectionKind::WriteTool`].
    Duplicate,
    /// `<<`, `<<-`: the target is the body, in which expansions happen unless the word was quoted
    /// (then it is one quoted text).
    HereDocument,
    /// `<<<`.
    HereString,
}
