//! Converts a web page to Markdown ([`read_article`]), in order, with the main part first.
//!
//! The page is read token by token and no tree is built, so deep nesting costs nothing and nothing
//! recurses. A bounded stack of open elements suffices to tell which text is hidden, which is the
//! main part, and which is boilerplate.

mod markdown_writer;

use html5gum::{DefaultEmitter, StartTag, Token, Tokenizer};
use url::Url;
use zero_core::text_shortening::shorten_end;

use self::markdown_writer::{InlineMark, MarkdownWriter, PageRegion};

/// Most Markdown for one page, in bytes. The rest is left out.
const MARKDOWN_BYTES_MAX: usize = super::TEXT_BYTES_MAX;
/// Most open elements that are tracked. Deeper ones count as the last of them.
const OPEN_ELEMENTS_MAX: usize = 128;
/// Smallest content, in bytes, for which boilerplate is left out.
const CONTENT_BYTES_MIN: usize = 200;
/// Longest title, in characters.
const TITLE_CHARS_MAX: usize = 300;

/// The text of a page.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct HtmlArticle {
    /// Title of the page.
    pub(super) title: Option<String>,
    /// The content as Markdown.
    pub(super) markdown: String,
    /// Whether the end was left out because of the size limit.
    pub(super) cut: bool,
}

/// Converts a page with the URL `base`.
pub(super) fn read_article(html: &str, base: &Url) -> HtmlArticle {
    let mut emitter = DefaultEmitter::default();
    emitter.naively_switch_states(true);
    let writer = MarkdownWriter::new(base.clone(), MARKDOWN_BYTES_MAX);
    let mut page = HtmlReader { writer, open: Vec::new(), title: None };
    for Ok(token) in Tokenizer::new_with_emitter(html, emitter) {
        match token {
            Token::StartTag(tag) => page.start_element(&tag),
            Token::EndTag(tag) => page.end_element(&tag.name),
            Token::String(text) => page.add_text(&String::from_utf8_lossy(&text)),
            Token::Comment(_) | Token::Doctype(_) | Token::Error(_) => {}
        }
        if page.writer.is_cut() {
            break;
        }
    }
    page.close_down_to(0);
    let title = page.title.map(|title| title.split_whitespace().collect::<Vec<_>>().join(" "));
    let title = title.filter(|title| !title.is_empty());
    let title = title.map(|title| shorten_end(&title, TITLE_CHARS_MAX));
    let (markdown, is_all) = join_regions(page.writer);
    HtmlArticle { title, markdown, cut: !is_all }
}

/// Returns the text of an HTML fragment without tags.
pub(super) fn to_plain_text(html: &str) -> String {
    let mut words = String::new();
    for Ok(token) in Tokenizer::new(html) {
        if let Token::String(text) = token {
            words.push_str(&String::from_utf8_lossy(&text));
        }
    }
    words
}

/// Joins the main part and the other text of the page; boilerplate only if there is nothing else.
fn join_regions(writer: MarkdownWriter) -> (String, bool) {
    let ([main, body, around], is_all) = writer.finish();
    let says_something = main.len() + body.len() >= CONTENT_BYTES_MIN;
    let parts = [main, body, if says_something { String::new() } else { around }];
    let parts: Vec<&str> =
        parts.iter().map(|part| part.trim_end()).filter(|part| !part.is_empty()).collect();
    (parts.join("\n\n"), is_all)
}

struct HtmlReader {
    writer: MarkdownWriter,
    open: Vec<OpenElement>,
    title: Option<String>,
}

struct OpenElement {
    name: Vec<u8>,
    is_hidden: bool,
    region: PageRegion,
}

impl HtmlReader {
    fn is_hidden(&self) -> bool {
        self.open.last().is_some_and(|open| open.is_hidden)
    }

    fn region(&self) -> PageRegion {
        self.open.last().map_or(PageRegion::Body, |open| open.region)
    }

    fn is_inside(&self, name: &[u8]) -> bool {
        self.open.iter().any(|open| open.name == name)
    }

    fn start_element(&mut self, tag: &StartTag<()>) {
        let name = tag.name.as_slice();
        for inner in implicitly_closes(name) {
            self.close_nearest(inner);
        }
        let is_hidden = self.is_hidden() || is_invisible_element(name) || has_hidden_attribute(tag);
        if !is_hidden {
            self.begin_block(name, tag);
        }
        let stays_open = !(is_void(name) || tag.self_closing && is_foreign(name));
        if stays_open && self.open.len() < OPEN_ELEMENTS_MAX {
            let region = self.region_of(name, tag);
            self.open.push(OpenElement { name: name.to_owned(), is_hidden, region });
            if !is_hidden {
                self.writer.set_region(region);
            }
        }
    }

