//! Archives whose bytes depend on their files only: no time, owner or order of the machine.

use std::collections::BTreeSet;
use std::io::Write as _;

use anyhow::{Context, Result};
use flate2::{Compression, GzBuilder};

use super::platform::Platform;
use super::program_tree::{ProgramTree, TreeFile};
use super::release_info::{PackingEffort, ReleaseFile, ReleaseInfo};

/// Above it, unpacking needs more memory than small machines have.
const XZ_LEVEL: u32 = 8;

/// The archive that `install.sh` and `zero update` fetch.
pub(super) fn release_archive(
    tree: &ProgramTree,
    platform: &Platform,
    release: &ReleaseInfo,
) -> Result<ReleaseFile> {
    let name = format!("zero-{}-{}.tar.gz", release.version, platform.label);
    Ok(ReleaseFile::new(name, gzip(&tar("", &tree.files, release.time)?, release.effort)?))
}

/// A tar archive of files below `prefix`, in order, with the folders that they are in.
pub(super) fn tar(prefix: &str, files: &[TreeFile], time: u32) -> Result<Vec<u8>> {
    let mut builder = tar::Builder::new(Vec::new());
    builder.mode(tar::HeaderMode::Deterministic);
    let mut folders = BTreeSet::new();
    let mut sorted: Vec<(String, &TreeFile)> =
        files.iter().map(|file| (format!("{prefix}{}", file.path), file)).collect();
    sorted.sort_by(|a, b| a.0.cmp(&b.0));
    for (path, file) in sorted {
        for (at, _) in path.match_indices('/').filter(|(at, _)| !matches!(&path[..*at], "" | ".")) {
            if folders.insert(path[..=at].to_owned()) {
                let mut header = header(time, 0o755, 0);
                header.set_entry_type(tar::EntryType::Directory);
                builder.append_data(&mut header, &path[..=at], &[][..])?;
            }
        }
        let mut header = header(time, file.mode, file.content.len());
        builder.append_data(&mut header, &path, &file.content[..])?;
    }
    builder.into_inner().context("could not write an archive")
}

fn header(time: u32, mode: u32, size: usize) -> tar::Header {
    let mut header = tar::Header::new_gnu();
    header.set_mtime(u64::from(time));
    header.set_mode(mode);
    header.set_size(size as u64);
    header.set_uid(0);
    header.set_gid(0);
    // Names that every system has: dpkg takes them before the numbers.
    let _ = header.set_username("root").and_then(|()| header.set_groupname("root"));
    header
}

/// Packs with gzip, without name and time.
pub(super) fn gzip(content: &[u8], effort: PackingEffort) -> Result<Vec<u8>> {
    let level = match effort {
        PackingEffort::Smallest => Compression::best(),
        #[cfg(test)]
        PackingEffort::Fastest => Compression::fast(),
    };
    let mut encoder = GzBuilder::new().mtime(0).operating_system(255).write(Vec::new(), level);
    encoder.write_all(content)?;
    Ok(encoder.finish()?)
}

/// Packs with xz on one thread: with more, the bytes depend on their number.
pub(super) fn xz(content: &[u8]) -> Result<Vec<u8>> {
    let mut encoder = liblzma::write::XzEncoder::new(Vec::new(), XZ_LEVEL);
    encoder.write_all(content)?;
    Ok(encoder.finish()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_of_files_does_not_change_archive() {
        let file = |path: &str| TreeFile::text(path, "text");
        let (a, b) = (file("b/a"), file("a"));
        let one = tar("", &[a.clone(), b.clone()], 7).unwrap();
        assert_eq!(one, tar("", &[b, a], 7).unwrap());
        let mut archive = tar::Archive::new(&one[..]);
        let paths: Vec<String> = archive
            .entries()
            .unwrap()
            .map(|entry| entry.unwrap().path().unwrap().display().to_string())
            .collect();
        assert_eq!(paths, ["a", "b/", "b/a"]);
    }
}
