//! One note: its name, its text and its origin.
//!
//! The file begins with a few lines between `---` that say when and by whom the note was saved; the
//! text follows. A file without them was written by the user. The lines are trusted only if zero
//! wrote them on this machine and nothing changed since, which the [`NoteSeal`] proves: any program
//! can write such lines.

use std::fmt;

use jiff::Timestamp;
use zero_core::SessionId;
use zero_core::text_shortening::shorten_end;
use zero_sandbox::journal::sha256;

use super::NoteScope;
use super::note_seal::NoteSeal;

/// Longest name, in characters.
pub const NAME_CHARS_MAX: usize = 64;
/// Most words of a text that become a name.
const NAME_WORDS_MAX: usize = 6;
/// Digits of the text's hash that end a name which does not have all of its words.
const NAME_HASH_CHARS: usize = 6;
const FENCE: &str = "---";
const SEAL: &str = "seal";
/// Most lines between the fences that are read.
const HEAD_LINES_MAX: usize = 20;
/// Longest value in them, in characters.
const VALUE_CHARS_MAX: usize = 200;

/// Name of a note: at most 64 lower-case letters, digits and `-`, the first of which is not `-`, so
/// that it is a valid file name everywhere, is no option and cannot leave the folder.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct NoteName(String);

/// A text that is not a valid note name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "a note's name has 1 to {NAME_CHARS_MAX} lower-case letters, digits and `-`, and does not begin with `-`, such as `build-command`"
)]
pub struct InvalidNoteName;

impl NoteName {
    /// Validates a name.
    pub fn new(name: &str) -> Result<Self, InvalidNoteName> {
        let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        let is_name = !name.starts_with('-')
            && (1..=NAME_CHARS_MAX).contains(&name.len())
            && name.chars().all(fits);
        if is_name { Ok(Self(name.to_owned())) } else { Err(InvalidNoteName) }
    }

    /// A name made of the first words of a text. If it leaves out letters or words, it ends with a
    /// part of the text's hash: a note must not replace another one that only begins alike.
    pub fn from_text(text: &str) -> Self {
        let mut name = String::new();
        let is_part = |c: char| !c.is_alphanumeric();
        let mut words = text.split(is_part).filter(|word| !word.is_empty()).peekable();
        let room = NAME_CHARS_MAX - NAME_HASH_CHARS - 1;
        for _ in 0..NAME_WORDS_MAX {
            let fits = |word: &&str| word.is_ascii() && name.len() + word.len() < room;
            let Some(word) = words.next_if(fits) else { break };
            if !name.is_empty() {
                name.push('-');
            }
            name.push_str(&word.to_ascii_lowercase());
        }
        if words.next().is_some() || name.is_empty() {
            let start = if name.is_empty() { "note" } else { &name };
            let hash: String = sha256(text.as_bytes()).chars().take(NAME_HASH_CHARS).collect();
            name = format!("{start}-{hash}");
        }
        Self(name)
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for NoteName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The origin of a note.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NoteProvenance {
    /// When it was saved; unknown for a file that zero did not write.
    pub saved: Option<Timestamp>,
    /// By whom: `agent` or `person`.
    pub by: Option<String>,
    /// In which session.
    pub session: Option<String>,
    /// When the user last changed a note that someone else saved.
    pub edited: Option<Timestamp>,
    /// Whether the seal proves these facts; otherwise they are only claims of the file.
    pub is_confirmed: bool,
}

impl NoteProvenance {
    /// Saved by an agent, now.
    pub fn from_agent(session: Option<String>) -> Self {
        Self { session, ..Self::saved_now("agent") }
    }

    /// Saved by the user, now.
    pub fn from_user() -> Self {
        Self::saved_now("person")
    }

    fn saved_now(by: &str) -> Self {
        let (saved, by) = (Some(Timestamp::now()), Some(by.to_owned()));
        Self { saved, by, session: None, edited: None, is_confirmed: true }
    }

    /// The origin after the user edited the note, now. The original author stays, unless it is
    /// unknown.
    pub fn with_user_edit(self) -> Self {
        match self.is_confirmed {
            true => Self { edited: Some(Timestamp::now()), ..self },
            false => Self::from_user(),
        }
    }
}

impl fmt::Display for NoteProvenance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let day = |time: Timestamp| time.strftime("%Y-%m-%d").to_string();
        let by = self.by.as_ref().map(|by| format!("by {by}"));
        let session = self.session.as_ref().map(|session| format!("in session {session}"));
        let origin: Vec<String> = by.into_iter().chain(session).collect();
        let origin = Some(origin.join(" ")).filter(|origin| !origin.is_empty());
        let edited = self.edited.map(|edited| format!("edited by person, {}", day(edited)));
        let claims: Vec<String> =
            origin.into_iter().chain(self.saved.map(day)).chain(edited).collect();
        let claims = claims.join(", ");
        match (self.is_confirmed, claims.is_empty()) {
            (true, false) => f.write_str(&claims),
            // Nothing of it is verified.
            (false, false) => {
                write!(f, "unverified; the file says: {claims}")
            }
            (_, true) => f.write_str("by a file of unknown origin"),
        }
    }
}

