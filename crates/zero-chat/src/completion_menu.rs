//! Suggestions for the word before the cursor: commands after `/`, files after `@`.

use zero_core::sanitize::escape_line;
use zero_terminal::{FAINT, STRONG, TerminalStream, truncate_to_columns};

/// Most suggestions that are shown.
const SHOWN_MAX: usize = 6;
/// Most suggestions that are kept.
const MATCHES_MAX: usize = 50;

/// One suggestion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Suggestion {
    /// What replaces the word.
    pub(crate) replacement: String,
    /// What is said about it.
    pub(crate) about: String,
}

/// Suggestions of which one is selected.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct CompletionMenu {
    /// The word that they are for.
    word: String,
    suggestions: Vec<Suggestion>,
    selected: usize,
    /// Whether the user closed it for this word.
    is_closed: bool,
}

impl CompletionMenu {
    /// Shows suggestions for a word; the selection stays while the word does.
    pub(crate) fn show(&mut self, word: &str, suggestions: Vec<Suggestion>) {
        if self.word != word {
            *self = Self { word: word.to_owned(), ..Self::default() };
        }
        self.suggestions = suggestions;
        self.selected = self.selected.min(self.suggestions.len().saturating_sub(1));
    }

    pub(crate) fn hide(&mut self) {
        *self = Self::default();
    }

    /// Closes it until the word changes.
    pub(crate) fn close(&mut self) {
        self.is_closed = true;
    }

    pub(crate) fn is_open(&self) -> bool {
        !self.is_closed && !self.suggestions.is_empty()
    }

    /// Selects the next suggestion, or the one before.
    pub(crate) fn select(&mut self, is_forward: bool) {
        let count = self.suggestions.len();
        if count > 0 {
            let step = if is_forward { 1 } else { count - 1 };
            self.selected = (self.selected + step) % count;
        }
    }

    pub(crate) fn selected(&self) -> Option<&Suggestion> {
        self.suggestions.get(self.selected).filter(|_| self.is_open())
    }

    /// The rows of the menu.
    pub(crate) fn render(
        &self,
        stream: &TerminalStream,
        columns: usize,
        rows_max: usize,
        is_ascii: bool,
    ) -> Vec<String> {
        if !self.is_open() {
            return Vec::new();
        }
        let rows_max = rows_max.clamp(1, SHOWN_MAX);
        let first = (self.selected + 1).saturating_sub(rows_max);
        let shown = self.suggestions.iter().enumerate().skip(first).take(rows_max);
        let row = |(at, suggestion): (usize, &Suggestion)| {
            let mark = match (at == self.selected, is_ascii) {
                (true, true) => ">",
                (true, false) => "›",
                (false, _) => " ",
            };
            let text = match suggestion.about.is_empty() {
                true => format!("{mark} {}", escape_line(&suggestion.replacement)),
                false => format!(
                    "{mark} {:<16} {}",
                    escape_line(&suggestion.replacement),
                    escape_line(&suggestion.about)
                ),
            };
            let text = truncate_to_columns(&format!("  {text}"), columns);
            let style = if at == self.selected { STRONG } else { FAINT };
            stream.paint(style, &text).into_owned()
        };
        shown.map(row).collect()
    }
}

/// The files that fit a typed text, best first.
pub(crate) fn rank_files<'a>(files: &'a [String], typed: &str) -> Vec<&'a str> {
    let typed: Vec<char> = typed.to_lowercase().chars().collect();
    // The best are found by numbers alone: of many thousand paths, most differ only in their letters.
    let mut ranked: Vec<(i64, usize, usize)> = files
        .iter()
        .enumerate()
        .filter_map(|(at, file)| score_path(file, &typed).map(|score| (-score, file.len(), at)))
        .collect();
    if ranked.len() > MATCHES_MAX {
        ranked.select_nth_unstable(MATCHES_MAX);
        ranked.truncate(MATCHES_MAX);
    }
    let mut best: Vec<(i64, usize, &str)> = ranked
        .into_iter()
        .filter_map(|(score, length, at)| Some((score, length, files.get(at)?.as_str())))
        .collect();
    best.sort_unstable();
    best.into_iter().map(|(.., file)| file).collect()
}

/// How well a command fits a typed text, less for a better one: typed completely, begun, or with these
/// letters in order. `None` if it does not fit.
pub(crate) fn rank_command(name: &str, typed: &str) -> Option<(u8, i64)> {
    let (name, typed) = (name.to_lowercase(), typed.to_lowercase());
    if name.starts_with(&typed) {
        return Some((u8::from(name != typed), 0));
    }
    let letters: Vec<char> = typed.chars().collect();
    score_path(&name, &letters).map(|score| (2, -score))
}

/// A letter in lower case; of several letters that it becomes, the first.
fn to_lower(letter: char) -> char {
    match letter.is_ascii() {
        true => letter.to_ascii_lowercase(),
        false => letter.to_lowercase().next().unwrap_or(letter),
    }
}

