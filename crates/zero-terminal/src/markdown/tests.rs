//! What Markdown looks like on a terminal.

use super::*;
use crate::Terminal;

fn render(columns: usize, text: &str) -> String {
    let stream = Terminal::for_test().out.with_columns(columns).without_colours();
    let mut markdown = MarkdownStream::new(&stream);
    let mut shown = markdown.push(text);
    shown.push_str(&markdown.finish());
    shown
}

#[track_caller]
fn check(text: &str, expected: &str) {
    assert_eq!(render(40, text), expected, "{text:?}");
}

#[test]
fn blocks_are_laid_out() {
    check("# One\ntext\n\n## Two\n", "# One\n\ntext\n\n## Two\n");
    check("a\nb\n\n\n\nc", "a\nb\n\nc\n");
    check("- a\n- b\n  - c\n- d\n", "• a\n• b\n  • c\n• d\n");
    check("9. a\n10. b\n", "9. a\n10. b\n");
    check("1. a\n\n   more\n\n2. b\n", "1. a\n\n   more\n\n2. b\n");
    check("text:\n- a\n\nend", "text:\n\n• a\n\nend\n");
    check("- [x] a\n- [ ] b\n-\n", "• [x] a\n• [ ] b\n•\n");
    check("> a\n> b\n>\n> - c\n\nd", "│ a\n│ b\n│\n│ • c\n\nd\n");
    check("- a\n\n> b\n", "• a\n\n│ b\n");
    check("|a|\n|-|\n|b|\n\n> c\n", "a\n─\nb\n\n│ c\n");
    check("a\n\n---\n\nb", &format!("a\n\n{}\n\nb\n", "─".repeat(40)));
    check("<b>x</b> &amp; y\n", "<b>x</b> & y\n");
}

#[test]
fn code_keeps_its_lines() {
    check("a\n```sh\nx\n\n  y\n```\nb", "a\n\n  x\n  \n    y\n\nb\n");
    let exact = "x".repeat(38);
    check(&format!("```\n{exact}\n```"), &format!("  {exact}\n"));
    // A line that goes on is marked.
    let (first, rest) = ("x".repeat(36), "y".repeat(10));
    check(&format!("```\n{first}{rest}\n```"), &format!("  {first}\n  ↪ {rest}\n"));
    check(&format!("- a\n\n  ```\n  {first}\n  ```\n"), &format!("• a\n\n    {first}\n"));
    check("- a\n\n  ```\n  b\n  ```\n", "• a\n\n    b\n");
    check("```\nopen", "  open\n");
    check("    indented\n", "  indented\n");
    check("use `a b` here", "use `a b` here\n");
}

#[test]
fn words_wrap_to_window_with_indent() {
    check(
        "- one two three four five six seven eight nine ten\n",
        "• one two three four five six seven\n  eight nine ten\n",
    );
    let columns = |text: &str| text.lines().map(|line| line.chars().count()).max();
    let text = format!("> 1. {}", "word ".repeat(100));
    for width in [24, 40, 100] {
        assert!(columns(&render(width, &text)) <= Some(width), "{width}");
    }
}

#[test]
fn table_fits_window_or_becomes_paragraphs() {
    check(
        "| Name | Size |\n|------|-----:|\n| a | 1 |\n| long `x` | 20 |\n",
        "Name      Size\n────────  ────\na            1\nlong `x`    20\n",
    );
    let wide = format!("|A|B|\n|-|-|\n|{}|{}|\n", "left ".repeat(12), "right ".repeat(12));
    let shown = render(40, &wide);
    assert!(shown.lines().all(|line| line.chars().count() <= 40), "{shown}");
    assert!(shown.lines().count() > 4, "{shown}");
    let long = "long ".repeat(8);
    let many = format!("|A|B|C|\n|-|-|-|\n|{long}|{long}|{long}|\n");
    let shown = render(40, &many);
    assert!(shown.starts_with("A: long long") && shown.contains("\nC: long"), "{shown}");
}

#[test]
fn link_shows_where_it_leads() {
    check("[text](https://a.test)", "text (https://a.test)\n");
    check("<https://a.test>", "https://a.test\n");
    check("[https://good.test](https://a.test)", "https://good.test (https://a.test)\n");
    check("![alt](a.png)", "alt (a.png)\n");
}

