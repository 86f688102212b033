//! Reads from the index of a repository which folders are repositories of their own: git runs in
//! these too, whatever their depth and whether or not they are submodules. And which of its files
//! are settings that run code.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use zero_core::hexadecimal::to_hex;

use zero_sandbox::path_survey;

/// Most bytes of an index that is read; one with a million files is smaller.
const INDEX_BYTES_MAX: u64 = 256 << 20;
/// The mode of an entry that is a repository.
const GITLINK_MODE: u32 = 0o160_000;
/// The modes of all entries, without permission bits: files, links, repositories and folders that
/// are not checked out.
const ENTRY_TYPES: &[u32] = &[0o100_000, 0o120_000, GITLINK_MODE, 0o040_000];
const TYPE_BITS: u32 = 0o170_000;
/// The sizes of object names: of SHA-1 and of SHA-256, which the index itself does not tell.
const OBJECT_NAME_SIZES: &[usize] = &[20, 32];

/// Flags in the first byte of an entry's flags, and in the first byte of those that extend them.
const ASSUME_UNCHANGED_FLAG: u8 = 0x80;
const EXTENDED_FLAG: u8 = 0x40;
const SKIP_WORKTREE_FLAG: u8 = 0x40;
/// Most files that are kept whose changes `git status` does not show. A sparse checkout has that many.
const CONCEALED_MAX: usize = 100_000;

/// What matters in the index of a git folder. Paths are relative to the working folder.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct IndexSummary {
    /// The repositories that it lists.
    pub(crate) links: Vec<PathBuf>,
    /// The settings that it lists.
    pub(crate) settings: BTreeSet<StagedFile>,
    /// The files that git assumes to be unchanged.
    pub(crate) assumed_unchanged: ConcealedFiles,
    /// The files that git leaves out of the working folder, as a sparse checkout does.
    pub(crate) skipped: ConcealedFiles,
}

/// Files whose changes `git status` does not show.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct ConcealedFiles {
    /// The files, up to a bound.
    pub(crate) paths: BTreeSet<PathBuf>,
    /// The number of all such files.
    pub(crate) count: usize,
}

impl ConcealedFiles {
    fn insert(&mut self, path: &Path) {
        self.count += 1;
        if self.paths.len() < CONCEALED_MAX {
            self.paths.insert(path.to_owned());
        }
    }

    fn extend(&mut self, other: Self) {
        self.paths.extend(other.paths);
        self.count += other.count;
    }

    /// Whether all of them are in `paths`.
    pub(crate) fn is_complete(&self) -> bool {
        self.count == self.paths.len()
    }
}

/// A file that a repository holds.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct StagedFile {
    /// Its path, relative to the working folder.
    pub(crate) path: PathBuf,
    /// Its content, as the name of an object in hexadecimal.
    pub(crate) object: String,
}

/// Reads the index of a git folder. `is_setting` tells which files count as settings. `None` if the
/// index cannot be read as git reads it.
pub(super) fn read_index(git: &Path, is_setting: &dyn Fn(&Path) -> bool) -> Option<IndexSummary> {
    let path = git.join("index");
    if !path_survey::exists(&path) {
        return Some(IndexSummary::default());
    }
    let content = path_survey::read_small_file(&path, INDEX_BYTES_MAX)?;
    let ParsedIndex { mut summary, shared } = parse_index(&content, is_setting)?;
    if let Some(shared) = shared {
        let path = git.join(format!("sharedindex.{shared}"));
        let content = path_survey::read_small_file(&path, INDEX_BYTES_MAX)?;
        let shared = parse_index(&content, is_setting)?.summary;
        summary.links.extend(shared.links);
        summary.settings.extend(shared.settings);
        summary.assumed_unchanged.extend(shared.assumed_unchanged);
        summary.skipped.extend(shared.skipped);
    }
    Some(summary)
}

#[derive(Debug, Default, PartialEq, Eq)]
struct ParsedIndex {
    summary: IndexSummary,
    /// The name of another index that holds most entries of a split one.
    shared: Option<String>,
}

