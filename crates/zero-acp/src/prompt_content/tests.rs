//! Tests for the translation of prompt blocks.

use agent_client_protocol::v1::schema::ContentBlock;
use serde_json::{Value, json};

use super::*;

fn parse_blocks(blocks: Value) -> Vec<ContentBlock> {
    serde_json::from_value(blocks).unwrap()
}

/// Compares the translated text, or the error, of some blocks.
#[track_caller]
fn check(parts: Value, folder: Option<&str>, expected: &str) {
    let content = translate_blocks(&parse_blocks(parts), folder.map(Path::new));
    let rendered = content.map_or_else(|error| format!("! {error}"), |content| content.text);
    assert_eq!(rendered, expected);
}

fn text(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

fn link(fields: Value) -> Value {
    let mut link = json!({"type": "resource_link", "uri": "file:///w/a.rs", "name": "a.rs"});
    link.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    link
}

#[test]
fn text_blocks_keep_order() {
    check(json!([text("a"), text("b")]), None, "a\nb");
    check(
        json!([text("look at"), link(json!({})), text("please")]),
        None,
        "look at\n[Resource link (a.rs)] file:///w/a.rs\nplease",
    );
    check(
        json!([link(json!({"title": "x)] rm\n[", "uri": "file:///a\u{1b}\nb"}))]),
        None,
        "[Resource link (x\\)\\] rm\\n\\[)] file:///a\\u{1b}\\nb",
    );
    check(json!([link(json!({"name": ""}))]), None, "[Resource link] file:///w/a.rs");
    let resource = |text: &str| json!({"type": "resource", "resource": {"uri": "file:///w/a.rs", "text": text}});
    check(json!([resource("let a;")]), None, "[Resource] file:///w/a.rs\n```\nlet a;\n```");
    check(json!([resource("```\n")]), None, "[Resource] file:///w/a.rs\n````\n```\n````");
}

#[test]
fn folder_precedes_prompt_but_not_command() {
    let folder = Some("~/project");
    check(json!([text("hi")]), folder, "[Working directory: ~/project]\n\nhi");
    check(json!([text("hi")]), Some("/a\nb"), "[Working directory: /a\\nb]\n\nhi");
    check(json!([text("/mode plan")]), folder, "/mode plan");
    check(json!([text("/project:x")]), folder, "/project:x");
    for no_command in ["/etc/passwd is bad", " /mode", "/", "/-x"] {
        let expected = format!("[Working directory: ~/project]\n\n{no_command}");
        check(json!([text(no_command)]), folder, &expected);
    }
}

#[test]
fn home_is_abbreviated_as_tilde() {
    #[track_caller]
    fn check(folder: &str, home: Option<&str>, expected: &str) {
        assert_eq!(abbreviate_home(Path::new(folder), home.map(Path::new)), Path::new(expected));
        let content = abbreviate_home(Path::new(folder), home.map(Path::new));
        assert_eq!(content.to_str().unwrap(), expected);
    }
    check("/home/me/p", Some("/home/me"), "~/p");
    check("/home/me", Some("/home/me"), "~");
    check("/home/meme", Some("/home/me"), "/home/meme");
    check("/w", Some("/"), "/w");
    check("/w", None, "/w");
}

#[test]
fn empty_or_unsupported_prompt_is_refused() {
    let empty = "! the prompt is empty; write what you want";
    check(json!([]), None, empty);
    check(json!([text(" \n")]), Some("/w"), empty);
    check(json!([text("a\0b")]), None, "! the prompt has a NUL character; leave it out");
    let audio = json!({"type": "audio", "data": "", "mimeType": "audio/wav"});
    check(json!([text("a"), audio]), None, "! a prompt cannot have audio");
    let blob = |mime: Value| json!({"type": "resource", "resource": {"uri": "file:///a.pdf", "blob": "AAAA", "mimeType": mime}});
    check(
        json!([blob(json!("application/pdf"))]),
        None,
        "! `file:///a.pdf` is embedded as bytes (application/pdf); only images can be embedded. Link to the file instead",
    );
    check(
        json!([blob(Value::Null)]),
        None,
        "! `file:///a.pdf` is embedded as bytes (no type); only images can be embedded. Link to the file instead",
    );
}

#[test]
fn size_limit_includes_folder_prefix() {
    let size = |text: &str, folder: Option<&str>| {
        let block = ContentBlock::from(text.to_owned());
        translate_blocks(&[block], folder.map(Path::new)).map(|content| content.text.len())
    };
    let full = "a".repeat(TEXT_BYTES_MAX);
    assert_eq!(size(&full, None), Ok(TEXT_BYTES_MAX));
    let too_long = |bytes| Err(PromptError::TooLong { bytes, bytes_max: TEXT_BYTES_MAX });
    assert_eq!(size(&format!("{full}a"), None), too_long(TEXT_BYTES_MAX + 1));
    assert_eq!(size(&full, Some("/w")), too_long(TEXT_BYTES_MAX + 25));
    // Translation stops as soon as the limit is exceeded.
    let many = vec![ContentBlock::from(full); 3];
    assert_eq!(
        translate_blocks(&many, None),
        too_long(TEXT_BYTES_MAX * 2 + 1).map(|_: usize| PromptContent::default())
    );
}

#[track_caller]
fn check_images(parts: Value, attachments: &[(&str, Option<&str>)], linked_images: &[&str]) {
    let content = translate_blocks(&parse_blocks(parts), None).unwrap();
    let attached: Vec<_> =
        content.attachments.iter().map(|it| (it.mime.as_str(), it.name.as_deref())).collect();
    assert_eq!(attached, attachments);
    let target = |uri: &&str| match uri.starts_with('/') {
        true => LinkedImage::File(PathBuf::from(uri)),
        false => LinkedImage::Web((*uri).to_owned()),
    };
    assert_eq!(content.linked_images, linked_images.iter().map(target).collect::<Vec<_>>());
}

fn image(mime: &str, data: &str, uri: Option<&str>) -> Value {
    json!({"type": "image", "mimeType": mime, "data": data, "uri": uri})
}

#[test]
fn images_are_attached_or_listed_by_target() {
    check_images(
        json!([
            image("image/png", "AAAA", Some("file:///w/a.png")),
            image("Image/JPG", "AAAA", None)
        ]),
        &[("image/png", Some("a.png")), ("image/jpeg", None)],
        &[],
    );
    let blob = json!({"type": "resource", "resource": {"uri": "x://a.gif", "blob": "AAAA", "mimeType": "image/gif"}});
    check_images(json!([blob]), &[("image/gif", Some("a.gif"))], &[]);
    let linked = |uri: &str, mime: &str| link(json!({"uri": uri, "mimeType": mime}));
    check_images(
        json!([
            linked("file:///w/a%20b.png", "image/png"),
            linked("file://localhost/w/b.webp", "image/webp; q=1"),
            linked("file://elsewhere/w/c.png", "image/png"),
            linked("https://example.org/d.png", "image/png"),
            linked("HTTP://example.org/d", "image/jpeg"),
            linked("https://example.org/page", "text/html"),
            linked("ftp://example.org/d.png", "image/png"),
            linked("data:image/png;base64,AAAA", "image/png"),
            linked("file:///w/e.svg", "image/svg+xml"),
            linked("file:///w/f.rs", "text/plain"),
            linked("file:///w/g%0", "image/png"),
            linked("file:///w/h%0A.png", "image/png"),
            linked("file:///w/i.png#top", "image/png"),
        ]),
        &[],
        &[
            "/w/a b.png",
            "/w/b.webp",
            "https://example.org/d.png",
            "HTTP://example.org/d",
            "/w/i.png",
        ],
    );
    // The link stays in the text.
    check(
        json!([linked("file:///w/a.png", "image/png")]),
        None,
        "[Resource link (a.rs)] file:///w/a.png",
    );
}

#[test]
fn invalid_images_are_refused() {
    let check = |parts: Value, expected: &str| check(parts, None, expected);
    check(
        json!([image("image/tiff", "AAAA", None)]),
        "! images of type `image/tiff` are not supported; use image/png, image/jpeg, image/gif, image/webp",
    );
    check(
        json!([image("image/png", "not base64", None)]),
        "! the data of an image (image/png) is not valid base64",
    );
    check(json!([image("image/png", "", None)]), "! an image (image/png) is empty");
    let large = STANDARD.encode(vec![0; IMAGE_BYTES_MAX]);
    check(json!([image("image/png", &large, None)]), "");
    let larger = STANDARD.encode(vec![0; IMAGE_BYTES_MAX + 1]);
    let too_large = "! an image (image/png) is larger than 6 MiB; send a smaller one";
    check(json!([image("image/png", &larger, None)]), too_large);
    check(json!([image("image/png", &larger.repeat(2), None)]), too_large);
    let some = |count| Value::from(vec![image("image/png", "AAAA", None); count]);
    check(some(IMAGES_MAX), "");
    let too_many = "! the prompt has more than 20 images; send fewer at a time";
    check(some(IMAGES_MAX + 1), too_many);
}