#[test]
fn styles_are_used_with_colours() {
    let stream = Terminal::for_test().out.with_columns(40);
    let mut markdown = MarkdownStream::new(&stream);
    let shown = markdown.push("**a** *b* `c` ~~d~~\n\n```diff\n+x\n```\n");
    assert_eq!(
        shown,
        "\x1b[1ma\x1b[0m \x1b[3mb\x1b[0m \x1b[36mc\x1b[0m \x1b[9md\x1b[0m\n\n  \x1b[32m+x\x1b[0m\n"
    );
    assert_eq!(markdown.finish(), "");
}

#[test]
fn marks_within_a_word_stay() {
    for (text, expected) in [
        ("2*3*4 and a*b*c", "2*3*4 and a*b*c\n"),
        ("2**3**4", "2**3**4\n"),
        ("x*y*(*z*)", "x\x1b[3my\x1b[0m(\x1b[3mz\x1b[0m)\n"),
        ("中*文*字", "中\x1b[3m文\x1b[0m字\n"),
    ] {
        let stream = Terminal::for_test().out.with_columns(40);
        let mut markdown = MarkdownStream::new(&stream);
        assert_eq!(markdown.push(text) + &markdown.finish(), expected);
    }
}

#[test]
fn levels_of_headings_differ() {
    let stream = Terminal::for_test().out.with_columns(40);
    let mut markdown = MarkdownStream::new(&stream);
    let shown = markdown.push("# a\n## b\n### c\n");
    let expected = "\x1b[1m\x1b[4ma\x1b[0m\n\n\x1b[1mb\x1b[0m\n\n\x1b[1m\x1b[3mc\x1b[0m\n";
    assert_eq!(shown + &markdown.finish(), expected);
}

#[test]
fn markdown_cannot_control_terminal() {
    for text in [
        "\x1b[2J",
        "&#27;[2J &#x9b;31m &#7;",
        "`\x1b]0;x\x07`",
        "```\n\x1b[2J\n```",
        "```\x1b[2J\nx\n```\n",
        "    \x1b[2J",
        "[a](https://x.test/\x1b[2J)",
        "[a](https://x.test/&#27;[2J)",
        "![\x1b](x)",
        "|\x1b[2J|\n|-|\n|\u{9b}|\n",
        "<b\x1b[2J>",
        "<div>\n\x1b[2J\n</div>\n",
        "# \x1b[2J",
        "- [\x1b](<\x1b>)",
        "a\u{202e}b",
        "\r\x1b\r",
    ] {
        let shown = render(40, text);
        let unsafe_char = |c: char| (c.is_control() && c != '\n') || c == '\u{202e}';
        assert!(!shown.contains(unsafe_char), "{text:?}: {shown:?}");
    }
}

#[test]
fn streamed_pieces_give_same_output_as_whole() {
    let text = "# Head\n\nA paragraph with **bold** words.\n\n- one\n- two\n\n  more\n\n```rust\nfn \
                main() {\n\n}\n```\n\n|a|b|\n|-|-|\n|1|2|\n\n1. x\n2. y\n\nend";
    let whole = render(40, text);
    for size in [1, 2, 3, 7, 50] {
        let stream = Terminal::for_test().out.with_columns(40).without_colours();
        let mut markdown = MarkdownStream::new(&stream);
        let mut shown = String::new();
        let letters: Vec<char> = text.chars().collect();
        for piece in letters.chunks(size) {
            shown.push_str(&markdown.push(&piece.iter().collect::<String>()));
        }
        shown.push_str(&markdown.finish());
        assert_eq!(shown, whole, "{size}");
    }
}

#[test]
fn finished_blocks_are_shown_at_once() {
    let stream = Terminal::for_test().out.with_columns(40).without_colours();
    let mut markdown = MarkdownStream::new(&stream);
    assert_eq!(markdown.push("one\n\n"), "");
    assert!(markdown.has_pending());
    assert_eq!(markdown.push("two"), "one\n");
    assert_eq!(markdown.push("\n```\ncode\nmore"), "\ntwo\n\n  code\n");
    assert_eq!(markdown.push("\n"), "  more\n");
    assert!(!markdown.has_pending());
    assert_eq!(markdown.finish(), "");
}

#[test]
fn endless_block_is_not_kept() {
    let stream = Terminal::for_test().out.with_columns(40).without_colours();
    let mut markdown = MarkdownStream::new(&stream);
    let mut shown = 0;
    for _ in 0..10 {
        shown += markdown.push(&"word ".repeat(2_000)).len();
        assert!(markdown.pending.len() <= PENDING_BYTES_MAX);
    }
    assert!(shown > 60_000);
}

