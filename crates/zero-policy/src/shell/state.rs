//! What a shell would know at a point of a script: where it is and what its variables hold.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use super::analysis::Folders;

/// Variables that are followed; with more, none is known.
const VARIABLES_MAX: usize = 256;
/// Folders a command may run in; with more, none is known.
const FOLDERS_MAX: usize = 8;

/// What is known of a variable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Value {
    /// Exactly this text.
    Known(String),
    /// A file name pattern, still to be expanded.
    Pattern(String),
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
}

/// What a shell knows. Cheap to copy, as a subshell does.
#[derive(Clone, Debug)]
pub(crate) struct State {
    pub(crate) folders: Folders,
    variables: Rc<HashMap<String, Value>>,
    /// Functions, and where the shell was when their bodies were looked at.
    functions: Rc<HashMap<String, Function>>,
}

impl State {
    pub(crate) fn new(folder: &Path) -> Self {
        Self {
            folders: Folders::OneOf(vec![folder.to_owned()]),
            variables: Rc::default(),
            functions: Rc::default(),
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
            return;
        }
        variables.insert(name.to_owned(), value);
    }

    pub(crate) fn define(&mut self, name: &str, function: Function) {
        if self.functions.len() < VARIABLES_MAX {
            Rc::make_mut(&mut self.functions).insert(name.to_owned(), function);
        }
    }

    pub(crate) fn function(&self, name: &str) -> Option<&Function> {
        self.functions.get(name)
    }

    /// The same place, with variables that may hold anything.
    pub(crate) fn without_variables(&self) -> Self {
        Self { variables: Rc::default(), ..self.clone() }
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
        // A name is a function only where it is one on every way here.
        let functions = if Rc::ptr_eq(&self.functions, &other.functions) {
            Rc::clone(&self.functions)
        } else {
            let both = self.functions.iter().filter(|(name, at)| {
                other.functions.get(*name).is_some_and(|other_at| other_at == *at)
            });
            Rc::new(both.map(|(name, at)| (name.clone(), at.clone())).collect())
        };
        Self { folders, variables, functions }
    }
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
