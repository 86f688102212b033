//! What a shell would know at a point of a script: where it is and what its variables hold.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use super::analysis::Folders;

/// Variables that are followed; with more, none is known.
const VARIABLES_MAX: usize = 256;
/// Folders a command may run in; with more, none is known.
const FOLDERS_MAX: usize = 8;
/// Bytes of a value that is followed. `x=$x$x` doubles each time.
const VALUE_BYTES_MAX: usize = 1024;

/// What is known of a variable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Value {
    /// Exactly this text.
    Known(String),
    /// A file name pattern, still to be expanded.
    Pattern(String),
    /// Some whole number.
    Number,
    /// Set, but nobody knows to what.
    Unknown,
}

/// What is known of a function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Function {
    /// Where the shell was when the body was looked at.
    pub(crate) folders: Folders,
    /// Whether calling it may leave the shell somewhere else.
    pub(crate) moves: bool,
    /// Whether it is one on every way here; otherwise a program may run in its place.
    pub(crate) certain: bool,
}

/// What a shell knows. Cheap to copy, as a subshell does.
#[derive(Clone, Debug)]
pub(crate) struct State {
    pub(crate) folders: Folders,
    variables: Rc<HashMap<String, Value>>,
    /// Whether variables that are not followed may have been set by the script.
    forgotten: bool,
    /// Functions, and where the shell was when their bodies were looked at.
    functions: Rc<HashMap<String, Function>>,
    /// Variables that somewhere in the script are made to keep what they hold, whatever is
    /// assigned to them. All states of a script share them: a function may do it when it is called.
    fixed: Rc<RefCell<HashSet<String>>>,
}

impl State {
    pub(crate) fn new(folder: &Path) -> Self {
        Self {
            folders: Folders::OneOf(vec![folder.to_owned()]),
            variables: Rc::default(),
            forgotten: false,
            functions: Rc::default(),
            fixed: Rc::default(),
        }
    }

    /// What a variable holds; `None` when the script has not set it.
    pub(crate) fn variable(&self, name: &str) -> Option<&Value> {
        self.variables.get(name)
    }

    pub(crate) fn set(&mut self, name: &str, value: Value) {
        let full = self.variables.len() >= VARIABLES_MAX && !self.variables.contains_key(name);
        let variables = Rc::make_mut(&mut self.variables);
        if full {
            // What is not followed is unknown, and so is everything that was: a name that is not
            // in the map counts as unknown too.
            variables.clear();
            self.forgotten = true;
            return;
        }
        let keeps = set_by_the_shell(name) || self.fixed.borrow().contains(name);
        let long = matches!(&value, Value::Known(text) | Value::Pattern(text) if text.len() > VALUE_BYTES_MAX);
        let value = if keeps || long { Value::Unknown } else { value };
        variables.insert(name.to_owned(), value);
    }

    /// Notes that a variable can no longer be changed; whoever tries may be told or not.
    pub(crate) fn fix(&self, name: &str) {
        self.fixed.borrow_mut().insert(name.to_owned());
    }

    /// Notes a function; `false` when there are too many to follow.
    #[must_use]
    pub(crate) fn define(&mut self, name: &str, function: Function) -> bool {
        let room = self.functions.len() < VARIABLES_MAX || self.functions.contains_key(name);
        if room {
            Rc::make_mut(&mut self.functions).insert(name.to_owned(), function);
        }
        room
    }

    /// Whether a variable holds what is harmless in a calculation. A text in it would be
    /// calculated in turn, and a subscript in that text may run a command.
    pub(crate) fn is_number(&self, name: &str) -> bool {
        match self.variables.get(name) {
            Some(Value::Number) => true,
            Some(Value::Known(text)) => is_number(text),
            Some(Value::Pattern(_) | Value::Unknown) => false,
            // Nobody but whoever started the shell has set it.
            None => !self.forgotten && !set_by_the_shell(name),
        }
    }

    pub(crate) fn function(&self, name: &str) -> Option<&Function> {
        self.functions.get(name)
    }

