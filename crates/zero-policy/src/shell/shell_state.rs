//! The known state of a shell at a point of a script: its folder and variables.

use std::cell::Cell;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use super::analysis::WorkingFolders;
use super::arg::ShellArg;
use crate::word_list::words;

/// Most variables that are tracked; with more, none is known.
const VARIABLES_MAX: usize = 256;
/// Most folders that a command may run in; with more, none is known.
const FOLDERS_MAX: usize = 8;
/// Most copies of variables at branches and joins, in total; after that none is tracked.
const COPIES_MAX: usize = 500_000;
/// Longest tracked value, in bytes. `x=$x$x` doubles each time.
const VALUE_BYTES_MAX: usize = 1024;

/// What is known about a variable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum VariableValue {
    /// Exactly this text.
    Known(String),
    /// A glob that is not expanded yet.
    Pattern(String),
    /// Some integer.
    Number,
    /// Any value, but these texts were assigned, one for each element of a list. A command that is
    /// denied with them is denied; they never allow anything.
    Guess(Vec<String>),
    /// Set to an unknown value.
    Unknown,
}

impl VariableValue {
    /// The elements of a list, if all are known: a guess, because elements are not tracked.
    pub(crate) fn from_elements(elements: &[ShellArg]) -> Self {
        let texts: Option<Vec<String>> =
            elements.iter().map(|element| element.as_known().map(str::to_owned)).collect();
        texts.filter(|texts| !texts.is_empty()).map_or(Self::Unknown, Self::Guess)
    }

    /// The same, after the variable may have changed.
    fn to_uncertain(&self) -> Self {
        match self {
            Self::Known(text) => Self::Guess(vec![text.clone()]),
            Self::Guess(texts) => Self::Guess(texts.clone()),
            Self::Pattern(_) | Self::Number | Self::Unknown => Self::Unknown,
        }
    }

    fn byte_len(&self) -> usize {
        match self {
            Self::Known(text) | Self::Pattern(text) => text.len(),
            Self::Guess(texts) => texts.iter().map(|text| text.len() + 1).sum(),
            Self::Number | Self::Unknown => 0,
        }
    }
}

/// What is known about a function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ShellFunction {
    /// The folders of the shell when the body was analyzed.
    pub(crate) folders: WorkingFolders,
    /// Whether calling it may change the folder.
    pub(crate) moves: bool,
    /// Whether it is defined on every path to this point; otherwise a program may run instead.
    pub(crate) certain: bool,
}

/// The state of a shell. Cheap to clone, as for a subshell.
#[derive(Clone, Debug)]
pub(crate) struct ShellState {
    pub(crate) folders: WorkingFolders,
    variables: Rc<HashMap<String, VariableValue>>,
    /// Whether the script may have set variables that are not tracked.
    forgotten: bool,
    /// Functions, with the folders of the shell when their bodies were analyzed.
    functions: Rc<HashMap<String, ShellFunction>>,
    /// Whether variables may keep or change their value on assignment. All states of a script share
    /// it: a function may cause it when it is called.
    distrusted: Rc<Cell<bool>>,
    /// Number of copied variables, in all states of a script.
    copied: Rc<Cell<usize>>,
    /// Whether guesses are used as values.
    guessing: bool,
}

impl ShellState {
    pub(crate) fn new(folder: &Path) -> Self {
        Self {
            folders: WorkingFolders::OneOf(vec![folder.to_owned()]),
            variables: Rc::default(),
            forgotten: false,
            functions: Rc::default(),
            distrusted: Rc::default(),
            copied: Rc::default(),
            guessing: false,
        }
    }

    /// The same, with a temporary folder that `TMPDIR` names.
    pub(crate) fn with_temp(mut self, temp: Option<&Path>) -> Self {
        if let Some(temp) = temp.and_then(Path::to_str) {
            self.set("TMPDIR", VariableValue::Known(temp.to_owned()));
        }
        self
    }

    /// The value of a variable; `None` if it is not known and the script has
    /// not set it.
    pub(crate) fn variable(&self, name: &str) -> Option<&VariableValue> {
        self.variables.get(name)
    }

