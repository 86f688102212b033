//! Wraps text to the width of the terminal without losing characters.

use super::text_width::text_columns;

/// Smallest wrap width; a narrower terminal wraps by itself. A tab fits into it.
const COLUMNS_MIN: usize = 8;

/// Splits into rows that fit into `room` columns; the rows joined are exactly the text.
pub fn wrap_chars(text: &str, room: usize) -> Vec<String> {
    let room = room.max(COLUMNS_MIN);
    let mut rows = vec![String::new()];
    let mut used = 0;
    for letter in text.chars() {
        let columns = columns_max(letter);
        if used + columns > room {
            rows.push(String::new());
            used = 0;
        }
        used += columns;
        if let Some(row) = rows.last_mut() {
            row.push(letter);
        }
    }
    rows
}

/// Like [`wrap_chars`], but a row ends after a blank where one is in its second half, so that words and
/// the names of hosts stay whole.
pub fn wrap_after_blanks(text: &str, room: usize) -> Vec<String> {
    let room = room.max(COLUMNS_MIN);
    let mut rows = vec![String::new()];
    let mut used = 0;
    // Where the last row can be cut, and the columns before.
    let mut cut: Option<(usize, usize)> = None;
    for letter in text.chars() {
        let columns = columns_max(letter);
        if used + columns > room {
            let row = rows.last_mut().map(std::mem::take).unwrap_or_default();
            let (at, before) = cut.take().unwrap_or((row.len(), used));
            let (row, rest) = row.split_at(at);
            used -= before;
            let rest = rest.to_owned();
            if let Some(last) = rows.last_mut() {
                last.push_str(row);
            }
            rows.push(rest);
        }
        used += columns;
        if let Some(row) = rows.last_mut() {
            row.push(letter);
            if letter == ' ' && used > room / 2 {
                cut = Some((row.len(), used));
            }
        }
    }
    rows
}

/// Most columns that a character takes on any terminal. A row that the terminal itself wraps would
/// go on without a bar in front.
fn columns_max(letter: char) -> usize {
    match letter {
        '\t' => 8,
        letter if letter.is_ascii() => 1,
        _ => 2,
    }
}

/// Splits into rows of at most `room` columns, between words if possible.
pub fn wrap_words(text: &str, room: usize) -> Vec<String> {
    let room = room.max(COLUMNS_MIN);
    let mut rows = Vec::new();
    let mut row = String::new();
    for word in text.split(' ') {
        let fits = text_columns(&row) + 1 + text_columns(word) <= room;
        if !row.is_empty() && !fits {
            rows.push(std::mem::take(&mut row));
        } else if !row.is_empty() {
            row.push(' ');
        }
        row.push_str(word);
        if text_columns(&row) > room {
            let mut parts = wrap_chars(&row, room);
            row = parts.pop().unwrap_or_default();
            rows.append(&mut parts);
        }
    }
    rows.push(row);
    rows
}

/// The words of a line with the spaces after them. A span in backticks, such as a command, is one word
/// if it fits into a row.
fn split_units(line: &str, room: usize) -> Vec<&str> {
    let mut units = Vec::new();
    let mut rest = line;
    while !rest.is_empty() {
        let mut end = 0;
        let mut is_open = false;
        for word in rest.split_inclusive(' ') {
            end += word.len();
            is_open ^= word.matches('`').count() % 2 == 1;
            if !is_open {
                break;
            }
        }
        let fits = |unit: &str| shown_columns(unit.trim_end()) <= room;
        let unit = rest.get(..end).filter(|unit| !is_open && fits(unit));
        let unit = unit.or_else(|| rest.split_inclusive(' ').next()).unwrap_or(rest);
        units.push(unit);
        rest = rest.get(unit.len()..).unwrap_or_default();
    }
    units
}

/// How lines of prose are placed.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ProseIndent {
    /// Columns that are taken before the first line.
    pub(crate) first: usize,
    /// Columns that rows are indented by besides the indent of the line that they continue.
    pub(crate) hanging: usize,
}

