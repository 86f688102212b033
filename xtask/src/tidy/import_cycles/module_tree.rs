//! The modules of a crate, and which file names the items of which other file.
//!
//! This reads tokens, not types: a name is followed through `use` and re-exports to the file that
//! defines it. Methods are not followed, because their receiver's type is unknown here.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::repository::RepositoryFile;

/// For a file and a file that it imports from: the names that it imports.
pub(super) type ImportEdges<'a> = BTreeMap<(&'a str, &'a str), BTreeSet<&'a str>>;

/// Keywords that begin an item with a name.
const ITEM_KEYWORDS: &[&str] =
    &["fn", "struct", "enum", "union", "trait", "type", "const", "static", "mod"];

/// Most re-exports that a name is followed through, in case that they go in a circle.
const REEXPORTS_MAX: usize = 16;

type ItemPath<'a> = Vec<&'a str>;

/// One module: a file, or a part of one.
struct Module<'a> {
    file: &'a str,
    parent: Option<usize>,
    children: HashMap<&'a str, usize>,
    items: BTreeSet<&'a str>,
    /// What `use` declarations call by a name; a name can have two under different `cfg`.
    imports: Vec<(&'a str, ItemPath<'a>)>,
    glob_imports: Vec<ItemPath<'a>>,
    /// Everything that the code names.
    mentions: BTreeSet<ItemPath<'a>>,
}

/// What a path leads to.
#[derive(Clone, Copy)]
enum PathTarget<'a> {
    Module(usize),
    Item { module: usize, name: &'a str },
}

/// All modules of one crate that are not only for tests. The first is the root.
pub(super) struct ModuleTree<'a> {
    modules: Vec<Module<'a>>,
    /// The modules that define macros.
    macros: HashMap<&'a str, usize>,
}

impl<'a> ModuleTree<'a> {
    /// Reads the crate whose root is the file `root`, such as `crates/zero/src/lib.rs`.
    pub(super) fn read(files: &'a [RepositoryFile], root: &'a RepositoryFile) -> Self {
        let mut tree = Self { modules: Vec::new(), macros: HashMap::new() };
        let folder = root.path.rsplit_once('/').map_or("", |(folder, _)| folder);
        tree.read_file(files, root, folder, None);
        tree
    }

    /// Reads one file and the files below it; `folder` is where its child modules are.
    fn read_file(
        &mut self,
        files: &'a [RepositoryFile],
        file: &'a RepositoryFile,
        folder: &str,
        parent: Option<usize>,
    ) -> usize {
        let tokens = tokenize(&file.text);
        let module = self.add_module(&file.path, parent);
        for (at, name) in self.read_items(&file.path, &tokens, module) {
            let path = format!("{folder}/{name}.rs");
            if let Some(below) = files.iter().find(|file| file.path == path) {
                let child = self.read_file(files, below, &format!("{folder}/{name}"), Some(at));
                self.modules[at].children.insert(name, child);
            }
        }
        module
    }

    fn add_module(&mut self, file: &'a str, parent: Option<usize>) -> usize {
        self.modules.push(Module {
            file,
            parent,
            children: HashMap::new(),
            items: BTreeSet::new(),
            imports: Vec::new(),
            glob_imports: Vec::new(),
            mentions: BTreeSet::new(),
        });
        self.modules.len() - 1
    }