    pub(crate) fn set(&mut self, name: &str, value: VariableValue) {
        let full = self.variables.len() >= VARIABLES_MAX && !self.variables.contains_key(name);
        if Rc::strong_count(&self.variables) > 1 {
            self.count_copies(self.variables.len());
        }
        if full || self.is_exhausted() {
            // Untracked variables are unknown, and so are all tracked ones: a name that is not in
            // the map counts as unknown too.
            self.variables = Rc::default();
            self.forgotten = true;
            return;
        }
        let variables = Rc::make_mut(&mut self.variables);
        let value = match value {
            value if value.byte_len() > VALUE_BYTES_MAX => VariableValue::Unknown,
            value if is_set_by_shell(name) || self.distrusted.get() => value.to_uncertain(),
            value => value,
        };
        variables.insert(name.to_owned(), value);
    }

    fn count_copies(&self, variables: usize) {
        self.copied.set(self.copied.get().saturating_add(variables));
    }

    /// Whether the limit was reached, so that variables are no longer tracked.
    pub(crate) fn is_exhausted(&self) -> bool {
        self.copied.get() > COPIES_MAX
    }

    /// Records that variables may not have the assigned value from now on: one is read-only, or
    /// transforms its value. Returns whether that is new.
    pub(crate) fn distrust_variables(&self) -> bool {
        !self.distrusted.replace(true)
    }

    /// The same state, to analyze what happens if the guesses are right.
    pub(crate) fn with_guesses(&self) -> Self {
        Self { guessing: true, ..self.clone() }
    }

    /// The elements of a variable, if the guesses are right.
    pub(crate) fn guess(&self, name: &str) -> Option<&[String]> {
        match self.variables.get(name) {
            Some(VariableValue::Guess(texts)) if self.guessing => Some(texts),
            Some(VariableValue::Known(text)) if self.guessing => Some(std::slice::from_ref(text)),
            _ => None,
        }
    }

    pub(crate) fn is_guessing(&self) -> bool {
        self.guessing
    }

    /// Removes a function.
    pub(crate) fn undefine(&mut self, name: &str) {
        if self.functions.contains_key(name) {
            Rc::make_mut(&mut self.functions).remove(name);
        }
    }

    /// Adds a function; returns `false` if there are too many.
    #[must_use]
    pub(crate) fn define(&mut self, name: &str, function: ShellFunction) -> bool {
        let room = self.functions.len() < VARIABLES_MAX || self.functions.contains_key(name);
        if room {
            Rc::make_mut(&mut self.functions).insert(name.to_owned(), function);
        }
        room
    }

    /// Whether the value of a variable is harmless in arithmetic. A text in it would be evaluated,
    /// and a subscript in that text can run a command.
    pub(crate) fn is_number(&self, name: &str) -> bool {
        match self.variables.get(name) {
            Some(VariableValue::Number) => true,
            Some(VariableValue::Known(text)) => is_number(text),
            Some(VariableValue::Pattern(_) | VariableValue::Guess(_) | VariableValue::Unknown) => {
                false
            }
            // Only the parent process can have set it.
            None => !self.forgotten && (NUMBER_VARIABLES.contains(&name) || !is_set_by_shell(name)),
        }
    }

    pub(crate) fn function(&self, name: &str) -> Option<&ShellFunction> {
        self.functions.get(name)
    }

    /// The same folder, with unknown variables.
    pub(crate) fn without_variables(&self) -> Self {
        self.count_copies(self.variables.len());
        if self.is_exhausted() {
            return Self { variables: Rc::default(), forgotten: true, ..self.clone() };
        }
        let guesses =
            self.variables.iter().filter_map(|(name, value)| match value.to_uncertain() {
                VariableValue::Unknown => None,
                guess => Some((name.clone(), guess)),
            });
        Self { variables: Rc::new(guesses.collect()), forgotten: true, ..self.clone() }
    }

    /// The state of a program that is started here: only the folder.
    pub(crate) fn for_child_process(&self) -> Self {
        Self { functions: Rc::default(), ..self.without_variables() }
    }

