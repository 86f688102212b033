//! Finds files of one crate that import each other in a cycle.
//!
//! A reader must understand the files of a cycle together. Small cycles are fine: a parent module
//! and its children often have one.

mod module_tree;

use std::collections::{BTreeMap, BTreeSet};

use self::module_tree::{ImportEdges, ModuleTree};
use super::tidy_finding::TidyFinding;
use crate::repository::RepositoryFile;

/// Most files that may import each other in a cycle.
const CYCLE_FILES_MAX: usize = 6;

pub(super) fn check(files: &[RepositoryFile]) -> Vec<TidyFinding> {
    find_crate_roots(files).flat_map(|root| check_crate(files, root)).collect()
}

fn find_crate_roots(files: &[RepositoryFile]) -> impl Iterator<Item = &RepositoryFile> {
    files.iter().filter(|file| {
        let has_library = |folder| files.iter().any(|file| file.path == format!("{folder}lib.rs"));
        file.path.ends_with("/src/lib.rs")
            || file
                .path
                .strip_suffix("main.rs")
                .is_some_and(|folder| folder.ends_with("/src/") && !has_library(folder))
    })
}

fn check_crate(files: &[RepositoryFile], root: &RepositoryFile) -> Vec<TidyFinding> {
    let edges = ModuleTree::read(files, root).find_edges();
    let folder = root.path.rsplit_once('/').map_or("", |(folder, _)| folder);
    let cycles = find_cycles(&edges).into_iter();
    let too_large = cycles.filter(|cycle| cycle.len() > CYCLE_FILES_MAX);
    too_large.map(|cycle| describe_cycle(folder, &edges, &cycle)).collect()
}

fn describe_cycle(folder: &str, edges: &ImportEdges<'_>, cycle: &BTreeSet<&str>) -> TidyFinding {
    let shorten = |file: &str| file.trim_start_matches(folder).trim_start_matches('/').to_owned();
    let names: Vec<String> = cycle.iter().map(|file| shorten(file)).collect();
    let inside: ImportEdges<'_> = edges
        .iter()
        .filter(|((from, to), _)| cycle.contains(from) && cycle.contains(to))
        .map(|(edge, items)| (*edge, items.clone()))
        .collect();
    let breaks: Vec<String> = find_breaking_edges(&inside)
        .into_iter()
        .map(|(from, to)| {
            let items: Vec<&str> = inside[&(from, to)].iter().copied().collect();
            format!("\n  {} -> {} ({})", shorten(from), shorten(to), items.join(", "))
        })
        .collect();
    TidyFinding::new(
        folder,
        format!("{} files import each other in a cycle: {}", names.len(), names.join(", ")),
        format!(
            "at most {CYCLE_FILES_MAX} may: move what both sides need below them. Without these imports they do not:{}",
            breaks.concat()
        ),
    )
}

/// The strongly connected components of the graph, by Tarjan's algorithm.
fn find_cycles<'a>(edges: &ImportEdges<'a>) -> Vec<BTreeSet<&'a str>> {
    let mut search = CycleSearch::default();
    for (from, to) in edges.keys() {
        search.imports.entry(from).or_default().push(to);
    }
    let files: Vec<&str> = search.imports.keys().copied().collect();
    for file in files {
        if !search.order.contains_key(file) {
            search.visit(file);
        }
    }
    search.cycles
}

#[derive(Default)]
struct CycleSearch<'a> {
    imports: BTreeMap<&'a str, Vec<&'a str>>,
    /// When a file was first visited.
    order: BTreeMap<&'a str, usize>,
    /// Visited files whose component is not complete.
    pending: Vec<&'a str>,
    cycles: Vec<BTreeSet<&'a str>>,
}

impl<'a> CycleSearch<'a> {
    /// Visits everything that `file` imports. Returns the earliest pending file that it reaches.
    fn visit(&mut self, file: &'a str) -> usize {
        let own = self.order.len();
        self.order.insert(file, own);
        let start = self.pending.len();
        self.pending.push(file);
        let mut earliest = own;
        for imported in self.imports.get(file).cloned().unwrap_or_default() {
            match self.order.get(imported) {
                None => earliest = earliest.min(self.visit(imported)),
                Some(order) if self.pending.contains(&imported) => earliest = earliest.min(*order),
                Some(_) => {}
            }
        }
        if earliest == own {
            self.cycles.push(self.pending.drain(start..).collect());
        }
        earliest
    }
}