    /// Reads the tokens of a file into `module` and the modules inside it. Returns the child
    /// modules that have files of their own, each with the module that declares it.
    fn read_items(
        &mut self,
        file: &'a str,
        tokens: &[&'a str],
        module: usize,
    ) -> Vec<(usize, &'a str)> {
        let mut declared = Vec::new();
        // The modules around the current token, each with the bracket depth inside it.
        let mut around = vec![(module, 0_usize)];
        let (mut at, mut depth) = (0, 0_usize);
        while let Some(&token) = tokens.get(at) {
            let &(current, base) = around.last().unwrap_or(&(module, 0));
            let next = tokens.get(at + 1).copied().unwrap_or_default();
            let before = if at > 0 { tokens[at - 1] } else { "" };
            match token {
                "#" if is_test_attribute(&tokens[at..]) => {
                    at += test_item_len(&tokens[at..]);
                    continue;
                }
                "{" | "(" | "[" => depth += 1,
                "}" | ")" | "]" => {
                    depth = depth.saturating_sub(1);
                    if depth < base {
                        around.pop();
                    }
                }
                "use" if next != "<" => {
                    at = self.read_use(tokens, at + 1, current, Vec::new());
                }
                "mod" if depth == base && tokens.get(at + 2) == Some(&"{") => {
                    let inline = self.add_module(file, Some(current));
                    self.modules[current].children.insert(next, inline);
                    depth += 1;
                    around.push((inline, depth));
                    at += 2;
                }
                "mod" if depth == base => {
                    declared.push((current, next));
                    at += 1;
                }
                _ if depth == base && ITEM_KEYWORDS.contains(&token) && is_name(next) => {
                    // `const fn` puts `fn` here too, which no path names.
                    self.modules[current].items.insert(next);
                }
                "macro_rules" => {
                    // An exported macro is an item of the root, wherever it is defined.
                    self.macros.extend(tokens.get(at + 2).map(|name| (*name, current)));
                }
                _ if is_name(token) && before != "." && before != "::" => {
                    let mut path = vec![token];
                    while tokens.get(at + 1) == Some(&"::")
                        && let Some(segment) = tokens.get(at + 2).filter(|token| is_name(token))
                    {
                        path.push(segment);
                        at += 2;
                    }
                    self.modules[current].mentions.insert(path);
                }
                _ => {}
            }
            at += 1;
        }
        declared
    }

    /// Reads one branch of a `use` declaration. Returns the place of the token after it.
    fn read_use(
        &mut self,
        tokens: &[&'a str],
        mut at: usize,
        module: usize,
        mut path: ItemPath<'a>,
    ) -> usize {
        let (mut alias, mut is_leaf) = (None, false);
        loop {
            match tokens.get(at).copied() {
                Some("{") => {
                    while matches!(tokens.get(at), Some(&"{" | &",")) {
                        at = self.read_use(tokens, at + 1, module, path.clone());
                    }
                    return at + 1;
                }
                Some("*") => {
                    self.modules[module].glob_imports.push(path.clone());
                    self.modules[module].mentions.insert(path);
                    return at + 1;
                }
                Some("as") => (alias, at) = (tokens.get(at + 1).copied(), at + 1),
                Some("self") if !path.is_empty() => is_leaf = true,
                Some("::") => {}
                Some(name) if is_name(name) => {
                    path.push(name);
                    is_leaf = true;
                }
                _ => break,
            }
            at += 1;
        }
        if let Some(&name) = path.last().filter(|_| is_leaf) {
            let module = &mut self.modules[module];
            module.mentions.insert(path.clone());
            module.imports.push((alias.unwrap_or(name), path));
        }
        at
    }

    /// Which file imports what from which other file.
    pub(super) fn find_edges(&self) -> ImportEdges<'a> {
        let mut edges = ImportEdges::new();
        for (at, module) in self.modules.iter().enumerate() {
            for path in &module.mentions {
                if let Some(PathTarget::Item { module: target, name }) =
                    self.resolve(at, path, false, 0)
                    && self.modules[target].file != module.file
                {
                    let edge = (module.file, self.modules[target].file);
                    edges.entry(edge).or_default().insert(name);
                }
            }
        }
        edges
    }

    /// Where `path` leads from `module`. `as_module` prefers a module to an item of the same name.
    fn resolve(
        &self,
        module: usize,
        path: &[&'a str],
        as_module: bool,
        reexports: usize,
    ) -> Option<PathTarget<'a>> {
        let mut here = module;
        for (index, segment) in path.iter().enumerate() {
            let is_last = index + 1 == path.len();
            let target = match *segment {
                "crate" => Some(PathTarget::Module(0)),
                "self" => Some(PathTarget::Module(here)),
                "super" => self.modules[here].parent.map(PathTarget::Module),
                name => self.look_up(here, name, as_module || !is_last, reexports),
            };
            match target {
                Some(PathTarget::Module(next)) => here = next,
                Some(item) => return Some(item),
                // A name of another crate, at the start of the path or imported on the way.
                None if index == 0 => return None,
                None if self.modules[here].imports.iter().any(|(alias, _)| alias == segment) => {
                    return None;
                }
                // A macro made the item.
                None => return Some(PathTarget::Item { module: here, name: segment }),
            }
        }
        Some(PathTarget::Module(here))
    }

    fn look_up(
        &self,
        at: usize,
        name: &'a str,
        as_module: bool,
        reexports: usize,
    ) -> Option<PathTarget<'a>> {
        let module = &self.modules[at];
        let child = module.children.get(name).map(|child| PathTarget::Module(*child));
        if as_module && child.is_some() {
            return child;
        }
        if module.items.contains(name) {
            return Some(PathTarget::Item { module: at, name });
        }
        if reexports >= REEXPORTS_MAX {
            return None;
        }
        let imports = module.imports.iter().filter(|(alias, _)| *alias == name);
        let imported = imports
            // `use log;` names an external crate, not itself.
            .filter(|(_, path)| path.as_slice() != [name])
            .find_map(|(_, path)| self.resolve(at, path, as_module, reexports + 1));
        let found_by_glob = || {
            module.glob_imports.iter().find_map(|path| {
                match self.resolve(at, path, true, reexports + 1)? {
                    PathTarget::Module(from) if from != at => {
                        self.look_up(from, name, as_module, reexports + 1)
                    }
                    _ => None,
                }
            })
        };
        let exported = self.macros.get(name).filter(|_| at == 0);
        let exported = exported.map(|module| PathTarget::Item { module: *module, name });
        imported.or_else(found_by_glob).or(child).or(exported)
    }
}