fn parse_index(content: &[u8], is_setting: &dyn Fn(&Path) -> bool) -> Option<ParsedIndex> {
    OBJECT_NAME_SIZES.iter().find_map(|size| parse_sized_index(content, *size, is_setting))
}

fn parse_sized_index(
    content: &[u8],
    name_size: usize,
    is_setting: &dyn Fn(&Path) -> bool,
) -> Option<ParsedIndex> {
    let mut reader = IndexReader { content, at: 0 };
    let is_index = reader.take(4)? == b"DIRC";
    let version = reader.read_u32()?;
    if !is_index || !(2..=4).contains(&version) {
        return None;
    }
    let mut index = ParsedIndex::default();
    let mut name = Vec::new();
    for _ in 0..reader.read_u32()? {
        let start = reader.at;
        // Two times, device and inode.
        reader.take(24)?;
        let mode = reader.read_u32()?;
        if !ENTRY_TYPES.contains(&(mode & TYPE_BITS)) {
            return None;
        }
        // Owner, group and size.
        reader.take(12)?;
        let object = reader.take(name_size)?;
        let flags = *reader.take(2)?.first()?;
        let is_extended = flags & EXTENDED_FLAG != 0;
        let more_flags = reader.take(if is_extended { 2 } else { 0 })?.first().copied();
        let is_skipped = more_flags.unwrap_or_default() & SKIP_WORKTREE_FLAG != 0;
        if version == 4 {
            let kept = name.len().checked_sub(reader.read_varint()?)?;
            name.truncate(kept);
        } else {
            name.clear();
        }
        name.extend_from_slice(reader.take_until_nul()?);
        if version < 4 {
            // One to eight bytes end the name, of which one was read.
            let length = reader.at - start;
            reader.take(length.next_multiple_of(8) - length)?;
        }
        let path = Path::new(OsStr::from_bytes(&name));
        if mode & TYPE_BITS == GITLINK_MODE && !name.is_empty() {
            index.summary.links.push(path.to_owned());
        }
        if flags & ASSUME_UNCHANGED_FLAG != 0 {
            index.summary.assumed_unchanged.insert(path);
        } else if is_skipped {
            index.summary.skipped.insert(path);
        }
        if is_setting(path) {
            let object = to_hex(object);
            index.summary.settings.insert(StagedFile { path: path.to_owned(), object });
        }
    }
    // Extensions, up to the checksum of the whole file.
    while reader.content.len() - reader.at > name_size {
        let kind = reader.take(4)?;
        let length = usize::try_from(reader.read_u32()?).ok()?;
        let data = reader.take(length)?;
        if kind == b"link" {
            let shared = to_hex(data.get(..name_size)?);
            // All zero: nothing is shared.
            index.shared = shared.bytes().any(|digit| digit != b'0').then_some(shared);
        }
    }
    (reader.content.len() - reader.at == name_size).then_some(index)
}

struct IndexReader<'a> {
    content: &'a [u8],
    at: usize,
}