    fn begin_block(&mut self, name: &[u8], tag: &StartTag<()>) {
        let writer = &mut self.writer;
        match name {
            b"h1" | b"h2" | b"h3" | b"h4" | b"h5" | b"h6" => {
                writer.begin_heading(usize::from(name.get(1).map_or(1, |digit| digit - b'0')));
            }
            b"ul" | b"menu" => writer.begin_list(None),
            b"ol" => {
                let start =
                    attribute_value(tag, b"start").and_then(|start| start.trim().parse().ok());
                writer.begin_list(Some(start.unwrap_or(1)));
            }
            b"li" => writer.begin_item(),
            b"blockquote" => writer.begin_quote(),
            b"pre" => writer.begin_code(code_language(tag)),
            b"code" => {
                writer.set_code_language(code_language(tag));
                writer.begin_mark(InlineMark::Code);
            }
            b"kbd" | b"samp" | b"tt" => writer.begin_mark(InlineMark::Code),
            b"strong" | b"b" => writer.begin_mark(InlineMark::Strong),
            b"em" | b"i" | b"cite" => writer.begin_mark(InlineMark::Emphasis),
            b"del" | b"s" => writer.begin_mark(InlineMark::Strikethrough),
            b"a" => writer.begin_link(&attribute_value(tag, b"href").unwrap_or_default()),
            b"img" => {
                let alt = attribute_value(tag, b"alt").unwrap_or_default();
                writer.add_image(&alt, attribute_value(tag, b"src").as_deref());
            }
            b"br" => writer.add_line_break(),
            b"hr" => writer.add_rule(),
            b"table" => writer.begin_table(),
            b"tr" => writer.begin_row(),
            b"td" | b"th" => writer.begin_cell(),
            b"dd" => {
                writer.end_block();
                writer.add_text(": ");
            }
            _ if is_block(name) => writer.end_block(),
            _ => {}
        }
    }

    fn end_element(&mut self, name: &[u8]) {
        match self.open.iter().rposition(|open| open.name == name) {
            Some(place) => self.close_down_to(place),
            // `</p>` without a start tag is an empty paragraph, and still separates two others.
            None if is_block(name) && !self.is_hidden() => self.writer.end_block(),
            None => {}
        }
    }

    /// Closes the innermost element of that name, unless a list or table is in between.
    fn close_nearest(&mut self, name: &[u8]) {
        let holds_others = |open: &&OpenElement| {
            let boundaries: &[&[u8]] = match name {
                b"li" => &[b"ul", b"ol", b"menu"],
                b"p" | b"dt" | b"dd" => &[b"td", b"th", b"li", b"dl", b"table"],
                _ => &[b"table"],
            };
            boundaries.contains(&open.name.as_slice())
        };
        let wall = self.open.iter().rposition(|open| holds_others(&open));
        let found = self.open.iter().rposition(|open| open.name == name);
        if let Some(place) = found.filter(|place| wall.is_none_or(|wall| wall < *place)) {
            self.close_down_to(place);
        }
    }

    fn close_down_to(&mut self, length: usize) {
        while self.open.len() > length {
            let Some(closed) = self.open.pop() else { return };
            if !closed.is_hidden {
                self.end_block(&closed.name);
            }
            let region = self.region();
            self.writer.set_region(region);
        }
    }

    fn end_block(&mut self, name: &[u8]) {
        let writer = &mut self.writer;
        match name {
            b"h1" | b"h2" | b"h3" | b"h4" | b"h5" | b"h6" => writer.end_heading(),
            b"ul" | b"ol" | b"menu" => writer.end_list(),
            b"li" => writer.end_item(),
            b"blockquote" => writer.end_quote(),
            b"pre" => writer.end_code(),
            b"code" | b"kbd" | b"samp" | b"tt" => writer.end_mark(&InlineMark::Code),
            b"strong" | b"b" => writer.end_mark(&InlineMark::Strong),
            b"em" | b"i" | b"cite" => writer.end_mark(&InlineMark::Emphasis),
            b"del" | b"s" => writer.end_mark(&InlineMark::Strikethrough),
            b"a" => writer.end_mark(&InlineMark::Link(None)),
            b"table" => writer.end_table(),
            b"tr" => writer.end_row(),
            b"td" | b"th" => writer.end_cell(),
            _ if is_block(name) => writer.end_block(),
            _ => {}
        }
    }

    fn add_text(&mut self, text: &str) {
        if self.open.last().is_some_and(|open| open.name == b"title") && !self.is_inside(b"svg") {
            let title = self.title.get_or_insert_default();
            if title.len() < TITLE_CHARS_MAX * 8 {
                title.extend(text.chars().filter(|c| c.is_whitespace() || is_visible_char(*c)));
            }
        }
        if !self.is_hidden() {
            self.writer.add_text(text);
        }
    }

