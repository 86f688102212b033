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
    let mut ranked: Vec<(i64, &str)> = files
        .iter()
        .filter_map(|file| score_path(file, &typed).map(|score| (score, file.as_str())))
        .collect();
    let by_score = |a: &(i64, &str), b: &(i64, &str)| {
        b.0.cmp(&a.0).then(a.1.len().cmp(&b.1.len())).then(a.1.cmp(b.1))
    };
    if ranked.len() > MATCHES_MAX {
        ranked.select_nth_unstable_by(MATCHES_MAX, by_score);
        ranked.truncate(MATCHES_MAX);
    }
    ranked.sort_unstable_by(by_score);
    ranked.into_iter().map(|(_, file)| file).collect()
}

/// How well a path fits: its letters contain the typed ones in order. Runs of letters, starts of
/// words and letters of the file's name count more. `None` if it does not fit.
fn score_path(path: &str, typed: &[char]) -> Option<i64> {
    let name_start = path.rfind('/').map_or(0, |at| at + 1);
    // The letters of the name are tried first: people type the end of a path.
    let score_from = |start: usize| {
        let (mut wanted, mut score, mut run) = (typed.iter().peekable(), 0_i64, 0_i64);
        let mut before = '/';
        for (at, letter) in path.char_indices().skip_while(|(at, _)| *at < start) {
            let Some(&&next) = wanted.peek() else { break };
            if letter.to_lowercase().next() == Some(next) {
                wanted.next();
                run += 1;
                let is_start = matches!(before, '/' | '_' | '-' | '.' | ' ')
                    || (before.is_lowercase() && letter.is_uppercase());
                score += run + if is_start { 8 } else { 0 } + if at >= name_start { 2 } else { 0 };
            } else {
                run = 0;
            }
            before = letter;
        }
        wanted.peek().is_none().then_some(score)
    };
    score_from(name_start).map(|score| score + 4).or_else(|| score_from(0))
}

#[cfg(test)]
mod tests {
    use zero_terminal::Terminal;

    use super::*;

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
