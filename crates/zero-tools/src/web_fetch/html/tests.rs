//! Conversion of ordinary and of malformed pages.

use super::*;

fn read_test_article(html: &str) -> HtmlArticle {
    read_article(html, &Url::parse("https://a.test/docs/page").unwrap())
}

#[track_caller]
fn check(html: &str, expected: &str) {
    assert_eq!(read_test_article(html).markdown, expected, "{html}");
}

#[test]
fn html_blocks_become_markdown_blocks() {
    check("<h1>A</h1><p>b\n c</p><p>d", "# A\n\nb c\n\nd");
    check("<h2>A <em>b</em></h2>x", "## A *b*\n\nx");
    check("a<br>b<hr>c", "a\nb\n\n---\n\nc");
    check("<ul><li>a<li>b<ol><li>c</ol></ul>d", "- a\n- b\n  1. c\n\nd");
    check("<ol start=3><li><p>a</p><p>b</p></li><li>c</li></ol>", "3. a\n  b\n4. c");
    check("<blockquote>a<p>b</blockquote>c", "> a\n\n> b\n\nc");
    check("<div>a<div>b</div>c</div>", "a\n\nb\n\nc");
    check("<dl><dt>a<dd>b</dl>", "a\n\n: b");
}

#[test]
fn code_blocks_are_preserved() {
    check(
        "<pre><code class=\"x language-rust\">fn a() {\n    b\n}\n</code></pre>",
        "```rust\nfn a() {\n    b\n}\n```",
    );
    check("<pre>a\n```\nb</pre>", "````\na\n```\nb\n````");
    check("x <code>a &lt; b</code>.", "x `a < b`.");
    check("<code>a`b</code>", "`` a`b ``");
}

#[test]
fn inline_marks_and_links_wrap_words() {
    check("a<b> b </b>c <i></i>d", "a **b** c d");
    check("<a href=\"../x?y=1\">go <b>there</b></a>!", "[go **there**](https://a.test/x?y=1)!");
    check("<a href=\"#top\">up</a> <a href=\"javascript:x()\">run</a>", "up run");
    check("<a href=/x><h3>Card</h3></a>", "### [Card](https://a.test/x)");
    check("<img src=a.png alt=\"a cat\"><img src=b.png>", "![a cat](https://a.test/docs/a.png)");
    check("<p><b>open<p>next", "**open**\n\nnext");
}

#[test]
fn data_tables_stay_tables() {
    check(
        "<table><tr><th>a<th>b<tr><td>1|2<td><p>x</p><p>y</p></table>",
        "| a | b |\n| --- | --- |\n| 1\\|2 | x y |",
    );
    check("<table><tr><td>one</table>", "one");
    check(
        "<table><tr><td>left<td><table><tr><td>a<td>b<tr><td>c<td>d</table></table>end",
        "left\n\n| a | b |\n| --- | --- |\n| c | d |\n\nend",
    );
}

#[test]
fn main_region_comes_first_and_boilerplate_is_dropped() {
    let long = "word ".repeat(60);
    let html = format!(
        "<title>The  T</title><header>site</header><nav><a href=/>Home</a></nav>\
         <div>banner</div><main><h1>T</h1><p>{long}</p></main><footer>c</footer>"
    );
    let article = read_test_article(&html);
    assert_eq!(article.title.as_deref(), Some("The T"));
    assert_eq!(article.markdown, format!("# T\n\n{}\n\nbanner", long.trim()));
    // If there is nothing else, boilerplate is the content.
    check("<nav>only this</nav>", "only this");
    check("<article><header>head</header>a</article>", "head\n\na");
}

#[test]
fn invisible_text_is_omitted() {
    check("<script>a<b</script><style>p{}</style>x<noscript>n</noscript>", "x");
    check("<p hidden>a</p><p aria-hidden=true>b</p><p style=\"Display: none\">c</p>d", "d");
    check("<svg><title>t</title><text>x</text></svg>a<svg/>b", "ab");
    check("a\u{200b}b\u{202e}c\u{e0041}d", "abcd");
    check("<div hidden><div>a</div>b</div>c", "c");
    check("<select><option>a</select><textarea>b</textarea>c", "c");
}

#[test]
fn malformed_and_deep_html_is_cheap() {
    check("</p></div>a</b><p>b</table></ul>c", "a\n\nb\n\nc");
    check("a < b & c &amp; d &#x41;", "a < b & c & d A");
    let deep = format!("{}x{}", "<div>".repeat(100_000), "</div>".repeat(100_000));
    check(&deep, "x");
    let lists = format!("{}x", "<ul><li>".repeat(50_000));
    assert!(read_test_article(&lists).markdown.ends_with("x"));
    let quotes = read_test_article(&format!("{}x", "<blockquote>".repeat(50_000))).markdown;
    assert!(quotes.ends_with("x") && quotes.len() < 100, "{}", quotes.len());
    let marks = read_test_article(&format!("{}x", "<b><i>".repeat(50_000))).markdown;
    assert!(marks.contains('x') && marks.len() < 200, "{marks}");
}

#[test]
fn markdown_size_is_bounded() {
    let base = Url::parse(&format!("https://a.test/{}/", "x".repeat(400))).unwrap();
    let article = read_article(&"<a href=y>z</a>".repeat(100_000), &base);
    assert!(article.cut);
    assert!(article.markdown.len() < MARKDOWN_BYTES_MAX + 2_000, "{}", article.markdown.len());
    let (deep, long) = ("<blockquote><ul><li>".repeat(12), "y".repeat(5 << 20));
    for html in [
        // One word, one cell, and code with only line breaks.
        long.clone(),
        format!("<table><tr><td>a<td>{long}<tr><td>b<td>c</table>"),
        format!("{deep}<pre>{}</pre>", "z\n".repeat(1 << 20)),
        // Empty cells, and many filled ones.
        format!("{deep}<table><tr>{}{}</table>", "<td>".repeat(64), "<tr><td>a<td>".repeat(19_000)),
        format!("<table>{}</table>", format!("<tr><td>{}", "w".repeat(400)).repeat(15_000)),
        format!("<table>{}", "<tr><td>v".repeat(500_000)),
        format!("<img alt=\"{}\">", "u ".repeat(2 << 20)).repeat(2),
    ] {
        let article = read_article(&html, &base);
        let length = article.markdown.len();
        assert!(length < MARKDOWN_BYTES_MAX + 2_000, "{}: {length}", &html[..60]);
        assert!(article.cut || length < MARKDOWN_BYTES_MAX, "{}", &html[..60]);
    }
}

#[test]
fn link_around_blocks_is_written_once() {
    let href = format!("http://[{}", "x/".repeat(240));
    let inner = read_test_article(&format!("<a href=\"y\">{}", "<p>z".repeat(3)));
    assert_eq!(inner.markdown, "[z](https://a.test/docs/y)\n\n".repeat(3).trim_end());
    let mut writer = MarkdownWriter::new(Url::parse("https://a.test/").unwrap(), 1 << 20);
    writer.begin_link(&href);
    writer.begin_link("/y");
    let marks = writer.marks();
    assert_eq!(
        marks,
        [InlineMark::Link(None), InlineMark::Link(Some("https://a.test/y".to_owned()))]
    );
}

proptest::proptest! {
    #[test]
    fn no_page_stops_it(html in "(<[/!]?[a-z0-6]{0,10}( [a-z]{1,6}=\"?[a-z:;#]{0,9}\"?)?/?>|[a-z &;\n`|*]{0,8}){0,60}") {
        let article = read_test_article(&html);
        proptest::prop_assert!(article.markdown.len() <= html.len() * 40 + 4_000);
    }
}
