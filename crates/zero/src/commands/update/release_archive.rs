//! Unpacks the archive of a release within bounds, and puts it in the place of the installed one.
#![expect(
    clippy::disallowed_methods,
    reason = "zero's own program is in no workspace, and no call can reach it"
)]

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{Read as _, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Component, Path, PathBuf};

use anyhow::{Context as _, ensure};
use flate2::read::GzDecoder;

/// The program, which is replaced last.
const PROGRAM: &str = "bin/zero";
/// Most bytes of all files, and most files.
const UNPACKED_BYTES_MAX: u64 = 400 * 1024 * 1024;
const FILES_MAX: usize = 10_000;

/// Replaces the files below `prefix` with those of a verified archive. If it fails, the program that was there runs as
/// before.
pub(super) fn install(archive: &[u8], prefix: &Path) -> anyhow::Result<()> {
    let unchanged = || format!("zero in {} was not replaced", prefix.display());
    // Beside the program, so that files are renamed within one file system.
    let folder =
        tempfile::Builder::new().prefix(".zero-update.").tempdir_in(prefix).with_context(|| {
            format!(
                "{} cannot be written to; run the update as the user who installed zero",
                prefix.display()
            )
        })?;
    let files = unpack(archive, folder.path()).with_context(unchanged)?;
    ensure!(files.iter().any(|file| file == Path::new(PROGRAM)), "the archive has no {PROGRAM}");
    for file in files.iter().filter(|file| *file != Path::new(PROGRAM)) {
        replace(folder.path(), prefix, file).with_context(unchanged)?;
    }
    replace(folder.path(), prefix, Path::new(PROGRAM)).with_context(unchanged)
}

fn replace(from: &Path, prefix: &Path, file: &Path) -> anyhow::Result<()> {
    let target = prefix.join(file);
    let folder = target.parent().context("a file is in no folder")?;
    fs::create_dir_all(folder).with_context(|| format!("could not make {}", folder.display()))?;
    fs::rename(from.join(file), &target)
        .with_context(|| format!("could not replace {}", target.display()))?;
    // The name is on the disk before the next one is changed.
    File::open(folder)?.sync_all().with_context(|| format!("could not store {}", folder.display()))
}

/// Writes the files of an archive into a new folder, and returns their names.
fn unpack(archive: &[u8], folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let mut entries = tar::Archive::new(GzDecoder::new(archive).take(UNPACKED_BYTES_MAX));
    let mut files = Vec::new();
    for entry in entries.entries().context("could not read the archive")? {
        let mut entry = entry.context("could not read the archive")?;
        let path = entry.path()?.into_owned();
        if entry.header().entry_type().is_dir() {
            continue;
        }
        let is_inside = path.components().all(|part| matches!(part, Component::Normal(_)));
        ensure!(
            is_inside && entry.header().entry_type().is_file() && files.len() < FILES_MAX,
            "the archive has `{}`, which releases do not have",
            path.display()
        );
        let target = folder.join(&path);
        if let Some(parent) = target.parent() {
            fs::create_dir_all(parent)?;
        }
        let is_program = path == Path::new(PROGRAM);
        let mode = if is_program { 0o755 } else { 0o644 };
        let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(&target)?;
        std::io::copy(&mut entry, &mut file)
            .with_context(|| format!("could not unpack `{}`", path.display()))?;
        // Whatever the umask of the user: others on the machine may have been using it.
        file.set_permissions(Permissions::from_mode(mode))?;
        file.flush()?;
        file.sync_all().with_context(|| format!("could not store `{}`", path.display()))?;
        files.push(path);
    }
    Ok(files)
}

#[cfg(test)]
mod tests {
    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;

    fn archive(files: &[(&str, &str)]) -> Vec<u8> {
        let mut builder = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
        for (path, content) in files {
            let mut header = tar::Header::new_gnu();
            header.set_size(content.len() as u64);
            header.set_mode(0o644);
            // As an attacker writes it: the library refuses such names.
            header.as_gnu_mut().unwrap().name[..path.len()].copy_from_slice(path.as_bytes());
            header.set_cksum();
            builder.append(&header, content.as_bytes()).unwrap();
        }
        builder.into_inner().unwrap().finish().unwrap()
    }

    #[test]
    fn archive_replaces_files_and_leaves_nothing_else() {
        let prefix = tempfile::tempdir().unwrap();
        install(&archive(&[("bin/zero", "1"), ("share/a", "1")]), prefix.path()).unwrap();
        install(&archive(&[("bin/zero", "2"), ("share/a", "2")]), prefix.path()).unwrap();
        for name in ["bin/zero", "share/a"] {
            assert_eq!(fs::read_to_string(prefix.path().join(name)).unwrap(), "2");
        }
        let mode = fs::metadata(prefix.path().join(PROGRAM)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o755);
        assert_eq!(fs::read_dir(prefix.path()).unwrap().count(), 2);
    }

    #[test]
    fn bad_archive_changes_nothing() {
        let prefix = tempfile::tempdir().unwrap();
        install(&archive(&[("bin/zero", "1")]), prefix.path()).unwrap();
        let whole = archive(&[("share/a", "2"), ("bin/zero", "2")]);
        for (bad, expected) in [
            (archive(&[("../outside", "x"), ("bin/zero", "2")]), "releases do not have"),
            (archive(&[("/outside", "x"), ("bin/zero", "2")]), "releases do not have"),
            (archive(&[("share/a", "2")]), "has no bin/zero"),
            (whole[..whole.len() / 2].to_vec(), "was not replaced"),
            (b"not packed".to_vec(), "was not replaced"),
        ] {
            let error = format!("{:#}", install(&bad, prefix.path()).unwrap_err());
            assert!(error.contains(expected), "{expected} in {error}");
            assert_eq!(fs::read_to_string(prefix.path().join(PROGRAM)).unwrap(), "1");
            assert_eq!(fs::read_dir(prefix.path()).unwrap().count(), 1, "{error}");
        }
    }
}