/// Wraps each line of a text at words, the rows after the first with the line's own indent. A word
/// that is wider than the room, such as an address, stays whole: broken, it could not be copied.
pub(crate) fn wrap_prose(text: &str, place: ProseIndent, columns: usize) -> String {
    let room = columns.max(COLUMNS_MIN);
    let mut rows: Vec<String> = Vec::new();
    for (at, line) in text.split('\n').enumerate() {
        let indent = line.chars().take_while(|letter| *letter == ' ').count();
        let indent = " ".repeat(indent + place.hanging);
        let mut row = String::new();
        let mut used = if at == 0 { place.first } else { 0 };
        let mut is_empty = true;
        for word in split_units(line, room) {
            let bare = shown_columns(word.trim_end_matches(' '));
            if !is_empty && bare > 0 && used + bare > room {
                rows.push(row.trim_end().to_owned());
                row.clone_from(&indent);
                used = indent.len();
            }
            row.push_str(word);
            used += shown_columns(word);
            is_empty &= bare == 0;
        }
        rows.push(row);
    }
    rows.join("\n")
}

/// Columns of a text with styles, which take none. Untrusted text has no styles of its own: it was
/// escaped.
fn shown_columns(text: &str) -> usize {
    let mut parts = text.split('\x1b');
    let first = parts.next().map_or(0, text_columns);
    let styled = parts.map(|part| part.split_once('m').map_or(0, |(_, shown)| text_columns(shown)));
    first + styled.sum::<usize>()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROOM: usize = 20;

    #[test]
    fn prose_is_wrapped_between_words() {
        let check = |text: &str, first: usize, expected: &str| {
            let place = ProseIndent { first, hanging: 0 };
            assert_eq!(wrap_prose(text, place, 20), expected);
        };
        check("one two three four five six", 0, "one two three four\nfive six");
        check("one two three four five six", 6, "one two three\nfour five six");
        check("a\n  one two three four five", 0, "a\n  one two three four\n  five");
        let long = "x".repeat(45);
        check(&format!("see {long} now"), 0, &format!("see\n{long}\nnow"));
        check(&format!("{long}\n"), 6, &format!("{long}\n"));
        check("", 6, "");
        // What is in backticks can be copied.
        check("please run `zero a b`, then", 0, "please run\n`zero a b`, then");
        check("run `zero a b c d e f g h`", 0, "run `zero a b c d e\nf g h`");
        check("a ` b", 0, "a ` b");
        // Styles take no columns.
        check("\x1b[1mone two\x1b[0m three four", 0, "\x1b[1mone two\x1b[0m three four");
        let place = ProseIndent { first: 0, hanging: 3 };
        let wrapped = wrap_prose(" one two three four five six", place, 20);
        assert_eq!(wrapped, " one two three four\n    five six");
    }

    #[test]
    fn wrapping_preserves_all_text() {
        #[track_caller]
        fn check(text: &str, by_words: &[&str], by_letters: &[&str]) {
            assert_eq!(wrap_words(text, ROOM), by_words);
            assert_eq!(wrap_chars(text, ROOM), by_letters);
            assert_eq!(wrap_chars(text, ROOM).concat(), text);
        }
        check("", &[""], &[""]);
        check("one two", &["one two"], &["one two"]);
        check(
            "one two three four five six",
            &["one two three four", "five six"],
            &["one two three four f", "ive six"],
        );
        let long = "x".repeat(45);
        let (whole, rest) = ("x".repeat(20), "x".repeat(5));
        let rows: &[&str] = &[&whole, &whole, &rest];
        check(&long, rows, rows);
        assert_eq!(wrap_words("界界 界界 界界 界界 x", ROOM), ["界界 界界 界界 界界", "x"]);
    }

    #[test]
    fn rows_that_end_after_blanks_are_exactly_the_text() {
        #[track_caller]
        fn check(text: &str, expected: &[&str]) {
            let rows = wrap_after_blanks(text, ROOM);
            assert_eq!(rows, expected);
            assert_eq!(rows.concat(), text);
        }
        check("", &[""]);
        check("one two three four five six", &["one two three four ", "five six"]);
        check("curl -o /etc/x https://a.test", &["curl -o /etc/x ", "https://a.test"]);
        // A blank in the first half would waste the row.
        check("a bcdefghijklmnopqrstuvwxyz", &["a bcdefghijklmnopqrs", "tuvwxyz"]);
        check("one  two  three   four  five", &["one  two  three   ", "four  five"]);
        check(&" ".repeat(25), &[&" ".repeat(20), &" ".repeat(5)]);
        check("界界界界界 界界界界界 x", &["界界界界界 ", "界界界界界 x"]);
        // What is left after a cut can be cut again.
        check("123456789 123456789 123456789 x", &["123456789 123456789 ", "123456789 x"]);
    }
}