fn is_name(token: &str) -> bool {
    token.starts_with(|c: char| c.is_alphabetic() || c == '_')
}

fn is_test_attribute(tokens: &[&str]) -> bool {
    tokens.starts_with(&["#", "[", "cfg", "(", "test", ")"])
        || tokens.starts_with(&["#", "[", "cfg", "(", "all", "(", "test", ","])
}

/// How many tokens an attribute and the item or expression below it have.
fn test_item_len(tokens: &[&str]) -> usize {
    let mut at = 0;
    while tokens.get(at) == Some(&"#") {
        at += 1 + group_len(&tokens[at + 1..]);
    }
    // A comma ends a field or a match arm, but not the generic parameters of an item.
    let is_item = tokens.get(at).is_some_and(|token| {
        ITEM_KEYWORDS.contains(token) || ["pub", "impl", "use", "async", "unsafe"].contains(token)
    });
    while let Some(&token) = tokens.get(at) {
        match token {
            ";" => return at + 1,
            "," if !is_item => return at + 1,
            "{" => return at + group_len(&tokens[at..]),
            "}" | ")" | "]" => return at,
            _ => at += group_len(&tokens[at..]),
        }
    }
    at
}

/// How many tokens a bracket with its content has; 1 for every other token.
fn group_len(tokens: &[&str]) -> usize {
    let mut depth = 0_usize;
    for (at, token) in tokens.iter().enumerate() {
        match *token {
            "{" | "(" | "[" => depth += 1,
            "}" | ")" | "]" => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth == 0 {
            return at + 1;
        }
    }
    tokens.len()
}

/// Splits Rust into names, `::` and single characters. Comments, literals of text and lifetimes
/// are left out.
fn tokenize(text: &str) -> Vec<&str> {
    let mut tokens = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let len = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if rest.starts_with("/*") {
            block_comment_len(rest)
        } else if let Some(len) = text_literal_len(rest) {
            len
        } else if first.is_alphanumeric() || first == '_' {
            let len = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
            tokens.push(&rest[..len]);
            len
        } else {
            let len = if rest.starts_with("::") { 2 } else { first.len_utf8() };
            if !first.is_whitespace() {
                tokens.push(&rest[..len]);
            }
            len
        };
        rest = &rest[len..];
    }
    tokens
}

fn block_comment_len(text: &str) -> usize {
    let (mut depth, mut at) = (0_usize, 0);
    while let Some(mark) = text.as_bytes().get(at..at + 2) {
        match mark {
            b"/*" => (depth, at) = (depth + 1, at + 2),
            b"*/" => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
        if depth == 0 {
            return at;
        }
    }
    text.len()
}

/// The length of a string, character or lifetime at the start of `text`, if there is one.
fn text_literal_len(text: &str) -> Option<usize> {
    let unprefixed = text.strip_prefix(['b', 'c']).unwrap_or(text);
    let prefix_len = text.len() - unprefixed.len();
    if let Some(raw) = unprefixed.strip_prefix('r') {
        let hashes = raw.len() - raw.trim_start_matches('#').len();
        if raw[hashes..].starts_with('"') {
            let end = format!("\"{}", "#".repeat(hashes));
            let body = prefix_len + 1 + hashes + 1;
            return Some(text[body..].find(&end).map_or(text.len(), |at| body + at + end.len()));
        }
    }
    if unprefixed.starts_with('"') {
        return Some(prefix_len + quoted_len(unprefixed, '"'));
    }
    let quoted = unprefixed.strip_prefix('\'')?;
    let mut chars = quoted.chars();
    let is_char = chars.next() == Some('\\') || chars.next() == Some('\'');
    if is_char {
        return Some(prefix_len + quoted_len(unprefixed, '\''));
    }
    // A lifetime has no prefix.
    let name_len = quoted.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(quoted.len());
    (prefix_len == 0).then_some(1 + name_len)
}

fn quoted_len(text: &str, quote: char) -> usize {
    let mut is_escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            _ if c == quote => return at + 1,
            _ => {}
        }
    }
    text.len()
}