    fn region_of(&self, name: &[u8], tag: &StartTag<()>) -> PageRegion {
        let role = attribute_value(tag, b"role").unwrap_or_default();
        let is_main = matches!(name, b"main" | b"article") || role == "main";
        let is_around = matches!(name, b"nav" | b"footer" | b"aside")
            || matches!(role.as_str(), "navigation" | "contentinfo" | "complementary" | "banner");
        match self.region() {
            PageRegion::Boilerplate => PageRegion::Boilerplate,
            _ if is_around => PageRegion::Boilerplate,
            PageRegion::Main => PageRegion::Main,
            _ if is_main => PageRegion::Main,
            // In the main part it is the header of an article, outside that of the site.
            PageRegion::Body if name == b"header" => PageRegion::Boilerplate,
            PageRegion::Body => PageRegion::Body,
        }
    }
}

/// Returns the elements that a start tag of `name` closes.
fn implicitly_closes(name: &[u8]) -> &'static [&'static [u8]] {
    match name {
        b"li" => &[b"p", b"li"],
        b"dt" | b"dd" => &[b"p", b"dt", b"dd"],
        b"td" | b"th" => &[b"td", b"th"],
        b"tr" => &[b"td", b"th", b"tr"],
        b"tbody" | b"thead" | b"tfoot" => &[b"td", b"th", b"tr"],
        b"a" => &[b"a"],
        b"body" => &[b"head", b"title"],
        _ if is_block(name) => &[b"p"],
        _ => &[],
    }
}

/// Returns whether browsers do not show the content of an element as text.
fn is_invisible_element(name: &[u8]) -> bool {
    matches!(
        name,
        b"head"
            | b"title"
            | b"script"
            | b"style"
            | b"template"
            | b"noscript"
            | b"svg"
            | b"math"
            | b"iframe"
            | b"object"
            | b"canvas"
            | b"audio"
            | b"video"
            | b"select"
            | b"textarea"
            | b"button"
            | b"dialog"
            | b"noembed"
            | b"noframes"
            | b"datalist"
    )
}

/// Returns whether the page hides an element. Users do not see it, so it is not part of the text.
fn has_hidden_attribute(tag: &StartTag<()>) -> bool {
    let style =
        attribute_value(tag, b"style").unwrap_or_default().to_ascii_lowercase().replace(' ', "");
    tag.attributes.contains_key(b"hidden".as_slice())
        || attribute_value(tag, b"aria-hidden").is_some_and(|value| value == "true")
        || ["display:none", "visibility:hidden"].iter().any(|hides| style.contains(hides))
}

fn is_void(name: &[u8]) -> bool {
    matches!(
        name,
        b"area"
            | b"base"
            | b"br"
            | b"col"
            | b"embed"
            | b"hr"
            | b"img"
            | b"input"
            | b"link"
            | b"meta"
            | b"param"
            | b"source"
            | b"track"
            | b"wbr"
    )
}

/// Returns whether a slash at the end of the start tag closes the element.
fn is_foreign(name: &[u8]) -> bool {
    matches!(name, b"svg" | b"math" | b"path" | b"g" | b"use" | b"circle" | b"rect")
}

fn is_block(name: &[u8]) -> bool {
    matches!(
        name,
        b"address"
            | b"article"
            | b"aside"
            | b"body"
            | b"center"
            | b"dd"
            | b"details"
            | b"div"
            | b"dl"
            | b"dt"
            | b"fieldset"
            | b"figcaption"
            | b"figure"
            | b"footer"
            | b"form"
            | b"h1"
            | b"h2"
            | b"h3"
            | b"h4"
            | b"h5"
            | b"h6"
            | b"header"
            | b"hr"
            | b"html"
            | b"legend"
            | b"main"
            | b"nav"
            | b"ol"
            | b"p"
            | b"pre"
            | b"section"
            | b"summary"
            | b"table"
            | b"ul"
            | b"menu"
            | b"blockquote"
            | b"caption"
    )
}

fn attribute_value(tag: &StartTag<()>, name: &[u8]) -> Option<String> {
    tag.attributes.get(name).map(|value| String::from_utf8_lossy(value).into_owned())
}

/// Returns the language of a code block, as named by its class.
fn code_language(tag: &StartTag<()>) -> Option<String> {
    let classes = attribute_value(tag, b"class")?;
    let mut named = classes.split_whitespace().filter_map(|class| {
        class.strip_prefix("language-").or_else(|| class.strip_prefix("lang-"))
    });
    let fits = |name: &&str| {
        name.len() <= 24 && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"+#-_".contains(&b))
    };
    named.find(fits).map(str::to_owned)
}

/// Returns whether a character is visible; others can hide or reverse text.
fn is_visible_char(c: char) -> bool {
    zero_core::sanitize::is_safe_in_prose(c)
}

#[cfg(test)]
mod tests;
