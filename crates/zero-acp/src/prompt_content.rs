//! Translates the content blocks of a prompt into the text and attachments of a session prompt.

use std::path::{Path, PathBuf};

use agent_client_protocol::v1::schema::{
    ContentBlock, EmbeddedResourceResource, ImageContent, ResourceLink, TextResourceContents,
};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use zero_core::event::PromptAttachment;
use zero_core::prompt_folder;

use crate::text_sanitizer::{code_block, escape_to_line, visible_line};

/// Most bytes of a prompt's text.
pub(crate) const TEXT_BYTES_MAX: usize = 2 * 1024 * 1024;
/// Most bytes of one image.
pub(crate) const IMAGE_BYTES_MAX: usize = 6 * 1024 * 1024;
/// Most images of one prompt.
pub(crate) const IMAGES_MAX: usize = 20;

/// Media types of images that models accept.
const IMAGE_TYPES: [&str; 4] = ["image/png", "image/jpeg", "image/gif", "image/webp"];
/// Longest command name, in bytes.
const COMMAND_LEN_MAX: usize = 256;
/// Longest part name that an error quotes, in characters.
const NAMED_CHARS_MAX: usize = 80;

/// The content of a prompt.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct PromptContent {
    /// The text.
    pub(crate) text: String,
    /// The embedded images.
    pub(crate) attachments: Vec<PromptAttachment>,
    /// Images given as links. They are read with tools, so that policy applies.
    pub(crate) linked_images: Vec<LinkedImage>,
}

/// The target of a link to an image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum LinkedImage {
    /// A file on this machine.
    File(PathBuf),
    /// An `http:` or `https:` address.
    Web(String),
}

/// Why a prompt is rejected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum PromptError {
    /// The prompt is empty.
    #[error("the prompt is empty; write what you want")]
    Empty,
    /// The prompt is too long.
    #[error(
        "the prompt has {bytes} bytes and at most {bytes_max} can be sent; put the rest into a file and name it"
    )]
    TooLong {
        /// Its length.
        bytes: usize,
        /// The limit.
        bytes_max: usize,
    },
    /// It has a block of a type that zero did not announce.
    #[error("a prompt cannot have {what}")]
    Unsupported {
        /// The type.
        what: &'static str,
    },
    /// The content of a block is invalid.
    #[error("{what}")]
    Invalid {
        /// Which block, and why.
        what: String,
    },
}

/// Translates the blocks of a prompt. `shown_folder` is put before the text; it is omitted before a
/// slash command, which has to come first.
pub(crate) fn translate_blocks(
    blocks: &[ContentBlock],
    shown_folder: Option<&Path>,
) -> Result<PromptContent, PromptError> {
    let mut content = PromptContent::default();
    let mut is_first = true;
    for block in blocks {
        let words = match block {
            ContentBlock::Text(text) => Some(text.text.clone()),
            ContentBlock::ResourceLink(link) => {
                content.linked_images.extend(linked_image(link));
                Some(format_link(link))
            }
            ContentBlock::Resource(embedded) => match &embedded.resource {
                EmbeddedResourceResource::TextResourceContents(text) => {
                    Some(format_embedded_text(text))
                }
                EmbeddedResourceResource::BlobResourceContents(blob) => {
                    let mime = blob.mime_type.as_deref().unwrap_or("no type");
                    if !mime.trim_start().to_ascii_lowercase().starts_with("image/") {
                        let (uri, mime) = (shorten_name(&blob.uri), shorten_name(mime));
                        return invalid(format!(
                            "`{uri}` is embedded as bytes ({mime}); only images can be embedded. Link to the file instead"
                        ));
                    }
                    content.attachments.push(image_attachment(&blob.blob, mime, Some(&blob.uri))?);
                    None
                }
                _ => return Err(PromptError::Unsupported { what: "a resource of this kind" }),
            },
            ContentBlock::Image(ImageContent { data, mime_type, uri, .. }) => {
                content.attachments.push(image_attachment(data, mime_type, uri.as_deref())?);
                None
            }
            ContentBlock::Audio(_) => return Err(PromptError::Unsupported { what: "audio" }),
            _ => return Err(PromptError::Unsupported { what: "a part of this kind" }),
        };
        if let Some(words) = words {
            if !std::mem::take(&mut is_first) {
                content.text.push('\n');
            }
            content.text.push_str(&words);
        }
        check_size(&content.text)?;
        let images = content.attachments.len().saturating_add(content.linked_images.len());
        if images > IMAGES_MAX {
            return invalid(format!(
                "the prompt has more than {IMAGES_MAX} images; send fewer at a time"
            ));
        }
    }
    if content.text.contains('\0') {
        return invalid("the prompt has a NUL character; leave it out".to_owned());
    }
    let has_images = !content.attachments.is_empty() || !content.linked_images.is_empty();
    if content.text.trim().is_empty() && !has_images {
        return Err(PromptError::Empty);
    }
    if let Some(folder) = shown_folder.filter(|_| !is_command(&content.text)) {
        let folder = escape_to_line(&folder.to_string_lossy());
        prompt_folder::add_folder(&mut content.text, &folder);
        check_size(&content.text)?;
    }
    Ok(content)
}

