//! Images that were pasted into the input. In its text, a mark such as `[clipboard-1.png]` stands for each:
//! it can be moved, removed, queued and recalled like any other word, and what has it when it is sent has the
//! image.

use std::collections::BTreeMap;

use zero_core::event::PromptAttachment;

use crate::chat_host::ClipboardImage;

/// Most bytes of images in base64 that are kept, for prompts that wait or are sent again.
const BYTES_MAX: usize = 64 * 1024 * 1024;
const MARK_START: &str = "[clipboard-";
const MARK_END: &str = "]";

/// The images of a chat.
#[derive(Debug, Default)]
pub(super) struct PastedImages {
    /// By their names.
    images: BTreeMap<u64, PromptAttachment>,
    /// Number of the last one.
    last: u64,
}

/// What the marks of a text stand for.
#[derive(Debug, Default)]
pub(super) struct PastedImagesOfText {
    /// In the order of their marks, each once.
    pub(super) images: Vec<PromptAttachment>,
    /// Marks without an image, as of a draft of an earlier chat.
    pub(super) missing: Vec<String>,
}

impl PastedImages {
    /// Keeps an image; returns its mark. The oldest ones are dropped if there are too many.
    pub(super) fn add(&mut self, image: ClipboardImage) -> String {
        self.last += 1;
        let ending = image.mime.rsplit('/').next().unwrap_or_default();
        let name = format!("clipboard-{}.{ending}", self.last);
        let mark = format!("[{name}]");
        let ClipboardImage { mime, data } = image;
        self.images.insert(self.last, PromptAttachment { mime, name: Some(name), data });
        while self.images.len() > 1
            && self.images.values().map(|image| image.data.len()).sum::<usize>() > BYTES_MAX
        {
            self.images.pop_first();
        }
        mark
    }

    /// The images whose marks a text has.
    pub(super) fn find_in(&self, text: &str) -> PastedImagesOfText {
        let mut found = PastedImagesOfText::default();
        for (at, start) in text.match_indices(MARK_START) {
            let after = text.get(at + start.len()..).unwrap_or_default();
            let Some((name, _)) = after.split_once(MARK_END) else { continue };
            let Some((number, ending)) = name.split_once('.') else { continue };
            let Ok(number) = number.parse::<u64>() else { continue };
            let mark = format!("{start}{number}.{ending}{MARK_END}");
            match self.images.get(&number) {
                Some(image) if found.images.contains(image) => {}
                Some(image) => found.images.push(image.clone()),
                None if found.missing.contains(&mark) => {}
                None => found.missing.push(mark),
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn image(bytes: usize) -> ClipboardImage {
        ClipboardImage { mime: "image/png".to_owned(), data: "A".repeat(bytes) }
    }

    #[track_caller]
    fn check(images: &PastedImages, text: &str, expected: &[&str], missing: &[&str]) {
        let found = images.find_in(text);
        let names: Vec<_> = found.images.iter().filter_map(|it| it.name.as_deref()).collect();
        assert_eq!(
            (names.as_slice(), found.missing.as_slice()),
            (expected, missing_of(missing).as_slice()),
            "{text}"
        );
    }

    fn missing_of(marks: &[&str]) -> Vec<String> {
        marks.iter().map(|&mark| mark.to_owned()).collect()
    }

    #[test]
    fn text_has_the_images_of_its_marks() {
        let mut images = PastedImages::default();
        assert_eq!(images.add(image(4)), "[clipboard-1.png]");
        assert_eq!(images.add(image(8)), "[clipboard-2.png]");
        let (one, two) = ("clipboard-1.png", "clipboard-2.png");
        check(&images, "see [clipboard-2.png] and [clipboard-1.png]", &[two, one], &[]);
        check(&images, "[clipboard-1.png] [clipboard-1.png]", &[one], &[]);
        check(&images, "[clipboard-7.png] x [clipboard-7.png]", &[], &["[clipboard-7.png]"]);
        check(&images, "[clipboard-], [clipboard-x.png], [clipboard-1", &[], &[]);
    }

    #[test]
    fn oldest_images_are_dropped() {
        let mut images = PastedImages::default();
        for _ in 0..3 {
            images.add(image(BYTES_MAX / 2));
        }
        check(&images, "[clipboard-1.png]", &[], &["[clipboard-1.png]"]);
        check(&images, "[clipboard-3.png]", &["clipboard-3.png"], &[]);
    }
}