    /// Whether both states are certainly the same; a fast check that may miss it.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        Rc::ptr_eq(&self.variables, &other.variables)
            && Rc::ptr_eq(&self.functions, &other.functions)
            && self.folders == other.folders
            && self.forgotten == other.forgotten
    }

    /// The state if either this one or `other` applies.
    pub(crate) fn merge(&self, other: &Self) -> Self {
        let folders = self.folders.merge(&other.folders);
        let variables = if Rc::ptr_eq(&self.variables, &other.variables) {
            Rc::clone(&self.variables)
        } else if self.is_exhausted() {
            Rc::default()
        } else {
            self.count_copies(self.variables.len() + other.variables.len());
            let mut both: HashMap<String, VariableValue> = HashMap::new();
            for (name, value) in self.variables.iter().chain(other.variables.iter()) {
                let (ours, theirs) = (self.variables.get(name), other.variables.get(name));
                let value = if ours == theirs {
                    value.clone()
                } else {
                    let guesses = ours.into_iter().chain(theirs).map(VariableValue::to_uncertain);
                    guesses.max_by_key(VariableValue::byte_len).unwrap_or(VariableValue::Unknown)
                };
                both.insert(name.clone(), value);
            }
            Rc::new(both)
        };
        // A name is certainly a function only if it is one on every path.
        let functions = if Rc::ptr_eq(&self.functions, &other.functions) {
            Rc::clone(&self.functions)
        } else {
            let mut both: HashMap<String, ShellFunction> = HashMap::new();
            for (name, function) in self.functions.iter().chain(other.functions.iter()) {
                let (ours, theirs) = (self.functions.get(name), other.functions.get(name));
                let moves = ours.is_some_and(|f| f.moves) || theirs.is_some_and(|f| f.moves);
                let certain = ours.is_some_and(|f| f.certain) && theirs.is_some_and(|f| f.certain);
                let folders = match (ours, theirs) {
                    (Some(ours), Some(theirs)) if ours.folders != theirs.folders => {
                        WorkingFolders::Unknown
                    }
                    _ => function.folders.clone(),
                };
                both.insert(name.clone(), ShellFunction { folders, moves, certain });
            }
            Rc::new(both)
        };
        let forgotten = self.forgotten || other.forgotten || self.is_exhausted();
        let copied = Rc::clone(&self.copied);
        let distrusted = Rc::clone(&self.distrusted);
        let guessing = self.guessing;
        Self { folders, variables, forgotten, functions, distrusted, copied, guessing }
    }
}

/// Whether a text is a plain number, so that there is nothing to evaluate.
pub(crate) fn is_number(text: &str) -> bool {
    text.strip_prefix(['-', '+']).unwrap_or(text).chars().all(|char| char.is_ascii_digit())
}

/// Variables that the shell sets to numbers.
const NUMBER_VARIABLES: &[&str] =
    words!("RANDOM SRANDOM SECONDS LINENO EPOCHSECONDS UID EUID PPID BASHPID COLUMNS LINES");

/// Variables that the shell sets itself, whatever a script assigns to them.
pub(crate) fn is_set_by_shell(name: &str) -> bool {
    const NAMES: &[&str] = words!(
        "_ REPLY OPTARG OPTIND OPTERR EPOCHREALTIME COMPREPLY HISTFILE MAPFILE DIRSTACK FUNCNAME \
         GROUPS COPROC COPROC_PID PIPESTATUS SHELLOPTS SHLVL BASHOPTS HISTCMD OLDPWD PWD HOSTNAME"
    );
    NAMES.contains(&name)
        || NUMBER_VARIABLES.contains(&name)
        || ["BASH", "COMP_", "READLINE_"].iter().any(|prefix| name.starts_with(prefix))
}

impl WorkingFolders {
    pub(crate) fn merge(&self, other: &Self) -> Self {
        match (self, other) {
            (Self::OneOf(ours), Self::OneOf(theirs)) => {
                let mut all = ours.clone();
                all.extend(theirs.iter().filter(|folder| !ours.contains(folder)).cloned());
                if all.len() > FOLDERS_MAX { Self::Unknown } else { Self::OneOf(all) }
            }
            _ => Self::Unknown,
        }
    }

    /// Whether `cd path` ends where it began, if symlinks are not followed: `./src/..`. Without the
    /// `./`, `CDPATH` might lead elsewhere.
    pub(crate) fn is_kept_by(&self, path: &str) -> bool {
        let Self::OneOf(folders) = self else { return false };
        path.starts_with("./")
            && folders.iter().all(|folder| {
                crate::path::normalize_lexically(&folder.join(path))
                    == crate::path::normalize_lexically(folder)
            })
    }

    /// The folders after `cd path`.
    pub(crate) fn enter(&self, path: &str) -> Self {
        if path.starts_with('/') {
            return Self::OneOf(vec![crate::path::normalize_lexically(Path::new(path))]);
        }
        match self {
            Self::OneOf(folders) => {
                let mut entered: Vec<PathBuf> = Vec::new();
                for folder in folders {
                    let next = crate::path::normalize_lexically(&folder.join(path));
                    if !entered.contains(&next) {
                        entered.push(next);
                    }
                }
                Self::OneOf(entered)
            }
            Self::Unknown => Self::Unknown,
        }
    }
}