/// Some edges of a cycle without which none of its parts is too large, those with few names first.
fn find_breaking_edges<'a>(edges: &ImportEdges<'a>) -> Vec<(&'a str, &'a str)> {
    // Take away the file that is imported most for what it imports itself, until none is left. An
    // import against this order is a candidate.
    let mut order = Vec::new();
    let mut left: BTreeSet<&str> = edges.keys().flat_map(|(from, to)| [*from, *to]).collect();
    while let Some(lowest) = left.iter().copied().max_by_key(|file| {
        let weigh = |pick: fn(&(&'a str, &'a str)) -> (&'a str, &'a str)| {
            let inside = edges.iter().filter(|(edge, _)| {
                let (this, other) = pick(edge);
                this == *file && left.contains(other)
            });
            isize::try_from(inside.map(|(_, items)| items.len()).sum::<usize>()).unwrap_or(0)
        };
        weigh(|(from, to)| (*to, *from)) - weigh(|(from, to)| (*from, *to))
    }) {
        left.remove(lowest);
        order.push(lowest);
    }
    let place = |file: &str| order.iter().position(|other| *other == file);
    let (mut kept, mut removed): (ImportEdges<'_>, Vec<_>) = (edges.clone(), Vec::new());
    for (from, to) in edges.keys().filter(|(from, to)| place(from) < place(to)) {
        kept.remove(&(*from, *to));
        removed.push((*from, *to));
    }
    // Put back what does no harm, the largest first.
    removed.sort_by_key(|edge| std::cmp::Reverse(edges[edge].len()));
    removed.retain(|edge| {
        kept.insert(*edge, edges[edge].clone());
        let is_harmless = find_cycles(&kept).iter().all(|cycle| cycle.len() <= CYCLE_FILES_MAX);
        if !is_harmless {
            kept.remove(edge);
        }
        !is_harmless
    });
    removed.reverse();
    removed
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample_file(path: &str, text: impl Into<String>) -> RepositoryFile {
        RepositoryFile { path: format!("crates/x/src/{path}.rs"), text: text.into() }
    }

    /// A crate of `len` files, each of which imports from the next and the last from the first.
    fn ring(len: usize) -> Vec<RepositoryFile> {
        let declared: String = (0..len).map(|at| format!("mod m{at};\n")).collect();
        let files = (0..len).map(|at| {
            let next = (at + 1) % len;
            let text = format!("use crate::m{next}::Item{next};\npub struct Item{at};\n");
            sample_file(&format!("m{at}"), text)
        });
        std::iter::once(sample_file("lib", declared)).chain(files).collect()
    }

    fn check_all(files: &[RepositoryFile]) -> String {
        check(files).iter().map(TidyFinding::to_string).collect::<Vec<_>>().join("\n")
    }

    /// Checks which edges a crate has, each as `from -> to: names`.
    #[track_caller]
    fn check_edges(files: &[RepositoryFile], expected: &[&str]) {
        let root = find_crate_roots(files).next().unwrap();
        let shorten = |file: &str| {
            file.trim_start_matches("crates/x/src/").trim_end_matches(".rs").to_owned()
        };
        let edges: Vec<String> = ModuleTree::read(files, root)
            .find_edges()
            .iter()
            .map(|((from, to), items)| {
                let items: Vec<&str> = items.iter().copied().collect();
                format!("{} -> {}: {}", shorten(from), shorten(to), items.join(", "))
            })
            .collect();
        assert_eq!(edges, expected);
    }

    #[test]
    fn cycle_of_seven_files_is_found() {
        assert_eq!(
            check_all(&ring(7)),
            "crates/x/src: 7 files import each other in a cycle: m0.rs, m1.rs, m2.rs, m3.rs, m4.rs, m5.rs, m6.rs; at most 6 may: move what both sides need below them. Without these imports they do not:\n  m6.rs -> m0.rs (Item0)"
        );
    }

    #[test]
    fn cycle_of_six_files_passes() {
        assert_eq!(check_all(&ring(6)), "");
    }

    #[test]
    fn files_without_a_way_back_pass() {
        let mut files = ring(7);
        files[7].text = "pub struct Item6;".to_owned();
        assert_eq!(check_all(&files), "");
    }

    #[test]
    fn reexport_leads_to_the_file_that_defines_the_item() {
        check_edges(
            &[
                sample_file("lib", "mod a; pub mod b; pub use b::{Deep as Renamed, c::*};"),
                sample_file("a", "use crate::Renamed; fn f() { crate::Other::new(); }"),
                sample_file("b", "pub mod c; pub use self::c::Deep;"),
                sample_file("b/c", "pub struct Deep; pub struct Other;"),
            ],
            &["a -> b/c: Deep, Other", "b -> b/c: Deep", "lib -> b/c: Deep"],
        );
    }

    #[test]
    fn path_through_an_imported_module_is_an_edge() {
        check_edges(
            &[
                sample_file("lib", "use log::warn; mod a; mod b; fn main() { a::run(); }"),
                sample_file("a", "use super::{b, warn}; pub fn run() { b::stop(b::Reason::Done) }"),
                sample_file("b", "pub fn stop(_: Reason) {} pub enum Reason { Done }"),
            ],
            &["a -> b: Reason, stop", "lib -> a: run"],
        );
    }

    #[test]
    fn tests_comments_and_texts_are_not_edges() {
        check_edges(
            &[
                sample_file("lib", "mod a; mod b; #[cfg(test)] mod c; pub struct Top;"),
                sample_file(
                    "a",
                    "//! See crate::b::X.\nfn f<'a>() -> &'a str { \"crate::b::X\"; r#\"crate::b::\"X\"#; '\"' }
                     #[cfg(test)]\nfn g<A, B>() { crate::b::x() }
                     #[cfg(all(test, unix))]\nmod tests { use crate::b::X; }",
                ),
                sample_file("b", "pub struct X; impl X { fn top(&self, top: super::Top) {} }"),
                sample_file("c", "use crate::a::f;"),
            ],
            &["b -> lib: Top"],
        );
    }
}
