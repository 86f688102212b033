//! Wraps text to the width of the terminal without losing characters.

/// Smallest wrap width; a narrower terminal wraps by itself.
const COLUMNS_MIN: usize = 20;

/// Splits into rows that fit into `room` columns; the rows joined are exactly the text.
pub(crate) fn wrap_chars(text: &str, room: usize) -> Vec<String> {
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

/// Most columns that a character takes on any terminal. A row that the terminal itself wraps would
/// go on without a bar in front.
fn columns_max(letter: char) -> usize {
    match letter {
        '\t' => 8,
        letter if letter.is_ascii() => 1,
        _ => 2,
    }
}

/// Splits into rows of at most `room` characters, between words if possible.
pub(crate) fn wrap_words(text: &str, room: usize) -> Vec<String> {
    let room = room.max(COLUMNS_MIN);
    let mut rows = Vec::new();
    let mut row = String::new();
    for word in text.split(' ') {
        let used = row.chars().count();
        let fits = used + 1 + word.chars().count() <= room;
        if !row.is_empty() && !fits {
            rows.push(std::mem::take(&mut row));
        } else if !row.is_empty() {
            row.push(' ');
        }
        row.push_str(word);
        if row.chars().count() > room {
            let mut parts = wrap_chars(&row, room);
            row = parts.pop().unwrap_or_default();
            rows.append(&mut parts);
        }
    }
    rows.push(row);
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrapping_preserves_all_text() {
        #[track_caller]
        fn check(text: &str, by_words: &[&str], by_letters: &[&str]) {
            assert_eq!(wrap_words(text, COLUMNS_MIN), by_words);
            assert_eq!(wrap_chars(text, COLUMNS_MIN), by_letters);
            assert_eq!(wrap_chars(text, COLUMNS_MIN).concat(), text);
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
    }
}
