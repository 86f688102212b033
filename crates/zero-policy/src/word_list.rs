//! Word lists that are written as one text and split at compile time.

/// Creates a list of the words of a text, which are separated by one space.
macro_rules! words {
    ($text:expr) => {{
        const COUNT: usize = $crate::word_list::count_words($text);
        const WORDS: &[&str] = &$crate::word_list::split_words::<COUNT>($text);
        WORDS
    }};
}
pub(crate) use words;

/// The number of words of a text.
pub(crate) const fn count_words(text: &str) -> usize {
    let (mut at, mut count) = (0, !text.is_empty() as usize);
    while at < text.len() {
        count += (text.as_bytes()[at] == b' ') as usize;
        at += 1;
    }
    count
}

/// The words of a text, in order.
pub(crate) const fn split_words<const COUNT: usize>(text: &'static str) -> [&'static str; COUNT] {
    let mut words = [""; COUNT];
    let (mut from, mut count) = (0, 0);
    while count < COUNT {
        let mut end = from;
        while end < text.len() && text.as_bytes()[end] != b' ' {
            end += 1;
        }
        words[count] = text.split_at(end).0.split_at(from).1;
        count += 1;
        from = end + 1;
    }
    words
}

#[cfg(test)]
mod tests {
    #[test]
    fn words_of_text_keep_their_order() {
        assert_eq!(words!(""), [""; 0]);
        assert_eq!(words!("one two a"), ["one", "two", "a"]);
    }
}
