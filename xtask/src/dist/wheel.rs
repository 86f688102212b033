//! The wheel for `uvx`, `pipx` and `pip`: the program and its files, and no Python.

use std::io::{Cursor, Write as _};

use anyhow::Result;
use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use sha2::{Digest as _, Sha256};
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, DateTime, ZipWriter};

use super::program_build::BuiltProgram;
use super::program_tree::{ProgramTree, TreeFile};
use super::release_info::{DESCRIPTION, LICENSE, PackingEffort, ReleaseFile, ReleaseInfo, SUMMARY};

/// The name in Python's package registry.
const NAME: &str = "zero";

pub(super) fn build(
    tree: &ProgramTree,
    program: &BuiltProgram,
    release: &ReleaseInfo,
) -> Result<ReleaseFile> {
    let version = &release.version;
    let glibc = program.glibc;
    let tag =
        format!("py3-none-manylinux_{}_{}_{}", glibc.major, glibc.minor, program.platform.wheel);
    let (data, info) = (format!("{NAME}-{version}.data"), format!("{NAME}-{version}.dist-info"));
    let mut files: Vec<TreeFile> = tree
        .files
        .iter()
        .map(|file| {
            let path = match file.path.strip_prefix("bin/") {
                Some(name) => format!("{data}/scripts/{name}"),
                None => format!("{data}/data/{}", file.path),
            };
            TreeFile { path, ..file.clone() }
        })
        .collect();
    files.push(TreeFile::text(
        &format!("{info}/WHEEL"),
        format!(
            "Wheel-Version: 1.0\nGenerator: cargo xtask dist\nRoot-Is-Purelib: false\nTag: {tag}\n"
        ),
    ));
    files.push(TreeFile::text(
        &format!("{info}/METADATA"),
        format!(
            "Metadata-Version: 2.4\nName: {NAME}\nVersion: {version}\nSummary: {SUMMARY}\nLicense-Expression: {LICENSE}\n\
             Requires-Python: >=3.7\nDescription-Content-Type: text/plain\n\n{DESCRIPTION}\n"
        ),
    ));
    let record_path = format!("{info}/RECORD");
    let record: String = files
        .iter()
        .map(|file| {
            let sum = BASE64_URL_SAFE_NO_PAD.encode(Sha256::digest(&file.content));
            format!("{},sha256={sum},{}\n", file.path, file.content.len())
        })
        .collect();
    files.push(TreeFile::text(&record_path, format!("{record}{record_path},,\n")));
    let name = format!("{NAME}-{version}-{tag}.whl");
    Ok(ReleaseFile::new(name, zip(&files, release.effort)?))
}

fn zip(files: &[TreeFile], effort: PackingEffort) -> Result<Vec<u8>> {
    let method = match effort {
        PackingEffort::Smallest => CompressionMethod::Deflated,
        #[cfg(test)]
        PackingEffort::Fastest => CompressionMethod::Stored,
    };
    let mut archive = ZipWriter::new(Cursor::new(Vec::new()));
    for file in files {
        let options = SimpleFileOptions::default()
            .compression_method(method)
            .last_modified_time(DateTime::default())
            .unix_permissions(file.mode);
        archive.start_file(file.path.as_str(), options)?;
        archive.write_all(&file.content)?;
    }
    Ok(archive.finish()?.into_inner())
}