/// A note, as read from its file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// Its owner.
    pub scope: NoteScope,
    /// Its name, unique within the scope; also its file name.
    pub name: NoteName,
    /// Its text.
    pub text: String,
    /// Its origin.
    pub provenance: NoteProvenance,
}

impl Note {
    /// Parses a file. Without a seal, its origin is not verified.
    pub(super) fn parse(
        scope: NoteScope,
        name: NoteName,
        file: &str,
        seal: Option<&NoteSeal>,
    ) -> Self {
        let file = file.strip_prefix('\u{feff}').unwrap_or(file);
        let (head, text) = split_header(file).unwrap_or((NoteHeader::default(), file));
        // Line endings of another system do not change the note.
        let text = text.trim().replace("\r\n", "\n");
        let mut note = Self { scope, name, text, provenance: head.provenance };
        note.provenance.is_confirmed = match (seal, head.seal) {
            (Some(seal), Some(found)) => seal.compute(&note.sealed_parts()) == found,
            _ => false,
        };
        note
    }

    /// The contents of its file.
    pub(super) fn to_file_text(&self, seal: &NoteSeal) -> String {
        let head: String =
            self.header_fields().map(|(key, value)| format!("{key}: {value}\n")).collect();
        let (seal, text) = (seal.compute(&self.sealed_parts()), self.plain_text());
        format!("{FENCE}\n{head}{SEAL}: {seal}\n{FENCE}\n\n{text}\n")
    }

    /// The lines of its header.
    fn header_fields(&self) -> impl Iterator<Item = (&'static str, String)> {
        let NoteProvenance { saved, by, session, edited, .. } = &self.provenance;
        let time = |time: &Option<Timestamp>| time.map(|time| time.to_string());
        let lines = [
            ("saved", time(saved)),
            ("by", by.clone()),
            ("session", session.clone()),
            ("edited", time(edited)),
        ];
        lines.into_iter().filter_map(|(key, value)| Some((key, clean_value(&value?))))
    }

    /// The parts that its seal covers.
    fn sealed_parts(&self) -> Vec<String> {
        let head = self.header_fields().map(|(key, value)| format!("{key}: {value}"));
        let (name, text) = (self.name.to_string(), self.plain_text());
        [self.scope.as_str().to_owned(), name].into_iter().chain(head).chain([text]).collect()
    }

    /// Its text as written to the file.
    fn plain_text(&self) -> String {
        self.text.trim().replace("\r\n", "\n")
    }

    /// The beginning of its first line.
    pub fn first_line(&self, chars_max: usize) -> String {
        let line = self.text.lines().next().unwrap_or_default().trim_start_matches('#').trim();
        shorten_end(&zero_core::sanitize::to_line(line), chars_max)
    }

    /// Whether its name or text contains all words, ignoring case.
    pub fn contains_words(&self, words: &[String]) -> bool {
        let text = format!("{} {}", self.name, self.text).to_lowercase();
        words.iter().all(|word| text.contains(word.as_str()))
    }
}

/// The header of a file.
#[derive(Default)]
struct NoteHeader {
    provenance: NoteProvenance,
    seal: Option<String>,
}

/// Splits a file into its header and its text. Lines between fences that are no header are text of the
/// user.
fn split_header(file: &str) -> Option<(NoteHeader, &str)> {
    let mut rest = file.strip_prefix(FENCE)?;
    rest = rest.strip_prefix("\r\n").or_else(|| rest.strip_prefix('\n'))?;
    let NoteHeader { mut provenance, mut seal } = NoteHeader::default();
    for _ in 0..HEAD_LINES_MAX {
        let (line, after) = rest.split_once('\n')?;
        rest = after;
        let line = line.trim();
        if line == FENCE {
            return Some((NoteHeader { provenance, seal }, rest));
        }
        let (key, value) = line.split_once(':')?;
        let value = clean_value(value);
        match key.trim() {
            "saved" => provenance.saved = value.parse().ok(),
            "edited" => provenance.edited = value.parse().ok(),
            // Shown beside the note and not as a part of it, so it must not be free text.
            "by" => provenance.by = Some(value).filter(|by| by == "agent" || by == "person"),
            "session" => {
                provenance.session = Some(value).filter(|id| SessionId::new(id.as_str()).is_ok())
            }
            SEAL => seal = Some(value),
            _ => return None,
        }
    }
    None
}

/// A value on one line, without control characters.
fn clean_value(value: &str) -> String {
    let harmless =
        value.trim().chars().filter(|c| zero_core::sanitize::is_safe_char(*c) && *c != '\n');
    harmless.take(VALUE_CHARS_MAX).collect()
}