/// A folder as shown in prompts: the home folder becomes `~`, to hide the user's name.
pub(crate) fn abbreviate_home(folder: &Path, home: Option<&Path>) -> PathBuf {
    let home = home.filter(|home| home.parent().is_some());
    match home.and_then(|home| folder.strip_prefix(home).ok()) {
        // Joining an empty path would append a slash.
        Some(inner) if inner.as_os_str().is_empty() => PathBuf::from("~"),
        Some(inner) => Path::new("~").join(inner),
        None => folder.to_owned(),
    }
}

fn check_size(text: &str) -> Result<(), PromptError> {
    match text.len() {
        bytes if bytes > TEXT_BYTES_MAX => {
            Err(PromptError::TooLong { bytes, bytes_max: TEXT_BYTES_MAX })
        }
        _ => Ok(()),
    }
}

/// Whether sessions read the text as a command: a slash and a plain name.
fn is_command(text: &str) -> bool {
    let Some(after) = text.strip_prefix('/') else { return false };
    let name = after.split(char::is_whitespace).next().unwrap_or_default();
    let starts_well = name.starts_with(|c: char| c.is_ascii_alphanumeric());
    let all_allowed = name.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-:".contains(&b));
    starts_well && all_allowed && name.len() <= COMMAND_LEN_MAX
}

fn format_link(link: &ResourceLink) -> String {
    let title = link.title.as_deref().filter(|title| !title.is_empty()).unwrap_or(&link.name);
    let uri = escape_to_line(&link.uri);
    match title.trim() {
        "" => format!("[Resource link] {uri}"),
        title => format!("[Resource link ({})] {uri}", escape_brackets(title)),
    }
}

/// Escapes a name so that it cannot close the brackets around it.
fn escape_brackets(name: &str) -> String {
    let mut safe = String::new();
    for c in escape_to_line(name).chars() {
        if matches!(c, '(' | ')' | '[' | ']') {
            safe.push('\\');
        }
        safe.push(c);
    }
    safe
}

fn format_embedded_text(text: &TextResourceContents) -> String {
    format!("[Resource] {}\n{}", escape_to_line(&text.uri), code_block(&text.text, ""))
}

/// The target of a link to an image, by its media type. Links of other schemes stay text.
fn linked_image(link: &ResourceLink) -> Option<LinkedImage> {
    link.mime_type.as_deref().and_then(image_type)?;
    let (scheme, _) = link.uri.split_once("://")?;
    match scheme.to_ascii_lowercase().as_str() {
        "http" | "https" => Some(LinkedImage::Web(link.uri.clone())),
        _ => file_uri_path(&link.uri).map(LinkedImage::File),
    }
}

/// The path of a `file:` URI on this machine.
fn file_uri_path(uri: &str) -> Option<PathBuf> {
    let (scheme, rest) = uri.split_once("://")?;
    if !scheme.eq_ignore_ascii_case("file") {
        return None;
    }
    let rest = rest.split(['?', '#']).next()?;
    let (host, path) = rest.split_at(rest.find('/')?);
    if !host.is_empty() && !host.eq_ignore_ascii_case("localhost") {
        return None;
    }
    let mut bytes = Vec::with_capacity(path.len());
    let mut left = path.bytes();
    while let Some(byte) = left.next() {
        bytes.push(match byte {
            b'%' => {
                let digits = [left.next()?, left.next()?];
                u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?
            }
            byte => byte,
        });
    }
    let path = String::from_utf8(bytes).ok()?;
    (!path.chars().any(char::is_control)).then(|| PathBuf::from(path))
}

/// The supported image type for a media type.
pub(crate) fn image_type(mime: &str) -> Option<&'static str> {
    let kind = mime.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    let kind = if kind == "image/jpg" { "image/jpeg" } else { kind.as_str() };
    IMAGE_TYPES.into_iter().find(|known| *known == kind)
}

fn image_attachment(
    data: &str,
    mime: &str,
    uri: Option<&str>,
) -> Result<PromptAttachment, PromptError> {
    let Some(mime) = image_type(mime) else {
        let (mime, known) = (shorten_name(mime), IMAGE_TYPES.join(", "));
        return invalid(format!("images of type `{mime}` are not supported; use {known}"));
    };
    // Four base64 characters make three bytes; an image that is too long is rejected before it is
    // decoded.
    let most = IMAGE_BYTES_MAX.div_ceil(3).saturating_mul(4);
    let bytes = if data.len() > most { None } else { Some(STANDARD.decode(data)) };
    match bytes {
        Some(Err(_)) => invalid(format!("the data of an image ({mime}) is not valid base64")),
        Some(Ok(bytes)) if bytes.is_empty() => invalid(format!("an image ({mime}) is empty")),
        Some(Ok(bytes)) if bytes.len() <= IMAGE_BYTES_MAX => {
            let name =
                uri.and_then(|uri| uri.rsplit('/').next()).map(|name| visible_line(name, 255));
            let name = name.filter(|name| !name.is_empty());
            Ok(PromptAttachment { mime: mime.to_owned(), data: data.to_owned(), name })
        }
        _ => {
            let most = IMAGE_BYTES_MAX / 1024 / 1024;
            invalid(format!("an image ({mime}) is larger than {most} MiB; send a smaller one"))
        }
    }
}

fn shorten_name(text: &str) -> String {
    visible_line(text, NAMED_CHARS_MAX)
}

fn invalid<T>(what: String) -> Result<T, PromptError> {
    Err(PromptError::Invalid { what })
}

#[cfg(test)]
mod tests;