impl<'a> IndexReader<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let end = self.at.checked_add(count)?;
        let taken = self.content.get(self.at..end)?;
        self.at = end;
        Some(taken)
    }

    fn read_u32(&mut self) -> Option<u32> {
        self.take(4)?.try_into().ok().map(u32::from_be_bytes)
    }

    /// Takes the bytes before the next NUL, and that NUL.
    fn take_until_nul(&mut self) -> Option<&'a [u8]> {
        let length = self.content.get(self.at..)?.iter().position(|byte| *byte == 0)?;
        let taken = self.take(length)?;
        self.take(1)?;
        Some(taken)
    }

    /// The number of bytes that a name does not share with the previous one.
    fn read_varint(&mut self) -> Option<usize> {
        let mut byte = *self.take(1)?.first()?;
        let mut value = usize::from(byte & 0x7f);
        while byte & 0x80 != 0 {
            byte = *self.take(1)?.first()?;
            value = value.checked_add(1)?.checked_mul(128)? | usize::from(byte & 0x7f);
        }
        Some(value)
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::disallowed_methods, reason = "the test runs git itself")]
    use super::*;

    fn is_setting(path: &Path) -> bool {
        path == Path::new("a")
    }

    fn run_git(folder: &Path, args: &[&str]) {
        let mut git = std::process::Command::new("git");
        git.args(args).current_dir(folder).env_clear().env("PATH", std::env::var("PATH").unwrap());
        let done = git.output().unwrap();
        assert!(done.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&done.stderr));
    }

    /// An index with one entry for each mode and name.
    fn make_index(name_size: usize, entries: &[(u32, &str)]) -> Vec<u8> {
        let mut bytes = b"DIRC\0\0\0\x02".to_vec();
        bytes.extend(u32::try_from(entries.len()).unwrap().to_be_bytes());
        for (mode, name) in entries {
            let mut entry = vec![1; 24];
            entry.extend(mode.to_be_bytes());
            entry.extend(vec![1; 12 + name_size]);
            entry.extend(u16::try_from(name.len()).unwrap().to_be_bytes());
            entry.extend(name.as_bytes());
            entry.resize((entry.len() + 1).next_multiple_of(8), 0);
            bytes.extend(entry);
        }
        bytes.extend(vec![1; name_size]);
        bytes
    }

    #[test]
    fn gitlinks_are_listed_for_both_object_names() {
        let entries = [(0o100_644, "a"), (GITLINK_MODE, "b/c"), (0o120_000, "long/name/d")];
        for name_size in [20, 32] {
            let index = make_index(name_size, &entries);
            let summary = parse_index(&index, &is_setting).unwrap().summary;
            assert_eq!(summary.links, [PathBuf::from("b/c")]);
            let setting = StagedFile { path: "a".into(), object: "01".repeat(name_size) };
            assert_eq!(summary.settings, BTreeSet::from([setting]));
            for end in 0..index.len() {
                assert_eq!(parse_sized_index(&index[..end], name_size, &is_setting), None, "{end}");
            }
        }
        let parse = |entries: &[(u32, &str)]| parse_index(&make_index(20, entries), &is_setting);
        assert_eq!(parse(&[]).unwrap(), ParsedIndex::default());
        assert_eq!(parse(&[(0, "a")]), None);
    }

    #[test]
    fn indexes_that_git_writes_are_read() {
        for (format, version) in [("sha1", "2"), ("sha1", "4"), ("sha256", "4"), ("sha256", "2")] {
            let temp = tempfile::tempdir().unwrap();
            let run = |args: &[&str]| run_git(temp.path(), args);
            run(&["init", "-q", "--object-format", format]);
            let commit = "1".repeat(if format == "sha1" { 40 } else { 64 });
            run(&["update-index", "--add", "--cacheinfo", &format!("160000,{commit},x/node/y")]);
            run(&["update-index", "--add", "--cacheinfo", &format!("100644,{commit},x/node/z")]);
            run(&["update-index", "--add", "--cacheinfo", &format!("160000,{commit},x/z")]);
            run(&["update-index", "--index-version", version]);
            let expected = ["x/node/y", "x/z"].map(PathBuf::from);
            let git = temp.path().join(".git");
            let links = || read_index(&git, &is_setting).unwrap().links;
            assert_eq!(links(), expected, "{format} {version}");
            run(&["update-index", "--split-index"]);
            let mut found = links();
            found.sort();
            found.dedup();
            assert_eq!(found, expected, "split {format} {version}");
        }
    }

    proptest::proptest! {
        #[test]
        fn any_change_of_an_index_is_survived(
            at in 0_usize..300,
            value in proptest::num::u8::ANY,
            size in proptest::sample::select(&[20_usize, 32][..]),
        ) {
            let entries = [(0o100_644, "a"), (GITLINK_MODE, "b/c"), (0o120_000, "long/name/d")];
            let mut index = make_index(size, &entries);
            if let Some(byte) = index.get_mut(at) {
                *byte = value;
            }
            parse_index(&index, &is_setting);
        }
    }
}