#[test]
fn long_paragraph_in_pieces_is_rendered_seldom() {
    let stream = Terminal::for_test().out.with_columns(40).without_colours();
    let mut markdown = MarkdownStream::new(&stream);
    let (mut renders, mut shown) = (0, String::new());
    for _ in 0..6_000 {
        let before = markdown.rendered_bytes;
        shown.push_str(&markdown.push("word "));
        renders += usize::from(markdown.rendered_bytes != before);
        // What waits is less than two rows.
        assert!(shown.len() + 80 >= markdown.pending.len(), "{}", shown.len());
    }
    assert!(renders <= 30_000 / 20, "{renders}");
    shown.push_str(&markdown.finish());
    assert_eq!(shown.split_whitespace().count(), 6_000);
    // The next paragraph appears row by row again.
    markdown.push("\n\n");
    assert!(!markdown.push("one two three four five six seven eight nine ten ").is_empty());
}

#[test]
fn deeply_nested_text_stays_bounded() {
    for text in [">".repeat(20_000), "- ".repeat(10_000), "[".repeat(20_000), "*a".repeat(10_000)] {
        let shown = render(40, &text);
        assert!(shown.len() < 200_000, "{}", shown.len());
    }
}

#[test]
fn paragraph_appears_line_by_line_and_as_in_one_piece() {
    let coloured = Terminal::for_test().out.with_columns(24);
    let text = "First one two three four **five six** seven `eight nine` ten eleven twelve \
                thirteen and [a link](https://a.test) fourteen.\nA new line of it\n- a list\n\n\
                Last words that are long enough to wrap here.\n";
    for (size, stream) in [1, 3, 7, 1000].map(|size| (size, &coloured)) {
        let mut markdown = MarkdownStream::new(stream);
        let mut whole = markdown.push(text);
        whole.push_str(&markdown.finish());
        let mut markdown = MarkdownStream::new(stream);
        let letters: Vec<char> = text.chars().collect();
        let pieces = letters.chunks(size).map(|piece| piece.iter().collect::<String>());
        let mut shown: String = pieces.map(|piece| markdown.push(&piece)).collect();
        shown.push_str(&markdown.finish());
        assert_eq!(shown, whole, "pieces of {size}");
    }
    let stream = coloured.without_colours();
    let mut markdown = MarkdownStream::new(&stream);
    // The last word and the last line may go on.
    for (piece, shown) in [
        ("One two three four five six", ""),
        (" seven", ""),
        (" eight words", "One two three four five\n"),
        (" extraordinary words", "six seven eight words\n"),
    ] {
        assert_eq!(markdown.push(piece), shown, "{piece}");
    }
    assert_eq!(markdown.finish(), "extraordinary words\n");
}

#[test]
fn layout_sets_bullet_margin_and_whole_code() {
    let layout = MarkdownLayout { bullet: '-', wraps_code: false, margin: 10 };
    let (long, words) = ("x".repeat(60), "one two three four five six seven");
    let text = format!("* {words}\n\n```\n{long}\n```\n\n* a\n\n  ```\n  {long}\n  ```\n");
    let expected =
        format!("- one two three four five six\n  seven\n\n  {long}\n\n- a\n\n    {long}\n");
    let stream = Terminal::for_test().out.with_columns(40).without_colours();
    assert_eq!(render_markdown(&stream, 40, layout, &text), expected);
    let mut markdown = MarkdownStream::new(&stream).with_layout(layout);
    let mut shown = markdown.push(&text);
    shown.push_str(&markdown.finish());
    assert_eq!(shown, expected);
}

#[test]
fn pending_block_is_rendered_without_its_printed_lines() {
    let stream = Terminal::for_test().out.with_columns(24).without_colours();
    let mut markdown = MarkdownStream::new(&stream);
    assert_eq!(markdown.push("one two three four five six seven"), "one two three four five\n");
    assert_eq!(markdown.render_pending(), "six seven\n");
    assert_eq!(markdown.push("\n\n"), "");
    assert_eq!(markdown.push("```\nlet"), "six seven\n\n");
    assert_eq!(markdown.render_pending(), "  let\n");
    assert_eq!(markdown.push(" a\n``"), "  let a\n");
    assert_eq!(markdown.push("`"), "");
    assert_eq!(markdown.render_pending(), "");
}