/// How well a path fits: its letters contain the typed ones in order. Runs of letters, starts of
/// words and letters of the file's name count more. `None` if it does not fit.
fn score_path(path: &str, typed: &[char]) -> Option<i64> {
    let name_start = path.rfind('/').map_or(0, |at| at + 1);
    // The letters of the name are tried first: people type the end of a path.
    let find = if path.is_ascii() { find_ascii_letter } else { find_letter };
    score_from(path, name_start, name_start, typed, find)
        .map(|score| score + 4)
        .or_else(|| score_from(path, 0, name_start, typed, find))
}

/// The score of the letters from a place in the path on.
fn score_from(
    path: &str,
    start: usize,
    name_start: usize,
    typed: &[char],
    find: fn(&str, char) -> Option<usize>,
) -> Option<i64> {
    let (mut rest, mut at, mut score, mut run) = (path.get(start..)?, start, 0_i64, 0_i64);
    let mut before = '/';
    for sought in typed {
        let skipped = find(rest, *sought)?;
        let (passed, found) = rest.split_at(skipped);
        let letter = found.chars().next()?;
        if let Some(last) = passed.chars().next_back() {
            (before, run) = (last, 0);
        }
        at += skipped;
        run += 1;
        let is_start = matches!(before, '/' | '_' | '-' | '.' | ' ')
            || (before.is_lowercase() && letter.is_uppercase());
        score += run + if is_start { 8 } else { 0 } + if at >= name_start { 2 } else { 0 };
        before = letter;
        at += letter.len_utf8();
        rest = found.get(letter.len_utf8()..)?;
    }
    Some(score)
}

/// Where a letter is first, in upper or lower case.
fn find_letter(text: &str, sought: char) -> Option<usize> {
    text.char_indices().find(|(_, letter)| to_lower(*letter) == sought).map(|(at, _)| at)
}

/// The same in a text of ASCII, as most paths are: each key looks at all of them.
fn find_ascii_letter(text: &str, letter: char) -> Option<usize> {
    let letter = u8::try_from(letter).ok()?;
    text.bytes().position(|byte| byte.to_ascii_lowercase() == letter)
}

#[cfg(test)]
mod tests {
    use zero_terminal::Terminal;

    use super::*;

    #[test]
    fn commands_fit_by_their_letters_in_order() {
        let ranked = |typed: &str| {
            let names = ["model", "mode", "memory", "compact", "export"];
            let mut fitting: Vec<_> =
                names.iter().filter_map(|name| Some((rank_command(name, typed)?, *name))).collect();
            fitting.sort_by_key(|(rank, _)| *rank);
            fitting.into_iter().map(|(_, name)| name).collect::<Vec<_>>()
        };
        assert_eq!(ranked("Mode"), ["mode", "model"]);
        assert_eq!(ranked("mo"), ["model", "mode", "memory"]);
        assert_eq!(ranked("mdl"), ["model"]);
        assert_eq!(ranked("xp"), ["export"]);
        assert_eq!(ranked("").len(), 5);
        assert!(ranked("q").is_empty() && ranked("etc/").is_empty());
    }

    #[test]
    fn nearest_files_come_first() {
        let files: Vec<String> = ["src/main.rs", "src/domain.rs", "docs/main-page.md", "Makefile"]
            .map(str::to_owned)
            .to_vec();
        assert_eq!(
            rank_files(&files, "main"),
            ["src/main.rs", "docs/main-page.md", "src/domain.rs"]
        );
        assert_eq!(rank_files(&files, "mk"), ["Makefile"]);
        assert_eq!(rank_files(&files, "srcm")[0], "src/main.rs");
        assert_eq!(rank_files(&files, "").len(), 4);
        assert!(rank_files(&files, "zzz").is_empty());
        let foreign = ["docs/Übersicht.md".to_owned(), "docs/界.md".to_owned()];
        assert_eq!(rank_files(&foreign, "üb"), ["docs/Übersicht.md"]);
        assert_eq!(rank_files(&foreign, "d界"), ["docs/界.md"]);
    }

    #[test]
    fn menu_keeps_its_selection_and_can_be_closed() {
        let stream = Terminal::for_test().out;
        let suggestion =
            |text: &str| Suggestion { replacement: text.to_owned(), about: "about".to_owned() };
        let mut menu = CompletionMenu::default();
        menu.show("/m", vec![suggestion("/mode"), suggestion("/model")]);
        menu.select(true);
        assert_eq!(menu.selected().unwrap().replacement, "/model");
        assert_eq!(menu.render(&stream, 80, 9, false)[1], "  › /model           about");
        menu.show("/m", vec![suggestion("/mode"), suggestion("/model")]);
        assert_eq!(menu.selected().unwrap().replacement, "/model");
        menu.close();
        assert!(menu.selected().is_none() && menu.render(&stream, 80, 9, false).is_empty());
        menu.show("/mo", vec![suggestion("/mode")]);
        assert_eq!(menu.selected().unwrap().replacement, "/mode");
        menu.select(false);
        assert_eq!(menu.selected().unwrap().replacement, "/mode");
    }
}