    /// The same place, with variables that may hold anything.
    pub(crate) fn without_variables(&self) -> Self {
        Self { variables: Rc::default(), forgotten: true, ..self.clone() }
    }

    /// What a program knows that is started here: the place.
    pub(crate) fn outside(&self) -> Self {
        Self { functions: Rc::default(), ..self.without_variables() }
    }

    /// Whether this is certainly the other one; a quick look that may miss it.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        Rc::ptr_eq(&self.variables, &other.variables)
            && Rc::ptr_eq(&self.functions, &other.functions)
            && self.folders == other.folders
            && self.forgotten == other.forgotten
    }

    /// The state when either this one or `other` holds.
    pub(crate) fn or(&self, other: &Self) -> Self {
        let folders = self.folders.or(&other.folders);
        let variables = if Rc::ptr_eq(&self.variables, &other.variables) {
            Rc::clone(&self.variables)
        } else {
            let mut both: HashMap<String, Value> = HashMap::new();
            for (name, value) in self.variables.iter().chain(other.variables.iter()) {
                let same = self.variables.get(name) == other.variables.get(name);
                both.insert(name.clone(), if same { value.clone() } else { Value::Unknown });
            }
            Rc::new(both)
        };
        // A name is certainly a function only where it is one on every way here.
        let functions = if Rc::ptr_eq(&self.functions, &other.functions) {
            Rc::clone(&self.functions)
        } else {
            let mut both: HashMap<String, Function> = HashMap::new();
            for (name, function) in self.functions.iter().chain(other.functions.iter()) {
                let (ours, theirs) = (self.functions.get(name), other.functions.get(name));
                let moves = ours.is_some_and(|f| f.moves) || theirs.is_some_and(|f| f.moves);
                let certain = ours.is_some_and(|f| f.certain) && theirs.is_some_and(|f| f.certain);
                let folders = match (ours, theirs) {
                    (Some(ours), Some(theirs)) if ours.folders != theirs.folders => {
                        Folders::Unknown
                    }
                    _ => function.folders.clone(),
                };
                both.insert(name.clone(), Function { folders, moves, certain });
            }
            Rc::new(both)
        };
        let forgotten = self.forgotten || other.forgotten;
        let fixed = Rc::clone(&self.fixed);
        Self { folders, variables, forgotten, functions, fixed }
    }
}

/// Whether a text is a number and nothing else, so that nothing is left to calculate.
pub(crate) fn is_number(text: &str) -> bool {
    text.strip_prefix(['-', '+']).unwrap_or(text).chars().all(|char| char.is_ascii_digit())
}

/// Variables that the shell sets on its own, whatever a script assigns to them.
fn set_by_the_shell(name: &str) -> bool {
    const NAMES: &[&str] = &[
        "_",
        "REPLY",
        "OPTARG",
        "MAPFILE",
        "DIRSTACK",
        "FUNCNAME",
        "GROUPS",
        "COPROC",
        "PIPESTATUS",
        "UID",
        "EUID",
        "PPID",
        "SHELLOPTS",
        "BASHOPTS",
        "HISTCMD",
        "OLDPWD",
        "PWD",
        "HOSTNAME",
    ];
    NAMES.contains(&name) || name.starts_with("BASH") || name.starts_with("COMP_")
}

impl Folders {
    pub(crate) fn or(&self, other: &Self) -> Self {
        match (self, other) {
            (Self::OneOf(ours), Self::OneOf(theirs)) => {
                let mut all = ours.clone();
                all.extend(theirs.iter().filter(|folder| !ours.contains(folder)).cloned());
                if all.len() > FOLDERS_MAX { Self::Unknown } else { Self::OneOf(all) }
            }
            _ => Self::Unknown,
        }
    }

    /// The folders after `cd path`.
    pub(crate) fn enter(&self, path: &str) -> Self {
        if path.starts_with('/') {
            return Self::OneOf(vec![crate::path::lexical(Path::new(path))]);
        }
        match self {
            Self::OneOf(folders) => {
                let mut entered: Vec<PathBuf> = Vec::new();
                for folder in folders {
                    let next = crate::path::lexical(&folder.join(path));
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
